// Loops over one row of squared distances, or of weights, that kernels are made of.
#pragma once

#include "vectors.h"

namespace ldmaps {

// Landmarks that are measured, or skipped, together.
constexpr Index BLOCK = 64;

// The exponent beyond which a weight is lost in rounding even if its multiplicity is a million times the nearest's.
template <class Real>
constexpr Real negligible() {
    return sizeof(Real) == 4 ? Real(30) : Real(51);
}

template <class Real>
Real lowest_of(Row<const Real> row) {
    const Real* values = row.data();
    Real low = values[0];
#pragma omp simd reduction(min : low)
    for (Index j = 0; j < row.size(); ++j) low = lesser(values[j], low);
    return low;
}

template <class Real>
Index first_equal(Row<const Real> row, Real value) {
    for (Index j = 0; j < row.size(); ++j) {
        if (row[j] == value) return j;
    }
    return 0;
}

// Terms x_j and x_j v_j of sums in float64.
template <class Real>
auto plain_terms(const Real* values) {
    return [=](auto sum, auto at) { return sum + at(values); };
}
template <class Real, class Other>
auto weighted_terms(const Real* values, const Other* factors) {
    return [=](auto sum, auto at) { return fused(at(values), at(factors), sum); };
}

// Partial sums of a sum over distances.
constexpr Index PARTS = 8;

// The sum of w_j d_j, from d². Entry j is added to partial sum j modulo PARTS, so more entries of no weight behind the
// last one change no bit.
template <class Real>
double distance_sum(const Real* squared, const double* weights, Index n) {
    double parts[PARTS] = {};
    const auto add = [&](Index part, Index j) {
        parts[part] = fused(double(std::sqrt(squared[j])), weights[j], parts[part]);
    };
    const Index whole = n / PARTS * PARTS;
    for (Index start = 0; start < whole; start += PARTS) {
#pragma omp simd
        for (Index part = 0; part < PARTS; ++part) add(part, start + part);
    }
    for (Index j = whole; j < n; ++j) add(j - whole, j);
    for (Index half = PARTS / 2; half > 0; half /= 2) {
        for (Index part = 0; part < half; ++part) parts[part] += parts[part + half];
    }
    return parts[0];
}

template <class Real>
void distance_sums(Matrix<const Real> squared, Row<const double> weights, Row<double> sums) {
    for (Index i = 0; i < squared.shape(0); ++i) {
        sums[i] = distance_sum(squared[i].data(), weights.data(), squared.shape(1));
    }
}

}  // namespace ldmaps
