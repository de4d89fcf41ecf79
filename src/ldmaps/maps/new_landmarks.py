"""Landmarks for points that a map does not cover: how many, which, and whether the walk can reach them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ldmaps import kernels
from ldmaps.diffusion.connectivity import REACH, minimum_spanning_tree
from ldmaps.diffusion.pairwise import nearest, squared_matrix, squared_row
from ldmaps.errors import DisconnectedError, InvalidInputError
from ldmaps.landmarks.grouping import neighbour_order
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.metrics import Metric
from ldmaps.metrics.base import Points
from ldmaps.metrics.stored import StoredPoints, StoredSquares

__all__ = ["Added", "Grown", "UnreachableError", "choose_landmarks", "grow", "squared_spacing"]


class UnreachableError(DisconnectedError):
    """New points lie too far from the map, and from each other, for the walk to reach them."""

    def __str__(self) -> str:
        shown = ", ".join(str(size) for size in self.component_sizes[:8])
        more = ", ..." if len(self.component_sizes) > 8 else ""
        return (
            f"{sum(self.component_sizes)} of the points, in {len(self.component_sizes)} groups (of {shown}{more}), "
            f"are farther than {self.reach:g}*sqrt(epsilon) from every landmark and from the points that can be "
            f"absorbed (epsilon = {self.epsilon:.6g}, about {self.joining_epsilon:.6g} would join them). Keep them "
            'until points in between have come (disconnected="leave" absorbs the others), or fit a new map '
            "with a larger epsilon."
        )


def squared_spacing(model: LandmarkDiffusionMap, spacing: float | None) -> float:
    """Return the squared radius of the cover: as asked for, or the map's own spacing, but never above ε."""
    epsilon = model.embedder_.epsilon
    if spacing is not None:
        return spacing**2 * epsilon
    squared = squared_matrix(model.metric_, model.embedder_.landmarks, n_threads=model.n_threads)
    np.fill_diagonal(squared, np.inf)
    apart = squared.min(axis=1)
    apart = apart[apart > 0]
    return min(epsilon, float(np.median(apart))) if len(apart) else epsilon


class Added(NamedTuple):
    """New landmarks, as indices of the points, and which points can be absorbed."""

    landmarks: NDArray[np.intp]
    reached: NDArray[np.bool_]


class Grown(NamedTuple):
    """Old landmarks, followed by new ones."""

    landmarks: Points
    multiplicities: NDArray[np.float64]
    squared_radii: NDArray[np.float64]


def choose_landmarks(
    model: LandmarkDiffusionMap,
    points: Points,
    squared_radius: float,
    max_landmarks: int | None,
    disconnected: str,
) -> Added:
    """Cover the points outside the domain, as far as the walk reaches."""
    embedder = model.embedder_
    extended = embedder.extend(points, model.n_threads)
    outside = np.flatnonzero(~embedder.coverage_of(extended).inside)
    reached = np.ones(len(points), dtype=bool)
    if not len(outside):
        return Added(outside, reached)
    among, distances = points.take(outside), extended.squared_distance[outside]
    cover = _cover(model.metric_, among, distances, squared_radius)
    absorbable = _reachable(model, among, cover, disconnected)
    reached[outside] = absorbable
    most = None if max_landmarks is None else int(max_landmarks) - embedder.n_landmarks
    if most is not None and most < 1 and absorbable.any():
        raise InvalidInputError(
            f"the map has {embedder.n_landmarks} landmarks, so max_landmarks={max_landmarks} leaves none for the "
            f"{np.count_nonzero(absorbable)} points outside its domain; raise it, or fit a new map"
        )
    if not absorbable.all() or (most is not None and len(cover) > most):
        outside, distances = outside[absorbable], distances[absorbable]
        among = points.take(outside)
        cover = _cover(model.metric_, among, distances, squared_radius, most)
    if len(cover) > kernels.BLOCK:
        squares = squared_matrix(model.metric_, among.take(cover), n_threads=model.n_threads)
        cover = cover[neighbour_order(squares)]
    return Added(outside[cover], reached)


def _cover(
    metric: Metric,
    points: Points,
    squared_distances: NDArray[Any],
    squared_radius: float,
    most: int | None = None,
) -> NDArray[np.intp]:
    """Take the point farthest from all landmarks, old and new, until none is beyond the radius; m rows of distances."""
    lowest = squared_distances.copy()
    row = np.empty((1, len(points)), dtype=points.dtype)
    chosen: list[int] = []
    while len(lowest) and (most is None or len(chosen) < most):
        newest = int(np.argmax(lowest))
        if lowest[newest] <= squared_radius:
            break
        chosen.append(newest)
        np.minimum(lowest, squared_row(metric, points, newest, points, row), out=lowest)
        lowest[newest] = 0.0
    return np.asarray(chosen, dtype=np.intp)


def _reachable(
    model: LandmarkDiffusionMap, points: Points, chosen: NDArray[np.intp], disconnected: str
) -> NDArray[np.bool_]:
    """Say which points have a landmark that hops of REACH·√ε lead to, or raise."""
    new = points.take(chosen)
    size = len(chosen) + 1
    squared = np.zeros((size, size))
    # Place 0 is the map, as a whole.
    squared[0, 1:] = squared[1:, 0] = nearest(model.metric_, new, model.embedder_.landmarks, model.n_threads)[
        1
    ]
    squared[1:, 1:] = squared_matrix(model.metric_, new, n_threads=model.n_threads)
    limit = REACH**2 * model.epsilon_
    _, labels = connected_components(squared <= limit, directed=False)
    cells = nearest(model.metric_, points, new, model.n_threads)[0]
    groups = labels[1:][cells]
    reached = np.asarray(groups == labels[0])
    if disconnected == "raise" and not reached.all():
        sizes = np.unique(groups[~reached], return_counts=True)[1]
        joining = minimum_spanning_tree(StoredSquares(), StoredPoints(squared)).connecting_epsilon
        raise UnreachableError(sizes.tolist(), model.epsilon_, joining, REACH)
    return reached


def grow(
    model: LandmarkDiffusionMap,
    points: Points,
    added: Added,
    mass: NDArray[np.float64],
    known_mass: NDArray[np.float64],
) -> Grown:
    """Join old and new landmarks, and give every absorbed point to the nearest."""
    embedder, metric = model.embedder_, model.metric_
    taken = np.flatnonzero(added.reached)
    landmarks = embedder.landmarks
    radii = np.asarray(embedder.squared_radii, dtype=np.float64)
    if len(added.landmarks):
        new = points.take(added.landmarks)
        between = squared_matrix(metric, new, landmarks, model.n_threads)
        # A new landmark takes over part of its neighbours' cells. What was inside there must stay inside.
        inherited = np.where(between <= 4.0 * radii, radii, 0.0).max(axis=1)
        landmarks, radii = metric.joined(landmarks, new), np.concatenate([radii, inherited])
    cells, squared = nearest(metric, points.take(taken), landmarks, model.n_threads)
    np.maximum.at(radii := radii.copy(), cells, squared)
    multiplicities = np.zeros(len(landmarks))
    multiplicities[: len(known_mass)] = known_mass
    np.add.at(multiplicities, cells, mass[taken])
    return Grown(landmarks, multiplicities, radii)
