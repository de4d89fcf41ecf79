// Products of a stored kernel with a vector, in float64 whatever the kernel is stored in.
#include "binding.h"
#include "vectors.h"

namespace ldmaps {
namespace {

using Numbers = Lanes<double>;
constexpr Index STEP = LANES<double>;

// Call `work` for four rows at a time, then for those left over one by one.
template <class Work>
inline void in_fours(Index first, Index last, Work work) {
    for (; first + 4 <= last; first += 4) work(first, std::integral_constant<int, 4>{});
    for (; first < last; ++first) work(first, std::integral_constant<int, 1>{});
}

// Multiply rows of a matrix by a vector. A row's sum is added up in the same order whichever rows come with it.
template <class Real>
void matvec_rows(Matrix<const Real> matrix, Row<const double> vector, Row<double> out) {
    const Index n = matrix.shape(1), whole = n / (2 * STEP) * (2 * STEP);
    const double* v = vector.data();
    in_fours(0, matrix.shape(0), [&](Index i, auto count) {
        constexpr int rows = decltype(count)::value;
        const Real* const first = matrix[i].data();
        Numbers even[rows] = {}, odd[rows] = {};
        for (Index j = 0; j < whole; j += 2 * STEP) {
            const Numbers v0 = load<Numbers>(v + j), v1 = load<Numbers>(v + j + STEP);
            for (int r = 0; r < rows; ++r) {
                even[r] = fused(load_double<LANES_BYTES>(first + r * n + j), v0, even[r]);
                odd[r] = fused(load_double<LANES_BYTES>(first + r * n + j + STEP), v1, odd[r]);
            }
        }
        for (int r = 0; r < rows; ++r) {
            double total = sum_of<double, LANES_BYTES>(even[r] + odd[r]);
            for (Index j = whole; j < n; ++j) total = fused(double(first[r * n + j]), v[j], total);
            out[i + r] = total;
        }
    });
}
KERNEL(matvec_rows, "matrix[n,m] vector[m] out[n]")

// Write what rows `first` to before `last` of the upper half of a symmetric matrix add to its product with a vector.
// Every entry is read once and used for both of its places; reading is what a product of a large matrix consists of.
template <class Real>
void symmetric_matvec_band(Matrix<const Real> matrix, Index first, Index last, Row<const double> vector,
                           Row<double> out) {
    const Index n = matrix.shape(1);
    out.fill(0.0);
    const double* v = vector.data();
    double* sums = out.data();
    in_fours(first, last, [&](Index i, auto count) {
        constexpr int rows = decltype(count)::value;
        const Real* const top = matrix[i].data();
        Numbers own[rows], totals[rows] = {};
        for (int r = 0; r < rows; ++r) own[r] = spread<Numbers>(v[i + r]);
        const auto add_lanes = [&](Index j) {
            const Numbers y = load<Numbers>(v + j);
            Numbers sum = load<Numbers>(sums + j);
            for (int r = 0; r < rows; ++r) {
                const Numbers x = load_double<LANES_BYTES>(top + r * n + j);
                totals[r] = fused(x, y, totals[r]), sum = fused(x, own[r], sum);
            }
            store(sum, sums + j);
        };
        Index j = i + rows;
        for (; j + 4 * STEP <= n; j += 4 * STEP) {
            add_lanes(j), add_lanes(j + STEP), add_lanes(j + 2 * STEP), add_lanes(j + 3 * STEP);
        }
        for (; j + STEP <= n; j += STEP) add_lanes(j);
        for (int r = 0; r < rows; ++r) {
            const Real* const row = top + r * n;
            double total = sum_of<double, LANES_BYTES>(totals[r]);
            for (Index k = i; k < i + rows; ++k) total = fused(double(row[k]), v[k], total);
            for (Index k = j; k < n; ++k) {
                total = fused(double(row[k]), v[k], total);
                sums[k] = fused(double(row[k]), v[i + r], sums[k]);
            }
            sums[i + r] += total;
        }
    });
}
KERNEL(symmetric_matvec_band, "matrix[n,n] first=0..n last=first..n vector[n] out[n]")

// Multiply rows of a CSR matrix by a vector; row i is entries `starts[i]` to before `starts[i + 1]`.
template <class Real, class Place>
void sparse_matvec_rows(Row<const Place> starts, Row<const Place> columns, Row<const Real> data,
                        Row<const double> vector, Row<double> out) {
    const double* v = vector.data();
    for (Index i = 0; i < out.size(); ++i) {
        const Index n = starts[i + 1] - starts[i];
        const Place* places = columns.data() + starts[i];
        const Real* row = data.data() + starts[i];
        double sums[4] = {};
        Index j = 0;
        for (; j + 4 <= n; j += 4) {
#pragma GCC unroll 4
            for (int chain = 0; chain < 4; ++chain) {
                sums[chain] = fused(double(row[j + chain]), v[places[j + chain]], sums[chain]);
            }
        }
        for (; j < n; ++j) sums[0] = fused(double(row[j]), v[places[j]], sums[0]);
        out[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
}
KERNEL_OF(sparse_matvec_rows, "starts[n+1]=0..e,rising columns[e]=0..m-1 data[e] vector[m] out[n]",
          form(sparse_matvec_rows<float, std::int32_t>), form(sparse_matvec_rows<double, std::int32_t>),
          form(sparse_matvec_rows<float, std::int64_t>), form(sparse_matvec_rows<double, std::int64_t>))

}  // namespace
}  // namespace ldmaps
