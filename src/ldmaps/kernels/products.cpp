// Products of a stored kernel with a vector, in float64 whatever the kernel is stored in.
#include "binding.h"
#include "vectors.h"

namespace ldmaps {
namespace {

using Numbers = Lanes<double>;
constexpr Index STEP = LANES<double>;

// Multiply rows of a matrix by a vector. A row's sum is added up in the same order whichever rows come with it.
template <class Real>
void matvec_rows(Matrix<const Real> matrix, Row<const double> vector, Row<double> out) {
    const Index n_rows = matrix.shape(0), n = matrix.shape(1), whole = n / (2 * STEP) * (2 * STEP);
    expect_shape("vector", vector, n);
    expect_shape("out", out, n_rows);
    const double* v = vector.data();
    const auto rest = [&](const Real* row, Numbers even, Numbers odd) {
        double total = sum_of<double, LANES_BYTES>(even + odd);
        for (Index j = whole; j < n; ++j) total = fused(double(row[j]), v[j], total);
        return total;
    };
    Index i = 0;
    for (; i + 4 <= n_rows; i += 4) {
        const Real *a = matrix[i].data(), *b = a + n, *c = b + n, *d = c + n;
        Numbers a0{}, a1{}, b0{}, b1{}, c0{}, c1{}, d0{}, d1{};
        for (Index j = 0; j < whole; j += 2 * STEP) {
            const Index k = j + STEP;
            const Numbers v0 = load<Numbers>(v + j), v1 = load<Numbers>(v + k);
            a0 = fused(load_double<LANES_BYTES>(a + j), v0, a0), a1 = fused(load_double<LANES_BYTES>(a + k), v1, a1);
            b0 = fused(load_double<LANES_BYTES>(b + j), v0, b0), b1 = fused(load_double<LANES_BYTES>(b + k), v1, b1);
            c0 = fused(load_double<LANES_BYTES>(c + j), v0, c0), c1 = fused(load_double<LANES_BYTES>(c + k), v1, c1);
            d0 = fused(load_double<LANES_BYTES>(d + j), v0, d0), d1 = fused(load_double<LANES_BYTES>(d + k), v1, d1);
        }
        out[i] = rest(a, a0, a1), out[i + 1] = rest(b, b0, b1);
        out[i + 2] = rest(c, c0, c1), out[i + 3] = rest(d, d0, d1);
    }
    for (; i < n_rows; ++i) {
        const Real* a = matrix[i].data();
        Numbers a0{}, a1{};
        for (Index j = 0; j < whole; j += 2 * STEP) {
            a0 = fused(load_double<LANES_BYTES>(a + j), load<Numbers>(v + j), a0);
            a1 = fused(load_double<LANES_BYTES>(a + j + STEP), load<Numbers>(v + j + STEP), a1);
        }
        out[i] = rest(a, a0, a1);
    }
}

// Write what rows `first` to before `last` of the upper half of a symmetric matrix add to its product with a vector.
// Every entry is read once and used for both of its places; reading is what a product of a large matrix consists of.
template <class Real>
void symmetric_matvec_band(Matrix<const Real> matrix, Index first, Index last, Row<const double> vector,
                           Row<double> out) {
    const Index n = matrix.shape(1);
    expect_shape("matrix", matrix, n, n);
    expect_range("rows", first, last, n);
    expect_shape("vector", vector, n);
    expect_shape("out", out, n);
    out.fill(0.0);
    const double* v = vector.data();
    double* sums = out.data();
    Index i = first;
    for (; i + 4 <= last; i += 4) {
        const Real *a = matrix[i].data(), *b = a + n, *c = b + n, *d = c + n;
        const double v0 = v[i], v1 = v[i + 1], v2 = v[i + 2], v3 = v[i + 3];
        const Numbers w0 = v0 - Numbers{}, w1 = v1 - Numbers{}, w2 = v2 - Numbers{}, w3 = v3 - Numbers{};
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        const auto add = [&](Index j) {
            s0 = fused(double(a[j]), v[j], s0), s1 = fused(double(b[j]), v[j], s1);
            s2 = fused(double(c[j]), v[j], s2), s3 = fused(double(d[j]), v[j], s3);
        };
        for (Index j = i; j < i + 4; ++j) add(j);
        Numbers t0{}, t1{}, t2{}, t3{};
        const auto add_lanes = [&](Index j) {
            const Numbers x0 = load_double<LANES_BYTES>(a + j), x1 = load_double<LANES_BYTES>(b + j),
                          x2 = load_double<LANES_BYTES>(c + j), x3 = load_double<LANES_BYTES>(d + j),
                          y = load<Numbers>(v + j);
            t0 = fused(x0, y, t0), t1 = fused(x1, y, t1), t2 = fused(x2, y, t2), t3 = fused(x3, y, t3);
            store(fused(x3, w3, fused(x2, w2, fused(x1, w1, fused(x0, w0, load<Numbers>(sums + j))))), sums + j);
        };
        Index j = i + 4;
        for (; j + 4 * STEP <= n; j += 4 * STEP) {
            add_lanes(j), add_lanes(j + STEP), add_lanes(j + 2 * STEP), add_lanes(j + 3 * STEP);
        }
        for (; j + STEP <= n; j += STEP) add_lanes(j);
        for (; j < n; ++j) {
            add(j);
            sums[j] = fused(double(d[j]), v3,
                            fused(double(c[j]), v2, fused(double(b[j]), v1, fused(double(a[j]), v0, sums[j]))));
        }
        s0 += sum_of<double, LANES_BYTES>(t0), s1 += sum_of<double, LANES_BYTES>(t1);
        s2 += sum_of<double, LANES_BYTES>(t2), s3 += sum_of<double, LANES_BYTES>(t3);
        sums[i] += s0, sums[i + 1] += s1, sums[i + 2] += s2, sums[i + 3] += s3;
    }
    for (; i < last; ++i) {
        const Real* row = matrix[i].data();
        double total = row[i] * v[i];
        for (Index j = i + 1; j < n; ++j) {
            total = fused(double(row[j]), v[j], total);
            sums[j] = fused(double(row[j]), v[i], sums[j]);
        }
        sums[i] += total;
    }
}

// Multiply rows of a CSR matrix by a vector; row i is entries `starts[i]` to before `starts[i + 1]`.
template <class Real, class Place>
void sparse_matvec_rows(Row<const Place> starts, Row<const Place> columns, Row<const Real> data,
                        Row<const double> vector, Row<double> out) {
    expect_shape("starts", starts, out.size() + 1);
    expect_shape("columns", columns, data.size());
    const double* v = vector.data();
    for (Index i = 0; i < out.size(); ++i) {
        expect_range("starts", starts[i], starts[i + 1], data.size());
        const Index n = starts[i + 1] - starts[i];
        const Place* places = columns.data() + starts[i];
        const Real* row = data.data() + starts[i];
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        Index j = 0;
        for (; j + 4 <= n; j += 4) {
            s0 = fused(double(row[j]), v[places[j]], s0), s1 = fused(double(row[j + 1]), v[places[j + 1]], s1);
            s2 = fused(double(row[j + 2]), v[places[j + 2]], s2), s3 = fused(double(row[j + 3]), v[places[j + 3]], s3);
        }
        for (; j < n; ++j) s0 = fused(double(row[j]), v[places[j]], s0);
        out[i] = (s0 + s1) + (s2 + s3);
    }
}

}  // namespace

void bind_products(nb::module_& module) {
    bind(module, "matvec_rows", forms(matvec_rows<float>, matvec_rows<double>), "matrix", "vector", "out");
    bind(module, "symmetric_matvec_band", forms(symmetric_matvec_band<float>, symmetric_matvec_band<double>), "matrix",
         "first", "last", "vector", "out");
    bind(module, "sparse_matvec_rows",
         forms(sparse_matvec_rows<float, std::int32_t>, sparse_matvec_rows<double, std::int32_t>,
               sparse_matvec_rows<float, std::int64_t>, sparse_matvec_rows<double, std::int64_t>),
         "starts", "columns", "data", "vector", "out");
}

}  // namespace ldmaps
