"""The LandmarkSelector seam: points in, landmarks with their Voronoi cells out."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.pairwise import nearest
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError, Named
from ldmaps.metrics.base import Points, squared_matrix
from ldmaps.settings import LANDMARK_FIT

#: Landmarks to take by default.
DEFAULT_LANDMARKS = 400


@dataclass(frozen=True)
class Landmarks:
    """Landmarks and the points that each stands for.

    Attributes
    ----------
    indices : ndarray of shape (M,)
        Which points are landmarks, or stand for landmarks that were moved; all different.
    multiplicities : ndarray of shape (M,)
        c_i, total weight of the points in the Voronoi cell of landmark i (eqn ldmap_mult).
    assignment : ndarray of shape (N,)
        Which landmark (0 … M-1) each point belongs to (eqn clustering). A point as near to two landmarks goes to the
        first; a landmark always to itself.
    squared_distances : ndarray of shape (N,)
        d² of each point to its landmark.
    """

    indices: NDArray[np.intp]
    multiplicities: NDArray[np.float64]
    assignment: NDArray[np.intp]
    squared_distances: NDArray[Any]

    @property
    def squared_radii(self) -> NDArray[np.float64]:
        """Squared distance from each landmark to the farthest point of its cell."""
        radii = np.zeros(len(self.indices))
        np.maximum.at(radii, self.assignment, self.squared_distances)
        return radii

    @property
    def mean_squares(self) -> NDArray[np.float64]:
        """Mean squared distance of the points of each cell from their landmark."""
        n_landmarks = len(self.indices)
        sums = np.bincount(self.assignment, weights=self.squared_distances, minlength=n_landmarks)
        return np.asarray(sums / np.bincount(self.assignment, minlength=n_landmarks))

    @property
    def known_times(self) -> tuple[NDArray[np.intp], NDArray[np.float64]] | None:
        """Rows and their times, if these were found while points were assigned, as happens with files in blocks."""
        return None

    def cells_of(self, points: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which landmark the training points at indices ``points`` belong to."""
        return self.assignment[points]

    def cells_of_rows(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which landmark some of the ``rows`` belong to, where every row is a point."""
        return self.assignment[rows]

    def points_in(self, cells: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return which points belong to some of the landmarks: those of which ``cells``, (M,), is True."""
        return np.flatnonzero(cells[self.assignment])

    def beyond(self, squared: float) -> NDArray[np.intp]:
        """Return the indices of points whose d² from their landmark is above ``squared``."""
        return np.flatnonzero(self.squared_distances > squared)

    def without(self, walk: Walk, left_out: NDArray[np.intp], apart: NDArray[np.bool_]) -> Landmarks:
        """Return the landmarks that stay when some points are left out, and with them the landmarks that lie apart.

        Parameters
        ----------
        walk : Walk
            Over the points that stay.
        left_out : ndarray of int
            Points that go: all those of the landmarks that go, and perhaps others.
        apart : ndarray of bool, shape (M,)
            Which landmarks go.
        """
        # Every point that stays keeps its landmark, so its cell is known.
        stays = np.ones(len(self.assignment), dtype=bool)
        stays[left_out] = False
        place, number = np.cumsum(stays) - 1, np.cumsum(~apart) - 1
        indices = place[self.indices[~apart]]
        assignment = number[self.assignment[stays]]
        return settle(indices, assignment, self.squared_distances[stays], walk.weights)

    def in_order(self, order: NDArray[np.intp]) -> Landmarks:
        """Return the same landmarks and cells with landmark ``order[i]`` as the i-th; ``order`` is a permutation."""
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order))
        return Landmarks(
            indices=self.indices[order],
            multiplicities=self.multiplicities[order],
            assignment=place[self.assignment],
            squared_distances=self.squared_distances,
        )


class PointsElsewhere(Points):
    """Points that are not all in this process: :meth:`take` fetches some, workers handle the rest in place."""

    are_here = False

    @abstractmethod
    def assigned(self, indices: NDArray[np.intp], places: Points | None = None) -> Landmarks:
        """Assign every point to the nearest landmark; see :func:`assign`."""

    @abstractmethod
    def cover(self) -> Cover:
        """Begin to cover the points with landmarks that are chosen step by step."""

    @abstractmethod
    def connecting_bandwidth(self) -> Bandwidth:
        """Return an ε at which hops of √ε join all points, with a lower bound of the smallest such ε."""

    @abstractmethod
    def embed_all(
        self, embedder: Any, landmarks: Landmarks, asked: NDArray[np.intp]
    ) -> tuple[Any, Any, NDArray[Any]]:
        """Embed all rows where they are; return their coordinates, their landmarks, and d² of the rows ``asked`` for.

        Coordinates and landmarks stay with the workers as dask arrays if they are many.
        """


class Cover(ABC):
    """How far points that are elsewhere lie from landmarks so far."""

    @abstractmethod
    def add(self, indices: NDArray[np.intp], most: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Compare all points with more landmarks; return the ``most`` farthest from all so far, and their d²."""
        # The farthest first, and of points as far the first; a landmark is at 0.


class LandmarkSelector(ABC):
    """A way to choose landmarks.

    A new one is a file that subclasses this and a line in the table of :mod:`ldmaps.landmarks`;
    ``tests/landmarks/contract.py`` is the suite it must pass.
    """

    #: Key in the selector table.
    name: ClassVar[str]
    #: How many landmarks; None where the estimator or the method itself decides.
    n_landmarks: int | None = None
    #: Whether the method fixes the number of landmarks by itself.
    is_automatic: ClassVar[bool] = False
    #: Whether choosing takes all points at once; otherwise a sample of them, brought here by index.
    needs_all_points: ClassVar[bool] = True
    #: Whether :meth:`select` takes points elsewhere all the same: it chooses among a sample and what that leaves out.
    covers_from_sample: ClassVar[bool] = False
    #: Whether other landmarks are chosen at another ε.
    depends_on_epsilon: ClassVar[bool] = False

    @abstractmethod
    def select(self, walk: Walk, rng: np.random.Generator) -> Landmarks:
        """Choose landmarks among the points of a ``walk``, whose weights are positive; ``rng`` decides random choices.

        Must not hold an N×N matrix.
        """

    def for_any_points(self) -> Self:
        """Return the same method for points that need not be connected; most never ask whether they are."""
        return self

    def of_size(self, n_landmarks: int) -> Self:
        """Return a selector with the same settings for ``n_landmarks``."""
        resized = copy.copy(self)
        resized.n_landmarks = n_landmarks
        return resized

    def __repr__(self) -> str:
        settings = ", ".join(
            f"{key}={value!r}" for key, value in vars(self).items() if not key.startswith("_")
        )
        return f"{type(self).__name__}({settings})"


def assign(walk: Walk, indices: NDArray[np.intp], places: Points | None = None) -> Landmarks:
    """Assign every point of a ``walk`` to its nearest landmark; these are at ``indices``, or moved to ``places``."""
    points = walk.points
    if isinstance(points, PointsElsewhere):
        return points.assigned(indices, places)
    landmarks = points.take(indices) if places is None else places
    assignment, squared = nearest(walk.metric, points, landmarks, walk.n_threads)
    return settle(indices, assignment, squared, walk.weights, are_moved=places is not None)


def settle(
    indices: NDArray[np.intp],
    assignment: NDArray[np.intp],
    squared: NDArray[Any],
    weights: NDArray[np.float64],
    *,
    are_moved: bool = False,
) -> Landmarks:
    """Return landmarks with their cells from the nearest landmark of each point; changes its arguments."""
    # Among coinciding landmarks the first would take all; each keeps at least itself, or what stands for it, so no
    # cell is empty.
    assignment[indices] = np.arange(len(indices))
    if not are_moved:
        squared[indices] = 0.0
    multiplicities = np.bincount(assignment, weights=weights, minlength=len(indices)).astype(np.float64)
    return Landmarks(indices, multiplicities, assignment, squared)


def check_n_landmarks(n_landmarks: int | None, n_points: int) -> int:
    """Return the number of landmarks, or raise when it does not fit the data."""
    if n_landmarks is None:
        raise InvalidInputError(
            Named("n_landmarks"),
            " is not set; say how many landmarks to choose, for example ",
            Named("n_landmarks", 400),
        )
    LANDMARK_FIT["n_landmarks"].check(n_landmarks)
    if n_landmarks > n_points:
        raise InvalidInputError(
            Named("n_landmarks", n_landmarks),
            f" is more than the {n_points} points with positive weight; "
            f"ask for at most {n_points}, which is the exact map, or leave the number out: then 400, or all points if "
            "they are fewer",
        )
    return int(n_landmarks)


def neighbour_order(squared: NDArray[Any], block: int = kernels.BLOCK) -> NDArray[np.intp]:
    """Return an order in which every aligned run of ``block`` points is a group of neighbours."""
    # The online step skips whole blocks of landmarks that are too far from a point to matter.
    # Points are halved again and again by which of two far ends they are nearer to, at multiples of
    # ``block``; any distance will do.
    done: list[NDArray[np.intp]] = []
    waiting = [np.arange(len(squared))]
    while waiting:
        points = waiting.pop()
        if len(points) <= block:
            done.append(points)
            continue
        first = points[np.argmax(squared[points[0], points])]
        second = points[np.argmax(squared[first, points])]
        order = points[np.argsort(squared[first, points] - squared[second, points], kind="stable")]
        half = max(1, round(len(points) / 2 / block)) * block
        waiting += [order[half:], order[:half]]
    return np.concatenate(done)


def group_neighbours(landmarks: Landmarks, walk: Walk) -> tuple[Landmarks, NDArray[Any] | None]:
    """Return the same landmarks with neighbours standing together, and the d² between them if that took them."""
    if len(landmarks.indices) <= kernels.BLOCK:
        return landmarks, None
    squared = squared_matrix(walk.metric, walk.points.take(landmarks.indices), n_threads=walk.n_threads)
    order = neighbour_order(squared)
    return landmarks.in_order(order), squared[np.ix_(order, order)]
