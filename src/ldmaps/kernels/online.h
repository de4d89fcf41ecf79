// The online step: from squared distances to the landmarks to coordinates w(x)·B.
//
// The nearest landmark's d² is subtracted inside the exponential: it cancels in the normalised weights, and a point far
// from all landmarks does not become 0/0. Coefficients are B transposed, (k, M), so that every sum runs over contiguous
// memory.
#pragma once

#include "rows.h"

namespace ldmaps {

// Points that stand side by side where landmarks are few.
constexpr Index SIDE_BY_SIDE = 16;
// Landmarks up to which they do.
constexpr Index FEW = 16;

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

    // Embed them as points `first` to before `last`; the squares are destroyed.
    void embed(Index first, Index last, const Online<Real>& online) {
        const auto& [rate, weights, coefficients, coordinates, nearest, lowest, memory] = online;
        const Index n_landmarks = weights.size(), n_points = last - first;
        alignas(64) Real low[SIDE_BY_SIDE];
        alignas(64) std::int32_t place[SIDE_BY_SIDE];
        alignas(64) double total[SIDE_BY_SIDE], sums[SIDE_BY_SIDE];
        for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane)
            low[lane] = squares[0][lane], place[lane] = 0, total[lane] = 0.0;
        for (Index j = 1; j < n_landmarks; ++j) {
#pragma omp simd
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
                const bool is_nearer = squares[j][lane] < low[lane];
                place[lane] = is_nearer ? static_cast<std::int32_t>(j) : place[lane];
                low[lane] = is_nearer ? squares[j][lane] : low[lane];
            }
        }
        for (Index j = 0; j < n_landmarks; ++j) {
            const Real weight = weights[j];
#pragma omp simd
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
                const Real share = exp_negative(rate * (low[lane] - squares[j][lane])) * weight;
                squares[j][lane] = share;
                total[lane] += share;
            }
        }
        for (Index lane = 0; lane < n_points; ++lane)
            nearest[first + lane] = place[lane], lowest[first + lane] = low[lane];
        for (Index component = 0; component < coefficients.shape(0); ++component) {
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) sums[lane] = 0.0;
            for (Index j = 0; j < n_landmarks; ++j) {
                const double coefficient = coefficients(component, j);
#pragma omp simd
                for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
                    sums[lane] = fused(double(squares[j][lane]), coefficient, sums[lane]);
                }
            }
            for (Index lane = 0; lane < n_points; ++lane) {
                coordinates(first + lane, component) = static_cast<Real>(sums[lane] / total[lane]);
            }
        }
    }
};

// The same as `extend_many` for a few landmarks, which make a row too short for that: points stand side by side.
template <class Real>
void extend_few(Matrix<const Real> squared, Index first, const Online<Real>& online) {
    SideBySide<Real> block;
    const Index n_points = squared.shape(0), n_landmarks = online.weights.size();
    for (Index start = 0; start < n_points; start += SIDE_BY_SIDE) {
        const Index count = std::min(SIDE_BY_SIDE, n_points - start);
        for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
            const Row<const Real> row = squared[start + std::min(lane, count - 1)];
            for (Index j = 0; j < n_landmarks; ++j) block.squares[j][lane] = row[j];
        }
        block.embed(first + start, first + start + count, online);
    }
}

template <class Real>
void extend_rows(Matrix<const Real> squared, Index first, const Online<Real>& online) {
    const auto form = online.weights.size() <= FEW ? extend_few<Real> : extend_many<Real>;
    form(squared, first, online);
}

}  // namespace ldmaps
