"""Landmarks for points that a map does not cover: how many, which, and whether the walk can reach them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ldmaps import kernels
from ldmaps.diffusion.pairwise import nearest, squared_row
from ldmaps.diffusion.walk import REACH, minimum_spanning_tree
from ldmaps.errors import DisconnectedError, InvalidInputError, Named
from ldmaps.landmarks.base import neighbour_order
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.metrics import Metric
from ldmaps.metrics.base import Points, squared_matrix
from ldmaps.metrics.precomputed import StoredPoints, StoredSquares

_Array = NDArray[np.float64]


class UnreachableError(DisconnectedError):
    """New points lie too far from the map, and from each other, for the walk to reach them."""

    def __init__(
        self,
        component_sizes: Sequence[int],
        epsilon: float,
        joining_epsilon: float,
        reach: float,
        n_points: int,
        distances: tuple[float, float],
    ) -> None:
        super().__init__(component_sizes, epsilon, joining_epsilon, reach)
        self.n_points, self.distances = n_points, distances
        self.args = (component_sizes, epsilon, joining_epsilon, reach, n_points, distances)

    @property
    def parts(self) -> tuple[Any, ...]:
        """The text."""
        sizes, count = self.component_sizes, sum(self.component_sizes)
        shown = ", ".join(str(size) for size in sizes[:8]) + (", ..." if len(sizes) > 8 else "")
        near, far = self.distances
        return (
            f"{count} of {self.n_points} points are not connected to the map, in groups of {shown}: they are "
            f"{near:.3g} to {far:.3g} sqrt(epsilon) from the nearest landmark, and no chain of points with gaps below "
            f"{self.reach:g} sqrt(epsilon) leads to them (epsilon = {self.epsilon:.6g}). ",
            Named("disconnected", "leave"),
            f" skips them and absorbs the other {self.n_points - count}; keep them until points in between have been "
            f"sampled. Or fit a new map to all data: epsilon={self.joining_epsilon:.6g} connects them.",
        )


def choose_landmarks(
    model: LandmarkDiffusionMap,
    points: Points,
    spacing: float | None,
    max_landmarks: int | None,
    disconnected: str,
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return which points become landmarks, a cover of those outside, and which points the walk reaches."""
    embedder, metric, epsilon = model.embedder_, model.metric_, model.epsilon_
    extended = embedder.extend(points, model.n_threads)
    outside = np.flatnonzero(~embedder.coverage_of(extended).inside)
    reached = np.ones(len(points), dtype=bool)
    if not len(outside):
        return outside, reached
    radius = _own_spacing(model) if spacing is None else spacing**2 * epsilon
    among, squared = points.take(outside), extended.squared_distance[outside]
    cover = _cover(metric, among, squared, radius)
    groups, joining = _groups(model, among, cover)
    near = groups == 0
    if disconnected == "raise" and not near.all():
        sizes = np.unique(groups[~near], return_counts=True)[1].tolist()
        away = np.sqrt(squared[~near] / epsilon)
        distances = float(away.min()), float(away.max())
        raise UnreachableError(sizes, epsilon, joining, REACH, len(points), distances)
    reached[outside] = near
    most = math.inf if max_landmarks is None else int(max_landmarks) - embedder.n_landmarks
    if most < 1 and near.any():
        raise InvalidInputError(
            f"the map has {embedder.n_landmarks} landmarks, so max_landmarks={max_landmarks} leaves none for the "
            f"{np.count_nonzero(near)} points outside its domain; raise it, or fit a new map"
        )
    if not near.all() or len(cover) > most:
        outside = outside[near]
        cover = _cover(metric, points.take(outside), squared[near], radius, most)
    chosen = outside[cover]
    if len(chosen) > kernels.BLOCK:
        chosen = chosen[neighbour_order(squared_matrix(metric, points.take(chosen)))]
    return chosen, reached


def _own_spacing(model: LandmarkDiffusionMap) -> float:
    """Return the squared median distance between neighbouring landmarks, but never more than ε."""
    squared = squared_matrix(model.metric_, model.embedder_.landmarks, n_threads=model.n_threads)
    np.fill_diagonal(squared, np.inf)
    apart = squared.min(axis=1)
    return min(model.epsilon_, float(np.median(apart[apart > 0]))) if (apart > 0).any() else model.epsilon_


def _cover(
    metric: Metric, points: Points, squared: NDArray[Any], radius: float, most: float = math.inf
) -> NDArray[np.intp]:
    """Take the point farthest from all landmarks, old and new, until none is beyond the radius; m rows of distances."""
    lowest, row = squared.copy(), np.empty((1, len(points)), dtype=points.dtype)
    chosen: list[int] = []
    while len(lowest) and len(chosen) < most and lowest.max() > radius:
        chosen.append(int(np.argmax(lowest)))
        np.minimum(lowest, squared_row(metric, points, chosen[-1], points, row), out=lowest)
        lowest[chosen[-1]] = 0.0
    return np.asarray(chosen, dtype=np.intp)


def _groups(
    model: LandmarkDiffusionMap, points: Points, cover: NDArray[np.intp]
) -> tuple[NDArray[np.intp], float]:
    """Return in which group of the walk each point is, 0 being the map's, and the ε that joins all."""
    embedder, metric, new = model.embedder_, model.metric_, points.take(cover)
    # Training points are as near as the border of a landmark's cell.
    apart = np.sqrt(squared_matrix(metric, new, embedder.landmarks, model.n_threads))
    apart = np.maximum(apart - np.sqrt(embedder.squared_radii), 0.0)
    squared = np.zeros((len(cover) + 1,) * 2)
    squared[0, 1:] = squared[1:, 0] = apart.min(axis=1) ** 2  # place 0 is the map, as a whole
    squared[1:, 1:] = squared_matrix(metric, new, n_threads=model.n_threads)
    labels = connected_components(squared <= REACH**2 * model.epsilon_, directed=False)[1]
    joining = minimum_spanning_tree(StoredSquares(), StoredPoints(squared)).connecting_epsilon
    return np.asarray(labels[1:][nearest(metric, points, new, model.n_threads)[0]], np.intp), joining


def grow_cells(
    model: LandmarkDiffusionMap, landmarks: Points, taken: Points, mass: _Array, known_mass: _Array
) -> tuple[_Array, _Array]:
    """Return squared radii and multiplicities of old and new landmarks, every absorbed point being the nearest's."""
    radii, n_old = model.embedder_.squared_radii, len(known_mass)
    between = squared_matrix(model.metric_, landmarks, model.embedder_.landmarks, model.n_threads)[n_old:]
    # A new landmark takes over part of its neighbours' cells. What was inside there must stay inside.
    radii = np.concatenate([radii, np.where(between <= 4.0 * radii, radii, 0.0).max(axis=1)])
    multiplicities = np.pad(known_mass, (0, len(between)))
    cells, squared = nearest(model.metric_, taken, landmarks, model.n_threads)
    np.maximum.at(radii, cells, squared)
    np.add.at(multiplicities, cells, mass)
    return radii, multiplicities
