"""K-medoid landmarks (Algorithm 2 of the paper) without the N×N matrix."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import distance_sums, nearest
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.landmarks.base import (
    Landmarks,
    LandmarkSelector,
    assign,
    check_n_landmarks,
    settle,
)
from ldmaps.settings import check_whole
from ldmaps.threads import single_threaded_blas

#: The iteration looks at no more points than this, or this many per landmark.
MIN_SAMPLE = 50_000
SAMPLE_PER_LANDMARK = 100
#: K-means++ seeds are drawn from no more points than this, or this many per landmark,
MIN_POOL = 5_000
POOL_PER_LANDMARK = 8
#: and at once this share of those there are already.
SEEDS_AT_ONCE = 0.25
#: Where more than this share of the landmarks moved, comparing all points again costs no more.
MOSTLY_MOVED = 0.7


class KMedoids(LandmarkSelector):
    """Partition the data into M cells by Voronoi iteration; the medoids are the landmarks.

    An iteration takes at most N·M + Σ|S_i|² distances, where S_i are the cells, and fewer the fewer medoids still
    move; O(N) memory. The sum of weighted distances to the medoids never rises. Beyond 50,000 points (or 100 per
    landmark) it runs on a random sample of that size: medoids of so many members hardly move with more.

    Parameters
    ----------
    n_landmarks : int, optional
        How many; left out, the estimator's ``n_landmarks`` holds.
    init : {"k-means++", "random"}
        Seeds drawn with probability proportional to the squared distance to the seeds so far (Arthur & Vassilvitskii,
        SODA 2007; several to a round, as Bahmani et al., VLDB 2012), which needs fewer iterations, or uniformly as in
        the paper.
    max_iter : int
        Most iterations to do; stops earlier when no medoid moves.

    See Also
    --------
    PrunedSpanningTree : finds the number of landmarks from ε.
    FarthestPoint : covers the data evenly.

    Notes
    -----
    A medoid minimises Σ_j w_j d(m, x_j) over its cell with sample weights w; the paper's is w = 1.

    References
    ----------
    A. W. Long and A. L. Ferguson, "Landmark diffusion maps (L-dMaps)", Applied and Computational Harmonic Analysis 47,
    190-211 (2019).
    """

    name = "kmedoids"
    needs_all_points = False

    def __init__(
        self, n_landmarks: int | None = None, *, init: str = "k-means++", max_iter: int = 100
    ) -> None:
        self.n_landmarks = n_landmarks
        self.init = init
        self.max_iter = max_iter

    def select(self, walk: Walk, rng: np.random.Generator) -> Landmarks:
        """Choose landmarks; see :class:`~ldmaps.landmarks.base.LandmarkSelector`."""
        count = check_n_landmarks(self.n_landmarks, len(walk.points))
        check_whole("max_iter", self.max_iter, 0)
        if self.init not in ("k-means++", "random"):
            raise InvalidInputError(f'init must be "k-means++" or "random", got {self.init!r}')
        if count == len(walk.points):
            return assign(walk, np.arange(count))
        # One limit on BLAS for all the loops below, instead of one each.
        with single_threaded_blas():
            return self._iterate(walk, count, rng)

    def _iterate(self, walk: Walk, count: int, rng: np.random.Generator) -> Landmarks:
        n_points, most = len(walk.points), sample_size(count)
        drawn = np.sort(rng.choice(n_points, most, replace=False)) if n_points > most else None
        if drawn is None and not walk.points.are_here:
            drawn = np.arange(n_points)
        sample = walk if drawn is None else walk.take(drawn)
        if self.init == "k-means++":
            # A pool of a few points per seed spreads them as well as all points; the iteration moves them anyway.
            pool = np.sort(rng.permutation(len(sample.points))[: max(MIN_POOL, POOL_PER_LANDMARK * count)])
            seeds = pool[_spread_seeds(sample.take(pool), count, rng)]
        else:
            seeds = rng.choice(len(sample.points), count, replace=False)
        # In the order of the points all along: which of two equals is the first then never changes.
        landmarks = assign(sample, np.sort(seeds))
        unsettled = np.ones(count, dtype=bool)
        for _ in range(int(self.max_iter)):
            moved = _medoids(sample, landmarks, unsettled)
            if np.array_equal(moved, landmarks.indices):
                break
            order = np.argsort(moved)
            before = landmarks.in_order(order)
            landmarks = _reassign(sample, before, moved[order])
            # A cell that kept its members keeps its medoid; late iterations touch few cells.
            changed = before.assignment != landmarks.assignment
            unsettled = np.zeros(count, dtype=bool)
            unsettled[before.assignment[changed]] = True
            unsettled[landmarks.assignment[changed]] = True
        return landmarks if drawn is None else assign(walk, drawn[landmarks.indices])


def sample_size(n_landmarks: int) -> int:
    """Return on how many points the iteration runs at most."""
    return max(MIN_SAMPLE, SAMPLE_PER_LANDMARK * n_landmarks)


def _reassign(walk: Walk, before: Landmarks, indices: NDArray[np.intp]) -> Landmarks:
    """Do what :func:`assign` does where only some landmarks have moved, without measuring what cannot have changed."""
    # All points are compared with the landmarks that moved, and those whose landmark moved away with the
    # others too. Of a share f that moved this takes 2f − f² of all distances, and after a few iterations f is
    # small.
    shifted = indices != before.indices
    newcomers, stayed = np.flatnonzero(shifted), np.flatnonzero(~shifted)
    if len(newcomers) > MOSTLY_MOVED * len(indices):
        return assign(walk, indices)
    points, metric = walk.points, walk.metric
    assignment, squared = before.assignment.copy(), before.squared_distances.copy()
    bereft = np.flatnonzero(shifted[assignment])
    place, squared[bereft] = nearest(
        metric, points.take(bereft), points.take(indices[stayed]), walk.n_threads
    )
    assignment[bereft] = stayed[place]
    place, lowest = nearest(metric, points, points.take(indices[newcomers]), walk.n_threads)
    closer = lowest < squared
    # The first among equals, as if all had been compared.
    tied = np.flatnonzero(lowest == squared)
    closer[tied] = newcomers[place[tied]] < assignment[tied]
    changed = np.flatnonzero(closer)
    squared[changed] = lowest[changed]
    assignment[changed] = newcomers[place[changed]]
    return settle(indices, assignment, squared, walk.weights)


def _medoids(walk: Walk, landmarks: Landmarks, unsettled: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the medoid of every cell; the present landmark stays where no other is strictly better."""
    moved = landmarks.indices.copy()
    cells = np.flatnonzero(unsettled)  # none is empty: a landmark belongs to its own cell
    if len(cells) == 0:
        return moved
    # Members of a cell are brought together once, so that every cell is a block on the diagonal.
    members = np.flatnonzero(unsettled[landmarks.assignment])
    owners = landmarks.assignment[members]
    # As narrow as can be: numpy sorts numbers of two bytes in linear time.
    order = members[np.argsort(owners.astype(np.min_scalar_type(len(moved))), kind="stable")]
    bounds = np.append(0, np.cumsum(np.bincount(owners, minlength=len(moved))[cells]))
    sums = distance_sums(walk.metric, walk.points.take(order), walk.weights[order], walk.n_threads, bounds)
    best = np.array([first + sums[first:last].argmin() for first, last in pairwise(bounds.tolist())])
    own = np.flatnonzero(np.isin(order, moved[cells]))
    # Strictly better, and by more than rounding: ties would let medoids wander forever.
    better = sums[best] < (1.0 - 1e-6) * sums[own]
    moved[cells[better]] = order[best[better]]
    return moved


def _spread_seeds(walk: Walk, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw k-means++ seeds in rounds that threads can share: M rows of distances in all, O(N) memory."""
    points, weights = walk.points, walk.weights
    seeds = np.array([rng.choice(len(points), p=weights / weights.sum())], dtype=np.intp)
    newest = seeds
    lowest = np.full(len(points), np.inf)
    while len(seeds) < count:
        np.minimum(lowest, nearest(walk.metric, points, points.take(newest), walk.n_threads)[1], out=lowest)
        mass = lowest * weights
        mass /= mass.max() or 1.0
        np.maximum(mass, 1e-290, out=mass)  # points that coincide with a seed come when no others are left
        more = min(max(1, int(SEEDS_AT_ONCE * len(seeds))), count - len(seeds))
        # The smallest keys are a draw without replacement (Efraimidis & Spirakis 2006).
        keys = rng.standard_exponential(len(points)) / mass
        keys[seeds] = np.inf
        newest = np.argpartition(keys, more - 1)[:more]
        seeds = np.concatenate([seeds, newest])
    return seeds
