"""One run of a stream into sinks: writing, committing, and ending in good order whatever happens, Ctrl-C included."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from ldmaps import door
from ldmaps.errors import CheckpointError, InvalidInputError, LdmapsError, SinkError, one_line
from ldmaps.files import check_distinct
from ldmaps.maps.model_digest import model_digest
from ldmaps.settings import check_seconds
from ldmaps.streaming.checkpoint import Checkpoint, damaged
from ldmaps.streaming.reading import Reader
from ldmaps.streaming.record_embedder import judged
from ldmaps.streaming.records import Position, Records
from ldmaps.streaming.sinks.base import Sink

if TYPE_CHECKING:
    from ldmaps.streaming.stream_embedder import StreamEmbedder


class Run:
    """One run, to be carried out once; settings are those of :meth:`StreamEmbedder.run`."""

    def __init__(
        self,
        engine: StreamEmbedder,
        reader: Reader,
        sinks: Sequence[Sink],
        checkpoint: str | os.PathLike[str] | None,
        checkpoint_every: float,
        stop: threading.Event | None,
    ) -> None:
        if checkpoint is not None and not reader.source.replayable:
            raise InvalidInputError(
                f"{reader.source.name} cannot be read again, so a checkpoint could not resume it; use a file, a "
                "growing file or a Redis stream, or leave the checkpoint out"
            )
        check_seconds("checkpoint_every", checkpoint_every)
        self._engine = engine
        self._reader = reader
        self._sinks = sinks
        self._summary = engine.summary
        self._checkpoint = None if checkpoint is None else Checkpoint(checkpoint)
        self._path = os.fspath(checkpoint or "")
        self._every = checkpoint_every
        self._stop = stop
        self._digest = "" if checkpoint is None else model_digest(engine.model)
        self._position: Position = None
        self._uncommitted = False
        self._committed = 0.0
        self._signals = _DeferredSignals(lambda: reader.blocked)
        reader.should_stop = self._should_stop

    def carry_out(self) -> None:
        """Do everything."""
        began = door.monotonic()
        try:
            with self._checkpoint or nullcontext(), ExitStack() as stack:
                for sink in self._sinks:
                    stack.callback(self._close, sink)
                self._engine.warm_up()
                marks = self._check_all()
                with nullcontext() if self._position is None else self._trusting_the_checkpoint():
                    self._reader.open(self._position)
                # Not before the source is open: some clients set handlers of their own.
                stack.enter_context(self._signals)
                stack.callback(self._reader.close)
                self._begin(marks)
                self._go()
        finally:
            self._summary.seconds = door.monotonic() - began
        self._signals.deliver()

    def _should_stop(self) -> bool:
        return self._signals.pending is not None or (self._stop is not None and self._stop.is_set())

    def _go(self) -> None:
        summary, reader, batches = self._summary, self._reader, self._reader.batches()
        stalls = summary.stalls
        while True:
            try:
                records = next(batches, _END)
            except BaseException as error:
                # The source is over, one way or the other; what it gave is dealt with.
                summary.stalls, summary.peak_queue = stalls + reader.gathering.stalls, reader.peak_queue
                self._commit()
                if not isinstance(error, Exception):
                    summary.ended = "stopped"
                raise
            summary.stalls, summary.peak_queue = stalls + reader.gathering.stalls, reader.peak_queue
            if records is _END:
                break
            if records is not None:
                self._pass_on(records)
            may_wait = self._checkpoint is None or not self._uncommitted
            if not may_wait and door.monotonic() - self._committed >= self._every:
                self._commit()
        self._commit()
        summary.ended = "stopped" if self._should_stop() else "limit" if reader.limit_reached else "end"

    def _pass_on(self, records: Records) -> None:
        engine = self._engine
        try:
            embedded, bad = judged(engine.embed(records), engine.bad_records, engine.missing)
        except BaseException:
            self._flush_all()  # the tracker may be ahead of the outputs, so the checkpoint stays where it is
            raise
        for sink in self._sinks:
            self._guarded(sink, sink.write, embedded)
        self._summary.read += len(records)
        self._summary.count(embedded)
        if bad is not None:
            # The source's position and the tracker are behind the bad record already: the records before it are
            # written, but the checkpoint stays where it is.
            self._flush_all()
            raise bad
        self._position = embedded.position
        self._uncommitted = True

    def _guarded(self, sink: Sink, action: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return action(*arguments)
        except Exception as error:
            self._flush_all(but=sink)
            if isinstance(error, SinkError):
                raise
            raise SinkError(f"{sink.name} failed ({type(error).__name__}: {error})") from error

    def _flush_all(self, but: Sink | None = None) -> None:
        for sink in self._sinks:
            if sink is not but:
                with suppress(Exception):  # another error is on its way already
                    sink.flush()

    def _check_all(self) -> list[Any] | None:
        """Go to where the checkpoint says, see that the outputs can too, and return their marks; change no file yet."""
        written = [name for sink in self._sinks for name in sink.paths]
        check_distinct(
            self._reader.source.paths,
            written if self._checkpoint is None else [*written, self._checkpoint.path],
        )
        saved = None if self._checkpoint is None else self._checkpoint.read()
        if saved is None:
            for sink in self._sinks:
                sink.check()
            return None
        with self._trusting_the_checkpoint():
            self._check(saved)
            marks = [entry["mark"] for entry in saved["sinks"]]
            for sink, mark in zip(self._durable(), marks, strict=True):
                sink.check(mark)
            if self._engine.tracker is not None:
                self._engine.tracker.restore(saved["tracker"])
            if self._engine.cutter is not None:
                self._engine.cutter.restore(saved["windows"])
            self._summary.restore(saved["counts"])
            self._reader.has_read(self._summary.read)
        self._position = saved["position"]
        return marks

    def _begin(self, marks: list[Any] | None) -> None:
        """Cut the outputs back to their marks, or begin them."""
        if marks is None:
            # An empty output counts as not there, so that a crash before this first checkpoint does no harm.
            self._commit(first=True)
            return
        with self._trusting_the_checkpoint():
            for sink, mark in zip(self._durable(), marks, strict=True):
                sink.rewind(mark)
        self._committed = door.monotonic()

    @contextmanager
    def _trusting_the_checkpoint(self) -> Iterator[None]:
        """Take entries of a checkpoint for what they should be; where one is not, the checkpoint is damaged."""
        try:
            yield
        except LdmapsError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise damaged(self._path, one_line(repr(error), 200)) from error

    def _check(self, saved: dict[str, Any]) -> None:
        """Raise unless the checkpoint belongs to this model, source and these outputs."""
        path = self._path
        if saved["model"] != self._digest:
            raise CheckpointError(
                f"the checkpoint {path} belongs to another model; resume with the model it was begun with, "
                "or start over with another checkpoint and another output"
            )
        if saved["source"] != self._reader.source.name:
            raise CheckpointError(
                f"the checkpoint {path} belongs to the source {saved['source']}, not to {self._reader.source.name}; "
                "resume with that one, or use another checkpoint and another output"
            )
        names, before = [sink.name for sink in self._durable()], [entry["name"] for entry in saved["sinks"]]
        if names != before:
            raise CheckpointError(
                f"the checkpoint {path} belongs to the outputs {', '.join(before) or '(none)'}, but "
                f"{', '.join(names) or 'none'} are given; resume with the same ones, or use another checkpoint"
            )
        if (saved["tracker"] is None) != (self._engine.tracker is None):
            raise CheckpointError(
                f"the checkpoint {path} was begun {'without' if saved['tracker'] is None else 'with'} regions; "
                "resume in the same way, or use another checkpoint and another output"
            )

    def _durable(self) -> list[Sink]:
        return [sink for sink in self._sinks if sink.durable]

    def _commit(self, first: bool = False) -> None:
        """Make everything written so far safe, then say so in the checkpoint."""
        if not (self._uncommitted or first):
            return
        marks = [(sink, self._guarded(sink, sink.flush)) for sink in self._sinks]
        if self._checkpoint is not None:
            tracker, cutter = self._engine.tracker, self._engine.cutter
            self._checkpoint.write(
                model=self._digest,
                source=self._reader.source.name,
                position=self._position,
                sinks=[{"name": sink.name, "mark": mark} for sink, mark in marks if sink.durable],
                tracker=None if tracker is None else tracker.state(),
                windows=None if cutter is None else cutter.state(),
                counts=self._summary.kept(),
            )
        self._uncommitted = False
        self._committed = door.monotonic()

    def _close(self, sink: Sink) -> None:
        try:
            sink.close()
        except Exception as error:
            raise SinkError(f"{sink.name} could not be closed ({type(error).__name__}: {error})") from error


_END: Any = object()


class _DeferredSignals:
    """Lets signals wait until the records under way are written; outside the main thread nothing is changed."""

    # The handlers that were there (which raise, as a rule) are called where that is harmless: while ``may_raise``
    # says so, or by ``deliver``. A second signal is never held back.

    def __init__(self, may_raise: Callable[[], bool]) -> None:
        self._may_raise = may_raise
        self._handlers: dict[int, Any] = {}
        self.pending: tuple[int, FrameType | None] | None = None  # the signal that waits

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = door.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    door.set_handler(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            if door.getsignal(number) == self._note:
                door.set_handler(number, handler)

    def deliver(self) -> None:
        """Call the handler that a signal was meant for."""
        if self.pending is not None:
            (number, frame), self.pending = self.pending, None
            self._handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending is not None or self._may_raise():
            self._handlers[number](number, frame)
        else:
            self.pending = number, frame
