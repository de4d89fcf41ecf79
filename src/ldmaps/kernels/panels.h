// Frames in panels: as many side by side as fit into 32 bytes, so that one register holds a coordinate of all of them.
//
//     panel[p][3k + axis][lane]
//
// Frames are stored centred, times sqrt(w_i / sum of w), turned to their own principal axes, and divided by their norm
// s. So d² needs no division, nothing overflows whatever the unit of length, errors are relative to s_a s_b, and the
// entries of M = sum of a_k b_kᵀ are graded, |M_ij| <= sigma_i(a) sigma_j(b) with sigma the semi-axes of a frame, which
// keeps the *relative* accuracy of small cofactors and determinants.
#pragma once

#include "vectors.h"

namespace ldmaps {

// Bytes of one row of a panel.
constexpr Index PANEL_BYTES = 32;
template <class Real>
constexpr Index PANEL_LANES = PANEL_BYTES / Index(sizeof(Real));

// Rows of the moments of frames: the squared norm G, its root s, and the square root of the sum over i < j of
// sigma_i² sigma_j² after division by s.
enum Moment : Index { SQUARED_NORM, SCALE, AREA, MOMENTS };

// Atoms summed in registers before partial sums are added up: bounds rounding and cache footprint.
constexpr Index ATOM_BLOCK = 64;

// A difference G_a + G_b - 2 s_a s_b lambda of no more than so many roundings of G_a + G_b counts as 0. Copies of a
// frame, turned and moved, give up to 2.5.
constexpr double ROUNDING = 4.0;

// Slots of one pass, each one row against one panel: their sums take 12 KB, which leaves most of a 32 KB cache to the
// frames.
constexpr Index SLOTS = 32;
// Rows of the work array: the nine entries of M, a bound of its cofactors, what the quartic is made of, its largest
// root, and whether that is in doubt.
enum Work : Index { BOUND = 9, SQUARE, COFACTORS, DETERMINANT, NOISE, ROOT, SECOND, DOUBT, WORK_ROWS };

template <class Real>
struct WorkOf {
    static constexpr Index WIDTH = SLOTS * PANEL_LANES<Real>;
    alignas(64) Real rows[WORK_ROWS][WIDTH];
};

// Write consecutive frames out of their panels, one to a row.
template <class Real>
void copy_rows(Cube<const Real> panels, Index first, Matrix<Real> rows, Index n_rows) {
    constexpr Index lanes = PANEL_LANES<Real>;
    for (Index i = 0; i < n_rows; ++i) {
        const Real* panel = panels[(first + i) / lanes].data() + (first + i) % lanes;
        Real* row = rows[i].data();
        for (Index k = 0; k < rows.shape(1); ++k) row[k] = panel[k * lanes];
    }
}

// The loop that costs the most: M of one row against one panel, in nine registers.
template <class Real>
inline void add_nine_sums(const Real* row, const Real* panel, Index n_atoms, WorkOf<Real>& work, Index slot,
                          bool is_first) {
    constexpr Index lanes = PANEL_LANES<Real>;
    // Where registers are narrower than a panel, it is taken in two.
    for (Index lane = 0; lane < lanes; lane += LANES<Real>) {
        Lanes<Real> sums[9] = {};
        for (Index k = 0; k < n_atoms; ++k) {
            const Real* here = panel + 3 * k * lanes + lane;
#pragma GCC unroll 9
            for (int entry = 0; entry < 9; ++entry) {
                const auto left = spread<Lanes<Real>>(row[3 * k + entry / 3]);
                sums[entry] = fused(left, load<Lanes<Real>>(here + entry % 3 * lanes), sums[entry]);
            }
        }
        for (int entry = 0; entry < 9; ++entry) {
            Real* place = work.rows[entry] + slot * lanes + lane;
            store(is_first ? sums[entry] : load<Lanes<Real>>(place) + sums[entry], place);
        }
    }
}

// Write M of every row against every panel, slot by slot, atoms in blocks.
template <class Real>
void fill_sums(Matrix<const Real> rows, Index n_rows, Cube<const Real> panels, Index first_panel, Index n_panels,
               WorkOf<Real>& work) {
    constexpr Index lanes = PANEL_LANES<Real>;
    const Index n_atoms = panels.shape(1) / 3;
    for (Index start = 0; start < n_atoms; start += ATOM_BLOCK) {
        const Index count = std::min(ATOM_BLOCK, n_atoms - start);
        Index slot = 0;
        for (Index p = first_panel; p < first_panel + n_panels; ++p) {
            const Real* panel = panels[p].data() + 3 * start * lanes;
            for (Index i = 0; i < n_rows; ++i, ++slot) {
                add_nine_sums(rows[i].data() + 3 * start, panel, count, work, slot, start == 0);
            }
        }
    }
}

}  // namespace ldmaps
