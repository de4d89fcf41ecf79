"""Landmarks by farthest-point traversal."""

from __future__ import annotations

import numpy as np

from ldmaps.costs import Cost, DataSize
from ldmaps.diffusion.pairwise import squared_row
from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, assign, assignment_cost, check_n_landmarks

__all__ = ["FarthestPoint"]


class FarthestPoint(LandmarkSelector):
    """Start at a random point, then always take the point farthest from all landmarks so far.

    Covers the data evenly whatever the density, within twice the best possible
    radius (Gonzalez, Theor. Comput. Sci. 38, 293 (1985)); sensitive to outliers.

    Parameters
    ----------
    n_landmarks : int, optional
        How many; left out, the estimator's ``n_landmarks`` holds.
    """

    name = "farthest"

    def __init__(self, n_landmarks: int | None = None) -> None:
        self.n_landmarks = n_landmarks

    def select(self, walk: Walk, rng: np.random.Generator) -> Landmarks:
        """Choose landmarks; see :class:`~ldmaps.landmarks.base.LandmarkSelector`."""
        points = walk.points
        count = check_n_landmarks(self.n_landmarks, len(points))
        indices = np.empty(count, dtype=np.intp)
        row = np.empty((1, len(points)), dtype=points.dtype)
        lowest = np.full(len(points), np.inf, dtype=points.dtype)
        newest = int(rng.integers(len(points)))
        for place in range(count):
            indices[place] = newest
            np.minimum(lowest, squared_row(walk.metric, points, newest, points, row), out=lowest)
            lowest[
                newest
            ] = -1.0  # below any distance: duplicates of a landmark come before a second turn of its own
            newest = int(np.argmax(lowest))
        return assign(walk, np.sort(indices))

    def cost(self, data: DataSize, n_landmarks: int) -> Cost:
        """Return what choosing takes: a row of distances for each landmark, then the assignment."""
        n = float(data.n_points)
        traversal = Cost(row_distances=n * n_landmarks, rows=n_landmarks)
        # The last row and the lowest so far stay until the end.
        return (traversal + assignment_cost(data, n_landmarks)).holding(2 * n * data.itemsize)
