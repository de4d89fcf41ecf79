"""What ``ldmaps stream`` shows: a line while it runs, and a summary."""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO

from ldmaps.cli.session import complain
from ldmaps.maps.outside_reasons import OutsideSample
from ldmaps.progress import Screen
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.sinks.base import Sink
from ldmaps.streaming.stream_embedder import StreamEmbedder
from ldmaps.streaming.summary import StreamSummary

#: Seconds between two drawings.
_REDRAW = 0.25
#: Most rejected records to say the reason of.
_MOST_REASONS = 3
#: Most beginnings and ends of alarms to tell.
_MOST_ALARMS = 20


class Display(Sink):
    """Rate, latency and coverage, on a terminal."""

    name = "the terminal"

    def __init__(self, engine: StreamEmbedder, stream: TextIO | None = None) -> None:
        self._engine = engine
        self._screen = Screen(sys.stderr if stream is None else stream)
        self._drawn = 0.0

    def write(self, embedded: Embedded) -> None:
        """Draw, if it is time."""
        now = time.monotonic()
        if now - self._drawn >= _REDRAW:
            self._screen.show(_line(self._engine.summary))
            self._drawn = now

    def close(self) -> None:
        """Clear the line."""
        if self._drawn:
            self._screen.end()


class Rejections(Sink):
    """Says why the first records that cannot be embedded cannot be."""

    name = "the messages about rejected records"

    def __init__(self, kept_in: str | None) -> None:
        self._kept_in = kept_in
        self._count = 0

    def write(self, embedded: Embedded) -> None:
        """Say it at once: a stream may go on for days."""
        for one in embedded.rejected:
            self._count += 1
            if self._count > _MOST_REASONS:
                return
            received = f" (received {one.raw[:80]!r})" if one.raw else ""
            complain(f"record {one.number} is rejected: {one.reason}{received}")
            if self._count == _MOST_REASONS:
                where = (
                    f"see {self._kept_in}"
                    if self._kept_in
                    else "--quarantine FILE keeps them with their reasons"
                )
                complain(f"further rejected records are only counted; {where}")


class Alarms(Sink):
    """Says when alarms begin and end, and why."""

    name = "the messages about alarms"

    def __init__(self, kept_in: str | None) -> None:
        self._kept_in = kept_in
        self._count = 0

    def write(self, embedded: Embedded) -> None:
        """Say it at once: a stream may go on for days."""
        for event in embedded.events:
            if event.began is None or event.kind == "dwell" or self._count > _MOST_ALARMS:
                continue
            self._count += 1
            complain(
                str(event)
                if self._count <= _MOST_ALARMS
                else f"further alarms are only counted; "
                f"{f'see {self._kept_in}' if self._kept_in else '--events FILE keeps them with their reasons'}"
            )


class Outside(Sink):
    """Watches how many records the map covers."""

    name = "the sample of records outside the map"

    def __init__(self) -> None:
        self.sample = OutsideSample()

    def write(self, embedded: Embedded) -> None:
        """Count the records."""
        self.sample.add(embedded.points, embedded.coverage.inside)


class ExitOn(Sink):
    """Ends the stream when one of some events happens."""

    name = "--exit-on"

    def __init__(self, wanted: list[str], stop: threading.Event) -> None:
        self._wanted = frozenset(wanted)
        self._stop = stop
        self.happened: str | None = None

    def write(self, embedded: Embedded) -> None:
        """Look at the events."""
        for event in embedded.events:
            name = f"{event.kind}:{event.region}"
            if name in self._wanted and self.happened is None:
                self.happened = f"{name} at record {event.number}"
                self._stop.set()


def as_text(summary: StreamSummary) -> str:
    """Lay the summary out for reading."""
    lines = [_line(summary)]
    if summary.resumed_from:
        lines.append(f"  {summary.resumed_from:,} of the records in earlier runs")
    if summary.events:
        lines.append(
            "  events: " + ", ".join(f"{name} {count}" for name, count in sorted(summary.events.items()))
        )
    if summary.stalls:
        lines.append(f"  stalls: {summary.stalls}")
    return "\n".join(lines)


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
