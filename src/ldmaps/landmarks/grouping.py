"""Putting landmarks in an order in which neighbours stand together.

The online step passes over whole blocks of landmarks that are too far from a
point to matter, so it pays to fill blocks with neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import squared_matrix
from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks.base import Landmarks

__all__ = ["group_neighbours", "neighbour_order"]


def neighbour_order(squared: NDArray[Any], block: int = kernels.BLOCK) -> NDArray[np.intp]:
    """Return an order in which every aligned run of ``block`` points is a group of neighbours."""
    # Points are halved again and again by which of two far ends they are nearer to, at multiples of
    # ``block``; any distance will do.
    done: list[NDArray[np.intp]] = []
    waiting = [np.arange(len(squared))]
    while waiting:
        points = waiting.pop()
        if len(points) <= block:
            done.append(points)
            continue
        first = points[np.argmax(squared[points[0], points])]
        second = points[np.argmax(squared[first, points])]
        order = points[np.argsort(squared[first, points] - squared[second, points], kind="stable")]
        half = max(1, round(len(points) / 2 / block)) * block
        waiting += [order[half:], order[:half]]
    return np.concatenate(done)


def group_neighbours(landmarks: Landmarks, walk: Walk) -> tuple[Landmarks, NDArray[Any] | None]:
    """Return the same landmarks with neighbours standing together, and the d² between them if that took them."""
    if len(landmarks.indices) <= kernels.BLOCK:
        return landmarks, None
    squared = squared_matrix(walk.metric, walk.points.take(landmarks.indices), n_threads=walk.n_threads)
    order = neighbour_order(squared)
    return landmarks.in_order(order), squared[np.ix_(order, order)]
