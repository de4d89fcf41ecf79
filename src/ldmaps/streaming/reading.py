"""Waiting for a source: in the calling thread, in one that reads ahead, or in an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import copy_context
from functools import partial

from ldmaps.inputs.prefetch import NOTHING, Ahead
from ldmaps.streaming.gathering import LOOK_UP, Batch, Gathering
from ldmaps.streaming.records import Position, Records
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.iterable import AsyncIterableSource

_log = logging.getLogger("ldmaps")
#: Seconds that a thread gets to come back from its source when the stream ends.
_GOODBYE = 5.0


class Reader:
    """Reads a source and hands out batches, in order, up to a limit of records."""

    def __init__(self, source: Source, gathering: Gathering, limit: int | None = None) -> None:
        self.source = source
        self.should_stop: Callable[[], bool] = lambda: False
        self.blocked = False
        self.gathering = gathering
        self._left = limit
        self._ahead: Ahead[Records] | None = None
        # A hand-over between threads takes longer than embedding a record, so sources that wait for their records
        # are polled directly, unless records may wait or the source cannot be asked to hurry.
        may_wait = gathering.max_delay > 0 or (gathering.stall_after is not None and source.may_block)
        self._reads_ahead = (source.reads_ahead or may_wait) and not source.needs_main_thread

    def has_read(self, count: int) -> None:
        """Count records that earlier runs have read towards the limit; to be called before reading."""
        if self._left is not None:
            self._left -= count

    @property
    def limit_reached(self) -> bool:
        """Whether as many records were read as were asked for."""
        return self._left is not None and self._left <= 0

    @property
    def peak_queue(self) -> int:
        """Most records that waited at a time."""
        return 0 if self._ahead is None else self._ahead.peak

    def open(self, position: Position = None) -> None:
        """Open the source, and close it if that fails."""
        try:
            self.source.open(position)
        except BaseException:
            self.source.close()
            raise

    def batches(self) -> Iterator[Records | None]:
        """Yield batches; None while nothing comes, so that the caller can do what is due."""
        while (step := self.gathering.step()) is not None:
            if isinstance(step, Records):
                yield step
                continue
            try:
                records = self._poll(*step)
            except BaseException as error:
                self.gathering.fail(error)
            else:
                if not self.gathering.receive(records):
                    yield None

    def close(self) -> None:
        """End the reader thread and close the source."""
        if self._ahead is not None and not self._stopped(self._ahead):
            self._abandon()
        else:
            self.source.close()

    def _poll(self, most: int, wait: float) -> Records | None:
        if self.should_stop():
            return self._rest(most)
        if self._reads_ahead:
            if self._ahead is None:
                batch = self.gathering.most
                parts = iter(lambda: self._poll_source(batch, LOOK_UP), None)
                self._ahead = Ahead(parts, 2 * batch, _count, "ldmaps-stream-reader")
            return _taken(self._ahead, most, wait)
        self.blocked = self.source.may_block
        try:
            return self._poll_source(most, wait)
        finally:
            self.blocked = False

    def _poll_source(self, most: int, wait: float) -> Records | None:
        """Poll the source itself, for no more than the limit leaves."""
        if self._left is None:
            return self.source.poll(most, wait)
        if self._left <= 0:
            return None
        records = self.source.poll(min(most, self._left), wait)
        if records is not None:
            self._left -= len(records)
        return records

    def _rest(self, most: int) -> Records | None:
        """Return what was read already: it may not come again."""
        if self._ahead is None:
            return None
        self._stopped(self._ahead)
        records = _taken(self._ahead, most, 0.0)
        return None if records is None or records.empty else records

    def _stopped(self, ahead: Ahead[Records]) -> bool:
        """Let the thread that reads come to an end, which is waited for once; say whether it has."""
        return ahead.stop(0.0 if ahead.stopped else _GOODBYE)

    def _abandon(self) -> None:
        _log.warning("%s does not return from reading; it is abandoned", self.source.name)


def _count(records: Records) -> int:
    return len(records) + len(records.rejected)


def _taken(ahead: Ahead[Records], most: int, wait: float) -> Records | None:
    """Return what has been read: as many parts as fit, none of them cut; None at the end."""
    batch = Batch(most)
    if ahead.get(wait, batch.add) is NOTHING:
        return None if ahead.is_over() else Records.none()
    while ahead.get(0.0, batch.add) is not NOTHING:
        pass
    return batch.joined()


class AsyncReader(Reader):
    """A reader for async code: an async source is iterated in the event loop, others wait in threads."""

    _polling: asyncio.Future[Records | None] | None = None

    async def aopen(self) -> None:
        """Open the source."""
        if self.source.needs_main_thread:
            self.open()
        elif not isinstance(self.source, AsyncIterableSource):  # which would get an event loop of its own
            await asyncio.to_thread(self.open)

    async def abatches(self) -> AsyncIterator[Records]:
        """Yield batches."""
        while (step := self.gathering.step()) is not None:
            if isinstance(step, Records):
                yield step
                continue
            try:
                self.gathering.receive(await self._apoll(*step))
            except Exception as error:  # but not a cancellation, for which nobody may have to wait
                self.gathering.fail(error)

    async def aclose(self) -> None:
        """Wait for the thread that polls, if any, and close the source."""
        if isinstance(self.source, AsyncIterableSource):
            await self.source.aclose()
        elif self.source.needs_main_thread:
            self.close()
        elif self._polling is not None and not (await asyncio.wait([self._polling], timeout=_GOODBYE))[0]:
            self._abandon()
        else:
            await asyncio.to_thread(self.close)

    async def _apoll(self, most: int, wait: float) -> Records | None:
        if isinstance(self.source, AsyncIterableSource):
            return await self.source.apoll(most, wait)
        if self.source.needs_main_thread:
            records = self._poll(most, 0.0)
            if records is not None and records.empty:
                await asyncio.sleep(min(wait, 0.001))
            return records
        # As asyncio.to_thread, but shielded: aclose waits for a poll that was cancelled.
        poll = partial(copy_context().run, self._poll, most, wait)
        self._polling = asyncio.get_running_loop().run_in_executor(None, poll)
        return await asyncio.shield(self._polling)
