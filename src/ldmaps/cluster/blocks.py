"""What workers do with a block of rows: pick some, give them to landmarks, embed them; they return what is small.

A task has one thread: Dask runs as many at once as a worker has threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ldmaps.diffusion.pairwise import nearest
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Embedder
from ldmaps.inputs.source import FrameChunk, check_frames_finite
from ldmaps.metrics.base import Metric, Points
from ldmaps.threads import single_threaded_blas


@dataclass(frozen=True)
class PreparedBlock:
    """A block that a worker keeps for the next pass."""

    points: Points
    times: NDArray[np.float64] | None  # (n,)
    n_bytes: int  # of the numbers as they were read

    def __len__(self) -> int:
        return len(self.points)

    def __sizeof__(self) -> int:
        """Tell Dask what is kept here."""
        return self.n_bytes


#: Rows as they come: a block of a dask array, or a chunk of a file;
RawBlock = NDArray[Any] | FrameChunk
#: and as workers have them, perhaps prepared.
Block = RawBlock | PreparedBlock


def rows_of(block: RawBlock) -> NDArray[Any]:
    """Return the numbers of a block as it was read."""
    return block.frames if isinstance(block, FrameChunk) else block


def times_of(block: Block) -> NDArray[np.float64] | None:
    """Return the times of a block's frames, where a file told them."""
    return None if isinstance(block, np.ndarray) else block.times


class Cells(NamedTuple):
    """What the points of some blocks add to the landmarks' cells."""

    multiplicities: NDArray[np.float64]  # (M,)
    squared_radii: NDArray[np.float64]  # (M,)
    noted: NDArray[np.int32]  # which cells some of the points are in
    times: NDArray[np.float64] | None  # of these, where their files tell them


@dataclass(frozen=True)
class Cover:
    """Landmarks as workers need them."""

    metric: Metric
    landmarks: Points
    rows: NDArray[np.intp]  # (M,): which rows of all data they are, or which stand for them
    are_moved: bool = False  # whether they are none of the rows


def prepared(metric: Metric, block: Block, start: int, dtype: DTypeLike | None = None) -> Points:
    """Prepare a block, and say which rows it is where something is wrong with it."""
    if isinstance(block, PreparedBlock):
        return block.points
    try:
        return metric.prepare(rows_of(block), dtype)
    except InvalidInputError as error:
        if isinstance(block, FrameChunk):
            check_frames_finite(block)  # says where in which file
            raise
        raise InvalidInputError(f"rows {start} to {start + len(block) - 1}: {error}") from error


def prepare_block(block: RawBlock, start: int, metric: Metric, dtype: DTypeLike) -> PreparedBlock:
    """Prepare a block to be kept."""
    return PreparedBlock(prepared(metric, block, start, dtype), times_of(block), rows_of(block).nbytes)


def pick_rows(block: RawBlock, rows: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    """Return some rows of a block, as a copy that does not keep the block alive, and their times."""
    picked, times = np.array(rows_of(block)[rows]), times_of(block)
    if isinstance(block, FrameChunk):
        check_frames_finite(replace(block, frames=picked, numbers=block.numbers[rows], times=None))
    return picked, None if times is None else np.array(times[rows])


def joined_times(parts: list[NDArray[np.float64] | None]) -> NDArray[np.float64] | None:
    """Return the times of consecutive blocks, if all of them have some."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _nearest(block: Block, start: int, cover: Cover) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return which landmark each point of a block is nearest to, and d² to it."""
    with single_threaded_blas():
        points = prepared(cover.metric, block, start, cover.landmarks.dtype)
        cover.metric.check_compatible(points, cover.landmarks)
        return nearest(cover.metric, points, cover.landmarks, 1)


def assign_block(
    block: Block, start: int, weights: NDArray[np.float64] | None, cover: Cover, noted: NDArray[np.intp]
) -> tuple[NDArray[np.int32], Cells]:
    """Give every point of a block to its nearest landmark; see :func:`ldmaps.landmarks.base.settle`."""
    count = len(cover.rows)
    assignment, squared = _nearest(block, start, cover)
    own = np.flatnonzero((cover.rows >= start) & (cover.rows < start + len(block)))
    assignment[cover.rows[own] - start] = own
    if not cover.are_moved:
        squared[cover.rows[own] - start] = 0.0
    multiplicities = np.bincount(assignment, weights, count).astype(np.float64)
    radii, counted = np.zeros(count), slice(None) if weights is None else weights > 0
    np.maximum.at(radii, assignment[counted], squared[counted].astype(np.float64))
    labels, times = assignment.astype(np.int32), times_of(block)
    known = None if times is None else np.array(times[noted])
    return labels, Cells(multiplicities, radii, labels[noted], known)


def add_cells(parts: list[Cells]) -> Cells:
    """Return the cells of several consecutive blocks together."""
    return Cells(
        np.sum([part.multiplicities for part in parts], axis=0),
        np.max([part.squared_radii for part in parts], axis=0),
        np.concatenate([part.noted for part in parts]),
        joined_times([part.times for part in parts]),
    )


class Farthest(NamedTuple):
    """The rows of some blocks that lie farthest from landmarks, the farthest first."""

    numbers: NDArray[np.intp]  # (n,): which rows of all data they are
    squared: NDArray[np.float64]  # (n,): d² to the nearest landmark


def distance_block(
    block: Block,
    start: int,
    weights: NDArray[np.float64] | None,
    cover: Cover,
    lowest: NDArray[Any] | None,
    most: int,
) -> tuple[NDArray[Any], Farthest]:
    """Compare a block with more landmarks; return its rows' d² to all so far, and the farthest of them."""
    _, squared = _nearest(block, start, cover)
    if lowest is not None:
        np.minimum(squared, lowest, out=squared)
    own = cover.rows[(cover.rows >= start) & (cover.rows < start + len(block))]
    squared[own - start] = 0.0
    members = np.arange(len(block)) if weights is None else np.flatnonzero(weights)
    far = members[np.argsort(-squared[members], kind="stable")[:most]]
    return squared, Farthest(far + start, squared[far].astype(np.float64))


def add_farthest(parts: list[Farthest], most: int) -> Farthest:
    """Return the farthest rows of several consecutive blocks together; the first among equals."""
    numbers = np.concatenate([part.numbers for part in parts])
    squared = np.concatenate([part.squared for part in parts])
    order = np.argsort(-squared, kind="stable")[:most]
    return Farthest(numbers[order], squared[order])


def embed_training_block(
    block: Block, start: int, embedder: Embedder, asked: NDArray[np.intp]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the coordinates of a block of training points, and d² of some of its rows to the nearest landmark."""
    with single_threaded_blas():
        points = prepared(embedder.metric, block, start, embedder.landmarks.dtype)
        extended = embedder.extend(points, 1)
    return extended.coordinates, extended.squared_distance[asked]
