"""The online step and its gradient.

    y(x) = w(x)·B,   w_j ∝ s_j exp(−d_j²/(2h))      ∂y/∂x = Σ_j g_j ∂d_j²/∂x,   g_j = −(1/(2h)) w_j (B_j − y)

The values are those of :func:`ldmaps.diffusion.pairwise.extend`, bit for bit. The exponentials of the
gradient are shifted by the nearest landmark's d² as theirs are, so a point far from all landmarks has
a finite gradient too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import Extended
from ldmaps.metrics.base import Metric, Points, SquaresGradient
from ldmaps.threads import resolve_threads, run_tiles, tile_rows

__all__ = ["extend_with_gradient"]


def extend_with_gradient(
    metric: Metric,
    X: NDArray[np.float64],
    points: Points,
    landmarks: Points,
    squares_gradient: SquaresGradient,
    bandwidth: float,
    weights: NDArray[Any],
    coefficients: NDArray[Any],
    n_threads: int | None = 1,
) -> tuple[Extended, NDArray[Any]]:
    """Embed points and return ∂y/∂x of shape (n, k, features) as well; trusts its input."""
    k, dtype, rate = len(coefficients), points.dtype, points.dtype.type(0.5 / bandwidth)
    result = Extended(len(points), k, dtype)
    gradient = np.empty((len(X), k, X.shape[1]), dtype)
    columns = slice(0, len(landmarks))

    def work(rows: slice) -> None:
        height = rows.stop - rows.start
        squared = np.empty((height, len(landmarks)), dtype)
        metric.squared_block(points, rows, landmarks, columns, squared)
        coordinates, lowest = result.coordinates[rows], result.squared_distance[rows]
        kernels.extend(squared.copy(), rate, weights, coefficients, coordinates, result.nearest[rows], lowest)
        shares = np.empty((height, k, len(landmarks)), dtype)
        kernels.fill_shares(squared, lowest, rate, weights, coefficients, coordinates, shares)
        squares_gradient(X[rows], squared, shares, gradient[rows])

    tile = tile_rows((k + 2) * len(landmarks), dtype.itemsize)
    run_tiles(len(points), tile, work, resolve_threads(n_threads))
    return result, gradient
