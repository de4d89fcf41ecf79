"""The online step as least squares: rows of weights, their normal equations, and tuning what the weights are made of.

Tuning solves for B at every step of L-BFGS (variable projection): an error counts only where no B could mend it. Its
gradient by the position of landmark j is Σ_i g_ij ∂d²(x_i, z_j)/∂z_j; as d² is symmetric, the sums which differentiate
a map by its points give it with points and landmarks in each other's place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import transposed_product
from ldmaps.metrics.base import Metric, Points, squared_matrix
from ldmaps.threads import MIN_TILE_ENTRIES, resolve_threads, run_tiles, single_threaded_blas, tile_rows

#: Bytes of weights held at a time, and fewest rows of them.
CHUNK_BYTES, MIN_CHUNK = 1 << 27, 256
#: Ridge while tuning: strong enough that the search does not wander off to wide weights with huge coefficients,
#: whose hull would be far larger than the data's.
TUNING_RIDGE = 1e-4
#: Most steps of a search.
TUNING_STEPS = 100
#: Tuning looks at widths within this factor of the one it starts from. Where density is very uneven the error keeps
#: falling, by less and less, towards widths that overflow.
WIDEST_TUNING = 1e4
#: Least logarithm of a source weight, the largest being 0. Tuning may drive a landmark's weight towards nothing, which
#: would leave points beside it without coordinates; in single precision the others still count there to 12 digits.
LEAST_LOG_WEIGHT = -60.0
#: What moving all landmarks by √h adds to the logarithm of the mean square error, h being the width that they start
#: with: little, but what gains nothing stays where it is.
MOVE_PENALTY = 0.1
#: Farthest that a landmark may be moved along any of its features, in units of √h.
FARTHEST_MOVE = 3.0

_Array = NDArray[np.float64]


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
        """Return d² of points to the landmarks, as of new points."""
        return squared_matrix(self.metric, self.metric.as_new(points), self.landmarks, self.n_threads)

    def weights(self, squared: NDArray[Any], setting: Setting) -> _Array:
        """Return w of points with these d²."""
        return interpolation_weights(squared, 0.5 / setting.bandwidth, setting.log_weights, self.n_threads)

    def chunks(self, data: Rows, setting: Setting) -> Iterator[tuple[slice, _Array]]:
        """Yield weights of consecutive rows, as many as memory allows at a time."""
        size = max(MIN_CHUNK, CHUNK_BYTES // (8 * len(self.landmarks)))
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
    squared: NDArray[Any], rate: float, log_weights: _Array, n_threads: int | None = None
) -> _Array:
    """Return w_ij ∝ exp(−rate·d²_ij) s_j with rows that sum to 1, in float64 whatever d² is stored in."""
    out: _Array = np.empty(squared.shape)

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
    weights: _Array,
    squared: _Array,
    coefficients: _Array,
    residuals: _Array,
    n_threads: int | None = None,
    *,
    curvatures: _Array | None = None,  # κ, for Σ_i r_i·(w·B)_i + κ_i |w_i|²/2 instead
    by_exponent: NDArray[Any] | None = None,  # (M, n), filled with those by log s_j − rate·d²_ij of each row
) -> tuple[_Array, float]:
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


def _tile(weights: _Array) -> int:
    """Return how many rows make a tile: all of them where they take less time than waking a thread."""
    n_columns = int(weights.shape[1])
    return max(tile_rows(n_columns, weights.itemsize), MIN_TILE_ENTRIES // n_columns)


def tune(problem: Problem, data: Rows, start: Setting) -> Setting:
    """Return log s and h that minimise the least-squares error."""
    squared = problem.squares(data.points).astype(np.float64)
    squared /= 2.0 * start.bandwidth  # the rate is then 1 to begin with

    def loss(parameters: _Array) -> tuple[float, _Array]:
        return _loss(problem, data, squared, parameters)

    return _setting(start, _lowest(loss, np.append(start.log_weights, 0.0)))


def move(problem: Problem, data: Rows, start: Setting) -> tuple[Points, Setting]:
    """Return where landmarks minimise the least-squares error together with log s and h; the metric has a gradient."""
    positions = problem.metric.places(problem.landmarks)
    metric, size, dtype = problem.metric.of_places(), len(start.log_weights), problem.landmarks.dtype
    counting = positions.scales > 0
    units = math.sqrt(start.bandwidth) / positions.scales[counting]
    by_squares = metric.squares_gradient(data.points)
    by_exponent = np.empty((size, len(data)), dtype)
    by_position = np.empty((size, 1, len(counting)), dtype)

    def moved(moves: _Array) -> _Array:
        values = positions.values.copy()
        values[:, counting] += moves.reshape(size, -1) * units
        return values

    def loss(parameters: _Array) -> tuple[float, _Array]:
        moves = parameters[size + 1 :]
        values = moved(moves)
        squared = problem.at(metric.prepare(values.astype(dtype), dtype)).squares(data.points)
        scaled = squared.astype(np.float64)
        scaled /= 2.0 * start.bandwidth
        error, gradient = _loss(problem, data, scaled, parameters[: size + 1], by_exponent)
        rate = math.exp(_bounded(float(parameters[size]))) / (2.0 * start.bandwidth)
        # By d²: the exponents are log s − rate·d².
        shares = by_exponent[:, None]
        shares *= -rate
        columns = np.ascontiguousarray(squared.T)

        def work(rows: slice) -> None:
            by_squares(values[rows], columns[rows], shares[rows], by_position[rows])

        run_tiles(size, 1, work, resolve_threads(problem.n_threads))
        by_move = (by_position[:, 0, counting] * units).ravel() + (2.0 * MOVE_PENALTY / size) * moves
        return error + MOVE_PENALTY / size * float(moves @ moves), np.concatenate([gradient, by_move])

    n_moves = size * int(counting.sum())
    bounds = [(None, None)] * (size + 1) + [(-FARTHEST_MOVE, FARTHEST_MOVE)] * n_moves
    found = _lowest(loss, np.concatenate([start.log_weights, np.zeros(1 + n_moves)]), bounds)
    landmarks = metric.prepare(moved(found[size + 1 :]).astype(dtype), dtype)
    return landmarks, _setting(start, found[: size + 1])


def _lowest(loss: Callable[[_Array], tuple[float, _Array]], start: _Array, bounds: Any = None) -> _Array:
    """Return where a function with a gradient is lowest, by L-BFGS."""
    options = {"maxiter": TUNING_STEPS, "ftol": 1e-5}
    found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x)


def _loss(
    problem: Problem, data: Rows, squared: _Array, parameters: _Array, by_exponent: NDArray[Any] | None = None
) -> tuple[float, _Array]:
    """Return the logarithm of the mean square error and its gradient by log s and the logarithm of the rate."""
    size = squared.shape[1]
    log_weights, rate = parameters[:size], math.exp(_bounded(float(parameters[size])))
    weights = interpolation_weights(squared, rate, log_weights, problem.n_threads)
    root = np.sqrt(data.weights)[:, None]
    missing = data.targets - weights @ problem.baseline
    scaled = weights * root
    gram = transposed_product(scaled, scaled, problem.n_threads)
    moments = transposed_product(scaled, missing * root, problem.n_threads)
    change = solve_ridge(gram, moments, TUNING_RIDGE)
    residuals = (missing - weights @ change) * data.weights[:, None]
    # What the ridge takes counts as well: only of their sum is B the minimum, so that B need not be differentiated.
    ridge = TUNING_RIDGE / size * float((change**2).sum())
    error = float((residuals**2 / data.weights[:, None]).sum() + ridge * np.trace(gram)) / len(data)
    # The logarithm: errors span decades, and L-BFGS stops by how little a step gains.
    scale = -2.0 / (len(data) * error)
    by_weight, by_rate = weight_gradient(
        weights,
        squared,
        problem.baseline + change,
        scale * residuals,
        problem.n_threads,
        curvatures=-scale * ridge * data.weights,
        by_exponent=by_exponent,
    )
    is_inside = abs(parameters[size]) < math.log(WIDEST_TUNING)
    return math.log(error), np.append(by_weight, by_rate * rate * is_inside)


def _setting(start: Setting, parameters: _Array) -> Setting:
    bandwidth = start.bandwidth * math.exp(-_bounded(float(parameters[-1])))
    relative = parameters[:-1] - parameters[:-1].max()
    return Setting(bandwidth, np.maximum(relative, LEAST_LOG_WEIGHT))


def _bounded(log_rate: float) -> float:
    most = math.log(WIDEST_TUNING)
    return min(max(log_rate, -most), most)
