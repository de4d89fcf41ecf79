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
import scipy
from numpy.typing import NDArray

from ldmaps.costs import Cost, DataSize
from ldmaps.diffusion.online_weights import interpolation_weights, weight_gradient
from ldmaps.diffusion.pairwise import gaussian_kernel, squared_matrix
from ldmaps.diffusion.products import multiply, transposed_product
from ldmaps.diffusion.walk import Walk
from ldmaps.extension.base import Extension, Teacher
from ldmaps.extension.embedder import OnlineStep
from ldmaps.landmarks.base import Landmarks
from ldmaps.metrics.base import Metric, Points
from ldmaps.threads import single_threaded_blas

__all__ = ["Distillation", "Distilled"]

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
#: Tuning looks at widths within this factor of the one it starts from. Where density is very uneven the error keeps
#: falling, by less and less, towards widths that overflow.
WIDEST_TUNING = 1e4
#: Draws of landmarks that are worth trying, and up to how many landmarks.
DRAWS, DRAWN_AGAIN = 3, 100
#: Bytes of weights held at a time, and fewest rows of them.
CHUNK_BYTES, MIN_CHUNK = 1 << 27, 256
#: Times that weights of all rows are made: for the widths tried, the tuned one, held-out points, and in the end.
TYPICAL_PASSES = 6
#: Times that the tuned weights' error is evaluated: 9 to 111, as the data have it.
TYPICAL_EVALUATIONS = 50

_Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Distillation(OnlineStep):
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

    ridge: float
    is_tuned: bool


class Distilled(Extension):
    """Coefficients, weights and width fitted to the reference map's coordinates of training points."""

    name = "distilled"
    learns_from_reference = True

    def draws(self, n_landmarks: int) -> int:
        """Return how many draws of landmarks to try: few landmarks can lie well or badly."""
        return DRAWS if n_landmarks <= DRAWN_AGAIN else 1

    def fit(
        self,
        teacher: Teacher,
        landmarks: Landmarks,
        usable: NDArray[np.intp],
        rng: np.random.Generator,
    ) -> Distillation:
        """Fit the online step to the teacher's coordinates of usable training points."""
        walk = teacher.walk
        wanted = _n_rows(len(landmarks.indices))
        rows = usable if len(usable) <= wanted else np.sort(rng.choice(usable, wanted, replace=False))
        targets = teacher.coordinates(rows)
        span = np.ptp(targets, axis=0)
        span[span == 0] = 1.0
        baseline = teacher.coordinates(landmarks.indices) / (span * teacher.spectrum.eigenvalues)
        problem = _Problem(walk.metric, walk.points.take(landmarks.indices), baseline, walk.n_threads)
        data = _Rows(
            walk.points if len(rows) == len(walk.points) else walk.points.take(rows),
            targets / span,
            walk.weights[rows] / walk.weights[rows].mean(),
        )
        source_weights = _source_weights(walk, problem.landmarks, landmarks.multiplicities)
        # Many small products and factorisations, on which BLAS threads lose more than they gain; and one thread
        # always rounds alike. The loops over rows and blocks have threads of their own.
        with single_threaded_blas():
            # Landmarks do not resemble unseen points, so none is held out.
            eligible = rng.permutation(np.flatnonzero(np.isin(rows, landmarks.indices, invert=True)))
            held = eligible[: min(MAX_HELD_OUT, int(HELD_OUT_SHARE * len(rows)))]
            return _distil(problem, data, held, source_weights, span, walk.epsilon, rng)

    def cost(self, data: DataSize, n_landmarks: int, n_components: int, n_reference: int) -> Cost:
        """Return what fitting takes: least squares several times, and for few landmarks the tuning."""
        m, k = float(n_landmarks), float(n_components)
        rows = data.of(min(data.n_points, _n_rows(n_landmarks)))
        n = float(rows.n_points)
        # Weights and their normal equations, beside which solving them is nothing.
        cost = Cost(distances=n * m, weights=n * m, multiplications=n * m**2).times(TYPICAL_PASSES)
        if n_reference < data.n_points:
            cost += Cost(landmark_shares=n * n_reference)
        # d² and weights of a chunk, and its points where they are cut.
        chunk = float(min((1 - HELD_OUT_SHARE) * n, _chunk_rows(n_landmarks)))
        is_cut = chunk == _chunk_rows(n_landmarks)
        scratch = chunk * (m * (8 + data.itemsize) + (data.point_bytes if is_cut else 0.0))
        if n_landmarks <= TUNED_LANDMARKS:
            tuned = min(n, _n_tuning_rows(n_landmarks))
            # Weights and their gradient, which is as much work again, and the normal equations.
            step = Cost(weights=2 * tuned * m, multiplications=tuned * m * (m + 4 * k))
            cost += step.times(TYPICAL_EVALUATIONS)
            # d², weights and scaled weights at once, and the points.
            scratch = max(scratch, tuned * (4 * 8 * m + data.point_bytes))
        # Rows are taken from the data, unless all are, and once more as those fitted to and those held out.
        copies = (1 if n == data.n_points else 2) * rows.points_bytes
        return cost.holding(scratch + copies + 3 * 8 * m**2 + n * (80 + 32 * k))


def _n_rows(n_landmarks: int) -> int:
    """Return how many points least squares take at most."""
    return max(MIN_ROWS, ROWS_PER_LANDMARK * n_landmarks)


def _n_tuning_rows(n_landmarks: int) -> int:
    """Return over how many points weights are tuned at most."""
    return max(MIN_TUNING_ROWS, TUNING_ROWS_PER_LANDMARK * n_landmarks)


def _chunk_rows(n_landmarks: int) -> int:
    """Return of how many points weights are held at a time."""
    return max(MIN_CHUNK, CHUNK_BYTES // (8 * n_landmarks))


def _source_weights(
    walk: Walk, landmarks: Points, multiplicities: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return c, or with density normalisation c q^-α, q being the landmarks' own density."""
    if not walk.alpha:
        return multiplicities
    squared = squared_matrix(walk.metric, landmarks, n_threads=walk.n_threads)
    density = multiply(gaussian_kernel(squared, walk.epsilon, walk.n_threads), multiplicities)
    return np.asarray(multiplicities * density**-walk.alpha)


def _distil(
    problem: _Problem,
    data: _Rows,
    held: NDArray[np.intp],
    source_weights: NDArray[np.float64],
    span: _Array,
    epsilon: float,
    rng: np.random.Generator,
) -> Distillation:
    """Choose among widths, ridges and tuning by the held-out rows, then solve for B from all of them."""
    plain = _Setting(epsilon, np.log(source_weights / source_weights.max()))
    if len(held) < MIN_HELD_OUT:
        # Nearly every point is a landmark: Nyström's coefficients are all but exact, and a strong ridge stays near.
        coefficients = problem.equations(data, plain).solve(problem.baseline, RIDGES[1])
        return Distillation(
            coefficients=coefficients * span,
            source_weights=source_weights,
            bandwidth=epsilon,
            ridge=RIDGES[1],
            is_tuned=False,
        )
    fitted = data.take(np.setdiff1d(np.arange(len(data)), held))
    test = data.take(np.sort(held))
    widest = _widest_worth(problem, fitted, test, plain)
    candidates = [widest]
    n_landmarks = len(problem.landmarks)
    if n_landmarks <= TUNED_LANDMARKS:
        wanted = _n_tuning_rows(n_landmarks)
        few = fitted if len(fitted) <= wanted else fitted.take(np.sort(rng.permutation(len(fitted))[:wanted]))
        tuned = _tune(problem, few, widest[0])
        candidates.append((tuned, problem.equations(fitted, tuned)))
    ridges = [_strongest_ridge(problem, test, *candidate) for candidate in candidates]
    best = min(range(len(candidates)), key=lambda place: ridges[place][1])
    (setting, equations), (ridge, error) = candidates[best], ridges[best]
    coefficients = equations.plus(problem.equations(test, setting)).solve(problem.baseline, ridge)
    return Distillation(
        coefficients=coefficients * span,
        source_weights=source_weights if best == 0 else np.exp(setting.log_weights),
        bandwidth=setting.bandwidth,
        held_out_z=error,
        ridge=ridge,
        is_tuned=best == 1,
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
    solution: _Array = scipy.linalg.cho_solve(
        scipy.linalg.cho_factor(damped, overwrite_a=True, check_finite=False), moments
    )
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
        size = _chunk_rows(len(self.landmarks))
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
        log_weights, rate = parameters[:size], math.exp(_bounded(parameters[size]))
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
        is_inside = abs(parameters[size]) < math.log(WIDEST_TUNING)
        gradient = np.append(by_weight, by_rate * rate * is_inside) * (-2.0 / len(data))
        # The logarithm: errors span decades, and L-BFGS stops by how little a step gains.
        return math.log(error), gradient / error

    optimum = scipy.optimize.minimize(
        loss,
        np.append(start.log_weights, 0.0),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": TUNING_STEPS, "ftol": 1e-5},
    )
    log_weights = optimum.x[:size]
    return _Setting(start.bandwidth * math.exp(-_bounded(optimum.x[size])), log_weights - log_weights.max())


def _bounded(log_rate: float) -> float:
    most = math.log(WIDEST_TUNING)
    return min(max(float(log_rate), -most), most)
