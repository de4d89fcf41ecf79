"""Harmonics: modes that are functions of earlier ones, and so show nothing new.

A mode is predicted at each landmark from the earlier modes at the landmarks around it (local linear regression as
Dsilva, Talmon, Coifman & Kevrekidis, 2018, have it). Within metastable states only: with b separate states a single
mode takes b values, so that every other one would be a function of it. A mode that tells states apart is
therefore never a harmonic, and a later one is if it is a function of the earlier ones within each state. Their
ranks within the state predict, not their values, which hardly change on the plateau that a state is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.validation.states import States

#: A mode of which earlier ones predict so much is a harmonic of them.
HARMONIC = 0.9
#: Numbers of neighbours that a prediction rests on; the best of them counts.
NEIGHBOURS = (6, 10, 16, 30)
#: Most landmarks that are looked at.
MOST_LANDMARKS = 400
#: Of so many earlier modes, pairs are tried too.
MOST_PAIRED = 5
#: Share of slope 0 in a local fit.
STEADY = 1e-3

_Array = NDArray[np.float64]


def find_harmonics(modes: _Array, weights: _Array, states: States) -> tuple[_Array, NDArray[np.bool_]]:
    """Return R² of each mode as a function of earlier ones that are new, and which it follows, (p, p)."""
    labels = states.labels
    if len(modes) > MOST_LANDMARKS:
        rows = np.linspace(0, len(modes) - 1, MOST_LANDMARKS).round().astype(np.intp)
        modes, weights, labels = modes[rows], weights[rows], labels[rows]
    count, n_separating = modes.shape[1], max(states.count - 1, 1)
    r2, follows = np.zeros(count), np.zeros((count, count), dtype=np.bool_)
    new = list(range(min(n_separating, count)))
    known: dict[tuple[int, ...], LocalFits] = {}  # which all later modes share
    for place in range(n_separating, count):
        chosen: tuple[int, ...] = ()
        for few in _sets_of(new):
            if few not in known:
                known[few] = LocalFits.around(modes[:, few], weights, labels)
            found = known[few].held_out_r2(modes[:, place])
            if not chosen or found > r2[place]:
                r2[place], chosen = found, few
            if found >= HARMONIC:
                break
        if r2[place] >= HARMONIC:
            follows[place, chosen] = True
        else:
            new.append(place)
    return r2, follows


def _sets_of(new: list[int]) -> list[tuple[int, ...]]:
    """Return which modes may predict another, the fewest first."""
    # Many predictors need many neighbours, so all together may fail where two suffice.
    sets: list[tuple[int, ...]] = [(mode,) for mode in new]
    if 2 < len(new) <= MOST_PAIRED:
        sets += combinations(new, 2)
    return [*sets, tuple(new)] if len(new) > 1 else sets


@dataclass(frozen=True)
class LocalFits:
    """Local linear fits of any mode to its values at the landmarks around each, which is left out itself."""

    weights: _Array  # (n,)
    labels: NDArray[np.intp]  # (n,): the state of each landmark
    near: NDArray[np.intp]  # (n, most): neighbours of the same state, nearest first
    rows: _Array  # (len(NEIGHBOURS), n, most): by which their values are multiplied

    @classmethod
    def around(cls, predictors: _Array, weights: _Array, labels: NDArray[np.intp]) -> Self:
        """Return the fits that take neighbours by the ranks of ``predictors``, (n, d), within states."""
        most = min(NEIGHBOURS[-1], len(predictors) - 1)
        near = np.zeros((len(predictors), most), dtype=np.intp)
        rows = np.zeros((len(NEIGHBOURS), len(predictors), most))
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            # Of fewer, the state's mean is all that can be predicted: their rows stay 0.
            if len(members) >= predictors.shape[1] + 3:
                places, found = _fit_around(_ranks(predictors[members], weights[members]), weights[members])
                near[members, : places.shape[1]] = members[places]
                rows[:, members, : places.shape[1]] = found
        return cls(weights, labels, near, rows)

    def held_out_r2(self, values: _Array) -> float:
        """Return how much of the variance of ``values`` within states the fits predict, with the best neighbours."""
        totals = np.bincount(self.labels, self.weights)
        means = np.bincount(self.labels, self.weights * values) / np.where(totals > 0, totals, 1.0)
        centred = values - means[self.labels]
        predicted = np.einsum("knm,nm->kn", self.rows, centred[self.near])
        residuals = (centred - predicted) ** 2 @ self.weights
        return 1.0 - float(residuals.min()) / max(float(self.weights @ centred**2), 1e-300)


def _ranks(values: _Array, weights: _Array) -> _Array:
    """Return the share of the weight that lies below each value, column by column."""
    ranks = np.empty(values.shape)
    for place, column in enumerate(values.T):
        rising = np.argsort(column, kind="stable")
        ranks[rising, place] = (np.cumsum(weights[rising]) - 0.5 * weights[rising]) / weights.sum()
    return ranks


def _fit_around(predictors: _Array, weights: _Array) -> tuple[NDArray[np.intp], _Array]:
    """Return the neighbours of every point, and by what a prediction multiplies their values."""
    n, d = predictors.shape
    squared = np.zeros((n, n))
    for column in predictors.T:  # an array of shape (n, n, d) would take most of the time
        squared += (column[:, None] - column) ** 2
    np.fill_diagonal(squared, np.inf)  # a landmark does not predict itself
    most = min(NEIGHBOURS[-1], n - 1)
    near = np.argpartition(squared, most - 1, axis=1)[:, :most]
    order = np.argsort(np.take_along_axis(squared, near, axis=1), axis=1)
    near = np.take_along_axis(near, order, axis=1)
    distances = np.take_along_axis(squared, near, axis=1)
    # Measured from the landmark itself, so that the constant of a fit is its prediction.
    design = np.concatenate([np.ones((n, most, 1)), predictors[near] - predictors[:, None]], axis=2)
    constant = np.zeros((n, d + 1, 1))
    constant[:, 0] = 1.0
    rows = []
    for count in NEIGHBOURS:
        reach = np.maximum(distances[:, min(max(count, d + 2), most) - 1], 1e-24)
        closeness = np.exp(-2.0 * distances / reach[:, None]) * weights[near]
        weighted = design.transpose(0, 2, 1) * closeness[:, None]
        # A little of slope 0, in units of the reach, steadies fits to neighbours that are all on one side.
        steady = np.zeros((n, d + 1))
        steady[:, 1:] = (STEADY * closeness.sum(axis=1) * reach)[:, None]
        moments = weighted @ design + steady[:, None] * np.eye(d + 1)
        rows.append((np.linalg.solve(moments, constant).transpose(0, 2, 1) @ weighted)[:, 0])
    return near, np.stack(rows)
