"""Files that workers open and read in pieces; this process looks at their headers alone.

A piece is some consecutive frames or rows of one file; a file whose reader cannot seek is one piece.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.cluster.arrays import array_of
from ldmaps.cluster.engine import computed, shared, task, threads_in_use
from ldmaps.cluster.points import Blocks, Piece
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import known_format
from ldmaps.inputs.opening import InBlocks, open_files
from ldmaps.inputs.source import FrameChunk, PointSource, check_frames_finite, joined_chunks
from ldmaps.inputs.tables import TableSource
from ldmaps.settings import size_in_bytes

#: Bytes of a piece by default: a task takes seconds, and a piece is little beside a worker's memory.
PIECE_BYTES = 32 << 20
#: Bytes that a row adds to those of its numbers: landmark, d², coordinates. A row of three numbers has more of them.
ROW_BYTES = 48
#: Readers that find a row without reading those before it.
SEEKING = ("frames", "array", "zarr", "parquet")


class BlockedFiles(InBlocks):
    """Points of files, in blocks that workers read, to fit to and to embed.

    Parameters
    ----------
    source : PointSource
        The same files as this process would read them: atoms, columns, units.
    settings : mapping
        What :func:`ldmaps.inputs.open_files` was given besides the files; workers pass it too.
    piece : int or str, optional
        See :func:`open_blocks`.
    """

    def __init__(
        self, source: PointSource, settings: Mapping[str, Any], piece: int | str | None = None
    ) -> None:
        self._piece = PIECE_BYTES if piece is None else size_in_bytes("piece", piece)
        if "stdin" in source.files:
            raise InvalidInputError("workers cannot read stdin; give them files, or leave out --workers")
        if not source.in_pieces:
            raise InvalidInputError(
                f"workers read pieces of files, but {source.describe()} is read as {source.item} that depend on what "
                "comes before (windows, or missing values that are dropped); leave out --workers"
            )
        self.source = source
        self.files = source.files
        self.units = source.units
        self.item = source.item
        # Workers may stand in another folder, and want what the model chose without looking at it again.
        self._settings = {name: value for name, value in settings.items() if name not in ("weights", "kt")}
        if isinstance(self._settings.get("top"), (str, os.PathLike)):
            self._settings["top"] = os.path.abspath(self._settings["top"])

    def facts(self) -> dict[str, Any]:
        """Return what a model remembers of the points it was fitted on."""
        return self.source.facts()

    def describe(self) -> str:
        """Return a few words for messages."""
        return self.source.describe()

    @cached_property
    def blocks(self) -> Blocks:
        """The pieces as tasks. Workers count the frames of files that do not tell."""
        paths = [os.path.abspath(path) for path in self.files]
        # Names of thousands of atoms travel once, not with every piece.
        settings = shared("files", self._settings)
        counted = computed([task("count", count_rows, path, settings) for path in paths])
        dtype = np.result_type(*(kind for _, kind in counted))
        stride = int(self._settings.get("stride") or 1)
        first = int(self._settings.get("start") or 0)
        row_bytes = math.prod(self.source.shape) * dtype.itemsize
        most = rows_of_piece(row_bytes * stride, self._piece)
        most = even_rows(sum(count for count, _ in counted), most, threads_in_use())
        readers = [known_format(path).reader for path in paths]
        tasks, sizes, pieces = [], [], []
        for number, (path, reader, (count, _)) in enumerate(zip(paths, readers, counted, strict=True)):
            reads_all = reader not in SEEKING
            step = count if reads_all else even_rows(count, most)
            for begin in range(0, count, step):
                size = min(step, count - begin)
                start = first + begin * stride
                stop = start + (size - 1) * stride + 1
                tasks.append(task("read", read_piece, path, self.files[number], settings, start, stop, size))
                sizes.append(size)
                pieces.append(Piece(number, start, stride))
        return Blocks(tasks, sizes, self.source.shape, dtype, pieces, set(readers) == {"array"})

    @property
    def array(self) -> Any:
        """All points as a dask array, a chunk for each piece."""
        blocks = self.blocks
        parts = [task("frames", checked_frames, block) for block in blocks.tasks]
        return array_of("points", parts, blocks.sizes, blocks.dtype, blocks.shape)

    def weights(self) -> NDArray[np.float64] | None:
        """Return the points' weights, if the source was opened with some."""
        if self.source.weights is None:
            return None
        rows = np.arange(len(self.blocks))
        numbers, several = self.blocks.numbers(rows), self.blocks.files(rows)
        file = "" if several is not None else self.files[0]
        points = FrameChunk(rows, rows if numbers is None else numbers, None, file, several)
        return self.source.weights.of(points, self.files)


def rows_of_piece(row_bytes: float, piece: int) -> int:
    """Return how many rows of so many bytes make a piece, together with what is computed of them.

    >>> rows_of_piece(22 * 3 * 4, 32 << 20)
    107546
    """
    return max(1, int(piece // (row_bytes + ROW_BYTES)))


def even_rows(n_rows: int, most: int, n_threads: int = 1) -> int:
    """Return of how many rows pieces are equal: at most ``most``, and as many for each thread if it gets several.

    >>> even_rows(1_000_000, 107_546, 2)
    100000
    """
    # Then no thread waits for another's last piece. Threads that would get less than a piece get none: more
    # pieces are more work for the scheduler.
    pieces = -(-n_rows // most)
    if pieces > n_threads:
        pieces = -(-pieces // n_threads) * n_threads
    return max(1, -(-n_rows // max(1, pieces)))


def open_blocks(
    path_or_paths: Any, top: Any = None, *, piece: int | str | None = None, **settings: Any
) -> BlockedFiles:
    """Open files for workers to read in pieces.

    Parameters
    ----------
    path_or_paths, top, settings
        See :func:`ldmaps.inputs.open_files`. Workers must find the files under the same paths.
    piece : int or str, optional
        Largest size of a piece in bytes, or as "64MB"; 32 MB by default. Pieces are equal, and
        each thread of the workers there are now gets as many. Results do not depend on it. A
        thread of a worker holds up to four pieces; larger ones mean fewer tasks for the
        scheduler, which is what limits large clusters.
    """
    return BlockedFiles(open_files(path_or_paths, top, **settings), {"top": top, **settings}, piece)


def count_rows(path: str, settings: Mapping[str, Any]) -> tuple[int, np.dtype[Any]]:
    """Return how many rows of a file are read, and the type of their numbers."""
    source = open_files([path], **settings)
    chunks = iter(source)
    first = next(chunks, None)
    if first is None:
        raise InvalidInputError(f"there are no frames in {path}; check start, stop and the file")
    count = source.n_frames
    return len(first) + sum(map(len, chunks)) if count is None else count, first.frames.dtype


def read_piece(
    path: str, name: str, settings: Mapping[str, Any], start: int, stop: int, size: int
) -> FrameChunk:
    """Read a piece of a file; that of a .npy is mapped, and whoever looks at it reads it."""
    # Whether numbers are finite is asked where they are used.
    source = open_files([path], **{**settings, "start": start, "stop": stop})
    piece = source.mapped() if isinstance(source, TableSource) else None
    piece = joined_chunks(list(source)) if piece is None else piece
    if len(piece) != size:
        raise InvalidInputError(
            f"{name} has changed while it was read: {len(piece)} rows from {start} on, not {size}"
        )
    return replace(piece, file=name)


def checked_frames(chunk: FrameChunk) -> NDArray[Any]:
    """Return the numbers of a piece, or raise where one is not finite."""
    check_frames_finite(chunk)
    return chunk.frames
