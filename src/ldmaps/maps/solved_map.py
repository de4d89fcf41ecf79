"""The solved map: connectivity check → kernel → spectrum → embedder, in one place.

All N points make the exact map, M landmarks with their cells the landmark map, and R ≫ M medoids a reference for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ldmaps.diffusion.pairwise import gaussian_kernel, nearest
from ldmaps.diffusion.spectrum import (
    MAX_GAP_COMPONENTS,
    Spectrum,
    check_extensible,
    check_time,
    solve_spectrum,
    spectral_gap,
    warn_of_standstill,
)
from ldmaps.diffusion.walk import (
    BULK_LANDMARK_HOP,
    FEWEST_POINTS,
    REACH,
    SMALL_GROUP,
    Walk,
    check_bulk,
    check_landmarks_connected,
    check_points_connected,
    is_connected,
    minimum_spanning_tree,
)
from ldmaps.errors import DisconnectedError, InvalidInputError, Named
from ldmaps.extension.embedder import Embedder, OnlineStep
from ldmaps.extension.nystrom import nystrom_coefficients
from ldmaps.landmarks import Given, Landmarks, LandmarkSelector
from ldmaps.landmarks.base import DEFAULT_LANDMARKS, PointsElsewhere, assign, group_neighbours, settle
from ldmaps.landmarks.k_medoids import sample_size
from ldmaps.maps.fitted_map import Solution
from ldmaps.metrics.base import Points, squared_matrix
from ldmaps.metrics.precomputed import StoredPoints, StoredSquares
from ldmaps.progress import stage
from ldmaps.quality.diagnosis import handfuls
from ldmaps.quality.sampling import coordinates_kept

if TYPE_CHECKING:
    from ldmaps.maps.training import SampledMap

#: Landmarks that lie apart are not replaced if they are at most this share of all.
FEW_LANDMARKS = 0.05


@dataclass(frozen=True)
class SolvedMap:
    """Eigenpairs of a walk over R of the N training points."""

    walk: Walk  # the N training points and the walk's settings
    indices: NDArray[np.intp]  # (R,): which training points the map is made of
    points: Points  # these R points
    multiplicities: NDArray[np.float64]  # (R,): c
    #: (R,): how far each point's cell reaches; 0 where every point stands for itself
    squared_radii: NDArray[np.float64]
    spectrum: Spectrum
    solution: Solution = field(default_factory=lambda: Solution("stored"))

    @property
    def is_exact(self) -> bool:
        """Whether the map is made of all training points."""
        return len(self.indices) == len(self.walk.points)

    @property
    def own_coordinates(self) -> NDArray[np.float64]:
        """λᵗψ of the R points, of shape (R, k)."""
        return np.asarray(self.spectrum.vectors * self.spectrum.eigenvalues**self.walk.time)

    def leading(self, n_components: int) -> SolvedMap:
        """Return the map into the first ``n_components`` coordinates alone."""
        return replace(
            self, spectrum=self.spectrum.leading(n_components), solution=self.solution.leading(n_components)
        )

    def kept(self, n_components: int | str, sampled: SampledMap | None) -> SolvedMap:
        """Return the map into as many coordinates as were asked for, or as resamples and the gap say."""
        values, dtype = self.spectrum.eigenvalues, self.points.dtype
        if n_components != "gap":
            count = int(n_components)
        elif sampled is None:
            count = spectral_gap(values)
        else:
            with stage("resampling", unit=""):
                count = coordinates_kept(values, sampled.judged)
        leading = self.leading(count)
        warn_of_standstill(self.spectrum, self.multiplicities, dtype)
        check_extensible(leading.spectrum.eigenvalues, dtype)
        check_time(leading.spectrum.eigenvalues, self.walk.time)
        return leading

    def embedder(self) -> Embedder:
        """Return the map's own Nyström extension."""
        step = OnlineStep(
            coefficients=nystrom_coefficients(self.spectrum, self.walk.time),
            source_weights=self.spectrum.source_weights,
            bandwidth=self.walk.epsilon,
        )
        return Embedder.build(self.walk.metric, self.points, self.walk.epsilon, step, self.squared_radii)

    def coordinates(self, wanted: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return λᵗψ at some training points, of shape (len(wanted), k)."""
        places = np.full(len(self.walk.points), -1, dtype=np.intp)
        places[self.indices] = np.arange(len(self.indices))
        places = places[wanted]
        is_own = places >= 0
        out = np.empty((len(wanted), len(self.spectrum.eigenvalues)))
        out[is_own] = self.own_coordinates[places[is_own]]
        if not is_own.all():
            rest = self.walk.points.take(wanted[~is_own])
            out[~is_own] = self.embedder().extend(rest, self.walk.n_threads).coordinates
        return out


def eigenvalues_for(n_components: int | str, n_points: int, extra: int) -> int:
    """Return how many eigenpairs to solve for, ``extra`` beyond the coordinates, or raise where points are too few."""
    most = n_points - 1
    if n_components == "gap":
        return min(most, MAX_GAP_COMPONENTS + 1)
    count = int(n_components)
    if count > most:
        raise InvalidInputError(
            Named("n_components", count),
            f" needs at least {count + 1} landmarks (the trivial eigenvector takes one), but there are "
            f"{n_points}; lower ",
            Named("n_components"),
            " or use more points or landmarks",
        )
    return min(most, count + extra)


def coordinates_for(n_components: int | str) -> int | Callable[[NDArray[np.float64]], int]:
    """Return how many coordinates were asked for, or the rule that finds their number in the eigenvalues."""
    return spectral_gap if n_components == "gap" else int(n_components)


def solve(
    walk: Walk, n_eigenvalues: int, landmarks: Landmarks | None = None, squared: Any = None
) -> SolvedMap:
    """Solve the walk over all points, or over landmarks that stand for their cells."""
    if landmarks is None:
        indices, points = np.arange(len(walk.points)), walk.points
        multiplicities, radii = walk.weights, np.zeros(len(points))
    else:
        indices, points = landmarks.indices, walk.points.take(landmarks.indices)
        multiplicities, radii = landmarks.multiplicities, landmarks.squared_radii
    if squared is None:
        squared = squared_matrix(walk.metric, points, n_threads=walk.n_threads)
    if landmarks is not None:
        if walk.leaves_out:
            _check_landmarks_in_bulk(walk, landmarks, squared)
        check_landmarks_connected(squared, radii, walk.epsilon, obeys_triangle=walk.metric.is_true_metric)
    elif not walk.is_connected:
        check_points_connected(walk, squared)
    gaussian_kernel(squared.data[None] if issparse(squared) else squared, walk.epsilon, walk.n_threads)
    spectrum = solve_spectrum(
        squared, multiplicities, n_eigenvalues, alpha=walk.alpha, n_threads=walk.n_threads
    )
    if walk.leaves_out:
        _check_carriers(walk, landmarks, spectrum)
    # A walk over landmarks is another one than that over all points, by an unknown amount.
    solution = Solution("landmarks")
    if landmarks is None:
        solver = "sparse" if issparse(squared) else "stored"
        solution = Solution(solver, error_bound=np.zeros(n_eigenvalues))
    return SolvedMap(walk, indices, points, multiplicities, radii, spectrum, solution)


def _check_landmarks_in_bulk(walk: Walk, landmarks: Landmarks, squared: NDArray[Any]) -> None:
    """Raise when small groups of landmarks lie apart, or a few points from all; ``outside`` are these points."""
    if not is_connected(squared, BULK_LANDMARK_HOP**2 * walk.epsilon):
        tree = minimum_spanning_tree(StoredSquares(), StoredPoints(np.asarray(squared, dtype=np.float64)))
        try:
            check_bulk(tree, landmarks.multiplicities, walk.epsilon, len(walk.points), landmarks=True)
        except DisconnectedError as error:
            raise _without_cells(error, error.outside, landmarks) from None
    farthest, reach = float(landmarks.squared_radii.max()), REACH**2 * walk.epsilon
    far = landmarks.beyond(reach) if farthest > reach else np.empty(0, dtype=np.intp)
    if 0 < len(far) <= SMALL_GROUP * len(walk.points):  # of more, landmarks are few
        sizes = [len(walk.points) - len(far), *([1] * len(far))]
        apart_from_all = DisconnectedError(sizes, walk.epsilon, farthest, REACH)
        apart_from_all.outside, apart_from_all.remaining = far, landmarks.indices
        raise apart_from_all


def _check_carriers(walk: Walk, landmarks: Landmarks | None, spectrum: Spectrum) -> None:
    """Raise when a handful of points carries the first coordinate; those of all such modes are ``outside``."""
    multiplicities = walk.weights if landmarks is None else landmarks.multiplicities
    found = handfuls(spectrum.vectors, multiplicities, len(walk.points))
    if 0 not in found or len(walk.points) < FEWEST_POINTS:
        return
    carriers = np.unique(np.concatenate(list(found.values())))
    sizes = [len(multiplicities) - len(carriers), *([1] * len(carriers))]
    error = DisconnectedError(sizes, walk.epsilon, walk.epsilon, REACH)
    error.outside = carriers
    raise error if landmarks is None else _without_cells(error, carriers, landmarks)


def _without_cells(
    error: DisconnectedError, apart: NDArray[np.intp], landmarks: Landmarks
) -> DisconnectedError:
    """Return an error with the points of some landmarks' cells as ``outside``, and the other landmarks."""
    is_apart = np.isin(np.arange(len(landmarks.indices)), apart)
    error.outside = landmarks.points_in(is_apart)
    if is_apart.mean() <= FEW_LANDMARKS:
        error.remaining = landmarks.indices[~is_apart]
    return error


def select_landmarks(
    selector: LandmarkSelector, walk: Walk, rng: np.random.Generator, held: NDArray[np.bool_] | None = None
) -> tuple[Landmarks, NDArray[Any] | None]:
    """Choose landmarks, neighbours side by side; return them and, if that took them, the d² between them."""
    with stage("landmarks", unit=""):
        if isinstance(selector, Given):  # there is nothing to choose, and their order is kept
            return selector.select(walk, rng), None
        landmarks = selector.select(walk, rng) if held is None else _among_others(selector, walk, rng, held)
        if len(landmarks.indices) == len(walk.points):  # all points stay as they came
            return landmarks, None
        return group_neighbours(landmarks, walk)


def _among_others(
    selector: LandmarkSelector, walk: Walk, rng: np.random.Generator, held: NDArray[np.bool_]
) -> Landmarks:
    """Choose landmarks without a look at points that are held out, which then belong to the nearest like the others."""
    others, rest = np.flatnonzero(~held), np.flatnonzero(held)
    most = sample_size(selector.n_landmarks or DEFAULT_LANDMARKS)
    if len(others) > most and not selector.needs_all_points:  # it would draw as many itself
        drawn = np.sort(rng.choice(others, most, replace=False))
        return assign(walk, drawn[selector.select(walk.take(drawn), rng).indices])
    chosen = selector.select(walk.take(others), rng)
    indices = others[chosen.indices]
    if isinstance(walk.points, PointsElsewhere):
        return assign(walk, indices)
    assignment = np.empty(len(held), dtype=np.intp)
    squared = np.empty(len(held), dtype=chosen.squared_distances.dtype)
    assignment[others], squared[others] = chosen.assignment, chosen.squared_distances
    places = walk.points.take(indices)
    assignment[rest], squared[rest] = nearest(walk.metric, walk.points.take(rest), places, walk.n_threads)
    return settle(indices, assignment, squared, walk.weights)


@dataclass(frozen=True)
class LandmarkFit:
    """Landmarks and the map over them."""

    #: with the cells of where the embedder measures from; their indices are the training points that are the
    #: landmarks, or stand for them where the step has moved them
    landmarks: Landmarks
    step: OnlineStep  # what the extension chose
    embedder: Embedder
    solved: SolvedMap | None  # the landmarks' own eigenproblem, where the extension learns from it

    @classmethod
    def of(cls, walk: Walk, landmarks: Landmarks, step: OnlineStep, solved: SolvedMap | None) -> LandmarkFit:
        """Put the parts together; landmarks that the step has moved get the cells of their new places."""
        if step.moved is not None:
            points = step.moved.points
            landmarks = assign(walk, step.moved.representatives, points)
        else:
            points = walk.points.take(landmarks.indices) if solved is None else solved.points
        embedder = Embedder.build(walk.metric, points, walk.epsilon, step, landmarks.squared_radii)
        return cls(landmarks, step, embedder, solved)

    def landmark_embedding(self, points: Points, n_threads: int | None) -> NDArray[Any]:
        """Return the coordinates of the points at the landmarks' indices: their own eigenvectors' if there are any."""
        if self.solved is None:
            return self.embedder.extend(points, n_threads).coordinates
        own = self.solved.own_coordinates[:, : self.embedder.n_components]
        return own.astype(points.dtype)
