"""Bookkeeping of Voronoi cells; each loop reads the points once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.jit import compiled

__all__ = ["best_of_cells", "count_cells", "members_by_cell"]


@compiled
def members_by_cell(assignment: Any, cells: Any, n_cells: int) -> Any:
    """Return the members of ``cells`` cell after cell, each cell's as they stand, and where cells begin and end."""
    slot = np.empty(n_cells, np.intp)
    slot[:] = -1
    for place in range(cells.size):
        slot[cells[place]] = place
    bounds = np.zeros(cells.size + 1, np.intp)
    for point in range(assignment.size):
        place = slot[assignment[point]]
        if place >= 0:
            bounds[place + 1] += 1
    for place in range(cells.size):
        bounds[place + 1] += bounds[place]
    following = np.empty(cells.size, np.intp)
    for place in range(cells.size):
        following[place] = bounds[place]
    order = np.empty(bounds[-1], np.intp)
    for point in range(assignment.size):
        place = slot[assignment[point]]
        if place >= 0:
            order[following[place]] = point
            following[place] += 1
    return order, bounds


@compiled
def count_cells(assignment: Any, squared: Any, weights: Any, multiplicities: Any, radii: Any) -> None:
    """Add the weights of points to their cells, and widen these to the farthest d² of a point of positive weight.

    ``weights`` without an entry stand for ones.
    """
    is_weighted = weights.size > 0
    weight = 1.0
    for point in range(assignment.size):
        cell = assignment[point]
        if is_weighted:
            weight = weights[point]
        multiplicities[cell] += weight
        if weight > 0.0 and squared[point] > radii[cell]:
            radii[cell] = squared[point]


@compiled
def best_of_cells(order: Any, bounds: Any, sums: Any, landmarks: Any, gain: float) -> Any:
    """Return each cell's member with the lowest sum (the first among equals), or its landmark if that is as good.

    As good means that the lowest sum is not below ``gain`` times the landmark's.
    """
    best = landmarks.copy()
    for cell in range(landmarks.size):
        lowest, own, winner = np.inf, np.inf, -1
        for member in range(bounds[cell], bounds[cell + 1]):
            if order[member] == landmarks[cell]:
                own = sums[member]
            if sums[member] < lowest:
                lowest, winner = sums[member], order[member]
        if lowest < gain * own:
            best[cell] = winner
    return best
