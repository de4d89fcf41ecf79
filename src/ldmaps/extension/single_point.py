"""The online step for one point at a time, where Python around the kernels takes longer than they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import SCANNED_LANDMARKS
from ldmaps.metrics.base import Metric, OneRow, Points

__all__ = ["QuickPoint", "quick_point"]

#: Takes one point, an array whose first axis has length 1; returns its coordinates, (1, k), or None.
QuickPoint = Callable[[NDArray[Any]], NDArray[Any] | None]


def quick_point(
    metric: Metric,
    landmarks: Points,
    bandwidth: float,
    weights: NDArray[Any],
    coefficients: NDArray[Any],
) -> QuickPoint:
    """Return a function that embeds one point with the same bits as :func:`~ldmaps.diffusion.pairwise.extend`.

    All that does not depend on the point is looked up here. The function returns None for
    a point that must be prepared first: it needs a conversion or an explanation, or its
    metric knows no quick way. Any number of threads may call it at once.

    Parameters
    ----------
    metric, landmarks, bandwidth, weights, coefficients
        Of the map, as for :func:`~ldmaps.diffusion.pairwise.extend`.
    """
    dtype, n_landmarks, shape = landmarks.dtype, len(landmarks), (1, len(coefficients))
    first_row = metric.one_row(landmarks) if n_landmarks < SCANNED_LANDMARKS else None
    if first_row is None:
        return _never
    rate, project, empty = dtype.type(0.5 / bandwidth), kernels.extend, np.empty

    def scratch_for(fill_row: OneRow | None) -> tuple[Any, NDArray[Any], NDArray[np.intp], NDArray[Any]]:
        return fill_row, empty((1, n_landmarks), dtype), empty(1, np.intp), empty(1, dtype)

    # What no call is using. A call takes one or makes one, and puts it back; both are atomic.
    idle = [scratch_for(first_row)]

    def embed(X: NDArray[Any]) -> NDArray[Any] | None:
        try:
            scratch = idle.pop()
        except IndexError:
            scratch = scratch_for(metric.one_row(landmarks))
        fill_row, squared, nearest, lowest = scratch
        coordinates: NDArray[Any] | None = None
        if fill_row(X, squared):
            coordinates = empty(shape, dtype)
            project(squared, rate, weights, coefficients, coordinates, nearest, lowest)
        idle.append(scratch)
        return coordinates

    return embed


def _never(X: NDArray[Any]) -> None:
    return None
