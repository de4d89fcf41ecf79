"""Landmarks that the user chose."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, assign
from ldmaps.metrics.base import Metric, Points

__all__ = ["Given"]


class Given(LandmarkSelector):
    """Take the points at given indices.

    Parameters
    ----------
    indices : array-like of int
        Positions of the landmarks among the training points, each once.
    """

    name = "given"
    is_automatic = True

    def __init__(self, indices: ArrayLike) -> None:
        self.indices = indices

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
        """Return the given landmarks with their cells."""
        return assign(points, metric, check_indices(self.indices, len(points)), weights, n_threads)


def check_indices(indices: ArrayLike, n_points: int) -> NDArray[np.intp]:
    """Return landmark indices as an array, or raise when they do not fit the data."""
    array = np.asarray(indices)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) < 2:
        raise InvalidInputError(
            "landmark indices must be a one-dimensional array of at least 2 integers, "
            f"got shape {array.shape} of {array.dtype}"
        )
    if array.min() < 0 or array.max() >= n_points:
        raise InvalidInputError(
            f"landmark indices must lie in 0 … {n_points - 1}, got values from {array.min()} to {array.max()}"
        )
    unique, counts = np.unique(array, return_counts=True)
    if len(unique) < len(array):
        raise InvalidInputError(
            f"landmark indices must be different, but {unique[counts > 1][0]} stands there twice"
        )
    return array.astype(np.intp)
