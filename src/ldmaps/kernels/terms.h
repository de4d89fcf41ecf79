// What one feature adds to a squared distance between points in columns; see columns.h. Numbers or registers of them.
#pragma once

#include "vectors.h"

namespace ldmaps {

// The square of the difference.
template <class Real>
struct AddSquare {
    AddSquare at(Index) const { return {}; }
    template <class Side>
    Side operator()(Side sum, Side x, Side y) const {
        const Side t = x - y;
        return fused(t, t, sum);
    }
    static constexpr auto finish = nullptr;
};

// The square of a difference taken the shorter way round; values lie within half a period of 0.
template <class Real>
struct AddShorterSquare {
    struct Feature {
        Real period;
        template <class Side>
        Side operator()(Side sum, Side x, Side y) const {
            const Side t = magnitude(x - y), shorter = lesser(spread<Side>(period) - t, t);
            return fused(shorter, shorter, sum);
        }
    };
    const Real* periods;
    Feature at(Index k) const { return {periods[k]}; }
    static constexpr auto finish = nullptr;
};

}  // namespace ldmaps
