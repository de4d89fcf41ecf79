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
    expect_shape("weights", weights, squared.shape(1));
    expect_shape("kernel", kernel, squared.shape(0), squared.shape(1));
    expect_shape("degrees", degrees, squared.shape(0));
    for (Index i = 0; i < squared.shape(0); ++i) degrees[i] = weighted_kernel(squared[i], rate, weights, kernel[i]);
}

// Write D_i, its change, and the sum over j of the change of A_ij times w_j psi_l(j), to first order in the changes of
// distances. `moved` holds for each row the squared distances to all landmarks; column j's is `moved[i, labels[j]]`.
template <class Real>
void first_order_rows(Matrix<const Real> squared, Matrix<const Real> moved, Row<const Index> labels, double rate,
                      Row<const double> weights, Matrix<const double> vectors, Row<double> degrees,
                      Row<double> degree_changes, Matrix<double> sums) {
    const Index n_rows = squared.shape(0), n = squared.shape(1);
    expect_shape("moved", moved, n_rows, moved.shape(1));
    expect_shape("labels", labels, n);
    expect_shape("weights", weights, n);
    expect_shape("vectors", vectors, vectors.shape(0), n);
    expect_shape("degrees", degrees, n_rows);
    expect_shape("degree_changes", degree_changes, n_rows);
    expect_shape("sums", sums, n_rows, vectors.shape(0));
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
        degree_changes[i] = total_of<double>(change);
        for (Index component = 0; component < vectors.shape(0); ++component) {
            sums(i, component) = weighted_total<double, double>(change, vectors[component]);
        }
    }
}

}  // namespace

void bind_perturbation(nb::module_& module) {
    bind(module, "kernel_rows", forms(kernel_rows<float>, kernel_rows<double>), "squared", "rate", "weights", "kernel",
         "degrees");
    bind(module, "first_order_rows", forms(first_order_rows<float>, first_order_rows<double>), "squared", "moved",
         "labels", "rate", "weights", "vectors", "degrees", "degree_changes", "sums");
}

}  // namespace ldmaps
