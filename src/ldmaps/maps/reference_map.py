"""The finer map that landmarks are distilled from and certified against.

N² kernel fits ──► exact map of all N points, stored
time allows it ──► the same in passes over all pairs, as exact as these make it
otherwise      ──► landmark map with many more landmarks; residuals bound its error
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.sampled_residuals import sampled_errors
from ldmaps.diffusion.streamed_kernel import StreamedKernel
from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks import KMedoids
from ldmaps.maps.exact_map import (
    Limits,
    fits_in_passes,
    solve_exact,
    solver_for,
)
from ldmaps.maps.solved_map import SolvedMap, solve
from ldmaps.metrics.base import Metric
from ldmaps.progress import stage

__all__ = [
    "REFERENCE_EXTRA",
    "reference_passes",
    "reference_size",
    "solve_reference",
]

#: Landmarks of a reference that cannot have all points: for each landmark distilled, and at least.
REFERENCE_PER_LANDMARK, MIN_REFERENCE = 10, 5000
#: Eigenvalues that are computed beyond those asked for, to be looked at.
REFERENCE_EXTRA = 4
#: Medoids of a reference settle well enough in so many iterations.
REFERENCE_ITERATIONS = 3
#: Passes that a reference takes at most, and pairs of points in all of them, by default: a quarter of an
#: hour on two cores for small molecules. Metrics that take microseconds a pair take none.
MAX_PASSES, MAX_PAIRS = 20, 1e11
#: Modes of a landmark map that bound its errors: those beyond the coordinates show how far the rest is.
BOUNDING_MODES = 16
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


def reference_passes(metric: Metric, n_points: int, alpha: float, max_passes: int | None) -> int:
    """Return how many passes over all pairs a reference may take that does not fit into memory; 0 takes medoids.

    >>> from ldmaps.metrics import Euclidean
    >>> [reference_passes(Euclidean(), n, 0.0, None) for n in (100_000, 300_000, 1_000_000)]
    [20, 2, 0]
    """
    if max_passes is None:
        budget = 0.0 if metric.is_slow else MAX_PAIRS
        max_passes = min(MAX_PASSES, int(2.0 * budget / float(n_points) ** 2))
    # With density normalisation the density takes a pass before the first that gives anything of the map.
    return max_passes if max_passes >= (2 if alpha else 1) else 0


def solve_reference(
    walk: Walk,
    n_eigenvalues: int,
    size: int,
    rng: np.random.Generator,
    *,
    limits: Limits,
    squared: NDArray[Any] | None,
    is_known_connected: bool,
    n_coordinates: int | Callable[[NDArray[np.float64]], int] | None = None,
) -> SolvedMap:
    """Solve the map over all points, or over ``size`` medoids.

    Parameters
    ----------
    limits : Limits
        Where d² is not given: 0 passes ask for medoids.
    squared : ndarray of shape (N, N) or None
        d² of all points, which is overwritten.
    is_known_connected : bool
        Whether ε was found to hold all points together.
    n_coordinates : int or callable, optional
        As for :func:`~ldmaps.maps.exact_map.solve_exact`.
    """
    if squared is not None:
        return solve(walk, n_eigenvalues, squared=squared, is_known_connected=is_known_connected)
    if limits.max_passes and fits_in_passes(len(walk.points), n_eigenvalues, limits.memory):
        solver = solver_for(walk, n_eigenvalues, limits.memory, rng)
        return solve_exact(
            walk,
            n_eigenvalues,
            solver,
            limits,
            rng,
            n_coordinates=n_coordinates,
            is_known_connected=is_known_connected,
        )
    medoids = KMedoids(size, max_iter=REFERENCE_ITERATIONS).select(walk, rng)
    solved = solve(walk, min(size - 1, max(n_eigenvalues, BOUNDING_MODES)), medoids)
    return _bounded(solved, rng).leading(n_eigenvalues)


def _bounded(solved: SolvedMap, rng: np.random.Generator) -> SolvedMap:
    """Return a landmark map with a bound on its errors against the exact map, measured at a random set of rows.

    With density normalisation there is none: rows of the walk then take the density of all points.
    """
    walk = solved.walk
    if walk.alpha:
        return solved
    with stage("error of the reference", len(walk.points)):
        kernel = StreamedKernel(walk.metric, walk.points, walk.epsilon)
        still = replace(solved, walk=replace(walk, time=0.0))
        errors = sampled_errors(kernel, walk.weights, still.coordinates, rng, walk.n_threads)
    return replace(solved, solution=replace(solved.solution, error_bound=errors))
