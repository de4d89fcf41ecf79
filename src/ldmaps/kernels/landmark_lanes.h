// Frames as they come against a few landmarks: nine sums per pair, and nothing prepared.
//
// Where landmarks are few, what is done once per frame takes longer than distances: for 22 atoms and four landmarks,
// preparing a frame (panels.h) takes twice as long as all that follows. So here the landmarks stand in the lanes of
// registers, and the numbers of a frame are broadcast one after the other:
//
//     lanes[atom][axis * padded + landmark]        w_k z_k of all landmarks, padded to whole quartets
//                    │
//     x_k, y_k, z_k ─┴─► three sums per register   M = sum of w_k x_k z_kᵀ, all landmarks at once
//
// Landmarks are centred, turned to their own axes and divided by their norms, as panels have them. A frame is only
// centred: its own axes would keep small cofactors accurate, but what rounding does to M changes the sum of its
// singular values by no more than itself, so their only effect is that fewer roots are in doubt.
#pragma once

#include <utility>

#include "quartic.h"

namespace ldmaps {

// Landmarks that stand side by side at least.
constexpr Index QUARTET = 4;
// A register, or two where registers hold less than a quartet.
template <class Real>
using Piece = Vector<Real, std::max(LANES_BYTES, QUARTET* Index(sizeof(Real)))>;
template <class Real>
constexpr Index PIECE = Index(sizeof(Piece<Real>) / sizeof(Real));
template <class Real>
using Quartet = Vector<Real, QUARTET * Index(sizeof(Real))>;
// Pieces whose sums stay in registers.
template <class Real>
constexpr int PIECES_AT_ONCE = sizeof(Piece<Real>) > LANES_BYTES ? 1 : 3;
// Fewest atoms that fill a piece.
constexpr Index FEWEST_ATOMS = 3;

// A difference G_a + G_b - 2 s_a s_b lambda of no more than so many roundings of G_a + G_b counts as 0. Copies of a
// landmark, turned and moved, give up to 5.
constexpr double ROUNDING_OF_LANES = 8.0;

constexpr Index whole_quartets(Index count) { return (count + QUARTET - 1) / QUARTET * QUARTET; }

template <int Which, class Real>
inline Quartet<Real> quartet_of(Piece<Real> piece) {
    if constexpr (PIECE<Real> == QUARTET) {
        return piece;
    } else {
        return __builtin_shufflevector(piece, piece, 4 * Which, 4 * Which + 1, 4 * Which + 2, 4 * Which + 3);
    }
}

// x, y, z, x, y and so on, from the first three of a quartet, beginning with axis `Phase`.
template <int Phase, class Real, int... Lane>
inline Piece<Real> axes_in_turn(Quartet<Real> point, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(point, point, (Phase + Lane) % 3 ...);
}

// The three pieces of that pattern, after which it repeats: 4 and 8 are 1 and 2 beyond a multiple of 3.
template <class Real>
struct InTurn {
    Piece<Real> parts[3];

    explicit InTurn(Quartet<Real> point) {
        using Lanes = std::make_integer_sequence<int, int(PIECE<Real>)>;
        constexpr int step = PIECE<Real> % 3;
        parts[0] = axes_in_turn<0, Real>(point, Lanes{});
        parts[1] = axes_in_turn<step, Real>(point, Lanes{});
        parts[2] = axes_in_turn<2 * step % 3, Real>(point, Lanes{});
    }
};

// The sums of x, of y and of z of three pieces in that pattern; the fourth number is of no use.
template <class Real>
inline Quartet<Real> summed_by_axis(const Piece<Real> (&sums)[3]) {
    Quartet<Real> a, b, c;  // x y z x, y z x y, z x y z
    if constexpr (PIECE<Real> == QUARTET) {
        a = sums[0], b = sums[1], c = sums[2];
    } else {
        a = quartet_of<0, Real>(sums[0]) + quartet_of<1, Real>(sums[1]);
        b = quartet_of<1, Real>(sums[0]) + quartet_of<0, Real>(sums[2]);
        c = quartet_of<0, Real>(sums[1]) + quartet_of<1, Real>(sums[2]);
    }
    const Quartet<Real> turned = __builtin_shufflevector(b, b, 2, 0, 1, 1) + __builtin_shufflevector(c, c, 1, 2, 0, 0);
    const Quartet<Real> lasts = __builtin_shufflevector(__builtin_shufflevector(a, b, 3, 7, 3, 7), c, 0, 1, 7, 7);
    return (a + lasts) + turned;
}

// The weights of atoms, one for each of their numbers, piece by piece as `centre_frame` reads them.
template <class Real>
Scratch<Real> weights_in_pieces(Row<const Real> weights) {
    constexpr Index step = PIECE<Real>;
    const Index size = 3 * weights.size(), whole = size / step * step, overlap = whole + step - size;
    Scratch<Real> pieces(whole + step, Real(0));
    for (Index p = 0; p < size; ++p) pieces[p < whole ? p : p + overlap] = weights[p / 3];
    return pieces;
}

// Write a frame of `size` numbers relative to its centre; returns its squared norm. Only whole pieces are read; the
// last one ends with the frame, and what it has in common with the one before has no weight there.
template <class Real>
inline Real centre_frame(const Real* frame, Index size, const Real* weights, Real* centred) {
    constexpr Index step = PIECE<Real>;
    using Part = Piece<Real>;
    const Index whole = size / step;
    const auto place = [=](Index part) { return part < whole ? part * step : size - step; };
    const Index n_parts = whole + (size % step != 0);
    // Relative to the first atom, because differences of nearby numbers are exact.
    const InTurn<Real> origin(load<Quartet<Real>>(frame));
    const auto for_parts = [=](auto work) {
        Index part = 0;
        for (; part + 3 <= whole; part += 3) work(part, 0), work(part + 1, 1), work(part + 2, 2);
        for (int phase = 0; part < n_parts; ++part, ++phase) work(part, part < whole ? phase : 2);
    };
    Part sums[3] = {};
    for_parts([&](Index part, int phase) {
        const Part x = load<Part>(frame + place(part)) - origin.parts[phase];
        sums[phase] = fused(load<Part>(weights + part * step), x, sums[phase]);
    });
    const InTurn<Real> centre(summed_by_axis<Real>(sums));
    Part squares[3] = {};
    for_parts([&](Index part, int phase) {
        const Part x = (load<Part>(frame + place(part)) - origin.parts[phase]) - centre.parts[phase];
        store(x, centred + place(part));
        squares[phase] = fused(load<Part>(weights + part * step) * x, x, squares[phase]);
    });
    return sum_of<Real, sizeof(Part)>((squares[0] + squares[1]) + squares[2]);
}

// Add to, or begin, M of `Frames` frames and the landmarks in `Pieces` pieces of lanes.
template <int Frames, int Pieces, class Real>
inline void add_lane_sums(const Real* const (&frames)[Frames], const Real (&factors)[Frames], const Real* lanes,
                          Index stride, Index n_atoms, Index first_lane, Index padded, WorkOf<Real>& work,
                          Index first_frame, bool is_first) {
    constexpr Index step = PIECE<Real>;
    using Part = Piece<Real>;
    Part sums[Frames][3][Pieces] = {};
    for (Index k = 0; k < n_atoms; ++k) {
        Part z[Pieces];
#pragma GCC unroll 3
        for (int p = 0; p < Pieces; ++p) z[p] = load<Part>(lanes + k * stride + p * step);
#pragma GCC unroll 2
        for (int f = 0; f < Frames; ++f) {
#pragma GCC unroll 3
            for (int axis = 0; axis < 3; ++axis) {
                const Part x = spread<Part>(frames[f][3 * k + axis]);
#pragma GCC unroll 3
                for (int p = 0; p < Pieces; ++p) sums[f][axis][p] = fused(x, z[p], sums[f][axis][p]);
            }
        }
    }
    const auto put = [&](Quartet<Real> sum, int axis, Index lane, Index frame) {
        if (lane >= 3 * padded) return;
        Real* place = work.rows[3 * axis + lane / padded] + frame * padded + lane % padded;
        store(is_first ? sum : load<Quartet<Real>>(place) + sum, place);
    };
#pragma GCC unroll 2
    for (int f = 0; f < Frames; ++f) {
        const Part factor = spread<Part>(factors[f]);
#pragma GCC unroll 3
        for (int p = 0; p < Pieces; ++p) {
#pragma GCC unroll 3
            for (int axis = 0; axis < 3; ++axis) {
                const Part sum = sums[f][axis][p] * factor;
                const Index lane = first_lane + p * step;
                put(quartet_of<0, Real>(sum), axis, lane, first_frame + f);
                if constexpr (step > QUARTET) put(quartet_of<1, Real>(sum), axis, lane + QUARTET, first_frame + f);
            }
        }
    }
}

}  // namespace ldmaps
