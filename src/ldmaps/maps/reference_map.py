"""The finer map that landmarks are distilled from and certified against.

N² kernel fits ──► exact map of all N points
otherwise      ──► landmark map with many more landmarks
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.costs import Cost, DataSize
from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks import KMedoids
from ldmaps.maps.solved_map import SolvedMap, solve, solve_cost
from ldmaps.metrics.base import Metric

__all__ = ["REFERENCE_EXTRA", "reference_cost", "reference_size", "solve_reference"]

#: Landmarks of a reference that cannot have all points: for each landmark distilled, and at least.
REFERENCE_PER_LANDMARK, MIN_REFERENCE = 10, 5000
#: Eigenvalues that are computed beyond those asked for, to be looked at.
REFERENCE_EXTRA = 4
#: Medoids of a reference settle well enough in so many iterations.
REFERENCE_ITERATIONS = 3
#: Most points of an exact reference for metrics that take microseconds a pair.
SLOW_METRIC_POINTS = 2000


def reference_size(
    metric: Metric, n_points: int, n_landmarks: int, itemsize: int, memory_limit: float
) -> int:
    """Return over how many points the reference is solved: all, if their kernel fits the memory limit.

    >>> from ldmaps.metrics import Euclidean
    >>> reference_size(Euclidean(), 20_000, 400, 4, 4e9), reference_size(Euclidean(), 10**6, 400, 4, 4e9)
    (20000, 5000)
    """
    most = max(2, int(math.sqrt(memory_limit / itemsize)))
    if metric.is_slow:
        most = min(most, SLOW_METRIC_POINTS)
    if n_points <= most:
        return n_points
    return min(most, max(MIN_REFERENCE, REFERENCE_PER_LANDMARK * n_landmarks))


def solve_reference(
    walk: Walk,
    n_eigenvalues: int,
    size: int,
    rng: np.random.Generator,
    *,
    squared: NDArray[Any] | None,
    is_known_connected: bool,
) -> SolvedMap:
    """Solve the map over all points, or over ``size`` medoids.

    Parameters
    ----------
    squared : ndarray of shape (N, N) or None
        d² of all points, which is overwritten; None asks for medoids.
    is_known_connected : bool
        Whether ε was found to hold all points together.
    """
    if squared is not None:
        return solve(walk, n_eigenvalues, squared=squared, is_known_connected=is_known_connected)
    medoids = KMedoids(size, max_iter=REFERENCE_ITERATIONS).select(walk, rng)
    return solve(walk, n_eigenvalues, medoids)


def reference_cost(data: DataSize, size: int, n_eigenvalues: int) -> Cost:
    """Return what :func:`solve_reference` takes; d² of all points, if it is given those, is not counted."""
    if size == data.n_points:
        return solve_cost(data, n_eigenvalues, has_squares=True)
    medoids, solved = KMedoids(size, max_iter=REFERENCE_ITERATIONS).cost(data, size), data.of(size)
    return medoids + solve_cost(solved, n_eigenvalues, has_squares=False).holding(solved.points_bytes)
