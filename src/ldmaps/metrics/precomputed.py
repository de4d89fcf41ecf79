"""Distances that were computed already: by the user, or by ourselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Metric, Points
from ldmaps.point_faults import as_float_array, check_stored_names, stored_array

#: How far d² may be from symmetric, or from 0 on the diagonal, relative to the largest d². On squares,
#: because the rounding of single-precision programs is even there and grows without bound in d near 0.
SQUARED_TOLERANCE = 1e-5
_CHECKED_ROWS = 256


@dataclass(eq=False)
class PrecomputedPoints(Points):
    """Rows of a distance matrix, and the columns that stand for the same points."""

    matrix: (
        NDArray[Any] | None
    )  # (any, columns), shared; None from a model file: for the right-hand side only
    row_ids: NDArray[np.intp]  # (n,)
    ids: (
        NDArray[np.intp] | None
    )  # (n,), columns; None for new points, which have none: for the left-hand side only
    n_training: int  # points that the columns were made for
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return len(self.row_ids)

    def take(self, indices: NDArray[np.intp] | slice) -> Self:
        """Return the points at ``indices``, in that order; the distances are shared, not copied."""
        ids = None if self.ids is None else self.ids[indices].copy()
        return type(self)(self.matrix, self.row_ids[indices].copy(), ids, self.n_training, self.dtype)

    def __getstate__(self) -> dict[str, Any]:
        # A few landmarks must not drag the distances of all points into a pickle.
        state = self.__dict__.copy()
        if self.matrix is not None:
            state["matrix"] = self.matrix[self.row_ids]
            state["row_ids"] = np.arange(len(self))
        return state


class Precomputed(Metric):
    """Distances looked up in a matrix instead of computed.

    For ``fit`` the points are a square, symmetric matrix of distances (not squared) with a zero diagonal. For new
    points they are a matrix with one row per new point and either one column per training point, in the order of
    ``fit``, or one column per landmark, in the order of the landmarks. (If there are as many landmarks as training
    points, columns are training points.)

    The matrix is not copied unless its type must change; leave it alone while in use.

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps.metrics import Precomputed
    >>> distances = np.array([[0.0, 5.0], [5.0, 0.0]])
    >>> Precomputed().pairwise(distances)
    array([[0., 5.],
           [5., 0.]])
    """

    name = "precomputed"
    #: What the matrix holds, in messages.
    looked_up: ClassVar[str] = "distances"
    takes_distances = True
    is_true_metric = False

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> PrecomputedPoints:
        """Validate distances."""
        matrix = as_float_array(X, dtype)
        if matrix.min() < 0:
            row, column = np.argwhere(matrix < 0)[0]
            raise InvalidInputError(
                f"distances must not be negative, but the one at ({row}, {column}) is "
                f"{matrix[row, column]:.6g}; similarities must be turned into distances first"
            )
        limit = np.sqrt(np.finfo(matrix.dtype).max)
        if matrix.max() > limit:
            raise InvalidInputError(
                f"distances up to {matrix.max():.3g} are too large: their squares overflow {matrix.dtype}; "
                "rescale them"
            )
        n_rows, n_columns = matrix.shape
        rows = np.arange(n_rows)
        return PrecomputedPoints(matrix, rows, rows if n_rows == n_columns else None, n_columns, matrix.dtype)

    def check_training(self, points: Points) -> None:
        """Raise :class:`InvalidInputError` unless the points are a distance matrix that can be fitted."""
        matrix = self.training_matrix(points)
        tolerance = SQUARED_TOLERANCE * float(matrix.max()) ** 2
        diagonal = np.square(matrix.diagonal(), dtype=np.float64)
        if diagonal.max() > tolerance:
            worst = int(diagonal.argmax())
            raise InvalidInputError(
                f"the distance of a point to itself must be 0, but entry ({worst}, {worst}) is "
                f"{matrix[worst, worst]:.6g}; similarities must be turned into distances first"
            )
        for start in range(0, len(matrix), _CHECKED_ROWS):
            rows = slice(start, start + _CHECKED_ROWS)
            above = np.square(matrix[rows, start:], dtype=np.float64)
            gap = np.abs(above - np.square(matrix[start:, rows].T, dtype=np.float64))
            if gap.max() > tolerance:
                row, column = (int(k) + start for k in np.unravel_index(gap.argmax(), gap.shape))
                raise InvalidInputError(
                    f"distances must be symmetric, but ({row}, {column}) is {matrix[row, column]:.6g} and "
                    f"({column}, {row}) is {matrix[column, row]:.6g}; "
                    "use (D + D.T) / 2 if the difference is noise"
                )

    def training_matrix(self, points: Points) -> NDArray[Any]:
        """Return the matrix of ``points``, or raise if it is not one between all points."""
        points = cast(PrecomputedPoints, points)
        matrix = points.matrix
        if matrix is None or points.ids is None or len(points) != points.n_training:
            shape = "none" if matrix is None else f"shape {matrix[points.row_ids].shape}"
            raise InvalidInputError(
                f"fit needs the square matrix of {self.looked_up} between all points, got {shape}"
            )
        if not np.array_equal(points.row_ids, points.ids):
            raise InvalidInputError(
                f"fit needs the rows of the matrix of {self.looked_up} in the order of its columns"
            )
        return matrix

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d²(a[i], b[j]) for i in ``rows``, j in ``cols`` to ``out``."""
        a, b = cast(PrecomputedPoints, a), cast(PrecomputedPoints, b)
        ids = cast(NDArray[np.intp], b.ids)[cols]
        columns = ids if a.n_training == b.n_training else np.arange(cols.start, cols.stop)
        _look_up(cast(NDArray[Any], a.matrix), a.row_ids[rows], columns, out)
        np.square(out, out=out)

    def made_up(self, n_points: int, n_features: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return distances between so many points."""
        half = np.triu(rng.uniform(1.0, 2.0, (n_points, n_points)), 1)
        return np.asarray(half + half.T)

    def check_compatible(self, a: Points, b: Points) -> None:
        """Raise :class:`InvalidInputError` when ``a`` holds no distances to the points ``b``."""
        a, b = cast(PrecomputedPoints, a), cast(PrecomputedPoints, b)
        if b.ids is None:
            raise InvalidInputError(
                "distances to these points are not known: they are rows of a matrix that is not square, "
                "whose columns are other points"
            )
        if a.matrix is None:
            raise InvalidInputError(
                "points from a model file hold no distances and cannot be compared themselves"
            )
        if a.n_training not in (b.n_training, len(b)):
            landmarks = "" if len(b) == b.n_training else f", or only the {len(b)} landmarks,"
            raise InvalidInputError(
                f"a precomputed matrix must have one column for each of the {b.n_training} training points"
                f"{landmarks} in their order, got {a.n_training} columns"
            )

    def export_points(self, points: Points) -> dict[str, NDArray[Any]]:
        """Return which training points these are, not their distances."""
        points = cast(PrecomputedPoints, points)
        if points.ids is None:
            raise InvalidInputError("new points are not training points and cannot be part of a model file")
        return {
            "ids": points.ids.astype(np.int64),
            "n_training": np.array(points.n_training, dtype=np.int64),
            "precision": np.zeros(0, dtype=points.dtype),
        }

    def joined(self, first: Points, second: Points) -> PrecomputedPoints:
        """Return the training points of both, those of ``second`` last, for the right-hand side."""
        arrays = self.export_points(first)
        ids = np.concatenate([arrays["ids"], self.export_points(second)["ids"]])
        return self.import_points({**arrays, "ids": ids})

    def import_points(self, arrays: Mapping[str, NDArray[Any]]) -> PrecomputedPoints:
        """Rebuild points for the right-hand side."""
        check_stored_names(arrays, ("ids", "n_training", "precision"))
        ids = stored_array(arrays, "ids", (None,), "i").astype(np.intp)
        n_training = int(stored_array(arrays, "n_training", (), "i"))
        if ids.size and not 0 <= ids.min() <= ids.max() < n_training:
            raise InvalidInputError(f"ids must be numbers of training points below {n_training}")
        precision = stored_array(arrays, "precision", (0,)).dtype
        return PrecomputedPoints(None, np.arange(len(ids)), ids, n_training, precision)


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
    """Looks up d² of ours, so that rules and selectors work on a kept matrix; in no table and no model file."""

    name = "stored"
    takes_distances = True
    is_true_metric = False

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> StoredPoints:
        """Wrap a symmetric matrix of squared distances."""
        return StoredPoints(np.asarray(X, dtype=dtype))

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Copy a block of the matrix."""
        a, b = cast(StoredPoints, a), cast(StoredPoints, b)
        _look_up(a.squared, a.ids[rows], b.ids[cols], out)


def _look_up(
    matrix: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp], out: NDArray[Any]
) -> None:
    for place, row in enumerate(rows):
        np.take(
            matrix[row], columns, out=out[place], mode="clip"
        )  # which spares numpy a buffer; ids are in range
