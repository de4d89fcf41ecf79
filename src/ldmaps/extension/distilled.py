"""Coefficients fitted to a finer map: the paper's online step, with all it can be made to say.

    w_j(x) = exp(−d²(x, z_j)/(2h)) s_j / Σ_m exp(−d²(x, z_m)/(2h)) s_m,    y(x) ≈ w(x)·B

Nyström takes h = ε, s = c and B = ψ/λ of the M×M eigenproblem. Here they reproduce a reference embedding y of the
training points, the exact map's wherever it can be computed, at the same online cost:

1. B by least squares, Σ_i v_i |y_i − w(x_i)·B|² + ρ |B − B₀|², for a few widths h = f·ε. B₀ = y(z)/λ are Nyström's
   coefficients: a landmark that few points lie near falls back to them.
2. log s and log h by L-BFGS, with B solved for at every step, while M is small enough for that to pay.
3. Where the landmarks are, likewise, while M is smaller still and d² has a gradient.
4. f, ρ, and whether steps 2 and 3 are kept by the error on held-out points; then B once more from all points.

The weights sum to 1, so every answer lies in the hull of B, also far from the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import gaussian_kernel, nearest
from ldmaps.diffusion.spectrum import multiply
from ldmaps.diffusion.walk import Walk
from ldmaps.extension.base import Extension, Teacher
from ldmaps.extension.embedder import MovedLandmarks, OnlineStep
from ldmaps.extension.least_squares import NormalEquations, Problem, Rows, Setting, move, tune
from ldmaps.landmarks.base import Landmarks
from ldmaps.metrics.base import Points, squared_matrix
from ldmaps.threads import single_threaded_blas

#: Widths of the weights that are tried, in units of ε, narrowest first.
WIDTHS = (1.0, 1.5, 2.0, 3.0, 4.5)
#: Ridges tried, in units of the mean diagonal of the normal equations; infinity is B = B₀.
RIDGES = (math.inf, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
#: Ridge while widths are compared.
WORKING_RIDGE = 1e-6
#: The strongest ridge is taken whose held-out error is within this factor of the best, or below this many percent:
#: smaller coefficients, hence a smaller hull, for an error nobody would notice.
SLACK, NEGLIGIBLE = 1.05, 0.01
#: Least squares take this many points a landmark, and never fewer than so many; more hardly change the result.
ROWS_PER_LANDMARK, MIN_ROWS = 20, 10_000
#: Share and most of the points that are held out to choose by, and fewest to choose anything by.
HELD_OUT_SHARE, MAX_HELD_OUT, MIN_HELD_OUT = 0.2, 4000, 20
#: Weights are tuned up to so many landmarks, over so many points.
TUNED_LANDMARKS, TUNING_ROWS_PER_LANDMARK, MIN_TUNING_ROWS = 600, 8, 2000
#: Landmarks are moved while they, and the features of all of them together, are so few; over so many points.
MOVED_LANDMARKS, MOVED_FEATURES, MOVING_ROWS = 200, 20_000, 4000
#: Draws of landmarks that are worth trying, and up to how many landmarks; where they begin matters less to those that
#: can be moved.
DRAWS, DRAWN_AGAIN, MOVED_AND_DRAWN_AGAIN = 3, 100, 20

_Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Distillation(OnlineStep):
    """What distilling gives: all numbers of the online step, and how they were chosen.

    Attributes
    ----------
    coefficients, source_weights, bandwidth, moved
        As in :class:`OnlineStep`; s and h as given or tuned.
    held_out_z : float
        Z in percent on the points held out while choosing (before B was solved for once more from all points); NaN
        where there were too few to choose by. The best of several, so a little optimistic.
    ridge : float
        ρ in units of the mean diagonal of the normal equations.
    is_tuned : bool
        Whether s and h were tuned.
    """

    ridge: float
    is_tuned: bool


class Distilled(Extension):
    """Coefficients, weights and width fitted to the reference map's coordinates of training points."""

    name = "distilled"
    learns_from_reference = True

    def draws(self, n_landmarks: int, *, is_differentiable: bool = True) -> int:
        """Return how many draws of landmarks to try: few landmarks can lie well or badly."""
        return DRAWS if n_landmarks <= (MOVED_AND_DRAWN_AGAIN if is_differentiable else DRAWN_AGAIN) else 1

    def fit(
        self,
        teacher: Teacher,
        landmarks: Landmarks,
        usable: NDArray[np.intp],
        rng: np.random.Generator,
        *,
        may_move: bool = True,
    ) -> Distillation:
        """Fit the online step to the teacher's coordinates of usable training points."""
        walk = teacher.walk
        wanted = _n_rows(len(landmarks.indices))
        rows = usable if len(usable) <= wanted else np.sort(rng.choice(usable, wanted, replace=False))
        targets = teacher.coordinates(rows)
        span = np.ptp(targets, axis=0)
        span[span == 0] = 1.0
        baseline = teacher.coordinates(landmarks.indices) / (span * teacher.spectrum.eigenvalues)
        problem = Problem(walk.metric, walk.points.take(landmarks.indices), baseline, walk.n_threads)
        data = Rows(
            walk.points if len(rows) == len(walk.points) else walk.points.take(rows),
            targets / span,
            walk.weights[rows] / walk.weights[rows].mean(),
            rows,
        )
        source_weights = _source_weights(walk, problem.landmarks, landmarks.multiplicities)
        # Many small products and factorisations, on which BLAS threads lose more than they gain; and one thread
        # always rounds alike. The loops over rows and blocks have threads of their own.
        with single_threaded_blas():
            # Landmarks do not resemble unseen points, so none is held out.
            eligible = rng.permutation(np.flatnonzero(np.isin(rows, landmarks.indices, invert=True)))
            held = eligible[: min(MAX_HELD_OUT, int(HELD_OUT_SHARE * len(rows)))]
            return _distil(problem, data, held, source_weights, span, walk.epsilon, rng, may_move=may_move)


def _can_move(problem: Problem) -> bool:
    """Say whether landmarks are few enough, and d² has a gradient."""
    if not problem.metric.is_differentiable or len(problem.landmarks) > MOVED_LANDMARKS:
        return False
    return problem.metric.places(problem.landmarks).values.size <= MOVED_FEATURES


def _n_rows(n_landmarks: int) -> int:
    """Return how many points least squares take at most."""
    return max(MIN_ROWS, ROWS_PER_LANDMARK * n_landmarks)


def _n_tuning_rows(n_landmarks: int) -> int:
    """Return over how many points weights are tuned at most."""
    return max(MIN_TUNING_ROWS, TUNING_ROWS_PER_LANDMARK * n_landmarks)


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
    problem: Problem,
    data: Rows,
    held: NDArray[np.intp],
    source_weights: NDArray[np.float64],
    span: _Array,
    epsilon: float,
    rng: np.random.Generator,
    *,
    may_move: bool,
) -> Distillation:
    """Choose among widths, ridges and tuning by the held-out rows, then solve for B from all of them."""
    plain = Setting(epsilon, np.log(source_weights / source_weights.max()))
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
    candidates = [_Candidate(problem, *widest)]
    n_landmarks = len(problem.landmarks)
    if n_landmarks <= TUNED_LANDMARKS:
        order = rng.permutation(len(fitted))
        tuned = tune(problem, fitted.some(order, _n_tuning_rows(n_landmarks)), widest[0])
        candidates.append(_Candidate(problem, tuned, problem.equations(fitted, tuned)))
        if may_move and _can_move(problem):
            candidates += _moved(problem, data, fitted, fitted.some(order, MOVING_ROWS), tuned)
    ridges = [
        _strongest_ridge(candidate.problem, test, candidate.setting, candidate.equations)
        for candidate in candidates
    ]
    best = min(range(len(candidates)), key=lambda place: ridges[place][1])
    chosen, (ridge, error) = candidates[best], ridges[best]
    equations = chosen.equations.plus(chosen.problem.equations(test, chosen.setting))
    coefficients = equations.solve(problem.baseline, ridge)
    return Distillation(
        coefficients=coefficients * span,
        source_weights=source_weights if best == 0 else np.exp(chosen.setting.log_weights),
        bandwidth=chosen.setting.bandwidth,
        held_out_z=error,
        ridge=ridge,
        is_tuned=best > 0,
        moved=chosen.moved,
    )


@dataclass(frozen=True)
class _Candidate:
    problem: Problem
    setting: Setting
    equations: NormalEquations
    moved: MovedLandmarks | None = None


def _moved(problem: Problem, data: Rows, fitted: Rows, sample: Rows, start: Setting) -> list[_Candidate]:
    """Return the fit with landmarks moved, or nothing where no rows are left to stand for some of them."""
    places, setting = move(problem, sample, start)
    representatives = _representatives(problem, data, places)
    if representatives is None:
        return []
    moved = problem.at(places)
    landmarks = MovedLandmarks(places, data.indices[representatives])
    return [_Candidate(moved, setting, moved.equations(fitted, setting), landmarks)]


def _representatives(problem: Problem, data: Rows, places: Points) -> NDArray[np.intp] | None:
    """Return which row stands for each landmark: the nearest of those nearer to it than to any other landmark."""
    # A landmark to which no row is nearest borrows one: the nearest that stands for none and is not the
    # farthest of its cell, which keeps its radius. None where there is no such row.
    cells, squared = nearest(problem.metric, data.points, places, problem.n_threads)
    order = np.lexsort((squared, cells))
    filled, first, sizes = np.unique(cells[order], return_index=True, return_counts=True)
    found = np.full(len(places), -1, dtype=np.intp)
    found[filled] = order[first]
    free = np.ones(len(data), dtype=np.bool_)
    free[order[first]] = free[order[first + sizes - 1]] = False
    for empty in np.flatnonzero(found < 0):
        rows = np.flatnonzero(free)
        if not len(rows):
            return None
        place = places.take(np.array([empty]))
        to_place = squared_matrix(problem.metric, data.points.take(rows), place, problem.n_threads)
        found[empty] = rows[np.argmin(to_place)]
        free[found[empty]] = False
    return found


def _widest_worth(
    problem: Problem, fitted: Rows, test: Rows, plain: Setting
) -> tuple[Setting, NormalEquations]:
    """Return the width of lowest held-out error, looking no further than where the error first rises."""
    best = math.inf
    for width in WIDTHS:
        setting = Setting(width * plain.bandwidth, plain.log_weights)
        equations = problem.equations(fitted, setting)
        error = float(problem.errors(test, setting, [equations.solve(problem.baseline, WORKING_RIDGE)])[0])
        if error >= best:
            break
        best, found = error, (setting, equations)
        if error <= NEGLIGIBLE:
            break
    return found


def _strongest_ridge(
    problem: Problem, test: Rows, setting: Setting, equations: NormalEquations
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
