"""The engine: source ──► Records ──► batch ──► embed, regions ──► Embedded ──► sinks; a slow sink slows the source."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ldmaps.errors import InvalidInputError, Named
from ldmaps.regions.tracker import RegionTracker
from ldmaps.settings import check_seconds, check_whole
from ldmaps.streaming.gathering import Gathering
from ldmaps.streaming.reading import AsyncReader, Reader
from ldmaps.streaming.record_embedder import RecordEmbedder, judged
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.running import Run
from ldmaps.streaming.sinks import as_sink
from ldmaps.streaming.sinks.base import Sink
from ldmaps.streaming.sources import as_source
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.summary import StreamSummary

#: A batch holds no more than about so many bytes of points, however large ``max_batch`` is.
BATCH_BYTES = 32 << 20
#: From so many records on, embedding leaves the event loop to others meanwhile.
_LARGE_BATCH = 64
_BAD_RECORDS = ("quarantine", "count", "raise")


class StreamEmbedder(RecordEmbedder):
    """Embeds records as they arrive.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or path
        The map, fitted, or a file that holds it.
    max_delay : float
        The longest a record may wait for others, in seconds. With 0 each batch is what has arrived: lowest
        latency. More makes larger batches: higher throughput.
    max_batch : int
        Most records per batch.
    tracker : RegionTracker, optional
        Labels records with regions and reports events.
    bad_records : {"count", "quarantine", "raise"}
        What happens to a record that cannot be embedded: it is counted; :meth:`run` also
        requires a sink that keeps it (:class:`~ldmaps.streaming.sinks.files.QuarantineFile`);
        or it ends the stream with BadRecordError, after the records before it.
    missing : {"drop", "error"}
        What a missing value does, NaN or an empty cell: the record is such a one, or it ends the stream whatever
        ``bad_records`` says.
    step : int, optional
        Of a map of windows: every ``step``-th one is embedded; by default as in the fit.
    stall_after : float, optional
        Seconds without a record after which the source counts as stalled.
    on_stall : {"warn", "raise"}
        What a stall does: a warning in the log, once per stall, or StreamStalledError.
    n_threads : int, optional
        Threads for embedding; None uses every core.

    See Also
    --------
    open_source : sources by name.
    ldmaps.regions.RegionTracker : events of regions.
    Reservoir : a sink that samples records outside the map.

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
        missing: str = "drop",
        step: int | None = None,
        stall_after: float | None = None,
        on_stall: str = "warn",
        n_threads: int | None = None,
    ) -> None:
        super().__init__(model, tracker=tracker, n_threads=n_threads)
        check_seconds("max_delay", max_delay)
        check_seconds("stall_after", stall_after, above=True)
        for name, value, rule, allowed in (
            ("bad_records", bad_records, f"one of {', '.join(_BAD_RECORDS)}", _BAD_RECORDS),
            ("missing", missing, "drop or error", ("drop", "error")),
            ("on_stall", on_stall, "warn or raise", ("warn", "raise")),
        ):
            if value not in allowed:
                raise InvalidInputError(Named(name), f" must be {rule}, got {value!r}")
        if step is not None:
            if self.windows is None:
                raise InvalidInputError(
                    Named("step", step),
                    " requires windows, but the map was fitted on single rows; leave it out",
                )
            self.windows = replace(self.windows, step=step)
        self.missing = missing
        self.max_delay = float(max_delay)
        self.max_batch = check_whole("max_batch", max_batch, 1)
        self.bad_records = bad_records
        self.stall_after = stall_after
        self.on_stall = on_stall
        #: Counts of the run under way, or of the last one.
        self.summary = StreamSummary()

    def stream(self, source: Any) -> Iterator[Embedded]:
        """Yield embedded records as they arrive.

        Parameters
        ----------
        source : Source, array, iterable, async iterable, trajectory or path
            A path may be any address that :func:`open_source` takes; an iterable yields points,
            arrays of points or FrameChunks.

        Yields
        ------
        Embedded
            A batch: what has arrived, or what arrived within ``max_delay``.
        """
        reader = Reader(*self._opened(source))
        self.warm_up()
        reader.open()
        try:
            for records in reader.batches():
                if records is not None:
                    good, bad = judged(self.embed(records), self.bad_records, self.missing)
                    if not good.records.empty:
                        yield good
                    if bad is not None:
                        raise bad
        finally:
            reader.close()

    async def astream(self, source: Any) -> AsyncIterator[Embedded]:
        """Yield batches as :meth:`stream` does, in async code.

        If ``source`` is an async iterable, it is iterated in the running event loop; others are polled in a thread,
        unless they need this one.
        """
        reader = AsyncReader(*self._opened(source))
        await asyncio.to_thread(self.warm_up)
        await reader.aopen()
        try:
            async for records in reader.abatches():
                is_large = len(records) >= _LARGE_BATCH
                embedded = await asyncio.to_thread(self.embed, records) if is_large else self.embed(records)
                good, bad = judged(embedded, self.bad_records, self.missing)
                if not good.records.empty:
                    yield good
                if bad is not None:
                    raise bad
        finally:
            await reader.aclose()

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
            See :meth:`stream`.
        sinks : sequence of Sink or callables
            Each gets every batch, in this order; all are closed at the end.
        checkpoint : path, optional
            File that says how far the stream is safe. If it exists, outputs are truncated to that point and the
            source continues from there. Needs a source that can be read again.
        checkpoint_every : float
            Seconds between two checkpoints; after a crash at most this much work is done again.
        max_records : int, optional
            Records to read, those that earlier runs with the same checkpoint have read included.
        stop : threading.Event, optional
            Set it to end: what has been read is still embedded and written.

        Returns
        -------
        StreamSummary
            Also in ``self.summary``, up to date while the stream runs and after an exception.

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
        if max_records is not None:
            check_whole("max_records", max_records, 0)
        taken = [as_sink(sink) for sink in sinks]
        if self.bad_records == "quarantine" and not any(sink.takes_rejected for sink in taken):
            raise InvalidInputError(
                Named("bad_records", "quarantine"),
                " needs a sink that keeps rejected records, such as QuarantineFile",
            )
        reader = Reader(*self._opened(source), max_records)
        self.summary = StreamSummary()
        Run(self, reader, taken, checkpoint, checkpoint_every, stop).carry_out()
        return self.summary

    def _opened(self, source: Any) -> tuple[Source, Gathering]:
        taken = as_source(source, self._facts)
        # Memory stays bounded with large frames too.
        width = self.model.n_features_in_ if self.windows is not None else self._facts.get("n_features") or 1
        most = max(1, min(self.max_batch, BATCH_BYTES // (8 * width)))
        return taken, Gathering(
            taken.name, most, max_delay=self.max_delay, stall_after=self.stall_after, on_stall=self.on_stall
        )
