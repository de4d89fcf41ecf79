"""What ldmaps stream shows on a terminal while it runs, and what is left of it."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from ldmaps.cli import stream_report
from ldmaps.cli.stream_report import Display, Rejections, as_text
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


def test_a_line_is_drawn_over_the_last_one_not_too_often_and_cleared(clock):
    screen = io.StringIO()
    engine = SimpleNamespace(summary=summary(1_234_567, inside=1_234_567, rejected=12))
    display = Display(engine, screen)
    display.write(None)
    assert shown(screen) == "1,234,567 records  617,284/s  100.0 % inside  12 rejected"
    engine.summary = summary(10, inside=5)
    display.write(None)
    assert shown(screen).startswith("1,234,567 records")
    clock.seconds += 0.3
    display.write(None)
    # The shorter line covers all of the longer one.
    assert shown(screen).rstrip() == "10 records  5/s  50.0 % inside"
    display.close()
    assert shown(screen).strip() == ""


def test_nothing_drawn_is_nothing_to_clear(capsys):
    Display(SimpleNamespace(summary=summary(0))).close()
    assert capsys.readouterr() == ("", "")


def test_the_terminal_is_stderr_by_default(clock, capsys):
    Display(SimpleNamespace(summary=summary(4, inside=4))).write(None)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "\r4 records  2/s  100.0 % inside"


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
    sink = Rejections(kept_in)
    for first in (0, 2, 4):
        rejected = [
            Rejected(number, "not a number", "x" * 200 if number else "") for number in (first, first + 1)
        ]
        sink.write(SimpleNamespace(rejected=rejected))
    assert capsys.readouterr().err.splitlines() == [
        "ldmaps: record 0 is rejected: not a number",
        *(f"ldmaps: record {n} is rejected: not a number (received {80 * 'x'!r})" for n in (1, 2)),
        f"ldmaps: further rejected records are only counted; {where}",
    ]
