"""Solving the walk that was decided on, once."""

from __future__ import annotations

import numpy as np

from ldmaps.fit.decide import Chosen
from ldmaps.fit.ground import n_eigenvalues, solve_basis
from ldmaps.fit.recipe import Recipe
from ldmaps.fit.reference import Effort, bounded, solve_in_passes
from ldmaps.fit.settings import Seeds
from ldmaps.fit.solve import SolvedMap, coordinates_for, solve
from ldmaps.progress import stage


def solve_walk(recipe: Recipe, chosen: Chosen, seeds: Seeds) -> SolvedMap:
    """Solve the walk that coordinates are taken from, once; a bound on its error comes with it where there is one."""
    walk, squared = chosen.walk, chosen.squared
    if chosen.basis is not None:
        solved = solve_basis(recipe, walk, chosen.basis) if chosen.solved is None else chosen.solved
        if not recipe.is_taught:
            return solved
        count = n_eigenvalues(recipe, len(chosen.basis.landmarks.indices))
        return bounded(solved, np.random.default_rng(seeds.residuals)).leading(count)
    if chosen.solved is not None:
        return chosen.solved
    count = n_eigenvalues(recipe, len(walk.points))
    with stage("reference map" if recipe.is_taught else "eigenvectors", unit=""):
        if chosen.solver != "streamed":
            keeps = recipe.settings.keep_distances
            return solve(walk, count, squared=squared.copy() if keeps else squared)
        effort = Effort(
            recipe.settings.limits, recipe.n_passes, coordinates_for(recipe.settings.n_components)
        )
        return solve_in_passes(walk, count, effort, np.random.default_rng(seeds.solve))
