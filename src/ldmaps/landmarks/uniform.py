"""Landmarks drawn at random."""

from __future__ import annotations

import numpy as np

from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, assign, check_n_landmarks


class Uniform(LandmarkSelector):
    """Draw landmarks uniformly, without replacement: follows the density, and costs nothing.

    Parameters
    ----------
    n_landmarks : int, optional
        How many; left out, the estimator's ``n_landmarks`` holds.
    """

    name = "uniform"
    needs_all_points = False

    def __init__(self, n_landmarks: int | None = None) -> None:
        self.n_landmarks = n_landmarks

    def select(self, walk: Walk, rng: np.random.Generator) -> Landmarks:
        """Choose landmarks; see :class:`~ldmaps.landmarks.base.LandmarkSelector`."""
        count = check_n_landmarks(self.n_landmarks, len(walk.points))
        indices = np.sort(rng.choice(len(walk.points), count, replace=False))
        return assign(walk, indices)
