"""Graphs that join points by their distances: connectivity and spanning trees, a row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.jit import compiled

__all__ = [
    "all_within_hops",
    "attach_nearest",
    "block_tree",
    "count_edges",
    "pick_by_degree",
    "reaches_all",
]


@compiled
def all_within_hops(squared: Any, cutoff: float, radii: Any) -> bool:
    """Say whether hops lead from the first point to every other; from i to j reach √cutoff + r_i + r_j."""
    n = squared.shape[0]
    hop = np.sqrt(cutoff)
    unseen = np.empty(n - 1, np.intp)
    for place in range(n - 1):
        unseen[place] = place + 1
    waiting = np.zeros(n, np.intp)
    n_unseen, n_waiting = n - 1, 1
    while n_waiting and n_unseen:
        n_waiting -= 1
        here = waiting[n_waiting]
        row = squared[here]
        kept = 0
        for place in range(n_unseen):
            other = unseen[place]
            both = radii[here] + radii[other]
            if row[other] <= cutoff + both * (2.0 * hop + both):
                waiting[n_waiting] = other
                n_waiting += 1
            else:
                unseen[kept] = other
                kept += 1
        n_unseen = kept
    return bool(n_unseen == 0)


@compiled
def reaches_all(starts: Any, columns: Any, squares: Any, cutoff: float, seen: Any, waiting: Any) -> bool:
    """Say whether hops of d² ≤ cutoff along the entries of a symmetric CSR matrix lead from the first row to all.

    ``seen`` holds False and ``waiting`` anything, a place for each row.
    """
    n = seen.shape[0]
    seen[0] = True
    waiting[0] = 0
    n_waiting, n_seen = 1, 1
    while n_waiting > 0 and n_seen < n:
        n_waiting -= 1
        here = waiting[n_waiting]
        for place in range(starts[here], starts[here + 1]):
            other = columns[place]
            if squares[place] <= cutoff and not seen[other]:
                seen[other] = True
                waiting[n_waiting] = other
                n_waiting += 1
                n_seen += 1
    return bool(n_seen == n)


@compiled
def attach_nearest(row: Any, origin: int, best: Any, parent: Any, reached: Any) -> int:
    """One step of Prim: fold a new tree point's d² row into the frontier; return the closest outside point."""
    closest = -1
    lowest = np.inf
    for j in range(row.shape[0]):
        if reached[j]:
            continue
        if row[j] < best[j]:
            best[j] = row[j]
            parent[j] = origin
        if best[j] < lowest:
            lowest = best[j]
            closest = j
    return closest


@compiled
def block_tree(squared: Any, parents: Any, lengths: Any, outside: Any) -> None:
    """Write the minimum spanning tree of a block of d²: the parent and the edge of each point but the first.

    ``outside`` is a place for each point's number.
    """
    n = squared.shape[0]
    for j in range(n):
        parents[j] = 0
        lengths[j] = squared[0, j]
        outside[j] = j
    n_outside = n - 1
    outside[0] = outside[n_outside]
    while n_outside > 0:
        closest = 0
        for place in range(1, n_outside):
            if lengths[outside[place]] < lengths[outside[closest]]:
                closest = place
        newest = outside[closest]
        n_outside -= 1
        outside[closest] = outside[n_outside]
        row = squared[newest]
        for place in range(n_outside):
            other = outside[place]
            if row[other] < lengths[other]:
                lengths[other] = row[other]
                parents[other] = newest


@compiled
def count_edges(row: Any, origin: int, squared_radius: Any, degree: Any, parent: Any, draws: Any) -> None:
    """Count a new tree point as neighbour of each outside point, and keep one neighbour drawn uniformly.

    Reservoir sampling: the n-th neighbour replaces the kept one with probability 1/n.
    """
    for j in range(row.shape[0]):
        if row[j] <= squared_radius:
            degree[j] += 1
            if draws[j] * degree[j] < 1.0:
                parent[j] = origin


@compiled
def pick_by_degree(degree: Any, target: int) -> Any:
    """Return the point in which the running total of ``degree`` passes ``target``."""
    total = 0
    for j in range(degree.shape[0]):
        total += degree[j]
        if total > target:
            return j
    return degree.shape[0] - 1
