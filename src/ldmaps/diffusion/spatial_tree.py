"""Neighbourhoods from a spatial tree instead of all N² distances: Euclidean distance of few features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.metrics.base import Metric, Points

#: Above this a tree visits most of the points, and plain rows of distances are quicker.
MAX_FEATURES = 8
#: Below this rows of distances are quicker than building a tree.
MIN_POINTS = 4096


def raw_values(metric: Metric, points: Points) -> NDArray[Any] | None:
    """Return the features as (n, features) where a tree pays, else None."""
    values: NDArray[Any] | None = getattr(points, "values", None) if metric.is_euclidean else None
    if values is None or len(points) < MIN_POINTS or values.shape[1] > MAX_FEATURES:
        return None
    return np.ascontiguousarray(values, dtype=np.float64)


def neighbour_finder(values: NDArray[Any], radius: float) -> Callable[[int], NDArray[np.intp]]:
    """Return a function from a point's index to the indices of all points within ``radius``, itself included."""
    tree = scipy.spatial.cKDTree(values)

    def find(index: int) -> NDArray[np.intp]:
        return np.asarray(tree.query_ball_point(values[index], radius), dtype=np.intp)

    return find


def near_rows(
    values: NDArray[Any], cutoff: float, dtype: np.dtype[Any]
) -> Callable[[slice], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Return a function from rows to their near pairs, d² ≤ cutoff: how many per row, columns, and d²."""
    tree = scipy.spatial.cKDTree(values)
    radius = float(np.sqrt(cutoff))

    def find(rows: slice) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        own = scipy.spatial.cKDTree(values[rows])
        near = own.sparse_distance_matrix(tree, radius, output_type="coo_matrix").tocsr()
        return np.diff(near.indptr), near.indices, (near.data**2).astype(dtype)

    return find
