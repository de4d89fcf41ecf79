"""Which way a map is fitted: decided here and nowhere else, before anything is computed.

    exact      the walk over all points is solved; new points by Nyström over all of them
    landmark   the walk over M landmarks is solved; new points by Nyström over these (the paper's method)
    distilled  the walk over all points (or many more landmarks) is solved, and M landmarks learn its coordinates
    tolerance  as one of the last two, with the fewest landmarks that keep a tolerance

``print(choose_recipe(settings, data))`` says what a fit will do, without doing it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ldmaps.diffusion.walk import REACH
from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension import Extension, resolve_extension
from ldmaps.extension.calibration import FEWEST_HELD
from ldmaps.fit.data import Data
from ldmaps.fit.settings import FitSettings
from ldmaps.landmarks import FixedLandmarks, LandmarkSelector, resolve_selector
from ldmaps.landmarks.base import DEFAULT_LANDMARKS
from ldmaps.metrics.base import Metric
from ldmaps.settings import Limits

#: Landmarks of a reference that cannot have all points: for each landmark distilled, and at least.
REFERENCE_PER_LANDMARK, MIN_REFERENCE = 10, 5000
#: Passes that a reference takes at most, and pairs of points in all of them, by default: a quarter of an
#: hour on two cores for small molecules. Metrics that take microseconds a pair take none.
MAX_PASSES, MAX_PAIRS = 20, 1e11
#: Passes that an exact map takes at most, by default.
EXACT_PASSES = 50
#: Most points of an exact reference for metrics that take microseconds a pair.
SLOW_METRIC_POINTS = 2000
#: Most points that a tolerance is searched with, and that are brought here for spanning trees of data in blocks.
GATHERED = 50_000
#: Beyond so many points in blocks there are neither resamples nor held-out rows: for both, numbers of every row are
#: kept in this process.
MOST_BLOCKED = 10_000_000


@dataclass(frozen=True)
class Recipe:
    """How a map is fitted to some data."""

    settings: FitSettings
    kind: str  # "exact", "landmark", "distilled" or "tolerance"
    extension: Extension
    selector: (
        LandmarkSelector | None
    )  # None for an exact map; its number of landmarks may be left to the data
    #: points that the map to learn from is solved over, all of them or that many medoids; 0 where there is no such map
    reference_size: int
    n_passes: int  # passes over all pairs that solving may take if the kernel is not stored
    holds_out: str  # "nothing", "calibration" (rows that no landmark is chosen from) or "certificate"
    brings_all_here: bool  # whether data in blocks are brought to this process first
    needs_resampling: bool  # whether resampling decides the number of coordinates
    most_gathered: (
        int  # points in blocks that are brought here, and points that a tolerance is searched with, at most
    )
    leaves_out: (
        bool  # whether points that lie apart are left out, and states kept: the rules "bulk" and "local"
    )
    is_taught: bool  # whether landmarks learn from a map of (nearly) all points

    def __str__(self) -> str:
        parts = [_KINDS[self.kind]]
        if self.selector is not None:
            parts.append(f"landmarks by {self.selector.name}, {self._said_of_number(self.selector)}")
            parts.append(f"{self.extension.name} extension")
        if self.is_taught:
            parts.append(
                f"learned from a map of {self.reference_size:,} points (at most {self.n_passes} passes over all pairs)"
            )
        parts += [f"epsilon {self.settings.epsilon}", f"held out: {self.holds_out}"]
        if self.brings_all_here:
            parts.append("data in blocks are brought to this process")
        return "; ".join(parts)

    def _said_of_number(self, selector: LandmarkSelector) -> str:
        if self.kind == "tolerance":
            return "as few as the tolerance allows"
        return (
            "as many as the data need"
            if selector.n_landmarks is None
            else f"{selector.n_landmarks:,} of them"
        )


_KINDS = {
    "exact": "exact map of all points",
    "landmark": "landmark map",
    "distilled": "distilled landmark map",
    "tolerance": "landmark map that keeps a tolerance",
}


def searched_points(n_points: int, tolerance: float | None, limits: Limits) -> int:
    """Return how many of so many points in this process a fit solves for: all, or of many a sample for a tolerance."""
    asks_for_passes = limits.max_passes is not None or limits.resume is not None
    if tolerance is None or n_points <= GATHERED or asks_for_passes:
        return n_points
    return math.ceil(n_points / math.ceil(n_points / GATHERED))


def choose_recipe(settings: FitSettings, data: Data) -> Recipe:
    """Decide how a map is fitted, or raise where settings contradict each other or the data."""
    needs_resampling, leaves_out = settings.n_components == "gap", settings.epsilon in ("bulk", "local")
    n_members = len(data.members)
    if settings.is_exact:
        if settings.keep_distances and settings.solver not in ("auto", "stored"):
            raise InvalidInputError(
                f'keep_distances=True requires the stored kernel, got solver="{settings.solver}"; leave one of them out'
            )
        passes = EXACT_PASSES if settings.limits.max_passes is None else int(settings.limits.max_passes)
        return Recipe(
            settings=settings,
            kind="exact",
            extension=resolve_extension("nystrom", for_tolerance=False),
            selector=None,
            reference_size=0,
            n_passes=passes,
            holds_out="nothing",
            brings_all_here=not data.points.are_here,
            needs_resampling=needs_resampling,
            most_gathered=GATHERED,
            leaves_out=leaves_out,
            is_taught=False,
        )
    extension = resolve_extension(settings.extension, for_tolerance=settings.tolerance is not None)
    selector = resolve_selector(settings.landmarks, settings.n_landmarks, DEFAULT_LANDMARKS)
    is_taught = settings.tolerance is not None or extension.learns_from_reference
    size = passes = 0
    if is_taught:
        m = DEFAULT_LANDMARKS if settings.tolerance is not None else selector.n_landmarks or DEFAULT_LANDMARKS
        itemsize = data.points.dtype.itemsize
        if data.points.are_here:
            n_members = searched_points(n_members, settings.tolerance, settings.limits)
        elif settings.tolerance is not None:
            n_members = min(n_members, GATHERED)  # a sample is searched
        size = reference_size(data.metric, n_members, m, itemsize, settings.limits.memory)
        passes = reference_passes(data.metric, n_members, settings.alpha, settings.limits.max_passes)
    if settings.tolerance is not None:
        kind = "tolerance"
        check_number_is_free(settings.landmarks, settings.n_landmarks, settings.tolerance)
    else:
        kind = "distilled" if extension.learns_from_reference else "landmark"
    return Recipe(
        settings=settings,
        kind=kind,
        extension=extension,
        selector=selector,
        reference_size=size,
        n_passes=passes,
        holds_out=_held_out(settings, data, kind, selector),
        brings_all_here=_brings_all_here(settings, data, selector, size),
        needs_resampling=needs_resampling,
        most_gathered=GATHERED,
        leaves_out=leaves_out,
        is_taught=is_taught,
    )


def sized_selector(recipe: Recipe, data: Data, n_free: int) -> LandmarkSelector:
    """Return the selector with its number of landmarks: by default 400, or all points where these are not more."""
    settings, n_members = recipe.settings, len(data.members)
    default = min(DEFAULT_LANDMARKS, n_free) if n_members > DEFAULT_LANDMARKS else n_members
    selector = resolve_selector(settings.landmarks, settings.n_landmarks, default)
    if isinstance(selector, FixedLandmarks) and not data.uses_all:
        selector = selector.among(data.used, len(data.points))
    return selector.for_any_points() if recipe.leaves_out else selector


def _held_out(settings: FitSettings, data: Data, kind: str, selector: LandmarkSelector) -> str:
    """Return what is held out: nothing where that would change what the settings ask for."""
    if kind == "tolerance":
        return "certificate"
    is_enough = settings.calibration * len(data.points) >= FEWEST_HELD
    # A cover is to reach every point, a map is distilled from as many as there are, and given landmarks are given.
    is_possible = kind == "landmark" and not selector.needs_all_points and not selector.is_automatic
    are_too_many = not data.points.are_here and len(data.points) > MOST_BLOCKED
    return "calibration" if is_enough and is_possible and not are_too_many else "nothing"


def _brings_all_here(settings: FitSettings, data: Data, selector: LandmarkSelector, size: int) -> bool:
    """Say whether data in blocks are brought here: if they are few, or the settings need that; raise if too many."""
    if data.points.are_here:
        return False
    n_rows = len(data.points)
    if size and len(data.members) <= max(GATHERED, size):
        return True
    if not (selector.needs_all_points or settings.outliers):
        return False
    if n_rows <= GATHERED:
        return True
    if settings.outliers:
        raise InvalidInputError(
            Named("outliers", settings.outliers),
            f" needs a spanning tree of all points, which is made for up to {GATHERED:,} points in blocks, got "
            f"{n_rows:,}; find the outliers with a map of some of them: few = LandmarkDiffusionMap(outliers=...)."
            f"fit(X[::100]), then fit all with sample_weight=few.coverage(X).distance <= {REACH:g}",
        )
    if not selector.covers_from_sample:
        raise InvalidInputError(
            f"landmarks={selector!r} must see all points at once, which is done for up to {GATHERED:,} points in "
            f"blocks, got {n_rows:,}; use ",
            Named("landmarks", "kmedoids"),
            ', "pst", "farthest" or "uniform"',
        )
    return False


def reference_size(
    metric: Metric, n_points: int, n_landmarks: int, itemsize: int, memory_limit: float
) -> int:
    """Return over how many points the reference is solved: all, if their kernel fits the memory limit."""
    most = max(2, int(math.sqrt(memory_limit / itemsize)))
    if metric.is_slow:
        most = min(most, SLOW_METRIC_POINTS)
    if n_points <= most:
        return n_points
    return min(most, max(MIN_REFERENCE, REFERENCE_PER_LANDMARK * n_landmarks))


def reference_passes(metric: Metric, n_points: int, alpha: float, max_passes: int | None) -> int:
    """Return how many passes over all pairs a reference may take that does not fit into memory; 0 takes medoids."""
    if max_passes is None:
        budget = 0.0 if metric.is_slow else MAX_PAIRS
        max_passes = min(MAX_PASSES, int(2.0 * budget / float(n_points) ** 2))
    # With density normalisation the density takes a pass before the first that gives anything of the map.
    return int(max_passes) if max_passes >= (2 if alpha else 1) else 0


def check_number_is_free(landmarks: Any, n_landmarks: int | None, tolerance: float) -> None:
    """Raise when the number of landmarks that a tolerance should find is set already."""
    if n_landmarks is not None:
        raise InvalidInputError(
            Named("tolerance", tolerance),
            " finds the number of landmarks, so ",
            Named("n_landmarks", n_landmarks),
            " cannot be set as well; leave one of them out",
        )
    selector = resolve_selector(landmarks, None, 0)
    if selector.is_automatic or selector.n_landmarks:
        raise InvalidInputError(
            f"{selector!r} fixes the number of landmarks, so no tolerance can choose it; use ",
            Named("landmarks", "kmedoids"),
            " without a number, or leave ",
            Named("tolerance"),
            " out",
        )
