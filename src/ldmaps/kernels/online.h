// The online step: from squared distances to the landmarks to coordinates w(x)·B.
//
// The nearest landmark's d² is subtracted inside the exponential: it cancels in the normalised weights, and a point far
// from all landmarks does not become 0/0. Coefficients are B transposed, (k, M), so that every sum runs over contiguous
// memory.
#pragma once

#include "rows.h"
#include "side_by_side.h"

namespace ldmaps {

// Landmarks up to which points are embedded side by side: as many as one block, so that there is none to skip.
constexpr Index FEW = BLOCK;

// Embeds points by their squared distances to the landmarks: w(x)·B, the nearest landmark and its d².
template <class Real>
struct Online {
    Real rate;
    Row<const Real> weights;
    Matrix<const Real> coefficients;  // B transposed
    Matrix<Real> coordinates;
    Row<Index> nearest;
    Row<Real> lowest;
    // Partial sums of the weights, and of each coordinate.
    Scratch<double> memory{(coefficients.shape(0) + 1) * PARTIAL};

    // Embed point i by its row of d² and the lowest of each block. Blocks too far to matter are not read, so nothing
    // need stand there.
    void embed(Index i, Row<const Real> row, Row<const Real> lows) const {
        const Index closest = std::min_element(lows.data(), lows.data() + lows.size()) - lows.data();
        const Real low = lows[closest], reach = low + negligible<Real>() / rate;
        const Index first = closest * BLOCK, n_coordinates = coefficients.shape(0);
        nearest[i] = first + first_equal<Real>(row.slice(first, first + BLOCK), low);
        lowest[i] = low;
        if (n_coordinates == 0) return;
        const Matrix<double> partial = memory.matrix(n_coordinates + 1, PARTIAL);
        partial.fill(0.0);
        for (Index block = 0; block < lows.size(); ++block) {
            if (lows[block] > reach) continue;
            const Index start = block * BLOCK;
            const Index n = std::min(BLOCK, row.size() - start);
            const Real *squares = row.data() + start, *factors = weights.data() + start;
            alignas(64) double shares[BLOCK];
#pragma omp simd
            for (Index j = 0; j < n; ++j) shares[j] = exp_negative(rate * (low - squares[j])) * factors[j];
            add_terms(n, partial[0].data(), plain_terms(shares));
            for (Index k = 0; k < n_coordinates; ++k) {
                add_terms(n, partial[k + 1].data(), weighted_terms(shares, coefficients[k].data() + start));
            }
        }
        const double total = total_of_partial(partial[0].data());
        for (Index k = 0; k < n_coordinates; ++k) {
            coordinates(i, k) = static_cast<Real>(total_of_partial(partial[k + 1].data()) / total);
        }
    }
};

// Embed rows of d² as points `first` and following; rows may be longer than there are landmarks. Blocks of landmarks
// that are all too far to matter are skipped, which pays where neighbours among the landmarks stand together.
template <class Real>
void extend_many(Matrix<const Real> squared, Index first, const Online<Real>& online) {
    const Index n_landmarks = online.weights.size(), n_blocks = (n_landmarks + BLOCK - 1) / BLOCK;
    const Scratch<Real> lows(n_blocks);
    for (Index i = 0; i < squared.shape(0); ++i) {
        const Row<const Real> row = squared[i].slice(0, n_landmarks);
        for (Index block = 0; block < n_blocks; ++block) {
            lows[block] = lowest_of<Real>(row.slice(block * BLOCK, (block + 1) * BLOCK));
        }
        online.embed(first + i, row, lows.row());
    }
}

// d² of points side by side from a few landmarks. All lanes are always computed, copies of a point in those left over,
// so that a point's coordinates do not depend on how many come with it.
template <class Real>
struct SideBySide {
    alignas(64) Real squares[FEW][SIDE_BY_SIDE];

    // Embed them as points `first` to before `last`.
    void embed(Index first, Index last, const Online<Real>& online) {
        const Index n_landmarks = online.weights.size(), n_points = last - first;
        find_nearest(n_landmarks);
        for (Index lane = 0; lane < n_points; ++lane) {
            online.nearest[first + lane] = place_[lane], online.lowest[first + lane] = low_[lane];
        }
        const Index n_coordinates = online.coefficients.shape(0);
        if (n_coordinates == 0) return;
        for (Index j = 0; j < n_landmarks; ++j) {
            const Real weight = online.weights[j], rate = online.rate;
#pragma omp simd
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
                shares_[j][lane] = exp_negative(rate * (low_[lane] - squares[j][lane])) * weight;
            }
        }
        for (Index lane = 0; lane < SIDE_BY_SIDE; lane += WIDTH<double>) {
            Wide<double> total = {};
            for (Index j = 0; j < n_landmarks; ++j) total = total + load<Wide<double>>(shares_[j] + lane);
            store(total, totals_ + lane);
        }
        for (Index component = 0; component < n_coordinates; ++component) {
            const Real* coefficients = online.coefficients[component].data();
            alignas(64) Real values[SIDE_BY_SIDE];
            for (Index lane = 0; lane < SIDE_BY_SIDE; lane += WIDTH<double>) {
                Wide<double> sum = {};
                for (Index j = 0; j < n_landmarks; ++j) {
                    const auto coefficient = spread<Wide<double>>(double(coefficients[j]));
                    sum = fused(load<Wide<double>>(shares_[j] + lane), coefficient, sum);
                }
                const Wide<double> ratio = sum / load<Wide<double>>(totals_ + lane);
                for (Index e = 0; e < WIDTH<double>; ++e) values[lane + e] = static_cast<Real>(ratio[e]);
            }
            Real* to = online.coordinates.data() + first * n_coordinates + component;
            for (Index lane = 0; lane < n_points; ++lane) to[lane * n_coordinates] = values[lane];
        }
    }

private:
    // Find the first of the nearest landmarks, and its d².
    void find_nearest(Index n_landmarks) {
        using Side = Beside<Real>;
        using Places = Vector<Signed<Real>, sizeof(Side)>;
        for (Index lane = 0; lane < SIDE_BY_SIDE; lane += BESIDE<Real>) {
            Side low = load<Side>(squares[0] + lane);
            Places place = {};
            for (Index j = 1; j < n_landmarks; ++j) {
                const Side own = load<Side>(squares[j] + lane);
                place = own < low ? spread<Places>(static_cast<Signed<Real>>(j)) : place;
                low = own < low ? own : low;
            }
            store(low, low_ + lane);
            store(place, place_ + lane);
        }
    }

    alignas(64) Real low_[SIDE_BY_SIDE];
    alignas(64) Signed<Real> place_[SIDE_BY_SIDE];
    alignas(64) double totals_[SIDE_BY_SIDE], shares_[FEW][SIDE_BY_SIDE];
};

// Embed one point by its row of d² from a few landmarks, with the bits that it has beside others.
template <class Real>
void extend_alone(Row<const Real> row, Index i, const Online<Real>& online) {
    const Index n_landmarks = online.weights.size();
    const Real *squares = row.data(), *weights = online.weights.data();
    const Real low = lowest_of<Real>(row.slice(0, n_landmarks)), rate = online.rate;
    online.nearest[i] = first_equal<Real>(row, low);
    online.lowest[i] = low;
    if (online.coefficients.shape(0) == 0) return;
    alignas(64) double shares[FEW];
#pragma omp simd
    for (Index j = 0; j < n_landmarks; ++j) shares[j] = exp_negative(rate * (low - squares[j])) * weights[j];
    double total = 0.0;
    for (Index j = 0; j < n_landmarks; ++j) total += shares[j];
    for (Index component = 0; component < online.coefficients.shape(0); ++component) {
        const Real* coefficients = online.coefficients[component].data();
        double sum = 0.0;
        for (Index j = 0; j < n_landmarks; ++j) sum = fused(shares[j], double(coefficients[j]), sum);
        online.coordinates(i, component) = static_cast<Real>(sum / total);
    }
}

// The same as `extend_many` for a few landmarks, which make a row too short for that.
template <class Real>
void extend_few(Matrix<const Real> squared, Index first, const Online<Real>& online) {
    SideBySide<Real> block;
    const Index n_points = squared.shape(0), n_landmarks = online.weights.size();
    Index start = 0;
    for (; start + ALONE < n_points; start += SIDE_BY_SIDE) {
        const Index count = std::min(SIDE_BY_SIDE, n_points - start);
        for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
            const Row<const Real> row = squared[start + std::min(lane, count - 1)];
            for (Index j = 0; j < n_landmarks; ++j) block.squares[j][lane] = row[j];
        }
        block.embed(first + start, first + start + count, online);
    }
    for (; start < n_points; ++start) extend_alone(squared[start], first + start, online);
}

template <class Real>
void extend_rows(Matrix<const Real> squared, Index first, const Online<Real>& online) {
    const auto form = online.weights.size() <= FEW ? extend_few<Real> : extend_many<Real>;
    form(squared, first, online);
}

// -- points as they come
// ------------------------------------------------------------------------------------------------
//
// Who measures them has
//
//     prepare(points, count)              up to SIDE_BY_SIDE points; lanes beyond the last repeat it
//     measure_some(begin, stop, squares)  d² of these to some landmarks, no more than PER_PASS, a landmark to a row
//     measure_alone(point, row)           d² of a single point to all landmarks; the row has `room_for` all
//
// The first and the last return whether all that counts is finite, and not too large.

// Length of a row of d² that whole registers are written to.
constexpr Index room_for(Index n_landmarks) { return (n_landmarks + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE * SIDE_BY_SIDE; }

// Measure points of `size` numbers, some at a time. `few(block, first, last)` takes points side by side where landmarks
// are few, and `many(squares, first)` rows of d², which may be longer than there are landmarks. Returns whether all
// could be measured.
template <class Real, class Given, class Measuring, class Few, class Many>
bool measure_points(Measuring& measuring, const Given* points, Index n_points, Index size, Index n_landmarks, Few few,
                    Many many) {
    constexpr Index pass = Measuring::PER_PASS;
    static_assert(pass % BESIDE<Real> == 0 && pass <= FEW, "whole registers are turned");
    const Index room = room_for(n_landmarks);
    const bool is_few = n_landmarks <= FEW;
    const Scratch<Real> rows(is_few ? room : SIDE_BY_SIDE * room);
    SideBySide<Real> block;
    Index first = 0;
    for (; first + ALONE < n_points; first += SIDE_BY_SIDE) {
        const Index count = std::min(SIDE_BY_SIDE, n_points - first);
        if (!measuring.prepare(points + first * size, count)) return false;
        for (Index j = 0; j < n_landmarks; j += pass) {
            Real(*squares)[SIDE_BY_SIDE] = block.squares + (is_few ? j : 0);
            measuring.measure_some(j, std::min(n_landmarks, j + pass), squares);
            if (!is_few) turn_back(squares, std::min(pass, room - j), rows.data() + j, room);
        }
        if (is_few) {
            few(block, first, first + count);
        } else {
            many(Matrix<const Real>(rows.matrix(count, room)), first);
        }
    }
    for (; first < n_points; ++first) {
        if (!measuring.measure_alone(points + first * size, rows.data())) return false;
        many(Matrix<const Real>(rows.matrix(1, room)), first);
    }
    return true;
}

// Embed them.
template <class Real, class Given, class Measuring>
bool embed_points(Measuring measuring, const Given* points, Index n_points, Index size, const Online<Real>& online) {
    return measure_points<Real>(
        measuring, points, n_points, size, online.weights.size(),
        [&](SideBySide<Real>& block, Index first, Index last) { block.embed(first, last, online); },
        [&](Matrix<const Real> squares, Index first) { extend_rows<Real>(squares, first, online); });
}

// Write d² of as many points as there are rows, exactly as they are embedded by.
template <class Real, class Given, class Measuring>
bool write_squares(Measuring& measuring, const Given* points, Index size, Matrix<Real> squared) {
    const Index n_landmarks = squared.shape(1);
    return measure_points<Real>(
        measuring, points, squared.shape(0), size, n_landmarks,
        [&](const SideBySide<Real>& block, Index first, Index last) {
            for (Index i = first; i < last; ++i) {
                for (Index j = 0; j < n_landmarks; ++j) squared(i, j) = block.squares[j][i - first];
            }
        },
        [&](Matrix<const Real> squares, Index first) {
            for (Index i = 0; i < squares.shape(0); ++i) {
                std::copy_n(squares[i].data(), n_landmarks, squared[first + i].data());
            }
        });
}

}  // namespace ldmaps
