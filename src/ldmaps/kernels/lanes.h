// One register of numbers, for loops whose numbers must stay in registers.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "array.h"
#include "fused.h"

namespace ldmaps {

// Bytes of a register. Wider ones, where there are some, do no more per cycle on most processors.
#if defined(__AVX__)
constexpr Index REGISTER_BYTES = 32;
#else
constexpr Index REGISTER_BYTES = 16;
#endif

template <class Real>
struct LanesOf {
    typedef Real type __attribute__((vector_size(REGISTER_BYTES)));
};
template <class Real>
using Lanes = typename LanesOf<Real>::type;

template <class Real>
Lanes<Real> load(const Real* from) {
    Lanes<Real> lanes;
    __builtin_memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

template <class Real>
void store(Lanes<Real> lanes, Real* to) {
    __builtin_memcpy(to, &lanes, sizeof lanes);
}

// Numbers of whatever precision as a register of float64.
inline Lanes<double> load_double(const double* from) { return load(from); }
inline Lanes<double> load_double(const float* from) {
#if defined(__AVX__)
    return (Lanes<double>)_mm256_cvtps_pd(_mm_loadu_ps(from));  // which g++ 12 does not make of what follows
#else
    typedef float Narrow __attribute__((vector_size(REGISTER_BYTES / 2)));
    Narrow narrow;
    __builtin_memcpy(&narrow, from, sizeof narrow);
    return __builtin_convertvector(narrow, Lanes<double>);
#endif
}

#if defined(__FMA__)
inline Lanes<float> fused(Lanes<float> a, Lanes<float> b, Lanes<float> c) {
    return (Lanes<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
inline Lanes<double> fused(Lanes<double> a, Lanes<double> b, Lanes<double> c) {
    return (Lanes<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif defined(__aarch64__)
template <class L>
inline L fused_lanes(L a, L b, L c) {
    for (std::size_t lane = 0; lane < sizeof(L) / sizeof(a[0]); ++lane) c[lane] = fused(a[lane], b[lane], c[lane]);
    return c;
}
inline Lanes<float> fused(Lanes<float> a, Lanes<float> b, Lanes<float> c) { return fused_lanes(a, b, c); }
inline Lanes<double> fused(Lanes<double> a, Lanes<double> b, Lanes<double> c) { return fused_lanes(a, b, c); }
#else
inline Lanes<float> fused(Lanes<float> a, Lanes<float> b, Lanes<float> c) { return a * b + c; }
inline Lanes<double> fused(Lanes<double> a, Lanes<double> b, Lanes<double> c) { return a * b + c; }
#endif

// The sum of all lanes, by halves.
template <class Real>
Real total_of_lanes(Lanes<Real> lanes) {
    constexpr int COUNT = REGISTER_BYTES / sizeof(Real);
    Real sums[COUNT];
    for (int lane = 0; lane < COUNT; ++lane) sums[lane] = lanes[lane];
    for (int half = COUNT / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    return sums[0];
}

}  // namespace ldmaps
