"""Any Python function as a metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.euclidean import RowPoints
from ldmaps.point_faults import as_float_array


class Function(Metric):
    """A distance given by a Python function, called once per pair.

    Parameters
    ----------
    function : callable
        Takes two rows (1-D, read-only arrays) and returns their distance, a finite real number not below 0. It should
        be symmetric, and 0 for identical points; that is not checked. It must be safe to call from several threads.

    Notes
    -----
    A call costs about a microsecond where a built-in metric needs a nanosecond. Model files hold only the function's
    name: pass it again to ``ldmaps.load``.

    Examples
    --------
    >>> from ldmaps.metrics import Function
    >>> def manhattan(x, y):
    ...     return abs(x - y).sum()
    >>> Function(manhattan).pairwise([[0.0, 0.0]], [[1.0, 2.0]])
    array([[3.]])
    """

    name = "function"
    is_true_metric = False
    is_slow = True
    fits_into_file = False

    def __init__(self, function: Callable[[NDArray[Any], NDArray[Any]], float]) -> None:
        self.function = function

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> RowPoints:
        """Validate points; the input is copied."""
        if not callable(self.function):
            raise InvalidInputError(f"function must be callable as f(x, y), got {self.function!r}")
        return RowPoints(np.array(as_float_array(X, dtype), order="C"))

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d²(a[i], b[j]) for i in ``rows``, j in ``cols`` to ``out``."""
        left, right = cast(RowPoints, a).values[rows], cast(RowPoints, b).values[cols]
        # Read-only views: a function that changed its arguments would change the data for all later pairs.
        left.flags.writeable = False
        right.flags.writeable = False
        largest = float(np.finfo(out.dtype).max) ** 0.5
        for i, x in enumerate(left):
            for j, y in enumerate(right):
                value = self.function(x, y)
                try:
                    distance = float(value)
                except (TypeError, ValueError):
                    self._refuse(value, rows.start + i, cols.start + j)
                if not 0 <= distance <= largest:
                    self._refuse(value, rows.start + i, cols.start + j)
                out[i, j] = distance * distance

    def parameters(self) -> dict[str, Any]:
        """Return the function's name, ``"module:qualname"``."""
        return {"reference": _reference(self.function)}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """Refuse: code is not part of a model file."""
        raise InvalidInputError(
            f"the model's metric is the function {parameters.get('reference', 'of an unknown name')}, "
            "and a model file holds no code; pass the function again: ldmaps.load(path, metric=function)"
        )

    def _refuse(self, value: object, i: int, j: int) -> NoReturn:
        raise InvalidInputError(
            f"{_reference(self.function)} must return a finite distance of at least 0, "
            f"but for points {i} and {j} (counted from 0, left and right) it returned {value!r}"
        )


def _reference(function: object) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{getattr(named, '__qualname__', repr(function))}"
