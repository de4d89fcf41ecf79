"""The longest edge of a minimum spanning tree, without the tree and without most of the pairs.

The longest edge of any spanning tree is no shorter; the shortest way out of any set of points is no longer. So the
longest edges of a cheap tree, of cells around centres, are replaced by shortest ways out until both bounds meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.diffusion.pairwise import nearest, squared_tile
from ldmaps.metrics.base import Metric, Points, squared_matrix

#: Fewest points that are worth cutting into cells.
MIN_POINTS = 2000

#: Cells for each √N.
CELL_DENSITY = 2.0
#: Points of a cell of more than this many times the average are joined to its centre, without a tree of their own.
LARGE_CELL = 8.0
#: Rows and columns of the blocks in which ways out are looked for.
SEARCH_ROWS, SEARCH_COLUMNS = 512, 4096
#: Edges that are taken away at first; twice as many each time after.
FIRST_CUT = 32
#: Share of all pairs beyond which this way is given up.
MAX_SHARE = 0.05
#: Relative error of a distance that the bounds allow for.
SLACK = 1e-4


@dataclass(frozen=True)
class Edges:
    """Edges between points."""

    ends: NDArray[np.intp]  # (m, 2)
    squares: NDArray[np.float64]  # (m,): squared length of each

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Edges:
        """Return some of the edges."""
        return Edges(self.ends[which], self.squares[which])

    def parts(self, n_points: int) -> NDArray[np.intp]:
        """Return which component each of n points belongs to, numbered from 0."""
        ones = np.ones(len(self.ends), dtype=bool)
        graph = scipy.sparse.coo_array((ones, (self.ends[:, 0], self.ends[:, 1])), shape=(n_points, n_points))
        return np.asarray(scipy.sparse.csgraph.connected_components(graph, directed=False)[1], dtype=np.intp)


def joined(*parts: Edges) -> Edges:
    """Return all edges of several."""
    return Edges(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("ends", "squares")))


class TooManyPairsError(Exception):
    """The bounds rule out too few pairs for this to pay."""


def cells_pay(metric: Metric, n_points: int) -> bool:
    """Say whether cells can rule pairs out: by the triangle inequality, and where a distance costs anything."""
    return metric.is_true_metric and n_points >= MIN_POINTS


def bottleneck_edges(
    metric: Metric,
    points: Points,
    n_threads: int | None = None,
    *,
    enough: float = 0.0,
    outliers: tuple[float, float] | None = None,
) -> Edges | None:
    """Return a spanning tree whose longest edge is as short as can be, or None where it would take too many pairs."""
    # The longest edge need not be shorter than ``enough``, squared. ``outliers`` are a share of points and a factor:
    # None is returned, too, unless joining all but that share takes more than this fraction of the longest edge.
    cells = _Cells(metric, points, n_threads)
    try:
        tree = cells.spanning_tree()
        bound, n_cut = enough, FIRST_CUT
        while tree.squares.max(initial=0.0) > bound:
            longest = np.argsort(-tree.squares, kind="stable")[:n_cut]
            kept = np.ones(len(tree.squares), dtype=bool)
            kept[longest[tree.squares[longest] > bound]] = False
            ways_out = cells.ways_out(tree.chosen(kept), tree.chosen(~kept), bound)
            bound = max(bound, float(ways_out.squares.max()))
            tree = joined(tree.chosen(kept), ways_out)
            n_cut *= 2
        if outliers is not None:
            share, factor = outliers
            n_apart = max(1, int(share * len(points)))
            if not cells.falls_apart(tree, float(tree.squares.max()) / factor, n_apart):
                return None
    except TooManyPairsError:
        return None
    return Edges(cells.order[tree.ends], tree.squares)


class _Cells:
    """Points in the order of the cells that they fall into, each around a centre."""

    def __init__(self, metric: Metric, points: Points, n_threads: int | None) -> None:
        n = len(points)
        count = min(n, int(CELL_DENSITY * np.sqrt(n)))
        chosen = np.linspace(0, n - 1, count).astype(np.intp)
        owners, squares = nearest(metric, points, points.take(chosen), n_threads)
        owners[chosen] = np.arange(count)  # where centres coincide, too
        #: Which point stands at each place.
        self.order = np.argsort(owners, kind="stable")
        self._metric = metric
        self._points = points.take(self.order)
        self._bounds = np.searchsorted(owners[self.order], np.arange(count + 1))
        places = np.empty(n, dtype=np.intp)
        places[self.order] = np.arange(n)
        self._centre_places = places[chosen]
        self._centres = points.take(chosen)
        self._squares = squares[self.order]  # of the distance to the centre
        radii = np.zeros(count)
        np.maximum.at(radii, owners, np.sqrt(squares.astype(np.float64)))
        # Rounding gives a point a distance to itself, and every distance an error of up to as much.
        error = 2.0 * np.sqrt(float(squares[chosen].max()))
        self._reach = radii * (1.0 + SLACK) + error if metric.is_true_metric else np.full(count, np.inf)
        self._left = MAX_SHARE * n * n / 2

    def spanning_tree(self) -> Edges:
        """Return the trees of all cells and of their centres."""
        metric, points = self._metric, self._points
        centres = squared_matrix(metric, self._centres, n_threads=1)
        parts = [_tree_of(centres, self._centre_places)]
        large = LARGE_CELL * len(points) / len(self._centre_places)
        for cell, centre in enumerate(self._centre_places):
            members = self._members(cell)
            size = members.stop - members.start
            places = np.arange(members.start, members.stop)
            if size > large:
                others = places[places != centre]
                ends = np.column_stack([np.full(len(others), centre), others])
                parts.append(Edges(ends, self._squares[others].astype(np.float64)))
            elif size > 1:
                parts.append(_tree_of(squared_tile(metric, points, members, points, members), places))
        return joined(*parts)

    def ways_out(self, kept: Edges, cut: Edges, bound: float) -> Edges:
        """Return an edge for each that was cut from a spanning tree, so that it is one again."""
        # Each is the shortest way out of one of the parts, or one that is no longer than ``bound`` or another of them.
        labels = kept.parts(len(self._points))
        sizes = dict(enumerate(np.bincount(labels).tolist()))
        found = []
        while len(sizes) > 1:
            part = min(sizes, key=sizes.__getitem__)
            inside = labels == part
            crossing = cut.chosen(inside[cut.ends[:, 0]] != inside[cut.ends[:, 1]])
            way = crossing.chosen(np.array([np.argmin(crossing.squares)]))
            if way.squares[0] > bound:
                way = self._shortest_way(inside, way, bound)
                bound = max(bound, float(way.squares[0]))
            found.append(way)
            other = int(labels[way.ends[0][~inside[way.ends[0]]][0]])
            labels[inside] = other
            sizes[other] += sizes.pop(part)
        return joined(*found)

    def _shortest_way(self, inside: NDArray[np.bool_], known: Edges, bound: float) -> Edges:
        """Return the shortest edge out of a part, or any that is no longer than ``bound``; one is ``known``."""
        points = self._points
        best, ends = float(known.squares[0]), known.ends[0]
        members = np.flatnonzero(inside)
        has_outside = ~np.logical_and.reduceat(inside, self._bounds[:-1])
        for places, rows, lower in self._searched(members):
            closest = np.where(has_outside, lower.min(axis=0), np.inf)
            for cell in np.argsort(closest):
                if closest[cell] > np.sqrt(best):
                    break
                near = np.flatnonzero(lower[:, cell] <= np.sqrt(best))
                cell_members = self._members(cell)
                for left in range(cell_members.start, cell_members.stop, SEARCH_COLUMNS):
                    columns = slice(left, min(left + SEARCH_COLUMNS, cell_members.stop))
                    block = self._block(rows.take(near), points, columns)
                    block[:, inside[columns]] = np.inf
                    row, column = divmod(int(np.argmin(block)), block.shape[1])
                    if block[row, column] < best:
                        best = float(block[row, column])
                        ends = np.array([places[near[row]], left + column])
                if best <= bound:
                    return Edges(ends[None], np.array([best]))
        return Edges(ends[None], np.array([best]))

    def falls_apart(self, tree: Edges, squared: float, n_points: int) -> bool:
        """Say whether hops of this squared length leave more than ``n_points`` outside the largest component."""
        # Components of the tree, smallest first: those that no hop leaves are counted, the others are joined.
        labels = tree.chosen(tree.squares <= squared).parts(len(self._points))
        n_outside, is_closed = 0, np.zeros(labels.max() + 1, dtype=bool)
        while n_outside <= n_points:
            sizes = np.bincount(labels)
            order = np.argsort(sizes, kind="stable")[:-1]  # all but the largest
            order = order[~is_closed[order]]
            if not len(order):
                return False
            order = order[: 1 + np.searchsorted(np.cumsum(sizes[order]), max(n_points, SEARCH_ROWS))]
            links = self._links(np.flatnonzero(np.isin(labels, order)), labels, squared)
            closed = np.setdiff1d(order, labels[links.ends])
            n_outside += int(sizes[closed].sum())
            merged = Edges(labels[links.ends], links.squares).parts(len(sizes))
            is_closed_before, is_closed = is_closed, np.zeros(merged.max() + 1, dtype=bool)
            is_closed[merged[np.flatnonzero(is_closed_before)]] = True
            is_closed[merged[closed]] = True
            labels = merged[labels]
        return True

    def _links(self, places: NDArray[np.intp], labels: NDArray[np.intp], squared: float) -> Edges:
        """Return edges no longer than this to points of another label: one for each row and cell that has any."""
        ends, found = [np.empty((0, 2), dtype=np.intp)], [np.empty(0)]
        for part, rows, lower in self._searched(places):
            is_near = lower <= np.sqrt(squared)
            for cell in np.flatnonzero(is_near.any(axis=0)).tolist():
                near = np.flatnonzero(is_near[:, cell])
                members = self._members(cell)
                block = self._block(rows.take(near), self._points, members)
                block[labels[part[near]][:, None] == labels[members]] = np.inf
                columns = block.argmin(axis=1)
                shortest = block[np.arange(len(near)), columns]
                hit = shortest <= squared
                ends.append(np.column_stack([part[near], members.start + columns])[hit])
                found.append(shortest[hit].astype(np.float64))
        return Edges(np.concatenate(ends), np.concatenate(found))

    def _searched(
        self, places: NDArray[np.intp]
    ) -> Iterator[tuple[NDArray[np.intp], Points, NDArray[np.floating]]]:
        """Yield some places at a time, their points, and how near to each a point of each cell can be."""
        for first in range(0, len(places), SEARCH_ROWS):
            part = places[first : first + SEARCH_ROWS]
            rows = self._points.take(part)
            to_centres = np.sqrt(self._block(rows, self._centres, slice(0, len(self._centres))))
            lower = to_centres * (1.0 - SLACK) - self._reach
            yield part, rows, lower

    def _block(self, rows: Points, points: Points, columns: slice) -> NDArray[np.floating]:
        """Return d² of some rows to some columns, and count them."""
        self._left -= len(rows) * (columns.stop - columns.start)
        if self._left < 0:
            raise TooManyPairsError
        return squared_tile(self._metric, rows, slice(0, len(rows)), points, columns)

    def _members(self, cell: int) -> slice:
        return slice(int(self._bounds[cell]), int(self._bounds[cell + 1]))


def _tree_of(squared: NDArray[np.floating], places: NDArray[np.intp]) -> Edges:
    """Return the minimum spanning tree of a block of d²."""
    n = len(squared)
    parents, lengths = np.empty(n, dtype=np.intp), np.empty(n, dtype=squared.dtype)
    kernels.block_tree(squared, parents, lengths)
    return Edges(np.column_stack([places[parents[1:]], places[1:]]), lengths[1:].astype(np.float64))
