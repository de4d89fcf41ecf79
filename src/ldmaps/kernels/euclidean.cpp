// Squared Euclidean distances: by direct differences between points in columns, or from a matrix product between points
// in rows; and searches that measure no more pairs than they must, and store none.
#include "binding.h"
#include "columns.h"
#include "online.h"
#include "terms.h"

namespace ldmaps {
namespace {

CONSTANT_OF(NEGLIGIBLE32, negligible<float>())
CONSTANT_OF(NEGLIGIBLE64, negligible<double>())

// With so few features a distance is computed in less time than it takes to store it.
constexpr Index MAX_SCANNED_FEATURES = 3;
CONSTANT(MAX_SCANNED_FEATURES)
// Points of which the nearest others are looked for together: what is known of them stays in the L1 cache.
template <class Real>
constexpr Index SCANNED_ROWS = 4096 / sizeof(Real);
// Others that they are compared with at once.
constexpr int EIGHT = 8;

// -- columns

// By direct differences, so that nothing cancels.
KERNEL_OF_COLUMNS(squared_euclidean, AddSquare)

// Write the sum over j of w_j d(x_i, x_j) within each group of consecutive points; memory for a few rows.
template <class Real>
void euclidean_group_sums(Matrix<const Real> columns, Row<const Index> bounds, Row<const double> weights,
                          Row<double> sums) {
    // Whole vectors: roots of what is left of one take long. Entries beyond a group have no weight.
    const auto whole = [](Index n) { return (n + PARTS - 1) / PARTS * PARTS; };
    Index widest = 0;
    for (Index group = 0; group + 1 < bounds.size(); ++group) {
        widest = std::max(widest, whole(bounds[group + 1] - bounds[group]));
    }
    const Scratch<Real> squares(HEIGHT * widest, Real(0));
    const Scratch<double> factors(widest);
    for (Index group = 0; group + 1 < bounds.size(); ++group) {
        const Index first = bounds[group], last = bounds[group + 1], n = last - first, width = whole(n);
        std::copy_n(weights.data() + first, n, factors.data());
        std::fill(factors.data() + n, factors.data() + width, 0.0);
        for (Index i = first, height; i < last; i += height) {
            height = sum_next(columns, i, std::min(i + HEIGHT, last), columns, first, n, squares.data(), width,
                              AddSquare<Real>{});
            for (Index h = 0; h < height; ++h) {
                sums[i + h] = distance_sum(squares.data() + h * width, factors.data(), width);
            }
        }
    }
}
KERNEL(euclidean_group_sums, "columns[f=1..,n] bounds[g]=0..n,rising weights[n] sums[n]")

// -- the nearest

// d² of point i, given by its features' columns, and another.
template <int Features, class Real>
Real between(const Real* const* x, Index i, const Real* y) {
    Real sum = 0;
#pragma GCC unroll 3
    for (int k = 0; k < Features; ++k) sum = AddSquare<Real>{}(sum, x[k][i], y[k]);
    return sum;
}

template <int Features, class Real>
void find_nearest(Matrix<const Real> a, Index r0, Index r1, Matrix<const Real> b, Row<Index> index, Row<Real> squared) {
    // As wide as a distance, so that both fill the same lanes.
    using Place = Signed<Real>;
    alignas(64) Real lowest[SCANNED_ROWS<Real>];
    alignas(64) Place where[SCANNED_ROWS<Real>];
    const Index n = b.shape(1);
    const auto take = [](Matrix<const Real> points, Index j, Real* point) {
        for (int k = 0; k < Features; ++k) point[k] = points(k, j);
    };
    for (Index start = r0; start < r1; start += SCANNED_ROWS<Real>) {
        const Index count = std::min(r1 - start, SCANNED_ROWS<Real>);
        const Real* x[Features];
        for (int k = 0; k < Features; ++k) x[k] = a[k].data() + start;
        std::fill(lowest, lowest + count, std::numeric_limits<Real>::infinity());
        std::fill(where, where + count, Place(0));
        for (Index j = 0; j < n; j += EIGHT) {
            Real eight[EIGHT][Features];
            for (int e = 0; e < EIGHT; ++e) take(b, std::min(j + e, n - 1), eight[e]);
            const Place first = static_cast<Place>(j);
#pragma omp simd
            for (Index i = 0; i < count; ++i) {
                const auto of_two = [&](int e) {
                    return lesser(between<Features>(x, i, eight[e]), between<Features>(x, i, eight[e + 1]));
                };
                const Real low = lesser(lesser(of_two(0), of_two(2)), lesser(of_two(4), of_two(6)));
                // Not as a choice, which g++ makes a branch, and a branch that cannot be foreseen.
                where[i] ^= (where[i] ^ first) & -Place(low < lowest[i]);
                lowest[i] = lesser(low, lowest[i]);
            }
        }
        for (Index i = 0; i < count; ++i) {
            Real other[Features];
            Index best = where[i];
            // The first of eight that is as near; all are tried, because a branch could not be foreseen here either.
            for (Index j = std::min(best + EIGHT, n) - 1, first = best; j >= first; --j) {
                take(b, j, other);
                best = between<Features>(x, i, other) == lowest[i] ? j : best;
            }
            index[start - r0 + i] = best, squared[start - r0 + i] = lowest[i];
        }
    }
}

// Find which of `b` is nearest to each of points r0 to before r1 of `a` (the first among equals) and its d². Up to
// MAX_SCANNED_FEATURES; loops run in SIMD over the points of `a`, and no distance is stored.
template <class Real>
void nearest_euclidean(Matrix<const Real> a, Index r0, Index r1, Matrix<const Real> b, Row<Index> index,
                       Row<Real> squared) {
    const auto find = a.shape(0) == 1   ? find_nearest<1, Real>
                      : a.shape(0) == 2 ? find_nearest<2, Real>
                                        : find_nearest<3, Real>;
    find(a, r0, r1, b, index, squared);
}
KERNEL(nearest_euclidean, "a[f=1..MAX_SCANNED_FEATURES,n] r0=0..n r1=r0..n b[f,m=1..] index[r1-r0] squared[r1-r0]")

// -- the online step

// Write the squared distance from one of `points` to each box, a little less for rounding.
template <class Real>
void squares_to_boxes_from(Matrix<const Real> points, Index i, Matrix<const Real> lower, Matrix<const Real> upper,
                           Row<Real> bounds) {
    const Index features = points.shape(0);
    const Real slack = Real(1) - Real(features + 8) * std::numeric_limits<Real>::epsilon();
    Real* sums = bounds.data();
    bounds.fill(0);
    for (Index k = 0; k < features; ++k) {
        const Real value = points(k, i);
        const Real *low = lower[k].data(), *high = upper[k].data();
#pragma omp simd
        for (Index j = 0; j < bounds.size(); ++j) {
            const Real t = greater(greater(low[j] - value, value - high[j]), Real(0));
            sums[j] = fused(t * t, slack, sums[j]);
        }
    }
}

// Write the squared distance from each of the points to each box, a little less for rounding.
template <class Real>
void squares_to_boxes(Matrix<const Real> points, Matrix<const Real> lower, Matrix<const Real> upper,
                      Matrix<Real> bounds) {
    for (Index i = 0; i < points.shape(1); ++i) squares_to_boxes_from(points, i, lower, upper, bounds[i]);
}
KERNEL(squares_to_boxes, "points[f,n] lower[f,b] upper[f,b] bounds[n,b]")

// Embed points as `extend` does, bit for bit, but measure no block of landmarks that cannot matter: one that is farther
// than the nearest landmark by so much that its weights are lost in rounding. Its box shows that in a few operations.
template <class Real>
void extend_euclidean(Matrix<const Real> a, Index r0, Index r1, Matrix<const Real> b, Matrix<const Real> lower,
                      Matrix<const Real> upper, Real rate, Row<const Real> weights, Matrix<const Real> coefficients,
                      Matrix<Real> coordinates, Row<Index> nearest, Row<Real> lowest) {
    const Index n_points = r1 - r0, n_landmarks = b.shape(1), n_blocks = (n_landmarks + BLOCK - 1) / BLOCK;
    const Scratch<Real> squares(n_landmarks), lows(n_blocks), bounds(n_blocks);
    const Online<Real> online{rate, weights, coefficients, coordinates, nearest, lowest};
    const Row<Real> row = squares.row();
    const Real beyond = negligible<Real>() / rate, infinity = std::numeric_limits<Real>::infinity();
    for (Index i = 0; i < n_points; ++i) {
        squares_to_boxes_from(a, r0 + i, lower, upper, bounds.row());
        const Index likely = std::min_element(bounds.data(), bounds.data() + n_blocks) - bounds.data();
        Real low = infinity;
        const auto measure = [&](Index block) {
            lows[block] = infinity;
            if (bounds[block] > low + beyond) return;
            const Row<Real> part = row.slice(block * BLOCK, (block + 1) * BLOCK);
            sum_features<1>(a, r0 + i, r0 + i + 1, b, block * BLOCK, part.size(), part.data(), 0, AddSquare<Real>{});
            lows[block] = lowest_of<Real>(part);
            low = std::min(low, lows[block]);
        };
        measure(likely);
        for (Index block = 0; block < n_blocks; ++block) {
            if (block != likely) measure(block);
        }
        online.embed(i, row, lows.row());
    }
}
KERNEL(
    extend_euclidean,
    "a[f=1..,n] r0=0..n r1=r0..n b[f,m=1..] lower[f,blocks=m/BLOCK] upper[f,blocks] rate weights[m] coefficients[k,m] "
    "coordinates[p=r1-r0,k] nearest[p] lowest[p]")

// -- rows

// d² of two rows, added up in an order that depends on the number of features alone.
template <class Real>
Real between_rows(const Real* x, const Real* y, Index features) {
    constexpr Index step = LANES<Real>;
    const auto add = [&](Lanes<Real> sum, Index k) {
        const Lanes<Real> t = load<Lanes<Real>>(x + k) - load<Lanes<Real>>(y + k);
        return fused(t, t, sum);
    };
    // Four chains of sums where they are long, two where putting them together would take longer.
    const Index whole = features / step * step, twos = features / (2 * step) * (2 * step);
    const Index fours = features < 16 * step ? 0 : features / (4 * step) * (4 * step);
    Lanes<Real> s0{}, s1{}, s2{}, s3{};
    for (Index k = 0; k < fours; k += 4 * step) {
        s0 = add(s0, k), s1 = add(s1, k + step), s2 = add(s2, k + 2 * step), s3 = add(s3, k + 3 * step);
    }
    for (Index k = fours; k < twos; k += 2 * step) s0 = add(s0, k), s1 = add(s1, k + step);
    if (twos < whole) s0 = add(s0, twos);
    Real total = sum_of<Real, LANES_BYTES>((s0 + s1) + (s2 + s3));
    for (Index k = whole; k < features; ++k) total = AddSquare<Real>{}(total, x[k], y[k]);
    return total;
}

// Write d² of rows r0 to before r1 of `a` and c0 to before c1 of `b`: for tiles too thin for a matrix product.
template <class Real>
void squared_euclidean_rows(Matrix<const Real> a, Index r0, Index r1, Matrix<const Real> b, Index c0, Index c1,
                            Matrix<Real> out) {
    const Index features = a.shape(1);
    for (Index i = 0; i < r1 - r0; ++i) {
        const Real *x = a[r0 + i].data(), *y = b.data() + c0 * features;
        Real* row = out[i].data();
        for (Index j = 0; j < c1 - c0; ++j, y += features) row[j] = between_rows(x, y, features);
    }
}
KERNEL(squared_euclidean_rows, "a[n,f] r0=0..n r1=r0..n b[m,f] c0=0..m c1=c0..m out[r1-r0,c1-c0]")

// Write rows r0 to before r1 minus `origin`, subtracted in float64 and rounded once, and their squared norms.
template <class Real>
void centre_rows(Matrix<const Real> values, Index r0, Index r1, Row<const double> origin, Matrix<Real> centred,
                 Row<Real> norms) {
    const Index features = values.shape(1);
    const double* mean = origin.data();
    for (Index i = 0; i < r1 - r0; ++i) {
        const Real* x = values[r0 + i].data();
        Real* y = centred[i].data();
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (Index k = 0; k < features; ++k) {
            y[k] = static_cast<Real>(double(x[k]) - mean[k]);
            total = fused(double(y[k]), double(y[k]), total);
        }
        norms[i] = static_cast<Real>(total);
    }
}
KERNEL(centre_rows, "values[n,f] r0=0..n r1=r0..n origin[f] centred[r1-r0,f] norms[r1-r0]")

// Turn products x·y into |x|² + |y|² - 2 x·y, in place; pairs that cancel are computed again from the rows of `a` from
// r0 on and of `b` from c0 on.
//
// A pair cancels when d² < threshold (|x|² + |y|²): the rounding of the product, a few ulps of the norms, would then be
// a large part of what is left.
template <class Real>
void finish_gram(Matrix<Real> gram, Row<const Real> a_norms, Row<const Real> b_norms, Real threshold,
                 Matrix<const Real> a, Index r0, Matrix<const Real> b, Index c0) {
    const Index n_rows = gram.shape(0), n_columns = gram.shape(1);
    const Real* norms = b_norms.data();
    for (Index i = 0; i < n_rows; ++i) {
        Real* row = gram[i].data();
        const Real norm = a_norms[i];
        Real lowest = 0;
#pragma omp simd reduction(min : lowest)
        for (Index j = 0; j < n_columns; ++j) {
            const Real total = norm + norms[j];
            row[j] = total - (row[j] + row[j]);
            lowest = lesser(fused(-threshold, total, row[j]), lowest);
        }
        if (lowest >= 0) continue;
        for (Index j = 0; j < n_columns; ++j) {
            if (row[j] > threshold * (norm + norms[j])) continue;
            row[j] = between_rows(a[r0 + i].data(), b[c0 + j].data(), a.shape(1));
        }
    }
}
KERNEL(finish_gram, "gram[r,c] a_norms[r] b_norms[c] threshold a[n,f] r0=0..n-r b[m,f] c0=0..m-c")

}  // namespace
}  // namespace ldmaps
