"""Squared distances of near pairs alone, for maps whose dense kernel would not fit."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from ldmaps.diffusion.pairwise import near_pairs
from ldmaps.metrics.base import Metric, Points

__all__ = ["near_fraction", "sparse_squares"]


def sparse_squares(metric: Metric, points: Points, epsilon: float, n_threads: int | None = None) -> csr_array:
    """Return d² of all pairs whose kernel entry exp(−d²/(2ε)) is above the dtype's rounding, zeros stored."""
    cutoff = _cutoff(epsilon, points)
    starts, columns, squares = near_pairs(metric, points, cutoff, n_threads)
    if len(columns) < 2**31:
        starts = starts.astype(columns.dtype)  # or scipy would widen the columns to the starts' type
    return csr_array((squares, columns, starts), shape=(len(points), len(points)))


def near_fraction(metric: Metric, points: Points, epsilon: float, n_rows: int = 64) -> float:
    """Return the share of pairs that :func:`sparse_squares` would keep, from a few rows spread over the data."""
    rows = points.take(np.linspace(0, len(points) - 1, n_rows).astype(np.intp))
    block = np.empty((n_rows, len(points)), dtype=points.dtype)
    metric.squared_block(rows, slice(0, n_rows), points, slice(0, len(points)), block)
    return float(np.mean(block <= _cutoff(epsilon, points)))


def _cutoff(epsilon: float, points: Points) -> float:
    """Squared distance at which the kernel falls to the dtype's rounding."""
    return -2.0 * epsilon * math.log(float(np.finfo(points.dtype).eps))
