"""From a source to batches: reading ahead, waiting for company, noticing that nothing comes."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ldmaps.errors import SourceError, StreamStalledError
from ldmaps.streaming.batches import fits, joined
from ldmaps.streaming.records import Records
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.iterable import IterableSource

__all__ = ["Reader", "Silence", "failure"]

_log = logging.getLogger("ldmaps")
#: Seconds after which a wait looks whether it should go on.
_LOOK_UP = 0.05
#: Seconds that a reader thread gets to come back from its source when the stream ends.
_GOODBYE = 5.0


def failure(source: Source, seen: int, error: Exception) -> SourceError:
    """Return an error of a source as a SourceError; raise it from the error."""
    if isinstance(error, SourceError):
        return error
    return SourceError(
        f"{source.name} failed after {seen} records ({type(error).__name__}: {error}); "
        "what came before was dealt with"
    )


class _Limited:
    """A source that ends after so many records, and whose failures are SourceErrors."""

    def __init__(self, source: Source, limit: int | None) -> None:
        self._source = source
        self.left = limit
        self.seen = 0

    def poll(self, most: int, wait: float) -> Records | None:
        if self.left is not None:
            most = min(most, self.left)
            if most <= 0:
                return None
        try:
            records = self._source.poll(most, wait)
        except SourceError:
            raise
        except Exception as error:
            raise failure(self._source, self.seen, error) from error
        if records is not None:
            self.seen += len(records)
            if self.left is not None:
                self.left -= len(records)
        return records


class _ReadAhead:
    """Polls in a thread of its own; holds at most ``room`` records and then lets the source wait."""

    def __init__(self, source: _Limited, most: int, room: int) -> None:
        self._source = source
        self._most = most
        self._room = room
        self._ready: deque[Records] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._ended = False
        self._failure: BaseException | None = None
        self.peak = 0
        self._thread = threading.Thread(target=self._work, name="ldmaps-stream-reader", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._stopped:
                records = self._source.poll(self._most, _LOOK_UP)
                if records is None:
                    break
                if len(records) or records.rejected:
                    self._put(records)
        except BaseException as error:  # handed over, whatever it is
            failure = error
        with self._changed:
            self._failure, self._ended = failure, True
            self._changed.notify_all()

    def _put(self, records: Records) -> None:
        count = len(records) + len(records.rejected)
        with self._changed:
            # Records that were read are kept even when the stream is stopped meanwhile: they may not come again.
            while self._waiting and self._waiting + count > self._room and not self._stopped:
                self._changed.wait(_LOOK_UP)
            self._ready.append(records)
            self._waiting += count
            self.peak = max(self.peak, self._waiting)
            self._changed.notify_all()

    def poll(self, most: int, wait: float) -> Records | None:
        """Return what has been read: as many parts as fit, none of them cut."""
        with self._changed:
            if not self._ready and not self._ended:
                self._changed.wait(wait)
            if not self._ready:
                if not self._ended:
                    return _NOTHING
                if self._failure is not None:
                    failure, self._failure = self._failure, None
                    raise failure
                return None
            parts = [self._ready.popleft()]
            count = len(parts[0])
            while self._ready and count + len(self._ready[0]) <= most and fits(parts[-1], self._ready[0]):
                parts.append(self._ready.popleft())
                count += len(parts[-1])
            self._waiting -= sum(len(part) + len(part.rejected) for part in parts)
            self._changed.notify_all()
        return joined(parts)

    def stop(self) -> bool:
        """Let the thread come to an end; say whether it has."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join(_GOODBYE)
        return not self._thread.is_alive()


_NOTHING = Records(np.empty((0, 0)), np.empty(0, dtype=np.int64), None, np.empty(0))


class Silence:
    """Notices that nothing comes.

    Parameters
    ----------
    name : str
        Of the source.
    stall_after, on_stall
        As of StreamEmbedder.
    """

    def __init__(self, name: str, stall_after: float | None, on_stall: str) -> None:
        self._name = name
        self._limit = stall_after
        self._raises = on_stall == "raise"
        self._heard = time.monotonic()
        self._told = False
        self.stalls = 0

    def broken(self) -> None:
        """Note that something came."""
        self._heard, self._told = time.monotonic(), False

    def goes_on(self) -> None:
        """Note that nothing came; warn or raise, once a stall."""
        if self._limit is None or self._told:
            return
        silence = time.monotonic() - self._heard
        if silence < self._limit:
            return
        self._told = True
        self.stalls += 1
        text = f"nothing came from {self._name} for {silence:.3g} s (stall_after={self._limit:g})"
        if self._raises:
            raise StreamStalledError(f"{text}; what came before was dealt with")
        _log.warning("%s; still waiting", text)


@dataclass
class Reader:
    """Reads a source that is open and hands out batches, in order.

    Parameters
    ----------
    source : Source
    max_delay : float
        Seconds that a record may wait for company.
    most : int
        Records to a batch.
    limit : int, optional
        Records after which to end.
    stall_after, on_stall
        As of StreamEmbedder.
    should_stop : callable
        Asked between batches and while waiting.
    """

    source: Source
    max_delay: float
    most: int
    limit: int | None
    stall_after: float | None
    on_stall: str
    should_stop: Callable[[], bool]
    #: Whether the calling thread waits for an iterator, which nothing but an exception can end.
    blocked: bool = False

    def __post_init__(self) -> None:
        self._polled = _Limited(self.source, self.limit)
        self._ahead = _ReadAhead(self._polled, self.most, 2 * self.most) if self._in_thread() else None
        self._left: Records | None = None  # read, but not fit for the batch that it came to
        self._outcome: BaseException | None = None  # raised by a poll whose batch had to be dealt with first
        self._ended = False
        self._silence = Silence(self.source.name, self.stall_after, self.on_stall)

    def _in_thread(self) -> bool:
        """Say whether another thread reads: for throughput, or because the source cannot be asked to hurry.

        A hand-over between threads takes longer than embedding a record, so sources
        that wait for their records are polled directly unless records may wait.
        """
        source = self.source
        if source.needs_main_thread:
            return False
        watched = self.stall_after is not None and isinstance(source, IterableSource)
        return source.reads_ahead or self.max_delay > 0 or watched

    @property
    def stalls(self) -> int:
        """How often nothing came for too long."""
        return self._silence.stalls

    @property
    def limit_reached(self) -> bool:
        """Whether as many records were read as were asked for."""
        return self._polled.left == 0

    @property
    def peak_queue(self) -> int:
        """Most records that waited at a time."""
        return 0 if self._ahead is None else self._ahead.peak

    def batches(self) -> Iterator[Records | None]:
        """Yield batches; None while nothing comes, so that the caller can do what is due."""
        wait = _LOOK_UP if self.stall_after is None else min(_LOOK_UP, self.stall_after / 4)
        while not self.should_stop():
            records = self._next(self.most, wait)
            if records is None:
                return
            if not _holds(records):
                self._silence.goes_on()
                yield None
                continue
            self._silence.broken()
            yield self._with_company(records) if self.max_delay > 0 else records
        # What was read already is dealt with: it may not come again.
        if self._left is not None:
            yield self._left
        if self._ahead is not None:
            self._ahead.stop()
            while (records := self._ahead.poll(self.most, 0.0)) is not None and _holds(records):
                yield records

    def close(self) -> None:
        """End the reader thread and close the source."""
        if self._ahead is not None and not self._ahead.stop():
            _log.warning("%s does not come back from reading; it is left to itself", self.source.name)
            return
        self.source.close()

    def _next(self, most: int, wait: float) -> Records | None:
        if self._left is not None:
            records, self._left = self._left, None
            return records
        if self._outcome is not None:
            outcome, self._outcome = self._outcome, None
            raise outcome
        if self._ended:
            return None
        if self._ahead is not None:
            return self._ahead.poll(most, wait)
        self.blocked = isinstance(self.source, IterableSource)
        try:
            return self._polled.poll(most, wait)
        finally:
            self.blocked = False

    def _with_company(self, records: Records) -> Records:
        """Wait for more records, but no longer than the first one may wait."""
        first = float(records.arrived[0]) if len(records) else time.monotonic()
        deadline = first + self.max_delay
        parts, count = [records], len(records)
        while count < self.most and not self.should_stop():
            wait = deadline - time.monotonic()
            if wait <= 0:
                break
            try:
                more = self._next(self.most - count, min(wait, _LOOK_UP))
            except BaseException as error:  # raised again once these records are dealt with
                self._outcome = error
                break
            if more is None:
                self._ended = True
                break
            if not _holds(more):
                continue
            if not fits(parts[-1], more) or count + len(more) > self.most:
                self._left = more
                break
            parts.append(more)
            count += len(more)
        return joined(parts)


def _holds(records: Records) -> bool:
    return bool(len(records) or records.rejected)
