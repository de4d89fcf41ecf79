"""States that the walk does not connect: which points belong together by their own density, and at which bandwidth.

The ε of the rule "bulk" is that of a typical point. A state of few frames is sparser, so at this ε it falls into single
points, though its frames are close to each other and far from all others. It is kept as a group, and its points get a
bandwidth of their own, ε_j > ε, by the distances to their neighbours; the largest group keeps ε.

All of this is decided by the squared distances between at most a thousand nodes: landmarks with the mass of their
cells, or the points themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.walk import BULK_LANDMARK_HOP

#: So many points are enough for a state, and so is this share of all where that is more than a handful.
SMALLEST_STATE, SMALLEST_SHARE, HANDFUL = 20, 0.002, 10
#: Most points that are left out, as a share of all (one in any case).
MOST_LEFT_OUT = 0.05
#: A state's points are nearer to half of a smallest state than this fraction of the distance to all others.
SEPARATION = 0.5
#: A landmark's bandwidth is at least so many times the mean squared distance of its cell's points: neighbouring cells
#: then see each other.
CELL_REACH = 3.0
#: A bandwidth is the upper quartile of those of so many nodes around, itself included.
AROUND, UPPER = 8, 0.75
#: Hops of so many √ε join large groups: those that are farther from each other have no transition between them.
JOINED_HOP = 3.0
#: Own bandwidths at the rim of a group are at most this fraction of what would join it to the next.
UNJOINED = 0.9

_Array = NDArray[np.float64]


class StateSize(NamedTuple):
    """What a state weighs at least, and the points that must be near each of its own."""

    smallest: float
    near: float

    @classmethod
    def of(cls, n_points: int, total: float) -> StateSize:
        """Return both for ``n_points`` points of weight ``total``."""
        one = total / n_points
        smallest = min(SMALLEST_STATE, max(SMALLEST_SHARE * n_points, HANDFUL + 1))
        return cls(one * smallest, one * SMALLEST_STATE / 2)


def own_bandwidths(
    squared: NDArray[np.floating], masses: _Array, spreads: _Array, epsilon: float, size: StateSize
) -> _Array:
    """Return the bandwidth of each node: ε in the largest group, and its own where that is larger elsewhere.

    Parameters
    ----------
    squared : ndarray of shape (M, M)
        Squared distances between the nodes.
    masses, spreads : ndarray of shape (M,)
        How many points each node stands for, by weight, and their mean squared distance from it.
    epsilon : float
        Bandwidth of a typical point.
    size : StateSize
        Of the smallest state.
    """
    bandwidths = np.full(len(masses), epsilon)
    groups = connected(squared, bandwidths, BULK_LANDMARK_HOP)
    largest = np.argmax(np.bincount(groups, weights=masses))
    outside = groups != largest
    if not outside.any():
        return bandwidths
    reached = neighbour_squares(squared[outside], masses, size.near)
    own = np.maximum(reached, CELL_REACH * spreads[outside])
    # As those around it have: at the rim of a state a bandwidth of its own density would reach the next state.
    near = np.argsort(squared[np.ix_(outside, outside)], axis=1, kind="stable")[:, :AROUND]
    bandwidths[outside] = np.maximum(epsilon, np.quantile(own[near], UPPER, axis=1))
    alone = _alone(squared, masses, bandwidths, outside, size)
    # Tails of the largest group, and what else is no state, have bandwidths of their own density.
    others = outside & ~alone.in_states
    bandwidths[others] = np.maximum(epsilon, own[others[outside]])
    # What is then neither joined to the largest group nor a state of its own stays as isolated as it was.
    bandwidths[_alone(squared, masses, bandwidths, outside, size).scattered] = epsilon
    return _without_bridges(squared, bandwidths, epsilon)


class _Alone(NamedTuple):
    """Which nodes are not joined to the largest group, (M,): those of states and too large groups, and others."""

    in_states: NDArray[np.bool_]
    scattered: NDArray[np.bool_]


def _alone(
    squared: NDArray[np.floating],
    masses: _Array,
    bandwidths: _Array,
    outside: NDArray[np.bool_],
    size: StateSize,
) -> _Alone:
    groups = connected(squared, bandwidths, BULK_LANDMARK_HOP)
    joined = groups[np.flatnonzero(~outside)[0]]
    found = _Alone(np.zeros(len(masses), dtype=bool), np.zeros(len(masses), dtype=bool))
    for group in range(groups.max() + 1):
        members = groups == group
        if group != joined:
            are_too_many = masses[members].sum() > MOST_LEFT_OUT * masses.sum()
            is_kept = are_too_many or is_state(squared, masses, members, ~members, size)
            kind = found.in_states if is_kept else found.scattered
            kind |= members
    return found


def _without_bridges(squared: NDArray[np.floating], bandwidths: _Array, epsilon: float) -> _Array:
    """Return bandwidths so much smaller, but not below ε, that those at the rims of two groups do not join these."""
    groups = connected(squared, bandwidths, BULK_LANDMARK_HOP)
    to_others = np.where(groups[:, None] == groups, np.inf, squared).min(axis=1)
    return np.asarray(np.maximum(epsilon, np.minimum(bandwidths, UNJOINED * to_others / JOINED_HOP**2)))


def holds_state(
    squared: NDArray[np.floating], masses: _Array, to_others: NDArray[np.floating], size: StateSize
) -> bool:
    """Say whether some of the nodes that lie apart are a state, by distances between them and to the nearest other."""
    if masses.sum() < size.smallest:
        return False
    bandwidths = neighbour_squares(squared, masses, size.near)
    groups = connected(squared, bandwidths, BULK_LANDMARK_HOP)
    with_others = np.column_stack([squared, to_others])
    others = np.append(np.zeros(len(masses), dtype=bool), True)
    return any(
        is_state(with_others, masses, np.append(groups == group, False), others, size)
        for group in range(groups.max() + 1)
    )


def is_state(
    squared: NDArray[np.floating],
    masses: _Array,
    members: NDArray[np.bool_],
    others: NDArray[np.bool_],
    size: StateSize,
) -> bool:
    """Say whether some nodes belong together by their own density: most are close to each other, and far from others.

    ``squared`` has a row per node, and a column per node or anything else that ``others`` may name.
    """
    rows = np.flatnonzero(members)
    own = masses[rows]
    if own.sum() < size.smallest:
        return False
    reached = neighbour_squares(squared[np.ix_(rows, rows)], own, size.near)
    gaps = squared[np.ix_(rows, np.flatnonzero(others))].min(axis=1)
    is_close = reached < SEPARATION**2 * gaps
    return bool(own[is_close].sum() >= 0.5 * own.sum())


def neighbour_squares(squared: NDArray[np.floating], masses: _Array, mass: float) -> _Array:
    """Return the squared distance of each row within which the nodes, itself included, weigh more than ``mass``."""
    order = np.argsort(squared, axis=1, kind="stable")
    reached = (np.cumsum(masses[order], axis=1) <= mass).sum(axis=1)
    places = np.minimum(reached, len(masses) - 1)
    nearest = np.take_along_axis(np.asarray(squared), order, axis=1)
    return np.asarray(nearest[np.arange(len(squared)), places], dtype=np.float64)


def connected(squared: NDArray[np.floating], bandwidths: _Array, hop: float) -> NDArray[np.intp]:
    """Return the group of each node, joined by hops of ``hop``·(ε_i ε_j)^¼, numbered from 0."""
    roots = np.sqrt(bandwidths)
    graph = scipy.sparse.csr_array(np.asarray(squared) <= hop**2 * np.outer(roots, roots))
    return np.asarray(scipy.sparse.csgraph.connected_components(graph, directed=False)[1], dtype=np.intp)
