"""What is settled before a map is solved: ε, the points that take part, and the landmarks. Nothing is fitted twice.

    rule ──► ε ──► examine the walk ──► Connected                       settled
                        │  ▲  ▲
                        │  │  └──────── Apart, few and no state: leave them out
                        │  └─────────── Groups, states or too many apart: keep them, at a bandwidth of their own
                        └─────────────► Groups, with an ε that the user gave: an error

Only the rules "bulk" and "local" leave points out or keep states (:mod:`ldmaps.fit.states`): their ε is that of a
typical point. Where points cannot have a bandwidth of their own, or too many lie apart even so, ε is raised, and the
smallest that will do is found. Landmarks by k-medoids do not depend on ε, and distances that were stored stay what they
are, so examining another ε computes hardly any.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.pairwise import nearest
from ldmaps.diffusion.solver_choice import sparse_squares
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS
from ldmaps.diffusion.walk import FEWEST_POINTS, Groups, Walk, is_connected, stored_spanning_tree
from ldmaps.fit.data import Data
from ldmaps.fit.examine import Apart, Connected, Finding, examine_landmarks, examine_modes, examine_points
from ldmaps.fit.ground import (
    Ground,
    choose_basis,
    find_bandwidth,
    keep_states,
    lay_ground,
    n_eigenvalues,
    solve_basis,
    stored_squares,
)
from ldmaps.fit.hold_out import HeldOut, TooFewIndependent, hold_out_draws, memory_of_rows
from ldmaps.fit.recipe import Recipe, sized_selector
from ldmaps.fit.reference import solver_for
from ldmaps.fit.resample import MOST_RESAMPLED, CoarseWalk, coarse_walk
from ldmaps.fit.select import CalibrationRows, Selection, select
from ldmaps.fit.settings import Seeds
from ldmaps.fit.solve import SolvedMap, eigenvalues_for, solve
from ldmaps.fit.states import JOINED_HOP, MOST_LEFT_OUT, StateSize, holds_state
from ldmaps.metrics.base import squared_matrix
from ldmaps.progress import stage

#: Points that lie apart, and others, that are compared at most to see whether the former are a state.
MOST_COMPARED = 1000
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
    held: tuple[
        HeldOut, ...
    ] = ()  # draws of members that a tolerance holds out, to be used one after the other
    groups: NDArray[np.intp] | None = None  # (n,): which group each member is in, where no hop joins all
    all_squared: NDArray[Any] | None = None  # d² between all members, those left out too, where they are kept

    @property
    def rule_epsilon(self) -> float:
        """What the rule for ε gave."""
        return self.bandwidth.epsilon if self.raised_from is None else self.raised_from


@dataclass(frozen=True)
class TooManyApart:
    """More points lie apart than may be left out."""

    epsilon: float


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
    ground, bandwidth = lay_ground(recipe, data, bandwidth, calibration, seeds, squared)
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
        return with_held_out(recipe, chosen, seeds)
    return replace(chosen, all_squared=ground.squared) if recipe.settings.keep_distances else chosen


def with_held_out(recipe: Recipe, chosen: Chosen, seeds: Seeds) -> Chosen:
    """Return the same with points that a tolerance holds out, or raise where rows are worth too few."""
    calibrating, certifying = map(np.random.default_rng, (seeds.calibrate, seeds.certify))
    memory = memory_of_rows(chosen.data, calibrating, recipe.settings.n_threads)
    held = hold_out_draws(len(chosen.data.members), memory, certifying)
    if isinstance(held, TooFewIndependent):
        raise held.error(float(cast(float, recipe.settings.tolerance)))
    return replace(chosen, held=held)


def _settled_or_raised(ground: Ground, bandwidth: Bandwidth, seeds: Seeds) -> Chosen:
    """Return what is settled at the rule's ε, or at hardly more than the smallest larger one at which anything is."""
    chosen = settle(ground, bandwidth, seeds)
    if isinstance(chosen, Chosen) and not _leaves_out_state(ground, chosen):
        return chosen
    if not ground.keeps_states and len(ground.data.members) >= FEWEST_POINTS:
        with_states = settle(keep_states(ground, bandwidth.epsilon), bandwidth, seeds)
        if isinstance(with_states, Chosen):
            return with_states
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
    n_connected = len(ground.data.members)
    most = max(1.0, MOST_LEFT_OUT * n_connected)
    while True:
        walk = ground.walk(epsilon)
        chosen = _prepared(ground, walk, bandwidth, seeds)
        ground = replace(ground, basis=chosen.basis, calibration=chosen.calibration)
        finding = _examined(chosen, may_leave_out=recipe.leaves_out, keeps_states=ground.keeps_states)
        if isinstance(finding, Connected) and recipe.leaves_out:
            chosen, finding = _solved_and_examined(recipe, chosen)
        if isinstance(finding, Connected):
            return _with_groups(chosen) if ground.keeps_states else chosen
        if isinstance(finding, Groups):
            return finding
        if n_connected - len(ground.data.members) + len(finding.members) > most:
            # A larger ε may help, until hops of √ε join all points; from then on the fit warns of what carries it.
            helps = finding.are_out_of_reach or not (ground.keeps_states or _is_joined(chosen))
            return TooManyApart(epsilon) if helps else chosen
        ground = ground.without(walk, finding)


def _prepared(ground: Ground, walk: Walk, bandwidth: Bandwidth, seeds: Seeds) -> Chosen:
    """Return what the walk is to be solved over at this ε."""
    recipe, solver, squared = ground.recipe, ground.solver, ground.squared
    basis, calibration = ground.basis, ground.calibration
    if solver == "landmarks" and basis is None:
        basis, calibration = choose_basis(recipe, ground.data, walk, calibration, seeds)
    elif solver == "auto":
        count = n_eigenvalues(recipe, len(walk.points))
        solver = solver_for(walk, count, recipe.settings.limits.memory, np.random.default_rng(seeds.solve))
    if solver == "stored" and squared is None:
        squared = stored_squares(recipe, ground.data)
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


def _leaves_out_state(ground: Ground, chosen: Chosen) -> bool:
    """Say whether some of the points that are left out belong together by their own density."""
    data, walk = ground.data, chosen.walk
    left_out = np.flatnonzero(chosen.data.weights[data.used] == 0)
    weights = data.member_weights
    size = StateSize.of(len(weights), float(weights.sum()))
    if ground.keeps_states or not data.points.are_here or weights[left_out].sum() < size.smallest:
        return False
    some = left_out[:: -(-len(left_out) // MOST_COMPARED)]
    masses = weights[some] * (weights[left_out].sum() / weights[some].sum())
    apart = data.members.take(some)
    others = walk.points.take(np.arange(0, len(walk.points), -(-len(walk.points) // MOST_COMPARED)))
    squared = squared_matrix(walk.metric, apart, n_threads=walk.n_threads)
    to_others = nearest(walk.metric, apart, others, walk.n_threads)[1]
    return holds_state(squared, masses, to_others, size)


def _with_groups(chosen: Chosen) -> Chosen:
    """Return the same with the group of each member, where no hop joins all."""
    groups = _groups(chosen)
    if groups is None:
        return chosen
    walk, solved = replace(chosen.walk, n_groups=int(groups.max()) + 1), chosen.solved
    return replace(
        chosen, groups=groups, walk=walk, solved=None if solved is None else replace(solved, walk=walk)
    )


def _groups(chosen: Chosen) -> NDArray[np.intp] | None:
    """Return the group of each member, the heaviest first, where no hop joins all; None if the walk is one."""
    walk, basis = chosen.walk, chosen.basis
    hop, cells = JOINED_HOP**2 * walk.epsilon, None
    if basis is not None:
        squared, cells = basis.distances(walk), basis.landmarks.cells_of(np.arange(len(walk.points)))
    elif chosen.coarse is None:
        squared = chosen.squared
    else:
        squared = squared_matrix(walk.metric, chosen.coarse.walk.points, n_threads=walk.n_threads)
        cells = chosen.coarse.cells
    if is_connected(squared, hop):
        return None
    groups = stored_spanning_tree(np.asarray(squared, dtype=np.float64)).components(hop)
    groups = groups if cells is None else groups[cells]
    order = np.argsort(-np.bincount(groups, weights=walk.weights), kind="stable")
    return np.asarray(np.argsort(order)[groups], dtype=np.intp)


def _examined(chosen: Chosen, *, may_leave_out: bool, keeps_states: bool) -> Finding:
    """Say whether hops of the walk reach all points."""
    walk, basis = chosen.walk, chosen.basis
    if basis is not None:
        squared = basis.distances(walk)
        return examine_landmarks(
            walk, basis.landmarks, squared, may_leave_out=may_leave_out, keeps_states=keeps_states
        )
    if chosen.bandwidth.tree is not None:  # by which ε was found
        return Connected()
    if chosen.squared is not None:
        return examine_points(walk, chosen.squared, may_leave_out=may_leave_out, keeps_states=keeps_states)
    with stage("connectivity", len(walk.points)):
        return examine_points(walk, None, may_leave_out=may_leave_out, keeps_states=keeps_states)


def _solved_and_examined(recipe: Recipe, chosen: Chosen) -> tuple[Chosen, Connected | Apart]:
    """Say whether a handful of points carries the first coordinate, and return what had to be solved to see it."""
    walk, basis = chosen.walk, chosen.basis
    n_points = len(walk.points)
    if basis is not None:
        solved = solve_basis(recipe, walk, basis)
        finding = examine_modes(solved.spectrum, solved.multiplicities, n_points, basis.landmarks)
        return replace(chosen, solved=solved), finding
    if n_points <= MOST_RESAMPLED and chosen.solver == "stored":
        with stage("reference map" if recipe.is_taught else "eigenvectors", unit=""):
            solved = solve(walk, n_eigenvalues(recipe, n_points), squared=chosen.squared.copy())
        return replace(chosen, solved=solved), examine_modes(solved.spectrum, walk.weights, n_points)
    # Solving a walk over many points is the expensive step; one over a few of them shows what carries it.
    coarse = coarse_walk(walk)
    coarse_map = solve(coarse.walk, min(MAX_GAP_COMPONENTS + 1, len(coarse.walk.points) - 1))
    finding = examine_modes(coarse_map.spectrum, coarse_map.multiplicities, n_points, coarse.landmarks)
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


def wider_bandwidth(recipe: Recipe, chosen: Chosen, seeds: Seeds) -> Bandwidth | None:
    """Return ε of the rule "connected", to try when a tolerance is refused at that of "bulk"; None if not larger.

    With few points, those between basins have hardly a neighbour within √ε of the rule "bulk", and no other point
    predicts them.
    """
    has_own_scales = chosen.groups is not None or chosen.data.metric.has_local_scales
    if not recipe.leaves_out or has_own_scales or chosen.bandwidth.rule == "connected":
        return None
    wide = find_bandwidth("connected", recipe, chosen.data, seeds)
    return wide if wide.epsilon > chosen.bandwidth.epsilon else None
