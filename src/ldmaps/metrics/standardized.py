"""Euclidean distance of columns that are brought to one scale first: pascals beside litres per minute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Array, DirectStep, Places, Points, SquaresGradient
from ldmaps.metrics.euclidean import ColumnPoints, Euclidean, RowPoints
from ldmaps.point_faults import as_float_array, check_stored_names, stored_array

#: Rules by which a fit finds the scales.
SCALES = ("standard", "robust")
#: Quartiles of a normal distribution are so many standard deviations apart.
_QUARTILES_APART = 1.3489795003921634


class StandardizedEuclidean(Euclidean):
    """d² = Σ_k ((x_k − y_k)/s_k)²: differences of each feature in units of how much it varies.

    Parameters
    ----------
    scale : {"standard", "robust"} or array-like of shape (features,), default "standard"
        s_k. "standard": the standard deviation over the training points, each counted with its weight. "robust": the
        distance of the quartiles, as a normal distribution has it (times 0.741), which outliers do not change, and the
        standard deviation where more than half of the values are equal. Numbers, positive, are taken as they are.
        Infinity leaves a feature out of the distance, as is done with one that never varies.

    See Also
    --------
    Euclidean : columns as they are.
    Periodic : angles.

    Examples
    --------
    >>> from ldmaps.metrics import StandardizedEuclidean
    >>> StandardizedEuclidean([100.0, 0.5]).pairwise([[101300.0, 1.0]], [[101600.0, 3.0]])
    array([[5.]])
    """

    name = "standardized"
    has_units = False

    def __init__(self, scale: str | ArrayLike = "standard") -> None:
        self.scale = scale

    def learned(self, X: NDArray[Any], weights: NDArray[np.float64], lags: int = 1) -> Self:
        """Return the metric with the scales of training points; a column has one scale at all lags."""
        if not isinstance(self.scale, str):
            one_row = lags > 1 and np.shape(self.scale) == (X.shape[1] // lags,)
            return type(self)(np.tile(np.asarray(self.scale, np.float64), lags)) if one_row else self
        if self.scale not in SCALES:
            raise InvalidInputError(
                f"scale must be {' or '.join(map(repr, SCALES))} or a number per feature, got {self.scale!r}"
            )
        X, weights = X.reshape(lags * len(X), -1), np.repeat(weights, lags)
        shares = weights / weights.sum()
        deviations = np.sqrt(shares @ (X - shares @ X.astype(np.float64)) ** 2)
        least = least_range(X)
        scale = np.where(np.ptp(X, axis=0) > least, deviations, math.inf)
        if self.scale == "robust":
            apart = _quantiles(X, shares, 0.75) - _quantiles(X, shares, 0.25)
            scale = np.where(apart > least, apart / _QUARTILES_APART, scale)
        return type(self)(np.tile(scale, lags))

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> ColumnPoints | RowPoints:
        """Validate points, divide them by the scales, and lay them out for speed."""
        values = as_float_array(X, dtype)
        return super().prepare((values * self._factors(values.shape[1])).astype(values.dtype, copy=False))

    def direct_step(
        self, landmarks: Points, rate: float, weights: Array, coefficients: Array
    ) -> DirectStep | None:
        """Return a way to embed rows as they come, in their own units."""
        if type(self) is not StandardizedEuclidean:
            return None  # who inherits this may prepare or measure otherwise
        scale, factors = self.scale, self._factors(cast(RowPoints, landmarks).n_features)
        return self._row_step(landmarks, factors, (rate, weights, coefficients), lambda: self.scale is scale)

    def squares_gradient(self, landmarks: Points) -> SquaresGradient:
        """Return an object that sums up gradients of d² to these landmarks."""
        factors = self._factors(cast(RowPoints, landmarks).n_features)
        by_scaled = super().squares_gradient(landmarks)

        def add_up(X: Array, squared: Array, shares: Array, gradient: Array) -> None:
            by_scaled(X * factors, squared, shares, gradient)  # ∂d²/∂x_k = 2 (x_k − z_k)/s_k²
            gradient *= factors.astype(gradient.dtype)

        return add_up

    def places(self, points: Points) -> Places:
        """Return the points as rows, in their own units."""
        values = cast(RowPoints, points).values.astype(np.float64)
        factors = self._factors(values.shape[1])
        return Places(np.divide(values, factors, out=np.zeros_like(values), where=factors > 0), factors)

    def parameters(self) -> dict[str, Any]:
        """Return the scales, or the rule."""
        return {"scale": self.scale if isinstance(self.scale, str) else np.asarray(self.scale, np.float64)}

    def import_points(self, arrays: Mapping[str, NDArray[Any]]) -> ColumnPoints | RowPoints:
        """Rebuild points from rows, which are divided already."""
        check_stored_names(arrays, ("values",))
        return super().prepare(stored_array(arrays, "values", (None, None)))

    def _factors(self, n_features: int) -> NDArray[np.float64]:
        """Return 1/s_k, or raise."""
        if isinstance(self.scale, str):
            raise InvalidInputError(
                f"the scales of {self!r} are found when a map is fitted to an array in memory or to a table; here give "
                "a number per feature, StandardizedEuclidean([...]), or --scale none"
            )
        try:
            scale = np.asarray(self.scale, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"scale must be one number per feature, got {self.scale!r}") from error
        if scale.shape != (n_features,) or not (scale > 0).all():
            raise InvalidInputError(
                f"scale must be a positive number for each of the {n_features} features, got {self.scale!r}"
            )
        return np.asarray(1.0 / scale)


def least_range(X: NDArray[Any]) -> NDArray[np.float64]:
    """Return by how much each column must vary not to be constant: numbers like 101300.1 may differ by rounding."""
    return np.asarray(4 * np.finfo(X.dtype).eps * np.abs(X).max(axis=0).astype(np.float64))


def _quantiles(X: NDArray[Any], shares: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """Return the smallest value of each column that at least this share of the points does not exceed."""
    order = np.argsort(X, axis=0, kind="stable")
    below = np.cumsum(shares[order], axis=0)
    first = (below < level * (1 - 1e-12)).sum(axis=0)
    found = np.take_along_axis(X, np.take_along_axis(order, first[None], axis=0), axis=0)
    return np.asarray(found[0], np.float64)
