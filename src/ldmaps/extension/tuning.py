"""Tuning what the weights of the online step are made of: s, the width, and where the landmarks are.

B is solved for at every step of L-BFGS (variable projection), so that an error counts only
where no B could mend it. Its gradient by the position of landmark j is Σ_i g_ij ∂d²(x_i, z_j)/∂z_j; d² is
symmetric, so that the sums which differentiate a map by its points give it with points and
landmarks in each other's place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import transposed_product
from ldmaps.extension.least_squares import (
    Problem,
    Rows,
    Setting,
    interpolation_weights,
    solve_ridge,
    weight_gradient,
)
from ldmaps.metrics.base import Points
from ldmaps.threads import resolve_threads, run_tiles

#: Ridge while tuning: strong enough that the search does not wander off to wide weights with huge coefficients,
#: whose hull would be far larger than the data's.
TUNING_RIDGE = 1e-4
#: Most steps of a search.
TUNING_STEPS = 100
#: Tuning looks at widths within this factor of the one it starts from. Where density is very uneven the error keeps
#: falling, by less and less, towards widths that overflow.
WIDEST_TUNING = 1e4
#: What moving all landmarks by √h adds to the logarithm of the mean square error, h being the width that they start
#: with: little, but what gains nothing stays where it is.
MOVE_PENALTY = 0.1
#: Farthest that a landmark may be moved along any of its features, in units of √h.
FARTHEST_MOVE = 3.0

_Array = NDArray[np.float64]


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
    log_weights = parameters[:-1]
    return Setting(
        start.bandwidth * math.exp(-_bounded(float(parameters[-1]))), log_weights - log_weights.max()
    )


def _bounded(log_rate: float) -> float:
    most = math.log(WIDEST_TUNING)
    return min(max(log_rate, -most), most)
