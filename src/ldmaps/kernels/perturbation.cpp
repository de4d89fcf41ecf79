// Loops over blocks of squared distances for the error estimates; sums in float64 whatever the blocks are in.
#include "binding.h"
#include "rows.h"

namespace ldmaps {
namespace {

// Write A_ij s_j for one row and return their sum.
template <class Real>
double weighted_kernel(Row<const Real> squared, double rate, Row<const double> weights, Row<double> kernel) {
    const Real* squares = squared.data();
    const double* factors = weights.data();
    double* values = kernel.data();
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (Index j = 0; j < squared.size(); ++j) {
        values[j] = exp_negative(-rate * double(squares[j])) * factors[j];
        total += values[j];
    }
    return total;
}

// Fill `kernel` with A_ij s_j and `degrees` with its row sums.
template <class Real>
void kernel_rows(Matrix<const Real> squared, double rate, Row<const double> weights, Matrix<double> kernel,
                 Row<double> degrees) {
    for (Index i = 0; i < squared.shape(0); ++i) degrees[i] = weighted_kernel(squared[i], rate, weights, kernel[i]);
}
KERNEL(kernel_rows, "squared[n,m] rate weights[m] kernel[n,m] degrees[n]")

// Write D_i, its change, and the sum over j of the change of A_ij times w_j psi_l(j), to first order in the changes of
// distances. `moved` holds for each row the squared distances to all landmarks; column j's is `moved[i, labels[j]]`.
template <class Real>
void first_order_rows(Matrix<const Real> squared, Matrix<const Real> moved, Row<const Index> labels, double rate,
                      Row<const double> weights, Matrix<const double> vectors, Row<double> degrees,
                      Row<double> degree_changes, Matrix<double> sums) {
    const Index n_rows = squared.shape(0), n = squared.shape(1);
    const Scratch<double> scratch(n);
    const Row<double> change = scratch.row();
    double* changes = change.data();
    const Index* cells = labels.data();
    for (Index i = 0; i < n_rows; ++i) {
        degrees[i] = weighted_kernel(squared[i], rate, weights, change);
        const Real *before = squared[i].data(), *after = moved[i].data();
        // eqn err3: the change is -(d delta / epsilon) A with delta = d' - d, that is (d² - d d') / epsilon
#pragma omp simd
        for (Index j = 0; j < n; ++j) {
            const double square = before[j];
            changes[j] *= 2.0 * rate * (square - std::sqrt(square * double(after[cells[j]])));
        }
        degree_changes[i] = sum_over(n, plain_terms(changes));
        for (Index component = 0; component < vectors.shape(0); ++component) {
            sums(i, component) = sum_over(n, weighted_terms(changes, vectors[component].data()));
        }
    }
}
KERNEL(first_order_rows,
       "squared[n,m] moved[n,l] labels[m]=0..l-1 rate weights[m] vectors[k,m] degrees[n] degree_changes[n] sums[n,k]")

}  // namespace
}  // namespace ldmaps
