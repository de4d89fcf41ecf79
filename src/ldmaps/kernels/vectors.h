// Registers of several numbers, where a loop must keep sums in them: the compiler's own vector types.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "array.h"
#include "fused.h"

namespace ldmaps {

template <class Real, Index Bytes>
struct VectorOf {
    typedef Real type __attribute__((vector_size(Bytes)));
};
template <class Real, Index Bytes>
using Vector = typename VectorOf<Real, Bytes>::type;

// The widest registers of the instruction set.
#if defined(__AVX512F__)
constexpr Index WIDE_BYTES = 64;
#elif defined(__AVX__)
constexpr Index WIDE_BYTES = 32;
#else
constexpr Index WIDE_BYTES = 16;
#endif
template <class Real>
using Wide = Vector<Real, WIDE_BYTES>;
template <class Real>
constexpr Index WIDTH = WIDE_BYTES / Index(sizeof(Real));

// Registers for loops that read more than they compute: the widest are no faster there.
constexpr Index LANES_BYTES = WIDE_BYTES < 32 ? WIDE_BYTES : 32;
template <class Real>
using Lanes = Vector<Real, LANES_BYTES>;
template <class Real>
constexpr Index LANES = LANES_BYTES / Index(sizeof(Real));

// Through a type that may stand at any element. (Not by memcpy: g++ then keeps the vector in memory.)
template <class V, class Real>
V load(const Real* from) {
    typedef Real Anywhere __attribute__((vector_size(sizeof(V)), aligned(alignof(Real)), may_alias));
    return *reinterpret_cast<const Anywhere*>(from);
}
template <class V, class Real>
void store(V vector, Real* to) {
    typedef Real Anywhere __attribute__((vector_size(sizeof(V)), aligned(alignof(Real)), may_alias));
    *reinterpret_cast<Anywhere*>(to) = vector;
}
// A register, or one number, at a place.
template <class Side, class Real>
inline Side side_at(const Real* from) {
    if constexpr (std::is_same_v<Side, Real>) {
        return *from;
    } else {
        return load<Side>(from);
    }
}
template <class Side, class Real>
inline void put_side(Side side, Real* to) {
    if constexpr (std::is_same_v<Side, Real>) {
        *to = side;
    } else {
        store(side, to);
    }
}

// A number in every lane. (Not 0 + x, which for -0 is something else and costs an addition.)
template <class V, class Real>
V spread(Real x) {
    return x - V{};
}

// Without the sign.
template <class Side>
Side magnitude(Side x) {
    if constexpr (std::is_floating_point_v<Side>) {
        return std::abs(x);
    } else {
        using Whole = decltype(x < x);
        using Number = std::remove_reference_t<decltype(Whole{}[0])>;
        return (Side)((Whole)x & (Whole{} + std::numeric_limits<Number>::max()));
    }
}

// a·b + c, rounded once where the processor can; see fused.h. Overloads by register.
#define LDMAPS_FUSED(Real, Bytes, result)                                                                   \
    inline Vector<Real, Bytes> fused(Vector<Real, Bytes> a, Vector<Real, Bytes> b, Vector<Real, Bytes> c) { \
        return result;                                                                                      \
    }
#if defined(__FMA__)
LDMAPS_FUSED(float, 16, (Vector<float, 16>)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c))
LDMAPS_FUSED(double, 16, (Vector<double, 16>)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c))
LDMAPS_FUSED(float, 32, (Vector<float, 32>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c))
LDMAPS_FUSED(double, 32, (Vector<double, 32>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c))
#elif defined(__aarch64__)
LDMAPS_FUSED(float, 16, (Vector<float, 16>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b))
LDMAPS_FUSED(double, 16, (Vector<double, 16>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b))
#else
LDMAPS_FUSED(float, 16, a* b + c)
LDMAPS_FUSED(double, 16, a* b + c)
#endif
#if defined(__AVX512F__)
LDMAPS_FUSED(float, 64, (Vector<float, 64>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c))
LDMAPS_FUSED(double, 64, (Vector<double, 64>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c))
#endif
#if !defined(__AVX__)
// Two registers; g++ takes them apart.
inline Vector<double, 32> fused(Vector<double, 32> a, Vector<double, 32> b, Vector<double, 32> c) {
    Vector<double, 32> result;
    for (int lane = 0; lane < 4; ++lane) result[lane] = fused(a[lane], b[lane], c[lane]);
    return result;
}
#endif
#undef LDMAPS_FUSED

// The narrowest registers, which take the least time from one operation to the next.
using Narrow = Vector<double, 16>;

inline Narrow sqrt(Narrow a) {
#if defined(__SSE2__)
    return (Narrow)_mm_sqrt_pd((__m128d)a);
#elif defined(__aarch64__)
    return (Narrow)vsqrtq_f64((float64x2_t)a);
#else
    return Narrow{std::sqrt(a[0]), std::sqrt(a[1])};
#endif
}
#if defined(__AVX512F__)
inline Wide<double> sqrt(Wide<double> a) { return (Wide<double>)_mm512_maskz_sqrt_pd(0xFF, (__m512d)a); }
#elif defined(__AVX__)
inline Wide<double> sqrt(Wide<double> a) { return (Wide<double>)_mm256_sqrt_pd((__m256d)a); }
#endif

// The sum over the lanes, by halves.
template <class Real, Index Bytes>
Real sum_of(Vector<Real, Bytes> vector) {
    if constexpr (Bytes == sizeof(Real)) {
        return vector[0];
    } else {
        Real lanes[Bytes / sizeof(Real)];
        store(vector, lanes);
        using Half = Vector<Real, Bytes / 2>;
        return sum_of<Real, Bytes / 2>(load<Half>(lanes) + load<Half>(lanes + Bytes / 2 / sizeof(Real)));
    }
}

// Numbers of whatever precision as a register of float64.
template <Index Bytes>
Vector<double, Bytes> load_double(const double* from) {
    return load<Vector<double, Bytes>>(from);
}
template <Index Bytes>
Vector<double, Bytes> load_double(const float* from) {
    // By name: g++ 12 makes something else of a conversion of vectors.
#if defined(__AVX512F__)
    if constexpr (Bytes == 64) return (Vector<double, 64>)_mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(from));
#endif
#if defined(__AVX__)
    if constexpr (Bytes == 32) return (Vector<double, 32>)_mm256_cvtps_pd(_mm_loadu_ps(from));
#endif
    return __builtin_convertvector(load<Vector<float, Bytes / 2>>(from), Vector<double, Bytes>);
}

// Partial sums of a sum in float64: four registers of them, so that additions need not wait for each other.
constexpr Index PARTIAL = 4 * WIDTH<double>;

// Where terms stand: `at(values)` is a register of numbers from j on, or the one at j, as float64.
struct Several {
    Index j;
    template <class Real>
    Wide<double> operator()(const Real* values) const {
        return load_double<WIDE_BYTES>(values + j);
    }
};
struct Single {
    Index j;
    template <class Real>
    double operator()(const Real* values) const {
        return values[j];
    }
};

// Add terms to partial sums, term j to that of j modulo PARTIAL; `add(sum, at)` adds what stands at a place.
template <class Add>
void add_terms(Index count, double* partial, Add add) {
    constexpr Index step = WIDTH<double>;
    const auto sums = [=](Index which) { return load<Wide<double>>(partial + which * step); };
    Wide<double> s0 = sums(0), s1 = sums(1), s2 = sums(2), s3 = sums(3);
    Index j = 0, lane = 0;
    for (; j + PARTIAL <= count; j += PARTIAL) {
        s0 = add(s0, Several{j}), s1 = add(s1, Several{j + step}), s2 = add(s2, Several{j + 2 * step});
        s3 = add(s3, Several{j + 3 * step});
    }
    store(s0, partial), store(s1, partial + step), store(s2, partial + 2 * step), store(s3, partial + 3 * step);
    for (; j + step <= count; j += step, lane += step) store(add(sums(lane / step), Several{j}), partial + lane);
    for (; j < count; ++j, ++lane) partial[lane] = add(partial[lane], Single{j});
}

inline double total_of_partial(const double* partial) {
    const auto sums = [=](Index which) { return load<Wide<double>>(partial + which * WIDTH<double>); };
    return sum_of<double, WIDE_BYTES>((sums(0) + sums(1)) + (sums(2) + sums(3)));
}

template <class Add>
double sum_over(Index count, Add add) {
    alignas(64) double partial[PARTIAL] = {};
    add_terms(count, partial, add);
    return total_of_partial(partial);
}

}  // namespace ldmaps
