"""How far a point is from a share of the data: the distance within which landmarks stand for that many points.

The nearest landmark tells how far the nearest data are, also if these are a few points that should not be there. A
share of the data that is larger than theirs is never close to them. Distances are plain also where the map has local
scales, by which a point that is far from everything seems near.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import squared_tile
from ldmaps.extension.embedder import Embedder
from ldmaps.metrics.base import Points
from ldmaps.threads import resolve_threads, run_tiles, tile_rows

#: Multiplicities that add up to a share are a sum of rounded numbers.
_ROUNDING = 1e-9


def share_distances(
    embedder: Embedder,
    points: Points,
    multiplicities: NDArray[np.float64],
    share: float,
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Return the distances of points, in √ε, within which landmarks stand for a ``share`` of the training points.

    Parameters
    ----------
    embedder : Embedder
        Of the map.
    points : Points
        What ``embedder.prepare`` returned, n of them.
    multiplicities : ndarray of shape (M,)
        How many training points each landmark stands for.
    share : float
        From 0, which gives the distance to the nearest landmark, to 1.
    n_threads : int, optional
        By default as many as cores.
    """
    metric: Any = embedder.metric
    landmarks: Any = embedder.landmarks
    others: Any = points
    if metric.has_local_scales:
        metric, landmarks, others = metric.plain, landmarks.plain, others.plain
    n_landmarks = len(landmarks)
    enough = share * float(multiplicities.sum()) * (1.0 - _ROUNDING)
    found = np.empty(len(points))

    def work(rows: slice) -> None:
        squared = squared_tile(metric, others, rows, landmarks)
        order = np.argsort(squared, axis=1)
        covered = np.cumsum(multiplicities[order], axis=1)
        last = np.minimum((covered < enough).sum(axis=1), n_landmarks - 1)
        farthest = np.take_along_axis(order, last[:, None], axis=1)
        found[rows] = np.take_along_axis(squared, farthest, axis=1)[:, 0]

    tile = tile_rows(4 * n_landmarks, landmarks.dtype.itemsize)
    run_tiles(len(points), tile, work, resolve_threads(n_threads))
    return np.sqrt(np.maximum(found, 0.0) / embedder.epsilon)
