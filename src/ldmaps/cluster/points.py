"""Points in blocks that workers hold or read: the same to selectors and maps as points in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from ldmaps.cluster.arrays import array_of
from ldmaps.cluster.blocks import (
    Cells,
    Cover,
    Farthest,
    add_cells,
    add_farthest,
    assign_block,
    distance_block,
    embed_training_block,
    joined_times,
    pick_rows,
    prepare_block,
)
from ldmaps.cluster.bracket import connected_bracket
from ldmaps.cluster.engine import computed, fits_in_workers, keep, shared, task, tree_sum
from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.pairwise import nearest
from ldmaps.diffusion.walk import Walk
from ldmaps.extension.embedder import Embedder
from ldmaps.landmarks import base as landmarks_base
from ldmaps.landmarks.base import Landmarks, PointsElsewhere
from ldmaps.metrics.base import Metric, Points
from ldmaps.validation.error_estimate import reference_rows

#: Sets of rows that were brought here and are kept, so that a subset of one is not read again.
KEPT_GATHERS = 4
#: Rows that are brought here at a time to be looked at once.
FETCHED = 50_000


class Piece(NamedTuple):
    """Rows of a file: every ``stride``-th from number ``first`` on, of the source's file number ``file``."""

    file: int
    first: int
    stride: int


class Column:
    """A number for each row, found when it is asked for."""

    def __init__(self, find: Callable[[NDArray[Any]], Any]) -> None:
        self._find = find

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return np.asarray(self._find(np.asarray(rows)))


@dataclass(frozen=True)
class Blocks:
    """Rows in consecutive blocks, each the result of a task."""

    tasks: list[Any]  # each gives an array of rows, or a chunk of a file
    sizes: list[int]  # rows of each
    shape: tuple[int, ...]  # of a row: (features,) or (atoms, 3)
    dtype: np.dtype[Any]
    pieces: list[Piece] | None = None  # where in which file each block is, if they are read from files
    #: Whether they are parts of files mapped into memory, which cost next to nothing to read again
    are_mapped: bool = False

    @classmethod
    def of_array(cls, X: Any) -> Self:
        """Return the blocks of a dask array of whole rows, finding out their sizes where nobody knows them."""
        if np.isnan(X.chunks[0]).any():
            X = X.copy()
            X.compute_chunk_sizes()
        # A block without rows has nothing to say, and no metric takes one.
        parts = zip(X.to_delayed().ravel(), X.chunks[0], strict=True)
        filled = [(part, int(size)) for part, size in parts if size]
        return cls([part for part, _ in filled], [size for _, size in filled], X.shape[1:], X.dtype)

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Number of each block's first row, and at the end that of all rows."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)

    def split(self, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Return which rows, given in rising order, are in each block, counted from its first."""
        parts = np.split(rows, np.searchsorted(rows, self.starts[1:-1]))
        return [part - start for part, start in zip(parts, self.starts, strict=False)]

    def numbers(self, rows: NDArray[Any]) -> NDArray[np.int64] | None:
        """Return the numbers of rows in their files, if they are from files."""
        if self.pieces is None:
            return None
        block = np.searchsorted(self.starts, rows, side="right") - 1
        _, first, stride = np.array(self.pieces, dtype=np.int64)[block].T
        return np.asarray(first + stride * (rows - self.starts[block]))

    def files(self, rows: NDArray[Any]) -> NDArray[np.int32] | None:
        """Return which file rows are from, if they are from several."""
        if self.pieces is None or self.pieces[-1].file == 0:
            return None
        block = np.searchsorted(self.starts, rows, side="right") - 1
        return np.array([piece.file for piece in self.pieces], dtype=np.int32)[block]

    def gather(self, rows: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        """Bring some rows here, given in rising order, and their times."""
        wanted = zip(self.tasks, self.split(rows), strict=True)
        picks = [task("gather", pick_rows, block, places) for block, places in wanted if len(places)]
        values, times = zip(*computed(picks), strict=True)
        return np.concatenate(values), joined_times(list(times))


class BlockedPoints(PointsElsewhere):
    """The points of positive weight among rows in blocks."""

    def __init__(
        self,
        metric: Metric,
        blocks: Blocks,
        weights: NDArray[np.float64] | None = None,
        recorded: Callable[[NDArray[np.intp]], NDArray[np.intp]] = np.unique,
        most_here: int = 100_000,
    ) -> None:
        self.metric = metric
        self.blocks = blocks
        self.weights = weights
        self.recorded = recorded
        self.most_here = most_here  # coordinates of more rows than these stay with the workers
        self._used = None if weights is None or weights.all() else np.flatnonzero(weights)
        self.dtype = np.dtype(np.float32 if blocks.dtype == np.float32 else np.float64)
        self._gathers: list[tuple[NDArray[np.intp], Points]] = []
        self._kept: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.blocks) if self._used is None else len(self._used)

    def rows(self, indices: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which rows points are."""
        return indices if self._used is None else self._used[indices]

    def places(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which points rows of positive weight are."""
        return rows if self._used is None else np.searchsorted(self._used, rows)

    @cached_property
    def expected_rows(self) -> NDArray[np.intp]:
        """Rows that estimates of errors will ask for: brought with the first others, not by a pass of their own."""
        drawn = reference_rows(len(self), math.prod(self.blocks.shape) * self.dtype.itemsize)
        return self.rows(np.arange(0) if drawn is None else np.sort(drawn))

    def take(self, indices: NDArray[np.intp] | slice) -> Points:
        """Bring points here, in the order of ``indices``."""
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(len(self)))
        rows, places = np.unique(self.rows(indices), return_inverse=True)
        for held, points in self._gathers:
            at = np.minimum(np.searchsorted(held, rows), len(held) - 1)
            if (held[at] == rows).all():
                return points.take(at[places])
        wanted = rows if self._gathers else np.union1d(rows, self.expected_rows)
        points = self.metric.prepare(self.blocks.gather(wanted)[0])
        self._gathers[:] = [(wanted, points), *self._gathers[: KEPT_GATHERS - 1]]
        return points.take(np.searchsorted(wanted, rows)[places])

    def blocks_to_pass(self) -> tuple[list[Any], list[Any]]:
        """Return the blocks as tasks for a pass, and those of them that are to be kept for the next one."""
        # Prepared points stay with the workers where these have room; otherwise every pass reads and prepares
        # again. So it does with mapped files: to prepare a point takes less than to find new memory for it.
        if self._kept is not None:
            return self._kept, []
        n_bytes = float(len(self.blocks)) * math.prod(self.blocks.shape) * self.blocks.dtype.itemsize
        if self.blocks.are_mapped or not fits_in_workers(n_bytes):
            return self.blocks.tasks, []
        metric, starts = shared("metric", self.metric), self.blocks.starts.tolist()
        tasks = [
            task("prepare", prepare_block, block, start, metric, self.dtype)
            for block, start in zip(self.blocks.tasks, starts, strict=False)
        ]
        return tasks, tasks

    def passed_over(
        self,
        name: str,
        work: Callable[..., tuple[Any, Any]],
        cover: Cover,
        extras: Sequence[Any],
        add: Callable[[list[Any]], Any],
        *,
        as_read: bool = False,
    ) -> tuple[list[Any], Any]:
        """Do ``work(block, start, weights, cover, extra)`` on workers: first results stay there, second are added."""
        travelling, blocks = shared("landmarks", cover), self.blocks
        sources, keeping = (blocks.tasks, []) if as_read else self.blocks_to_pass()
        bounds = itertools.pairwise(blocks.starts.tolist())
        results = []
        for block, (start, stop), extra in zip(sources, bounds, extras, strict=True):
            weights = None if self.weights is None else self.weights[start:stop]
            results.append(task(name, work, block, start, weights, travelling, extra))
        left = [task(name, itemgetter(0), result) for result in results]
        total = tree_sum(name, [task(name, itemgetter(1), result) for result in results], add)
        *kept, total = keep([*left, *keeping, total], blocks.sizes)
        self._kept = kept[len(left) :] or self._kept
        return kept[: len(left)], computed([total])[0]

    def assigned(self, indices: NDArray[np.intp], places: Points | None = None) -> BlockedLandmarks:
        """Give every row to its nearest landmark, where the rows are; those of weight 0 count for nothing."""
        rows = self.rows(indices)
        landmarks = self.take(indices) if places is None else places
        noted = np.union1d(self.recorded(rows), np.union1d(self.expected_rows, rows))
        cells: Cells
        labels, cells = self.passed_over(
            "assign",
            assign_block,
            Cover(self.metric, landmarks, rows, places is not None),
            self.blocks.split(noted),
            add_cells,
        )
        return BlockedLandmarks(
            indices=indices,
            multiplicities=cells.multiplicities,
            assignment=array_of("labels", labels, self.blocks.sizes, np.dtype(np.int32)),
            squared_distances=None,
            cell_squared_radii=cells.squared_radii,
            points=self,
            noted_rows=noted,
            noted_cells=cells.noted,
            noted_times=cells.times,
        )

    def brought(self, most: int) -> Points:
        """Return the points in this process if they are at most ``most``, otherwise where they are."""
        return self.take(slice(None)) if len(self) <= most else self

    def take_with_times(self, rows: NDArray[np.intp]) -> tuple[Points, NDArray[np.float64] | None]:
        """Bring some rows here, given in rising order, and their times if their files tell them."""
        values, times = self.blocks.gather(rows)
        return self.metric.prepare(values), times

    def connecting_bandwidth(self) -> Bandwidth:
        """Return an ε at which hops of √ε join all points; see :mod:`ldmaps.cluster.bracket`."""
        return connected_bracket(self)

    def embed_all(
        self, embedder: Embedder, landmarks: Landmarks, asked: NDArray[np.intp]
    ) -> tuple[Any, Any, NDArray[Any]]:
        """Embed all rows where they are; their coordinates and landmarks stay there if they are many."""
        blocks, assigned = self.blocks, cast(BlockedLandmarks, landmarks)
        travelling = shared("map", embedder)
        sources, _ = assigned.points.blocks_to_pass()
        parts = zip(sources, blocks.starts.tolist(), blocks.split(asked), strict=False)
        results = [
            task("embed", embed_training_block, block, start, travelling, some)
            for block, start, some in parts
        ]
        coordinates = [task("embedding", itemgetter(0), result) for result in results]
        squares = [task("record", itemgetter(1), result) for result in results]
        kept = keep([*coordinates, *squares], blocks.sizes)
        dtype, count = embedder.landmarks.dtype, len(results)
        embedding = array_of("embedding", kept[:count], blocks.sizes, dtype, (embedder.n_components,))
        labels = assigned.assignment.astype(np.intp)
        if len(blocks) <= self.most_here:
            embedding, labels = computed([embedding, labels])
        return embedding, labels, np.concatenate(computed(kept[count:]))

    def weighed(self, weights: NDArray[np.float64]) -> BlockedPoints:
        """Return the points of positive weight, which count by it."""
        if weights.min() == weights.max() == 1.0:
            return self
        points = BlockedPoints(self.metric, self.blocks, weights, self.recorded, self.most_here)
        points._gathers = self._gathers  # what one brings here, the other need not
        return points

    def cover(self) -> BlockedCover:
        """Begin to cover the points with landmarks that are chosen step by step."""
        return BlockedCover(self)


class BlockedCover(landmarks_base.Cover):
    """How far points in blocks lie from landmarks so far; the d² of all rows stay with the workers."""

    def __init__(self, points: BlockedPoints) -> None:
        self._points = points
        self._lowest: list[Any] = [None] * len(points.blocks.sizes)

    def add(self, indices: NDArray[np.intp], most: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Compare all points with more landmarks; return those farthest from all so far."""
        points = self._points
        found: Farthest
        self._lowest, found = points.passed_over(
            "cover",
            partial(distance_block, most=most),
            Cover(points.metric, points.take(indices), points.rows(indices)),
            self._lowest,
            partial(add_farthest, most=most),
        )
        return points.places(found.numbers), found.squared


@dataclass(frozen=True)
class BlockedLandmarks(Landmarks):
    """Landmarks of points in blocks: the cells' sums are here, the assignment is a dask array over all rows."""

    assignment: Any
    squared_distances: Any
    cell_squared_radii: NDArray[np.float64]
    points: BlockedPoints
    noted_rows: NDArray[np.intp]  # whose cells are known here
    noted_cells: NDArray[np.int32]
    noted_times: NDArray[np.float64] | None  # where their files tell them

    @property
    def known_times(self) -> tuple[NDArray[np.intp], NDArray[np.float64]] | None:
        """The rows whose cells are known here and their times, if the files tell them."""
        return None if self.noted_times is None else (self.noted_rows, self.noted_times)

    @property
    def squared_radii(self) -> NDArray[np.float64]:
        """Squared distance from each landmark to the farthest point of its cell."""
        return self.cell_squared_radii

    def cells_of(self, points: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which landmark some of the points belong to."""
        return self.cells_of_rows(self.points.rows(points))

    def cells_of_rows(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which landmark some of all rows belong to."""
        at = np.minimum(np.searchsorted(self.noted_rows, rows), len(self.noted_rows) - 1)
        if (self.noted_rows[at] == rows).all():
            return self.noted_cells[at].astype(np.intp)
        asked, places = np.unique(rows, return_inverse=True)
        return Blocks.of_array(self.assignment).gather(asked)[0][places].astype(np.intp)

    def points_in(self, cells: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return which points belong to some of the landmarks."""
        rows = np.flatnonzero(cells[np.asarray(self.assignment)])
        weights = self.points.weights
        return self.points.places(rows if weights is None else rows[weights[rows] > 0])

    def beyond(self, squared: float) -> NDArray[np.intp]:
        """Return which points are farther from their landmark than this squared distance."""
        landmarks, far = self.points.take(self.indices), [np.empty(0, dtype=np.intp)]
        members = self.points_in(self.cell_squared_radii > squared)
        for first in range(0, len(members), FETCHED):
            some = members[first : first + FETCHED]
            far.append(some[nearest(self.points.metric, self.points.take(some), landmarks)[1] > squared])
        return np.concatenate(far)

    def without(self, walk: Walk, left_out: NDArray[np.intp], apart: NDArray[np.bool_]) -> BlockedLandmarks:
        """Return the landmarks that stay when some points are left out; a pass finds their cells."""
        stay = cast(BlockedPoints, walk.points)
        return stay.assigned(stay.places(self.points.rows(self.indices[~apart])))

    def in_order(self, order: NDArray[np.intp]) -> BlockedLandmarks:
        """Return the same landmarks and cells with landmark ``order[i]`` as the i-th."""
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order))
        return replace(
            self,
            indices=self.indices[order],
            multiplicities=self.multiplicities[order],
            assignment=self.assignment.map_blocks(place.take, token="ldmaps: order", dtype=np.int32),
            cell_squared_radii=self.cell_squared_radii[order],
            noted_cells=place[self.noted_cells],
        )
