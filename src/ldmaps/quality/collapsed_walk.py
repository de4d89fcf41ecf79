"""The walk over points, and the walk over the same points moved to their landmarks.

    P = D⁻¹AW        over the points where they are
    P′               rows and columns at their landmarks
    P_c              columns at their landmarks, rows at any points: the Nyström extension

P′ and P_c act through the landmarks alone, (P′f)(i) = Σ_m A(z_γ(i), z_m) F_m / Σ_m A(z_γ(i), z_m) c_m
with F_m the weighted sum of f over cell m: products of size M×M, and no pass over pairs of points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import apply_operator, extend, squared_tile
from ldmaps.diffusion.walk import Walk
from ldmaps.metrics.base import Points
from ldmaps.metrics.squared_matrix import squared_matrix
from ldmaps.threads import resolve_threads, run_tiles, tile_rows


@dataclass(frozen=True)
class CollapsedWalk:
    """A walk over N points, and the M places they are moved to."""

    walk: Walk  # the N points with their weights, all positive; α is 0
    landmarks: Points  # the M places, prepared
    assignment: NDArray[
        np.intp
    ]  # (N,): γ(i), which landmark each point is moved to; every landmark has a point

    def degrees(self) -> NDArray[np.float64]:
        """Return D of the walk over the points where they are."""
        points, nothing = self.walk.points, np.empty((len(self.walk.points), 0))
        return apply_operator(
            self.walk.metric,
            points,
            points,
            self.walk.epsilon,
            self.walk.weights,
            nothing,
            self.walk.n_threads,
        )[0]

    def extended(self, values: NDArray[np.float64], rows: Points) -> NDArray[np.float64]:
        """Apply P_c to functions, (N, p) values at the training points, and evaluate the result at any points."""
        count = len(self.landmarks)
        cells = np.bincount(self.assignment, weights=self.walk.weights, minlength=count)
        means = [
            np.bincount(self.assignment, weights=self.walk.weights * column, minlength=count) / cells
            for column in values.T
        ]
        dtype = rows.dtype
        weights, coefficients = cells.astype(dtype), np.array(means, dtype=dtype)
        products = extend(
            self.walk.metric,
            rows,
            self.landmarks,
            self.walk.epsilon,
            weights,
            coefficients,
            self.walk.n_threads,
        )
        return products.coordinates.astype(np.float64)

    def displaced(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply P′ to functions."""
        return self.extended(values, self.landmarks)[self.assignment]

    def linear_change(self, lam: NDArray[np.float64], psi: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (P′ − P)ψ of eigenpairs to first order in the changes of distances (eqns Mijerror, err3)."""
        n, points, landmarks, metric = (
            len(self.walk.points),
            self.walk.points,
            self.landmarks,
            self.walk.metric,
        )
        degrees, degree_changes, sums = np.empty(n), np.empty(n), np.empty((n, psi.shape[1]))
        columns = np.ascontiguousarray(psi.T)
        between = squared_matrix(metric, landmarks, n_threads=self.walk.n_threads)
        fixed = self.assignment, 0.5 / self.walk.epsilon, self.walk.weights, columns

        def work(tile: slice) -> None:
            block = squared_tile(metric, points, tile, points)
            own = degrees[tile], degree_changes[tile], sums[tile]
            kernels.first_order_rows(block, between[self.assignment[tile]], *fixed, *own)

        run_tiles(n, tile_rows(n, points.dtype.itemsize), work, resolve_threads(self.walk.n_threads))
        # δM = δA/D − (δD/D²) A, and (A/D)ψ = λψ
        return np.asarray(sums / degrees[:, None] - (degree_changes / degrees)[:, None] * (psi * lam))

    def squared_distances(self) -> NDArray[np.float64]:
        """Return each point's squared distance to its landmark."""
        points, landmarks, squared = self.walk.points, self.landmarks, np.empty(len(self.walk.points))
        for cell in range(len(landmarks)):
            members = np.flatnonzero(self.assignment == cell)
            here = landmarks.take(np.array([cell]))
            squared[members] = squared_matrix(self.walk.metric, points.take(members), here)[:, 0]
        return squared
