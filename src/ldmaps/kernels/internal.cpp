// Internal coordinates of frames: distances (2 atoms), angles (3, the vertex in the middle) and torsions (4, with the
// sign of IUPAC), and what forces on them are as forces on atoms. In float64 whatever the frames are in; frames side by
// side in the lanes of a loop, each by the same operations, so a row does not depend on how many come together.
#include "binding.h"
#include "fused.h"

namespace ldmaps {
namespace {

// Frames that are measured together: what is read of them stays in the L1 cache.
constexpr Index BESIDE = 16;
constexpr double PI = 3.14159265358979323846;

struct Vec {
    double x, y, z;
};
inline Vec operator-(Vec a, Vec b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline Vec operator+(Vec a, Vec b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
inline Vec operator*(double f, Vec a) { return {f * a.x, f * a.y, f * a.z}; }
inline double dot(Vec a, Vec b) { return fused(a.x, b.x, fused(a.y, b.y, a.z * b.z)); }
inline Vec cross(Vec a, Vec b) {
    return {fused(a.y, b.z, -(a.z * b.y)), fused(a.z, b.x, -(a.x * b.z)), fused(a.x, b.y, -(a.y * b.x))};
}
// 0 where nothing is divided by nothing.
inline double ratio(double a, double b) { return a / (b == 0.0 ? 1.0 : b); }

// As atan2 of the C library to about two roundings, but without a branch: the angle is reduced to an eighth of a right
// angle either way, |z| <= sqrt(2) - 1, where the polynomial is off by 5e-18.
inline double angle_of(double y, double x) {
    const double ax = std::abs(x), ay = std::abs(y);
    const bool is_flat = ax >= ay;
    const double low = is_flat ? ay : ax, high = is_flat ? ax : ay;
    const bool is_reduced = low > 0.41421356237309503 * high;
    const double z = ratio(is_reduced ? low - high : low, is_reduced ? low + high : high), s = z * z;
    const double p = polynomial(s, -0.01917688711906226, 0.03923165829558719, -0.0508544973794026, 0.0585814891280221,
                                -0.06664511447381948, 0.07692183190826087, -0.09090904578123903, 0.11111111015256361,
                                -0.14285714284666542, 0.1999999999999552, -0.3333333333333333);
    double angle = fused(p * s, z, z) + (is_reduced ? PI / 4 : 0.0);
    angle = is_flat ? angle : PI / 2 - angle;
    return std::copysign(x < 0.0 ? PI - angle : angle, y);
}

// The coordinate of atoms p.
inline double measured(const Vec (&p)[2]) { return std::sqrt(dot(p[1] - p[0], p[1] - p[0])); }
inline double measured(const Vec (&p)[3]) {
    const Vec u = p[0] - p[1], v = p[2] - p[1], w = cross(u, v);
    return angle_of(std::sqrt(dot(w, w)), dot(u, v));
}
inline double measured(const Vec (&p)[4]) {
    const Vec b = p[2] - p[1], left = cross(p[1] - p[0], b), right = cross(b, p[3] - p[2]);
    return angle_of(std::sqrt(dot(b, b)) * dot(p[1] - p[0], right), dot(left, right));
}

// Its derivatives by them; 0 where it has none.
inline void differentiate(const Vec (&p)[2], Vec (&d)[2]) {
    d[1] = ratio(1.0, measured(p)) * (p[1] - p[0]);
    d[0] = -1.0 * d[1];
}
inline void differentiate(const Vec (&p)[3], Vec (&d)[3]) {
    const Vec u = p[0] - p[1], v = p[2] - p[1], w = cross(u, v);
    const double size = std::sqrt(dot(w, w));
    d[0] = ratio(1.0, dot(u, u) * size) * cross(u, w);
    d[2] = ratio(1.0, dot(v, v) * size) * cross(w, v);
    d[1] = -1.0 * (d[0] + d[2]);
}
inline void differentiate(const Vec (&p)[4], Vec (&d)[4]) {
    const Vec f = p[0] - p[1], g = p[1] - p[2], h = p[3] - p[2], a = cross(f, g), b = cross(h, g);
    const double size = std::sqrt(dot(g, g)), aa = dot(a, a), bb = dot(b, b);
    d[0] = ratio(-size, aa) * a;
    d[3] = ratio(size, bb) * b;
    // What the ends' moves do to the middle: together they neither shift nor turn the four.
    const Vec s = ratio(dot(f, g), aa * size) * a - ratio(dot(h, g), bb * size) * b;
    d[1] = s - d[0];
    d[2] = -1.0 * (s + d[3]);
}

// Call `work(lane, positions)` for `count` frames, and then `done(feature)`, feature by feature. The frames'
// coordinates stand one frame after the other or, if `Beside`, BESIDE frames side by side.
template <int Order, bool Beside, class Given, class Work, class Done>
void for_each_feature(const Given* frames, Index frame_size, Index count, Matrix<const Index> atoms, Work work,
                      Done done) {
    constexpr Index step = Beside ? BESIDE : 1;
    for (Index feature = 0; feature < atoms.shape(0); ++feature) {
        const Given* from[Order];
        for (int k = 0; k < Order; ++k) from[k] = frames + 3 * atoms(feature, k) * step;
#pragma omp simd
        for (Index lane = 0; lane < count; ++lane) {
            Vec p[Order];
#pragma GCC unroll 4
            for (int k = 0; k < Order; ++k) {
                const Given* at = from[k] + (Beside ? lane : lane * frame_size);
                p[k] = {double(at[0]), double(at[step]), double(at[2 * step])};
            }
            work(lane, p);
        }
        done(feature);
    }
}

// The same for all frames, up to BESIDE at a time; `done(feature, start, count)`.
template <int Order, class Given, class Work, class Done>
void for_features(Cube<const Given> frames, Matrix<const Index> atoms, Work work, Done done) {
    const Index frame_size = frames.shape(1) * 3;
    // Copying pays where most of a frame is read, and several frames are.
    const bool is_copied = frames.shape(0) >= BESIDE && 2 * atoms.size() >= frames.shape(1);
    const Scratch<Given> beside(is_copied ? frame_size * BESIDE : 0);
    for (Index start = 0; start < frames.shape(0); start += BESIDE) {
        const Index count = std::min(BESIDE, frames.shape(0) - start);
        const Given* from = frames[start].data();
        const auto end = [&](Index feature) { done(feature, start, count); };
        if (is_copied) {
            for (Index lane = 0; lane < count; ++lane) {
                for (Index p = 0; p < frame_size; ++p) beside.data()[p * BESIDE + lane] = from[lane * frame_size + p];
            }
            for_each_feature<Order, true>(beside.data(), frame_size, count, atoms, work, end);
        } else {
            for_each_feature<Order, false>(from, frame_size, count, atoms, work, end);
        }
    }
}

// Call the form of a function for the number of atoms per feature.
template <class Function>
void by_order(Matrix<const Index> atoms, Function function) {
    const Index order = atoms.shape(1);
    if (order == 2) function(std::integral_constant<int, 2>{});
    if (order == 3) function(std::integral_constant<int, 3>{});
    if (order == 4) function(std::integral_constant<int, 4>{});
}

// Write one kind of coordinates to the columns of `values` from `first` on: in the frames' unit, or radians.
template <class Given, class Real>
void internal_coordinates(Cube<const Given> frames, Matrix<const Index> atoms, Index first, Matrix<Real> values) {
    by_order(atoms, [&](auto order) {
        double found[BESIDE];
        for_features<order>(
            frames, atoms, [&found](Index lane, const auto& p) { found[lane] = measured(p); },
            [&](Index feature, Index start, Index count) {
                for (Index lane = 0; lane < count; ++lane) {
                    values(start + lane, first + feature) = static_cast<Real>(found[lane]);
                }
            });
    });
}
KERNEL_OF(internal_coordinates, "frames[n,a,3] atoms[k,o=2..4]=0..a-1 first=0..f-k values[n,f]",
          form(internal_coordinates<float, float>), form(internal_coordinates<double, double>),
          form(internal_coordinates<float, double>), form(internal_coordinates<double, float>))

// Add to `gradient` what derivatives by those coordinates, `upstream`, are by the atoms.
template <class Real>
void add_internal_gradients(Cube<const double> frames, Matrix<const Index> atoms, Index first,
                            Cube<const Real> upstream, Array<Real, 4> gradient) {
    by_order(atoms, [&](auto order) {
        constexpr int N = order;
        double found[3 * N][BESIDE];
        for_features<N>(
            frames, atoms,
            [&found](Index lane, const auto& p) {
                Vec d[N];
                differentiate(p, d);
#pragma GCC unroll 4
                for (int k = 0; k < N; ++k) {
                    found[3 * k][lane] = d[k].x, found[3 * k + 1][lane] = d[k].y, found[3 * k + 2][lane] = d[k].z;
                }
            },
            [&](Index feature, Index start, Index count) {
                const Index* own = atoms[feature].data();
                for (Index lane = 0; lane < count; ++lane) {
                    for (Index set = 0; set < upstream.shape(1); ++set) {
                        const double factor = upstream(start + lane, set, first + feature);
                        Real* to = gradient(start + lane, set).data();
#pragma GCC unroll 12
                        for (int p = 0; p < 3 * N; ++p) {
                            to[3 * own[p / 3] + p % 3] += static_cast<Real>(factor * found[p][lane]);
                        }
                    }
                }
            });
    });
}
KERNEL(add_internal_gradients, "frames[n,a,3] atoms[k,o=2..4]=0..a-1 first=0..f-k upstream[n,c,f] gradient[n,c,a,3]")

}  // namespace
}  // namespace ldmaps
