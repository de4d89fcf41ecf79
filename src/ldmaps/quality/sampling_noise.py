r"""How far a map of some of the points is from the map of all of them, told by these points alone.

A sample stands for all points as weighted sources s of the walk P. Another sample would have
other weights, s(1 + η) with η of mean 0 and variance 1, which changes the walk by

    δP f = P(ηf) − P(η) Pf

and its eigenvectors, to first order, by

    δψ_i = Σ_{l≠i} ψ_l φ_lᵀδPψ_i/(λ_i − λ_l) + (1/λ_i)(1 − Σ_l ψ_l φ_lᵀ) δPψ_i

with the leading modes l one by one and the rest in one stroke (:mod:`ldmaps.quality.perturbation`).
η is drawn a few times; all draws share one pass over the pairs, where halves of the sample, which
tell the same, would be solved one by one and be half as large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["N_DRAWS", "Operator", "SampledWalk", "draw_disturbances", "first_order_changes"]

#: How often η is drawn: a few modes carry most of the noise, so that one draw may miss it, and eight do not.
N_DRAWS = 8

#: Weights s and vectors f to Σ_j A_ij s_j and Σ_j A_ij s_j f_j / Σ_j A_ij s_j.
Operator = Callable[
    [NDArray[np.float64], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]
]


@dataclass(frozen=True)
class SampledWalk:
    """A walk over a sample, solved."""

    operator: Operator
    weights: NDArray[np.float64]  # (R,): w, and s = w·(density)^(-α)
    source: NDArray[np.float64]  # (R,): w, and s = w·(density)^(-α)
    alpha: float
    stationary: NDArray[np.float64]  # (R,): s D / Σ s D
    modes: NDArray[np.float64]  # (R, p): ψ, the trivial one first, orthonormal by ``stationary``
    eigenvalues: NDArray[np.float64]  # (p,)


def draw_disturbances(
    weights: NDArray[np.float64], cells: NDArray[np.intp], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return draws of η, shape (R, N_DRAWS), under which every cell keeps its weight."""
    # A cell's weight is known from all points; what varies is where in the cell the sample's points stand. A
    # point that stands for a whole cell shares the weight of the next cells: landmarks are in an order of
    # neighbours.
    strata = _of_several(cells)
    disturbances = rng.normal(size=(len(weights), N_DRAWS))
    counts, totals = np.bincount(strata), np.bincount(strata, weights=weights)
    for column in disturbances.T:
        column -= (np.bincount(strata, weights=weights * column) / totals)[strata]
    # n deviations from their own mean have the variance of n − 1.
    disturbances *= np.sqrt(counts / np.maximum(counts - 1, 1))[strata, None]
    return disturbances


def _of_several(cells: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return strata of whole cells, consecutive ones, that have two points at least where there are two.

    >>> _of_several(np.array([0, 1, 1, 2, 3, 4]))
    array([0, 0, 0, 1, 1, 1])
    """
    counts = np.bincount(cells)
    stratum, held = np.empty(len(counts), dtype=np.intp), 0
    number = 0
    for cell, count in enumerate(counts):
        if held > 1:
            number, held = number + 1, 0
        stratum[cell] = number
        held += count
    if held < 2:  # the last is one alone, or none: it joins those before
        stratum[stratum == number] = max(0, number - 1)
    result: NDArray[np.intp] = stratum[cells]
    return result


def first_order_changes(
    walk: SampledWalk, n_coordinates: int, disturbances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return δψ of the first coordinates for every draw of η, shape (draws, R, k), with Σ w ψ² kept."""
    relative = disturbances
    if walk.alpha:  # the density that divides the weights changes with them
        relative = relative - walk.alpha * walk.operator(walk.weights, disturbances)[1]
    psi = walk.modes[:, 1 : n_coordinates + 1]
    # Columns: η and ηψ_1 … ηψ_k of the first draw, then of the next.
    functions = np.column_stack([np.ones(len(psi)), psi])
    columns = (relative[:, :, None] * functions[:, None, :]).reshape(len(psi), -1)
    images = walk.operator(walk.source, columns)[1].reshape(len(psi), -1, 1 + n_coordinates)
    values = walk.eigenvalues[1 : n_coordinates + 1]
    changes = np.empty((disturbances.shape[1], *psi.shape))
    squares = walk.weights @ psi**2
    for draw, change in enumerate(changes):
        defects = images[:, draw, 1:] - images[:, draw, :1] * (values * psi)
        shares = walk.modes.T @ (walk.stationary[:, None] * defects)
        gaps = values - walk.eigenvalues[:, None]
        own = np.arange(n_coordinates)
        gaps[own + 1, own] = np.inf
        change[:] = walk.modes @ (shares / gaps) + (defects - walk.modes @ shares) / values
        # ψ's length is measured with the weights that vary.
        varied = walk.weights * disturbances[:, draw]
        change -= psi * ((walk.weights @ (psi * change) + 0.5 * (varied @ psi**2)) / squares)
    return changes
