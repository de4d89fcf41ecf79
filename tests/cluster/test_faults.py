"""Real processes that are killed, stopped or run out of memory in the middle of a job."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import ClusterError

POINTS = swiss_roll(4000).points
#: Nothing is held out: these tests count how often blocks are read, or end workers while they assign points.
SETTINGS = {"n_components": 2, "epsilon": 4.0, "n_landmarks": 100, "calibration": 0}
#: Blocks of which each takes so many seconds, so that a test can meet a job in its middle.
CHUNK, PAUSE = 200, 0.05


@pytest.fixture(scope="module")
def in_memory():
    return LandmarkDiffusionMap(**SETTINGS).fit(POINTS)


def slow(block, folder):
    """Read slowly, and leave a note of who did."""
    with open(Path(folder) / str(os.getpid()), "a") as notes:
        notes.write("block\n")
    time.sleep(PAUSE)
    return block


def slow_points(folder):
    return da.from_array(POINTS, chunks=(CHUNK, 3)).map_blocks(slow, str(folder), meta=POINTS[:0])


def in_the_middle(folder, do, after=6):
    """Call ``do`` with a worker's process once it has read some blocks; return the list of those it was called with."""
    met = []

    def watch():
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and not met:
            for notes in folder.iterdir():
                if notes.read_text().count("\n") >= after:
                    met.append(int(notes.name))
                    do(met[0])
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return met, thread


def kill(process):
    os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param(3, marks=pytest.mark.slow, id="while the sample is gathered"),
        pytest.param(14, id="while points are assigned"),
    ],
)
def test_a_worker_killed_in_a_fit_changes_nothing(with_workers, tmp_path, in_memory, blocks):
    client = with_workers(2)
    met, thread = in_the_middle(tmp_path, kill, blocks)
    model = LandmarkDiffusionMap(**SETTINGS).fit(slow_points(tmp_path))
    thread.join()
    assert met
    np.testing.assert_array_equal(model.landmark_indices_, in_memory.landmark_indices_)
    np.testing.assert_array_equal(model.multiplicities_, in_memory.multiplicities_)
    np.testing.assert_allclose(model.embedding_, in_memory.embedding_, atol=1e-12)
    client.wait_for_workers(2, timeout=180)


@pytest.mark.slow
def test_a_worker_killed_in_a_transform_changes_nothing(with_workers, tmp_path, in_memory):
    client = with_workers(2)
    embedded = in_memory.transform(slow_points(tmp_path))
    met, thread = in_the_middle(tmp_path, kill)
    np.testing.assert_allclose(embedded.compute(), in_memory.embedding_, atol=1e-12)
    thread.join()
    assert met
    client.wait_for_workers(2, timeout=180)


@pytest.mark.slow
def test_the_only_worker_killed_takes_nothing_with_it(with_workers, tmp_path, in_memory):
    client = with_workers(1)
    embedded = in_memory.transform(slow_points(tmp_path))
    met, thread = in_the_middle(tmp_path, kill)
    np.testing.assert_allclose(embedded.compute(), in_memory.embedding_, atol=1e-12)
    thread.join()
    assert met
    client.wait_for_workers(1, timeout=180)


@pytest.mark.slow
def test_a_worker_that_stands_still_is_given_up(cluster, with_workers, tmp_path, in_memory, monkeypatch):
    with_workers(2)

    def stand_still(process):
        os.kill(process, signal.SIGSTOP)
        monkeypatch.setattr(cluster.scheduler, "worker_ttl", 8)

    met, thread = in_the_middle(tmp_path, stand_still)
    try:
        model = LandmarkDiffusionMap(**SETTINGS).fit(slow_points(tmp_path))
    finally:
        thread.join()
        for process in met:
            with suppress(ProcessLookupError):  # its nanny may have ended it
                os.kill(process, signal.SIGKILL)
    np.testing.assert_array_equal(model.landmark_indices_, in_memory.landmark_indices_)
    np.testing.assert_allclose(model.embedding_, in_memory.embedding_, atol=1e-12)
    cluster.scale(0)  # its nanny does not start another


def greedy(block):
    """Take more memory than a worker has, a little at a time."""
    held = []
    while True:
        held.append(np.ones(1 << 24))
        time.sleep(0.02)


@pytest.mark.slow
def test_a_block_that_needs_too_much_memory_ends_with_one_line(cluster, with_workers, in_memory):
    client = with_workers(2)
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
        greedy_points = da.from_array(POINTS, chunks=(CHUNK, 3)).map_blocks(greedy, meta=POINTS[:0])
        try:
            with pytest.raises(ClusterError, match="died again and again.*smaller chunks") as caught:
                LandmarkDiffusionMap(**SETTINGS).fit(greedy_points)
            # Although the traceback holds them, so that no further worker dies of those that were to come.
            deadline = time.monotonic() + 300
            while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
                assert time.monotonic() < deadline, "blocks are still tried"
                time.sleep(0.05)
        finally:
            client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))
    assert "\n" not in str(caught.value)
    client.wait_for_workers(2, timeout=180)


@pytest.mark.slow
def test_a_scheduler_that_goes_ends_with_one_line(tmp_path):
    settings = {"distributed.comm.timeouts.connect": "2s", "distributed.comm.retry.count": 0}
    with dask.config.set(settings):
        gone = LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs="CRITICAL",
        )
        with Client(gone, timeout="5s") as client:
            _, thread = in_the_middle(tmp_path, lambda process: gone.close(timeout=10))
            with pytest.raises(ClusterError, match="connection to the Dask scheduler .* was lost"):
                LandmarkDiffusionMap(**SETTINGS).fit(slow_points(tmp_path))
            thread.join()
            client.close(timeout=1)
