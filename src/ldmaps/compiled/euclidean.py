"""Blocks of squared Euclidean distances.

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
from numpy.typing import NDArray

from ldmaps.compiled.jit import compiled
from ldmaps.compiled.rows import distance_sums

__all__ = [
    "FEATURE_PANEL",
    "centre_rows",
    "euclidean_group_sums",
    "euclidean_many",
    "few_group_sums",
    "finish_gram",
    "squared_euclidean_columns",
    "squared_euclidean_few",
    "squared_euclidean_rows",
]

Array = NDArray[Any]

#: Points of the right-hand side per pass: few enough that their features stay in the L2 cache.
FEATURE_PANEL = 2048


# -- columns ---------------------------------------------------------------------


@compiled(fastmath={"contract"})
def squared_euclidean_few(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write Σ_k (a[k, i] − b[k, j])² of one to three features by direct differences, so that nothing cancels."""
    features, zero = a.shape[0], b.dtype.type(0)
    # Features that there are not are zero, in the one loop: a loop each would be compiled into whatever measures.
    nothing = np.empty(0 if features > 2 else FEATURE_PANEL, b.dtype)
    for j in range(nothing.size):
        nothing[j] = zero
    for p0 in range(c0, c1, FEATURE_PANEL):
        p1 = min(p0 + FEATURE_PANEL, c1)
        b0 = b[0, p0:p1]
        b1 = b[1, p0:p1] if features > 1 else nothing[: p1 - p0]
        b2 = b[2, p0:p1] if features > 2 else nothing[: p1 - p0]
        for i in range(r0, r1):
            x0 = a[0, i]
            x1 = a[1, i] if features > 1 else zero
            x2 = a[2, i] if features > 2 else zero
            row = out[i - r0, p0 - c0 : p1 - c0]
            for j in range(row.size):
                t0, t1, t2 = x0 - b0[j], x1 - b1[j], x2 - b2[j]
                row[j] = t0 * t0 + t1 * t1 + t2 * t2


@compiled(fastmath={"contract"})
def squared_euclidean_columns(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write Σ_k (a[k, i] − b[k, j])² of four features or more by direct differences, so that nothing cancels."""
    for p0 in range(c0, c1, FEATURE_PANEL):
        p1 = min(p0 + FEATURE_PANEL, c1)
        euclidean_many(a, r0, r1, b, p0, p1, out, p0 - c0, p1 - c0)


@compiled(fastmath={"contract"})
def euclidean_many(
    a: Array, r0: int, r1: int, b: Array, p0: int, p1: int, out: Array, q0: int, q1: int
) -> None:
    """Write a panel of four features or more to columns ``q0`` to before ``q1`` of ``out``."""
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


@compiled
def few_group_sums(columns: Array, bounds: Array, weights: Array, sums: Array) -> None:
    """Write Σ_j w_j d(x_i, x_j) of one to three features within each group; memory for one group's block."""
    for group in range(bounds.size - 1):
        first, last = bounds[group], bounds[group + 1]
        block = np.empty((last - first, last - first), columns.dtype)
        squared_euclidean_few(columns, first, last, columns, first, last, block)
        distance_sums(block, weights[first:last], sums[first:last])


@compiled
def euclidean_group_sums(columns: Array, bounds: Array, weights: Array, sums: Array) -> None:
    """Write what :func:`few_group_sums` writes, of four features or more."""
    for group in range(bounds.size - 1):
        first, last = bounds[group], bounds[group + 1]
        block = np.empty((last - first, last - first), columns.dtype)
        squared_euclidean_columns(columns, first, last, columns, first, last, block)
        distance_sums(block, weights[first:last], sums[first:last])


# -- rows ------------------------------------------------------------------------


@compiled(fastmath={"contract", "reassoc", "nsz"})
def _squared_between(x: Array, y: Array) -> Any:
    # reassoc: a sum over features runs in SIMD only if it may be split into partial sums.
    total = x[0] * x.dtype.type(0)
    for k in range(x.size):
        t = x[k] - y[k]
        total += t * t
    return total


@compiled
def squared_euclidean_rows(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write Σ_k (a[i, k] − b[j, k])² by direct differences: for tiles too thin for a matrix product."""
    for i in range(r1 - r0):
        x = a[r0 + i]
        for j in range(c1 - c0):
            out[i, j] = _squared_between(x, b[c0 + j])


@compiled
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


@compiled(fastmath={"contract", "nnan", "nsz", "reassoc"})
def _combine(row: Array, norm: Any, b_norms: Array, threshold: Any) -> Any:
    # A minimum runs in SIMD only if it may be split and need not mind NaN; inputs are finite.
    lowest = row.dtype.type(0)
    for j in range(row.size):
        total = norm + b_norms[j]
        value = total - (row[j] + row[j])
        row[j] = value
        lowest = min(lowest, value - threshold * total)
    return lowest


@compiled
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
