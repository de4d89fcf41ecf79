"""States that the walk does not connect: which points belong together by their own density, and at which bandwidth.

The ε of the rule "bulk" is that of a typical point. A state of few frames is sparser, so at this ε it falls into single
points, though its frames are close to each other and far from all others. It is kept as a group, and its points get a
bandwidth of their own, ε_j > ε, by the distances to their neighbours; the largest group keeps ε.

All of this is decided by the squared distances between at most a thousand nodes: landmarks with the mass of their
cells, or the points themselves.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.walk import BULK_LANDMARK_HOP

#: Fewer points than this, or a smaller share of all, are no state.
SMALLEST_STATE, SMALLEST_SHARE = 20, 0.002
#: A state's points are nearer to half of a smallest state than this fraction of the distance to all others.
SEPARATION = 0.5
#: A landmark's bandwidth is at least so many times the mean squared distance of its cell's points: neighbouring cells
#: then see each other.
CELL_REACH = 3.0

_Array = NDArray[np.float64]


def smallest_state(n_points: int, total: float) -> float:
    """Return the weight of the smallest state of ``n_points`` points of weight ``total``."""
    return total * max(SMALLEST_STATE / n_points, SMALLEST_SHARE)


def own_bandwidths(
    squared: NDArray[np.floating], masses: _Array, spreads: _Array, epsilon: float, smallest: float
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
    smallest : float
        Weight of the smallest state.
    """
    bandwidths = np.full(len(masses), epsilon)
    groups = connected(squared, bandwidths, BULK_LANDMARK_HOP)
    largest = np.argmax(np.bincount(groups, weights=masses))
    outside = groups != largest
    reached = neighbour_squares(squared[outside], masses, smallest / 2)
    bandwidths[outside] = np.maximum(epsilon, np.maximum(reached, CELL_REACH * spreads[outside]))
    # What is then neither joined to the largest group nor a state of its own stays as isolated as it was.
    groups = connected(squared, bandwidths, BULK_LANDMARK_HOP)
    joined = groups[np.flatnonzero(~outside)[0]]
    for group in range(groups.max() + 1):
        members = groups == group
        if group != joined and not is_state(squared, masses, members, ~members, smallest):
            bandwidths[members] = epsilon
    return bandwidths


def holds_state(
    squared: NDArray[np.floating], masses: _Array, to_others: NDArray[np.floating], smallest: float
) -> bool:
    """Say whether some of the nodes that lie apart are a state, by distances between them and to the nearest other."""
    if masses.sum() < smallest:
        return False
    bandwidths = neighbour_squares(squared, masses, smallest / 2)
    groups = connected(squared, bandwidths, BULK_LANDMARK_HOP)
    with_others = np.column_stack([squared, to_others])
    others = np.append(np.zeros(len(masses), dtype=bool), True)
    return any(
        is_state(with_others, masses, np.append(groups == group, False), others, smallest)
        for group in range(groups.max() + 1)
    )


def is_state(
    squared: NDArray[np.floating],
    masses: _Array,
    members: NDArray[np.bool_],
    others: NDArray[np.bool_],
    smallest: float,
) -> bool:
    """Say whether some nodes belong together by their own density: most are close to each other, and far from others.

    ``squared`` has a row per node, and a column per node or anything else that ``others`` may name.
    """
    rows = np.flatnonzero(members)
    own = masses[rows]
    if own.sum() < smallest:
        return False
    reached = neighbour_squares(squared[np.ix_(rows, rows)], own, smallest / 2)
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
