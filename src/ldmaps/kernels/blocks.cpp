// Loops over blocks of squared distances, whatever metric they come from.
#include "binding.h"
#include "rows.h"

namespace ldmaps {
namespace {

CONSTANT(BLOCK)
// Points that stand side by side where landmarks are few.
constexpr Index SIDE_BY_SIDE = 16;
// Landmarks up to which they do.
constexpr Index FEW = 16;
CONSTANT(FEW)

// Replace each d² by exp(-rate d²).
template <class Real>
void gaussian(Matrix<Real> squared, Real rate) {
    for (Index i = 0; i < squared.shape(0); ++i) {
        Real* row = squared[i].data();
#pragma omp simd
        for (Index j = 0; j < squared.shape(1); ++j) row[j] = exp_negative(-rate * row[j]);
    }
}
KERNEL(gaussian, "squared[n,m] rate")

template <class Real>
void extend_many(Matrix<Real> squared, const Online<Real>& online) {
    const Index n_blocks = (squared.shape(1) + BLOCK - 1) / BLOCK;
    const Scratch<Real> lows(n_blocks);
    for (Index i = 0; i < squared.shape(0); ++i) {
        const Row<Real> row = squared[i];
        for (Index block = 0; block < n_blocks; ++block) {
            lows[block] = lowest_of<Real>(row.slice(block * BLOCK, (block + 1) * BLOCK));
        }
        online.embed(i, row, lows.row());
    }
}

// Points side by side: a few landmarks make a row too short for that. All lanes are always computed, copies of a
// point in those left over, so that a point's coordinates do not depend on how many come with it.
template <class Real>
void extend_few(Matrix<Real> squared, const Online<Real>& online) {
    const auto& [rate, weights, coefficients, coordinates, nearest, lowest, memory] = online;
    const Index n_points = squared.shape(0), n_landmarks = squared.shape(1);
    Real block[FEW][SIDE_BY_SIDE];
    Real low[SIDE_BY_SIDE];
    std::int32_t place[SIDE_BY_SIDE];
    double total[SIDE_BY_SIDE], sums[SIDE_BY_SIDE];
    for (Index start = 0; start < n_points; start += SIDE_BY_SIDE) {
        const Index last = std::min(SIDE_BY_SIDE, n_points - start) - 1;
        for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
            const Row<Real> row = squared[start + std::min(lane, last)];
            for (Index j = 0; j < n_landmarks; ++j) block[j][lane] = row[j];
        }
        for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane)
            low[lane] = block[0][lane], place[lane] = 0, total[lane] = 0.0;
        for (Index j = 1; j < n_landmarks; ++j) {
#pragma omp simd
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
                const bool is_nearer = block[j][lane] < low[lane];
                place[lane] = is_nearer ? static_cast<std::int32_t>(j) : place[lane];
                low[lane] = is_nearer ? block[j][lane] : low[lane];
            }
        }
        for (Index j = 0; j < n_landmarks; ++j) {
            const Real weight = weights[j];
#pragma omp simd
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
                const Real share = exp_negative(rate * (low[lane] - block[j][lane])) * weight;
                block[j][lane] = share;
                total[lane] += share;
            }
        }
        for (Index lane = 0; lane <= last; ++lane)
            nearest[start + lane] = place[lane], lowest[start + lane] = low[lane];
        for (Index component = 0; component < coefficients.shape(0); ++component) {
            for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) sums[lane] = 0.0;
            for (Index j = 0; j < n_landmarks; ++j) {
                const double coefficient = coefficients(component, j);
#pragma omp simd
                for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) {
                    sums[lane] = fused(double(block[j][lane]), coefficient, sums[lane]);
                }
            }
            for (Index lane = 0; lane <= last; ++lane) {
                coordinates(start + lane, component) = static_cast<Real>(sums[lane] / total[lane]);
            }
        }
    }
}

// Embed each row of d² to the landmarks: w(x)·B, nearest landmark and its d²; destroys `squared`.
//
// The nearest landmark's d² is subtracted inside the exponential: it cancels in the normalised weights, and a point far
// from all landmarks does not become 0/0. `coefficients` is B transposed, (k, M), so that every sum runs over
// contiguous memory. Blocks of landmarks that are all too far to matter are skipped, which pays where neighbours among
// the landmarks stand together.
template <class Real>
void extend(Matrix<Real> squared, Real rate, Row<const Real> weights, Matrix<const Real> coefficients,
            Matrix<Real> coordinates, Row<Index> nearest, Row<Real> lowest) {
    const Index n_landmarks = squared.shape(1);
    const auto form = n_landmarks <= FEW ? extend_few<Real> : extend_many<Real>;
    form(squared, {rate, weights, coefficients, coordinates, nearest, lowest});
}
KERNEL(extend, "squared[n,m=1..] rate weights[m] coefficients[k,m] coordinates[n,k] nearest[n] lowest[n]")

// How far points are from their nearest landmarks, in units of sqrt(epsilon), and whether their domains hold them.
template <class Real>
void judge(Row<const Real> squared, Row<const Index> nearest, Row<const double> squared_radii, double slack,
           double epsilon, Row<Real> distance, Row<bool> inside) {
    for (Index i = 0; i < squared.size(); ++i) {
        const double value = squared[i];
        inside[i] = value <= squared_radii[nearest[i]] * slack;
        distance[i] = static_cast<Real>(std::sqrt(value / epsilon));
    }
}
KERNEL(judge, "squared[n] nearest[n]=0..m-1 squared_radii[m] slack epsilon distance[n] inside[n]")

KERNEL(distance_sums, "squared[n,m] weights[m] sums[n]")

// Add the sums of w_i w_j exp(-r d²) and of w_i w_j r d² exp(-r d²) over a block, for every rate r.
template <class Real>
void kernel_moments(Matrix<const Real> squared, Row<const double> rates, Row<const double> row_weights,
                    Row<const double> col_weights, Row<double> sums, Row<double> moments) {
    const double* factors = col_weights.data();
    for (Index i = 0; i < squared.shape(0); ++i) {
        const Real* row = squared[i].data();
        for (Index g = 0; g < rates.size(); ++g) {
            const double rate = rates[g];
            double total = 0.0, moment = 0.0;
#pragma omp simd reduction(+ : total, moment)
            for (Index j = 0; j < squared.shape(1); ++j) {
                const double x = rate * row[j];
                const double value = exp_negative(-x) * factors[j];
                total += value;
                moment = fused(x, value, moment);
            }
            sums[g] += row_weights[i] * total;
            moments[g] += row_weights[i] * moment;
        }
    }
}
KERNEL(kernel_moments, "squared[n,m] rates[g] row_weights[n] col_weights[m] sums[g] moments[g]")

}  // namespace
}  // namespace ldmaps
