"""Squared distances of near pairs alone, for maps whose dense kernel would not fit."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from ldmaps.diffusion.pairwise import gathered_rows, near_pairs
from ldmaps.diffusion.spatial_tree import near_rows, raw_values
from ldmaps.metrics.base import Metric, Points

__all__ = ["near_fraction", "sparse_squares"]

#: A spatial tree finds near pairs quicker than rows of distances while no more than this share is near; rows at a time.
TREE_FRACTION, TREE_ROWS = 0.03, 512
#: Rows that give the near fraction, and how many of them are in memory at a time.
SAMPLED_ROWS, ROWS_AT_ONCE = 64, 8


def sparse_squares(metric: Metric, points: Points, epsilon: float, n_threads: int | None = None) -> csr_array:
    """Return d² of all pairs whose kernel entry exp(−d²/(2ε)) is above the dtype's rounding, zeros stored."""
    cutoff = _cutoff(epsilon, points)
    values = raw_values(metric, points)
    few = near_fraction(metric, points, epsilon, np.random.default_rng(0)) if values is not None else 1.0
    if values is not None and few < TREE_FRACTION:
        rows = near_rows(values, cutoff, points.dtype)
        starts, columns, squares = gathered_rows(len(points), TREE_ROWS, rows, n_threads)
    else:
        starts, columns, squares = near_pairs(metric, points, cutoff, n_threads)
    if len(columns) < 2**31:
        starts = starts.astype(columns.dtype)  # or scipy would widen the columns to the starts' type
    return csr_array((squares, columns, starts), shape=(len(points), len(points)))


def near_fraction(
    metric: Metric, points: Points, epsilon: float, rng: np.random.Generator, n_rows: int = SAMPLED_ROWS
) -> float:
    """Return the share of pairs that :func:`sparse_squares` would keep, from a random set of rows."""
    n = len(points)
    rows = points.take(np.sort(rng.choice(n, min(n, n_rows), replace=False)))
    cutoff, n_near = _cutoff(epsilon, points), 0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(start, min(start + ROWS_AT_ONCE, len(rows)))
        block = np.empty((part.stop - part.start, n), dtype=points.dtype)
        metric.squared_block(rows, part, points, slice(0, n), block)
        n_near += int(np.count_nonzero(block <= cutoff))
    return n_near / (len(rows) * n)


def _cutoff(epsilon: float, points: Points) -> float:
    """Squared distance at which the kernel falls to the dtype's rounding."""
    return -2.0 * epsilon * math.log(float(np.finfo(points.dtype).eps))
