"""Progress: a bar on a terminal, log lines elsewhere when asked, silence otherwise."""

from __future__ import annotations

import argparse
import io
import logging
import re
import sys
import warnings

import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits
from ldmaps.cli import session
from ldmaps.datasets import swiss_roll
from ldmaps.fit import fit_map
from ldmaps.progress import Progress, Screen, reporting, stage, tick, work


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr("ldmaps.progress.time.monotonic", lambda: self.now)


def test_a_terminal_gets_a_bar_with_rate_and_eta(monkeypatch):
    screen = Terminal()
    clock = Clock(monkeypatch)
    with Progress(stream=screen).stage("embedding", 1000, "frames", ticked=True) as shown:
        tick(100)
        clock.now += 4.0
        tick(400)
        line = shown.line()
    assert "50 %" in line
    assert "500 frames" in line
    assert "ETA 0:05" in line
    assert screen.getvalue().startswith("\rembedding")
    assert screen.getvalue().endswith("\r")


def test_a_summary_stays_where_the_bar_was():
    terminal = Terminal()
    screen = Screen(terminal)
    screen.show("half of it is done")
    screen.end("all of it")
    assert terminal.getvalue().endswith(" \rall of it\n")


class Displayed:
    """What a cell of a notebook shows."""

    def __init__(self):
        self.shown = []

    def display(self, both, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(both)
        return self

    def update(self, both, *, raw):
        self.shown[-1] = both


def test_a_notebook_gets_one_bar_per_stage_and_keeps_what_was_done(monkeypatch, capsys):
    cell = Displayed()
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    monkeypatch.setitem(sys.modules, "IPython", object())
    monkeypatch.setitem(sys.modules, "IPython.display", cell)
    clock = Clock(monkeypatch)
    reporter = Progress(True)
    with reporter.stage("a < b", 1000, "rows") as shown:
        assert "<progress" in cell.shown[0]["text/html"]
        clock.now += 1.0
        shown.advance(250)
        assert 'value="0.2500"' in cell.shown[0]["text/html"]
        assert "a &lt; b" in cell.shown[0]["text/html"]
    assert "a &lt; b: 250 rows in 1.0 s" in cell.shown[0]["text/html"]
    with reporter.stage("search"):
        assert "value" not in cell.shown[1]["text/html"]  # no total: a bar that only shows that work goes on
    assert len(cell.shown) == 2
    assert capsys.readouterr() == ("", "")
    Progress(None)  # not asked for: a notebook stays quiet
    assert not Progress(None).visible


def test_nothing_is_shown_elsewhere_or_when_unwanted(capsys):
    with (
        Progress().stage("reading") as own,
        Progress(False, Terminal()).stage("embedding", ticked=True) as ticked,
    ):
        tick(3)
    assert (own.done, ticked.done) == (0, 3)
    assert capsys.readouterr() == ("", "")


def test_verbose_elsewhere_logs_a_line(caplog):
    reporter = Progress(True, io.StringIO())
    with caplog.at_level(logging.INFO, "ldmaps"), reporting(reporter), stage("choosing", unit="rows"):
        tick(10)
    assert "choosing: 10 rows in" in caplog.text


def test_tick_without_a_stage_is_harmless():
    tick(1)


def test_verbose_fits_log_their_stages_and_others_are_silent(caplog, capsys):
    points = swiss_roll(400, random_state=0).points
    with caplog.at_level(logging.INFO, "ldmaps"):
        for estimator in (DiffusionMap, LandmarkDiffusionMap):
            estimator(2, 9.0).fit(points)
        assert caplog.text == ""
        LandmarkDiffusionMap(2, verbose=True).fit(points)
        for name in ("bandwidth: ", "landmarks: ", "embedding: "):
            assert name in caplog.text
        DiffusionMap(2, 9.0, verbose=True).fit(points)
        assert "distances: 400 rows in" in caplog.text
    assert capsys.readouterr().out == ""


def test_an_eta_waits_for_what_it_can_be_told_from(monkeypatch):
    clock = Clock(monkeypatch)
    with Progress(stream=Terminal()).stage("bandwidth", 10_000, ticked=True) as shown:
        clock.now += 60.0  # whatever comes before the first items
        tick(1)
        assert shown.remaining is None
        clock.now += 0.5
        tick(5)
        assert shown.remaining is None
        clock.now += 1.5
        tick(994)
        assert shown.remaining == pytest.approx(9000 * 2.0 / 999)
        tick(9000)
        assert "ETA 0:00" in shown.line()


def test_a_log_counts_no_more_points_than_there_are_and_no_loops_within_a_stage(caplog):
    reporter = Progress(True, io.StringIO())
    with caplog.at_level(logging.INFO, "ldmaps"), reporting(reporter):
        with stage("bandwidth", 100):
            tick(250)
        with stage("search", unit=""), stage("landmarks", unit=""):
            tick(7_000)
    assert caplog.records[0].message.partition(" in ")[0] == "bandwidth: 100 points"
    assert len(caplog.records) == 2
    assert caplog.records[1].message.startswith("search: 0.0 s")


def test_a_log_hears_of_a_long_stage_before_its_end(caplog, monkeypatch):
    clock = Clock(monkeypatch)
    reporter = Progress(True, io.StringIO())
    with caplog.at_level(logging.INFO, "ldmaps"), reporting(reporter), stage("search", unit=""):
        for _ in range(10):
            clock.now += 9.0
            with stage("landmarks", 100, "points"):
                tick(50)
    said = [record.message for record in caplog.records]
    assert said[0].startswith("search: 36 s so far (landmarks)   50 %  50 points")
    assert [text.split()[1] for text in said] == ["36", "72", "90.0"]


def test_long_times_are_written_as_clocks(monkeypatch):
    clock = Clock(monkeypatch)
    with Progress(stream=Terminal()).stage("fit", 2, ticked=True) as shown:
        for seconds, said in ((75.0, "ETA 1:15"), (3700.0, "ETA 1:01:40")):
            shown.done, shown._first = 1, (clock.now, 0)
            clock.now += seconds
            assert said in shown.line()
            assert shown.line().count("█") == 12


def test_a_stage_that_is_repeated_in_no_time_gets_one_line(caplog, monkeypatch):
    clock = Clock(monkeypatch)
    with caplog.at_level(logging.INFO, "ldmaps"), reporting(Progress(True, io.StringIO())):
        for seconds in (0.0, 0.5, 0.0, 2.0, 0.0):
            for name in ("bandwidth", "landmarks"):
                with stage(name, unit=""):
                    clock.now += seconds
    said = [record.message for record in caplog.records]
    assert said == ["bandwidth: 0.0 s", "landmarks: 0.0 s", "bandwidth: 2.0 s", "landmarks: 2.0 s"]


def test_a_whole_fit_is_one_bar_that_never_goes_back(monkeypatch):
    screen, clock = Terminal(), Clock(monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    shares = []

    def look(shown):
        shares.append(float(re.search(r"(\d+) %", shown.line())[1]))
        return shown.line()

    expected = {"distances": 10.0, "landmarks": 10.0, "reference map": 60.0, "search": 20.0}
    with reporting(Progress(stream=screen)), work("fit", expected):
        with stage("distances", 100) as shown:
            clock.now += 10.0
            tick(50)
            assert look(shown).startswith("fit  ")
            assert shares == [5]
            clock.now += 10.0
        with stage("reference map", unit="") as outer:  # landmarks are left out, and count as done
            assert look(outer).endswith("reference map")
            assert shares[-1] == 20
            for number in range(1, 4):
                with stage(f"pass {number} of at most 9", 4, "bands") as inner:
                    clock.now += 30.0
                    tick(2)
                    assert look(inner).endswith(f"pass {number} of at most 9 50 %")
        # The first stage took twice as long as expected, so this one, of unknown length, should take 120 s.
        assert shares[-3:] == [35, 50, 65]
        with stage("distances", 100) as again:  # for another ε
            assert look(again).count("ETA") == 1
        with stage("search") as last:
            assert shares[-1] == 80
            clock.now += 1000.0
            look(last)
    assert shares == sorted(shares)
    assert shares[-1] == 99
    assert screen.getvalue().endswith("\r")
    lines = {line.strip() for line in screen.getvalue().split("\r") if line.strip()}
    assert all(line.startswith("fit  ") for line in lines)


def test_a_warning_stands_on_a_line_of_its_own(capsys):
    def warn(_):
        warnings.simplefilter("always")
        warnings.warn("too few", stacklevel=1)

    screen = Terminal()
    with reporting(Progress(stream=screen)), work("fit", {"search": 1.0}), stage("search", 2):
        tick(1)
        session.guarded(warn, argparse.Namespace())
        drawn = screen.getvalue()
    assert drawn.rpartition("\r")[2] == ""
    assert drawn.split("\r")[-2].strip() == ""
    assert capsys.readouterr().err == "ldmaps: warning: too few\n"


def test_a_log_says_how_far_the_whole_is(caplog, monkeypatch):
    clock = Clock(monkeypatch)
    reporter = Progress(True, io.StringIO())
    with (
        caplog.at_level(logging.INFO, "ldmaps"),
        reporting(reporter),
        work("fit", {"distances": 30.0, "search": 70.0}),
    ):
        with stage("distances", 100):
            clock.now += 30.0
        with stage("search", unit=""), stage("landmarks", 100):
            clock.now += 35.0
            tick(50)
    assert "search: 35 s so far (landmarks)   50 %  50 points  1.4/s; fit: 65 %  ETA 0:35" in [
        record.message for record in caplog.records
    ]


def test_a_line_that_is_drawn_over_is_no_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    screen = Terminal()
    with reporting(Progress(stream=screen)), stage("a name that is far too long for this", 10):
        tick(5)
    assert max(len(line) for line in screen.getvalue().split("\r")) == 39


@pytest.mark.parametrize(
    ("settings", "n_points"),
    [
        ({}, 600),
        ({"n_landmarks": 20, "extension": "distilled"}, 300),
        ({"tolerance": 8.0}, 1200),
        ({"tolerance": 8.0, "limits": Limits(memory=2e6)}, 1200),
    ],
)
def test_forecasts_name_the_stages_of_a_fit_in_their_order(caplog, settings, n_points):
    points = swiss_roll(n_points, random_state=0).points
    forecasts, told = [], fit_map.expected_seconds
    with caplog.at_level(logging.INFO, "ldmaps"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            fit_map, "expected_seconds", lambda *them: forecasts.append(told(*them)) or forecasts[0]
        )
        LandmarkDiffusionMap(verbose=True, random_state=0, **settings).fit(points)
    stages = [record.message.partition(":")[0] for record in caplog.records]
    assert "fit" not in stages
    came = [name for name in stages if name in forecasts[0]]
    assert came == [name for name in forecasts[0] if name in came]
    assert set(stages) - set(came) <= {
        "landmarks",
        "start of the passes",
        "error of the reference",
        "near pairs",
    }
    # What is forecast and does not come is next to nothing: else the bar would jump.
    left_out = sum(seconds for name, seconds in forecasts[0].items() if name not in came)
    assert left_out <= 0.1 * sum(forecasts[0].values())
