"""Which coordinates a map keeps: as many as were asked for, or those that its states and resampling confirm."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import check_extensible, check_time, spectral_gap, warn_of_standstill
from ldmaps.fit.decide import Chosen
from ldmaps.fit.recipe import MOST_BLOCKED, Recipe
from ldmaps.fit.resample import ResampledMap, coarse_walk, resampled_landmarks, resampled_points
from ldmaps.fit.solve import SolvedMap
from ldmaps.progress import stage
from ldmaps.validation.coordinate_choice import coordinates_kept
from ldmaps.validation.sampling import Sampling


@dataclass(frozen=True)
class Judged:
    """How sure a walk is of its coordinates."""

    resampled: (
        ResampledMap | None
    )  # to resample the training points; None where they are in blocks and too many
    sampling: Sampling | None = None  # what that says, if it was asked for

    def of_landmarks(self, members: NDArray[np.intp]) -> Judged:
        """Return the same with the errors of landmarks at some members, where the walk is over all points."""
        if self.resampled is None:
            return self
        sampling = self.sampling
        if sampling is not None:
            sampling = replace(sampling, landmark_errors=sampling.landmark_errors[members])
        return Judged(self.resampled.of_landmarks(members), sampling)


def resampled_map(recipe: Recipe, chosen: Chosen) -> ResampledMap | None:
    """Return what resampling the walk needs; None where the points are in blocks and too many."""
    data, walk = chosen.data, chosen.walk
    if chosen.basis is not None and not recipe.is_taught:
        if not walk.points.are_here and len(walk.points) > MOST_BLOCKED:
            return None
        landmarks = chosen.basis.landmarks
        order = data.order(data.known_times(landmarks))
        return resampled_landmarks(walk, landmarks, data.member_weights, order)
    if not walk.points.are_here:
        return None
    coarse = coarse_walk(walk) if chosen.coarse is None else chosen.coarse
    return resampled_points(coarse, data.member_weights, data.order(data.known_times(None)))


def judge_walk(recipe: Recipe, chosen: Chosen) -> Judged:
    """Resample the walk, if that decides the number of coordinates; otherwise be ready for it."""
    resampled = resampled_map(recipe, chosen)
    if resampled is None or not recipe.needs_resampling:
        return Judged(resampled)
    with stage("resampling", unit=""):
        return Judged(resampled, resampled.judge())


def keep_coordinates(recipe: Recipe, solved: SolvedMap, judged: Judged) -> SolvedMap:
    """Return the map into the coordinates that are kept, or raise where new points could not be placed on them."""
    values, dtype = solved.spectrum.eigenvalues, solved.points.dtype
    n_components = recipe.settings.n_components
    if n_components != "gap":
        modes = np.arange(min(int(n_components), len(values)))
    elif judged.sampling is None:
        modes = np.arange(spectral_gap(values))
    else:
        modes = coordinates_kept(values, judged.sampling)
    kept = solved.taking(modes)
    kept = replace(kept, solution=kept.solution.settled())
    warn_of_standstill(solved.spectrum, solved.multiplicities, dtype, n_groups=solved.walk.n_groups)
    check_extensible(kept.spectrum.eigenvalues, dtype)
    check_time(kept.spectrum.eigenvalues, solved.walk.time)
    return kept
