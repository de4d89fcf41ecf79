"""The random walk that a map is made of, and whether it reaches all points: one spanning tree answers that.

The graph that joins points closer than √ε is connected exactly when √ε is at least the tree's longest edge; its
components at a smaller ε are what is left of the tree when the longer edges are cut.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.bottleneck import Edges, bottleneck_edges, cells_pay
from ldmaps.diffusion.pairwise import squared_row, squared_tile
from ldmaps.errors import DisconnectedError
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.precomputed import StoredPoints, StoredSquares
from ldmaps.progress import tick

#: Share of a row's points that are in the tree already before they are dropped from the rows.
DROPPED_SHARE = 1 / 8


@dataclass(frozen=True)
class Walk:
    """Training points and the settings of the walk over them."""

    metric: Metric
    points: Points  # the N training points, prepared; all of positive weight
    weights: NDArray[np.float64]  # (N,): their multiplicities
    epsilon: float  # bandwidth of the kernel
    alpha: float = 0.0  # density normalisation
    time: float = 0.0  # diffusion time t: coordinates are λᵗψ
    n_threads: int | None = None
    leaves_out: bool = False  # whether small groups of points that lie apart are to be left out of the walk
    is_connected: bool = False  # whether it is known already that the walk reaches all points

    def take(self, indices: NDArray[np.intp]) -> Walk:
        """Return the walk over some of the points."""
        return replace(
            self, points=self.points.take(indices), weights=self.weights[indices], is_connected=False
        )


class SpanningTree(Edges):
    """A spanning tree over n points, whose longest edge is as short as can be."""

    # Lengths are the larger of the two directions in which they were computed, so that a walk may go either way.

    @property
    def connecting_epsilon(self) -> float:
        """Smallest ε whose √ε-graph is connected."""
        return float(self.squares.max(initial=0.0))

    def component_sizes(self, epsilon: float) -> NDArray[np.intp]:
        """Return the sizes of the components of the √ε-graph, largest first."""
        return np.sort(np.bincount(self.components(epsilon)).astype(np.intp))[::-1]

    def components(self, epsilon: float) -> NDArray[np.intp]:
        """Return which component of the √ε-graph each point is in, numbered from 0; shape (n,)."""
        return self.chosen(self.squares <= epsilon).parts(len(self.ends) + 1)

    def in_largest_component(self, epsilon: float) -> NDArray[np.bool_]:
        """Return which points are in the largest component of the √ε-graph; shape (n,)."""
        labels = self.components(epsilon)
        return np.asarray(labels == np.argmax(np.bincount(labels)))

    def epsilon_joining(self, n_points: int) -> float:
        """Return the smallest ε at which a single component of the √ε-graph holds ``n_points`` points."""
        # The largest component only grows with ε, so bisection finds where it is large enough.
        lengths = np.unique(self.squares)
        is_short = bisect_left(lengths, n_points, key=lambda epsilon: int(self.component_sizes(epsilon)[0]))
        return float(lengths[min(is_short, len(lengths) - 1)])

    def among(self, members: NDArray[np.bool_]) -> SpanningTree:
        """Return the tree of the points of one component, renumbered."""
        number = np.cumsum(members) - 1
        kept = members[self.ends].all(axis=1)
        return SpanningTree(number[self.ends[kept]].astype(np.intp), self.squares[kept])


#: The longest edge depends on outliers when its square is this many times the square of the edge that joins all
#: points except this share.
OUTLIER_SHARE, RAISED = 0.01, 10.0


def connecting_tree(metric: Metric, points: Points, n_threads: int | None = None) -> SpanningTree:
    """Return a spanning tree with the longest edge of the minimum spanning tree, quicker where that is possible."""
    if cells_pay(metric, len(points)):
        # Where its longest edge depends on outliers, there is none, and the minimum spanning tree reveals them.
        edges = bottleneck_edges(metric, points, n_threads, outliers=(OUTLIER_SHARE, RAISED))
        if edges is not None:
            return _both_ways(metric, points, edges.ends, edges.squares)
    return minimum_spanning_tree(metric, points)


def minimum_spanning_tree(metric: Metric, points: Points) -> SpanningTree:
    """Return the minimum spanning tree without ever holding N×N distances."""
    return _both_ways(metric, points, *_prim(metric, points))


def _both_ways(
    metric: Metric, points: Points, edges: NDArray[np.intp], squared: NDArray[np.float64]
) -> SpanningTree:
    """Return the tree with the lengths of its longest edges measured from both ends."""
    # Rounding may differ between d(i, j) and d(j, i). It matters only for the edges that decide.
    for edge in np.flatnonzero(squared >= 0.99 * squared.max(initial=0.0)):
        one, other = (slice(int(end), int(end) + 1) for end in edges[edge])
        for start, stop in ((one, other), (other, one)):
            block = squared_tile(metric, points, start, points, stop)
            squared[edge] = max(squared[edge], float(block[0, 0]))
    return SpanningTree(edges, squared)


def _prim(metric: Metric, points: Points) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Grow the tree by Prim's algorithm: N rows of distances, O(N) memory."""
    n = len(points)
    edges = np.empty((n - 1, 2), dtype=np.intp)
    squared_lengths = np.empty(n - 1)
    outside = np.arange(1, n)
    best = np.full(n - 1, np.inf, dtype=points.dtype)
    parent = np.zeros(n - 1, dtype=np.intp)
    remaining = points.take(outside)
    row = np.empty((1, n), dtype=points.dtype)
    newest, n_reached = 0, 0
    reached = np.zeros(n - 1, dtype=bool)
    for step in range(n - 1):
        width = len(remaining)
        squared = squared_row(metric, points, newest, remaining, row[:, :width])
        closest = kernels.attach_nearest(squared, newest, best, parent, reached)
        newest = int(outside[closest])
        edges[step] = parent[closest], newest
        squared_lengths[step] = best[closest]
        reached[closest] = True
        n_reached += 1
        tick(1)
        # Points in the tree are dropped from the rows in bulk: the copy is paid for by shorter rows.
        if n_reached > DROPPED_SHARE * width and width > 64:
            keep = np.flatnonzero(~reached)
            remaining = remaining.take(keep)
            outside, best, parent = outside[keep], best[keep], parent[keep]
            reached = np.zeros(len(keep), dtype=bool)
            n_reached = 0
    return edges, squared_lengths


#: Farthest hop, in units of √ε, that still counts as holding the walk together. Its kernel entry is 4e-6: two parts
#: of the data joined by nothing closer are separate for every purpose. (The paper speaks of "a few multiples of √ε".)
REACH = 5.0


def check_connected(tree: SpanningTree, epsilon: float, *, reach: float = REACH) -> None:
    """Raise :class:`~ldmaps.errors.DisconnectedError` when hops of up to ``reach``·√ε leave the data in pieces."""
    joining = tree.connecting_epsilon
    if reach**2 * epsilon < joining:
        raise DisconnectedError(tree.component_sizes(reach**2 * epsilon).tolist(), epsilon, joining, reach)


def check_points_connected(walk: Walk, squared: Any = None) -> None:
    """Raise when hops leave the points in pieces, by their d² if given; the tree that shows them is built only then."""
    enough = (BULK_HOP if walk.leaves_out else REACH) ** 2 * walk.epsilon
    if squared is None:
        edges = bottleneck_edges(walk.metric, walk.points, walk.n_threads, enough=enough)
        if edges is not None and edges.squares.max(initial=0.0) <= enough:
            return
    elif is_connected(squared, enough):
        return
    if squared is None or scipy.sparse.issparse(squared):
        tree = minimum_spanning_tree(walk.metric, walk.points)
    else:
        tree = minimum_spanning_tree(StoredSquares(), StoredPoints(squared))
    if walk.leaves_out:
        check_bulk(tree, walk.weights, walk.epsilon, len(walk.points))
    check_connected(tree, walk.epsilon)


#: A group of at most this share of the points belongs to the map if a hop of so many √ε leads there: one between
#: points, and one between landmarks, which lie farther apart.
SMALL_GROUP, BULK_HOP, BULK_LANDMARK_HOP = 0.005, 2.0, 2.5
#: Among so many points even one is a small group.
FEWEST_POINTS = 20


#: Points whose neighbours are looked up together.
_AT_ONCE = 16


def check_bulk(
    tree: SpanningTree,
    weights: NDArray[np.float64],
    epsilon: float,
    n_points: int,
    *,
    landmarks: bool = False,
) -> None:
    """Raise where small groups lie apart; the error's ``outside`` says which points of the tree these are."""
    # The walk would stay in such a group, and show it as a coordinate of its own.
    hop = BULK_LANDMARK_HOP if landmarks else BULK_HOP
    labels = tree.components(hop**2 * epsilon)
    shares = np.bincount(labels, weights=weights) / weights.sum()
    single = 1.5 / n_points if n_points >= FEWEST_POINTS else 0.0
    small = shares <= max(SMALL_GROUP, single)
    small[np.argmax(shares)] = False
    if not small.any():
        return
    sizes = tree.component_sizes(hop**2 * epsilon).tolist()
    counted = "landmarks" if landmarks else "points"
    error = DisconnectedError(sizes, epsilon, tree.connecting_epsilon, hop, counted)
    error.outside = np.flatnonzero(small[labels])
    raise error


def is_connected(squares: Any, epsilon: float) -> bool:
    """Say whether the √ε-graph of a dense matrix, or a sparse one that holds all its edges, is connected."""
    if not scipy.sparse.issparse(squares):
        return _reaches_all(len(squares), lambda rows: np.flatnonzero((squares[rows] <= epsilon).any(axis=0)))
    starts, columns, data = squares.indptr.tolist(), squares.indices, squares.data

    def near(rows: NDArray[np.intp]) -> NDArray[Any]:
        parts = [slice(starts[row], starts[row + 1]) for row in rows.tolist()]
        return np.concatenate([columns[part][data[part] <= epsilon] for part in parts])

    return _reaches_all(len(starts) - 1, near)


def all_within_hops(squared: NDArray[Any], cutoff: float, radii: NDArray[np.float64]) -> bool:
    """Say whether hops join all points; between i and j they reach √cutoff + r_i + r_j."""

    def near(rows: NDArray[np.intp]) -> NDArray[Any]:
        both = radii[rows][:, None] + radii
        reach = cutoff + both * (2.0 * math.sqrt(cutoff) + both)
        return np.flatnonzero((squared[rows] <= reach).any(axis=0))

    return _reaches_all(len(squared), near)


def _reaches_all(n: int, near: Callable[[NDArray[np.intp]], NDArray[Any]]) -> bool:
    """Say whether hops to the places that are ``near`` some points lead from the first to all; O(n) memory."""
    outside, waiting, n_outside = np.arange(n) > 0, [0], n - 1
    while waiting and n_outside:
        others = near(np.array(waiting[-_AT_ONCE:]))
        del waiting[-_AT_ONCE:]
        reached = np.unique(others[outside[others]])
        outside[reached] = False
        waiting += reached.tolist()
        n_outside -= len(reached)
    return n_outside == 0


def check_landmarks_connected(
    squared: NDArray[Any], squared_radii: NDArray[np.float64], epsilon: float, *, obeys_triangle: bool
) -> None:
    """Raise when landmarks show that the data, or the walk over the landmarks, falls apart; M² comparisons."""
    # Points of two cells closer than the reach put their landmarks within the reach plus both cells' radii, so a graph
    # that falls apart even with that allowance proves that the data do. And a kernel that is zero to rounding
    # between groups of landmarks has no single map, however the data lie.
    if obeys_triangle:
        # Of wide cells the gap is a small difference of long distances, and keeps all of their rounding.
        shrunk, slack = 1.0 - 128.0 * float(np.finfo(squared.dtype).eps), 1.0 - 1e-4
        radii = np.sqrt(squared_radii)
        if not all_within_hops(squared, REACH**2 * epsilon / slack / shrunk**2, radii / shrunk):
            _raise_disconnected(squared, epsilon, REACH)
    numerical = math.sqrt(-2.0 * math.log(float(np.finfo(np.float32).eps)))
    if not is_connected(squared, numerical**2 * epsilon):
        _raise_disconnected(squared, epsilon, numerical)


def _raise_disconnected(squared: NDArray[Any], epsilon: float, reach: float) -> None:
    """Say into which groups hops of ``reach``·√ε between the landmarks themselves fall, and which ε joins those."""
    # Cells are left aside: an ε that joins landmarks only across their cells would be refused in turn.
    tree = minimum_spanning_tree(StoredSquares(), StoredPoints(np.asarray(squared, dtype=np.float64)))
    sizes = tree.component_sizes(reach**2 * epsilon).tolist()
    raise DisconnectedError(sizes, epsilon, tree.connecting_epsilon, reach, "landmarks")
