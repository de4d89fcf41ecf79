// Eight numbers side by side, in as many registers as that takes; every operation is done to all of them.
#pragma once

#include <utility>

#include "panels.h"

namespace ldmaps {

// Frames that are prepared together.
constexpr Index TOGETHER = 8;

class Side {
public:
    static constexpr int COUNT = TOGETHER * Index(sizeof(double)) / WIDE_BYTES;
    static constexpr Index WIDTH = TOGETHER / COUNT;
    using Register = Wide<double>;
    Register part[COUNT];
    // Numbers that stand together both in a register and in a panel of `Real`, and how many such pieces there are.
    template <class Real>
    static constexpr Index PIECE = WIDTH < PANEL_LANES<Real> ? WIDTH : PANEL_LANES<Real>;
    template <class Real>
    static constexpr Index PIECES = TOGETHER / PIECE<Real>;

    Side() = default;
    Side(double value) {
        for (Register& each : part) each = spread<Register>(value);
    }
    static Side load(const double* from) {
        Side side;
        for (int i = 0; i < COUNT; ++i) side.part[i] = ldmaps::load<Register>(from + i * WIDTH);
        return side;
    }
    void store(double* to) const {
        for (int i = 0; i < COUNT; ++i) ldmaps::store(part[i], to + i * WIDTH);
    }
    // Round to another precision, write each piece to a place of its own, and return the rounded numbers.
    template <class Real>
    Side round_to(Real* const (&places)[PIECES<Real>], Index offset) const {
        typedef Real Narrow __attribute__((vector_size(sizeof(Real) * WIDTH)));
        constexpr Index pieces = WIDTH / PIECE<Real>;
        using Part = Vector<Real, PIECE<Real> * Index(sizeof(Real))>;
        Side side;
        for (int i = 0; i < COUNT; ++i) {
            const Narrow narrow = __builtin_convertvector(part[i], Narrow);
            for (Index piece = 0; piece < pieces; ++piece) {
                const Real* from = reinterpret_cast<const Real*>(&narrow) + piece * PIECE<Real>;
                ldmaps::store(ldmaps::load<Part>(from), places[i * pieces + piece] + offset);
            }
            side.part[i] = __builtin_convertvector(narrow, Register);
        }
        return side;
    }
    template <class Real>
    Side round_to(Real* to) const {
        Real* places[PIECES<Real>];
        for (Index piece = 0; piece < PIECES<Real>; ++piece) places[piece] = to + piece * PIECE<Real>;
        return round_to(places, 0);
    }
};

struct SideMask {
    decltype(Side::Register{} > Side::Register{}) part[Side::COUNT];
};

#define LDMAPS_SIDE_OPERATOR(Result, sign)                                               \
    inline Result operator sign(const Side& a, const Side& b) {                          \
        Result result;                                                                   \
        for (int i = 0; i < Side::COUNT; ++i) result.part[i] = a.part[i] sign b.part[i]; \
        return result;                                                                   \
    }
LDMAPS_SIDE_OPERATOR(Side, +)
LDMAPS_SIDE_OPERATOR(Side, -)
LDMAPS_SIDE_OPERATOR(Side, *)
LDMAPS_SIDE_OPERATOR(Side, /)
LDMAPS_SIDE_OPERATOR(SideMask, >)
LDMAPS_SIDE_OPERATOR(SideMask, >=)
LDMAPS_SIDE_OPERATOR(SideMask, <)
#undef LDMAPS_SIDE_OPERATOR

inline Side operator-(const Side& a) {
    Side result;
    for (int i = 0; i < Side::COUNT; ++i) result.part[i] = -a.part[i];
    return result;
}

inline Side fused(const Side& a, const Side& b, const Side& c) {
    Side result;
    for (int i = 0; i < Side::COUNT; ++i) result.part[i] = fused(a.part[i], b.part[i], c.part[i]);
    return result;
}

inline Side sqrt(const Side& a) {
    Side result;
    for (int i = 0; i < Side::COUNT; ++i) result.part[i] = sqrt(a.part[i]);
    return result;
}

// `a` where the mask holds, elsewhere `b`.
inline Side choose(const SideMask& mask, const Side& a, const Side& b) {
    Side result;
    for (int i = 0; i < Side::COUNT; ++i) result.part[i] = mask.part[i] ? a.part[i] : b.part[i];
    return result;
}

// An atom of eight frames.
struct Atom {
    Side x, y, z;
};

// Read an atom `place` elements after where each frame begins.
template <class Given, std::size_t... Lane>
inline Atom gather(const Given* const (&begins)[TOGETHER], Index place, std::index_sequence<Lane...>) {
    typedef Given Loaded __attribute__((vector_size(sizeof(Given) * Side::WIDTH)));
    Atom atom;
    for (int i = 0; i < Side::COUNT; ++i) {
        const Given* const* from = begins + i * Side::WIDTH;
        const Loaded x = {from[Lane][place]...}, y = {from[Lane][place + 1]...}, z = {from[Lane][place + 2]...};
        atom.x.part[i] = __builtin_convertvector(x, Side::Register);
        atom.y.part[i] = __builtin_convertvector(y, Side::Register);
        atom.z.part[i] = __builtin_convertvector(z, Side::Register);
    }
    return atom;
}

}  // namespace ldmaps
