"""Verdicts on modes: which of them resamples give again, alone or with others, and which follow earlier ones.

Two modes of nearly the same eigenvalue span a plane that is well defined, but any two axes in it are as good. So what
is compared with each resample is the span of a group: the smallest cosine between it and that of its matches.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

#: A group is reproducible when its cosine is at least this in all resamples but LOST of them.
REPRODUCIBLE, LOST = 0.9, 0.05
#: Most modes that are taken as a group.
LARGEST_GROUP = 4
#: A mode that earlier ones predict so well is a harmonic of them.
HARMONIC = 0.95
#: Widths of the weights by which that is judged, in standard deviations of the earlier modes.
WIDTHS = (0.1, 0.2, 0.4)
#: Most landmarks that are looked at for it.
MOST_LANDMARKS = 300

_Array = NDArray[np.float64]


def matched(measure: _Array, fitted: _Array, vectors: _Array) -> tuple[NDArray[np.intp], _Array]:
    """Return which mode of each resample is matched to which fitted one, and all correlations."""
    lengths = np.sqrt(np.einsum("m,nmi->ni", measure, vectors**2))
    correlations = (fitted.T * measure) @ vectors / np.where(lengths > 0, lengths, 1.0)[:, None]
    places = np.stack([scipy.optimize.linear_sum_assignment(-(table**2))[1] for table in correlations])
    return places, correlations


def reproduced(places: NDArray[np.intp], correlations: _Array) -> tuple[_Array, NDArray[np.int32], _Array]:
    """Return 5 % quantiles of each mode's |correlation| with its match, the group it is in, and quantiles of that."""
    # A group is the smallest that is reproducible; a mode that is in none stands alone.
    taken = np.take_along_axis(correlations, places[:, None], axis=2)  # matched ones on the diagonal
    count = taken.shape[1]
    alone = np.quantile(np.abs(np.einsum("nii->ni", taken)), LOST, axis=0)
    strengths = np.mean(taken**2, axis=0)
    strengths = strengths + strengths.T
    groups: list[tuple[int, ...]] = [(mode,) for mode in range(count)]
    found = {group: float(alone[group]) for group in groups}
    for mode in range(count):
        group = next(group for group in groups if mode in group)
        while found[group] < REPRODUCIBLE and len(group) < min(LARGEST_GROUP, count):
            others = [other for other in range(count) if other not in group]
            nearest = max(others, key=lambda other: strengths[list(group), other].sum())
            group = tuple(sorted({*group, *next(other for other in groups if nearest in other)}))
            block = taken[:, list(group)][:, :, list(group)]
            found[group] = float(np.quantile(np.linalg.svd(block, compute_uv=False)[:, -1], LOST))
        if found[group] >= REPRODUCIBLE and len(group) > 1:
            groups = [other for other in groups if not set(other) & set(group)] + [group]
    numbers, together = np.empty(count, np.int32), np.empty(count)
    for number, group in enumerate(sorted(groups)):
        numbers[list(group)], together[list(group)] = number, found[group]
    return alone, numbers, together


def held_out_r2(predictors: _Array, values: _Array, weights: _Array) -> float:
    """Return how much of a mode's variance local linear fits to all other points predict, at the best width."""
    # Local linear regression as Dsilva, Talmon, Coifman & Kevrekidis (2018) have it.
    n, d = predictors.shape
    mean = weights @ predictors / weights.sum()
    scaled = (predictors - mean) / np.sqrt(weights @ (predictors - mean) ** 2 / weights.sum())
    squared = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    design = np.column_stack([np.ones(n), scaled])
    products = (design[:, :, None] * design[:, None]).reshape(n, -1)
    centred = values - weights @ values / weights.sum()
    total = weights @ centred**2
    best = -np.inf
    for width in WIDTHS:
        # Where nobody is near, all others count a little: the fit is then that of all.
        near = (np.exp(-squared / (2.0 * width**2)) + 1e-9) * weights
        np.fill_diagonal(near, 0.0)
        moments = (near @ products).reshape(n, d + 1, d + 1)
        ridge = 1e-8 * np.trace(moments, axis1=1, axis2=2)[:, None, None] * np.eye(d + 1)
        slopes = np.linalg.solve(moments + ridge, (near @ (design * centred[:, None]))[:, :, None])[:, :, 0]
        errors = centred - (design * slopes).sum(axis=1)
        best = max(best, 1.0 - float(weights @ errors**2) / float(total))
    return best


def find_harmonics(modes: _Array, weights: _Array) -> tuple[_Array, NDArray[np.bool_]]:
    """Return R² of each mode as a function of earlier ones that are new, and which it follows, (p, p)."""
    if len(modes) > MOST_LANDMARKS:
        rows = np.linspace(0, len(modes) - 1, MOST_LANDMARKS).round().astype(np.intp)
        modes, weights = modes[rows], weights[rows]
    count = modes.shape[1]
    r2, new, follows = np.zeros(count), [0], np.zeros((count, count), dtype=np.bool_)
    for place in range(1, count):
        r2[place] = held_out_r2(modes[:, new], modes[:, place], weights)
        if r2[place] < HARMONIC:
            new.append(place)
            continue
        # The fewest that suffice: one alone, if one does.
        alone = [held_out_r2(modes[:, [other]], modes[:, place], weights) for other in new]
        best = int(np.argmax(alone))
        follows[place, new[best] if alone[best] >= HARMONIC else new] = True
    return r2, follows
