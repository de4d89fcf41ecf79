"""Distance between periodic coordinates such as dihedral angles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import LARGEST, Array, Metric, OneRow, Places, Points, SquaresGradient
from ldmaps.metrics.euclidean import ColumnPoints, vector_gradient
from ldmaps.point_faults import as_float_array


class Periodic(Metric):
    """Euclidean distance on a torus: d² = Σ_k t_k², where t_k is the difference taken the shorter way round.

    Parameters
    ----------
    period : float or array-like of shape (features,), default 2π
        Length after which a coordinate repeats: 2π for radians, 360 for degrees, one value for all features or one
        each. Angles may lie anywhere; they need not be wrapped.

    Examples
    --------
    >>> from ldmaps.metrics import Periodic
    >>> Periodic(period=360.0).pairwise([[179.0]], [[-179.0], [0.0]])
    array([[  2., 179.]])
    """

    name = "periodic"
    has_units = True

    def __init__(self, period: float | ArrayLike = 2 * math.pi) -> None:
        self.period = period

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> ColumnPoints:
        """Validate angles and wrap them to half a period on either side of 0; the input is copied."""
        values = as_float_array(X, dtype)
        period = self._periods(values.shape[1])
        columns = np.empty((values.shape[1], values.shape[0]), dtype=values.dtype)
        kernels.wrap_to_columns(np.ascontiguousarray(values), period, columns)
        return ColumnPoints(columns)

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d²(a[i], b[j]) for i in ``rows``, j in ``cols`` to ``out``."""
        left, right = cast(ColumnPoints, a).columns, cast(ColumnPoints, b).columns
        period = np.empty(len(left), dtype=left.dtype)
        period[:] = self.period
        kernels.squared_periodic(left, rows.start, rows.stop, right, cols.start, cols.stop, period, out)

    def one_row(self, landmarks: Points, row: NDArray[Any]) -> OneRow | None:
        """Return a way to wrap one point, in memory of its own, and measure it."""
        if type(self) is not Periodic:
            return None  # who inherits this may prepare or measure otherwise
        n_features = cast(ColumnPoints, landmarks).n_features
        column = np.empty((n_features, 1), landmarks.dtype)
        wrap, periods = kernels.wrap_to_columns, self._periods(n_features)
        return self._column_row(landmarks, row, column, (1, n_features), lambda X: wrap(X, periods, column))

    def _column_row(
        self,
        landmarks: Points,
        row: Array,
        column: Array,
        shape: tuple[int, ...],
        write: Callable[..., bool | None],
    ) -> OneRow:
        """Return a way to measure points of a shape, whose features ``write`` puts into a column, or returns False."""
        b, settings = cast(ColumnPoints, landmarks).columns, self.period
        period = np.empty(len(b), b.dtype)
        period[:] = settings
        measure, both = kernels.squared_periodic, (column, 0, 1, b, 0, len(landmarks), period, row)
        ndarray, first_square, infinity = np.ndarray, row.item, math.inf

        def fill(X: NDArray[Any]) -> bool:
            if type(X) is not ndarray or X.shape != shape or self.period is not settings:
                return False
            try:
                if write(X) is False:
                    return False
            except TypeError:
                return False  # of another type, or not contiguous
            measure(*both)
            return bool(first_square(0) < infinity)  # what is not finite shows in every d²

        return fill

    def squares_gradient(self, landmarks: Points) -> SquaresGradient:
        """Return an object that sums up gradients of d² to these landmarks."""
        return vector_gradient(landmarks, self._periods(cast(ColumnPoints, landmarks).n_features))

    def places(self, points: Points) -> Places:
        """Return the wrapped points as rows."""
        values = cast(ColumnPoints, points).values.astype(np.float64)
        return Places(values, np.ones(values.shape[1]))

    def parameters(self) -> dict[str, Any]:
        """Return the period."""
        return {"period": float(self.period) if np.ndim(self.period) == 0 else np.asarray(self.period)}  # type: ignore[arg-type]

    def _periods(self, n_features: int) -> NDArray[np.float64]:
        if type(self.period) is float and 1 / LARGEST <= self.period <= LARGEST:
            return np.full(n_features, self.period)  # the usual case, made short for one streamed point
        try:
            period = np.asarray(self.period, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"period must be a number or one number per feature, got {self.period!r}"
            ) from error
        if period.ndim > 1 or (period.ndim == 1 and period.shape[0] != n_features):
            raise InvalidInputError(
                f"period must be one number or one for each of the {n_features} features, "
                f"got shape {period.shape}"
            )
        if not ((period >= 1 / LARGEST).all() and (period <= LARGEST).all()):
            raise InvalidInputError(
                f"period must be positive, at least {1 / LARGEST:g} and at most {LARGEST:g}, or squares overflow; got "
                f"{self.period!r}"
            )
        return np.full(n_features, period)
