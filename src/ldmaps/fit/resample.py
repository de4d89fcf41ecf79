"""How sure a map is of itself: a walk over at most a thousand landmarks, and the points it stands for, resampled.

Errors are those of the data and change little with M, so a few landmarks stand for many; and those of a distilled map
are its teacher's, because a handful of landmarks hardly see each other at the teacher's ε.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.fit.fitted_map import Medoids
from ldmaps.landmarks import KMedoids, Landmarks
from ldmaps.landmarks.base import DEFAULT_LANDMARKS
from ldmaps.metrics.base import squared_matrix
from ldmaps.validation.resampling import fitted_modes
from ldmaps.validation.sampling import N_RESAMPLES, Order, Sampling, judge_sampling

#: Of more landmarks than this, 400 medoids stand for all; these settle well enough in so many iterations.
MOST_RESAMPLED, ITERATIONS = 1000, 3
#: Medoids whose distances a map keeps; they take 80 kB of its file, whatever the points are.
MEDOIDS_KEPT = 200


@dataclass(frozen=True)
class CoarseWalk:
    """A walk over at most a thousand landmarks that stands for a finer one."""

    walk: Walk  # over these landmarks, with their multiplicities
    cells: NDArray[np.intp]  # (n,): which of them each point of the finer walk belongs to
    landmarks: Landmarks | None  # None where every point of the finer walk stands for itself


def coarse_walk(walk: Walk) -> CoarseWalk:
    """Return a walk over at most a thousand points that stands for this one."""
    n = len(walk.points)
    if n <= MOST_RESAMPLED:
        return CoarseWalk(walk, np.arange(n), None)
    selector = KMedoids(min(DEFAULT_LANDMARKS, MOST_RESAMPLED), max_iter=ITERATIONS)
    medoids = selector.select(walk, np.random.default_rng(0))
    return CoarseWalk(
        replace(walk.take(medoids.indices), weights=medoids.multiplicities), medoids.assignment, medoids
    )


@dataclass(frozen=True)
class ResampledMap:
    """What resampling needs of a map: a coarse walk, and the points that it stands for."""

    walk: Walk  # over at most a thousand landmarks with their multiplicities
    cells: NDArray[np.intp]  # (n,): the landmark of each member
    weights: NDArray[np.float64]  # (n,): the members' weights
    order: Order
    shown: NDArray[np.intp]  # (M,): which point of the walk tells the errors of each landmark of the map

    def judge(
        self, n_resamples: int = N_RESAMPLES, blocks: str = "auto", lag: float | None = None
    ) -> Sampling:
        """Resample; options as for :func:`~ldmaps.validation.sampling.judge_sampling`."""
        walk = self.walk
        squared = squared_matrix(walk.metric, walk.points, n_threads=walk.n_threads)
        kernel = np.exp(squared.astype(np.float64) / (-2.0 * walk.epsilon))
        fitted = fitted_modes(kernel, walk.weights, walk.alpha)
        found = judge_sampling(
            fitted,
            self.cells,
            self.weights,
            self.order,
            resample=blocks,
            n_resamples=n_resamples,
            lag=lag,
            n_threads=walk.n_threads,
        )
        return replace(found, landmark_errors=found.landmark_errors[self.shown])

    def medoids(self) -> Medoids:
        """Return the distances between few medoids, which a map can keep when the points are gone."""
        walk = self.walk
        if len(walk.points) > MEDOIDS_KEPT:
            medoids = KMedoids(MEDOIDS_KEPT, max_iter=ITERATIONS).select(walk, np.random.default_rng(0))
            walk = replace(walk.take(medoids.indices), weights=medoids.multiplicities)
        squared = squared_matrix(walk.metric, walk.points, n_threads=walk.n_threads)
        return Medoids(squared[np.triu_indices(len(squared), 1)].astype(np.float32), walk.weights)

    def of_landmarks(self, members: NDArray[np.intp]) -> ResampledMap:
        """Return the same with errors of other landmarks: those at some members."""
        return replace(self, shown=self.cells[members])


def resampled_landmarks(
    walk: Walk, landmarks: Landmarks, weights: NDArray[np.float64], order: Order
) -> ResampledMap:
    """Return what resampling a landmark map needs."""
    over = replace(walk.take(landmarks.indices), weights=landmarks.multiplicities)
    coarse = coarse_walk(over)
    cells = landmarks.cells_of(np.arange(len(walk.points)))
    return ResampledMap(coarse.walk, coarse.cells[cells], weights, order, shown=coarse.cells)


def resampled_points(coarse: CoarseWalk, weights: NDArray[np.float64], order: Order) -> ResampledMap:
    """Return what resampling a map of all points needs, given a coarse walk that stands for theirs."""
    return ResampledMap(coarse.walk, coarse.cells, weights, order, shown=coarse.cells)
