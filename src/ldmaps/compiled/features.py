"""Blocks of squared distances that are sums over features, other than Euclidean ones.

For the layout and the rules of these loops see :mod:`ldmaps.compiled.euclidean`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.compiled.euclidean import FEATURE_PANEL
from ldmaps.compiled.jit import compiled

__all__ = [
    "squared_cityblock_columns",
    "squared_hamming_columns",
    "squared_periodic_columns",
    "wrap_to_columns",
]

Array = NDArray[Any]


@compiled
def squared_hamming_columns(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write the square of the fraction of features in which a[:, i] and b[:, j] differ."""
    features = a.shape[0]
    zero, one = out.dtype.type(0), out.dtype.type(1)
    count = out.dtype.type(features)
    for p0 in range(c0, c1, FEATURE_PANEL):
        p1 = min(p0 + FEATURE_PANEL, c1)
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


@compiled
def squared_cityblock_columns(a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, out: Array) -> None:
    """Write (Σ_k |a[k, i] − b[k, j]|)²."""
    features = a.shape[0]
    for p0 in range(c0, c1, FEATURE_PANEL):
        p1 = min(p0 + FEATURE_PANEL, c1)
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


@compiled(fastmath={"contract", "nnan", "nsz"})
def squared_periodic_columns(
    a: Array, r0: int, r1: int, b: Array, c0: int, c1: int, period: Array, out: Array
) -> None:
    """Write Σ_k t_k² with t_k the shorter way round; values lie within half a period of 0."""
    features = a.shape[0]
    for p0 in range(c0, c1, FEATURE_PANEL):
        p1 = min(p0 + FEATURE_PANEL, c1)
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


@compiled
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
