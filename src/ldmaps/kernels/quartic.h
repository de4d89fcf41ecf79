// The largest root of the quartic of a superposition, for many pairs of frames at once.
//
// With signed singular values s1 >= s2 >= |s3| of M (s3 has the sign of det M), lambda = s1 + s2 + s3 is the
// maximum of tr(RM) over proper rotations R. With y the second elementary symmetric function of the s_i, F = |M|²,
// C = |cof M|²:
//
//     lambda² = F + 2y,     f = y² - C - 2 lambda det M = 0,     df/dlambda = 2q,
//     q = y lambda - det M = (s1+s2)(s2+s3)(s1+s3),              d²f/dlambda² = 2(y + lambda²).
//
// As a function of lambda, f is the characteristic polynomial of a symmetric 4×4 matrix, so its four roots are real and
// Laguerre's steps go to the largest one. A step t changes lambda by -t and y by -t(lambda - t/2), which is exact: y is
// never formed as the difference (lambda² - F)/2, so nothing cancels when all atoms are nearly on one line. The root is
// ill-conditioned only where q is small beside the rounding of C and det, that is for det M < 0 with s2 near |s3|;
// those lanes are found by an error estimate and computed again.
//
// Every lane takes the same steps, so a root does not depend on those beside it; and every expression is symmetric
// under M -> Mᵀ, so M and Mᵀ have the same root, bit by bit.
#pragma once

#include "panels.h"
#include "superposition.h"

namespace ldmaps {

// The square root to within 7e-4 of itself, at a quarter of the cost of the exact one: the exponent is halved in the
// bit pattern, then one step of Newton's iteration for 1/sqrt with coefficients that balance its error.
template <class Real>
inline Real rough_sqrt(Real x) {
    constexpr Bits<Real> half_bias = sizeof(Real) == 4 ? 0x5F1FFFF9u : 0x5FE3FFFF3FFFFFFFull;
    const Real inverse = bits_of<Real>(half_bias - (bits_of<Bits<Real>>(x) >> 1));
    const Real root = x * inverse;
    return (root * Real(0.703952253)) * fused(-root, inverse, Real(2.38924456));
}

// The larger of x and 0, by the sign bit: a comparison here makes g++ compute what follows twice.
template <class Real>
inline Real positive_part(Real x) {
    const auto bits = bits_of<Signed<Real>>(x);
    return bits_of<Real>(bits & ~(bits >> (8 * sizeof(Real) - 1)));
}

template <class Real>
void load_matrix(const WorkOf<Real>& work, Index lane, Matrix3& matrix) {
    for (int entry = 0; entry < 9; ++entry) matrix[entry / 3][entry % 3] = work.rows[entry][lane];
}

// Write the largest root of all lanes, and in DOUBT not 0 for each that must be computed again. Returns whether any is.
//
// f, f' and f'' all change sign at or below the largest root, and a polynomial with real roots only has no root above a
// lambda where none of them is negative: so f' and f'' tell whether lambda is the largest one. The start, at least
// sqrt(F), lies above the second largest, s1-s2-s3; only rounding can lead a lane astray.
template <class Real>
bool find_roots(WorkOf<Real>& work, Index n_lanes) {
    constexpr Real epsilon = std::numeric_limits<Real>::epsilon();
    constexpr Real tiny = Real(1e-30);  // only frames without extent reach it: 0/tiny is 0
    auto& m = work.rows;
    // A loop per step: short enough for a processor to overlap several turns of each.
#pragma omp simd
    for (Index at = 0; at < n_lanes; ++at) {
        const Invariants<Real> own(m[0][at], m[1][at], m[2][at], m[3][at], m[4][at], m[5][at], m[6][at], m[7][at],
                                   m[8][at]);
        m[SQUARE][at] = own.square, m[COFACTORS][at] = own.cofactors, m[DETERMINANT][at] = own.det;
    }
#pragma omp simd
    for (Index at = 0; at < n_lanes; ++at) {
        const Real square = m[SQUARE][at], cofactors = m[COFACTORS][at], det2 = m[DETERMINANT][at] * 2;
        const Real root_c = rough_sqrt(cofactors);
        const Real lambda = rough_sqrt(fused(root_c, Real(2), square));
        const Real y = rough_sqrt(positive_part(fused(det2, lambda, cofactors)));
        // Exact: from here on lambda² = F + 2y is kept by the updates.
        m[ROOT][at] = std::sqrt(fused(y, Real(2), square));
        m[SECOND][at] = y;
        // The rounding of f: 2C stands for the sums (where q is small det is negative and 2 lambda |det| <= C), and the
        // rest for what cancels inside cofactors and determinant: products of entries, no more than AREA_a·AREA_b and
        // than F/2.
        const Real product = lesser(m[BOUND][at], square * Real(0.5));
        m[NOISE][at] = fused(cofactors, Real(2), (product * Real(0.5)) * (root_c + product)) * epsilon;
    }
    // Laguerre, which also copes with the far side of a near-double root; then Newton.
    for (int step = 0; step < 2; ++step) {
#pragma omp simd
        for (Index at = 0; at < n_lanes; ++at) {
            const Real cofactors = m[COFACTORS][at], det = m[DETERMINANT][at], lambda = m[ROOT][at], y = m[SECOND][at];
            const Real value = fused(det * -2, lambda, fused(y, y, -cofactors));
            const Real q = fused(y, lambda, -det);
            const Real curvature = fused(lambda, lambda, y);
            const Real spread = rough_sqrt(positive_part(fused(-(value * 6), curvature, (q * 9) * q)));
            const Real t = (value * 2) / ((std::abs(q) + spread) + tiny);
            m[SECOND][at] = fused(-t, lambda - t * Real(0.5), y);
            m[ROOT][at] = lambda - t;
        }
    }
    const auto newton = [&](Index at) {
        const Real cofactors = m[COFACTORS][at], det = m[DETERMINANT][at], lambda = m[ROOT][at], y = m[SECOND][at];
        const Real value = fused(det * -2, lambda, fused(y, y, -cofactors));
        const Real t = (value * Real(0.5)) / (fused(y, lambda, -det) + tiny);
        m[SECOND][at] = fused(-t, lambda - t * Real(0.5), y);
        m[ROOT][at] = lambda - t;
        return t;
    };
    if (sizeof(Real) == 8) {
#pragma omp simd
        for (Index at = 0; at < n_lanes; ++at) newton(at);
    }
    Real doubtful = 0;
#pragma omp simd reduction(+ : doubtful)
    for (Index at = 0; at < n_lanes; ++at) {
        const Real t = newton(at);
        const Real lambda = m[ROOT][at], y = m[SECOND][at];
        const Real q = fused(y, lambda, -m[DETERMINANT][at]), curvature = fused(lambda, lambda, y);
        // 2q·(error of lambda) is t²(y + lambda²) for the iteration, plus the rounding of f. Allowed are 4 roundings.
        const Real excess = fused(t * t, curvature, m[NOISE][at]) - q * (8 * epsilon);
        // NaN is doubtful too.
        const Real doubt = (excess <= 0 && curvature >= 0) ? Real(0) : Real(1);
        m[DOUBT][at] = doubt;
        doubtful += doubt;
    }
    return doubtful != 0;
}

template <class Real>
double jacobi_root(const WorkOf<Real>& work, Index lane) {
    Matrix3 u, v;
    load_matrix(work, lane, u);
    // Jacobi treats rows and columns differently: of M and Mᵀ always take the same one.
    const double b = u[0][1], c = u[0][2], f = u[1][2], d = u[1][0], g = u[2][0], h = u[2][1];
    if (b < d || (b == d && (c < g || (c == g && f < h)))) {
        std::swap(u[0][1], u[1][0]), std::swap(u[0][2], u[2][0]), std::swap(u[1][2], u[2][1]);
    }
    orthogonal_columns(u, v);
    double total = 0.0, smallest = std::numeric_limits<double>::infinity();
    for (int p = 0; p < 3; ++p) {
        const double length = column_length(u, p);
        total += length;
        smallest = std::min(smallest, length);
    }
    // The columns are at right angles now, so the sign of their determinant is certain.
    const double det = u[0][0] * (u[1][1] * u[2][2] - u[1][2] * u[2][1]) +
                       u[0][1] * (u[1][2] * u[2][0] - u[1][0] * u[2][2]) +
                       u[0][2] * (u[1][0] * u[2][1] - u[1][1] * u[2][0]);
    return det < 0.0 ? total - 2.0 * smallest : total;
}

// Lambda of one doubtful lane: Laguerre in float64 until it stands still, else Jacobi. float64 alone settles nearly all
// lanes of a float32 block.
template <class Real>
double careful_root(const WorkOf<Real>& work, Index lane) {
    constexpr double epsilon = std::numeric_limits<Real>::epsilon();
    Matrix3 m;
    load_matrix(work, lane, m);
    const Invariants<double> own(m[0][0], m[0][1], m[0][2], m[1][0], m[1][1], m[1][2], m[2][0], m[2][1], m[2][2]);
    const double square = own.square, cofactors = own.cofactors, det = own.det;
    const double root_c = std::sqrt(cofactors);
    const double product = lesser(double(work.rows[BOUND][lane]), 0.5 * square);
    const double rounding = 2.2e-16 * (2.0 * cofactors + 0.5 * product * (root_c + product));
    double lambda = std::sqrt(square + 2.0 * root_c);
    double y = std::sqrt(positive_part(cofactors + 2.0 * det * lambda));
    lambda = std::sqrt(square + 2.0 * y);
    for (int step = 0; step < 12; ++step) {
        const double value = y * y - cofactors - 2.0 * det * lambda;
        double q = y * lambda - det, curvature = lambda * lambda + y;
        const double spread = std::sqrt(positive_part(9.0 * q * q - 6.0 * value * curvature));
        const double t = 2.0 * value / (std::abs(q) + spread + 1e-300);
        y -= t * (lambda - 0.5 * t);
        lambda -= t;
        q = y * lambda - det, curvature = lambda * lambda + y;
        if (curvature > 0.0 && t * t * curvature <= epsilon * q && rounding <= 8.0 * epsilon * q) return lambda;
    }
    return jacobi_root(work, lane);
}

// Write the largest roots of all lanes; those in doubt are computed again.
template <class Real>
void settle_roots(WorkOf<Real>& work, Index n_lanes) {
    if (!find_roots(work, n_lanes)) return;
    for (Index at = 0; at < n_lanes; ++at) {
        if (work.rows[DOUBT][at] != 0) work.rows[ROOT][at] = static_cast<Real>(careful_root(work, at));
    }
}

}  // namespace ldmaps
