import os
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from ldmaps.errors import InvalidInputError
from ldmaps.threads import resolve_threads


@pytest.mark.parametrize("value", [1, 3, 3.0, np.int64(3)])
def test_threads_as_asked(value, monkeypatch):
    monkeypatch.setenv("LDMAPS_NUM_THREADS", "7")
    threads = resolve_threads(value)
    assert threads == value
    assert type(threads) is int


def test_threads_from_the_environment_or_every_core(monkeypatch):
    monkeypatch.setenv("LDMAPS_NUM_THREADS", "7")
    assert resolve_threads(None) == 7
    for unset in (
        lambda: monkeypatch.setenv("LDMAPS_NUM_THREADS", ""),
        lambda: monkeypatch.delenv("LDMAPS_NUM_THREADS"),
    ):
        unset()
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
        assert resolve_threads(None) == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 11)
    assert resolve_threads(None) == 11
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert resolve_threads(None) == 1


@pytest.mark.parametrize("value", [0, -1, 1.5, True, False, float("nan"), float("inf"), "2", "two", [2]])
def test_threads_that_are_no_number(value):
    with pytest.raises(
        InvalidInputError, match="n_threads must be a whole number of at least 1, or None"
    ) as caught:
        resolve_threads(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("setting", ["two", "1.5", "2 3"])
def test_environment_that_is_no_number(setting, monkeypatch):
    monkeypatch.setenv("LDMAPS_NUM_THREADS", setting)
    with pytest.raises(
        InvalidInputError, match="environment variable LDMAPS_NUM_THREADS must be a whole number"
    ) as caught:
        resolve_threads(None)
    assert repr(setting) in str(caught.value)


@pytest.mark.parametrize("setting", ["0", "-2"])
def test_environment_below_one(setting, monkeypatch):
    monkeypatch.setenv("LDMAPS_NUM_THREADS", setting)
    with pytest.raises(InvalidInputError, match=f"at least 1, or None for all, got {setting}"):
        resolve_threads(None)


FORKED = """
import os, sys, threading
from threadpoolctl import threadpool_info
from ldmaps.threads import single_threaded_blas, run_tiles

def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

import numpy as np
np.ones((2, 2)) @ np.ones((2, 2))
before = blas_threads()
limit, stuck, go_on = single_threaded_blas._limit, threading.Event(), threading.Event()
if sys.argv[1] == "taking the limit":  # the lock is held
    def slowly():
        stuck.set()
        go_on.wait()
        limit()
    single_threaded_blas._limit = slowly
    work = lambda rows: None
else:
    def work(rows):
        stuck.set()
        go_on.wait()
thread = threading.Thread(target=run_tiles, args=(2, 1, work, 1))
thread.start()
stuck.wait()
child = os.fork()
if child == 0:
    single_threaded_blas._limit = limit
    inside = []
    run_tiles(2, 1, lambda rows: inside.append(blas_threads()), 1)
    os._exit(0 if inside == [{1}, {1}] and blas_threads() == before else 1)
status = os.waitpid(child, 0)[1]
go_on.set()
thread.join()
assert blas_threads() == before
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("moment", ["taking the limit", "at work"])
def test_a_fork_while_another_thread_is_at_work(moment):
    command = [sys.executable, "-W", "ignore", "-c", FORKED, moment]
    # More than one, so that a limit that is not lifted shows.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            assert process.wait(300) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
