// Blocks of squared RMSDs.
//
//     frames of b, in panels                   one row of a
//     panel[p][3k + axis][lane]                row[i][3k + axis]
//               │                                   │
//               └──────────► nine sums ◄────────────┘      M = sum of a_k b_kᵀ, nine vector registers
//                               │
//                         work[0..8][slot]                 one slot = one row against one panel
//                               │
//                   largest root of the quartic            every lane the same fixed steps
//                               │
//                  doubtful lanes ──► float64, then Jacobi (mirror-like pairs, a few in a thousand)
//                               │
//                    d² = G_a + G_b - 2 s_a s_b lambda
//
// The root and why no cut of a block shows: see quartic.h.
#include "binding.h"
#include "panels.h"
#include "quartic.h"
#include "rows.h"

namespace ldmaps {
namespace {

template <class Real>
struct Frames {
    Cube<const Real> panels;
    Matrix<const Real> moments;
    Index start, stop;

    Index count() const { return stop - start; }
};

template <class Real>
void fill_block(const Frames<Real>& a, const Frames<Real>& b, Matrix<Real> out) {
    constexpr Index lanes = PANEL_LANES<Real>;
    constexpr Real rounding = Real(ROUNDING) * std::numeric_limits<Real>::epsilon();
    const Index n_rows = a.count(), n_cols = b.count();
    const Index first_panel = b.start / lanes, last_panel = (b.stop + lanes - 1) / lanes;
    const Index depth = b.panels.shape(1);
    WorkOf<Real> work;
    const Scratch<Real> row_memory(std::min(n_rows, SLOTS) * depth);
    const Matrix<Real> rows = row_memory.matrix(std::min(n_rows, SLOTS), depth);
    const Real* norms = b.moments[SQUARED_NORM].data();
    const Real* scales = b.moments[SCALE].data();
    const Real* areas = b.moments[AREA].data();
    for (Index top = 0; top < n_rows; top += SLOTS) {
        const Index height = std::min(SLOTS, n_rows - top);
        const Index row = a.start + top;
        copy_rows<Real>(a.panels, row, rows, height);
        const Index panels_per_pass = SLOTS / height;
        for (Index panel = first_panel; panel < last_panel; panel += panels_per_pass) {
            const Index width = std::min(panels_per_pass, last_panel - panel);
            fill_sums<Real>(rows, height, b.panels, panel, width, work);
            // In the order of their sums.
            const auto for_slots = [=](auto function) {
                for (Index slot = 0; slot < width * height; ++slot)
                    function(slot, panel + slot / height, slot % height);
            };
            for_slots([&](Index slot, Index p, Index i) {
                const Real area = a.moments(AREA, row + i);
                for (Index lane = 0; lane < lanes; ++lane) {
                    work.rows[BOUND][slot * lanes + lane] = area * areas[p * lanes + lane];
                }
            });
            const Index n_lanes = width * height * lanes;
            settle_roots(work, n_lanes);
            for_slots([&](Index slot, Index p, Index i) {
                const Index col = p * lanes - b.start;
                const bool whole = col >= 0 && col + lanes <= n_cols;
                const Real norm = a.moments(SQUARED_NORM, row + i), scale = a.moments(SCALE, row + i) * Real(-2);
                const Real* lambda = work.rows[ROOT] + slot * lanes;
                Real* target = out[top + i].data() + col;
                Real spill[lanes];
                Real* squared = whole ? target : spill;
                for (Index lane = 0; lane < lanes; ++lane) {
                    const Real both = norm + norms[p * lanes + lane];
                    const Real value = fused(scale * scales[p * lanes + lane], lambda[lane], both);
                    squared[lane] = value > both * rounding ? value : Real(0);
                }
                if (whole) return;
                for (Index lane = std::max(Index(0), -col); lane < std::min(lanes, n_cols - col); ++lane) {
                    target[lane] = spill[lane];
                }
            });
        }
    }
}

// Write d² of the given rows of a and columns of b; see above.
template <class Real>
void squared_rmsd(Cube<const Real> panels_a, Matrix<const Real> moments_a, Index row_start, Index row_stop,
                  Cube<const Real> panels_b, Matrix<const Real> moments_b, Index col_start, Index col_stop,
                  Matrix<Real> out) {
    const Frames<Real> a{panels_a, moments_a, row_start, row_stop}, b{panels_b, moments_b, col_start, col_stop};
    if (b.count() >= PANEL_LANES<Real> || a.count() < PANEL_LANES<Real>) {
        fill_block(a, b, out);
        return;
    }
    // Columns stand side by side in the lanes of a register, which a handful of landmarks would leave empty. Exchanged,
    // frames fill them; d² is the same number either way, bit by bit.
    const Scratch<Real> memory(out.size());
    const Matrix<Real> turned = memory.matrix(b.count(), a.count());
    fill_block(b, a, turned);
    for (Index i = 0; i < a.count(); ++i) {
        for (Index j = 0; j < b.count(); ++j) out(i, j) = turned(j, i);
    }
}
KERNEL(squared_rmsd,
       "panels_a[p,d=3..,l=PANEL_BYTES/itemsize] moments_a[MOMENTS,n=p*l] row_start=0..n row_stop=row_start..n "
       "panels_b[q,d,l] moments_b[MOMENTS,m=q*l] col_start=0..m col_stop=col_start..m "
       "out[row_stop-row_start,col_stop-col_start]")

// Write the sum over j of w_j d(x_i, x_j) within each group of consecutive frames; memory for one group's block.
template <class Real>
void rmsd_group_sums(Cube<const Real> panels, Matrix<const Real> moments, Row<const Index> bounds,
                     Row<const double> weights, Row<double> sums) {
    for (Index group = 0; group + 1 < bounds.size(); ++group) {
        const Frames<Real> members{panels, moments, bounds[group], bounds[group + 1]};
        const Scratch<Real> memory(members.count() * members.count());
        const Matrix<Real> block = memory.matrix(members.count(), members.count());
        fill_block(members, members, block);
        distance_sums<Real>(block, weights.slice(members.start, members.stop), sums.slice(members.start, members.stop));
    }
}
KERNEL(rmsd_group_sums,
       "panels[p,d=3..,l=PANEL_BYTES/itemsize] moments[MOMENTS,p*l] bounds[g]=0..n,rising weights[n=..p*l] sums[n]")

// RMSDs over all atoms after the best superposition of some; float64 throughout, whatever `out` is.
template <class Real>
void squared_rmsd_aligned(Cube<const double> panels_a, Cube<const double> fit_panels_a, Matrix<const double> moments_a,
                          Index row_start, Index row_stop, Cube<const double> panels_b, Cube<const double> fit_panels_b,
                          Matrix<const double> moments_b, Index col_start, Index col_stop, Matrix<Real> out) {
    constexpr Index lanes = PANEL_LANES<double>;
    // Sums over all atoms and a rotation from a few of them: float64 is off by tens of roundings where atoms are many.
    constexpr double rounding = sizeof(Real) == 4 ? ROUNDING * double(std::numeric_limits<float>::epsilon())
                                                  : 256.0 * std::numeric_limits<double>::epsilon();
    WorkOf<double> work, fit;
    const Scratch<double> memory(panels_b.shape(1)), fit_memory(fit_panels_b.shape(1));
    const Matrix<double> rows = memory.matrix(1, panels_b.shape(1));
    const Matrix<double> fit_rows = fit_memory.matrix(1, fit_panels_b.shape(1));
    const Index first_panel = col_start / lanes, last_panel = (col_stop + lanes - 1) / lanes;
    for (Index i = 0; i < row_stop - row_start; ++i) {
        copy_rows<double>(panels_a, row_start + i, rows, 1);
        copy_rows<double>(fit_panels_a, row_start + i, fit_rows, 1);
        for (Index panel = first_panel; panel < last_panel; panel += SLOTS) {
            const Index width = std::min(SLOTS, last_panel - panel);
            fill_sums<double>(rows, 1, panels_b, panel, width, work);
            fill_sums<double>(fit_rows, 1, fit_panels_b, panel, width, fit);
            const Index stop = std::min(col_stop, (panel + width) * lanes);
            for (Index col = std::max(col_start, panel * lanes); col < stop; ++col) {
                const Index at = col - panel * lanes;
                Matrix3 m, rotation;
                load_matrix(fit, at, m);
                best_rotation(m, rotation);
                double trace = 0.0;
                for (int p = 0; p < 9; ++p) trace += rotation[p / 3][p % 3] * work.rows[p][at];
                const double norms = moments_a(SQUARED_NORM, row_start + i) + moments_b(SQUARED_NORM, col);
                const double squared = norms - 2.0 * trace;
                out(i, col - col_start) = static_cast<Real>(squared > rounding * norms ? squared : 0.0);
            }
        }
    }
}
KERNEL(squared_rmsd_aligned,
       "panels_a[p,d=3..,l=PANEL_BYTES/itemsize] fit_panels_a[p,f=3..,l] moments_a[s=1..,n=p*l] row_start=0..n "
       "row_stop=row_start..n panels_b[q,d,l] fit_panels_b[q,f,l] moments_b[t=1..,m=q*l] col_start=0..m "
       "col_stop=col_start..m out[row_stop-row_start,col_stop-col_start]")

}  // namespace
}  // namespace ldmaps
