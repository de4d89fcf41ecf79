"""Squared distances of near pairs alone, for maps whose dense kernel would not fit."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from ldmaps.metrics.base import Metric, Points
from ldmaps.pairwise import near_pairs

__all__ = ["sparse_squares"]


def sparse_squares(metric: Metric, points: Points, epsilon: float, n_threads: int | None = None) -> csr_array:
    """Return d² of all pairs whose kernel entry exp(−d²/(2ε)) is above the dtype's rounding, zeros stored."""
    cutoff = -2.0 * epsilon * math.log(float(np.finfo(points.dtype).eps))
    starts, columns, squares = near_pairs(metric, points, cutoff, n_threads)
    return csr_array((squares, columns, starts), shape=(len(points), len(points)))
