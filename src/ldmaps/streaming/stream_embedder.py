"""The engine: from a source, over the map, to sinks.

source ──poll──► batch ──prepare──► embed ──► judge coverage ──► regions, events ──► sinks, in order
  ▲                │ bad records are put apart, each with its reason                     │
  └── waits ◄──────┴────────────────── a sink that is slow slows the source ◄────────────┘
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from ldmaps.errors import BadRecordError, InvalidInputError, SourceError
from ldmaps.extension.embedder import Coverage, Embedder
from ldmaps.metrics.base import Points
from ldmaps.regions.tracker import Event
from ldmaps.settings import is_whole_number
from ldmaps.streaming.batches import fits, joined
from ldmaps.streaming.reading import Reader, Silence, failure
from ldmaps.streaming.records import Embedded, Records
from ldmaps.streaming.rejecting import before_first_rejected, repaired
from ldmaps.streaming.sinks.base import Sink
from ldmaps.streaming.sinks.callback import as_sink
from ldmaps.streaming.sources import as_source, model_facts
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.iterable import AsyncIterableSource
from ldmaps.streaming.summary import StreamSummary

if TYPE_CHECKING:
    from ldmaps.regions.tracker import RegionTracker

__all__ = ["StreamEmbedder"]

#: A batch holds no more than about so many bytes of points, however large ``max_batch`` is.
BATCH_BYTES = 32 << 20
#: From so many records on, embedding leaves the event loop to others meanwhile.
_LARGE_BATCH = 64
_NO_REGION = np.array([-1], dtype=np.intp)
_NO_REGION.flags.writeable = False
_BAD_RECORDS = ("quarantine", "count", "raise")


class StreamEmbedder:
    """Embeds records as they come.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or path
        The map, fitted, or a file that holds it.
    max_delay : float
        The longest a record may wait for company, in seconds. With 0 each batch is
        what has arrived: lowest latency. More makes larger batches: higher throughput.
    max_batch : int
        Most records to a batch.
    tracker : RegionTracker, optional
        Labels records with regions and reports events.
    bad_records : {"count", "quarantine", "raise"}
        What a record that cannot be embedded does: it is counted; :meth:`run` also
        insists on a sink that keeps it (:class:`~ldmaps.streaming.sinks.files.QuarantineFile`);
        or it ends the stream with BadRecordError, the records before it being dealt with.
    stall_after : float, optional
        Seconds without a record after which the source counts as stalled.
    on_stall : {"warn", "raise"}
        What a stall does: a warning in the log, once a stall, or StreamStalledError.
    n_threads : int, optional
        Threads for embedding; None uses every core.

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> points = swiss_roll(300, random_state=0).points
    >>> model = LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(points)
    >>> stream = StreamEmbedder(model)
    >>> for embedded in stream.stream(point for point in points[:3]):
    ...     print(embedded.numbers, embedded.coordinates.shape, embedded.coverage.inside)
    [0] (1, 2) [ True]
    [1] (1, 2) [ True]
    [2] (1, 2) [ True]
    """

    def __init__(
        self,
        model: Any,
        *,
        max_delay: float = 0.0,
        max_batch: int = 4096,
        tracker: RegionTracker | None = None,
        bad_records: str = "count",
        stall_after: float | None = None,
        on_stall: str = "warn",
        n_threads: int | None = None,
    ) -> None:
        if isinstance(model, (str, os.PathLike)):
            from ldmaps.maps.loading import load

            model = load(model)
        if not hasattr(model, "embedder_"):
            raise InvalidInputError(f"a fitted map is needed, got {model!r}; call fit first")
        if not (isinstance(max_delay, (int, float)) and 0 <= max_delay < math.inf):
            raise InvalidInputError(f"max_delay must be a number of seconds of at least 0, got {max_delay!r}")
        if not is_whole_number(max_batch) or max_batch < 1:
            raise InvalidInputError(f"max_batch must be a whole number of at least 1, got {max_batch!r}")
        if bad_records not in _BAD_RECORDS:
            raise InvalidInputError(
                f"bad_records must be one of {', '.join(_BAD_RECORDS)}, got {bad_records!r}"
            )
        if stall_after is not None and not 0 < stall_after < math.inf:
            raise InvalidInputError(f"stall_after must be a number of seconds above 0, got {stall_after!r}")
        if on_stall not in ("warn", "raise"):
            raise InvalidInputError(f"on_stall must be warn or raise, got {on_stall!r}")
        self.model = model
        self.max_delay = float(max_delay)
        self.max_batch = int(max_batch)
        self.tracker = tracker
        self.bad_records = bad_records
        self.stall_after = stall_after
        self.on_stall = on_stall
        self.n_threads = n_threads
        #: Counts of the run under way, or of the last one.
        self.summary = StreamSummary()
        self._embedder: Embedder = model.embedder_
        self._facts = model_facts(model)

    # -- one step -----------------------------------------------------------

    def embed(self, records: Records) -> Embedded:
        """Embed records; those that cannot be are added to the rejected ones. Only the tracker is changed."""
        prepared: Points | None = None
        if len(records):
            try:
                prepared = self._embedder.prepare(records.points)
            except InvalidInputError:
                records, prepared = repaired(records, self._embedder, self._facts.get("n_features"))
        if prepared is None:
            return self._nothing(records)
        extended = self._embedder.extend(prepared, self.n_threads)
        coverage = self._embedder.coverage_of(extended)
        events: tuple[Event, ...] = ()
        if self.tracker is None:
            n = len(records)
            regions = _NO_REGION if n == 1 else np.full(n, -1, dtype=np.intp)
        else:
            regions, events = self.tracker.update(
                extended.coordinates, coverage, records.numbers, records.times
            )
        return Embedded(
            records.numbers,
            records.times,
            records.arrived,
            records.rejected,
            records.position,
            extended.coordinates,
            coverage,
            regions,
            events,
            records.points,
        )

    # -- whole streams ------------------------------------------------------

    def stream(self, source: Any) -> Iterator[Embedded]:
        """Yield embedded records as they come.

        Parameters
        ----------
        source : Source, array, iterable, async iterable, trajectory or path
            See :func:`ldmaps.streaming.sources.as_source`.
        """
        opened = as_source(source, self._facts)
        self._open(opened)
        reader = self._reader(opened, None, lambda: False)
        try:
            for records in reader.batches():
                if records is not None:
                    embedded = self.embed(records)
                    good, bad = self._judged(embedded)
                    if len(good) or good.rejected:
                        yield good
                    if bad is not None:
                        raise bad
        finally:
            reader.close()

    async def astream(self, source: Any) -> AsyncIterator[Embedded]:
        """Yield embedded records as they come, in async code.

        An async iterable is iterated in the running event loop; other sources are
        polled in a thread, unless they insist on this one.
        """
        opened = as_source(source, self._facts)
        poll = _polling(opened)
        most = self._most()
        self._warm_up()
        silence = Silence(opened.name, self.stall_after, self.on_stall)
        if not isinstance(opened, AsyncIterableSource):
            opened.open()
        try:
            held: Records | None = None
            ended = False
            while not ended:
                records, held = held or await poll(most, 0.05), None
                if records is None:
                    return
                if not len(records) and not records.rejected:
                    silence.goes_on()
                    continue
                silence.broken()
                parts, count = [records], len(records)
                deadline = time.monotonic() + self.max_delay
                while count < most and (left := deadline - time.monotonic()) > 0:
                    more = await poll(most - count, left)
                    if more is None:
                        ended = True
                        break
                    if not fits(parts[-1], more):
                        held = more
                        break
                    parts.append(more)
                    count += len(more)
                good, bad = self._judged(await self._embed_aside(joined(parts)))
                if len(good) or good.rejected:
                    yield good
                if bad is not None:
                    raise bad
        finally:
            if isinstance(opened, AsyncIterableSource):
                await opened.aclose()
            else:
                opened.close()

    def run(
        self,
        source: Any,
        sinks: Iterable[Sink | Callable[[Embedded], Any]] = (),
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 1.0,
        max_records: int | None = None,
        stop: threading.Event | None = None,
    ) -> StreamSummary:
        """Embed a whole stream into sinks.

        Parameters
        ----------
        source : Source, array, iterable, async iterable, trajectory or path
        sinks : sequence of Sink or callables
            Each gets every batch, in this order; all are closed at the end.
        checkpoint : path, optional
            File that says how far the stream is safe. If it exists, outputs are cut back
            to where it says and the source goes on from there. Needs a source that can
            be read again.
        checkpoint_every : float
            Seconds between two of them; a crash costs at most so much work, done again.
        max_records : int, optional
            Records to read in this run.
        stop : threading.Event, optional
            Set it to end: what has been read is still embedded and written.

        Returns
        -------
        StreamSummary
            Also in ``self.summary``, which is up to date while the stream runs and
            after an exception.

        Raises
        ------
        SourceError
            The source failed; everything before is written. StreamStalledError is one.
        SinkError
            A sink failed; the others are flushed, the checkpoint stays where it was.
        BadRecordError
            With ``bad_records="raise"``.
        KeyboardInterrupt
            After everything that was read has been written.
        """
        from ldmaps.streaming.running import Run

        if max_records is not None and (not is_whole_number(max_records) or max_records < 0):
            raise InvalidInputError(f"max_records must be a whole number of at least 0, got {max_records!r}")
        taken = [as_sink(sink) for sink in sinks]
        if self.bad_records == "quarantine" and not any(sink.takes_rejected for sink in taken):
            raise InvalidInputError(
                'bad_records="quarantine" needs a sink that keeps rejected records, such as QuarantineFile'
            )
        self.summary = StreamSummary()
        run = Run(
            self, as_source(source, self._facts), taken, checkpoint, checkpoint_every, max_records, stop
        )
        run.carry_out()
        return self.summary

    # -- pieces -------------------------------------------------------------

    def _most(self) -> int:
        """Return how many records a batch may have: memory stays bounded with large frames too."""
        width = self._facts.get("n_features") or 1
        return max(1, min(self.max_batch, BATCH_BYTES // (8 * width)))

    def _warm_up(self) -> None:
        """Load the compiled loops before the clock of the first record runs."""
        with suppress(Exception):  # distances that are only looked up cannot be asked for here
            self._embedder.extend(self._embedder.landmarks.take(np.zeros(1, dtype=np.intp)), 1)

    def _open(self, source: Source, position: Any = None) -> None:
        """Open a source, and close it if that fails."""
        self._warm_up()
        try:
            source.open(position)
        except BaseException:
            source.close()
            raise

    def _reader(self, source: Source, limit: int | None, should_stop: Callable[[], bool]) -> Reader:
        """Begin to read a source that is open."""
        return Reader(
            source, self.max_delay, self._most(), limit, self.stall_after, self.on_stall, should_stop
        )

    async def _embed_aside(self, records: Records) -> Embedded:
        if len(records) < _LARGE_BATCH:
            return self.embed(records)
        return await asyncio.to_thread(self.embed, records)

    def _judged(self, embedded: Embedded) -> tuple[Embedded, BadRecordError | None]:
        """Return what may be passed on, and the error that the first bad record is, if it is one."""
        if self.bad_records != "raise" or not embedded.rejected:
            return embedded, None
        return before_first_rejected(embedded)

    def _nothing(self, records: Records) -> Embedded:
        k = self._embedder.n_components
        dtype = self._embedder.coefficients.dtype
        nearest = np.empty(0, dtype=np.intp)
        coverage = Coverage(np.empty(0, dtype=dtype), np.empty(0, dtype=bool), nearest)
        return Embedded(
            records.numbers,
            records.times,
            records.arrived,
            records.rejected,
            records.position,
            np.empty((0, k), dtype=dtype),
            coverage,
            nearest,
            (),
            records.points,
        )


def _polling(source: Source) -> Callable[[int, float], Awaitable[Records | None]]:
    """Return how to poll a source in async code."""
    seen = 0

    async def poll(most: int, wait: float) -> Records | None:
        nonlocal seen
        try:
            if isinstance(source, AsyncIterableSource):
                records = await source.apoll(most, wait)
            elif source.needs_main_thread:
                records = source.poll(most, 0.0)
                if records is not None and not len(records):
                    await asyncio.sleep(min(wait, 0.001))
            else:
                records = await asyncio.to_thread(source.poll, most, wait)
        except SourceError:
            raise
        except Exception as error:
            raise failure(source, seen, error) from error
        seen += 0 if records is None else len(records)
        return records

    return poll
