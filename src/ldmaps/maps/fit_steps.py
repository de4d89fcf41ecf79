"""The steps of a landmark map's fit, each with its cost: the estimator's order, and no numbers of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from ldmaps.costs import Cost, DataSize
from ldmaps.diffusion.bandwidth import bandwidth_cost
from ldmaps.diffusion.pairwise import extension_cost, squared_matrix_cost
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS
from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension import Extension, resolve_extension
from ldmaps.landmarks import Given, LandmarkSelector, resolve_selector
from ldmaps.landmarks.base import DEFAULT_LANDMARKS, assignment_cost
from ldmaps.landmarks.grouping import grouping_cost
from ldmaps.maps.exact_map import Limits, fits_in_passes
from ldmaps.maps.reference_map import REFERENCE_EXTRA, reference_cost, reference_passes, reference_size
from ldmaps.maps.solved_map import solve_cost
from ldmaps.maps.tolerance import n_held_out, numbers_tried
from ldmaps.maps.tolerance_search import check_number_is_free, landmark_range
from ldmaps.metrics import Metric, resolve_metric
from ldmaps.metrics.stored import StoredSquares
from ldmaps.settings import LANDMARK_FIT, check_settings, check_whole

__all__ = ["FitSettings", "fit_steps"]

#: Landmarks to reckon with where a tolerance or a spanning tree finds how many: on the data sets of docs/accuracy.md a
#: tolerance of 1 % took 11 to 120 that stayed and 3 to 40 that were moved, a tree 1 to 3 % of the points.
TOLERATED_LANDMARKS, TOLERATED_MOVED, TREE_LANDMARKS = 60, 20, 400
#: Coordinates to reckon with where the spectrum's gap decides.
GAP_COMPONENTS = 2


@dataclass(frozen=True)
class FitSettings:
    """What the cost of a fit depends on, checked.

    Attributes
    ----------
    n_points, n_features : int
        N, and numbers to a point.
    metric : Metric
    selector : LandmarkSelector
    n_landmarks : int
        M, or a guess of it.
    extension : Extension
    has_tolerance : bool
    epsilon : float or str
    outliers : float
    n_components : int or "gap"
    itemsize : int
        Bytes of a number.
    memory_limit : float
    max_passes : int or None
    n_threads : int or None
    """

    n_points: int
    n_features: int
    metric: Metric
    selector: LandmarkSelector
    n_landmarks: int
    extension: Extension
    has_tolerance: bool
    epsilon: float | str
    outliers: float
    n_components: int | str
    itemsize: int
    memory_limit: float
    max_passes: int | None = None
    n_threads: int | None = None

    @classmethod
    def checked(
        cls,
        n: int,
        n_features_or_atoms: int,
        metric: Any,
        *,
        n_landmarks: int | None,
        landmarks: Any,
        tolerance: float | None,
        extension: str,
        epsilon: float | str,
        outliers: float,
        n_components: int | str,
        itemsize: int,
        memory_limit: float,
        max_passes: int | None,
        n_threads: int | None,
    ) -> Self:
        """Check settings as :func:`ldmaps.plan` takes them."""
        check_whole("n", n, 3)
        check_whole("n_features_or_atoms", n_features_or_atoms, 1)
        check_settings(LANDMARK_FIT, locals())
        if n_landmarks is not None and n_landmarks > n:
            raise InvalidInputError(
                Named("n_landmarks", n_landmarks), f" is more than n={n}; ask for at most {n}"
            )
        if tolerance is not None:
            check_number_is_free(landmarks, n_landmarks, tolerance)
        resolved = resolve_metric(metric)
        selector = resolve_selector(landmarks, n_landmarks, min(DEFAULT_LANDMARKS, n))
        if tolerance is not None:
            count = TOLERATED_MOVED if resolved.is_differentiable else TOLERATED_LANDMARKS
        elif isinstance(selector, Given):
            count = len(selector.indices)  # type: ignore[arg-type]
        else:
            count = selector.n_landmarks or TREE_LANDMARKS
        if resolved.takes_distances:
            n_features = int(n)  # a distance to every point
        else:
            n_features = int(n_features_or_atoms) * (3 if resolved.takes_frames else 1)
        return cls(
            n_points=int(n),
            n_features=n_features,
            metric=resolved,
            selector=selector,
            n_landmarks=min(int(count), int(n)),
            extension=resolve_extension(extension, for_tolerance=tolerance is not None),
            has_tolerance=tolerance is not None,
            epsilon=epsilon,
            outliers=float(outliers),
            n_components=n_components,
            itemsize=itemsize,
            memory_limit=memory_limit,
            max_passes=max_passes,
            n_threads=n_threads,
        )

    @property
    def n_coordinates(self) -> int:
        """K, or a guess of it."""
        return GAP_COMPONENTS if isinstance(self.n_components, str) else int(self.n_components)

    @property
    def n_eigenvalues(self) -> int:
        """How many eigenpairs are solved for."""
        if isinstance(self.n_components, str):
            return MAX_GAP_COMPONENTS + 1
        return self.n_coordinates + (REFERENCE_EXTRA if self._has_reference else MAX_GAP_COMPONENTS)

    @property
    def reference_points(self) -> int:
        """Points of the map that is distilled from or certified against; 0 where there is none."""
        if not self._has_reference:
            return 0
        return self.n_points if self.reference_passes else self._stored_points

    @property
    def reference_passes(self) -> int:
        """Passes over all pairs that this map may take; 0 where its kernel is stored, or memory too short for any."""
        if self._stored_points == self.n_points:
            return 0
        if not fits_in_passes(self.n_points, self.n_eigenvalues, self.memory_limit):
            return 0
        return reference_passes(self.metric, self.n_points, 0.0, self.max_passes)

    @property
    def _has_reference(self) -> bool:
        return self.extension.learns_from_reference or self.has_tolerance

    @property
    def _stored_points(self) -> int:
        expected = DEFAULT_LANDMARKS if self.has_tolerance else self.n_landmarks
        return reference_size(self.metric, self.n_points, expected, self.itemsize, self.memory_limit)


def fit_steps(settings: FitSettings, data: DataSize) -> dict[str, Cost]:
    """Return the cost of each step in turn, with the memory held meanwhile in addition to the prepared points."""
    if not settings.outliers:
        return _steps_of_all(settings, data)
    # ε is found on the way, and the points that stay are a copy of almost all.
    outliers = bandwidth_cost(settings.epsilon, settings.metric, data, leaves_out_outliers=True)
    steps = _steps_of_all(replace(settings, epsilon=1.0), data)
    return {"outliers": outliers} | {name: cost.holding(data.points_bytes) for name, cost in steps.items()}


def _steps_of_all(settings: FitSettings, data: DataSize) -> dict[str, Cost]:
    """Return the steps where no point is left out."""
    m, k = settings.n_landmarks, settings.n_coordinates
    embedding = {"embedding": extension_cost(data, m, k).holding(_assignment_bytes(data))}
    if not settings.reference_points:
        return {
            "bandwidth": bandwidth_cost(settings.epsilon, settings.metric, data),
            "landmarks": _selection(settings, data, m),
            "eigenproblem": _eigenproblem(settings, data, m).holding(_assignment_bytes(data)),
        } | embedding
    size = settings.reference_points
    steps: dict[str, Cost] = {}
    held = 0.0
    if size == data.n_points and not settings.reference_passes:
        steps["distances"] = squared_matrix_cost(data)
        held = steps["distances"].memory
        # Kept distances are looked up by their places.
        bandwidth = bandwidth_cost(settings.epsilon, StoredSquares(), replace(data, point_bytes=8.0))
    else:
        bandwidth = bandwidth_cost(settings.epsilon, settings.metric, data)
    steps["bandwidth"] = bandwidth.holding(held)
    if not settings.has_tolerance:
        steps["landmarks"] = _selection(settings, data, m).holding(held)
        held += _assignment_bytes(data)
    limits = Limits(settings.memory_limit, settings.reference_passes)
    reference = reference_cost(data, size, settings.n_eigenvalues, limits, settings.n_threads)
    steps["reference map"] = reference.holding(held)
    eigenvectors = 8.0 * size * settings.n_eigenvalues
    if settings.has_tolerance:
        steps["search"] = _search(settings, data).holding(eigenvectors)
    else:
        can_move = settings.metric.is_differentiable
        cost = settings.extension.cost(data, m, k, size, is_differentiable=can_move)
        steps["distillation"] = cost.holding(eigenvectors + _assignment_bytes(data))
    return steps | embedding


def _assignment_bytes(data: DataSize) -> float:
    """Return the memory of each point's landmark and d² to it."""
    return data.n_points * (8.0 + data.itemsize)


def _selection(settings: FitSettings, data: DataSize, n_landmarks: int) -> Cost:
    selection = settings.selector.cost(data, n_landmarks)
    if not _are_grouped(settings, data, n_landmarks):
        return selection
    return selection + grouping_cost(data, n_landmarks)


def _eigenproblem(settings: FitSettings, data: DataSize, n_landmarks: int) -> Cost:
    """Return what solving over landmarks takes; d² between them is there where it served to group them."""
    landmarks = data.of(n_landmarks)
    if not _are_grouped(settings, data, n_landmarks):
        return solve_cost(landmarks, settings.n_eigenvalues, has_squares=False)
    return solve_cost(landmarks, settings.n_eigenvalues, has_squares=True).holding(landmarks.matrix_bytes)


def _are_grouped(settings: FitSettings, data: DataSize, n_landmarks: int) -> bool:
    """Say whether landmarks are put in an order of their own: not the user's, and not all points."""
    return not isinstance(settings.selector, Given) and n_landmarks < data.n_points


def _search(settings: FitSettings, data: DataSize) -> Cost:
    """Return what a tolerance takes: maps of several sizes, small ones several times, judged on held-out points."""
    held_out = data.of(n_held_out(data.n_points))
    fitted = data.of(data.n_points - held_out.n_points)
    extension, k, can_move = settings.extension, settings.n_coordinates, settings.metric.is_differentiable
    fewest, most = landmark_range(fitted.n_points, k)
    total = Cost()
    for count in numbers_tried(min(settings.n_landmarks, most), fewest=fewest, most=most):
        attempt = _selection(settings, fitted, count) + assignment_cost(data, count)
        step = extension.cost(fitted, count, k, settings.reference_points, is_differentiable=can_move)
        if not extension.learns_from_reference:
            step += _eigenproblem(settings, data, count)
        attempt += step.holding(_assignment_bytes(data))
        judged = extension_cost(held_out, count, k).holding(held_out.points_bytes)
        total += attempt.times(extension.draws(count, is_differentiable=can_move)) + judged
    return total.holding(fitted.points_bytes)
