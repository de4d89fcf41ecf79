"""Affinities that were computed already, by a forest, a graph or another kernel, as distances: d² = −2 ln A."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Points
from ldmaps.metrics.precomputed import Precomputed, PrecomputedPoints
from ldmaps.point_faults import as_float_array

#: What takes the place of 0, whose logarithm is infinite; a walk does not notice it.
SMALLEST = 1e-30
#: How far affinities may be from symmetric, or from 1 on the diagonal.
TOLERANCE = 1e-5
_CHECKED_ROWS = 256


class Affinity(Precomputed):
    """Affinities looked up in a matrix; with ``epsilon=1.0`` the walk is D⁻¹A.

    For ``fit`` the points are a square, symmetric matrix of affinities from 0 to 1 with 1 on the diagonal. For new
    points they are a matrix with one row per new point and either one column per training point, in the order of
    ``fit``, or one column per landmark, in the order of the landmarks. Another ε gives the walk of A^(1/ε), and a rule
    such as "bulk" chooses one.

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps.metrics import Affinity
    >>> affinity = np.exp(-np.array([[0.0, 9.0], [9.0, 0.0]]) / 2)
    >>> Affinity().pairwise(affinity).round(6) + 0.0
    array([[0., 3.],
           [3., 0.]])
    """

    name = "affinity"
    looked_up = "affinities"

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> PrecomputedPoints:
        """Validate affinities, and turn them into distances."""
        affinity = as_float_array(X, dtype)
        outside = (affinity < 0) | (affinity > 1 + TOLERANCE)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise InvalidInputError(
                f"affinities must be from 0 to 1, but the one at ({row}, {column}) is {affinity[row, column]:.6g}; "
                "divide A_ij by sqrt(A_ii A_jj)"
            )
        return super().prepare(np.sqrt(-2 * np.log(np.clip(affinity, SMALLEST, 1.0))), affinity.dtype)

    def check_training(self, points: Points) -> None:
        """Raise :class:`InvalidInputError` unless the points are an affinity matrix that can be fitted."""
        matrix = self.training_matrix(points)
        own = np.exp(-np.square(matrix.diagonal(), dtype=np.float64) / 2)
        if own.min() < 1 - TOLERANCE:
            worst = int(own.argmin())
            raise InvalidInputError(
                f"the affinity of a point to itself must be 1, but entry ({worst}, {worst}) is {own[worst]:.6g}; "
                "divide A_ij by sqrt(A_ii A_jj)"
            )
        for start in range(0, len(matrix), _CHECKED_ROWS):
            rows = slice(start, start + _CHECKED_ROWS)
            above, below = (
                np.exp(-np.square(part) / 2) for part in (matrix[rows, start:], matrix[start:, rows].T)
            )
            gap = np.abs(above - below)
            if gap.max() > TOLERANCE:
                row, column = (int(place) for place in np.unravel_index(gap.argmax(), gap.shape))
                raise InvalidInputError(
                    f"affinities must be symmetric, but ({row + start}, {column + start}) is {above[row, column]:.6g} "
                    f"and ({column + start}, {row + start}) is {below[row, column]:.6g}; use (A + A.T) / 2"
                )

    def made_up(self, n_points: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
        """Return affinities between so many points."""
        return np.asarray(np.exp(-np.square(super().made_up(n_points, n_features, rng)) / 2))
