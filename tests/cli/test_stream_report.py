"""What ldmaps stream shows on a terminal while it runs, and what is left of it."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ldmaps.cli import stream_report
from ldmaps.cli.stream_report import Observer, as_text
from ldmaps.streaming.records import Rejected
from ldmaps.streaming.summary import StreamSummary


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(stream_report, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def summary(records, **counts):
    return StreamSummary(records=records, seconds=2.0, **counts)


def shown(screen):
    """What a terminal shows where every carriage return begins the line again."""
    line = ""
    for text in screen.getvalue().split("\r"):
        line = text + line[len(text) :]
    return line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def observer(engine, quarantine=None):
    options = SimpleNamespace(quiet=False, exit_on=[], quarantine=quarantine, events=None)
    return Observer(options, SimpleNamespace(bad_records="count", **engine))


def batch(rejected=()):
    coverage = SimpleNamespace(inside=np.empty(0, dtype=bool))
    return SimpleNamespace(points=np.empty((0, 2)), coverage=coverage, events=[], rejected=rejected)


def test_a_line_is_drawn_over_the_last_one_not_too_often_and_cleared(clock, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    display = observer({"summary": summary(1_234_567, inside=1_234_567, rejected=12)})
    display.write(batch())
    assert shown(screen) == "1,234,567 records  617,284/s  100.0 % inside  12 rejected"
    display._engine.summary = summary(10, inside=5)
    display.write(batch())
    assert shown(screen).startswith("1,234,567 records")
    clock.seconds += 0.3
    display.write(batch())
    # The shorter line covers all of the longer one.
    assert shown(screen).rstrip() == "10 records  5/s  50.0 % inside"
    display.close()
    assert shown(screen).strip() == ""


def test_nothing_drawn_is_nothing_to_clear(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    observer({"summary": summary(0)}).close()
    assert screen.getvalue() == ""


def test_only_a_terminal_gets_a_line(clock, capsys):
    observer({"summary": summary(4, inside=4)}).write(batch())
    assert capsys.readouterr() == ("", "")


def test_the_summary_names_earlier_runs_events_and_stalls():
    one = summary(30, inside=30, resumed_from=10, stalls=2)
    one.events.update({"leave:A": 1, "enter:A": 3})
    one.latency.add_one(0.002)
    assert as_text(one).splitlines() == [
        f"30 records  10/s  latency {stream_report._time(one.latency.percentile(50))}, "
        f"p99 {stream_report._time(one.latency.percentile(99))}  100.0 % inside",
        "  10 of the records in earlier runs",
        "  events: enter:A 3, leave:A 1",
        "  stalls: 2",
    ]


@pytest.mark.parametrize(
    ("kept_in", "where"),
    [(None, "--quarantine FILE keeps them with their reasons"), ("bad.ndjson", "see bad.ndjson")],
)
def test_the_first_rejected_records_are_explained_and_the_others_counted(kept_in, where, capsys):
    sink = observer({}, kept_in)
    for first in (0, 2, 4):
        rejected = [
            Rejected(number, "not a number", "x" * 200 if number else "") for number in (first, first + 1)
        ]
        sink.write(batch(rejected))
    assert capsys.readouterr().err.splitlines() == [
        "ldmaps: record 0 is rejected: not a number",
        *(f"ldmaps: record {n} is rejected: not a number (received {80 * 'x'!r})" for n in (1, 2)),
        f"ldmaps: further rejected records are only counted; {where}",
    ]
