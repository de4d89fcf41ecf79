"""Coefficients fitted to a finer map: the paper's online step, with all it can be made to say.

    w_j(x) = exp(−d²(x, z_j)/(2h)) s_j / Σ_m exp(−d²(x, z_m)/(2h)) s_m,    y(x) ≈ w(x)·B

Nyström takes h = ε, s = c and B = ψ/λ of the M×M eigenproblem. The online cost does not
depend on what these numbers are, so here they are chosen to reproduce a reference
embedding y of the training points, the exact map's wherever it can be computed:

1. B by least squares, Σ_i v_i |y_i − w(x_i)·B|² + ρ |B − B₀|², for a few widths h = f·ε.
   B₀ = y(z)/λ are Nyström's coefficients with the reference's coordinates of the
   landmarks: a landmark that few points lie near falls back to them.
2. log s and log h by L-BFGS, with B solved for at every step (variable projection),
   while M is small enough for that to pay.
3. f, ρ, and whether step 2 is kept by the error on points that took no part in the
   fit; then B once more from all points.

The weights sum to 1, so every answer lies in the hull of B, also far from the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from ldmaps.diffusion.online_weights import interpolation_weights, weight_gradient
from ldmaps.diffusion.pairwise import gaussian_kernel, squared_matrix
from ldmaps.diffusion.products import multiply, transposed_product
from ldmaps.landmarks.base import Landmarks
from ldmaps.maps.reference_map import ReferenceMap
from ldmaps.metrics.base import Metric, Points
from ldmaps.threads import single_threaded_blas

__all__ = ["Distillation", "distil", "distil_landmarks"]

#: Widths of the weights that are tried, in units of ε, narrowest first.
WIDTHS = (1.0, 1.5, 2.0, 3.0, 4.5)
#: Ridges tried, in units of the mean diagonal of the normal equations; infinity is B = B₀.
RIDGES = (math.inf, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
#: Ridge while widths are compared, and while weights are tuned: the latter strong enough that the search does not
#: wander off to wide weights with huge coefficients, whose hull would be far larger than the data's.
WORKING_RIDGE, TUNING_RIDGE = 1e-6, 1e-4
#: The strongest ridge is taken whose held-out error is within this factor of the best, or below this many percent:
#: smaller coefficients, hence a smaller hull, for an error nobody would notice.
SLACK, NEGLIGIBLE = 1.05, 0.01
#: Least squares take this many points a landmark, and never fewer than so many; more hardly change the result.
ROWS_PER_LANDMARK, MIN_ROWS = 20, 10_000
#: Share and most of the points that are held out to choose by, and fewest to choose anything by.
HELD_OUT_SHARE, MAX_HELD_OUT, MIN_HELD_OUT = 0.2, 4000, 20
#: Weights are tuned up to so many landmarks, over so many points, in so many steps.
TUNED_LANDMARKS, TUNING_ROWS_PER_LANDMARK, MIN_TUNING_ROWS, TUNING_STEPS = 600, 8, 2000, 100
#: Bytes of weights held at a time.
CHUNK_BYTES = 1 << 27

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Distillation:
    """What distilling gives: all numbers of the online step, and how they were chosen.

    Attributes
    ----------
    coefficients : ndarray of shape (M, k)
        B.
    source_weights : ndarray of shape (M,)
        s, as given or tuned.
    bandwidth : float
        h.
    ridge : float
        ρ in units of the mean diagonal of the normal equations.
    is_tuned : bool
        Whether s and h were tuned.
    held_out_z : float
        Z in percent on the points held out while choosing (before B was solved for
        once more from all points); NaN where there were too few to choose by. The
        best of several, so a little optimistic.
    """

    coefficients: _Array
    source_weights: _Array
    bandwidth: float
    ridge: float
    is_tuned: bool
    held_out_z: float


def distil_landmarks(
    reference: ReferenceMap,
    chosen: Landmarks,
    weights: NDArray[np.float64],
    usable: NDArray[np.intp],
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> Distillation:
    """Distil a reference map into landmarks.

    Parameters
    ----------
    chosen : Landmarks
        With indices into the reference's training points.
    weights : ndarray of shape (N,)
        Sample weights of the training points.
    usable : ndarray of int
        Which training points may be fitted to.
    """
    landmarks = reference.members.take(chosen.indices)
    source = chosen.multiplicities
    if reference.alpha:
        squared = squared_matrix(reference.metric, landmarks, n_threads=n_threads)
        density = multiply(gaussian_kernel(squared, reference.epsilon, n_threads), source)
        source = source * density**-reference.alpha
    wanted = max(MIN_ROWS, ROWS_PER_LANDMARK * len(landmarks))
    rows = usable if len(usable) <= wanted else np.sort(rng.choice(usable, wanted, replace=False))
    return distil(
        reference.metric,
        reference.members if len(rows) == len(reference.members) else reference.members.take(rows),
        reference.coordinates(rows, n_threads),
        weights[rows],
        landmarks,
        reference.coordinates(chosen.indices, n_threads),
        reference.spectrum.eigenvalues,
        source,
        reference.epsilon,
        may_be_held_out=np.isin(rows, chosen.indices, invert=True),
        rng=rng,
        n_threads=n_threads,
    )


def distil(
    metric: Metric,
    rows: Points,
    targets: _Array,
    row_weights: _Array,
    landmarks: Points,
    landmark_targets: _Array,
    eigenvalues: _Array,
    source_weights: _Array,
    epsilon: float,
    *,
    may_be_held_out: NDArray[np.bool_],
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> Distillation:
    """Fit the online step to a reference embedding; trusts its input.

    Parameters
    ----------
    rows : Points
        n training points.
    targets : ndarray of shape (n, k)
        Their reference coordinates.
    row_weights : ndarray of shape (n,)
        How much each counts, positive.
    landmarks : Points
        The M landmarks.
    landmark_targets : ndarray of shape (M, k)
        Their reference coordinates.
    eigenvalues : ndarray of shape (k,)
        The reference's λ.
    source_weights : ndarray of shape (M,)
        s to begin with, positive.
    may_be_held_out : ndarray of bool, shape (n,)
        Which rows resemble unseen points; landmarks do not.
    """
    # Many small products and factorisations, on which BLAS threads lose more than they gain; and one thread always
    # rounds alike. The walks over rows and blocks have threads of their own.
    with single_threaded_blas():
        span = np.ptp(targets, axis=0)
        span[span == 0] = 1.0
        problem = _Problem(metric, landmarks, landmark_targets / (span * eigenvalues), n_threads)
        data = _Rows(rows, targets / span, row_weights / row_weights.mean())
        log_weights = np.log(source_weights / source_weights.max())
        plain = _Setting(epsilon, log_weights)

        eligible = rng.permutation(np.flatnonzero(may_be_held_out))
        held = eligible[: min(MAX_HELD_OUT, int(HELD_OUT_SHARE * len(rows)))]
        if len(held) < MIN_HELD_OUT:
            # Nearly every point is a landmark: Nyström's coefficients are all but exact, and a strong ridge stays near.
            everything = problem.equations(data, plain)
            coefficients = everything.solve(problem.baseline, RIDGES[1])
            return Distillation(coefficients * span, source_weights, epsilon, RIDGES[1], False, math.nan)
        fitted = data.take(np.setdiff1d(np.arange(len(rows)), held))
        test = data.take(np.sort(held))

        best, equations = _widest_worth(problem, fitted, test, plain)
        choices = [(best, equations)]
        if len(landmarks) <= TUNED_LANDMARKS:
            wanted = max(MIN_TUNING_ROWS, TUNING_ROWS_PER_LANDMARK * len(landmarks))
            few = (
                fitted
                if len(fitted) <= wanted
                else fitted.take(np.sort(rng.permutation(len(fitted))[:wanted]))
            )
            tuned = _tune(problem, few, best)
            choices.append((tuned, problem.equations(fitted, tuned)))
        lowest = math.inf
        for place, (setting, normal) in enumerate(choices):
            ridge, error = _strongest_ridge(problem, test, setting, normal)
            if error < lowest:
                lowest, chosen, chosen_ridge = error, place, ridge
        setting, normal = choices[chosen]
        coefficients = normal.plus(problem.equations(test, setting)).solve(problem.baseline, chosen_ridge)
        weights = source_weights if chosen == 0 else np.exp(setting.log_weights)
        return Distillation(
            coefficients * span, weights, setting.bandwidth, chosen_ridge, chosen == 1, lowest
        )


# -- the pieces -----------------------------------------------------------------


@dataclass(frozen=True)
class _Setting:
    bandwidth: float
    log_weights: _Array


@dataclass(frozen=True)
class _Rows:
    points: Points
    targets: _Array
    weights: _Array

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, indices: NDArray[np.intp]) -> _Rows:
        return _Rows(self.points.take(indices), self.targets[indices], self.weights[indices])


@dataclass(frozen=True)
class _NormalEquations:
    """G = Σ v w wᵀ and H = Σ v wᵀ(y − w·B₀): sums over rows, so that more rows are added on."""

    gram: _Array
    moments: _Array

    def plus(self, other: _NormalEquations) -> _NormalEquations:
        return _NormalEquations(self.gram + other.gram, self.moments + other.moments)

    def solve(self, baseline: _Array, ridge: float) -> _Array:
        if math.isinf(ridge):
            return baseline
        return baseline + _solve_ridge(self.gram, self.moments, ridge)


def _solve_ridge(gram: _Array, moments: _Array, ridge: float) -> _Array:
    damped = gram.copy()
    damped.flat[:: len(gram) + 1] += ridge * np.trace(gram) / len(gram)
    solution: _Array = cho_solve(cho_factor(damped, overwrite_a=True, check_finite=False), moments)
    return solution


@dataclass(frozen=True)
class _Problem:
    metric: Metric
    landmarks: Points
    baseline: _Array
    n_threads: int | None

    def squares(self, points: Points) -> NDArray[Any]:
        return squared_matrix(self.metric, points, self.landmarks, self.n_threads)

    def weights(self, squared: NDArray[Any], setting: _Setting) -> _Array:
        return interpolation_weights(squared, 0.5 / setting.bandwidth, setting.log_weights, self.n_threads)

    def chunks(self, data: _Rows, setting: _Setting) -> Iterator[tuple[slice, _Array]]:
        """Yield weights of consecutive rows, as many as memory allows at a time."""
        size = max(256, CHUNK_BYTES // (8 * len(self.landmarks)))
        for start in range(0, len(data), size):
            rows = slice(start, min(start + size, len(data)))
            points = data.points if size >= len(data) else data.points.take(rows)
            yield rows, self.weights(self.squares(points), setting)

    def equations(self, data: _Rows, setting: _Setting) -> _NormalEquations:
        size, k = self.baseline.shape
        gram, moments = np.zeros((size, size)), np.zeros((size, k))
        for rows, weights in self.chunks(data, setting):
            root = np.sqrt(data.weights[rows])[:, None]
            missing = root * (data.targets[rows] - weights @ self.baseline)
            weights *= root
            gram += transposed_product(weights, weights, self.n_threads)
            moments += transposed_product(weights, missing, self.n_threads)
        return _NormalEquations(gram, moments)

    def errors(self, data: _Rows, setting: _Setting, solutions: list[_Array]) -> _Array:
        """Return Z in percent of each solution."""
        k = self.baseline.shape[1]
        stacked = np.concatenate(solutions, axis=1)
        total = np.zeros(len(solutions))
        for rows, weights in self.chunks(data, setting):
            squares = (weights @ stacked - np.tile(data.targets[rows], len(solutions))) ** 2
            total += (data.weights[rows] @ squares).reshape(-1, k).sum(axis=1)
        return np.asarray(100.0 * np.sqrt(total / data.weights.sum()))


def _widest_worth(
    problem: _Problem, fitted: _Rows, test: _Rows, plain: _Setting
) -> tuple[_Setting, _NormalEquations]:
    """Return the width of lowest held-out error, looking no further than where the error first rises."""
    best = math.inf
    for width in WIDTHS:
        setting = _Setting(width * plain.bandwidth, plain.log_weights)
        equations = problem.equations(fitted, setting)
        error = float(problem.errors(test, setting, [equations.solve(problem.baseline, WORKING_RIDGE)])[0])
        if error >= best:
            break
        best, found = error, (setting, equations)
        if error <= NEGLIGIBLE:
            break
    return found


def _strongest_ridge(
    problem: _Problem, test: _Rows, setting: _Setting, equations: _NormalEquations
) -> tuple[float, float]:
    """Return the strongest ridge whose held-out error is as good as the best or negligible, and that error."""
    errors: list[float] = []
    # A few at a time, because a product with all their coefficients costs little more than with one.
    for start in range(0, len(RIDGES), 4):
        solutions = [equations.solve(problem.baseline, ridge) for ridge in RIDGES[start : start + 4]]
        errors.extend(problem.errors(test, setting, solutions))
        if min(errors) <= NEGLIGIBLE:
            break
    within = max(SLACK * min(errors), NEGLIGIBLE)
    strongest = next(place for place, error in enumerate(errors) if error <= within)
    return RIDGES[strongest], float(errors[strongest])


def _tune(problem: _Problem, data: _Rows, start: _Setting) -> _Setting:
    """Return log s and h that minimise the least-squares error, B being solved for at every step."""
    size = len(start.log_weights)
    squared = problem.squares(data.points).astype(np.float64)
    squared /= 2.0 * start.bandwidth  # the rate is then 1 to begin with

    def loss(parameters: _Array) -> tuple[float, _Array]:
        log_weights, rate = parameters[:size], math.exp(parameters[size])
        weights = interpolation_weights(squared, rate, log_weights, problem.n_threads)
        root = np.sqrt(data.weights)[:, None]
        missing = data.targets - weights @ problem.baseline
        scaled = weights * root
        gram = transposed_product(scaled, scaled, problem.n_threads)
        moments = transposed_product(scaled, missing * root, problem.n_threads)
        change = _solve_ridge(gram, moments, TUNING_RIDGE)
        residuals = (missing - weights @ change) * data.weights[:, None]
        error = float((residuals**2 / data.weights[:, None]).sum() / len(data))
        by_weight, by_rate = weight_gradient(
            weights, squared, problem.baseline + change, residuals, problem.n_threads
        )
        gradient = np.append(by_weight, by_rate * rate) * (-2.0 / len(data))
        # The logarithm: errors span decades, and L-BFGS stops by how little a step gains.
        return math.log(error), gradient / error

    found = minimize(
        loss,
        np.append(start.log_weights, 0.0),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": TUNING_STEPS, "ftol": 1e-5},
    )
    log_weights = found.x[:size]
    return _Setting(start.bandwidth * math.exp(-float(found.x[size])), log_weights - log_weights.max())
