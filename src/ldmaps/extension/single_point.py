"""The online step for one point at a time, where Python around the kernels takes longer than they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import SCANNED_LANDMARKS
from ldmaps.metrics.base import Metric, OneRow, Points

#: Takes one point, an array whose first axis has length 1; returns its coordinates, (1, k), or None.
QuickPoint = Callable[[NDArray[Any]], NDArray[Any] | None]


def quick_point(
    metric: Metric,
    landmarks: Points,
    bandwidth: float,
    weights: NDArray[Any],
    coefficients: NDArray[Any],
) -> QuickPoint:
    """Return a function that embeds one point with the same bits as :func:`~ldmaps.diffusion.pairwise.extend`."""
    # All that does not depend on the point is looked up here. The function returns None for a point that must be
    # prepared first: it needs a conversion or an explanation, or its metric knows no quick way. Any number of threads
    # may call it at once.
    dtype, n_landmarks, empty = landmarks.dtype, len(landmarks), np.empty

    def new_calls() -> tuple[OneRow, Callable[[], None], Callable[[], NDArray[Any]]] | None:
        """Return how to measure a point, to embed what was measured and to copy that, with memory of their own."""
        squared, coordinates = empty((1, n_landmarks), dtype), empty((1, len(coefficients)), dtype)
        fill_row = metric.one_row(landmarks, squared)
        if fill_row is None:
            return None
        project = kernels.extend.hold(
            squared=squared,
            rate=dtype.type(0.5 / bandwidth),
            weights=weights,
            coefficients=coefficients,
            coordinates=coordinates,
            nearest=empty(1, np.intp),
            lowest=empty(1, dtype),
        )
        return fill_row, project, coordinates.copy

    first = new_calls() if n_landmarks < SCANNED_LANDMARKS else None
    if first is None:
        return _never
    # What no call is using. A call takes one or makes one, and puts it back; both are atomic.
    idle: list[Any] = [first]

    def embed(X: NDArray[Any]) -> NDArray[Any] | None:
        try:
            calls = idle.pop()
        except IndexError:
            calls = new_calls()
        if calls is None:
            return None
        fill_row, project, copied = calls
        rows: NDArray[Any] | None = None
        if fill_row(X):
            project()
            rows = copied()
        idle.append(calls)
        return rows

    return embed


def _never(X: NDArray[Any]) -> None:
    return None
