"""Harmonics: modes that are functions of earlier ones, and so show nothing new.

A mode is predicted at each landmark from the earlier modes at the landmarks around it (local linear regression as
Dsilva, Talmon, Coifman & Kevrekidis, 2018, have it). Within metastable states only: with b separate states a single
mode takes b values, so that every other one would be a function of it. A mode that tells states apart is
therefore never a harmonic, and a later one is if it is a function of the earlier ones within each state. Their
ranks within the state predict, not their values, which hardly change on the plateau that a state is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

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
#: Landmarks are predicted in so many parts, and no further where the first show that a mode is no harmonic.
PARTS = 4

_Array = NDArray[np.float64]


def find_harmonics(modes: _Array, weights: _Array, states: States) -> tuple[_Array, NDArray[np.bool_]]:
    """Return R² of each mode as a function of earlier ones that are new, and which it follows, (p, p)."""
    labels = states.labels
    if len(modes) > MOST_LANDMARKS:
        rows = np.linspace(0, len(modes) - 1, MOST_LANDMARKS).round().astype(np.intp)
        modes, weights, labels = modes[rows], weights[rows], labels[rows]
    within = _WithinStates.of(modes, weights, labels)
    count, n_separating = modes.shape[1], max(states.count - 1, 1)
    r2, follows = np.zeros(count), np.zeros((count, count), dtype=np.bool_)
    new = list(range(min(n_separating, count)))
    known: dict[tuple[int, ...], LocalFits] = {}  # which all later modes share
    for place in range(n_separating, count):
        shares = dict.fromkeys(_sets_of(new), -np.inf)
        for predictors in shares:
            fits = known.setdefault(predictors, LocalFits(within, predictors))
            shares[predictors] = fits.share_of(place, at_least=HARMONIC)
            if shares[predictors] >= HARMONIC:
                break
        # Shares below HARMONIC may come from some landmarks only: the best is found again from all until it stays best.
        by_all = set[tuple[int, ...]]()
        chosen = max(shares, key=shares.__getitem__)
        while shares[chosen] < HARMONIC and chosen not in by_all:
            by_all.add(chosen)
            shares[chosen] = known[chosen].share_of(place)
            chosen = max(shares, key=shares.__getitem__)
        r2[place] = shares[chosen]
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
class _WithinStates:
    """Modes as they are within metastable states."""

    weights: _Array  # (n,)
    members: list[NDArray[np.intp]]  # the landmarks of each state
    ranks: _Array  # (n, p): the share of the state's weight that lies below each value
    centred: _Array  # (n, p): values without their state's mean

    @classmethod
    def of(cls, modes: _Array, weights: _Array, labels: NDArray[np.intp]) -> _WithinStates:
        ranks, centred = np.empty(modes.shape), np.empty(modes.shape)
        members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        for rows in members:
            values, mass = modes[rows], weights[rows]
            ranks[rows] = _ranks(values, mass)
            centred[rows] = values - mass @ values / max(float(mass.sum()), 1e-300)
        return cls(weights, members, ranks, centred)


def _ranks(values: _Array, weights: _Array) -> _Array:
    """Return the share of the weight that lies below each value, column by column."""
    ranks = np.empty(values.shape)
    for place, column in enumerate(values.T):
        rising = np.argsort(column, kind="stable")
        ranks[rising, place] = (np.cumsum(weights[rising]) - 0.5 * weights[rising]) / weights.sum()
    return ranks


@dataclass(frozen=True)
class LocalFits:
    """Local linear fits of any mode to its values at the landmarks around each, which is left out itself."""

    within: _WithinStates
    predictors: tuple[int, ...]  # modes by whose ranks neighbours are taken
    parts: list[_Part] = field(default_factory=list)  # as many as were needed so far

    def share_of(self, mode: int, at_least: float = -np.inf) -> float:
        """Return how much of the variance of a mode within states the fits predict, with the best neighbours.

        Where it is surely less than ``at_least``, it is estimated from some of the landmarks.
        """
        values, weights = self.within.centred[:, mode], self.within.weights
        total = max(float(weights @ values**2), 1e-300)
        residuals, seen = np.zeros(len(NEIGHBOURS)), 0.0
        for first in range(PARTS):
            if first == len(self.parts):
                self.parts.append(_fit_around(self.within, list(self.predictors), first))
            part = self.parts[first]
            residuals += part.residuals(values, weights)
            seen += float(weights[part.asked].sum())
            # All other landmarks can only add to it.
            if residuals.min() > (1.0 - at_least) * total:
                total *= seen / float(weights.sum())
                break
        return 1.0 - float(residuals.min()) / total


class _Part(NamedTuple):
    """Fits at some of the landmarks."""

    asked: NDArray[np.intp]  # (m,): which
    near: NDArray[np.intp]  # (m, most): their neighbours
    rows: _Array  # (m, len(NEIGHBOURS), most): by which the neighbours' values are multiplied

    def residuals(self, values: _Array, weights: _Array) -> _Array:
        """Return the weighted sum of squared residuals for each number of neighbours."""
        predicted = (self.rows @ values[self.near][:, :, None])[:, :, 0]
        return np.asarray(weights[self.asked] @ (values[self.asked, None] - predicted) ** 2)


def _fit_around(within: _WithinStates, predictors: list[int], first: int) -> _Part:
    """Fit at every ``PARTS``-th landmark of each state to those around it, by the ranks of some modes."""
    points, d, most = within.ranks[:, predictors], len(predictors), NEIGHBOURS[-1]
    asked = np.concatenate([members[first::PARTS] for members in within.members])
    near = np.repeat(asked[:, None], most, axis=1)  # itself where there are not so many others
    reached = np.zeros((len(asked), len(NEIGHBOURS)), dtype=np.intp)
    start = 0
    for members in within.members:
        own, others = points[members], min(most, len(members) - 1)
        rows = slice(start, start + len(own[first::PARTS]))
        start = rows.stop
        # Of fewer, the state's mean is all that can be predicted.
        if len(members) >= d + 3 and start > rows.start:
            # Squared distances but for a constant in each row: the nearest are the same.
            order = own[first::PARTS] @ (-2.0 * own.T)
            order += (own**2).sum(axis=1)
            itself = np.arange(first, len(own), PARTS)  # which must not predict itself
            order[np.arange(len(order)), itself] = np.inf
            near[rows, :others] = members[np.argpartition(order, others - 1, axis=1)[:, :others]]
            reached[rows] = [min(max(count, d + 2), others) - 1 for count in NEIGHBOURS]
    is_other = near != asked[:, None]
    # Measured from the landmark itself, so that the constant of a fit is its prediction.
    design = np.ones((len(asked), d + 1, most))
    design[:, 1:] = (points[near] - points[asked, None]).transpose(0, 2, 1)
    distances = np.where(is_other, (design[:, 1:] ** 2).sum(axis=1), np.inf)
    reach = np.take_along_axis(np.sort(distances, axis=1), reached, axis=1)
    reach = np.where(is_other[:, :1], np.maximum(reach, 1e-24), 1.0)
    closeness = np.exp(-2.0 * distances[:, None] / reach[:, :, None]) * within.weights[near][:, None]
    weighted = (closeness[:, :, None] * design[:, None]).reshape(len(asked), -1, most)
    moments = (weighted @ design.transpose(0, 2, 1)).reshape(len(asked), len(NEIGHBOURS), d + 1, d + 1)
    # A little of slope 0, in units of the reach, steadies fits to neighbours that are all on one side.
    slopes = np.arange(1, d + 1)
    moments[:, :, slopes, slopes] += (STEADY * closeness.sum(axis=2) * reach)[:, :, None]
    moments[~is_other[:, 0]] = np.eye(d + 1)  # without neighbours, rows are 0 whatever is solved
    constant = np.zeros((d + 1, 1))
    constant[0] = 1.0
    solved = np.linalg.solve(moments, constant)[:, :, :, 0]
    return _Part(asked, near, closeness * (solved @ design))
