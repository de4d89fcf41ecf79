"""ε by the rule "connected" where a spanning tree of all N points, N²/2 distances, is out of reach.

Let h be the longest edge of the minimum spanning tree of all points, so that ε = h². For a subset S of the points:

- h ≤ max(longest edge of the tree of S, farthest that a point is from S): every point reaches S in one hop.
- h ≥ the distance of any point of S to its nearest neighbour among all points: every point has an edge.

S begins as a sample and takes in the points that are farthest from it, and the nearest neighbours of what it took in
before; a pass over the blocks tells both. Few points decide ε (those that lie apart), so a few passes tell them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.cluster.blocks import Cover, RawBlock, prepared, rows_of
from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.pairwise import squared_tile
from ldmaps.diffusion.walk import minimum_spanning_tree
from ldmaps.errors import InvalidInputError
from ldmaps.threads import single_threaded_blas

if TYPE_CHECKING:
    from ldmaps.cluster.points import BlockedPoints

#: Points of S to begin with, farthest ones taken in at a pass, and most passes.
FIRST, FARTHEST, PASSES = 2000, 500, 3
#: Good enough: upper over lower bound of ε.
TIGHT = 1.05
#: Entries of a tile of d².
TILE = 1 << 20


class Rows(NamedTuple):
    """Some rows as they were read."""

    numbers: NDArray[np.intp]  # (n,): which rows of all data they are
    squared: NDArray[np.float64]  # (n,): A squared distance of each
    values: NDArray[Any]  # (n, features)

    def take(self, places: NDArray[np.intp]) -> Rows:
        """Return some of them."""
        return Rows(self.numbers[places], self.squared[places], self.values[places])


class Seen(NamedTuple):
    """What blocks tell of S: which rows are farthest from it, and the nearest neighbours of its newest points."""

    farthest: Rows
    neighbours: Rows


def connected_bracket(points: BlockedPoints) -> Bandwidth:
    """Return an ε at which hops of √ε join all points, and below which ε of the exact rule cannot lie."""
    metric = points.metric
    # A generator of its own: the landmarks are those that any other ε gives.
    first = np.sort(np.random.default_rng(0).choice(len(points), min(FIRST, len(points)), replace=False))
    newest = Cover(metric, points.take(first), points.rows(first))
    members = newest
    lowest: list[Any] = [None] * len(points.blocks.sizes)
    lower, upper = 0.0, np.inf
    for _ in range(PASSES):
        seen: Seen
        lowest, seen = points.passed_over("cover", cover_block, newest, lowest, add_seen, as_read=True)
        lower = max(lower, float(seen.neighbours.squared.max()))
        # The last of the farthest is not taken in: no other point is farther than it.
        taken = seen.farthest.take(np.arange(max(1, len(seen.farthest.numbers) - 1)))
        rest = float(seen.farthest.squared[-1])
        numbers = np.concatenate([taken.numbers, seen.neighbours.numbers])
        values = np.concatenate([taken.values, seen.neighbours.values])
        fresh = np.unique(numbers, return_index=True)[1]
        fresh = fresh[~np.isin(numbers[fresh], members.rows)]
        if len(fresh):
            newest = Cover(metric, metric.prepare(values[fresh], members.landmarks.dtype), numbers[fresh])
            members = Cover(
                metric,
                metric.joined(members.landmarks, newest.landmarks),
                np.concatenate([members.rows, newest.rows]),
            )
        tree = minimum_spanning_tree(metric, members.landmarks)
        upper = min(upper, max(tree.connecting_epsilon, rest))
        if upper <= TIGHT * lower or not len(fresh):
            break
    if not upper > 0:
        raise InvalidInputError(
            f"all {len(points)} points coincide, so there is no distance to set epsilon by and no manifold to find; "
            "check that the data vary (and, for RMSD, that frames differ by more than a rotation)"
        )
    return Bandwidth(upper, "connected", lower_bound=min(lower, upper))


def cover_block(
    block: RawBlock,
    start: int,
    weights: NDArray[np.float64] | None,
    newest: Cover,
    lowest: NDArray[Any] | None,
) -> tuple[NDArray[Any], Seen]:
    """Compare a block with the newest points of S; return d² of its rows to S, and what it tells."""
    metric, count = newest.metric, len(newest.rows)
    values = rows_of(block)
    n = len(values)
    with single_threaded_blas():
        points = prepared(metric, block, start, newest.landmarks.dtype)
        lowest = np.full(n, np.inf, points.dtype) if lowest is None else lowest.copy()
        nearest = np.full(count, np.inf)
        which = np.zeros(count, dtype=np.intp)
        step = max(1, TILE // count)
        ignored = np.zeros(n, dtype=bool) if weights is None else weights == 0
        own = np.flatnonzero((newest.rows >= start) & (newest.rows < start + n))
        for at in range(0, n, step):
            rows = slice(at, min(at + step, n))
            squared = squared_tile(metric, points, rows, newest.landmarks)
            np.minimum(lowest[rows], squared.min(axis=1), out=lowest[rows])
            # A point is no neighbour of itself, and rows of weight 0 are nobody's.
            squared[ignored[rows]] = np.inf
            here = own[(newest.rows[own] >= start + at) & (newest.rows[own] < start + rows.stop)]
            squared[newest.rows[here] - start - at, here] = np.inf
            best = squared.argmin(axis=0)
            value = squared[best, np.arange(count)]
            nearer = value < nearest
            nearest[nearer], which[nearer] = value[nearer], best[nearer] + at
    lowest[ignored] = 0.0
    lowest[newest.rows[own] - start] = 0.0
    far = np.argsort(-lowest, kind="stable")[: FARTHEST + 1]
    farthest = Rows(far + start, lowest[far].astype(np.float64), np.array(values[far]))
    return lowest, Seen(farthest, Rows(which + start, nearest, np.array(values[which])))


def add_seen(parts: list[Seen]) -> Seen:
    """Return what several blocks tell together; the first among equals."""
    far = [part.farthest for part in parts]
    joined = Rows(*(np.concatenate(column) for column in zip(*far, strict=True)))
    farthest = joined.take(np.argsort(-joined.squared, kind="stable")[: FARTHEST + 1])
    squared = np.array([part.neighbours.squared for part in parts])
    best, column = squared.argmin(axis=0), np.arange(squared.shape[1])
    numbers = np.array([part.neighbours.numbers for part in parts])
    values = np.array([part.neighbours.values for part in parts])
    return Seen(farthest, Rows(numbers[best, column], squared[best, column], values[best, column]))
