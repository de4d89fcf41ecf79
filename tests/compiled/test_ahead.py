"""A companion process compiles loops from the other end of the list; nothing depends on it."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from ldmaps import compiled
from ldmaps.compiled import ahead, jit, on_disk

JUDGE = "blocks.judge(float64[::1], int64[::1], float64[::1], float64, float64, float64[::1], boolean[::1],)"
NEAREST = "blocks.nearest_in_rows(float64[:, ::1], int64[::1], float64[::1],)"
SUMS = "rows.distance_sums(float64[:, ::1], float64[::1], float64[::1],)"

#: A companion that answers each loop after a while, and compiles nothing.
SLOW = "import sys, time\nfor line in sys.stdin:\n    time.sleep({seconds})\n    print(flush=True)\n"

#: Compiles one loop itself, waits until the companion has compiled the other two, and calls one of those.
PROGRAM = f"""
import json, sys, time
import numpy as np
from ldmaps import compiled
from ldmaps.compiled import ahead, jit, on_disk

with ahead.sharing(2):
    ahead.expect([{NEAREST!r}, {SUMS!r}, {JUDGE!r}])
    index, lowest, sums = np.empty(1, np.intp), np.empty(1), np.empty(1)
    compiled.blocks.nearest_in_rows(np.array([[3.0, 1.0, 2.0]]), index, lowest)
    companion = ahead._active
    until = time.monotonic() + 120
    while len(companion._done) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    compiled.rows.distance_sums(np.array([[4.0, 9.0]]), np.ones(2), sums)
    done = sorted(loop.name for loop in companion._done)
loops = compiled.blocks.nearest_in_rows, compiled.rows.distance_sums
counts = [[sum(loop.stats.cache_hits.values()), sum(loop.stats.cache_misses.values())] for loop in loops]
print(json.dumps([done, counts, sums[0], companion._process.returncode]))
"""


@pytest.fixture
def shared(monkeypatch):
    """A function that shares with a companion of a given program, and expects three loops."""

    def share(program, **settings):
        monkeypatch.setattr(ahead, "_PROGRAM", program)
        for name, value in settings.items():
            monkeypatch.setattr(ahead, name, value)
        return ahead.sharing(2)

    return share


def takes(text):
    loop = ahead._Loop.parse(text)
    return ahead.is_compiled_elsewhere(loop.name, loop.types)


def wait_until(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_the_companion_compiles_is_read_from_disk(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    names, counts, sums, status = json.loads(done.stdout)
    assert names == ["blocks.judge", "rows.distance_sums"]
    assert counts == [[0, 1], [1, 0]]  # hits and misses: compiled here, and read
    assert sums == 5.0
    assert status == 0  # it had nothing to do any more, and ended by itself
    assert not list(tmp_path.rglob("*.tmp*"))


def test_loops_are_handed_out_from_the_back_and_those_begun_here_are_not(shared):
    with shared(SLOW.format(seconds=0.05)):
        ahead.expect([NEAREST, SUMS, JUDGE])
        assert not takes(NEAREST)  # the first one is ours, and starts the companion
        companion = ahead._active
        wait_until(lambda: companion._done and not companion._left and companion._current is None)
        assert {loop.name for loop in companion._done} == {"blocks.judge", "rows.distance_sums"}
        assert takes(JUDGE)
        assert not takes("blocks.gaussian(float64[:, ::1], float64,)")  # never expected


def test_the_loop_that_the_companion_is_at_is_waited_for_and_that_is_announced(shared, monkeypatch):
    told = []
    monkeypatch.setattr(compiled, "listeners", [told.append])
    with shared(SLOW.format(seconds=0.5)):
        ahead.expect([NEAREST, JUDGE])
        takes(NEAREST)
        companion = ahead._active
        wait_until(lambda: companion._current is not None)
        assert companion._current.name == "blocks.judge"
        assert takes(JUDGE)
    assert told == [True, False]


def test_loops_named_after_the_companion_has_started_are_handed_out(shared):
    with shared(SLOW.format(seconds=0.0)):
        assert not takes(NEAREST)
        ahead.expect([SUMS])
        companion = ahead._active
        wait_until(lambda: companion._done)
        assert takes(SUMS)


@pytest.mark.parametrize("program", ["raise SystemExit(1)", "import sys; sys.stdin.readline()", "("])
def test_a_companion_that_ends_leaves_all_loops_to_us(shared, program):
    with shared(program):
        ahead.expect([NEAREST, SUMS, JUDGE])
        assert not takes(NEAREST)
        wait_until(lambda: ahead._active._ended)
        assert not takes(SUMS)
        assert not takes(JUDGE)


def test_a_companion_that_does_not_answer_is_not_waited_for_forever(shared):
    with shared(SLOW.format(seconds=600), PATIENCE=0.2):
        ahead.expect([NEAREST, JUDGE])
        takes(NEAREST)
        wait_until(lambda: ahead._active._current is not None)
        begin = time.monotonic()
        assert not takes(JUDGE)
        assert time.monotonic() - begin < 5
        process = ahead._active._process
    assert process.returncode is not None  # ended at the latest with the fit


def test_a_companion_ends_with_an_error_too(shared):
    with pytest.raises(ZeroDivisionError), shared(SLOW.format(seconds=600)):  # noqa: PT012
        ahead.expect([JUDGE])
        takes(NEAREST)
        process, thread = ahead._active._process, ahead._active._thread
        wait_until(lambda: ahead._active._current is not None)
        raise ZeroDivisionError
    assert process.returncode is not None
    assert not thread.is_alive()
    assert ahead._active is None


def test_without_an_interpreter_to_start_loops_are_compiled_here(shared, monkeypatch):
    monkeypatch.setattr(sys, "executable", os.path.join(os.path.dirname(__file__), "python-that-is-not"))
    with shared(SLOW):
        ahead.expect([NEAREST, JUDGE])
        assert not takes(NEAREST)
        assert not takes(JUDGE)


def never(*_, **__):
    raise AssertionError("a process was started")


@pytest.mark.parametrize("reason", ["one process", "frozen", "embedded", "nothing to compile"])
def test_no_process_is_started(reason, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", never)
    if reason == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    if reason == "embedded":
        monkeypatch.setattr(sys, "executable", "/usr/bin/blender")
    with ahead.sharing(1 if reason == "one process" else 2):
        ahead.expect([NEAREST])
        if reason != "nothing to compile":
            assert not takes(NEAREST)


def test_fits_within_and_beside_a_fit_share_its_companion(shared):
    with shared(SLOW.format(seconds=0)):
        companion = ahead._active
        assert companion is not None
        seen = []

        def beside():
            with ahead.sharing(2):
                seen.append(ahead._active)

        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        with ahead.sharing(2):
            assert ahead._active is companion
        assert seen == [companion]
        assert ahead._active is companion
    assert ahead._active is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking beside threads: the very case
def test_a_forked_child_has_no_companion(shared):
    with shared(SLOW.format(seconds=0)):
        takes(NEAREST)
        child = os.fork()
        if not child:
            os._exit(0 if ahead._active is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert ahead._active is not None


def test_a_loop_that_the_companion_has_just_compiled_is_read(shared, monkeypatch, tmp_path):
    """Between the first look at the disk and the companion's answer the code has come."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    jit.compiled(add_one)(1)
    late = jit.compiled(add_one)
    load, looks = late._cache._cache_file.load, []

    def look(key):
        looks.append(key)
        return load(key) if len(looks) > 1 else None

    monkeypatch.setattr(late._cache._cache_file, "load", look)
    monkeypatch.setattr(on_disk, "is_compiled_elsewhere", lambda name, types: True)
    assert late(1) == 2
    assert sum(late.stats.cache_misses.values()) == 0
    assert len(looks) == 2


def add_one(x):
    return x + 1
