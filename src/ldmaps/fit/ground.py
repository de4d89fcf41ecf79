"""What does not change with ε: the data, how their walk is solved, and what was computed of them before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth, choose_bandwidth, leave_out_outliers, local_bandwidths
from ldmaps.diffusion.pairwise import local_factors
from ldmaps.diffusion.solver_choice import check_memory, near_fraction, sparse_bytes, stored_bytes
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError, Named
from ldmaps.fit.data import Data
from ldmaps.fit.examine import Apart
from ldmaps.fit.recipe import Recipe, sized_selector
from ldmaps.fit.reference import (
    BOUNDING_MODES,
    REFERENCE_EXTRA,
    REFERENCE_ITERATIONS,
    fits_in_passes,
    solver_for,
)
from ldmaps.fit.resample import coarse_walk
from ldmaps.fit.select import CalibrationRows, Selection, calibration_is_worth_it, select
from ldmaps.fit.settings import Seeds
from ldmaps.fit.solve import SolvedMap, eigenvalues_for, solve
from ldmaps.fit.states import StateSize, own_bandwidths
from ldmaps.landmarks import KMedoids
from ldmaps.landmarks.base import PointsElsewhere, assign
from ldmaps.metrics.base import squared_matrix
from ldmaps.metrics.precomputed import StoredPoints, StoredSquares
from ldmaps.progress import stage


@dataclass(frozen=True)
class Ground:
    """Data, how their walk is solved, and what was computed of them before."""

    recipe: Recipe
    data: Data
    solver: str
    squared: NDArray[Any] | None = None  # d² between all members, where they are stored
    basis: Selection | None = None  # landmarks that the walk is solved over, where these do not depend on ε
    calibration: CalibrationRows | None = None
    keeps_states: bool = False  # whether groups that no hop joins belong to the walk

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


def keep_states(ground: Ground, epsilon: float) -> Ground:
    """Return the same with groups as parts of the walk, and a bandwidth of their own for sparse ones.

    The bandwidth of the largest group stays ε, and so does that of points as dense as these.
    """
    walk, data = ground.walk(epsilon), ground.data
    landmarks = coarse_walk(walk).landmarks if ground.basis is None else ground.basis.landmarks
    if landmarks is None:
        indices, masses, spreads = np.arange(len(walk.points)), walk.weights, np.zeros(len(walk.points))
    else:
        indices, masses, spreads = landmarks.indices, landmarks.multiplicities, landmarks.mean_squares
    nodes = walk.points.take(indices)
    squared = squared_matrix(walk.metric, nodes, n_threads=walk.n_threads)
    size = StateSize.of(len(walk.points), float(masses.sum()))
    bandwidths = own_bandwidths(squared, masses, spreads, epsilon, size)
    ground = replace(ground, keeps_states=True)
    if not can_have_local_scales(data) or bool((bandwidths == epsilon).all()):
        return ground
    return _scaled(ground, indices, np.sqrt(epsilon / bandwidths), epsilon)


def can_have_local_scales(data: Data) -> bool:
    """Say whether points may have bandwidths of their own: if all are here, and a file can describe their metric."""
    is_all_here = data.points.are_here and (data.sampled_rows is None or data.stride > 0)
    return is_all_here and data.metric.fits_into_file


def _scaled(
    ground: Ground, indices: NDArray[np.intp], factors: NDArray[np.float64], epsilon: float
) -> Ground:
    """Return the same with distances in local units, given the factors of some members."""
    data, n_threads = ground.data, ground.recipe.settings.n_threads
    nodes = data.members.take(indices)
    all_factors = local_factors(data.metric, data.points, nodes, factors, n_threads)
    all_factors[data.rows_of(indices)] = factors
    own = all_factors[data.used]
    squared = None if ground.squared is None else scaled_squares(ground.squared, own)
    scaled = replace(ground, data=data.with_local_scales(all_factors), squared=squared)
    if ground.basis is None:
        return scaled
    walk = scaled.walk(epsilon)
    basis = Selection(assign(walk, ground.basis.landmarks.indices))
    return replace(scaled, basis=basis.measured(walk))


def scaled_squares(squared: NDArray[Any], factors: NDArray[np.float64]) -> NDArray[Any]:
    """Return stored d² of all pairs in local units."""
    narrow = factors.astype(squared.dtype)
    scaled = np.outer(narrow, narrow)
    scaled *= squared
    return scaled


def _scale_locally(ground: Ground, epsilon: float) -> Ground:
    """Return the same with a bandwidth of its own for each point: the rule "local"."""
    data, settings = ground.data, ground.recipe.settings
    if not can_have_local_scales(data):
        raise InvalidInputError(
            Named("epsilon", "local"),
            " needs all points in this process, and a metric that is not a Python function; pass an array of up to "
            "some hundred thousand points, or use ",
            Named("epsilon", "bulk"),
        )
    indices, bandwidths = local_bandwidths(data.metric, data.members, data.member_weights, settings.n_threads)
    indices, first = np.unique(indices, return_index=True)
    ground = _scaled(ground, indices, np.sqrt(epsilon / bandwidths[first]), epsilon)
    return replace(ground, keeps_states=True)


def lay_ground(
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
        squared = stored_squares(recipe, data)
    if bandwidth is None:
        with stage("bandwidth", len(data.members)):
            bandwidth = find_bandwidth(rule, recipe, data, seeds, squared)
    ground = Ground(recipe, data, solver, squared, calibration=calibration)
    if rule == "local":
        ground = _scale_locally(ground, bandwidth.epsilon)
        data = ground.data
    if solver == "sparse":
        _check_sparse(recipe, data, bandwidth.epsilon, seeds)
    elif solver == "auto":
        count = n_eigenvalues(recipe, len(data.members))
        walk = ground.walk(bandwidth.epsilon)
        if (
            solver_for(walk, count, recipe.settings.limits.memory, np.random.default_rng(seeds.solve))
            == "stored"
        ):
            ground = replace(ground, solver="stored", squared=stored_squares(recipe, ground.data))
    if solver == "landmarks" and not (recipe.selector and recipe.selector.depends_on_epsilon):
        walk = ground.walk(bandwidth.epsilon)
        basis, calibration = choose_basis(recipe, data, walk, calibration, seeds)
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
    count = n_eigenvalues(recipe, len(members))
    can_pass = recipe.n_passes > 0 and fits_in_passes(len(members), count, settings.limits.memory)
    return "auto" if can_pass and members.are_here else "landmarks"


def choose_basis(
    recipe: Recipe, data: Data, walk: Walk, calibration: CalibrationRows | None, seeds: Seeds
) -> tuple[Selection, CalibrationRows | None]:
    """Choose the landmarks that the walk is solved over; return them and the rows that they were not chosen from."""
    if recipe.is_taught:  # medoids that stand for more points than can be solved
        medoids = KMedoids(recipe.reference_size, max_iter=REFERENCE_ITERATIONS)
        chosen = Selection(medoids.select(walk, np.random.default_rng(seeds.medoids)))
        return chosen.measured(walk), calibration
    if calibration is not None:
        held = calibration.held[data.used]
        n_free = len(held) - int(held.sum())
        selector = sized_selector(recipe, data, n_free)
        if selector.n_landmarks is not None and n_free >= selector.n_landmarks:
            chosen = select(selector, walk, np.random.default_rng(seeds.select), held)
            if calibration_is_worth_it(calibration, data, chosen.landmarks):
                return chosen.measured(walk), calibration
    selector = sized_selector(recipe, data, len(data.members))
    return select(selector, walk, np.random.default_rng(seeds.select)).measured(walk), None


def solve_basis(recipe: Recipe, walk: Walk, basis: Selection) -> SolvedMap:
    """Solve the walk over the landmarks that were chosen for it."""
    n_landmarks = len(basis.landmarks.indices)
    count = n_eigenvalues(recipe, n_landmarks)
    if recipe.is_taught:
        count = min(n_landmarks - 1, max(count, BOUNDING_MODES))
    with stage("eigenproblem", unit=""):
        return solve(walk, count, basis.landmarks, basis.distances(walk).copy())  # which solving overwrites


def n_eigenvalues(recipe: Recipe, n_points: int) -> int:
    """Return how many eigenpairs of the walk to solve for: a few more than there will be coordinates."""
    extra = {"exact": 1, "landmark": MAX_GAP_COMPONENTS}.get(recipe.kind, REFERENCE_EXTRA)
    return eigenvalues_for(recipe.settings.n_components, n_points, extra)


def stored_squares(recipe: Recipe, data: Data) -> NDArray[Any]:
    """Return the d² between all members, or raise where they do not fit into memory."""
    settings, members = recipe.settings, data.members
    if recipe.kind == "exact":
        needed = stored_bytes(len(members), members.dtype.itemsize, n_eigenvalues(recipe, len(members)))
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
