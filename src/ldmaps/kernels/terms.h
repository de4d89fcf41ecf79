// What one feature adds to a squared distance between points in columns; see columns.h.
#pragma once

#include "array.h"
#include "fused.h"

namespace ldmaps {

// The square of the difference.
template <class Real>
struct AddSquare {
    AddSquare at(Index) const { return {}; }
    Real operator()(Real sum, Real x, Real y) const {
        const Real t = x - y;
        return fused(t, t, sum);
    }
    static constexpr auto finish = nullptr;
};

// The square of a difference taken the shorter way round; values lie within half a period of 0.
template <class Real>
struct AddShorterSquare {
    struct Feature {
        Real period;
        Real operator()(Real sum, Real x, Real y) const {
            const Real t = std::abs(x - y), shorter = lesser(period - t, t);
            return fused(shorter, shorter, sum);
        }
    };
    const Real* periods;
    Feature at(Index k) const { return {periods[k]}; }
    static constexpr auto finish = nullptr;
};

}  // namespace ldmaps
