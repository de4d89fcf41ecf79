"""The last step of a fit: landmarks get the numbers by which they embed new points."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS
from ldmaps.fit.certify import Certificate, Certified, Refused
from ldmaps.fit.data import Data
from ldmaps.fit.decide import Chosen
from ldmaps.fit.hold_out import HeldOut, Strays
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.recipe import Recipe, sized_selector
from ldmaps.fit.search import ToleranceSearch
from ldmaps.fit.select import Selection
from ldmaps.fit.settings import Seeds
from ldmaps.fit.solve import SolvedMap, eigenvalues_for
from ldmaps.landmarks import FixedLandmarks
from ldmaps.progress import stage


@dataclass(frozen=True)
class Online:
    """How new points are embedded, and what is promised of them."""

    fit: LandmarkFit | None  # None for an exact map, which extends over all of its points
    certificate: Certificate | None = (
        None  # of a tolerance; None where the reference's own error has no bound
    )
    held: HeldOut | None = None  # members that the tolerance held out


def online_step(
    recipe: Recipe,
    all_data: Data,
    chosen: Chosen,
    teacher: SolvedMap,
    refusals: Sequence[Refused],
    seeds: Seeds,
) -> Online | Refused:
    """Fit the online step of landmarks to the coordinates of a teacher, the solved walk.

    ``whole`` are the data before the walk left points out; they judge what keeps a tolerance.
    Certificates that were tried in vain at another ε, the ``refusals``, count: each next one is harder to get.
    """
    if recipe.kind == "exact":
        return Online(None)
    if recipe.kind == "tolerance":
        n_tried = refusals[-1].n_tried if refusals else 0
        left_out = Strays.of(all_data, chosen.data)
        return _within_tolerance(recipe, chosen, left_out, teacher, n_tried, seeds)
    landmarks, walk = cast(Selection, chosen.landmarks).landmarks, chosen.walk
    is_taught, every = recipe.is_taught, np.arange(len(walk.points))
    may_move = not isinstance(recipe.selector, FixedLandmarks)  # those that the user names stay
    with stage("distillation", unit="") if is_taught else nullcontext():
        step = recipe.extension.fit(
            teacher, landmarks, every, np.random.default_rng(seeds.step), may_move=may_move
        )
    return Online(LandmarkFit.of(walk, landmarks, step, None if is_taught else teacher))


def _within_tolerance(
    recipe: Recipe, chosen: Chosen, left_out: Strays | None, teacher: SolvedMap, n_tried: int, seeds: Seeds
) -> Online | Refused:
    """Find the fewest landmarks that keep the tolerance.

    If a draw of held-out points misses its certificate, the search goes on with another draw, from as many landmarks,
    before it asks for more: bounds of two draws differ by more than what a fifth more landmarks gain.
    """
    settings = recipe.settings
    tolerance = float(cast(float, settings.tolerance))
    search = ToleranceSearch(
        extension=recipe.extension,
        reference=teacher,
        held=chosen.held[0],
        selector=sized_selector(recipe, chosen.data, len(chosen.data.members)),
        n_eigenvalues=lambda count: eigenvalues_for(settings.n_components, count, extra=MAX_GAP_COMPONENTS),
        seed=int(np.random.default_rng(seeds.step).integers(2**63)),
        left_out=left_out,
    )
    with stage("search", unit=""):
        found = search.run(tolerance, n_tried, may_grow=len(chosen.held) == 1)
        for held in chosen.held[1:]:
            if isinstance(found, Certified) or found.n_tried == n_tried:
                break
            n_tried, search = found.n_tried, replace(search, held=held)
            is_last = held is chosen.held[-1]
            found = search.run(tolerance, n_tried, fewest=found.n_landmarks, may_grow=is_last)
    if isinstance(found, Refused):
        return replace(found, epsilon=chosen.rule_epsilon)
    is_unbounded = search.warn_if_unbounded(tolerance, found.certificate.n_landmarks)
    return Online(found.fit, None if is_unbounded else found.certificate, search.held)
