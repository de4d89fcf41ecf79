// Frames as they come, side by side in the lanes of registers, a frame to a lane:
//
//     frame[lane][3k + axis] ──turned──► rows[3k + axis][lane] ──centred, weighed──► the same place
//                                                │
//     panel[p][3k + axis][landmark]  ────────────┴─► nine sums per landmark, for all frames at once
//
// Nothing else is prepared. Landmarks (see panels.h) are turned to their own axes and divided by their norms; a frame
// is not: its own axes would keep small cofactors accurate, but what rounding does to M changes the sum of its singular
// values by no more than itself, so their only effect is that fewer roots are in doubt.
//
// A frame that comes alone is measured from the landmarks in the lanes of a panel instead. Every sum has the same terms
// in the same order either way, so not a bit shows how many frames came together.
#pragma once

#include "online.h"
#include "quartic.h"

namespace ldmaps {

// Landmarks whose sums stay in registers, nine of each.
template <class Real>
constexpr int LANDMARKS_AT_ONCE = WIDE_BYTES == 64 ? 2 : 1;
// Sums along the atoms: four per axis, so that additions need not wait for each other.
constexpr Index SUMS = 12;

// A difference G_a + G_b - 2 s_a s_b lambda of no more than so many roundings of G_a + G_b counts as 0. Copies of a
// landmark, turned and moved, give up to 5.
constexpr double ROUNDING_AS_GIVEN = 8.0;

// Twelve sums over the numbers of frames, number p to that of p modulo 12, atoms in blocks: bounds rounding.
// `add(atom, axis, sum)`.
template <class Side, class Add>
inline void sum_in_blocks(Index n_atoms, Side (&totals)[SUMS], Add add) {
    for (Index start = 0; start < n_atoms; start += ATOM_BLOCK) {
        const Index stop = std::min(n_atoms, start + ATOM_BLOCK);
        Side sums[SUMS] = {};
        Index k = start;
        for (; k + 4 <= stop; k += 4) {
#pragma GCC unroll 12
            for (Index q = 0; q < SUMS; ++q) sums[q] = add(k + q / 3, q % 3, sums[q]);
        }
        for (Index q = 0; k < stop; ++k, q += 3) {
#pragma GCC unroll 3
            for (Index axis = 0; axis < 3; ++axis) sums[q + axis] = add(k, axis, sums[q + axis]);
        }
#pragma GCC unroll 12
        for (Index q = 0; q < SUMS; ++q) totals[q] = totals[q] + sums[q];
    }
}

// Centre and weigh frames, rows of which are `Stride` numbers apart; returns their squared norms. `weights` of the
// atoms are the squares of `roots`, to rounding.
template <class Side, Index Stride, class Real>
inline Side centre_and_weigh(const Real* given, Index n_atoms, const Real* weights, const Real* roots, Real* rows) {
    // Relative to the first atom, because differences of nearby numbers are exact.
    const Side origin[3] = {side_at<Side>(given), side_at<Side>(given + Stride), side_at<Side>(given + 2 * Stride)};
    const auto place = [](Index k, Index axis) { return (3 * k + axis) * Stride; };
    Side sums[SUMS] = {}, squares[SUMS] = {}, centre[3];
    sum_in_blocks(n_atoms, sums, [=](Index k, Index axis, Side sum) {
        return fused(spread<Side>(weights[k]), side_at<Side>(given + place(k, axis)) - origin[axis], sum);
    });
    for (Index axis = 0; axis < 3; ++axis) {
        centre[axis] = (sums[axis] + sums[3 + axis]) + (sums[6 + axis] + sums[9 + axis]);
    }
    sum_in_blocks(n_atoms, squares, [=](Index k, Index axis, Side sum) {
        const Side x = (side_at<Side>(given + place(k, axis)) - origin[axis]) - centre[axis];
        const Side weighed = x * spread<Side>(roots[k]);
        put_side(weighed, rows + place(k, axis));
        return fused(weighed, weighed, sum);
    });
    for (Index q = 0; q < SUMS / 2; ++q) squares[q] = squares[q] + squares[q + SUMS / 2];
    return ((squares[0] + squares[1]) + squares[2]) + ((squares[3] + squares[4]) + squares[5]);
}

// Add to, or begin, M of frames in rows and `Landmarks` of a panel, from a lane on.
template <int Landmarks, class Real>
inline void add_sums_beside(const Real* rows, const Real* panel, Index n_atoms, WorkOf<Real>& work, Index place,
                            bool is_first) {
    constexpr Index lanes = PANEL_LANES<Real>;
    using Side = Beside<Real>;
    for (Index lane = 0; lane < SIDE_BY_SIDE; lane += BESIDE<Real>) {
        Side sums[Landmarks][9] = {};
        for (Index k = 0; k < n_atoms; ++k) {
            Side x[3];
#pragma GCC unroll 3
            for (int axis = 0; axis < 3; ++axis) x[axis] = load<Side>(rows + (3 * k + axis) * SIDE_BY_SIDE + lane);
#pragma GCC unroll 2
            for (int j = 0; j < Landmarks; ++j) {
#pragma GCC unroll 9
                for (int entry = 0; entry < 9; ++entry) {
                    const Side z = spread<Side>(panel[(3 * k + entry % 3) * lanes + j]);
                    sums[j][entry] = fused(x[entry / 3], z, sums[j][entry]);
                }
            }
        }
        for (int j = 0; j < Landmarks; ++j) {
            for (int entry = 0; entry < 9; ++entry) {
                Real* to = work.rows[entry] + place + j * SIDE_BY_SIDE + lane;
                store(is_first ? sums[j][entry] : load<Side>(to) + sums[j][entry], to);
            }
        }
    }
}

// Measures frames as they come from landmarks in panels: see `measure_points` in online.h. What counts is finite where
// four times each squared norm is, which no d² exceeds, and all atoms that do not count are.
template <class Given, class Real>
class FrameLanes {
public:
    // Landmarks that are measured before roots are found.
    static constexpr Index PER_PASS = WorkOf<Real>::WIDTH / SIDE_BY_SIDE;

    FrameLanes(Index n_atoms, Row<const Index> kept, Row<const double> root_weights, Cube<const Real> panels,
               Matrix<const Real> moments)
        : kept_(kept),
          panels_(panels),
          moments_(moments),
          given_size_(3 * n_atoms),
          size_(3 * kept.size()),
          is_chosen_(!std::is_same_v<Given, Real> || kept.size() < n_atoms || size_ < QUARTET),
          weights_(kept.size()),
          roots_(kept.size()),
          rows_(size_ * SIDE_BY_SIDE),
          chosen_(is_chosen_ ? room() * SIDE_BY_SIDE : 0, Real(0)) {
        for (Index k = 0; k < kept.size(); ++k) {
            roots_[k] = static_cast<Real>(root_weights[k]);
            weights_[k] = static_cast<Real>(root_weights[k] * root_weights[k]);
        }
    }

    // Centre and weigh up to SIDE_BY_SIDE frames; lanes beyond the last repeat it.
    bool prepare(const Given* frames, Index count) {
        using Side = Beside<Real>;
        bool is_finite = true;
        const Real* begins[SIDE_BY_SIDE];
        const Real* upcoming = rows_.data();
        if (is_chosen_) {
            for (Index f = 0; f < count; ++f) {
                is_finite &= choose(frames + f * given_size_, chosen_.data() + f * room());
            }
            for (Index f = 0; f < SIDE_BY_SIDE; ++f) begins[f] = chosen_.data() + std::min(f, count - 1) * room();
        } else if constexpr (std::is_same_v<Given, Real>) {
            for (Index f = 0; f < SIDE_BY_SIDE; ++f) begins[f] = frames + std::min(f, count - 1) * given_size_;
            upcoming = frames + SIDE_BY_SIDE * given_size_;
        }
        if (size_ >= QUARTET) {
            turn_rows(begins, size_, upcoming, rows_.data());
        } else {
            for (Index p = 0; p < size_ * SIDE_BY_SIDE; ++p) rows_[p] = begins[p % SIDE_BY_SIDE][p / SIDE_BY_SIDE];
        }
        for (Index lane = 0; lane < SIDE_BY_SIDE; lane += BESIDE<Real>) {
            Real* rows = rows_.data() + lane;
            store(centre_and_weigh<Side, SIDE_BY_SIDE>(rows, kept_.size(), weights_.data(), roots_.data(), rows),
                  norms_ + lane);
        }
        return settle_scales(SIDE_BY_SIDE) && is_finite;
    }

    // Write d² of the prepared frames to landmarks `begin` to before `stop`, a landmark to a row of `squares`.
    void measure_some(Index begin, Index stop, Real (*squares)[SIDE_BY_SIDE]) {
        constexpr Index lanes = PANEL_LANES<Real>, most = LANDMARKS_AT_ONCE<Real>;
        const Index n_atoms = kept_.size();
        for (Index start = 0; start < n_atoms; start += ATOM_BLOCK) {
            const Index count = std::min(ATOM_BLOCK, n_atoms - start);
            const Real* rows = rows_.data() + 3 * start * SIDE_BY_SIDE;
            const auto panel = [&](Index j) { return panels_[j / lanes].data() + 3 * start * lanes + j % lanes; };
            Index j = begin;
            for (; j + most <= stop; j += most) {
                add_sums_beside<most>(rows, panel(j), count, work_, (j - begin) * SIDE_BY_SIDE, start == 0);
            }
            for (; j < stop; ++j) {
                add_sums_beside<1>(rows, panel(j), count, work_, (j - begin) * SIDE_BY_SIDE, start == 0);
            }
        }
        for (Index j = begin; j < stop; ++j) {
            const Index place = (j - begin) * SIDE_BY_SIDE;
            const Real bound = bound_of(j);
            for (int entry = 0; entry < 9; ++entry) {
                Real* own = work_.rows[entry] + place;
#pragma omp simd
                for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) own[lane] *= factors_[lane];
            }
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) work_.rows[BOUND][place + lane] = bound;
        }
        settle_roots(work_, (stop - begin) * SIDE_BY_SIDE);
        for (Index j = begin; j < stop; ++j) {
            const Real norm = moments_(SQUARED_NORM, j), scale = moments_(SCALE, j);
            const Real* lambda = work_.rows[ROOT] + (j - begin) * SIDE_BY_SIDE;
            Real* own = squares[j - begin];
#pragma omp simd
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
                own[lane] = squared(norms_[lane], scales_[lane], norm, scale, lambda[lane]);
            }
        }
    }

    // Write d² of one frame to all landmarks.
    bool measure_alone(const Given* frame, Real* row) {
        constexpr Index lanes = PANEL_LANES<Real>;
        const Real* chosen = chosen_.data();
        bool is_finite = true;
        if (is_chosen_) {
            is_finite = choose(frame, chosen_.data());
        } else if constexpr (std::is_same_v<Given, Real>) {
            chosen = frame;
        }
        norms_[0] = centre_and_weigh<Real, 1>(chosen, kept_.size(), weights_.data(), roots_.data(), rows_.data());
        if (!settle_scales(1) || !is_finite) return false;
        const Index n_panels = panels_.shape(0);
        for (Index first = 0; first < n_panels; first += SLOTS) {
            const Index count = std::min(SLOTS, n_panels - first), n_lanes = count * lanes, start = first * lanes;
            fill_sums<Real>(rows_.matrix(1, size_), 1, panels_, first, count, work_);
            for (int entry = 0; entry < 9; ++entry) {
                Real* own = work_.rows[entry];
#pragma omp simd
                for (Index lane = 0; lane < n_lanes; ++lane) own[lane] *= factors_[0];
            }
            for (Index lane = 0; lane < n_lanes; ++lane) work_.rows[BOUND][lane] = bound_of(start + lane);
            settle_roots(work_, n_lanes);
            const Real *norms = moments_[SQUARED_NORM].data() + start, *scales = moments_[SCALE].data() + start;
#pragma omp simd
            for (Index lane = 0; lane < n_lanes; ++lane) {
                row[start + lane] = squared(norms_[0], scales_[0], norms[lane], scales[lane], work_.rows[ROOT][lane]);
            }
        }
        return true;
    }

private:
    // For the numbers of one frame that are chosen.
    Index room() const { return std::max(size_, QUARTET); }

    // The numbers of atoms that count, in the landmarks' precision. Returns whether all numbers are finite; those of
    // atoms that count may also be found out later.
    bool choose(const Given* frame, Real* to) const {
        // Relative to the first atom before anything is rounded.
        const Given* origin = frame + 3 * kept_[0];
        for (Index k = 0; k < kept_.size(); ++k) {
            for (int axis = 0; axis < 3; ++axis) {
                const Given x = frame[3 * kept_[k] + axis];
                to[3 * k + axis] =
                    std::is_same_v<Given, Real> ? Real(x) : static_cast<Real>(double(x) - double(origin[axis]));
            }
        }
        if (size_ == given_size_) return true;
        Given nothing = 0;
#pragma omp simd reduction(+ : nothing)
        for (Index p = 0; p < given_size_; ++p) nothing += frame[p] * Given(0);
        return nothing == Given(0);
    }

    // Write norms and their inverses. Returns whether four times each squared norm is finite.
    bool settle_scales(Index n_lanes) {
        std::int32_t n_wrong = 0;
#pragma omp simd reduction(+ : n_wrong)
        for (Index lane = 0; lane < n_lanes; ++lane) {
            const Real norm = norms_[lane], scale = norm > 0 ? std::sqrt(norm) : Real(1);
            scales_[lane] = scale, factors_[lane] = Real(1) / scale;
            n_wrong += Real(4) * norm <= std::numeric_limits<Real>::max() ? 0 : 1;
        }
        return n_wrong == 0;
    }

    // Of two different columns of M, entries are no more than half of the landmark's area: see quartic.h.
    Real bound_of(Index landmark) const { return Real(0.5) * moments_(AREA, landmark); }

    static Real squared(Real norm, Real scale, Real other_norm, Real other_scale, Real lambda) {
        constexpr Real rounding = Real(ROUNDING_AS_GIVEN) * std::numeric_limits<Real>::epsilon();
        const Real both = norm + other_norm;
        const Real value = fused((scale * Real(-2)) * other_scale, lambda, both);
        return value > both * rounding ? value : Real(0);
    }

    Row<const Index> kept_;
    Cube<const Real> panels_;
    Matrix<const Real> moments_;
    Index given_size_, size_;  // numbers of a frame, and of its atoms that count
    bool is_chosen_;           // whether frames are copied before they are turned
    Scratch<Real> weights_, roots_, rows_, chosen_;
    alignas(64) Real norms_[SIDE_BY_SIDE], scales_[SIDE_BY_SIDE], factors_[SIDE_BY_SIDE];
    WorkOf<Real> work_;
};

}  // namespace ldmaps
