"""The online step as least squares: rows of weights, their normal equations, and the error that a solution leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import transposed_product
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.squared_matrix import squared_matrix
from ldmaps.threads import (
    MIN_TILE_ENTRIES,
    resolve_threads,
    run_tiles,
    single_threaded_blas,
    tile_rows,
)

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


def interpolation_weights(
    squared: NDArray[Any], rate: float, log_weights: NDArray[np.float64], n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return w_ij ∝ exp(−rate·d²_ij) s_j with rows that sum to 1, in float64 whatever d² is stored in."""
    out: NDArray[np.float64] = np.empty(squared.shape)

    def work(rows: slice) -> None:
        block = out[rows]
        np.multiply(squared[rows], -rate, out=block)
        block += log_weights
        block -= block.max(axis=1, keepdims=True)
        np.exp(block, out=block)
        block /= block.sum(axis=1, keepdims=True)

    run_tiles(len(out), _tile(out), work, resolve_threads(n_threads))
    return out


def weight_gradient(
    weights: NDArray[np.float64],
    squared: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    residuals: NDArray[np.float64],
    n_threads: int | None = None,
    *,
    curvatures: NDArray[np.float64] | None = None,  # κ, for Σ_i r_i·(w·B)_i + κ_i |w_i|²/2 instead
    by_exponent: NDArray[Any] | None = None,  # (M, n), filled with those by log s_j − rate·d²_ij of each row
) -> tuple[NDArray[np.float64], float]:
    """Return Σ_i r_i·∂(w·B)_i by log s_j, of shape (M,), and by the rate; rows of ``weights`` sum to 1."""
    # From ∂w_ij/∂log s_m = w_ij (δ_jm − w_im) and ∂w_ij/∂rate = −w_ij (d²_ij − Σ_m w_im d²_im).
    tile = _tile(weights)
    starts = range(0, len(weights), tile)
    # One row of partial sums per tile, added up in order, so that threads cannot change the rounding.
    by_weight = np.empty((len(starts), weights.shape[1]))
    by_rate = np.empty(len(starts))

    def work(rows: slice) -> None:
        place = rows.start // tile
        shares = residuals[rows] @ coefficients.T
        if curvatures is not None:
            shares += curvatures[rows, None] * weights[rows]
        shares -= np.einsum("ij,ij->i", shares, weights[rows])[:, None]
        shares *= weights[rows]
        np.sum(shares, axis=0, out=by_weight[place])
        if by_exponent is not None:
            by_exponent[:, rows] = shares.T
        by_rate[place] = -np.einsum("ij,ij->", shares, squared[rows])

    with single_threaded_blas():
        run_tiles(len(weights), tile, work, resolve_threads(n_threads))
    return by_weight.sum(axis=0), float(by_rate.sum())


def _tile(weights: NDArray[np.float64]) -> int:
    """Return how many rows make a tile: all of them where they take less time than waking a thread."""
    n_columns = int(weights.shape[1])
    return max(tile_rows(n_columns, weights.itemsize), MIN_TILE_ENTRIES // n_columns)
