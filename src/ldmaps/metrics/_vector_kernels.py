"""Compiled loops behind the metrics on feature vectors.

Two layouts are read. *Columns*, shape (features, n): one feature of consecutive
points is contiguous, so the loops run in SIMD over the points of the right-hand
side. *Rows*, shape (n, features): what a matrix product wants.

All loops run from 0 over one-dimensional slices: an index with an offset
(``row[c0 + j]``) brings wrap-around tests, and a two-dimensional slice brings
strides, and either stops vectorisation. Features are summed in one fixed order,
four at a time, whatever the tile, so in the column layout a pair's value does not
depend, to the last bit, on how the work was cut. ``contract`` permits fused
multiply-add; nothing else is relaxed unless said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ldmaps.diffusion._kernels import BLOCK, distance_sums, lowest_of, negligible, weigh

__all__ = [
    "BLOCK",
    "MAX_SCANNED_FEATURES",
    "centre_rows",
    "euclidean_group_sums",
    "extend_euclidean_columns",
    "finish_gram",
    "nearest_euclidean_columns",
    "negligible",
    "squared_cityblock_columns",
    "squared_euclidean_columns",
    "squared_euclidean_rows",
    "squared_hamming_columns",
    "squared_periodic_columns",
    "squares_to_boxes",
    "wrap_to_columns",
]

Array = NDArray[Any]

#: Points of the right-hand side per pass: few enough that their features stay in the L2 cache.
_PANEL = 2048


# -- Euclidean, columns ---------------------------------------------------------
@njit(cache=True, nogil=True, fastmath={"contract"})
def squared_euclidean_columns(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write Σ_k (a[k, i] − b[k, j])² by direct differences, so that nothing cancels."""
    features = a.shape[0]
    for p0 in range(c0, c1, _PANEL):
        p1 = min(p0 + _PANEL, c1)
        q0, q1 = p0 - c0, p1 - c0
        # Few features: slices are made once a panel, not once a row, since a row takes few cycles.
        if features == 1:
            _euclidean_1(a[0, r0:r1], b[0, p0:p1], out, q0, q1)
        elif features == 2:
            _euclidean_2(a[0, r0:r1], a[1, r0:r1], b[0, p0:p1], b[1, p0:p1], out, q0, q1)
        elif features == 3:
            _euclidean_3(
                a[0, r0:r1], a[1, r0:r1], a[2, r0:r1], b[0, p0:p1], b[1, p0:p1], b[2, p0:p1], out, q0, q1
            )
        else:
            _euclidean_many(a, r0, r1, b, p0, p1, out, q0, q1)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _euclidean_1(a0: Array, b0: Array, out: Array, q0: int, q1: int) -> None:
    for i in range(a0.size):
        x0 = a0[i]
        row = out[i, q0:q1]
        for j in range(row.size):
            t0 = x0 - b0[j]
            row[j] = t0 * t0


@njit(cache=True, nogil=True, fastmath={"contract"})
def _euclidean_2(a0: Array, a1: Array, b0: Array, b1: Array, out: Array, q0: int, q1: int) -> None:
    for i in range(a0.size):
        x0, x1 = a0[i], a1[i]
        row = out[i, q0:q1]
        for j in range(row.size):
            t0, t1 = x0 - b0[j], x1 - b1[j]
            row[j] = t0 * t0 + t1 * t1


@njit(cache=True, nogil=True, fastmath={"contract"})
def _euclidean_3(
    a0: Array, a1: Array, a2: Array, b0: Array, b1: Array, b2: Array, out: Array, q0: int, q1: int
) -> None:
    for i in range(a0.size):
        x0, x1, x2 = a0[i], a1[i], a2[i]
        row = out[i, q0:q1]
        for j in range(row.size):
            t0, t1, t2 = x0 - b0[j], x1 - b1[j], x2 - b2[j]
            row[j] = t0 * t0 + t1 * t1 + t2 * t2


@njit(cache=True, nogil=True, fastmath={"contract"})
def _euclidean_many(
    a: Array, r0: int, r1: int, b: Array, p0: int, p1: int, out: Array, q0: int, q1: int
) -> None:
    features = a.shape[0]
    for i in range(r0, r1):
        row = out[i - r0, q0:q1]
        # Four features set the row, the others add to it.
        x0, x1, x2, x3 = a[0, i], a[1, i], a[2, i], a[3, i]
        b0, b1, b2, b3 = b[0, p0:p1], b[1, p0:p1], b[2, p0:p1], b[3, p0:p1]
        for j in range(row.size):
            t0, t1, t2, t3 = x0 - b0[j], x1 - b1[j], x2 - b2[j], x3 - b3[j]
            row[j] = t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3
        d = 4
        while d + 4 <= features:
            x0, x1, x2, x3 = a[d, i], a[d + 1, i], a[d + 2, i], a[d + 3, i]
            b0, b1, b2, b3 = b[d, p0:p1], b[d + 1, p0:p1], b[d + 2, p0:p1], b[d + 3, p0:p1]
            for j in range(row.size):
                t0, t1, t2, t3 = x0 - b0[j], x1 - b1[j], x2 - b2[j], x3 - b3[j]
                row[j] = row[j] + t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3
            d += 4
        if d + 2 <= features:
            x0, x1 = a[d, i], a[d + 1, i]
            b0, b1 = b[d, p0:p1], b[d + 1, p0:p1]
            for j in range(row.size):
                t0, t1 = x0 - b0[j], x1 - b1[j]
                row[j] = row[j] + t0 * t0 + t1 * t1
            d += 2
        if d < features:
            x0 = a[d, i]
            b0 = b[d, p0:p1]
            for j in range(row.size):
                t0 = x0 - b0[j]
                row[j] = row[j] + t0 * t0


@njit(cache=True, nogil=True)
def euclidean_group_sums(columns: Array, bounds: Array, weights: Array, sums: Array) -> None:
    """Write Σ_j w_j d(x_i, x_j) within each group; memory for the largest group's block."""
    scratch = np.empty(np.diff(bounds).max() ** 2, columns.dtype)
    for group in range(bounds.size - 1):
        first, last = bounds[group], bounds[group + 1]
        n = last - first
        block = scratch[: n * n].reshape((n, n))
        squared_euclidean_columns(columns, first, last, columns, first, last, block)
        distance_sums(block, weights[first:last], sums[first:last])


# -- nearest by Euclidean distance, columns ---------------------------------------

#: With so few features a distance is had in less time than it takes to store it.
MAX_SCANNED_FEATURES = 3
#: Points of the right-hand side that are looked at together.
_EIGHT = 8


@njit(inline="always")
def _corner(b: Array, j: int) -> Any:
    return b[0, j], b[1, j], b[2, j]


@njit(inline="always")
def _between(x: Any, y: Any) -> Any:
    t0, t1, t2 = x[0] - y[0], x[1] - y[1], x[2] - y[2]
    return t0 * t0 + t1 * t1 + t2 * t2


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "ninf", "nsz"})
def _lower_by_eight(
    a0: Array, a1: Array, a2: Array, eight: Any, first: Any, lowest: Array, where: Array
) -> None:
    """Note for each point of ``a`` whether one of eight others, of which ``first`` is the first, is nearer."""
    y0, y1, y2, y3, y4, y5, y6, y7 = eight
    for i in range(lowest.size):
        x = a0[i], a1[i], a2[i]
        left = min(min(_between(x, y0), _between(x, y1)), min(_between(x, y2), _between(x, y3)))
        right = min(min(_between(x, y4), _between(x, y5)), min(_between(x, y6), _between(x, y7)))
        low, known = min(left, right), lowest[i]
        where[i] = first if low < known else where[i]
        lowest[i] = min(low, known)


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "ninf", "nsz"})
def nearest_euclidean_columns(
    a: Array, r0: int, r1: int, b: Array, index: Array, squared: Array, where: Array
) -> None:
    """Find which of ``b`` is nearest to each of ``a`` (the first among equals) and its d², for 1 to 3 features.

    Loops run in SIMD over the points of ``a``; no distance is stored. ``where`` is
    scratch for as many points as are looked at together, of integers as wide as a
    distance, so that both fill the same lanes.
    """
    features, n = b.shape
    # Features that there are not are zero, and the last point stands again where eight are no longer left.
    padded = np.zeros((3, n + -n % _EIGHT), b.dtype)
    for k in range(features):
        padded[k, :n] = b[k]
        padded[k, n:] = b[k, n - 1]
    nothing = np.zeros(where.size, b.dtype)
    lowest = np.empty(where.size, b.dtype)
    for start in range(r0, r1, where.size):
        count = min(r1 - start, where.size)
        a0 = a[0, start : start + count]
        a1 = a[1, start : start + count] if features > 1 else nothing[:count]
        a2 = a[2, start : start + count] if features > 2 else nothing[:count]
        lowest[:] = np.inf
        where[:] = 0
        for j in range(0, n, _EIGHT):
            eight = (
                _corner(padded, j),
                _corner(padded, j + 1),
                _corner(padded, j + 2),
                _corner(padded, j + 3),
                _corner(padded, j + 4),
                _corner(padded, j + 5),
                _corner(padded, j + 6),
                _corner(padded, j + 7),
            )
            _lower_by_eight(a0, a1, a2, eight, j, lowest[:count], where[:count])
        for i in range(count):
            x = a0[i], a1[i], a2[i]
            best = where[i]
            low = _between(x, _corner(padded, best))
            for j in range(where[i] + 1, where[i] + _EIGHT):
                other = _between(x, _corner(padded, j))
                if other < low:
                    low, best = other, j
            index[start - r0 + i], squared[start - r0 + i] = best, low


# -- extension by Euclidean distance, columns ---------------------------------------


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
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


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def _squares_from(x: Any, b0: Array, b1: Array, b2: Array, row: Array) -> Any:
    """Write d² from a point to others and return the lowest."""
    low = row.dtype.type(np.inf)
    for j in range(row.size):
        value = _between(x, (b0[j], b1[j], b2[j]))
        row[j] = value
        low = min(low, value)
    return low


@njit(cache=True, nogil=True)
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
    rounding is told by its box, which a few operations compare with a point.
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
                _euclidean_many(a, r0 + i, r0 + i + 1, b, start, stop, squares, start, stop)
                lows[block] = lowest_of(row[start:stop])
            low = min(low, lows[block])
        nearest[i], lowest[i] = weigh(row, lows, rate, weights, coefficients, sums, coordinates[i])


# -- Euclidean, rows -------------------------------------------------------------
@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _squared_between(x: Array, y: Array) -> Any:
    # reassoc: a sum over features runs in SIMD only if it may be split into partial sums.
    total = x[0] * x.dtype.type(0)
    for k in range(x.size):
        t = x[k] - y[k]
        total += t * t
    return total


@njit(cache=True, nogil=True)
def squared_euclidean_rows(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write Σ_k (a[i, k] − b[j, k])² by direct differences: for tiles too thin for a matrix product."""
    for i in range(r1 - r0):
        x = a[r0 + i]
        for j in range(c1 - c0):
            out[i, j] = _squared_between(x, b[c0 + j])


@njit(cache=True, nogil=True)
def centre_rows(values: Array, r0: int, r1: int, origin: Array, centred: Array, norms: Array) -> None:
    """Write rows minus ``origin`` (float64, rounded once) and their squared norms."""
    for i in range(r1 - r0):
        x = values[r0 + i]
        y = centred[i]
        total = 0.0
        for k in range(x.size):
            y[k] = np.float64(x[k]) - origin[k]
        for k in range(x.size):
            total += np.float64(y[k]) * np.float64(y[k])
        norms[i] = total


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz", "reassoc"})
def _combine(row: Array, norm: Any, b_norms: Array, threshold: Any) -> Any:
    # A minimum runs in SIMD only if it may be split and need not mind NaN; inputs are finite.
    lowest = row.dtype.type(0)
    for j in range(row.size):
        total = norm + b_norms[j]
        value = total - (row[j] + row[j])
        row[j] = value
        lowest = min(lowest, value - threshold * total)
    return lowest


@njit(cache=True, nogil=True)
def finish_gram(
    gram: Array, a_norms: Array, b_norms: Array, threshold: Any, a: Array, r0: int, b: Array, c0: int
) -> None:
    """Turn products x·y into |x|² + |y|² − 2 x·y, in place; pairs that cancel are redone from the rows.

    A pair cancels when d² < threshold (|x|² + |y|²): the rounding of the product,
    a few ulps of the norms, would then be a large part of what is left.
    """
    for i in range(gram.shape[0]):
        row = gram[i]
        norm = a_norms[i]
        if _combine(row, norm, b_norms, threshold) < 0:
            x = a[r0 + i]
            for j in range(row.size):
                if row[j] <= threshold * (norm + b_norms[j]):
                    row[j] = _squared_between(x, b[c0 + j])


# -- sums over features, columns -----------------------------------------------------
@njit(cache=True, nogil=True)
def squared_hamming_columns(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write the square of the fraction of features in which a[:, i] and b[:, j] differ."""
    features = a.shape[0]
    zero, one = out.dtype.type(0), out.dtype.type(1)
    count = out.dtype.type(features)
    for p0 in range(c0, c1, _PANEL):
        p1 = min(p0 + _PANEL, c1)
        for i in range(r0, r1):
            row = out[i - r0, p0 - c0 : p1 - c0]
            row[:] = zero
            d = 0
            while d + 4 <= features:
                x0, x1, x2, x3 = a[d, i], a[d + 1, i], a[d + 2, i], a[d + 3, i]
                b0, b1, b2, b3 = b[d, p0:p1], b[d + 1, p0:p1], b[d + 2, p0:p1], b[d + 3, p0:p1]
                for j in range(row.size):
                    t0 = zero if x0 == b0[j] else one
                    t1 = zero if x1 == b1[j] else one
                    t2 = zero if x2 == b2[j] else one
                    t3 = zero if x3 == b3[j] else one
                    row[j] = row[j] + (t0 + t1 + t2 + t3)
                d += 4
            while d < features:
                x0 = a[d, i]
                b0 = b[d, p0:p1]
                for j in range(row.size):
                    row[j] = row[j] + (zero if x0 == b0[j] else one)
                d += 1
            for j in range(row.size):
                t0 = row[j] / count
                row[j] = t0 * t0


@njit(cache=True, nogil=True)
def squared_cityblock_columns(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write (Σ_k |a[k, i] − b[k, j]|)²."""
    features = a.shape[0]
    for p0 in range(c0, c1, _PANEL):
        p1 = min(p0 + _PANEL, c1)
        for i in range(r0, r1):
            row = out[i - r0, p0 - c0 : p1 - c0]
            row[:] = 0
            d = 0
            while d + 4 <= features:
                x0, x1, x2, x3 = a[d, i], a[d + 1, i], a[d + 2, i], a[d + 3, i]
                b0, b1, b2, b3 = b[d, p0:p1], b[d + 1, p0:p1], b[d + 2, p0:p1], b[d + 3, p0:p1]
                for j in range(row.size):
                    t0, t1, t2, t3 = abs(x0 - b0[j]), abs(x1 - b1[j]), abs(x2 - b2[j]), abs(x3 - b3[j])
                    row[j] = row[j] + (t0 + t1 + t2 + t3)
                d += 4
            while d < features:
                x0 = a[d, i]
                b0 = b[d, p0:p1]
                for j in range(row.size):
                    row[j] = row[j] + abs(x0 - b0[j])
                d += 1
            for j in range(row.size):
                row[j] = row[j] * row[j]


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def squared_periodic_columns(
    a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, period: Array, out: Array
) -> None:
    """Write Σ_k t_k² with t_k the shorter way round; values lie within half a period of 0."""
    features = a.shape[0]
    for p0 in range(c0, c1, _PANEL):
        p1 = min(p0 + _PANEL, c1)
        for i in range(r0, r1):
            row = out[i - r0, p0 - c0 : p1 - c0]
            row[:] = 0
            d = 0
            while d + 2 <= features:
                x0, x1, y0, y1 = a[d, i], a[d + 1, i], period[d], period[d + 1]
                b0, b1 = b[d, p0:p1], b[d + 1, p0:p1]
                for j in range(row.size):
                    t0, t1 = abs(x0 - b0[j]), abs(x1 - b1[j])
                    t0, t1 = min(t0, y0 - t0), min(t1, y1 - t1)
                    row[j] = row[j] + t0 * t0 + t1 * t1
                d += 2
            if d < features:
                x0, y0 = a[d, i], period[d]
                b0 = b[d, p0:p1]
                for j in range(row.size):
                    t0 = abs(x0 - b0[j])
                    t0 = min(t0, y0 - t0)
                    row[j] = row[j] + t0 * t0


@njit(cache=True, nogil=True)
def wrap_to_columns(values: Array, period: Array, columns: Array) -> None:
    """Write values moved by whole periods to within half a period of 0, transposed.

    In float64 and without rounding until the end: fmod is exact, and so is a
    difference of numbers within a factor of two of each other.
    """
    for k in range(values.shape[1]):
        length = period[k]
        for i in range(values.shape[0]):
            x: Any = np.float64(values[i, k])
            if abs(x) > 0.5 * length:
                x = np.fmod(x, length)
                if x > 0.5 * length:
                    x -= length
                elif x < -0.5 * length:
                    x += length
            columns[k, i] = x
