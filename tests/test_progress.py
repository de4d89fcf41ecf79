"""Progress: a bar on a terminal, log lines elsewhere when asked, silence otherwise."""

from __future__ import annotations

import io
import logging

import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.progress import Progress, reporting, stage, tick


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
