"""Python objects as sources: arrays, lists, iterators, async iterators and trajectories."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldmaps import door
from ldmaps.errors import InvalidInputError, SourceError, one_line
from ldmaps.inputs.source import FrameChunk, PointSource
from ldmaps.point_faults import check_real, check_unmasked
from ldmaps.streaming.gathering import Batch
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.streaming.sources.base import Source

_END: Any = object()


class _Items:
    """Turns items into records and numbers them: each is a point, an array of several, a FrameChunk, or Records."""

    def __init__(self, facts: Mapping[str, Any] | None) -> None:
        facts = facts or {}
        self.width: int | None = facts.get("n_features")
        self.takes_frames = bool(facts.get("takes_frames")) and self.width != 3
        self.number = 0

    def records(self, item: Any, arrived: float) -> Records:
        """Return the records in an item."""
        if isinstance(item, Records):
            self.number += len(item) + len(item.rejected)
            return item
        try:
            is_chunk = isinstance(item, FrameChunk)
            rows, times = (item.frames, item.times) if is_chunk else (self.rows(item), None)
        except (ValueError, TypeError, OverflowError) as error:
            rejected = Rejected(self.number, one_line(error), repr(item)[:200])
            self.number += 1
            return Records.none((rejected,))
        first = self.number
        self.number += len(rows)
        if len(rows) == 1:  # the quickest way to an array of one
            return Records(rows, np.array([first]), times, np.array([arrived]))
        numbers = np.arange(first, self.number, dtype=np.int64)
        return Records(rows, numbers, times, np.full(len(rows), arrived))

    def rows(self, item: Any) -> NDArray[Any]:
        """Return an item as an array of points."""
        check_unmasked(item)
        rows = np.asarray(item)
        if rows.dtype.kind not in "biuf":
            check_real(rows)
            rows = rows.astype(np.float64)
        if rows.ndim == 1 and self.width == 1:
            return rows[:, None]
        if rows.ndim == 1 or (rows.ndim == 2 and self.takes_frames and rows.shape[1] == 3):
            return rows[None]
        if rows.ndim == 2 or (rows.ndim == 3 and rows.shape[2] == 3):
            return rows
        raise InvalidInputError(f"an item of shape {rows.shape} is neither a point nor an array of points")

    def chunks(self, items: Any) -> Any:
        """Return an array, or a list of points, as one chunk that can be cut; a list of anything else as it is."""
        if isinstance(items, np.ndarray):
            rows = self.rows(items)
        else:
            try:
                rows = np.array(items)
            except (ValueError, TypeError):
                return items
            is_points = rows.ndim == 2 and not (self.takes_frames and rows.shape[1] == 3)
            is_frames = rows.ndim == 3 and self.takes_frames
            if rows.dtype.kind not in "biuf" or not (is_points or is_frames):
                return items
        return [FrameChunk(rows, np.arange(len(rows)), None, "")]


class ReplayedSource(Source):
    """Points that can be read again: an array, a list of items, or a trajectory or table (``ldmaps.inputs``)."""

    # It goes on by reading again what came before, and so notices that it was changed.

    replayable: ClassVar[bool] = True
    name = "the data in memory"
    _iterator: Iterator[Any] = iter(())

    def __init__(self, items: Any, facts: Mapping[str, Any] | None = None) -> None:
        self._model_facts, self._items = facts, items
        if isinstance(items, PointSource):
            self.name, self.paths, self.facts = items.describe(), items.files, items.facts()
            self.reads_ahead = True
        else:
            self._items = _Items(facts).chunks(items)

    def open(self, position: Position = None) -> None:
        """Go to an item: a point of a chunk, or an entry of a list."""
        self._shaper, self._iterator, self._left = _Items(self._model_facts), iter(self._items), _END
        self._at = self._checksum = 0
        if position is None:
            return
        if "item" not in position:
            raise SourceError(
                f"{self.name} was followed while it grew when the checkpoint was begun; resume in the same way "
                "(--follow, with --idle-end if it is complete), or start over with another checkpoint"
            )
        wanted = int(position["item"])
        while self._at < wanted and self.poll(wanted - self._at, 0.0) is not None:
            pass
        if self._at != wanted or self._checksum != position["checksum"]:
            raise SourceError(
                f"{self.name} is not what was read before: it differs before item {wanted}; start over without the "
                "checkpoint if it was made again"
            )

    def poll(self, most: int, wait: float) -> Records | None:
        """Return the next points, of one item."""
        item, self._left = self._left, _END
        if item is _END and (item := next(self._iterator, _END)) is _END:
            return None
        if isinstance(item, FrameChunk):
            if len(item) > most:
                item, self._left = item.take(slice(most)), item.take(slice(most, None))
            self._at += len(item)
        else:
            self._at += 1
        records = self._shaper.records(item, door.monotonic())
        self._checksum = zlib.crc32(np.asarray(records.points, np.float64).tobytes(), self._checksum)
        records.position = {"item": self._at, "checksum": self._checksum}
        return records

    def close(self) -> None:
        """Release the files."""
        if isinstance(self._iterator, Generator):
            self._iterator.close()


class IterableSource(Source):
    """Points that an iterator yields; each is passed on when it comes."""

    may_block: ClassVar[bool] = True

    def __init__(self, items: Iterable[Any], facts: Mapping[str, Any] | None = None) -> None:
        self.name = f"the {type(items).__name__}"
        self._items, self._shaper = items, _Items(facts)
        self._iterator: Iterator[Any] = iter(())

    def open(self, position: Position = None) -> None:
        """Begin to iterate."""
        self._iterator = iter(self._items)

    def poll(self, most: int, wait: float) -> Records | None:
        """Return the next item's points, however long it takes."""
        item = next(self._iterator, _END)
        return None if item is _END else self._shaper.records(item, door.monotonic())


class AsyncIterableSource(Source):
    """Points that an async iterator yields; outside async code, in an event loop of its own."""

    def __init__(self, items: AsyncIterable[Any], facts: Mapping[str, Any] | None = None) -> None:
        self.name = f"the {type(items).__name__}"
        self._items, self._shaper = items, _Items(facts)
        self._iterator: AsyncIterator[Any] | None = None
        self._coming: asyncio.Future[Any] | None = None
        self._held: Records | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, position: Position = None) -> None:
        """Begin to iterate."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._loop = asyncio.new_event_loop()
        else:
            raise InvalidInputError("an async source in async code needs astream, not stream or run")
        self._iterator = aiter(self._items)

    def poll(self, most: int, wait: float) -> Records | None:
        """Return what came in time."""
        if self._loop is None:
            raise InvalidInputError("open the source before polling it")
        return self._loop.run_until_complete(self.apoll(most, wait))

    async def apoll(self, most: int, wait: float) -> Records | None:
        """Poll in the running event loop: wait for the first item and take what else is there."""
        if self._iterator is None:
            self._iterator = aiter(self._items)
        batch = Batch(most)
        if self._held is not None:
            batch.add(self._held)
            self._held = None
        while batch.room > 0:
            if self._coming is None:
                self._coming = asyncio.ensure_future(anext(self._iterator))
            if batch:
                await asyncio.sleep(0)  # lets an item that is there already arrive
            else:
                await asyncio.wait([self._coming], timeout=wait)
            if not self._coming.done():
                break
            if self._coming.exception() is not None and batch:
                break  # the same future says so again next time
            try:
                item = self._coming.result()
            except StopAsyncIteration:
                return None
            self._coming = None
            records = self._shaper.records(item, door.monotonic())
            if not batch.add(records):
                self._held = records
                break
        return batch.joined() if batch else Records.none()

    async def aclose(self) -> None:
        """Give up waiting for the next item."""
        if self._coming is not None and not self._coming.done():
            self._coming.cancel()
            await asyncio.wait([self._coming])

    def close(self) -> None:
        """Close the event loop."""
        if self._loop is not None:
            self._loop.run_until_complete(self.aclose())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            self._loop = None
