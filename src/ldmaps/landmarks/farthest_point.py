"""Landmarks by farthest-point traversal."""

from __future__ import annotations

import numpy as np

from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, PointsElsewhere, assign, check_n_landmarks
from ldmaps.landmarks.blocks import farthest_in_blocks, traverse


class FarthestPoint(LandmarkSelector):
    """Start at a random point, then always take the point farthest from all landmarks so far.

    Covers the data evenly whatever the density, within twice the best possible radius (Gonzalez, Theor. Comput. Sci.
    38, 293 (1985)); sensitive to outliers. Of points in blocks beyond one process, within 2.2 times; see
    :mod:`~ldmaps.landmarks.blocks`.

    Parameters
    ----------
    n_landmarks : int, optional
        How many; left out, the estimator's ``n_landmarks`` holds.
    """

    name = "farthest"
    covers_from_sample = True

    def __init__(self, n_landmarks: int | None = None) -> None:
        self.n_landmarks = n_landmarks

    def select(self, walk: Walk, rng: np.random.Generator) -> Landmarks:
        """Choose landmarks; see :class:`~ldmaps.landmarks.base.LandmarkSelector`."""
        count = check_n_landmarks(self.n_landmarks, len(walk.points))
        if isinstance(walk.points, PointsElsewhere):
            return assign(walk, np.sort(farthest_in_blocks(walk, walk.points, count, rng)))
        indices, _ = traverse(walk.metric, walk.points, count, int(rng.integers(len(walk.points))))
        return assign(walk, np.sort(indices))
