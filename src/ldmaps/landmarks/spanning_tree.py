"""Pruned spanning trees (Algorithm 1 of the paper) without the N×N matrix."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import squared_row
from ldmaps.diffusion.spatial_tree import neighbour_finder, raw_values
from ldmaps.diffusion.walk import Walk, groups_in, minimum_spanning_tree
from ldmaps.errors import InvalidInputError, LdmapsError, Named
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, PointsElsewhere, assign
from ldmaps.landmarks.blocks import cover_blocks


class PrunedSpanningTree(LandmarkSelector):
    """Grow a spanning tree over hops of at most √ε and prune its leaves; what is left are landmarks.

    The number of landmarks follows from ε and the data. Every point is within √ε of a landmark (eqn covering) and the
    landmarks are connected by hops of at most √ε (eqn connectivity), because a pruned leaf's parent stays and so does
    the tree between parents. Of points in blocks beyond one process, a sample's tree is pruned, and points that it
    leaves uncovered become landmarks: connected over hops of at most 3√ε wherever the points are over √ε.

    Parameters
    ----------
    growth : {"adopting", "literal"}
        "adopting": a random node of the tree's rim adopts every neighbour that is not in the tree yet. Many leaves to
        a parent, so few landmarks, and only about M rows of distances are needed. "literal": Algorithm 1 to the
        letter: one edge, drawn uniformly from all edges between tree and rest, is added at a time. Leaves about half
        of all points as landmarks whatever the density, and needs all N rows.

    See Also
    --------
    KMedoids : usually more accurate for the same number of landmarks.

    Notes
    -----
    The numbers of landmarks that the paper reports (28 % of the Swiss roll, 1.2 % and 1.7 % of the molecular sets)
    cannot come from uniformly drawn edges; only trees whose parents adopt many neighbours get so low.

    References
    ----------
    A. W. Long and A. L. Ferguson, "Landmark diffusion maps (L-dMaps)", Applied and Computational Harmonic Analysis 47,
    190-211 (2019).
    """

    name = "pst"
    is_automatic = True
    covers_from_sample = True
    depends_on_epsilon = True
    _may_fall_apart = False  # not a setting: the fit asks for it

    def __init__(self, *, growth: str = "adopting") -> None:
        self.growth = growth

    def for_any_points(self) -> Self:
        """Return the same method for points that hops of √ε need not join: every part of them gets landmarks."""
        tolerant = copy.copy(self)
        tolerant._may_fall_apart = True
        return tolerant

    def select(self, walk: Walk, rng: np.random.Generator) -> Landmarks:
        """Choose landmarks; see :class:`~ldmaps.landmarks.base.LandmarkSelector`."""
        if self.growth == "adopting":
            if isinstance(walk.points, PointsElsewhere):
                return assign(walk, cover_blocks(walk, walk.points, _sampled_tree, rng))
            parent = _grow_adopting(walk, rng, may_fall_apart=self._may_fall_apart)
        elif self.growth == "literal" and isinstance(walk.points, PointsElsewhere):
            raise InvalidInputError(
                f'PrunedSpanningTree(growth="literal") compares all points with all, and {len(walk.points):,} in '
                "blocks are too many for that; use ",
                Named("landmarks", "pst"),
                ' or "kmedoids"',
            )
        elif self.growth == "literal":
            parent = _grow_literal(walk, rng, may_fall_apart=self._may_fall_apart)
        else:
            raise InvalidInputError(f'growth must be "adopting" or "literal", got {self.growth!r}')
        return assign(walk, _prune_forest(parent) if self._may_fall_apart else _prune(parent))


def _degrees(parent: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many neighbours each node has; a root's parent is -1."""
    child = np.flatnonzero(parent >= 0)
    degree = np.bincount(parent[child], minlength=len(parent))
    degree[child] += 1
    return degree


def _prune(parent: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the nodes of degree above one."""
    inner = np.flatnonzero(_degrees(parent) > 1)
    if len(inner) < 2:
        # A pair is all leaves and a star is one hub; leaves stay until there are two, as a map needs two landmarks.
        leaves = np.setdiff1d(np.arange(len(parent)), inner)
        inner = np.union1d(inner, leaves[: 2 - len(inner)])
    return inner


def _sampled_tree(walk: Walk, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the landmarks of a sample that may fall apart, as the points between its parts are missing."""
    return _prune_forest(_grow_adopting(walk, rng, may_fall_apart=True))


def _prune_forest(parent: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the nodes of degree above one of several trees, and for a tree without any its root."""
    inner, stays = _degrees(parent) > 1, parent < 0
    # A root alone, or with one leaf, stands for its part.
    stays[parent[inner & (parent >= 0)]] = False
    return np.flatnonzero(inner | stays)


def _fail_disconnected(walk: Walk) -> NoReturn:
    """Say how the graph falls apart: only now is the whole tree worth its N rows of distances."""
    groups = groups_in(minimum_spanning_tree(walk.metric, walk.points), walk.epsilon, reach=1.0)
    if groups is not None:
        raise groups.error()
    raise LdmapsError(
        f"epsilon = {walk.epsilon:.9g} is within rounding of the smallest that connects the data; "
        "make it slightly larger"
    )


def _grow_adopting(walk: Walk, rng: np.random.Generator, *, may_fall_apart: bool = False) -> NDArray[np.intp]:
    """Return every node's parent, -1 for the root; for several roots where points may fall apart."""
    n = len(walk.points)
    parent = np.full(n, -1, dtype=np.intp)
    root = int(rng.integers(n))
    adopt = _tree_adopter(walk, root) or _row_adopter(walk, root)
    left = n - 1
    rim = [root]
    in_tree = np.zeros(n, dtype=bool)
    in_tree[root] = True
    while left:
        if not rim:
            if not may_fall_apart:
                _fail_disconnected(walk)
            root = int(np.argmin(in_tree))
            in_tree[root] = True
            rim.append(root)
            left -= 1
        place = int(rng.integers(len(rim)))
        rim[place], rim[-1] = rim[-1], rim[place]
        node = rim.pop()
        children = adopt(node)
        if may_fall_apart:  # a later root finds itself among those outside
            children = children[children != node]
        in_tree[children] = True
        if len(children):
            parent[children] = node
            rim.extend(children.tolist())
            left -= len(children)
    return parent


def _row_adopter(walk: Walk, root: int) -> Callable[[int], NDArray[np.intp]]:
    """Find a node's unadopted neighbours from its row of distances to the points still outside."""
    points, metric = walk.points, walk.metric
    outside = np.delete(np.arange(len(points)), root)
    remaining = points.take(outside)
    row = np.empty((1, len(points)), dtype=points.dtype)

    def adopt(node: int) -> NDArray[np.intp]:
        nonlocal outside, remaining
        near = squared_row(metric, points, node, remaining, row[:, : len(outside)]) <= walk.epsilon
        if not near.any():
            return outside[:0]
        children = outside[near]
        keep = np.flatnonzero(~near)
        outside = outside[keep]
        if len(keep):
            remaining = remaining.take(keep)
        return children

    return adopt


def _tree_adopter(walk: Walk, root: int) -> Callable[[int], NDArray[np.intp]] | None:
    """Find a node's unadopted neighbours through a spatial tree, where the metric allows one."""
    points = walk.points
    values = raw_values(walk.metric, points)
    if values is None:
        return None
    # The tree computes in float64; ε may come from distances rounded in the points' precision.
    find = neighbour_finder(values, math.sqrt(walk.epsilon * (1.0 + 4.0 * float(np.finfo(points.dtype).eps))))
    outside = np.ones(len(points), dtype=bool)
    outside[root] = False

    def adopt(node: int) -> NDArray[np.intp]:
        near = find(node)
        children = near[outside[near]]
        outside[children] = False
        return children

    return adopt


def _grow_literal(walk: Walk, rng: np.random.Generator, *, may_fall_apart: bool = False) -> NDArray[np.intp]:
    """Return every node's parent, -1 for the root; for several roots where points may fall apart."""
    # Drawing an edge uniformly is drawing an outside node in proportion to its number of tree neighbours, and then
    # one of those uniformly. The latter is kept up to date by reservoir sampling, so no edge is ever stored.
    points, metric = walk.points, walk.metric
    n = len(points)
    parent = np.full(n, -1, dtype=np.intp)
    newest = int(rng.integers(n))
    outside = np.delete(np.arange(n), newest)
    remaining = points.take(outside)
    degree = np.zeros(n - 1, dtype=np.int64)
    sampled = np.full(n - 1, -1, dtype=np.intp)
    row = np.empty((1, n), dtype=points.dtype)
    squared_radius = points.dtype.type(walk.epsilon)
    in_tree = np.zeros(n - 1, dtype=bool)
    for _ in range(n - 1):
        squared = squared_row(metric, points, newest, remaining, row[:, : len(outside)])
        near, draws = np.flatnonzero(squared <= squared_radius), rng.random(len(outside))
        near = near[~in_tree[near]]
        degree[near] += 1
        # The n-th neighbour replaces the one kept before with probability 1/n.
        sampled[near[draws[near] * degree[near] < 1]] = newest
        totals = np.cumsum(degree)
        if totals[-1] > 0:
            drawn = int(np.searchsorted(totals, rng.integers(totals[-1]), side="right"))
            parent[outside[drawn]] = sampled[drawn]
        elif may_fall_apart:
            drawn = int(np.argmin(in_tree))  # the root of another tree
        else:
            _fail_disconnected(walk)
        newest = int(outside[drawn])
        degree[drawn] = 0
        in_tree[drawn] = True
        if np.count_nonzero(in_tree) * 8 > len(outside) > 64:
            keep = np.flatnonzero(~in_tree)
            remaining = remaining.take(keep)
            outside, degree, sampled, in_tree = outside[keep], degree[keep], sampled[keep], in_tree[keep]
    return parent
