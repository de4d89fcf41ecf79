// Loops over blocks of squared distances, whatever metric they come from.
#include "binding.h"
#include "online.h"

namespace ldmaps {
namespace {

CONSTANT(BLOCK)
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

// Embed each row of d² to the landmarks: w(x)·B, nearest landmark and its d²; see online.h.
template <class Real>
void extend(Matrix<const Real> squared, Real rate, Row<const Real> weights, Matrix<const Real> coefficients,
            Matrix<Real> coordinates, Row<Index> nearest, Row<Real> lowest) {
    extend_rows<Real>(squared, 0, {rate, weights, coefficients, coordinates, nearest, lowest});
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

// How many of every `step`-th points the domains of their nearest landmarks hold.
template <class Real>
Index count_inside(Row<const Real> squared, Row<const Index> nearest, Row<const double> squared_radii, double slack,
                   Index step) {
    Index count = 0;
    for (Index i = 0; i < squared.size(); i += step) count += squared[i] <= squared_radii[nearest[i]] * slack;
    return count;
}
KERNEL(count_inside, "squared[n] nearest[n]=0..m-1 squared_radii[m] slack step=1..")

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
