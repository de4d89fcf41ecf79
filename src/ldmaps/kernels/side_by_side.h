// Points that come as rows, side by side in the lanes of registers, a point to a lane: turning rows into lanes, and
// lanes into rows.
#pragma once

#include <utility>

#include "vectors.h"

namespace ldmaps {

// Points that stand side by side.
constexpr Index SIDE_BY_SIDE = 16;
// Points up to which each is taken alone.
constexpr Index ALONE = 3;

// A register of points, at least four of them: two registers where these are narrower than that.
constexpr Index QUARTET = 4;
template <class Real>
using Quartet = Vector<Real, QUARTET * Index(sizeof(Real))>;
template <class Real>
using Beside = Vector<Real, std::max(WIDE_BYTES, QUARTET* Index(sizeof(Real)))>;
template <class Real>
constexpr Index BESIDE = Index(sizeof(Beside<Real>) / sizeof(Real));
static_assert(SIDE_BY_SIDE % BESIDE<float> == 0, "points side by side fill whole registers");

// Four numbers each of rows `first`, `first + 4` and so on, one quartet after the other.
template <class Real>
inline Beside<Real> every_fourth(const Real* const* rows, Index first, Index place) {
    const auto quartet = [=](Index which) { return load<Quartet<Real>>(rows[first + QUARTET * which] + place); };
    if constexpr (BESIDE<Real> == 4) {
        return quartet(0);
    } else if constexpr (BESIDE<Real> == 8) {
        return __builtin_shufflevector(quartet(0), quartet(1), 0, 1, 2, 3, 4, 5, 6, 7);
    } else {
        const auto low = __builtin_shufflevector(quartet(0), quartet(1), 0, 1, 2, 3, 4, 5, 6, 7),
                   high = __builtin_shufflevector(quartet(2), quartet(3), 0, 1, 2, 3, 4, 5, 6, 7);
        return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
}

// Of each quartet of two registers: where `Step` is 1, numbers `From` and `From + 1` of both in turn; where it is 2,
// both numbers of the one and then of the other.
template <int From, int Step, class Side, int... Lane>
inline Side mixed(Side a, Side b, std::integer_sequence<int, Lane...>) {
    constexpr int lanes = sizeof...(Lane);
    return __builtin_shufflevector(
        a, b,
        (Lane / 4 * 4 + From + (Step == 1 ? Lane % 4 / 2 + Lane % 2 * lanes : Lane % 2 + Lane % 4 / 2 * lanes))...);
}

// Write four numbers, from `place` on, of a register of rows to four rows of lanes, `stride` numbers apart.
template <class Real>
inline void turn_quartet(const Real* const* rows, Index place, Real* lanes, Index stride) {
    using Side = Beside<Real>;
    constexpr auto all = std::make_integer_sequence<int, int(BESIDE<Real>)>{};
    const Side a = every_fourth(rows, 0, place), b = every_fourth(rows, 1, place), c = every_fourth(rows, 2, place),
               d = every_fourth(rows, 3, place);
    const Side low_ab = mixed<0, 1>(a, b, all), high_ab = mixed<2, 1>(a, b, all), low_cd = mixed<0, 1>(c, d, all),
               high_cd = mixed<2, 1>(c, d, all);
    store(mixed<0, 2>(low_ab, low_cd, all), lanes);
    store(mixed<2, 2>(low_ab, low_cd, all), lanes + stride);
    store(mixed<0, 2>(high_ab, high_cd, all), lanes + 2 * stride);
    store(mixed<2, 2>(high_ab, high_cd, all), lanes + 3 * stride);
}

// Write `size` numbers, four at least, of rows side by side to as many rows of lanes. `upcoming` is what will be read
// next.
template <class Real>
void turn_rows(const Real* const (&rows)[SIDE_BY_SIDE], Index size, const Real* upcoming, Real* lanes) {
    for (Index place = 0; place < size; place += QUARTET) {
        // Processors do not foresee that several rows will be read at once.
        for (Index ahead = 0; ahead < QUARTET * SIDE_BY_SIDE; ahead += 64 / Index(sizeof(Real))) {
            __builtin_prefetch(upcoming + place * SIDE_BY_SIDE + ahead);
        }
        const Index from = std::min(place, size - QUARTET);  // the last quartet ends with the row
        for (Index lane = 0; lane < SIDE_BY_SIDE; lane += BESIDE<Real>) {
            turn_quartet(rows + lane, from, lanes + from * SIDE_BY_SIDE + lane, SIDE_BY_SIDE);
        }
    }
}

// Write `count` rows of lanes, as many as there are in whole blocks of SIDE_BY_SIDE, to rows of points, which are
// `stride` numbers apart.
template <class Real>
void turn_back(const Real (*lanes)[SIDE_BY_SIDE], Index count, Real* rows, Index stride) {
    for (Index j = 0; j < count; j += BESIDE<Real>) {
        const Real* some[BESIDE<Real>];
        for (Index e = 0; e < BESIDE<Real>; ++e) some[e] = lanes[j + e];
        for (Index lane = 0; lane < SIDE_BY_SIDE; lane += QUARTET) {
            turn_quartet(some, lane, rows + lane * stride + j, stride);
        }
    }
}

}  // namespace ldmaps
