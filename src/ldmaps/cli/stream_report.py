"""What ``ldmaps stream`` shows: a line while it runs, and a summary."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from typing import Any

from ldmaps.cli.session import complain, say, write_json
from ldmaps.progress import Screen
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.sinks.base import Sink
from ldmaps.streaming.stream_embedder import StreamEmbedder
from ldmaps.streaming.summary import StreamSummary
from ldmaps.validation.outside_reasons import OutsideSample

#: Seconds between two drawings.
_REDRAW = 0.25
#: Most rejected records to say the reason of, and most beginnings and ends of alarms to tell.
_MOST_REASONS, _MOST_ALARMS = 3, 20


class Observer(Sink):
    """Watches a stream for the one who runs it: tells what happens, at once as it may go on for days, and ends it.

    ``outside`` counts the records that the map covers, ``happened`` is the event of --exit-on that set ``stop``.
    """

    name = "the messages"

    def __init__(self, arguments: argparse.Namespace, engine: StreamEmbedder) -> None:
        self._arguments, self._engine = arguments, engine
        self._rejections = self._alarms = 0
        self._screen = Screen(sys.stderr) if sys.stderr.isatty() and not arguments.quiet else None
        self._drawn = 0.0
        self.outside = OutsideSample()
        self.happened: str | None = None
        self.stop = threading.Event()

    def write(self, embedded: Embedded) -> None:
        """Look at records."""
        self.outside.add(embedded.points, embedded.coverage.inside)
        for event in embedded.events:
            name = f"{event.kind}:{event.region}"
            if name in self._arguments.exit_on and self.happened is None:
                self.happened = f"{name} at record {event.number}"
                self.stop.set()
        if self._screen is not None and time.monotonic() - self._drawn >= _REDRAW:
            self._screen.show(_line(self._engine.summary))
            self._drawn = time.monotonic()
        if not self._arguments.quiet:
            if self._engine.bad_records != "raise":
                self._tell_rejections(embedded)
            self._tell_alarms(embedded)

    def close(self) -> None:
        """Clear the line."""
        if self._screen is not None and self._drawn:
            self._screen.end()

    def _tell_rejections(self, embedded: Embedded) -> None:
        for one in embedded.rejected[: _MOST_REASONS - self._rejections]:
            self._rejections += 1
            received = f" (received {one.raw[:80]!r})" if one.raw else ""
            complain(f"record {one.number} is rejected: {one.reason}{received}")
            if self._rejections == _MOST_REASONS:
                complain(f"further rejected records are only counted; {self._where('quarantine')}")

    def _tell_alarms(self, embedded: Embedded) -> None:
        alarms = [event for event in embedded.events if event.began is not None and event.kind != "dwell"]
        for event in alarms[: _MOST_ALARMS + 1 - self._alarms]:
            self._alarms += 1
            is_told = self._alarms <= _MOST_ALARMS
            complain(str(event) if is_told else f"further alarms are only counted; {self._where('events')}")

    def _where(self, option: str) -> str:
        path = getattr(self._arguments, option)
        return f"see {path}" if path else f"--{option} FILE keeps them with their reasons"

    def report(self) -> None:
        """Say what became of the stream, on stderr or as JSON."""
        arguments, engine = self._arguments, self._engine
        if arguments.json:
            uses_stdout = "-" in (arguments.output, arguments.events, arguments.quarantine)
            facts = {**engine.summary.as_dict(), "exit_on": self.happened}
            write_json(facts, sys.stderr if uses_stdout else None)
            return
        say(arguments, as_text(engine.summary))
        if engine.tracker is not None and engine.model.embedder_.calibration is None:
            say(
                arguments,
                "  alarms are records outside the map, at an unknown rate: the map is not calibrated",
            )
        if self.happened is not None:
            say(arguments, f"  ended by {self.happened}")


def as_text(summary: StreamSummary) -> str:
    """Lay the summary out for reading."""
    events = ", ".join(f"{name} {count}" for name, count in sorted(summary.events.items()))
    lines: list[Any] = [
        summary.resumed_from and f"  {summary.resumed_from:,} of the records in earlier runs",
        events and f"  events: {events}",
        summary.stalls and f"  stalls: {summary.stalls}",
    ]
    return "\n".join([_line(summary), *filter(None, lines)])


def _line(summary: StreamSummary) -> str:
    latency = summary.latency
    parts = [f"{summary.records:,} records", f"{summary.rate:,.0f}/s"]
    if latency.count:
        parts.append(f"latency {_time(latency.percentile(50))}, p99 {_time(latency.percentile(99))}")
    if summary.records:
        parts.append(f"{100 * summary.inside_share:.1f} % inside")
    if summary.rejected:
        missing = f" ({summary.missing:,} with missing values)" if summary.missing else ""
        parts.append(f"{summary.rejected:,} rejected{missing}")
    return "  ".join(parts)


def _time(seconds: float) -> str:
    """Write a short duration.

    >>> _time(0.00042), _time(0.0312), _time(2.5)
    ('420 µs', '31.2 ms', '2.5 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
