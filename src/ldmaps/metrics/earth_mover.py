"""Earth mover's distance between histograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError, LdmapsError
from ldmaps.metrics.base import LARGEST, Metric, Points
from ldmaps.metrics.euclidean import ColumnPoints, RowPoints
from ldmaps.point_faults import as_float_array, check_stored_names, stored_array

#: How far a ground distance may be from symmetric, relative to its largest entry.
_ASYMMETRY = 1e-8
#: How far shares of a file may be from adding up to 1.
ROUNDING = 1e-3


class EarthMover(Metric):
    """Least work that turns one histogram into another: mass moved times the distance it is moved.

    Each row is a histogram over the same bins: values are not negative, and are divided by their sum.

    Parameters
    ----------
    positions : array-like of shape (bins,), optional
        Strictly increasing positions of the bins on a line, by default 0, 1, 2, … The distance is then
        ``W₁ = Σ_k |F_k − G_k| (x_{k+1} − x_k)`` with F and G the cumulative histograms: a subtraction per bin.
    ground_distance : array-like of shape (bins, bins), optional
        Symmetric distances between bins that do not lie on a line. Each pair of histograms is then a transport
        problem, solved exactly by POT (``pip install POT``): thousands of times slower.

    Examples
    --------
    >>> from ldmaps.metrics import EarthMover
    >>> EarthMover().pairwise([[1, 0, 0]], [[0, 1, 0], [0, 2, 2]])
    array([[1. , 1.5]])
    """

    name = "earth_mover"

    def __init__(self, positions: ArrayLike | None = None, ground_distance: ArrayLike | None = None) -> None:
        self.positions = positions
        self.ground_distance = ground_distance

    @property
    def is_true_metric(self) -> bool:  # type: ignore[override]
        """Whether d obeys the triangle inequality: surely on a line; a ground distance need not."""
        return self.ground_distance is None

    @property
    def is_slow(self) -> bool:  # type: ignore[override]
        """Whether every pair is a transport problem: not on a line."""
        return self.ground_distance is not None

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> ColumnPoints | RowPoints:
        """Validate histograms, normalise them and, on a line, accumulate them; the input is copied."""
        # Contiguous: the order of memory decides the order of summation, and the solver insists.
        values = np.ascontiguousarray(as_float_array(X, dtype))
        mass = values.sum(axis=1, dtype=np.float64)
        if values.min() < 0:
            row, column = np.argwhere(values < 0)[0]
            raise InvalidInputError(
                "histograms must not be negative, "
                f"but bin {column} of row {row} holds {values[row, column]:.6g}"
            )
        if not (np.isfinite(mass).all() and mass.min() > 0):
            row = np.argwhere(~((mass > 0) & np.isfinite(mass)))[0, 0]
            raise InvalidInputError(
                f"each histogram must have a positive, finite total, but row {row} sums to {mass[row]:.6g}; "
                "leave such rows out"
            )
        share = values / mass[:, np.newaxis]
        bins = values.shape[1]
        if self.ground_distance is not None:
            self._ground(bins)
            return RowPoints(share.astype(values.dtype, copy=False))
        # |F_k − G_k| Δx_k = |F_k Δx_k − G_k Δx_k|: with the spacing multiplied in beforehand, a pair costs
        # one subtraction per bin. Both F and G end at 1, so the last bin says nothing.
        share.cumsum(axis=1, out=share)
        share[:, :-1] *= self._spacing(bins)
        share[:, -1] = 0.0
        return ColumnPoints(np.ascontiguousarray(share.T, dtype=values.dtype))

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d²(a[i], b[j]) for i in ``rows``, j in ``cols`` to ``out``."""
        if isinstance(a, ColumnPoints):
            right = cast(ColumnPoints, b).columns
            kernels.squared_cityblock(a.columns, rows.start, rows.stop, right, cols.start, cols.stop, out)
            return
        left_rows = _shares(cast(RowPoints, a).values[rows])
        right_rows = _shares(cast(RowPoints, b).values[cols])
        ground = self._ground(left_rows.shape[1])
        transport = _transport_solver()
        for i, x in enumerate(left_rows):
            for j, y in enumerate(right_rows):
                # The solver's zero is a rounding error, and its value may fall below.
                out[i, j] = 0.0 if np.array_equal(x, y) else max(0.0, transport(x, y, ground)) ** 2

    def parameters(self) -> dict[str, Any]:
        """Return positions and ground distance."""
        return {
            key: None if value is None else np.asarray(value)
            for key, value in (("positions", self.positions), ("ground_distance", self.ground_distance))
        }

    def import_points(self, arrays: Mapping[str, NDArray[Any]]) -> ColumnPoints | RowPoints:
        """Rebuild points from rows."""
        check_stored_names(arrays, ("values",))
        values = stored_array(arrays, "values", (None, None))
        if self.ground_distance is None:
            # Cumulative shares times the spacing, and nothing in the last bin.
            most = np.append(self._spacing(values.shape[1]), 0.0)
            fits = bool((values <= (1.0 + ROUNDING) * most).all())
        else:
            fits = bool((np.abs(values.sum(axis=1, dtype=np.float64) - 1.0) <= ROUNDING).all())
        if not fits or values.min() < 0:
            raise InvalidInputError("the stored histograms are not shares that add up to 1")
        return ColumnPoints(values.T.copy()) if self.ground_distance is None else RowPoints(values.copy())

    def _spacing(self, bins: int) -> NDArray[np.float64]:
        if self.positions is None:
            return np.ones(bins - 1)
        positions = _as_array(self.positions, "positions")
        if positions.shape != (bins,):
            raise InvalidInputError(
                f"positions must hold one number for each of the {bins} bins, got shape {positions.shape}"
            )
        spacing = np.diff(positions)
        if not (np.isfinite(positions).all() and (spacing > 0).all() and spacing.sum() <= LARGEST):
            raise InvalidInputError(
                f"positions must be finite, strictly increasing and at most {LARGEST:g} apart; sort the bins (and the "
                "columns of X alike)"
            )
        return spacing

    def _ground(self, bins: int) -> NDArray[np.float64]:
        if self.positions is not None:
            raise InvalidInputError("give positions or ground_distance, not both")
        ground = np.ascontiguousarray(_as_array(self.ground_distance, "ground_distance"))
        if ground.shape != (bins, bins):
            raise InvalidInputError(
                f"ground_distance must have shape ({bins}, {bins}) for {bins} bins, got {ground.shape}"
            )
        if not (np.isfinite(ground).all() and (ground >= 0).all() and ground.max() <= LARGEST):
            raise InvalidInputError(
                f"ground_distance must be finite, not negative and at most {LARGEST:g}, got up to {ground.max():.3g}"
            )
        if np.abs(ground - ground.T).max() > _ASYMMETRY * ground.max() or ground.diagonal().any():
            raise InvalidInputError(
                "ground_distance must be symmetric with a zero diagonal, "
                "or the distance between histograms would not be"
            )
        return ground


def _as_array(value: ArrayLike | None, name: str) -> NDArray[np.float64]:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be an array of numbers, got {type(value).__name__}") from error


def _shares(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return rows in float64 that sum to 1 as exactly as the solver asks for."""
    if values.dtype == np.float64:
        return values
    exact = values.astype(np.float64)
    exact /= exact.sum(axis=1, keepdims=True)
    return exact


@cache
def _transport_solver() -> Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], float]:
    try:
        from ot import emd2
    except ImportError as error:
        raise LdmapsError(
            "EarthMover with a ground_distance solves transport problems with POT, which is not installed; "
            "pip install POT"
        ) from error
    return cast("Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], float]", emd2)
