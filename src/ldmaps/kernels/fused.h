// Arithmetic whose rounding is written down. Nothing here or in a kernel is compiled with -ffast-math, and the compiler
// may not fuse a product and a sum by itself (-ffp-contract=off): what is fused says so by `fused`, and what may be
// summed in another order by `#pragma omp simd reduction`. So a number does not depend on where in a loop it is made.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

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

template <class To, class From>
To bits_of(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// exp(x) for x <= 0 to about one unit in the last place; 0 below -87. Adding `magic` = 1.5*2^23 rounds to a whole
// number in the low bits of the mantissa.
inline float exp_negative(float x) {
    const float magic = 12582912.0f;
    const float y = greater(x, -87.0f);
    const float shifted = fused(y, 1.4426950408889634f, magic);
    const float n = shifted - magic;
    const float r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, y));
    float p = 1.9875691500e-4f;
    p = fused(p, r, 1.3981999507e-3f);
    p = fused(p, r, 8.3334519073e-3f);
    p = fused(p, r, 4.1665795894e-2f);
    p = fused(p, r, 1.6666665459e-1f);
    p = fused(p, r, 5.0000001201e-1f);
    p = fused(p, r * r, r) + 1.0f;
    const float scale = bits_of<float>((bits_of<std::uint32_t>(shifted) + 127u) << 23);
    return x > -87.0f ? p * scale : 0.0f;
}

// The same in float64; 0 below -708, and magic = 1.5*2^52. The coefficients are 1/13! and so on: with |r| <= ln(2)/2
// what is left out is 4e-18.
inline double exp_negative(double x) {
    const double magic = 6755399441055744.0;
    const double y = greater(x, -708.0);
    const double shifted = fused(y, 1.4426950408889634, magic);
    const double n = shifted - magic;
    const double r = fused(n, -1.9082149292705877e-10, fused(n, -0.6931471803691238, y));
    double p = 1.6059043836821613e-10;
    p = fused(p, r, 2.08767569878681e-09);
    p = fused(p, r, 2.505210838544172e-08);
    p = fused(p, r, 2.755731922398589e-07);
    p = fused(p, r, 2.7557319223985893e-06);
    p = fused(p, r, 2.48015873015873e-05);
    p = fused(p, r, 1.984126984126984e-04);
    p = fused(p, r, 1.388888888888889e-03);
    p = fused(p, r, 8.333333333333333e-03);
    p = fused(p, r, 4.1666666666666664e-02);
    p = fused(p, r, 1.6666666666666666e-01);
    p = fused(p, r, 0.5);
    p = fused(p, r * r, r) + 1.0;
    const double scale = bits_of<double>((bits_of<std::uint64_t>(shifted) + 1023u) << 52);
    return x > -708.0 ? p * scale : 0.0;
}

}  // namespace ldmaps
