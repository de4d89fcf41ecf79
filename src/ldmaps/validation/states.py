"""Metastable states of a walk: how many there are, and which landmarks belong to which.

With b metastable states the first b − 1 modes are nearly constant within each state, and the walk relaxes much faster
within states than between them. Both are asked of every number of states, because neither is enough: harmonics of an
interval relax four times as fast as its first mode, but are not constant anywhere, and fine enough cells make
any mode look constant. The largest number that passes counts, so that states within states are found as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Most states that are looked for.
MOST_STATES = 10
#: The walk relaxes at least so many times faster within states than between them. A sphere's harmonics have 3, and gaps
#: between few points on a barrier up to 3.9.
FASTER_WITHIN = 4.0
#: Share of each mode's variance that is between states, at least. An interval cut in two has 0.81.
BETWEEN_STATES = 0.87
#: A state has more points than this, or than this share of all, whichever is less; fewer are outliers.
FEW_POINTS, FEW_SHARE = 19, 0.03
#: One that the walk hardly leaves, slower than this per step, may have fewer: more than this.
APART, FEW_APART = 1e-4, 10
#: Slower relaxation than this, per step, cannot be told from none.
SLOWEST = 1e-7

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class States:
    """Metastable states of a walk; one state where none can be told apart."""

    count: int
    labels: NDArray[np.intp]  # (M,): the state of each landmark, from 0


def find_states(eigenvalues: _Array, modes: _Array, weights: _Array) -> States:
    """Return the metastable states that the leading ``modes``, (M, p), of a walk over weighted points tell apart.

    >>> position = np.linspace(0.0, 1.0, 60)
    >>> rates, wave = np.arange(1, 5) ** 2, np.cos(np.pi * position[:, None] * np.arange(1, 5))
    >>> find_states(np.exp(-0.01 * rates), wave, np.ones(60)).count
    1
    >>> two_wells = np.column_stack([np.sign(position - 0.5), wave[:, 1]])
    >>> find_states(np.array([0.999, 0.6]), two_wells, np.ones(60)).count
    2
    """
    rates = relaxation_rates(eigenvalues)
    found = States(1, np.zeros(len(modes), dtype=np.intp))
    most = min(MOST_STATES, modes.shape[1], len(rates) - 1, len(modes) - 1)
    for n_separating in range(1, most + 1):
        if rates[n_separating] < FASTER_WITHIN * rates[n_separating - 1]:
            continue
        separating = modes[:, :n_separating]
        labels = nearest_corners(separating)
        if (
            labels is not None
            and _are_populated(labels, weights, n_separating + 1, is_apart=rates[n_separating - 1] < APART)
            and shares_between(separating, weights, labels).min() >= BETWEEN_STATES
        ):
            found = States(n_separating + 1, labels)
    return found


def _are_populated(labels: NDArray[np.intp], weights: _Array, count: int, *, is_apart: bool) -> bool:
    """Say whether every state has more than a handful of points: a mode may also single out an outlier."""
    least = min(FEW_APART if is_apart else FEW_POINTS, FEW_SHARE * weights.sum())
    return bool((np.bincount(labels, weights, count) > least).all())


def relaxation_rates(eigenvalues: _Array) -> _Array:
    """Return how fast each mode decays, -ln λ per step."""
    return np.asarray(-np.log(np.clip(eigenvalues, 1e-12, 1.0 - SLOWEST)))


def corners_of(points: _Array) -> list[int] | None:
    """Return which points, (n, d), are corners of a large simplex (inner simplex); None where there are too few."""
    rest = points.astype(np.float64)
    corners = [int(np.argmax((rest**2).sum(axis=1)))]
    rest = rest - rest[corners[0]]
    for _ in range(points.shape[1]):
        lengths = (rest**2).sum(axis=1)
        corners.append(int(np.argmax(lengths)))
        direction = rest[corners[-1]] / np.sqrt(max(lengths[corners[-1]], 1e-300))
        rest -= np.outer(rest @ direction, direction)
    return corners if len(set(corners)) == len(corners) else None


def nearest_corners(modes: _Array) -> NDArray[np.intp] | None:
    """Return which corner of the simplex that ``modes`` span each landmark belongs to; None where there is none."""
    scaled = modes / np.maximum(np.abs(modes).max(axis=0), 1e-300)
    corners = corners_of(scaled)
    if corners is None:
        return None
    design = np.column_stack([np.ones(len(scaled)), scaled])
    # Barycentric coordinates: 1 at the own corner, 0 at the others.
    memberships = design @ np.linalg.pinv(design[corners])
    return np.asarray(np.argmax(memberships, axis=1), dtype=np.intp)


def shares_between(modes: _Array, weights: _Array, labels: NDArray[np.intp]) -> _Array:
    """Return the share of each mode's variance that is between states rather than within them."""
    totals = np.bincount(labels, weights)
    is_used = totals > 0
    sums = np.stack([np.bincount(labels, weights * mode) for mode in modes.T], axis=1)
    means = sums[is_used] / totals[is_used, None]
    centre = weights @ modes / weights.sum()
    between = totals[is_used] @ (means - centre) ** 2
    return np.asarray(between / np.maximum(weights @ (modes - centre) ** 2, 1e-300))
