"""What is settled before a map is solved: ε, the points that take part, and the landmarks. Nothing is fitted twice.

    rule ──► ε ──► examine the walk ──► Whole                           settled
                        │  ▲  ▲
                        │  │  └──────── Apart, and few: leave them out
                        │  └─────────── Groups, or too many apart: raise ε, then find the smallest that will do
                        └─────────────► Groups, with an ε that the user gave: an error

Only the rule "bulk" leaves points out or raises ε: its ε is that of a typical point. Landmarks by k-medoids do not
depend on ε, and distances that were stored stay what they are, so examining another ε computes hardly any.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth, choose_bandwidth, leave_out_outliers
from ldmaps.diffusion.solver_choice import (
    check_memory,
    near_fraction,
    sparse_bytes,
    sparse_squares,
    stored_bytes,
)
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS
from ldmaps.diffusion.walk import Groups, Walk, is_connected
from ldmaps.fit.certify import HeldOut, hold_out
from ldmaps.fit.data import Data
from ldmaps.fit.examine import Apart, Finding, Whole, examine_landmarks, examine_modes, examine_points
from ldmaps.fit.recipe import Recipe, sized_selector
from ldmaps.fit.reference import (
    BOUNDING_MODES,
    REFERENCE_EXTRA,
    REFERENCE_ITERATIONS,
    Effort,
    bounded,
    fits_in_passes,
    solve_in_passes,
    solver_for,
)
from ldmaps.fit.resample import MOST_RESAMPLED, CoarseWalk, coarse_walk
from ldmaps.fit.select import CalibrationRows, Selection, calibration_is_worth_it, select
from ldmaps.fit.settings import Seeds
from ldmaps.fit.solve import SolvedMap, coordinates_for, eigenvalues_for, solve
from ldmaps.landmarks import KMedoids
from ldmaps.landmarks.base import PointsElsewhere
from ldmaps.metrics.base import squared_matrix
from ldmaps.metrics.precomputed import StoredPoints, StoredSquares
from ldmaps.progress import stage

#: Hops of so many √ε join large groups when ε is raised for them.
JOINED_HOP = 3.0
#: Most points that are left out, as a share of all (one in any case).
MOST_LEFT_OUT = 0.05
#: What ε is raised by at first, and more each time after; how closely the smallest that does is then found, so that
#: disjoint parts of the data still have much the same.
FIRST_RAISE, RAISED_WITHIN = 1.2, 1.1


@dataclass(frozen=True)
class Chosen:
    """What is settled before a map is solved."""

    data: Data  # with the points that lie apart at weight 0
    bandwidth: Bandwidth
    walk: Walk  # over the members of the data
    #: "landmarks": the walk over ``basis`` is solved; otherwise that over all points: "stored", "sparse" or "streamed"
    solver: str
    basis: Selection | None = None
    squared: Any = None  # d² between all members, stored or sparse, where the solver holds them
    landmarks: Selection | None = None  # of the map itself, where their number is known
    calibration: CalibrationRows | None = None  # rows that no landmark was chosen from
    solved: SolvedMap | None = None  # the solved walk, where it took that to see which points carry it
    coarse: CoarseWalk | None = None  # a walk over few points that stands for that over all
    raised_from: float | None = None  # the rule's ε, where that left the data in pieces
    held: HeldOut | None = None  # members that a tolerance holds out
    all_squared: NDArray[Any] | None = None  # d² between all members, those left out too, where they are kept

    @property
    def rule_epsilon(self) -> float:
        """What the rule for ε gave."""
        return self.bandwidth.epsilon if self.raised_from is None else self.raised_from


@dataclass(frozen=True)
class TooManyApart:
    """More points lie apart than may be left out."""

    epsilon: float


@dataclass(frozen=True)
class Ground:
    """What does not change with ε: the data, how their walk is solved, and what was computed of them."""

    recipe: Recipe
    data: Data
    solver: str
    squared: NDArray[Any] | None = None  # d² between all members, where they are stored
    basis: Selection | None = None  # landmarks that the walk is solved over, where these do not depend on ε
    calibration: CalibrationRows | None = None

    def walk(self, epsilon: float) -> Walk:
        """Return the walk over all members."""
        settings = self.recipe.settings
        return Walk(
            metric=self.data.metric,
            points=self.data.members,
            weights=self.data.member_weights,
            epsilon=epsilon,
            alpha=settings.alpha,
            time=settings.time,
            n_threads=settings.n_threads,
        )

    def without(self, walk: Walk, apart: Apart) -> Ground:
        """Return the same with some members left out; ``walk`` is over them all."""
        data, squared, basis = self.data.without(apart.members), self.squared, None
        ground = replace(self, data=data)
        if self.basis is not None:
            gone = apart.landmarks
            gone = np.zeros(len(self.basis.landmarks.indices), dtype=bool) if gone is None else gone
            basis = self.basis.without(ground.walk(walk.epsilon), apart.members, gone)
        if squared is not None:
            stays = np.delete(np.arange(len(squared)), apart.members)
            squared = squared[np.ix_(stays, stays)]
        return replace(ground, squared=squared, basis=basis)


# -- the walk ------------------------------------------------------------------------


def decide_walk(
    recipe: Recipe,
    data: Data,
    bandwidth: Bandwidth | None,
    calibration: CalibrationRows | None,
    seeds: Seeds,
    squared: NDArray[Any] | None = None,
) -> Chosen:
    """Settle ε, by the rule of the settings unless a bandwidth is known, the points that take part, and the landmarks.

    ``squared`` are the d² between all members, where an earlier fit has kept them.
    """
    ground, bandwidth = _ground(recipe, data, bandwidth, calibration, seeds, squared)
    if recipe.leaves_out:
        chosen = _settled_or_raised(ground, bandwidth, seeds)
    else:
        finding = settle(ground, bandwidth, seeds)
        if isinstance(finding, Groups):
            raise finding.error(recipe.settings.epsilon)
        assert isinstance(finding, Chosen)
        chosen = finding
    if recipe.kind == "landmark":
        return replace(chosen, landmarks=chosen.basis)
    if recipe.kind == "distilled":
        selector = sized_selector(recipe, chosen.data, len(chosen.data.members))
        landmarks = select(selector, chosen.walk, np.random.default_rng(seeds.select))
        # As many coordinates as landmarks make no map.
        eigenvalues_for(recipe.settings.n_components, len(landmarks.landmarks.indices), extra=0)
        return replace(chosen, landmarks=landmarks)
    if recipe.kind == "tolerance":
        return replace(chosen, held=hold_out(len(chosen.data.members), np.random.default_rng(seeds.certify)))
    return replace(chosen, all_squared=ground.squared) if recipe.settings.keep_distances else chosen


def _settled_or_raised(ground: Ground, bandwidth: Bandwidth, seeds: Seeds) -> Chosen:
    """Return what is settled at the rule's ε, or at hardly more than the smallest larger one at which anything is."""
    chosen = settle(ground, bandwidth, seeds)
    if isinstance(chosen, Chosen):
        return chosen
    found: Chosen | None = None
    too_small, raised = bandwidth.epsilon, FIRST_RAISE
    while found is None:
        joining = chosen.joining_epsilon / JOINED_HOP**2 if isinstance(chosen, Groups) else 0.0
        too_small = max(too_small, joining)
        trial = settle(ground, Bandwidth(max(raised * chosen.epsilon, joining), "bulk"), seeds)
        raised *= FIRST_RAISE
        if isinstance(trial, Chosen):
            found = trial
        else:
            chosen, too_small = trial, max(too_small, trial.epsilon)
    while too_small * RAISED_WITHIN < found.bandwidth.epsilon:
        between = (too_small * found.bandwidth.epsilon) ** 0.5
        trial = settle(ground, Bandwidth(between, "bulk"), seeds)
        if isinstance(trial, Chosen):
            found = trial
        else:
            too_small = between
    return replace(found, raised_from=bandwidth.epsilon)


def settle(ground: Ground, bandwidth: Bandwidth, seeds: Seeds) -> Chosen | Groups | TooManyApart:
    """Settle which points take part at this ε: all, or all but a few that lie apart where the rule allows that."""
    recipe, epsilon = ground.recipe, bandwidth.epsilon
    n_whole = len(ground.data.members)
    most = max(1.0, MOST_LEFT_OUT * n_whole)
    while True:
        walk = ground.walk(epsilon)
        chosen = _prepared(ground, walk, bandwidth, seeds)
        ground = replace(ground, basis=chosen.basis, calibration=chosen.calibration)
        finding = _examined(chosen, may_leave_out=recipe.leaves_out)
        if isinstance(finding, Whole) and recipe.leaves_out:
            chosen, finding = _solved_and_examined(recipe, chosen)
        if isinstance(finding, Whole):
            return chosen
        if isinstance(finding, Groups):
            return finding
        if n_whole - len(ground.data.members) + len(finding.members) > most:
            # A larger ε may help, until hops of √ε join all points; from then on the fit warns of what carries it.
            helps = finding.are_out_of_reach or not _is_joined(chosen)
            return TooManyApart(epsilon) if helps else chosen
        ground = ground.without(walk, finding)


def _prepared(ground: Ground, walk: Walk, bandwidth: Bandwidth, seeds: Seeds) -> Chosen:
    """Return what the walk is to be solved over at this ε."""
    recipe, solver, squared = ground.recipe, ground.solver, ground.squared
    basis, calibration = ground.basis, ground.calibration
    if solver == "landmarks" and basis is None:
        basis, calibration = _basis(recipe, ground.data, walk, calibration, seeds)
    elif solver == "auto":
        count = _n_eigenvalues(recipe, len(walk.points))
        solver = solver_for(walk, count, recipe.settings.limits.memory, np.random.default_rng(seeds.solve))
    if solver == "stored" and squared is None:
        squared = _stored_squares(recipe, ground.data)
    if solver == "sparse":
        with stage("near pairs", len(walk.points), "rows"):
            squared = sparse_squares(walk.metric, walk.points, walk.epsilon, walk.n_threads)
    return Chosen(
        data=ground.data,
        bandwidth=bandwidth,
        walk=walk,
        solver=solver,
        basis=basis,
        squared=squared,
        calibration=calibration,
    )


def _examined(chosen: Chosen, *, may_leave_out: bool) -> Finding:
    """Say whether hops of the walk reach all points."""
    walk, basis = chosen.walk, chosen.basis
    if basis is not None:
        squared = basis.distances(walk)
        return examine_landmarks(walk, basis.landmarks, squared, may_leave_out=may_leave_out)
    if chosen.bandwidth.tree is not None:  # by which ε was found
        return Whole()
    if chosen.squared is not None:
        return examine_points(walk, chosen.squared, may_leave_out=may_leave_out)
    with stage("connectivity", len(walk.points)):
        return examine_points(walk, None, may_leave_out=may_leave_out)


def _solved_and_examined(recipe: Recipe, chosen: Chosen) -> tuple[Chosen, Whole | Apart]:
    """Say whether a handful of points carries the first coordinate, and return what had to be solved to see it."""
    walk, basis = chosen.walk, chosen.basis
    n_points = len(walk.points)
    if basis is not None:
        solved = _solve_basis(recipe, chosen)
        finding = examine_modes(solved.spectrum, solved.multiplicities, n_points, basis.landmarks)
        return replace(chosen, solved=solved), finding
    if n_points <= MOST_RESAMPLED and chosen.solver == "stored":
        with stage("eigenvectors", unit=""):
            solved = solve(walk, _n_eigenvalues(recipe, n_points), squared=chosen.squared.copy())
        return replace(chosen, solved=solved), examine_modes(solved.spectrum, walk.weights, n_points)
    # Solving a walk over many points is the expensive step; one over a few of them shows what carries it.
    coarse = coarse_walk(walk)
    few = solve(coarse.walk, min(MAX_GAP_COMPONENTS + 1, len(coarse.walk.points) - 1))
    finding = examine_modes(few.spectrum, few.multiplicities, n_points, coarse.landmarks)
    return replace(chosen, coarse=coarse), finding


def _is_joined(chosen: Chosen) -> bool:
    """Say whether hops of √ε join all that the walk was last solved over."""
    walk = chosen.walk
    if chosen.basis is not None:
        squared = chosen.basis.distances(walk)
    elif chosen.coarse is None:
        squared = chosen.squared
    else:
        squared = squared_matrix(walk.metric, chosen.coarse.walk.points, n_threads=walk.n_threads)
    return is_connected(squared, walk.epsilon)


# -- what it is over -----------------------------------------------------------------


def _ground(
    recipe: Recipe,
    data: Data,
    bandwidth: Bandwidth | None,
    calibration: CalibrationRows | None,
    seeds: Seeds,
    squared: NDArray[Any] | None,
) -> tuple[Ground, Bandwidth]:
    """Return how the walk is solved, and ε by the rule, in the order that computes the fewest distances."""
    rule = recipe.settings.epsilon
    solver = _solver(recipe, data, rule, bandwidth)
    if solver == "stored" and squared is None:
        squared = _stored_squares(recipe, data)
    if bandwidth is None:
        with stage("bandwidth", len(data.members)):
            bandwidth = find_bandwidth(rule, recipe, data, seeds, squared)
    ground = Ground(recipe, data, solver, squared, calibration=calibration)
    if solver == "sparse":
        _check_sparse(recipe, data, bandwidth.epsilon, seeds)
    elif solver == "auto":
        count = _n_eigenvalues(recipe, len(data.members))
        walk = ground.walk(bandwidth.epsilon)
        if (
            solver_for(walk, count, recipe.settings.limits.memory, np.random.default_rng(seeds.solve))
            == "stored"
        ):
            ground = replace(ground, solver="stored", squared=_stored_squares(recipe, data))
    if solver == "landmarks" and not (recipe.selector and recipe.selector.depends_on_epsilon):
        walk = ground.walk(bandwidth.epsilon)
        basis, calibration = _basis(recipe, data, walk, calibration, seeds)
        ground = replace(ground, basis=basis, calibration=calibration)
    return ground, bandwidth


def _solver(recipe: Recipe, data: Data, rule: float | str, bandwidth: Bandwidth | None) -> str:
    """Return how the walk is solved: "landmarks", "stored", "sparse", "streamed", or "auto" where ε decides."""
    settings, members = recipe.settings, data.members
    if recipe.kind == "exact":
        solver = "stored" if settings.keep_distances else settings.solver
        # Where ε takes all distances to find, they are kept if they fit.
        takes_all = rule == "connected" and not data.metric.is_euclidean
        takes_all = takes_all or (rule == "bulk" and data.metric.is_slow)
        count = eigenvalues_for(settings.n_components, len(members), extra=1)
        needed = stored_bytes(len(members), members.dtype.itemsize, count)
        fits = needed <= settings.limits.memory
        return "stored" if solver == "auto" and takes_all and bandwidth is None and fits else solver
    if not recipe.is_taught:
        return "landmarks"
    if recipe.reference_size >= len(members):
        return "stored"
    count = _n_eigenvalues(recipe, len(members))
    can_pass = recipe.n_passes > 0 and fits_in_passes(len(members), count, settings.limits.memory)
    return "auto" if can_pass and members.are_here else "landmarks"


def _basis(
    recipe: Recipe, data: Data, walk: Walk, calibration: CalibrationRows | None, seeds: Seeds
) -> tuple[Selection, CalibrationRows | None]:
    """Choose the landmarks that the walk is solved over; return them and the rows that they were not chosen from."""
    if recipe.is_taught:  # medoids that stand for more points than can be solved
        medoids = KMedoids(recipe.reference_size, max_iter=REFERENCE_ITERATIONS)
        return Selection(medoids.select(walk, np.random.default_rng(seeds.solve))), calibration
    if calibration is not None:
        held = calibration.held[data.used]
        n_free = len(held) - int(held.sum())
        selector = sized_selector(recipe, data, n_free)
        if selector.n_landmarks is not None and n_free >= selector.n_landmarks:
            chosen = select(selector, walk, np.random.default_rng(seeds.select), held)
            if calibration_is_worth_it(calibration, data, chosen.landmarks):
                return chosen, calibration
    selector = sized_selector(recipe, data, len(data.members))
    return select(selector, walk, np.random.default_rng(seeds.select)), None


def _solve_basis(recipe: Recipe, chosen: Chosen) -> SolvedMap:
    """Solve the walk over landmarks."""
    basis = cast(Selection, chosen.basis)
    n_landmarks = len(basis.landmarks.indices)
    count = _n_eigenvalues(recipe, n_landmarks)
    if recipe.is_taught:
        count = min(n_landmarks - 1, max(count, BOUNDING_MODES))
    with stage("eigenproblem", unit=""):
        return solve(chosen.walk, count, basis.landmarks, basis.distances(chosen.walk))


def solve_walk(recipe: Recipe, chosen: Chosen, seeds: Seeds) -> SolvedMap:
    """Solve the walk that coordinates are taken from, once; a bound on its error comes with it where there is one."""
    walk, squared = chosen.walk, chosen.squared
    if chosen.basis is not None:
        solved = _solve_basis(recipe, chosen) if chosen.solved is None else chosen.solved
        if not recipe.is_taught:
            return solved
        count = _n_eigenvalues(recipe, len(chosen.basis.landmarks.indices))
        return bounded(solved, np.random.default_rng(seeds.solve)).leading(count)
    if chosen.solved is not None:
        return chosen.solved
    count = _n_eigenvalues(recipe, len(walk.points))
    with stage("reference map" if recipe.is_taught else "eigenvectors", unit=""):
        if chosen.solver != "streamed":
            keeps = recipe.settings.keep_distances
            return solve(walk, count, squared=squared.copy() if keeps else squared)
        effort = Effort(
            recipe.settings.limits, recipe.n_passes, coordinates_for(recipe.settings.n_components)
        )
        return solve_in_passes(walk, count, effort, np.random.default_rng(seeds.solve))


def _n_eigenvalues(recipe: Recipe, n_points: int) -> int:
    """Return how many eigenpairs of the walk to solve for: a few more than there will be coordinates."""
    extra = {"exact": 1, "landmark": MAX_GAP_COMPONENTS}.get(recipe.kind, REFERENCE_EXTRA)
    return eigenvalues_for(recipe.settings.n_components, n_points, extra)


def _stored_squares(recipe: Recipe, data: Data) -> NDArray[Any]:
    """Return the d² between all members, or raise where they do not fit into memory."""
    settings, members = recipe.settings, data.members
    if recipe.kind == "exact":
        needed = stored_bytes(len(members), members.dtype.itemsize, _n_eigenvalues(recipe, len(members)))
        if settings.keep_distances:
            needed += float(len(members)) ** 2 * members.dtype.itemsize
        check_memory("stored", needed, settings.limits.memory)
    with stage("distances", len(members), "rows"):
        return squared_matrix(data.metric, members, n_threads=settings.n_threads)


def _check_sparse(recipe: Recipe, data: Data, epsilon: float, seeds: Seeds) -> None:
    """Raise where a sparse kernel that was asked for does not fit into memory."""
    members = data.members
    near = near_fraction(data.metric, members, epsilon, np.random.default_rng(seeds.solve))
    needed = sparse_bytes(len(members), members.dtype.itemsize, near)
    check_memory("sparse", needed, recipe.settings.limits.memory)


def find_bandwidth(
    rule: float | str, recipe: Recipe, data: Data, seeds: Seeds, squared: NDArray[Any] | None = None
) -> Bandwidth:
    """Return ε of the members by a rule, from their d² if these are stored."""
    weights, rng, n_threads = (
        data.member_weights,
        np.random.default_rng(seeds.bandwidth),
        recipe.settings.n_threads,
    )
    if squared is not None:
        return choose_bandwidth(rule, StoredSquares(), StoredPoints(squared), weights, rng, n_threads)
    members = data.members.brought(recipe.most_gathered) if isinstance(rule, str) else data.members
    if rule == "connected" and not members.are_here:
        return cast(PointsElsewhere, members).connecting_bandwidth()
    return choose_bandwidth(rule, data.metric, members, weights, rng, n_threads)


def wider_bandwidth(recipe: Recipe, chosen: Chosen, seeds: Seeds) -> Bandwidth | None:
    """Return ε of the rule "connected", to try when a tolerance is refused at that of "bulk"; None if not larger.

    With few points, those between basins have hardly a neighbour within √ε of the rule "bulk", and no other point
    predicts them.
    """
    if not recipe.leaves_out or chosen.bandwidth.rule == "connected":
        return None
    wide = find_bandwidth("connected", recipe, chosen.data, seeds)
    return wide if wide.epsilon > chosen.bandwidth.epsilon else None


def leave_out_isolated(recipe: Recipe, data: Data, seeds: Seeds) -> tuple[Data, Bandwidth | None]:
    """Leave out the most isolated share of the points where the setting ``outliers`` allows it; ε is known then."""
    settings = recipe.settings
    if not settings.outliers:
        return data, None
    with stage("outliers", len(data.members)):
        bandwidth, stay = leave_out_outliers(
            settings.epsilon,
            data.metric,
            data.members,
            data.member_weights,
            settings.outliers,
            np.random.default_rng(seeds.bandwidth),
            settings.n_threads,
        )
    return data.without(np.flatnonzero(~stay)), bandwidth
