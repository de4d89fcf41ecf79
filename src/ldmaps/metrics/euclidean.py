"""Euclidean distance, and the two layouts in which points with features are kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import (
    Array,
    DirectStep,
    ExtensionScan,
    Metric,
    NearestScan,
    Places,
    Points,
    SquaresGradient,
)
from ldmaps.point_faults import as_float_array

#: Up to here direct differences over columns are as fast as a matrix product, exact, and independent of tiling.
MAX_COLUMN_FEATURES = 32
#: Blocks of landmarks are pruned by their bounding boxes where no more than this share of them is near a landmark,
#: as estimated from a sample. Above, blocks measured one by one take longer than all at once.
MAX_NEAR_SHARE, BOX_SAMPLE = 0.35, 256
#: Below so many rows a matrix product is slower than direct differences over rows.
MIN_PRODUCT_ROWS = 4
#: Wide rows are measured as they come from landmarks of up to so many bytes; of more, products of matrices read less.
MAX_DIRECT_BYTES = 1 << 22
#: A product's d² below this share of |x|² + |y|² is computed again by differences. With f features and
#: unit roundoff u the relative error of d² is then at most (f + 8) u / share.
CANCELLATION_SHARE = {np.dtype(np.float32): 2.0**-4, np.dtype(np.float64): 2.0**-10}
#: While the sum of all squares stays below this, neither a squared distance nor, after a shift to some
#: mean, |x|² + |y|² + 2 |x·y| can overflow.
_SAFE_SUM = {np.dtype(kind): float(np.finfo(kind).max) / 16 for kind in (np.float32, np.float64)}


class ColumnPoints(Points):
    """Points kept as feature columns, shape (features, n), so that loops over points run in SIMD."""

    def __init__(self, columns: NDArray[Any]) -> None:
        self.columns = columns
        self.dtype = columns.dtype
        self._boxes: dict[Any, tuple[NDArray[Any], NDArray[Any]] | None] = {}

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    def near_share(self, boxes: tuple[Array, Array], reach: Any) -> float:
        """Return which share of the boxes is within d² = ``reach`` of a point, on the average over a sample."""
        some = self.columns[:, :: max(1, len(self) // BOX_SAMPLE)].copy()
        bounds = np.empty((some.shape[1], boxes[0].shape[1]), dtype=self.dtype)
        kernels.squares_to_boxes(some, *boxes, bounds)
        return float((bounds <= reach).mean())

    def boxes_within(self, reach: Any) -> tuple[Array, Array] | None:
        """Return lowest and highest features of blocks of points; None where too many are within ``reach`` to pay."""
        # Found out at the first use. Threads may race to do so: all find the same, and the name is bound in one step.
        if reach not in self._boxes:
            starts = np.arange(0, len(self), kernels.BLOCK)
            lower, upper = (each.reduceat(self.columns, starts, axis=1) for each in (np.minimum, np.maximum))
            pays = self.near_share((lower, upper), reach) <= MAX_NEAR_SHARE
            self._boxes = {reach: (lower, upper) if pays else None}
        return self._boxes[reach]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_boxes": {}}  # cheaper to make again than to store

    @property
    def n_features(self) -> int:
        """Number of features of each point."""
        return int(self.columns.shape[0])

    @property
    def values(self) -> NDArray[Any]:
        """The points as rows, shape (n, features)."""
        return np.ascontiguousarray(self.columns.T)

    def take(self, indices: NDArray[np.intp] | slice) -> Self:
        """Return the points at ``indices``, in that order, as a copy."""
        if isinstance(indices, slice):
            return type(self)(self.columns[:, indices].copy())
        # Not columns[:, indices], whose result numpy lays out transposed.
        return type(self)(self.columns.take(indices, axis=1))


class RowPoints(Points):
    """Points kept as rows, shape (n, features), as matrix products and Python functions want them."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values
        self.dtype = values.dtype
        self._centred: tuple[NDArray[np.float64], NDArray[Any], NDArray[Any]] | None = None

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features of each point."""
        return int(self.values.shape[1])

    def take(self, indices: NDArray[np.intp] | slice) -> Self:
        """Return the points at ``indices``, in that order, as a copy."""
        return type(self)(self.values[indices].copy() if isinstance(indices, slice) else self.values[indices])

    def centred(self) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[Any]]:
        """Return the mean, the points minus it, and their squared norms."""
        # Made at the first use as the right-hand side. Threads may race to make it: all make the same, and
        # the name is bound in one step.
        if self._centred is None:
            origin = self.values.mean(axis=0, dtype=np.float64)
            self._centred = (origin, *centre(self.values, slice(0, len(self)), origin))
        return self._centred

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_centred": None}  # cheaper to make again than to store


def centre(
    values: NDArray[Any], rows: slice, origin: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ``values[rows] − origin``, subtracted in float64 and rounded once, and squared norms."""
    count = rows.stop - rows.start
    shifted = np.empty((count, values.shape[1]), dtype=values.dtype)
    norms = np.empty(count, dtype=values.dtype)
    kernels.centre_rows(values, rows.start, rows.stop, origin, shifted, norms)
    return shifted, norms


class Euclidean(Metric):
    """Euclidean distance between rows of features: d² = Σ_k (x_k − y_k)².

    Notes
    -----
    Up to 32 features differences are taken directly, and the value for a pair does not depend on how the work was cut.
    Beyond, ``d² = |x|² + |y|² − 2 x·y`` comes from a matrix product on points moved to the mean of the right-hand
    side, so that a common offset costs no digits; pairs whose terms nearly cancel are computed again by differences.
    Points that are embedded are compared with landmarks by differences, however many features there are, unless the
    landmarks take more than 4 MB, or are more than 64 on processors without AVX-512.
    Identical points are at distance exactly 0, d² is never negative, and its relative error is at most about
    (f + 8)·1.2e-13 for f features (float32: (f + 8)·1e-6), and usually far smaller.

    Examples
    --------
    >>> from ldmaps.metrics import Euclidean
    >>> Euclidean().pairwise([[0.0, 0.0], [3.0, 4.0]])
    array([[0., 5.],
           [5., 0.]])
    """

    name = "euclidean"
    is_euclidean = True
    has_units = True

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> ColumnPoints | RowPoints:
        """Validate points and lay them out for speed; the input is copied."""
        # Few points must not cost more to check than to embed: their extremes show that everything is finite. What
        # these cannot vouch for takes the slow way, which gives the reasons.
        X = as_float_array(X, dtype, finite=False)
        by_columns = X.shape[1] <= MAX_COLUMN_FEATURES
        kept = X.T.copy() if by_columns else X.copy()
        largest = max(abs(float(kept.min())), abs(float(kept.max())))
        # A power would raise where this is infinite.
        if not kept.size * (largest * largest) < _SAFE_SUM[kept.dtype]:
            _check_range(as_float_array(X))
        return ColumnPoints(kept) if by_columns else RowPoints(kept)

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d²(a[i], b[j]) for i in ``rows``, j in ``cols`` to ``out``."""
        if isinstance(a, ColumnPoints):
            right: NDArray[Any] = b.columns  # type: ignore[attr-defined]  # a cast takes a call
            kernels.squared_euclidean(a.columns, rows.start, rows.stop, right, cols.start, cols.stop, out)
            return
        a, b = cast(RowPoints, a), cast(RowPoints, b)
        if rows.stop - rows.start < MIN_PRODUCT_ROWS:
            kernels.squared_euclidean_rows(
                a.values, rows.start, rows.stop, b.values, cols.start, cols.stop, out
            )
            return
        origin, right, right_norms = b.centred()
        left, left_norms = centre(a.values, rows, origin)
        np.matmul(left, right[cols].T, out=out)
        share = out.dtype.type(CANCELLATION_SHARE[out.dtype])
        kernels.finish_gram(
            out, left_norms, right_norms[cols], share, a.values, rows.start, b.values, cols.start
        )

    def nearest_scan(self, a: Points, b: Points) -> NearestScan | None:
        """Return a search over points of up to three features that stores no distances."""
        if not isinstance(a, ColumnPoints) or a.n_features > kernels.MAX_SCANNED_FEATURES:
            return None
        left, right = a.columns, cast(ColumnPoints, b).columns

        def scan(rows: slice, index: NDArray[np.intp], squared: NDArray[Any]) -> None:
            kernels.nearest_euclidean(left, rows.start, rows.stop, right, index, squared)

        return scan

    def extension_scan(self, landmarks: Points, rate: Any) -> ExtensionScan | None:
        """Return a way to embed that skips blocks of landmarks whose boxes are too far to matter."""
        if not isinstance(landmarks, ColumnPoints):
            return None
        single = landmarks.dtype.itemsize == 4
        boxes = landmarks.boxes_within((kernels.NEGLIGIBLE32 if single else kernels.NEGLIGIBLE64) / rate)
        if boxes is None:
            return None
        columns, (lower, upper) = landmarks.columns, boxes

        def scan(points: Points, rows: slice, *rest: Array) -> None:
            left = cast(ColumnPoints, points).columns
            kernels.extend_euclidean(left, rows.start, rows.stop, columns, lower, upper, rate, *rest)

        return scan

    def direct_step(
        self, landmarks: Points, rate: float, weights: Array, coefficients: Array
    ) -> DirectStep | None:
        """Return a way to embed rows as they come, or None where matrix products are quicker."""
        if type(self) is not Euclidean:
            return None  # who inherits this may prepare or measure otherwise
        n_features = cast(RowPoints, landmarks).n_features
        return self._row_step(landmarks, np.ones(n_features), (rate, weights, coefficients), lambda: True)

    def _row_step(
        self,
        landmarks: Points,
        factors: NDArray[np.float64],
        step: tuple[float, Array, Array],
        is_as_made: Callable[[], bool],
    ) -> DirectStep | None:
        """Return a way to embed rows whose features are multiplied by ``factors``, while ``is_as_made``."""
        if isinstance(landmarks, RowPoints):
            # The library that multiplies has the widest registers of the processor whichever ours are.
            most = {"x86_64_v4": len(landmarks), "x86_64_v3": kernels.FEW}.get(kernels.INSTRUCTION_SET, 0)
            if len(landmarks) > most or landmarks.values.nbytes > MAX_DIRECT_BYTES:
                return None
        columns = np.ascontiguousarray(cast(RowPoints, landmarks).values.T)
        left = factors, _largest(columns.dtype, len(factors)), columns

        def embed(X: Array, coordinates: Array, nearest: NDArray[np.intp], lowest: Array) -> bool:
            return is_as_made() and kernels.embed_euclidean(X, *left, *step, coordinates, nearest, lowest)

        def measure(X: Array, squared: Array) -> bool:
            return is_as_made() and kernels.euclidean_squares(X, *left, squared)

        return DirectStep((len(factors),), embed, measure)

    def squares_gradient(self, landmarks: Points) -> SquaresGradient:
        """Return an object that sums up gradients of d² to these landmarks."""
        return vector_gradient(landmarks)

    def places(self, points: Points) -> Places:
        """Return the points as rows."""
        values = cast(RowPoints, points).values.astype(np.float64)
        return Places(values, np.ones(values.shape[1]))

    def group_distance_sums(
        self, points: Points, bounds: NDArray[np.intp], weights: Array, sums: Array
    ) -> None:
        """Write Σ_j w_j d(x_i, x_j) over each point's own group to ``sums``."""
        if isinstance(points, ColumnPoints):
            kernels.euclidean_group_sums(points.columns, bounds, weights, sums)
        else:
            super().group_distance_sums(points, bounds, weights, sums)


def vector_gradient(landmarks: Points, period: NDArray[np.float64] | None = None) -> SquaresGradient:
    """Return sums of ∂d²/∂x = 2(x − z_j) of rows, taken the shorter way round where they are periodic."""
    columns = np.ascontiguousarray(cast(RowPoints, landmarks).values.T, np.float64)
    periods = np.zeros(len(columns)) if period is None else period

    def add_up(X: Array, squared: Array, shares: Array, gradient: Array) -> None:
        if period is not None:
            X = X - period * np.rint(X / period)  # angles may be many periods away
        kernels.vector_gradients(columns, X, periods, shares, gradient)

    return add_up


def _largest(dtype: np.dtype[Any], n_features: int) -> float:
    """Return the largest value of a feature with which no squared distance overflows."""
    return math.sqrt(float(np.finfo(dtype).max) / n_features) / 4


def _check_range(X: NDArray[Any]) -> None:
    """Raise when a squared distance could overflow."""
    largest, limit = float(np.abs(X).max()), _largest(X.dtype, X.shape[1])
    if largest > limit:
        raise InvalidInputError(
            f"values up to {largest:.3g} are too large: their squared distances overflow {X.dtype}, "
            f"which allows up to {limit:.3g} here; rescale the points"
        )
