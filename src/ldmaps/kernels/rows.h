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

template <class Real>
double total_of(Row<const Real> row) {
    const Real* values = row.data();
    return sum_over(
        row.size(), [=](Index j, Wide<double> sums) { return sums + load_double<WIDE_BYTES>(values + j); },
        [=](Index j, double total) { return total + values[j]; });
}

// The sum of x_j v_j in float64.
template <class Real, class Other>
double weighted_total(Row<const Real> row, Row<const Other> others) {
    const Real* values = row.data();
    const Other* factors = others.data();
    return sum_over(
        row.size(),
        [=](Index j, Wide<double> sums) {
            return fused(load_double<WIDE_BYTES>(values + j), load_double<WIDE_BYTES>(factors + j), sums);
        },
        [=](Index j, double total) { return fused(double(values[j]), double(factors[j]), total); });
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
void add_distance_sums(Matrix<const Real> squared, Row<const double> weights, Row<double> sums) {
    for (Index i = 0; i < squared.shape(0); ++i) {
        sums[i] = distance_sum(squared[i].data(), weights.data(), squared.shape(1));
    }
}

struct Nearest {
    Index place;
    double squared;
};

// Embed one point by its squared distances to the landmarks and the lowest of each block. Blocks too far to matter are
// not read, so nothing need stand there; the others are replaced by weights.
template <class Real>
Nearest weigh(Row<Real> row, Row<const Real> lows, Real rate, Row<const Real> weights, Matrix<const Real> coefficients,
              Row<double> sums, Row<Real> coordinates) {
    Index closest = 0;
    for (Index block = 1; block < lows.size(); ++block) {
        if (lows[block] < lows[closest]) closest = block;
    }
    const Real low = lows[closest];
    const Index nearest = closest * BLOCK + first_equal<Real>(row.slice(closest * BLOCK, (closest + 1) * BLOCK), low);
    double total = 0.0;
    sums.fill(0.0);
    const Real reach = low + negligible<Real>() / rate;
    for (Index block = 0; block < lows.size(); ++block) {
        if (lows[block] > reach) continue;
        const Index start = block * BLOCK, stop = start + BLOCK;
        const Row<Real> part = row.slice(start, stop);
        Real* shares = part.data();
        const Real* factors = weights.slice(start, stop).data();
#pragma omp simd
        for (Index j = 0; j < part.size(); ++j) shares[j] = exp_negative(rate * (low - shares[j])) * factors[j];
        total += total_of<Real>(part);
        for (Index component = 0; component < sums.size(); ++component) {
            sums[component] += weighted_total<Real, Real>(part, coefficients[component].slice(start, stop));
        }
    }
    for (Index component = 0; component < sums.size(); ++component) {
        coordinates[component] = static_cast<Real>(sums[component] / total);
    }
    return {nearest, static_cast<double>(low)};
}

}  // namespace ldmaps
