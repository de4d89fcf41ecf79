// Frames, centred, weighed, turned and scaled into panels (see panels.h).
//
// All in float64: only the finished coordinates are rounded to the panels' precision, so an offset of any size costs no
// accuracy that the input still had. A register of frames goes through side by side, a frame to a lane, each by the
// same operations, so a frame's result does not depend on its neighbours; nor on the register, which is a narrow one
// for a frame that comes alone.
#pragma once

#include "panels.h"

namespace ldmaps {

// Sweeps of Jacobi's method that make a frame's covariance diagonal to rounding. With fewer, the rounding of a frame
// and of its turned copy would no longer be alike, and their distance no longer 0.
constexpr int JACOBI_SWEEPS = 4;
// Moments that differ by a smaller share of their sum have no axes: no d² shows them, and their squares underflow.
constexpr double NO_EXTENT = 1e-140;

// An atom of each of the frames that are prepared together; `Side` is a number of each.
template <class Side>
struct Atom {
    Side x, y, z;
};

// Clear an off-diagonal entry x of symmetric matrices by a rotation of the axes p and q, and turn these along.
template <class Side>
inline void rotate(Side& moment_p, Side& moment_q, Side& x, Side& pr, Side& qr, Side (&p)[3], Side (&q)[3]) {
    const Side difference = moment_q - moment_p;
    const auto is_growing = difference >= 0.0;
    const Side root = sqrt(fused(difference, difference, (x * 4.0) * x));
    const Side below = (is_growing ? difference : -difference) + root;
    const auto is_turned = root > NO_EXTENT;
    const Side size = is_turned ? (x * 2.0) / below : Side{};
    const Side t = is_growing ? size : -size;
    // Not 1/sqrt(1 + t²), so that the two divisions do not wait for each other.
    const Side c = is_turned ? sqrt((below * 0.5) / root) : spread<Side>(1.0);
    const Side s = t * c;
    moment_p = fused(-t, x, moment_p);
    moment_q = fused(t, x, moment_q);
    x = Side{};
    const auto turn = [&c, &s](Side& u, Side& v) {
        const Side before = u;
        u = fused(c, before, -(s * v));
        v = fused(s, before, c * v);
    };
    turn(pr, qr);
    for (int row = 0; row < 3; ++row) turn(p[row], q[row]);
}

// Exchange two axes where the second has the larger moment; a sign keeps them right-handed.
template <class Side>
inline void order(Side& moment_p, Side& moment_q, Side (&p)[3], Side (&q)[3]) {
    const auto swap = moment_q > moment_p;
    const auto exchange = [&swap](Side& u, Side& v, const Side negated) {
        const Side before = u;
        u = swap ? v : before;
        v = swap ? negated : v;
    };
    exchange(moment_p, moment_q, moment_p);
    for (int row = 0; row < 3; ++row) exchange(p[row], q[row], -p[row]);
}

// Write the axes of symmetric 3×3 matrices, that of the largest moment first; right-handed.
template <class Side>
inline void principal_axes(Side xx, Side yy, Side zz, Side xy, Side xz, Side yz, Side (&axes)[3][3]) {
    for (int axis = 0; axis < 3; ++axis) {
        for (int row = 0; row < 3; ++row) axes[axis][row] = spread<Side>(axis == row ? 1.0 : 0.0);
    }
    for (int sweep = 0; sweep < JACOBI_SWEEPS; ++sweep) {
        rotate(xx, yy, xy, xz, yz, axes[0], axes[1]);
        rotate(xx, zz, xz, xy, yz, axes[0], axes[2]);
        rotate(yy, zz, yz, xy, xz, axes[1], axes[2]);
    }
    order(xx, yy, axes[0], axes[1]);
    order(yy, zz, axes[1], axes[2]);
    order(xx, yy, axes[0], axes[1]);
}

// What stands `place` elements after where each frame begins.
template <class Side, class Given, std::size_t... Lane>
inline Side gathered(const Given* const* begins, Index place, std::index_sequence<Lane...>) {
    const Vector<Given, sizeof...(Lane) * Index(sizeof(Given))> numbers = {begins[Lane][place]...};
    return __builtin_convertvector(numbers, Side);
}

// Prepare the frames from `first` on. Lanes beyond the last frame repeat it.
template <class Side, class Given, class Real>
void pack(Cube<const Given> frames, Index first, Row<const Index> kept, Row<const double> root_weights, double* lanes,
          Cube<Real> panels, Matrix<Real> moments) {
    constexpr Index TOGETHER = sizeof(Side) / sizeof(double);
    // Frames that stand together both in a register and in a panel.
    constexpr Index width = PANEL_LANES<Real>, piece = std::min(width, TOGETHER);
    const Index n_kept = kept.size(), last = frames.shape(0) - 1, frame_size = frames.shape(1) * 3, depth = 3 * n_kept;
    const Index* chosen = kept.data();
    const double* roots = root_weights.data();
    const auto frame = [&](Index index) { return frames.data() + std::min(index, last) * frame_size; };
    const Given* begins[TOGETHER];
    for (Index lane = 0; lane < TOGETHER; ++lane) begins[lane] = frame(first + lane);
    const auto atom = [&](Index k) {
        const auto along = [&](Index axis) {
            return gathered<Side>(begins, 3 * chosen[k] + axis, std::make_index_sequence<TOGETHER>{});
        };
        return Atom<Side>{along(0), along(1), along(2)};
    };
    // Relative to the first atom, because differences of nearby numbers are exact.
    const Atom<Side> origin = atom(0);
    Atom<Side> centre = {};
    for (Index k = 0; k < n_kept; ++k) {
        const auto weight = spread<Side>(roots[k] * roots[k]);
        const Atom<Side> here = atom(k);
        const Side x = here.x - origin.x, y = here.y - origin.y, z = here.z - origin.z;
        double* row = lanes + 3 * k * TOGETHER;
        store(x, row), store(y, row + TOGETHER), store(z, row + 2 * TOGETHER);
        centre.x = fused(weight, x, centre.x);
        centre.y = fused(weight, y, centre.y);
        centre.z = fused(weight, z, centre.z);
    }
    const auto stored = [=](Index k, Index axis) { return load<Side>(lanes + (3 * k + axis) * TOGETHER); };
    Side xx{}, yy{}, zz{}, xy{}, xz{}, yz{};
    const Given* upcoming = frame(first + TOGETHER);
    for (Index k = 0; k < n_kept; ++k) {
        // Processors do not foresee that several frames will be read at once.
        for (Index line = 0; line < 3 * TOGETHER * Index(sizeof(Given)); line += 64) {
            __builtin_prefetch(reinterpret_cast<const char*>(upcoming + 3 * TOGETHER * k) + line);
        }
        double* row = lanes + 3 * k * TOGETHER;
        const Side u = roots[k] * (stored(k, 0) - centre.x), v = roots[k] * (stored(k, 1) - centre.y),
                   w = roots[k] * (stored(k, 2) - centre.z);
        store(u, row), store(v, row + TOGETHER), store(w, row + 2 * TOGETHER);
        xx = fused(u, u, xx), yy = fused(v, v, yy), zz = fused(w, w, zz);
        xy = fused(u, v, xy), xz = fused(u, w, xz), yz = fused(v, w, yz);
    }
    const auto rounded = [](Side numbers) {
        return __builtin_convertvector(numbers, Vector<Real, TOGETHER * Index(sizeof(Real))>);
    };
    const auto one = spread<Side>(1.0);
    // Rounded before the division, so that s times the stored frame is the frame.
    const Side size = __builtin_convertvector(rounded(sqrt(xx + yy + zz)), Side);
    const Side finite = size < std::numeric_limits<double>::infinity() ? size : one;
    const Side scale = finite > 0.0 ? finite : one, inverse = one / scale, square = inverse * inverse;
    Side axes[3][3];
    principal_axes(xx * square, yy * square, zz * square, xy * square, xz * square, yz * square, axes);
    for (auto& axis : axes) {
        for (Side& entry : axis) entry = entry * inverse;
    }
    Real* const place = panels[first / width].data() + first % width;
    const Index n_pieces = std::min(TOGETHER / piece, panels.shape(0) - first / width);
    Atom<Side> total = {};
    for (Index start = 0; start < n_kept; start += ATOM_BLOCK) {
        Atom<Side> part = {};
        for (Index k = start; k < std::min(start + ATOM_BLOCK, n_kept); ++k) {
            const Side u = stored(k, 0), v = stored(k, 1), w = stored(k, 2);
            // Norms of the rounded coordinates, so that a frame lies at distance 0 from itself.
            const auto add = [&](const Side(&axis)[3], Index row, Side& sum) {
                const auto narrow = rounded(fused(u, axis[0], fused(v, axis[1], w * axis[2])));
                for (Index at = 0; at < n_pieces; ++at) {
                    const Real* from = reinterpret_cast<const Real*>(&narrow) + at * piece;
                    store(load<Vector<Real, piece * Index(sizeof(Real))>>(from), place + (at * depth + row) * width);
                }
                const Side turned = __builtin_convertvector(narrow, Side);
                sum = fused(turned, turned, sum);
            };
            add(axes[0], 3 * k, part.x), add(axes[1], 3 * k + 1, part.y), add(axes[2], 3 * k + 2, part.z);
        }
        total = {total.x + part.x, total.y + part.y, total.z + part.z};
    }
    const auto& [a, b, c] = total;
    const auto norms = rounded(((a + b + c) * scale) * scale), sizes = rounded(scale),
               areas = rounded(sqrt(a * b + a * c + b * c));
    for (Index lane = 0; lane < std::min(TOGETHER, last + 1 - first); ++lane) {
        moments(SQUARED_NORM, first + lane) = norms[lane], moments(SCALE, first + lane) = sizes[lane];
        moments(AREA, first + lane) = areas[lane];
    }
}

// Centre, weigh, turn and scale frames into `panels` and `moments`. Returns whether four times each squared norm, which
// no d² exceeds, is finite.
template <class Given, class Real>
bool prepare_frames(Cube<const Given> frames, Row<const Index> kept, Row<const double> root_weights, Cube<Real> panels,
                    Matrix<Real> moments) {
    constexpr Index width = PANEL_LANES<Real>;
    const Index n_frames = frames.shape(0), n_panels = (n_frames + width - 1) / width;
    const Scratch<double> lanes(3 * kept.size() * WIDTH<double>);
    bool is_finite = true;
    const auto prepare = n_frames == 1 ? pack<Narrow, Given, Real> : pack<Wide<double>, Given, Real>;
    for (Index first = 0; first < n_frames; first += WIDTH<double>) {
        prepare(frames, first, kept, root_weights, lanes.data(), panels, moments);
    }
    for (Index n = 0; n < n_frames; ++n) is_finite = is_finite && std::isfinite(Real(4) * moments(SQUARED_NORM, n));
    if (n_frames % width) {
        for (Index row = 0; row < panels.shape(1); ++row) {
            Real* const place = panels(n_panels - 1, row).data();
            // All lanes, so that the loop is a register's: a call for each row takes longer than a frame does.
#pragma omp simd
            for (Index lane = 0; lane < width; ++lane) place[lane] = lane < n_frames % width ? place[lane] : Real(0);
        }
    }
    return is_finite;
}

}  // namespace ldmaps
