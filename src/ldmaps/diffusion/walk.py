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
    n_groups: int = 1  # into how many groups without a transition between them the points are known to fall

    def take(self, indices: NDArray[np.intp]) -> Walk:
        """Return the walk over some of the points."""
        return replace(self, points=self.points.take(indices), weights=self.weights[indices])


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


def stored_spanning_tree(squared: NDArray[Any]) -> SpanningTree:
    """Return the minimum spanning tree of points whose d² are stored, (n, n)."""
    n = len(squared)
    parents, lengths = np.empty(n, dtype=np.intp), np.empty(n, dtype=squared.dtype)
    kernels.block_tree(np.ascontiguousarray(squared), parents, lengths)
    edges = np.stack([parents[1:], np.arange(1, n)], axis=1)
    return SpanningTree(edges, lengths[1:].astype(np.float64))


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
#: Farthest hop between landmarks whose kernel entry is above rounding in single precision.
NUMERICAL_REACH = math.sqrt(-2.0 * math.log(float(np.finfo(np.float32).eps)))
#: Room for rounding in a bandwidth that is just large enough.
_ROOM = 1.0 + 1e-9
#: Points whose neighbours are looked up together.
_AT_ONCE = 16


@dataclass(frozen=True)
class Groups:
    """Groups of points that no hop of the walk joins, so that no single map spans them."""

    sizes: tuple[int, ...]  # in points or landmarks, largest first
    epsilon: float  # at which they fall apart
    reach: float  # the longest hop that was allowed, in units of √ε
    joining_epsilon: float  # smallest ε at which hops of √ε join all
    accepted_epsilon: float  # smallest ε that a fit accepts
    counted: str = "points"  # or "landmarks"

    @classmethod
    def of(
        cls,
        tree: SpanningTree,
        epsilon: float,
        reach: float,
        *,
        accepted: float | None = None,
        counted: str = "points",
    ) -> Groups:
        """Return the groups into which hops of ``reach``·√ε leave the points of a tree."""
        joining = tree.connecting_epsilon
        return cls(
            sizes=tuple(tree.component_sizes(reach**2 * epsilon).tolist()),
            epsilon=epsilon,
            reach=reach,
            joining_epsilon=joining,
            accepted_epsilon=_ROOM * joining / reach**2 if accepted is None else accepted,
            counted=counted,
        )

    def error(self, rule: Any = None) -> DisconnectedError:
        """Return what to raise for them, given the rule by which ε was found."""
        return DisconnectedError(
            component_sizes=self.sizes,
            epsilon=self.epsilon,
            joining_epsilon=self.joining_epsilon,
            reach=self.reach,
            counted=self.counted,
            accepted_epsilon=self.accepted_epsilon,
            rule=rule if isinstance(rule, str) else "",
        )


def groups_in(tree: SpanningTree, epsilon: float, *, reach: float = REACH) -> Groups | None:
    """Return the groups that hops of up to ``reach``·√ε leave the points of a tree in; None if they are one."""
    if reach**2 * epsilon >= tree.connecting_epsilon:
        return None
    return Groups.of(tree, epsilon, reach)


def disconnected_tree(walk: Walk, squared: Any, hop: float) -> SpanningTree | None:
    """Return the points' spanning tree if hops of ``hop``·√ε do not join them all; None, without a tree, if they do.

    ``squared`` are their d², stored or sparse, or None where they are not known.
    """
    enough = hop**2 * walk.epsilon
    if squared is None:
        edges = bottleneck_edges(walk.metric, walk.points, walk.n_threads, enough=enough)
        if edges is not None and edges.squares.max(initial=0.0) <= enough:
            return None
    elif is_connected(squared, enough):
        return None
    if squared is None or scipy.sparse.issparse(squared):
        return minimum_spanning_tree(walk.metric, walk.points)
    return stored_spanning_tree(squared)


def landmark_groups(
    squared: NDArray[Any], squared_radii: NDArray[np.float64], epsilon: float, *, obeys_triangle: bool
) -> Groups | None:
    """Return the groups in which landmarks show that the data, or the walk over the landmarks, falls; None if whole.

    Points of two cells closer than the reach put their landmarks within the reach plus both cells' radii, so a graph
    that falls apart even with that allowance proves that the data do. And a kernel that is zero to rounding between
    groups of landmarks has no single map, however the data lie.
    """
    reach = 0.0
    # The gap between wide cells is a small difference of long distances, and keeps all of their rounding.
    shrunk, slack = 1.0 - 128.0 * float(np.finfo(squared.dtype).eps), 1.0 - 1e-4
    radii = np.sqrt(squared_radii) / shrunk
    widened = 1.0 / (slack * shrunk**2)
    if obeys_triangle and not all_within_hops(squared, REACH**2 * epsilon * widened, radii):
        reach = REACH
    elif not is_connected(squared, NUMERICAL_REACH**2 * epsilon):
        reach = NUMERICAL_REACH
    if not reach:
        return None
    stored = np.asarray(squared, dtype=np.float64)
    tree = stored_spanning_tree(stored)
    accepted = tree.connecting_epsilon / NUMERICAL_REACH**2
    if obeys_triangle:
        gaps = np.maximum(np.sqrt(stored) - radii - radii[:, None], 0.0)
        joining = stored_spanning_tree(gaps**2).connecting_epsilon
        accepted = max(accepted, joining / (REACH**2 * widened))
    return Groups.of(tree, epsilon, reach, accepted=_ROOM * accepted, counted="landmarks")


#: A group of at most this share of the points belongs to the map if a hop of so many √ε leads there: one between
#: points, and one between landmarks, which lie farther apart.
SMALL_GROUP, BULK_HOP, BULK_LANDMARK_HOP = 0.005, 2.0, 2.5
#: Among so many points even one is a small group.
FEWEST_POINTS = 20


def in_small_groups(
    tree: SpanningTree,
    weights: NDArray[np.float64],
    epsilon: float,
    n_points: int,
    *,
    hop: float,
    smallest: float | None = None,
) -> NDArray[np.intp]:
    """Return which points of a tree are in small groups that no hop of ``hop``·√ε joins to the others.

    The walk would stay in such a group, and show it as a coordinate of its own. ``smallest`` is the weight from which
    a group is not small; by default groups of up to 0.5 % are.
    """
    labels = tree.components(hop**2 * epsilon)
    shares = np.bincount(labels, weights=weights) / weights.sum()
    single = 1.5 / n_points if n_points >= FEWEST_POINTS else 0.0
    small = shares <= max(SMALL_GROUP, single)
    if smallest is not None:
        small = shares < (1.0 - 1e-9) * smallest / weights.sum()
    small[np.argmax(shares)] = False
    return np.flatnonzero(small[labels])


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
