// Arithmetic whose rounding is written down. Nothing here or in a kernel is compiled with -ffast-math, and the compiler
// may not fuse a product and a sum by itself (-ffp-contract=off): what is fused says so by `fused`, and what may be
// summed in another order by `#pragma omp simd reduction`. So a number does not depend on where in a loop it is made.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ldmaps {

#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
// Without the instruction a fused product is a call of the C library per number.
inline float fused(float a, float b, float c) { return a * b + c; }
inline double fused(double a, double b, double c) { return a * b + c; }
#endif

template <class T>
T lesser(T a, T b) {
    return a < b ? a : b;
}
template <class T>
T greater(T a, T b) {
    return a > b ? a : b;
}

// Whole numbers as wide as a real one.
template <class Real>
using Signed = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;
template <class Real>
using Bits = std::make_unsigned_t<Signed<Real>>;

template <class To, class From>
To bits_of(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Of a polynomial's coefficients, the highest first.
template <class Real, class... Lower>
inline Real polynomial(Real x, Real highest, Lower... lower) {
    ((highest = fused(highest, x, lower)), ...);
    return highest;
}

// exp(x) for x <= 0 to about one unit in the last place; 0 where that is hardly a normal number. Adding `magic` rounds
// to a whole number in the low bits of the mantissa. In float64 the coefficients are 1/13! and so on: with
// |r| <= ln(2)/2 what is left out is 4e-18.
template <class Real>
inline Real exp_negative(Real x) {
    constexpr bool is_single = sizeof(Real) == 4;
    constexpr int mantissa = is_single ? 23 : 52, bias = is_single ? 127 : 1023;
    constexpr Real magic = Real(1.5) * Real(Bits<Real>(1) << mantissa), lowest = is_single ? -87 : -708;
    constexpr Real ln2 = is_single ? Real(-0.693359375) : Real(-0.6931471803691238);
    constexpr Real rest_of_ln2 = is_single ? Real(2.12194440e-4) : Real(-1.9082149292705877e-10);
    const Real y = greater(x, lowest);
    const Real shifted = fused(y, Real(1.4426950408889634), magic);
    const Real n = shifted - magic;
    const Real r = fused(n, rest_of_ln2, fused(n, ln2, y));
    Real p;
    if constexpr (is_single) {
        p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                       5.0000001201e-1f);
    } else {
        p = polynomial(r, 1.6059043836821613e-10, 2.08767569878681e-09, 2.505210838544172e-08, 2.755731922398589e-07,
                       2.7557319223985893e-06, 2.48015873015873e-05, 1.984126984126984e-04, 1.388888888888889e-03,
                       8.333333333333333e-03, 4.1666666666666664e-02, 1.6666666666666666e-01, 0.5);
    }
    const Real scale = bits_of<Real>((bits_of<Bits<Real>>(shifted) + bias) << mantissa);
    return x > lowest ? (fused(p, r * r, r) + Real(1)) * scale : Real(0);
}

}  // namespace ldmaps
