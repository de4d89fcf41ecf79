"""How a map is fitted, from checked data to the fitted map. Read :func:`fit_map` first.

    data ──► recipe ──► ε, points, landmarks ──► eigenproblem ──► coordinates kept ──► online step ──► fitted map
             (recipe)   (ground, select,         (solve,          (coordinates,        (online,        (assemble)
                         examine, decide)         reference)       resample)            search, certify)

Every stage takes values and returns values, what it cannot do included (``Apart``, ``Groups``, ``Refused``). Errors are
raised where it is decided that nothing else is left to try.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.fit.assemble import Fit, assemble, warn_about_walk
from ldmaps.fit.certify import Refused
from ldmaps.fit.coordinates import judge_walk, keep_coordinates
from ldmaps.fit.data import Data
from ldmaps.fit.decide import decide_walk, wider_bandwidth
from ldmaps.fit.forecast import expected_seconds
from ldmaps.fit.ground import leave_out_isolated
from ldmaps.fit.online import online_step
from ldmaps.fit.recipe import Recipe, choose_recipe, searched_points
from ldmaps.fit.select import hold_out_for_calibration
from ldmaps.fit.settings import FitSettings, Seeds
from ldmaps.fit.solve_walk import solve_walk
from ldmaps.progress import work

_LOG = logging.getLogger("ldmaps")


def fit_map(data: Data, settings: FitSettings, squared: NDArray[Any] | None = None) -> Fit:
    """Fit a map to data; ``squared`` are the d² between all members, where an earlier fit has kept them."""
    recipe, seeds = choose_recipe(settings, data), Seeds.spawn(settings.seed)
    _LOG.debug("fit of %d points: %s", len(data.points), recipe)
    with work("fit", expected_seconds(recipe, data)):
        return _fitted(recipe, data, seeds, squared)


def _fitted(recipe: Recipe, data: Data, seeds: Seeds, squared: NDArray[Any] | None) -> Fit:
    everything = bring_here(recipe, data)
    data = searched_part(recipe, everything, seeds)
    calibration = hold_out_for_calibration(recipe, data, seeds)
    all_data, bandwidth = leave_out_isolated(recipe, data, seeds)
    data, refusals = all_data, list[Refused]()
    while True:  # once, or once more with the ε of "connected" if a tolerance is refused
        chosen = decide_walk(recipe, data, bandwidth, calibration, seeds, squared)
        solved = solve_walk(recipe, chosen, seeds)
        judged = judge_walk(recipe, chosen)
        kept = keep_coordinates(recipe, solved, judged)
        online = online_step(recipe, all_data, chosen, kept, refusals, seeds)
        if not isinstance(online, Refused):
            warn_about_walk(all_data, chosen, refusals)
            return assemble(recipe, everything, all_data, chosen, kept, online, judged, seeds)
        refusals.append(online)
        data, bandwidth = chosen.data, wider_bandwidth(recipe, chosen, seeds)
        if bandwidth is None:
            raise min(refusals, key=lambda refused: refused.best_bound).error()


def bring_here(recipe: Recipe, data: Data) -> Data:
    """Return the data in this process, if they are in blocks and the recipe needs them all at once."""
    if not recipe.brings_all_here:
        return data
    return replace(data.some(np.arange(len(data.points))), sampled_rows=None)


def searched_part(recipe: Recipe, data: Data, seeds: Seeds) -> Data:
    """Return the data that a tolerance is searched with: of many points a sample, which is brought here."""
    if recipe.kind != "tolerance":
        return data
    if data.points.are_here:
        # A certificate of these is no worse than one of all, and passes over all pairs of all would take hours.
        settings, n_members = recipe.settings, len(data.members)
        if searched_points(n_members, settings.tolerance, settings.limits) == n_members:
            return data
        found = data.thinned(recipe.most_gathered)
        _LOG.info(
            "searching for landmarks with %d of %d points, 1 in %d; Limits(max_passes=...) searches with all",
            len(found.members),
            n_members,
            found.stride,
        )
        return found
    members = np.sort(
        np.random.default_rng(seeds.sample).choice(len(data.members), recipe.most_gathered, replace=False)
    )
    return data.some(data.rows_of(members))
