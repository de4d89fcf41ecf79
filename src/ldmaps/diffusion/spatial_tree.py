"""Shortcuts that a spatial tree allows where the metric is the Euclidean distance of few features.

Everything here returns what the row-by-row routines return, from neighbourhoods
instead of all N² distances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.metrics.base import Metric, Points

__all__ = [
    "near_rows",
    "neighbour_finder",
    "raw_values",
    "spanning_edges",
    "tree_pays",
]

#: Above this a tree visits most of the points, and plain rows of distances are quicker.
MAX_FEATURES = 8
#: Below this rows of distances are quicker than building a tree.
MIN_POINTS = 4096
_NEIGHBOURS = 8


def tree_pays(metric: Metric, n_points: int, n_features: int) -> bool:
    """Say whether a tree is quicker than rows of distances."""
    return metric.is_euclidean and n_points >= MIN_POINTS and n_features <= MAX_FEATURES


def raw_values(metric: Metric, points: Points) -> NDArray[Any] | None:
    """Return the features as (n, features) where a tree pays, else None."""
    values: NDArray[Any] | None = getattr(points, "values", None) if metric.is_euclidean else None
    if values is None or not tree_pays(metric, len(points), values.shape[1]):
        return None
    return np.ascontiguousarray(values, dtype=np.float64)


def neighbour_finder(values: NDArray[Any], radius: float) -> Callable[[int], NDArray[np.intp]]:
    """Return a function from a point's index to the indices of all points within ``radius``, itself included."""
    tree = scipy.spatial.cKDTree(values)

    def find(index: int) -> NDArray[np.intp]:
        return np.asarray(tree.query_ball_point(values[index], radius), dtype=np.intp)

    return find


def near_rows(
    values: NDArray[Any], cutoff: float, dtype: np.dtype[Any]
) -> Callable[[slice], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Return a function from rows to their near pairs, d² ≤ cutoff: how many per row, columns, and d²."""
    tree = scipy.spatial.cKDTree(values)
    radius = float(np.sqrt(cutoff))

    def find(rows: slice) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        own = scipy.spatial.cKDTree(values[rows])
        near = own.sparse_distance_matrix(tree, radius, output_type="coo_matrix").tocsr()
        return np.diff(near.indptr), near.indices, (near.data**2).astype(dtype)

    return find


def spanning_edges(values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return edges and lengths of the minimum spanning tree by Borůvka's rounds over a spatial tree.

    Each round joins every component but the largest to its nearest neighbour
    outside. Points find it among a few nearest neighbours found once; those whose
    list ends inside their own component look again, no farther than the
    component's best so far.
    """
    n = len(values)
    tree = scipy.spatial.cKDTree(values)
    lengths, neighbours = tree.query(values, k=min(_NEIGHBOURS + 1, n))
    labels = np.arange(n)
    n_components = n
    edges: list[NDArray[np.intp]] = []
    edge_lengths: list[NDArray[np.float64]] = []
    while n_components > 1:
        sizes = np.bincount(labels)
        searching = np.flatnonzero(labels != np.argmax(sizes))
        own = labels[searching]
        outside = labels[neighbours[searching]] != own[:, None]
        place = np.argmax(outside, axis=1)
        has_outside = outside[np.arange(len(searching)), place]
        distance = np.where(has_outside, lengths[searching, place], np.inf)
        target = neighbours[searching, place]
        best = np.full(n_components, np.inf)
        np.minimum.at(best, own, distance)
        # A list that ends inside the component, nearer than its best, may hide a nearer neighbour beyond.
        open_ended = ~has_outside & (lengths[searching, -1] < best[own])
        if open_ended.any():
            again = np.flatnonzero(open_ended)
            new_distance, new_target = _nearest_outside(values, tree, labels, searching[again], best)
            distance[again], target[again] = new_distance, new_target
        order = np.lexsort((distance, own))
        first = order[np.concatenate([[True], own[order][1:] != own[order][:-1]])]
        pairs = np.column_stack([searching[first], target[first]])
        pair_lengths = distance[first]
        # Two components may choose each other, and ties may close a ring: keep a forest of the choices.
        keep = _forest(labels[pairs], pair_lengths, n_components)
        edges.append(pairs[keep])
        edge_lengths.append(pair_lengths[keep])
        joined = labels[pairs[keep]]
        graph = scipy.sparse.coo_array(
            (np.ones(len(joined), dtype=bool), joined.T), shape=(n_components, n_components)
        )
        n_components, merged = scipy.sparse.csgraph.connected_components(graph, directed=False)
        labels = merged[labels]
    return np.concatenate(edges), np.concatenate(edge_lengths)


def _nearest_outside(
    values: NDArray[Any],
    tree: scipy.spatial.cKDTree,
    labels: NDArray[Any],
    points: NDArray[np.intp],
    best: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Find for each point the nearest one of another component, if nearer than the component's best."""
    distance = np.full(len(points), np.inf)
    target = np.zeros(len(points), dtype=np.intp)
    components = np.unique(labels[points])
    if len(components) <= 16:
        for component in components:
            members = np.flatnonzero(labels[points] == component)
            others = np.flatnonzero(labels != component)
            bound = best[component] if np.isfinite(best[component]) else np.inf
            nearest, index = scipy.spatial.cKDTree(values[others]).query(
                values[points[members]], distance_upper_bound=bound
            )
            hit = np.isfinite(nearest)
            distance[members[hit]] = nearest[hit]
            target[members[hit]] = others[index[hit]]
        return distance, target
    # Many small components: longer lists for the points that need them, until each is settled.
    waiting = np.arange(len(points))
    count = 2 * _NEIGHBOURS
    while len(waiting):
        count = min(count * 2, len(values))
        lengths, index = tree.query(values[points[waiting]], k=count)
        own = labels[points[waiting]]
        outside = labels[index] != own[:, None]
        place = np.argmax(outside, axis=1)
        rows = np.arange(len(waiting))
        hit = outside[rows, place]
        distance[waiting[hit]] = lengths[rows, place][hit]
        target[waiting[hit]] = index[rows, place][hit]
        unsettled = ~hit & (lengths[:, -1] < best[own]) & (count < len(values))
        waiting = waiting[unsettled]
    return distance, target


def _forest(pairs: NDArray[Any], lengths: NDArray[np.float64], n_components: int) -> NDArray[np.intp]:
    """Return which of the chosen edges make a forest, shortest first."""
    parent = list(range(n_components))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    kept = []
    for edge in np.argsort(lengths, kind="stable"):
        first, second = root(int(pairs[edge, 0])), root(int(pairs[edge, 1]))
        if first != second:
            parent[first] = second
            kept.append(int(edge))
    return np.array(kept, dtype=np.intp)
