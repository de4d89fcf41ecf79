"""Hamming distance: the fraction of features that differ."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.euclidean import ColumnPoints
from ldmaps.point_faults import as_float_array


class Hamming(Metric):
    """Fraction of features in which two points differ, between 0 and 1.

    Features are any numbers: bits, symbols, numbered states. They are compared for equality in the points' precision,
    so integers too large for it are refused instead of being taken for equal.

    Examples
    --------
    >>> from ldmaps.metrics import Hamming
    >>> Hamming().pairwise([[0, 1, 1, 0]], [[0, 1, 0, 0], [1, 0, 0, 1]])
    array([[0.25, 1.  ]])
    """

    name = "hamming"

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> ColumnPoints:
        """Validate points and lay them out for speed; the input is copied."""
        given = np.asarray(X)
        values = as_float_array(given, dtype)
        if given.dtype.kind in "iu":
            # Above 2^mantissa neighbouring integers round to the same float.
            largest = max(abs(int(given.min())), abs(int(given.max())))
            limit = 2 ** (np.finfo(values.dtype).nmant + 1)
            if largest > limit:
                raise InvalidInputError(
                    f"integers up to {largest} cannot be distinguished in {values.dtype}, "
                    f"which is exact up to {limit}; number the symbols from 0 instead"
                )
        return ColumnPoints(values.T.copy())

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d²(a[i], b[j]) for i in ``rows``, j in ``cols`` to ``out``."""
        left, right = cast(ColumnPoints, a).columns, cast(ColumnPoints, b).columns
        kernels.squared_hamming(left, rows.start, rows.stop, right, cols.start, cols.stop, out)

    def made_up(self, n_points: int, n_features: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return points of four symbols."""
        return rng.integers(0, 4, (n_points, n_features))
