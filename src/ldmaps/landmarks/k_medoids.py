"""K-medoid landmarks (Algorithm 2 of the paper) without the N×N matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, assign, check_n_landmarks
from ldmaps.metrics.base import Metric, Points
from ldmaps.pairwise import distance_sums, is_whole_number, squared_row

__all__ = ["KMedoids"]

#: The iteration looks at no more points than this, or this many to a landmark.
MIN_SAMPLE = 50_000
SAMPLE_PER_LANDMARK = 100
#: K-means++ seeds are drawn from no more points than this, or this many to a landmark.
MIN_POOL = 5_000
POOL_PER_LANDMARK = 8


class KMedoids(LandmarkSelector):
    """Partition the data into M cells by Voronoi iteration; the medoids are the landmarks.

    An iteration takes N·M + Σ|S_i|² distances and O(N) memory, where S_i are the
    cells. The sum of weighted distances to the medoids never rises. Beyond 50,000
    points (or 100 to a landmark, if that is more) the iteration runs on a random
    sample of that size: medoids of so many members hardly move with more of them.
    Multiplicities always count all points.

    Parameters
    ----------
    n_landmarks : int, optional
        How many; left out, the estimator's ``n_landmarks`` holds.
    init : {"k-means++", "random"}
        Seeds drawn with probability proportional to the squared distance to the
        seeds so far (Arthur & Vassilvitskii, SODA 2007), or uniformly as in the
        paper. The former starts closer and needs fewer iterations.
    max_iter : int
        Most iterations to do; stops earlier when no medoid moves.

    Notes
    -----
    A medoid minimises Σ_j w_j d(m, x_j) over its cell with sample weights w; the
    paper's is w = 1.
    """

    name = "kmedoids"

    def __init__(
        self, n_landmarks: int | None = None, *, init: str = "k-means++", max_iter: int = 100
    ) -> None:
        self.n_landmarks = n_landmarks
        self.init = init
        self.max_iter = max_iter

    def select(
        self,
        points: Points,
        metric: Metric,
        *,
        epsilon: float,
        weights: NDArray[np.float64],
        rng: np.random.Generator,
        n_threads: int | None = None,
    ) -> Landmarks:
        """Choose landmarks; see :class:`~ldmaps.landmarks.base.LandmarkSelector`."""
        count = check_n_landmarks(self.n_landmarks, len(points))
        if not is_whole_number(self.max_iter) or self.max_iter < 0:
            raise InvalidInputError(f"max_iter must be a whole number of at least 0, got {self.max_iter!r}")
        if self.init not in ("k-means++", "random"):
            raise InvalidInputError(f'init must be "k-means++" or "random", got {self.init!r}')
        if count == len(points):
            return assign(points, metric, np.arange(count), weights, n_threads)
        sample, sample_weights, drawn = points, weights, None
        most = max(MIN_SAMPLE, SAMPLE_PER_LANDMARK * count)
        if len(points) > most:
            drawn = np.sort(rng.choice(len(points), most, replace=False))
            sample, sample_weights = points.take(drawn), weights[drawn]
        if self.init == "k-means++":
            # Seeds come one after the other, which no thread can help: a pool of a few points to a seed spreads
            # them as well, and the iteration moves them anyway.
            pool = np.sort(rng.permutation(len(sample))[: max(MIN_POOL, POOL_PER_LANDMARK * count)])
            seeds = pool[_spread_seeds(sample.take(pool), metric, count, sample_weights[pool], rng)]
        else:
            seeds = rng.choice(len(sample), count, replace=False)
        landmarks = assign(sample, metric, seeds, sample_weights, n_threads)
        unsettled = np.ones(count, dtype=bool)
        for _ in range(int(self.max_iter)):
            moved = _medoids(sample, metric, landmarks, sample_weights, unsettled, n_threads)
            if np.array_equal(moved, landmarks.indices):
                break
            before, landmarks = landmarks, assign(sample, metric, moved, sample_weights, n_threads)
            # A cell that kept its members keeps its medoid; late iterations touch few cells.
            changed = before.assignment != landmarks.assignment
            unsettled = np.zeros(count, dtype=bool)
            unsettled[before.assignment[changed]] = True
            unsettled[landmarks.assignment[changed]] = True
        indices = landmarks.indices if drawn is None else drawn[landmarks.indices]
        return assign(points, metric, np.sort(indices), weights, n_threads)


def _medoids(
    points: Points,
    metric: Metric,
    landmarks: Landmarks,
    weights: NDArray[np.float64],
    unsettled: NDArray[np.bool_],
    n_threads: int | None,
) -> NDArray[np.intp]:
    """Return the medoid of every cell; the present landmark stays where no other is strictly better."""
    moved = landmarks.indices.copy()
    # Members of a cell are brought together once, so that every cell is a block on the diagonal.
    order = np.argsort(landmarks.assignment, kind="stable")
    order = order[unsettled[landmarks.assignment[order]]]
    if len(order) == 0:
        return moved
    cells, starts = np.unique(landmarks.assignment[order], return_index=True)
    stops = np.append(starts[1:], len(order))
    groups = [slice(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]
    sums = distance_sums(metric, points.take(order), weights[order], n_threads, groups)
    for cell, group in zip(cells, groups, strict=True):
        members = order[group]
        best = int(np.argmin(sums[group]))
        present = int(np.searchsorted(members, moved[cell]))
        # Strictly, and by more than rounding: ties would let medoids wander for ever.
        if sums[group][best] < sums[group][present] * (1.0 - 1e-6):
            moved[cell] = members[best]
    return moved


def _spread_seeds(
    points: Points, metric: Metric, count: int, weights: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.intp]:
    """Draw k-means++ seeds: M rows of distances, O(N) memory."""
    seeds = np.empty(count, dtype=np.intp)
    row = np.empty((1, len(points)), dtype=points.dtype)
    lowest = np.full(len(points), np.inf, dtype=points.dtype)
    free = np.ones(len(points), dtype=bool)
    newest = int(rng.choice(len(points), p=weights / weights.sum()))
    for place in range(count):
        seeds[place] = newest
        free[newest] = False
        np.minimum(lowest, squared_row(metric, points, newest, points, row), out=lowest)
        lowest[newest] = 0.0
        mass = np.cumsum(lowest * weights)
        if mass[-1] > 0:
            newest = int(np.searchsorted(mass, rng.random() * mass[-1], side="right"))
        if not free[min(newest, len(points) - 1)]:
            # Every point left coincides with a seed (or rounding hit a seed): any of the rest serves.
            newest = int(rng.choice(np.flatnonzero(free))) if free.any() else newest
    return seeds
