// Points in columns, shape (features, n): a feature of consecutive points is contiguous, so loops over the points of
// the right-hand side run in SIMD. What a pair adds up to is summed feature by feature in their order, however the work
// is cut, so it does not depend on tile or threads.
#pragma once

#include <type_traits>

#include "array.h"

namespace ldmaps {

// Points of the right-hand side per pass: few enough that their features stay in the L2 cache.
constexpr Index PANEL = 2048;
// Points of the left-hand side that are compared at once, so that what is read of the right-hand side is used twice.
constexpr int HEIGHT = 2;
// Points of the left-hand side per call, where their sums are finished in one pass; calls take longer than short rows.
constexpr Index ROWS = 8;
// Features that are added to rows of sums at once; up to one less than twice as many begin them.
constexpr int GROUP = 4;

// Add `Count` features from `k` on to the sums of points i to before `stop`, `Height` at once, with `n` others from
// `start` on, or begin the sums with them. `term.at(k)(sum, x, y)` adds feature k. Rows of sums are `stride` apart.
template <int Count, int Height, bool Begins, class Real, class Term>
void add_features(const Matrix<const Real>& a, Index i, Index stop, const Matrix<const Real>& b, Index start, Index n,
                  Index k, Real* sums, Index stride, Term term) {
    const Real* y[Count];
    decltype(term.at(0)) add[Count];
    for (int e = 0; e < Count; ++e) y[e] = b[k + e].data() + start, add[e] = term.at(k + e);
    for (; i < stop; i += Height, sums += Height * stride) {
        Real x[Count][Height];
        for (int e = 0; e < Count; ++e) {
            for (int h = 0; h < Height; ++h) x[e][h] = a(k + e, i + h);
        }
#pragma omp simd
        for (Index j = 0; j < n; ++j) {
#pragma GCC unroll 2
            for (int h = 0; h < Height; ++h) {
                Real sum = Begins ? Real(0) : sums[h * stride + j];
#pragma GCC unroll 8
                for (int e = 0; e < Count; ++e) sum = add[e](sum, x[e][h], y[e][j]);
                sums[h * stride + j] = sum;
            }
        }
    }
}

// The sums over all features of points i to before `stop` of `a`, `Height` at once, with `n` of `b` from `start` on.
template <int Height, class Real, class Term>
void sum_features(const Matrix<const Real>& a, Index i, Index stop, const Matrix<const Real>& b, Index start, Index n,
                  Real* sums, Index stride, Term term) {
    static_assert(GROUP == 4, "which is what the list has forms for");
    static constexpr decltype(&add_features<1, Height, true, Real, Term>) begin_with[] = {
        add_features<1, Height, true>, add_features<2, Height, true>, add_features<3, Height, true>,
        add_features<4, Height, true>, add_features<5, Height, true>, add_features<6, Height, true>,
        add_features<7, Height, true>};
    const Index features = a.shape(0);
    Index k = features < GROUP ? features : GROUP + features % GROUP;
    begin_with[k - 1](a, i, stop, b, start, n, 0, sums, stride, term);
    for (; k < features; k += GROUP) add_features<GROUP, Height, false>(a, i, stop, b, start, n, k, sums, stride, term);
}

// The same for points before `last`, HEIGHT at once or, if fewer are left, one; returns for how many.
template <class Real, class Term>
Index sum_next(const Matrix<const Real>& a, Index i, Index last, const Matrix<const Real>& b, Index start, Index n,
               Real* sums, Index stride, Term term) {
    const Index pairs = (last - i) / HEIGHT * HEIGHT, count = std::max(pairs, Index(1));
    const auto sum = pairs > 0 ? sum_features<HEIGHT, Real, Term> : sum_features<1, Real, Term>;
    sum(a, i, i + count, b, start, n, sums, stride, term);
    return count;
}

// A block of such sums: points r0 to before r1 of `a`, points c0 to before c1 of `b`. `Term::finish(sum, features)`,
// unless it is null, is what is written.
template <class Real, class Term>
void fill_from_columns(Matrix<const Real> a, Index r0, Index r1, Matrix<const Real> b, Index c0, Index c1,
                       Matrix<Real> out, Term term) {
    const Index width = c1 - c0;
    const auto features = static_cast<Real>(a.shape(0));
    // Sums that are written once are limited by the writing: two rows of them at a time take up to twice as long.
    const bool is_alone = a.shape(0) < GROUP;
    const Index most = a.shape(0) < 2 * GROUP ? ROWS : HEIGHT;
    for (Index start = c0; start < c1; start += PANEL) {
        const Index n = std::min(PANEL, c1 - start);
        for (Index i = r0, height; i < r1; i += height) {
            Real* sums = out[i - r0].data() + (start - c0);
            height = std::min(most, r1 - i);
            if (is_alone) {
                sum_features<1>(a, i, i + height, b, start, n, sums, width, term);
            } else {
                height = sum_next(a, i, i + height, b, start, n, sums, width, term);
            }
            if constexpr (!std::is_null_pointer_v<std::remove_const_t<decltype(Term::finish)>>) {
                for (Index h = 0; h < height; ++h, sums += width) {
#pragma omp simd
                    for (Index j = 0; j < n; ++j) sums[j] = Term::finish(sums[j], features);
                }
            }
        }
    }
}

// The kernel that writes such a block for a term that needs nothing else.
template <template <class> class Term, class Real>
void squared_by_columns(Matrix<const Real> a, Index r0, Index r1, Matrix<const Real> b, Index c0, Index c1,
                        Matrix<Real> out) {
    fill_from_columns(a, r0, r1, b, c0, c1, out, Term<Real>{});
}
#define KERNEL_OF_COLUMNS(name, Term)                                                       \
    KERNEL_OF(name, "a[f=1..,n] r0=0..n r1=r0..n b[f,m] c0=0..m c1=c0..m out[r1-r0,c1-c0]", \
              form(squared_by_columns<Term, float>), form(squared_by_columns<Term, double>))

}  // namespace ldmaps
