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

// Embeds points by their squared distances to the landmarks: w(x)·B, the nearest landmark and its d².
template <class Real>
struct Online {
    Real rate;
    Row<const Real> weights;
    Matrix<const Real> coefficients;  // B transposed
    Matrix<Real> coordinates;
    Row<Index> nearest;
    Row<Real> lowest;
    // Partial sums of the weights, and of each coordinate.
    Scratch<double> memory{(coefficients.shape(0) + 1) * PARTIAL};

    // Embed point i by its row of d² and the lowest of each block. Blocks too far to matter are not read, so nothing
    // need stand there.
    void embed(Index i, Row<const Real> row, Row<const Real> lows) const {
        const Index closest = std::min_element(lows.data(), lows.data() + lows.size()) - lows.data();
        const Real low = lows[closest], reach = low + negligible<Real>() / rate;
        const Index first = closest * BLOCK, n_coordinates = coefficients.shape(0);
        nearest[i] = first + first_equal<Real>(row.slice(first, first + BLOCK), low);
        lowest[i] = low;
        const Matrix<double> partial = memory.matrix(n_coordinates + 1, PARTIAL);
        partial.fill(0.0);
        for (Index block = 0; block < lows.size(); ++block) {
            if (lows[block] > reach) continue;
            const Index start = block * BLOCK;
            const Index n = std::min(BLOCK, row.size() - start);
            const Real *squares = row.data() + start, *factors = weights.data() + start;
            alignas(64) double shares[BLOCK];
#pragma omp simd
            for (Index j = 0; j < n; ++j) shares[j] = exp_negative(rate * (low - squares[j])) * factors[j];
            add_terms(n, partial[0].data(), plain_terms(shares));
            for (Index k = 0; k < n_coordinates; ++k) {
                add_terms(n, partial[k + 1].data(), weighted_terms(shares, coefficients[k].data() + start));
            }
        }
        const double total = total_of_partial(partial[0].data());
        for (Index k = 0; k < n_coordinates; ++k) {
            coordinates(i, k) = static_cast<Real>(total_of_partial(partial[k + 1].data()) / total);
        }
    }
};

}  // namespace ldmaps
