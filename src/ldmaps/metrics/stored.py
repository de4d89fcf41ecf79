"""Squared distances that were computed already, behind the Metric seam.

Lets every rule and selector work on a kept matrix without a second code path.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps.metrics.base import Metric, Points


class StoredPoints(Points):
    """Rows and columns of a shared matrix of d²; taking some copies no distances."""

    def __init__(self, squared: NDArray[Any], ids: NDArray[np.intp] | None = None) -> None:
        self.squared = squared
        self.ids: NDArray[np.intp] = np.arange(len(squared)) if ids is None else ids
        self.dtype = squared.dtype

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, indices: NDArray[np.intp] | slice) -> Self:
        """Return the points at ``indices``."""
        return type(self)(self.squared, self.ids[indices])


class StoredSquares(Metric):
    """Looks d² up instead of computing it; internal, so it is in no table and no model file."""

    name = "stored"
    takes_distances = True
    is_true_metric = False

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> StoredPoints:
        """Wrap a symmetric matrix of squared distances."""
        return StoredPoints(np.asarray(X, dtype=dtype))

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Copy a block of the matrix."""
        assert isinstance(a, StoredPoints)
        assert isinstance(b, StoredPoints)
        for place, row in enumerate(a.ids[rows]):
            np.take(a.squared[row], b.ids[cols], out=out[place])
