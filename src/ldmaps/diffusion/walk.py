"""The random walk that a map is made of: its points, and the settings that decide where it goes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldmaps.metrics.base import Metric, Points


@dataclass(frozen=True)
class Walk:
    """Training points and the settings of the walk over them."""

    metric: Metric
    points: Points  # the N training points, prepared; all of positive weight
    weights: NDArray[np.float64]  # (N,): their multiplicities
    epsilon: float  # bandwidth of the kernel
    alpha: float = 0.0  # density normalisation
    time: float = 0.0  # diffusion time t: coordinates are λᵗψ
    n_threads: int | None = None
    leaves_out: bool = False  # whether small groups of points that lie apart are to be left out of the walk
    is_connected: bool = False  # whether it is known already that the walk reaches all points

    def take(self, indices: NDArray[np.intp]) -> Walk:
        """Return the walk over some of the points."""
        return replace(
            self, points=self.points.take(indices), weights=self.weights[indices], is_connected=False
        )
