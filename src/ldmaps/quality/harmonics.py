"""Coordinates that are functions of earlier ones: harmonics, which show nothing new.

A coordinate is predicted at each landmark by a linear fit to the others around it, with Gaussian
weights in the space of the earlier coordinates that are themselves new (local linear regression: Dsilva, Talmon,
Coifman & Kevrekidis 2018). R² is of these held-out predictions, at the width that predicts best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: A coordinate that earlier ones predict so well is a harmonic of them.
HARMONIC = 0.95
#: Widths of the weights in units of the earlier coordinates' standard deviation.
WIDTHS = (0.1, 0.2, 0.4)
#: Most landmarks that are looked at.
MOST_LANDMARKS = 300


@dataclass(frozen=True)
class Harmonics:
    """Which coordinates are functions of earlier ones."""

    #: (p,): held-out R² of each coordinate as a function of the earlier ones that are new; 0 for the first
    r2: NDArray[np.float64]
    follows: tuple[tuple[int, ...], ...]  # those that each coordinate is a function of; empty where it is new


def held_out_r2(
    predictors: NDArray[np.float64], values: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """Return how much of a coordinate's variance local linear fits to all other points predict, at most 1."""
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
        near = np.exp(-squared / (2.0 * width**2)) * weights
        np.fill_diagonal(near, 0.0)  # held out
        # Where nobody is near, all count a little: the fit is then that of all.
        near += 1e-9 * weights
        np.fill_diagonal(near, 0.0)
        moments = (near @ products).reshape(n, d + 1, d + 1)
        ridge = 1e-8 * np.trace(moments, axis1=1, axis2=2)[:, None, None] * np.eye(d + 1)
        slopes = np.linalg.solve(moments + ridge, (near @ (design * centred[:, None]))[:, :, None])[:, :, 0]
        errors = centred - (design * slopes).sum(axis=1)
        best = max(best, 1.0 - float(weights @ errors**2) / float(total))
    return best


def find_harmonics(coordinates: NDArray[np.float64], weights: NDArray[np.float64]) -> Harmonics:
    """Find coordinates that are functions of earlier ones."""
    if len(coordinates) > MOST_LANDMARKS:
        rows = np.linspace(0, len(coordinates) - 1, MOST_LANDMARKS).round().astype(np.intp)
        coordinates, weights = coordinates[rows], weights[rows]
    count = coordinates.shape[1]
    r2, new = np.zeros(count), [0]
    follows: list[tuple[int, ...]] = [()] * count
    for place in range(1, count):
        values = coordinates[:, place]
        r2[place] = held_out_r2(coordinates[:, new], values, weights)
        if r2[place] < HARMONIC:
            new.append(place)
            continue
        # The fewest that suffice: one alone, if one does.
        alone = [held_out_r2(coordinates[:, [other]], values, weights) for other in new]
        best = int(np.argmax(alone))
        follows[place] = (new[best],) if alone[best] >= HARMONIC else tuple(new)
    return Harmonics(r2, tuple(follows))
