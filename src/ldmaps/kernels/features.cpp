// Squared distances that are made of sums over features, other than Euclidean ones; points in columns.
#include "binding.h"
#include "columns.h"
#include "terms.h"

namespace ldmaps {
namespace {

// The square of the fraction of features in which points differ.
template <class Real>
struct AddDifferent {
    AddDifferent at(Index) const { return {}; }
    Real operator()(Real sum, Real x, Real y) const { return sum + (x == y ? Real(0) : Real(1)); }
    static Real finish(Real sum, Real features) { return (sum / features) * (sum / features); }
};
KERNEL_OF_COLUMNS(squared_hamming, AddDifferent)

// The square of the sum of |x_k - y_k|.
template <class Real>
struct AddDistance {
    AddDistance at(Index) const { return {}; }
    Real operator()(Real sum, Real x, Real y) const { return sum + std::abs(x - y); }
    static Real finish(Real sum, Real) { return sum * sum; }
};
KERNEL_OF_COLUMNS(squared_cityblock, AddDistance)

// Write the sum of t_k², with t_k the difference taken the shorter way round.
template <class Real>
void squared_periodic(Matrix<const Real> a, Index r0, Index r1, Matrix<const Real> b, Index c0, Index c1,
                      Row<const Real> period, Matrix<Real> out) {
    fill_from_columns(a, r0, r1, b, c0, c1, out, AddShorterSquare<Real>{period.data()});
}
KERNEL(squared_periodic, "a[f=1..,n] r0=0..n r1=r0..n b[f,m] c0=0..m c1=c0..m period[f] out[r1-r0,c1-c0]")

// Write values moved by whole periods to within half a period of 0, transposed. In float64 and without rounding until
// the end: fmod is exact, and so is a difference of numbers within a factor of two of each other.
template <class Real>
void wrap_to_columns(Matrix<const Real> values, Row<const double> period, Matrix<Real> columns) {
    const Index n = values.shape(0), features = values.shape(1);
    for (Index k = 0; k < features; ++k) {
        const double length = period[k], half = 0.5 * length;
        const Real* value = values.data() + k;
        Real* column = columns[k].data();
#pragma GCC unroll 4
        for (Index i = 0; i < n; ++i) {
            double x = value[i * features];
            if (std::abs(x) > half) {
                x = std::fmod(x, length);
                x -= x > half ? length : x < -half ? -length : 0.0;
            }
            column[i] = static_cast<Real>(x);
        }
    }
}
KERNEL(wrap_to_columns, "values[n,f] period[f] columns[f,n]")

}  // namespace
}  // namespace ldmaps
