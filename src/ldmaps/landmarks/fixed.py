"""Landmarks that the user chose."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, assign


class FixedLandmarks(LandmarkSelector):
    """Take the points at given indices.

    Parameters
    ----------
    indices : array-like of int
        Positions of the landmarks among the training points, each once.
    """

    name = "given"
    needs_all_points = False
    is_automatic = True

    def __init__(self, indices: ArrayLike) -> None:
        self.indices = indices

    def select(self, walk: Walk, rng: np.random.Generator) -> Landmarks:
        """Return the given landmarks with their cells."""
        return assign(walk, check_indices(self.indices, len(walk.points)))

    def among(self, used: NDArray[np.intp], n_points: int) -> FixedLandmarks:
        """Return the same landmarks by their places among ``used``, sorted: those of ``n_points`` with a weight."""
        indices = check_indices(self.indices, n_points)
        places = np.searchsorted(used, indices)
        places[places == len(used)] = 0
        missing = used[places] != indices
        if missing.any():
            raise InvalidInputError(
                f"landmark {int(indices[missing][0])} has sample_weight 0 and takes no part in the fit; "
                "choose landmarks of positive weight"
            )
        return FixedLandmarks(places)


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
            f"landmark indices must be different, but {unique[counts > 1][0]} is listed twice"
        )
    return array.astype(np.intp)
