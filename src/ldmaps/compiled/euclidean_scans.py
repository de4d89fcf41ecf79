"""Searches over Euclidean points in columns that measure no more pairs than they must, and store none.

For the layout and the rules of these loops see :mod:`ldmaps.compiled.euclidean`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.compiled.euclidean import euclidean_many
from ldmaps.compiled.jit import compiled, inlined
from ldmaps.compiled.layout import BLOCK, MAX_SCANNED_FEATURES
from ldmaps.compiled.rows import lowest_of, negligible, weigh

__all__ = ["EIGHT", "extend_euclidean_columns", "nearest_euclidean_columns", "squares_to_boxes"]

Array = NDArray[Any]

#: Points of the right-hand side that are looked at together.
EIGHT = 8


# -- the nearest ------------------------------------------------------------------


@inlined
def _corner(b: Array, j: int) -> Any:
    return b[0, j], b[1, j], b[2, j]


@inlined
def _between(x: Any, y: Any) -> Any:
    t0, t1, t2 = x[0] - y[0], x[1] - y[1], x[2] - y[2]
    return t0 * t0 + t1 * t1 + t2 * t2


@compiled(fastmath={"contract", "nnan", "ninf", "nsz"})
def _lower_by_eight(
    a0: Array, a1: Array, a2: Array, eight: Any, first: Any, lowest: Array, where: Array
) -> None:
    """Note for each point of ``a`` whether one of eight others, of which ``first`` is the first, is nearer."""
    y0, y1, y2, y3, y4, y5, y6, y7 = eight
    for i in range(lowest.size):
        x = a0[i], a1[i], a2[i]
        left = min(min(_between(x, y0), _between(x, y1)), min(_between(x, y2), _between(x, y3)))
        right = min(min(_between(x, y4), _between(x, y5)), min(_between(x, y6), _between(x, y7)))
        low, before = min(left, right), lowest[i]
        where[i] = first if low < before else where[i]
        lowest[i] = min(low, before)


@compiled(fastmath={"contract", "nnan", "ninf", "nsz"})
def nearest_euclidean_columns(
    a: Array, r0: int, r1: int, b: Array, index: Array, squared: Array, where: Array
) -> None:
    """Find which of ``b`` is nearest to each of ``a`` (the first among equals) and its d².

    Loops run in SIMD over the points of ``a``; no distance is stored.

    Parameters
    ----------
    a : ndarray of shape (1 to 3, n)
    b : ndarray of shape (3, n)
        Features that there are not are zero. The last points, whose number is a multiple of
        EIGHT, may be one and the same.
    r0, r1 : int
        Which of ``a``.
    index, squared : ndarray of shape (r1 - r0,)
        To be filled.
    where : ndarray
        Scratch for as many points as are looked at together, of integers as wide as a
        distance, so that both fill the same lanes.
    """
    features = a.shape[0]
    lowest, nothing = np.empty(where.size, b.dtype), np.empty(where.size, b.dtype)
    for i in range(nothing.size):
        nothing[i] = 0.0
    for start in range(r0, r1, where.size):
        count = min(r1 - start, where.size)
        a0 = a[0, start : start + count]
        a1 = a[1, start : start + count] if features > 1 else nothing[:count]
        a2 = a[2, start : start + count] if features > 2 else nothing[:count]
        for i in range(count):  # a value assigned to a slice would take longer to compile
            lowest[i], where[i] = np.inf, 0
        for j in range(0, b.shape[1], EIGHT):
            eight = (
                _corner(b, j),
                _corner(b, j + 1),
                _corner(b, j + 2),
                _corner(b, j + 3),
                _corner(b, j + 4),
                _corner(b, j + 5),
                _corner(b, j + 6),
                _corner(b, j + 7),
            )
            _lower_by_eight(a0, a1, a2, eight, j, lowest[:count], where[:count])
        for i in range(count):
            x = a0[i], a1[i], a2[i]
            best = where[i]
            low = _between(x, _corner(b, best))
            for j in range(where[i] + 1, where[i] + EIGHT):
                other = _between(x, _corner(b, j))
                if other < low:
                    low, best = other, j
            index[start - r0 + i], squared[start - r0 + i] = best, low


# -- the online step -----------------------------------------------------------------


@compiled(fastmath={"contract", "nnan", "nsz"})
def squares_to_boxes(x: Array, lower: Array, upper: Array, bounds: Array) -> None:
    """Write the squared distance from a point to each box, a little less for rounding."""
    zero = bounds.dtype.type(0)
    slack = bounds.dtype.type(1) - (x.size + 8) * bounds.dtype.type(np.finfo(bounds.dtype).eps)
    bounds[:] = zero
    for k in range(x.size):
        value, low, high = x[k], lower[k], upper[k]
        for j in range(bounds.size):
            t = max(max(low[j] - value, value - high[j]), zero)
            bounds[j] += t * t * slack


@compiled(fastmath={"contract", "nnan", "nsz"})
def _squares_from(x: Any, b0: Array, b1: Array, b2: Array, row: Array) -> Any:
    """Write d² from a point to others and return the lowest."""
    low = row.dtype.type(np.inf)
    for j in range(row.size):
        value = _between(x, (b0[j], b1[j], b2[j]))
        row[j] = value
        low = min(low, value)
    return low


@compiled
def extend_euclidean_columns(
    a: Array,
    r0: int,
    r1: int,
    b: Array,
    lower: Array,
    upper: Array,
    rate: Any,
    weights: Array,
    coefficients: Array,
    coordinates: Array,
    nearest: Array,
    lowest: Array,
) -> None:
    """Embed points as ``extend`` does, bit for bit, but measure no block of landmarks that cannot matter.

    A block farther than the nearest landmark by so much that its weights are lost in
    rounding is recognised by its box, which a few operations compare with a point.
    """
    features, n = b.shape
    n_blocks = lower.shape[1]
    few = features <= MAX_SCANNED_FEATURES
    nothing = np.zeros(n, b.dtype)
    b0, b1, b2 = b[0], b[1] if features > 1 else nothing, b[2] if features > 2 else nothing
    squares = np.empty((1, n), b.dtype)
    row, lows, bounds = squares[0], np.empty(n_blocks, b.dtype), np.empty(n_blocks, b.dtype)
    sums = np.empty(coefficients.shape[0])
    point = np.zeros(max(features, MAX_SCANNED_FEATURES), b.dtype)
    beyond = b.dtype.type(negligible(b)) / rate
    for i in range(r1 - r0):
        for k in range(features):
            point[k] = a[k, r0 + i]
        squares_to_boxes(point[:features], lower, upper, bounds)
        likely = 0
        for block in range(1, n_blocks):
            if bounds[block] < bounds[likely]:
                likely = block
        low = b.dtype.type(np.inf)
        for turn in range(-1, n_blocks):
            block = likely if turn < 0 else turn
            if turn == likely:
                continue
            if bounds[block] > low + beyond:
                lows[block] = np.inf
                continue
            start, stop = block * BLOCK, min((block + 1) * BLOCK, n)
            if few:
                x = point[0], point[1], point[2]
                lows[block] = _squares_from(
                    x, b0[start:stop], b1[start:stop], b2[start:stop], row[start:stop]
                )
            else:
                euclidean_many(a, r0 + i, r0 + i + 1, b, start, stop, squares, start, stop)
                lows[block] = lowest_of(row[start:stop])
            low = min(low, lows[block])
        nearest[i], lowest[i] = weigh(row, lows, rate, weights, coefficients, sums, coordinates[i])
