"""Landmarks drawn at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldmaps.landmarks.base import Landmarks, LandmarkSelector, assign, check_n_landmarks
from ldmaps.metrics.base import Metric, Points

__all__ = ["Uniform"]


class Uniform(LandmarkSelector):
    """Draw landmarks uniformly, without replacement: follows the density, and costs nothing.

    Parameters
    ----------
    n_landmarks : int, optional
        How many; left out, the estimator's ``n_landmarks`` holds.
    """

    name = "uniform"

    def __init__(self, n_landmarks: int | None = None) -> None:
        self.n_landmarks = n_landmarks

    def select(
        self,
        points: Points,
        metric: Metric,
        *,
        epsilon: float,
        weights: NDArray[np.float64],
        rng: np.random.Generator,
        n_threads: int | None = None,
    ) -> Landmarks:
        """Choose landmarks; see :class:`~ldmaps.landmarks.base.LandmarkSelector`."""
        count = check_n_landmarks(self.n_landmarks, len(points))
        indices = np.sort(rng.choice(len(points), count, replace=False))
        return assign(points, metric, indices, weights, n_threads)
