"""Commands that are interrupted or terminated end, and with the status that ``ldmaps --help`` lists."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ldmaps.cli import session
from ldmaps.datasets import swiss_roll
from tools import signals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
#: Seconds until a command must have ended, on the busiest machine.
LIMIT = 300


@pytest.mark.slow
def test_signals_at_random_moments():
    """``make signals`` sends more of them; so does LDMAPS_SIGNALS=300."""
    assert signals.main(["--signals", os.environ.get("LDMAPS_SIGNALS", "24")]) == 0


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, session._Terminated), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_that_python_drops_is_sent_again(monkeypatch, number, error):
    """An exception in a finaliser goes no further; imports run one for every module."""
    monkeypatch.setattr(session, "_REMINDED_AFTER", 0.2)

    class Finalised:
        def __del__(self):
            signal.raise_signal(number)

    def drop_one_and_wait():
        with session._terminated_like_interrupted():
            Finalised()
            deadline = time.monotonic() + LIMIT
            while time.monotonic() < deadline:
                time.sleep(0.01)

    with pytest.raises(error):
        drop_one_and_wait()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_another_error_was_made_of_keeps_its_status(number, status):
    """As in C code that imports a module, where nothing names the cause."""

    def run(_):
        with contextlib.suppress(BaseException):
            signal.raise_signal(number)
        raise ImportError("could not import module")

    assert session.guarded(run, argparse.Namespace()) == status


def test_an_error_that_has_a_message_for_the_user_is_kept(capsys):
    def run(_):
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        raise OSError("no space is left")

    assert session.guarded(run, argparse.Namespace()) == 1
    assert "no space is left" in capsys.readouterr().err


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert session.guarded(lambda _: 0, argparse.Namespace()) == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_signal_that_other_code_catches_is_sent_again_but_cleaning_up_is_not_interrupted(monkeypatch):
    """It wakes the command from a system call that waits, such as reading a pipe that stays open."""
    monkeypatch.setattr(session, "_REMINDED_AFTER", 0.2)
    seen = []
    reading, writing = os.pipe()

    def give_up():
        seen.append("nothing woke it")
        os.write(writing, b".")

    patience = threading.Timer(LIMIT, give_up)

    def catch_one_and_wait():
        with session._terminated_like_interrupted():
            try:
                with contextlib.suppress(BaseException):
                    signal.raise_signal(signal.SIGTERM)
                os.read(reading, 1)
            finally:
                seen.append("cleaning up")
                time.sleep(2.5 * session._REMINDED_AFTER)
                seen.append("clean")

    patience.start()
    try:
        with pytest.raises(session._Terminated):
            catch_one_and_wait()
    finally:
        patience.cancel()
        patience.join()
        os.close(reading)
        os.close(writing)
    assert seen == ["cleaning up", "clean"]


def test_other_errors_in_finalisers_are_reported():
    class Finalised:
        def __del__(self):
            raise ValueError("in a finaliser")

    before, seen = sys.unraisablehook, []
    sys.unraisablehook = seen.append
    try:
        with session._terminated_like_interrupted():
            Finalised()
        assert sys.unraisablehook == seen.append
    finally:
        sys.unraisablehook = before
    (report,) = seen
    assert str(report.exc_value) == "in a finaliser"


# A pool notes its thread only when that has started, so this one is never told to stop.
SIGNAL_WHILE_A_POOL_STARTS = """
import runpy, signal, sys, threading
start = threading.Thread.start
def start_and_signal(thread):
    start(thread)
    if thread.name.startswith("ldmaps"):
        signal.raise_signal(signal.{0})
threading.Thread.start = start_and_signal
sys.argv[0] = "ldmaps"
runpy.run_module("ldmaps", run_name="__main__")
"""

FIT = "fit table.csv -m 30 --threads 2 -o map.ldm"


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_thread_that_nobody_stops_does_not_keep_the_command(tmp_path, name, status):
    rows = "\n".join(",".join(map(str, row)) for row in swiss_roll(600, random_state=0).points)
    (tmp_path / "table.csv").write_text(rows)
    done = subprocess.run(
        [sys.executable, "-c", SIGNAL_WHILE_A_POOL_STARTS.format(name), *FIT.split()],
        cwd=tmp_path,
        capture_output=True,
        timeout=LIMIT,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["table.csv"]
