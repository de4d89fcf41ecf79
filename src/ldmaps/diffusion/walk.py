"""The random walk that a map is made of: its points, and the settings that decide where it goes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldmaps.metrics.base import Metric, Points

__all__ = ["Walk"]


@dataclass(frozen=True)
class Walk:
    """Training points and the settings of the walk over them.

    Attributes
    ----------
    metric : Metric
    points : Points
        The N training points, prepared; all of positive weight.
    weights : ndarray of shape (N,)
        Their multiplicities.
    epsilon : float
        Bandwidth of the kernel.
    alpha : float
        Density normalisation.
    time : float
        Diffusion time t: coordinates are λᵗψ.
    n_threads : int or None
    leaves_out : bool
        Whether small groups of points that lie apart are to be left out of the walk.
    """

    metric: Metric
    points: Points
    weights: NDArray[np.float64]
    epsilon: float
    alpha: float = 0.0
    time: float = 0.0
    n_threads: int | None = None
    leaves_out: bool = False

    def take(self, indices: NDArray[np.intp]) -> Walk:
        """Return the walk over some of the points."""
        return replace(self, points=self.points.take(indices), weights=self.weights[indices])
