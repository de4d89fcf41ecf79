"""Distance between periodic coordinates such as dihedral angles."""

from __future__ import annotations

import math
import sys
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import LARGEST, Array, DirectStep, Metric, Places, Points, SquaresGradient
from ldmaps.metrics.euclidean import ColumnPoints, vector_gradient
from ldmaps.point_faults import as_float_array


class Periodic(Metric):
    """Euclidean distance on a torus: d² = Σ_k t_k², where t_k is the difference taken the shorter way round.

    Parameters
    ----------
    period : float or array-like of shape (features,), default 2π
        Length after which a coordinate repeats: 2π for radians, 360 for degrees, one value for all features or one
        each. Angles may lie anywhere; they need not be wrapped.

    See Also
    --------
    StandardizedEuclidean : columns of different units.
    Features : dihedrals of frames.

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

    def direct_step(
        self, landmarks: Points, rate: float, weights: Array, coefficients: Array
    ) -> DirectStep | None:
        """Return a way to embed angles as they come."""
        if type(self) is not Periodic:
            return None  # who inherits this may prepare or measure otherwise
        b, settings = cast(ColumnPoints, landmarks), self.period
        left = np.ones(b.n_features), self._periods(b.n_features), sys.float_info.max, b.columns
        step = rate, weights, coefficients

        def embed(X: Array, coordinates: Array, nearest: NDArray[np.intp], lowest: Array) -> bool:
            is_as_made = self.period is settings
            return is_as_made and kernels.embed_periodic(X, *left, *step, coordinates, nearest, lowest)

        def measure(X: Array, squared: Array) -> bool:
            return self.period is settings and kernels.periodic_squares(X, *left, squared)

        return DirectStep((b.n_features,), embed, measure)

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
