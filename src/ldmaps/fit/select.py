"""Choosing landmarks, if need be without a look at points that are held out to calibrate alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import nearest
from ldmaps.diffusion.walk import Walk
from ldmaps.extension.calibration import (
    Calibration,
    calibrate,
    held_out_rows,
    is_worth_it,
    memory_of,
    scored_rows,
)
from ldmaps.fit.data import Data, KnownTimes
from ldmaps.fit.recipe import Recipe
from ldmaps.fit.settings import Seeds
from ldmaps.landmarks import FixedLandmarks, Landmarks, LandmarkSelector
from ldmaps.landmarks.base import DEFAULT_LANDMARKS, assign, group_neighbours, settle
from ldmaps.landmarks.k_medoids import sample_size
from ldmaps.metrics.base import squared_matrix
from ldmaps.progress import stage

#: Landmarks that lie apart are not replaced by others if they are at most this share of all.
FEW_LANDMARKS = 0.05


@dataclass(frozen=True)
class CalibrationRows:
    """Rows that no landmark is chosen from, so that their distances tell how far new points are."""

    held: NDArray[np.bool_]  # (N,)
    correlation_time: float  # of all points, in rows

    @property
    def scored(self) -> NDArray[np.intp]:
        """Those far enough in time from rows that landmarks are chosen from."""
        return scored_rows(self.held, self.correlation_time)

    def calibration(self, distance: NDArray[Any], known: KnownTimes | None) -> Calibration | None:
        """Return the calibration by the distances of the scored rows to their nearest landmarks, in units of √ε."""
        steps = np.empty(0) if known is None else known.steps
        return calibrate(self.scored, distance.astype(np.float64), self.correlation_time, steps)


def hold_out_for_calibration(recipe: Recipe, data: Data, seeds: Seeds) -> CalibrationRows | None:
    """Draw a share of the rows that no landmark may be chosen from, in blocks of several correlation times."""
    if recipe.holds_out != "calibration":
        return None
    settings, rng = recipe.settings, np.random.default_rng(seeds.calibrate)
    time = memory_of(data.metric, data.points, data.origin.files, rng, settings.n_threads)
    held = held_out_rows(len(data.points), settings.calibration, time, rng) & (data.weights > 0)
    return CalibrationRows(held, time)


@dataclass(frozen=True)
class Selection:
    """Landmarks among the members of some data."""

    landmarks: Landmarks
    squared: NDArray[Any] | None = None  # d² between them, if choosing them took these

    def distances(self, walk: Walk) -> NDArray[Any]:
        """Return the d² between the landmarks, computed unless they are known; not to be changed."""
        if self.squared is not None:
            return self.squared
        return squared_matrix(walk.metric, walk.points.take(self.landmarks.indices), n_threads=walk.n_threads)

    def measured(self, walk: Walk) -> Selection:
        """Return the same with the d² between the landmarks, for who needs them more than once."""
        return Selection(self.landmarks, self.distances(walk))

    def without(self, walk: Walk, left_out: NDArray[np.intp], apart: NDArray[np.bool_]) -> Selection | None:
        """Return what is left when members are left out and landmarks with them; None where others must be chosen.

        ``walk`` is over the members that stay. The landmark of each of them stays too, so none has to be found again.
        """
        if apart.mean() > FEW_LANDMARKS:
            return None
        kept = self.landmarks.without(walk, left_out, apart)
        return Selection(kept, None if self.squared is None else self.squared[np.ix_(~apart, ~apart)])


def select(
    selector: LandmarkSelector,
    walk: Walk,
    rng: np.random.Generator,
    held: NDArray[np.bool_] | None = None,
) -> Selection:
    """Choose landmarks of a walk, neighbours side by side; of the points that are ``held`` out none becomes one."""
    with stage("landmarks", unit=""):
        if isinstance(selector, FixedLandmarks):  # there is nothing to choose, and their order is kept
            return Selection(selector.select(walk, rng))
        landmarks = selector.select(walk, rng) if held is None else _among_others(selector, walk, rng, held)
        if len(landmarks.indices) == len(walk.points):  # all points stay as they came
            return Selection(landmarks)
        landmarks, squared = group_neighbours(landmarks, walk)
        return Selection(landmarks, squared)


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
    if not walk.points.are_here:
        return assign(walk, indices)
    assignment = np.empty(len(held), dtype=np.intp)
    squared = np.empty(len(held), dtype=chosen.squared_distances.dtype)
    assignment[others], squared[others] = chosen.assignment, chosen.squared_distances
    places = walk.points.take(indices)
    assignment[rest], squared[rest] = nearest(walk.metric, walk.points.take(rest), places, walk.n_threads)
    return settle(indices, assignment, squared, walk.weights)


def calibration_is_worth_it(rows: CalibrationRows, data: Data, landmarks: Landmarks) -> bool:
    """Say whether a promise of rare alarms is worth landmarks that were not chosen from the held-out rows.

    Consecutive frames may be worth so few independent ones that it is not. Distances to landmarks tell it before
    anything is solved; for data in blocks these are known only later, and the landmarks stay.
    """
    if not data.points.are_here:
        return True
    scored = rows.scored
    members = scored[data.weights[scored] > 0]
    distance = np.sqrt(landmarks.squared_distances[data.members_at(members)], dtype=np.float64)
    return is_worth_it(calibrate(members, distance, rows.correlation_time, np.empty(0)))
