"""The online step as least squares: rows of weights, their normal equations, and the error that a solution leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.online_weights import interpolation_weights
from ldmaps.diffusion.pairwise import squared_matrix
from ldmaps.diffusion.products import transposed_product
from ldmaps.metrics.base import Metric, Points

__all__ = ["NormalEquations", "Problem", "Rows", "Setting", "chunk_rows", "solve_ridge"]

#: Bytes of weights held at a time, and fewest rows of them.
CHUNK_BYTES, MIN_CHUNK = 1 << 27, 256

_Array = NDArray[np.float64]


def chunk_rows(n_landmarks: int) -> int:
    """Return of how many points weights are held at a time."""
    return max(MIN_CHUNK, CHUNK_BYTES // (8 * n_landmarks))


@dataclass(frozen=True)
class Setting:
    """Weights of the online step: h, and log s."""

    bandwidth: float
    log_weights: _Array


@dataclass(frozen=True)
class Rows:
    """Points with the coordinates they should get and how much each counts."""

    points: Points
    targets: _Array
    weights: _Array
    #: Which training points they are.
    indices: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, indices: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        return Rows(
            self.points.take(indices), self.targets[indices], self.weights[indices], self.indices[indices]
        )

    def some(self, order: NDArray[np.intp], count: int) -> Rows:
        """Return the first so many rows of an order, or all if they are no more, as they stand here."""
        return self if len(self) <= count else self.take(np.sort(order[:count]))


@dataclass(frozen=True)
class NormalEquations:
    """G = Σ v w wᵀ and H = Σ v wᵀ(y − w·B₀): sums over rows, so that more rows are added on."""

    gram: _Array
    moments: _Array

    def plus(self, other: NormalEquations) -> NormalEquations:
        """Return the sums over the rows of both."""
        return NormalEquations(self.gram + other.gram, self.moments + other.moments)

    def solve(self, baseline: _Array, ridge: float) -> _Array:
        """Return B."""
        if math.isinf(ridge):
            return baseline
        return baseline + solve_ridge(self.gram, self.moments, ridge)


def solve_ridge(gram: _Array, moments: _Array, ridge: float) -> _Array:
    """Solve (G + ρ) X = H with ρ in units of the mean diagonal of G."""
    damped = gram.copy()
    damped.flat[:: len(gram) + 1] += ridge * np.trace(gram) / len(gram)
    solution: _Array = scipy.linalg.cho_solve(
        scipy.linalg.cho_factor(damped, overwrite_a=True, check_finite=False), moments
    )
    return solution


@dataclass(frozen=True)
class Problem:
    """Landmarks, and the coefficients B₀ that a ridge keeps B near."""

    metric: Metric
    landmarks: Points
    baseline: _Array
    n_threads: int | None

    def at(self, landmarks: Points) -> Problem:
        """Return the same problem for landmarks elsewhere."""
        return replace(self, landmarks=landmarks)

    def squares(self, points: Points) -> NDArray[Any]:
        """Return d² of points to the landmarks."""
        return squared_matrix(self.metric, points, self.landmarks, self.n_threads)

    def weights(self, squared: NDArray[Any], setting: Setting) -> _Array:
        """Return w of points with these d²."""
        return interpolation_weights(squared, 0.5 / setting.bandwidth, setting.log_weights, self.n_threads)

    def chunks(self, data: Rows, setting: Setting) -> Iterator[tuple[slice, _Array]]:
        """Yield weights of consecutive rows, as many as memory allows at a time."""
        size = chunk_rows(len(self.landmarks))
        for start in range(0, len(data), size):
            rows = slice(start, min(start + size, len(data)))
            points = data.points if size >= len(data) else data.points.take(rows)
            yield rows, self.weights(self.squares(points), setting)

    def equations(self, data: Rows, setting: Setting) -> NormalEquations:
        """Return the normal equations of some rows."""
        size, k = self.baseline.shape
        gram, moments = np.zeros((size, size)), np.zeros((size, k))
        for rows, weights in self.chunks(data, setting):
            root = np.sqrt(data.weights[rows])[:, None]
            missing = root * (data.targets[rows] - weights @ self.baseline)
            weights *= root
            gram += transposed_product(weights, weights, self.n_threads)
            moments += transposed_product(weights, missing, self.n_threads)
        return NormalEquations(gram, moments)

    def errors(self, data: Rows, setting: Setting, solutions: list[_Array]) -> _Array:
        """Return Z in percent of each solution."""
        k = self.baseline.shape[1]
        stacked = np.concatenate(solutions, axis=1)
        total = np.zeros(len(solutions))
        for rows, weights in self.chunks(data, setting):
            squares = (weights @ stacked - np.tile(data.targets[rows], len(solutions))) ** 2
            total += (data.weights[rows] @ squares).reshape(-1, k).sum(axis=1)
        return np.asarray(100.0 * np.sqrt(total / data.weights.sum()))
