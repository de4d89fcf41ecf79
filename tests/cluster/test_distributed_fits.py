"""The same answers on real clusters of worker processes."""

from __future__ import annotations

import os

import dask.array as da
import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.cluster import engine
from ldmaps.cluster.engine import client_in_use, computed, shared, task
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.fit import blocks
from ldmaps.inputs.opening import is_dask_array

ROLL = swiss_roll(4000).points
#: Nothing is held out: these tests count how often blocks are read, or end workers while they assign points.
SETTINGS = {"n_components": 2, "epsilon": 4.0, "n_landmarks": 150, "calibration": 0}


@pytest.fixture(scope="module")
def in_memory():
    return LandmarkDiffusionMap(**SETTINGS).fit(ROLL)


@pytest.mark.parametrize(
    ("workers", "chunk"), [(1, 700), (2, 1500), pytest.param(4, 333, marks=pytest.mark.slow)]
)
def test_the_same_map_on_one_two_and_four_processes(with_workers, monkeypatch, in_memory, workers, chunk):
    monkeypatch.setattr(blocks, "MAX_RECORDED", 1000)
    client = with_workers(workers)
    assert len(client.scheduler_info(n_workers=-1)["workers"]) == workers
    X = da.from_array(ROLL, chunks=(chunk, 3))
    model = LandmarkDiffusionMap(**SETTINGS).fit(X)
    assert is_dask_array(model.embedding_)
    np.testing.assert_array_equal(model.landmark_indices_, in_memory.landmark_indices_)
    np.testing.assert_array_equal(model.multiplicities_, in_memory.multiplicities_)
    np.testing.assert_allclose(model.eigenvalues_, in_memory.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(model.embedding_.compute(), in_memory.embedding_, atol=1e-12)
    np.testing.assert_array_equal(model.labels_.compute(), in_memory.labels_)
    np.testing.assert_allclose(model.transform(X).compute(), in_memory.embedding_, atol=1e-12)
    np.testing.assert_array_equal(model.coverage(X).inside.compute(), True)


def test_frames_on_two_processes(with_workers):
    with_workers(2)
    frames = alanine_dipeptide().frames[:1500]
    settings = {**SETTINGS, "metric": "rmsd", "epsilon": "connected", "n_landmarks": 60}
    plain = LandmarkDiffusionMap(**settings).fit(frames)
    model = LandmarkDiffusionMap(**settings).fit(da.from_array(frames, chunks=(400, 22, 3)))
    np.testing.assert_array_equal(model.landmark_indices_, plain.landmark_indices_)
    np.testing.assert_allclose(model.embedding_, plain.embedding_, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.25, 0.0], ids=["prepared points are kept", "read again"])
def test_the_same_map_whether_workers_keep_points_or_not(
    with_workers, monkeypatch, in_memory, tmp_path, share
):
    """Blocks that leave a note when they are read: for the sample, and then once, or once for each pass."""
    monkeypatch.setattr(engine, "KEPT_SHARE", share)
    with_workers(2)
    notes = tmp_path / "notes"
    X = da.from_array(ROLL, chunks=(1000, 3)).map_blocks(noted, str(notes), meta=ROLL[:0])
    weights = np.random.default_rng(3).choice([0.0, 1.0, 2.5], len(ROLL))
    plain = LandmarkDiffusionMap(**SETTINGS).fit(ROLL, sample_weight=weights)
    model = LandmarkDiffusionMap(**SETTINGS).fit(X, sample_weight=weights)
    assert notes.read_text().count("block") == 4 * (2 if share else 3)
    np.testing.assert_array_equal(model.landmark_indices_, plain.landmark_indices_)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_array_equal(model.training_.nearest, plain.training_.nearest)
    np.testing.assert_allclose(model.embedding_, plain.embedding_, atol=1e-12)


def noted(block, path):
    with open(path, "a") as notes:
        notes.write("block\n")
    return block


class Counted:
    """Writes down where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        self.__dict__.update(state)
        with open(self.path, "a") as notes:
            notes.write(f"{os.getpid()}\n")


def read(value, number):
    return number


def test_a_shared_value_travels_to_each_process_once(with_workers, tmp_path):
    with_workers(2)
    notes = tmp_path / "notes"
    value = shared("map", Counted(str(notes)))
    assert computed([task("read", read, value, number) for number in range(20)]) == list(range(20))
    processes = notes.read_text().split()
    assert len(processes) == len(set(processes)) <= 2


def test_tasks_are_named_for_people(with_workers):
    client = with_workers(2)
    LandmarkDiffusionMap(**SETTINGS).fit(da.from_array(ROLL, chunks=(1000, 3)))
    names = client.run_on_scheduler(lambda dask_scheduler: sorted(dask_scheduler.task_prefixes))
    assert {"ldmaps: gather", "ldmaps: landmarks", "ldmaps: assign", "ldmaps: embed"} <= set(names)


def thread_counts():
    from threadpoolctl import threadpool_info

    from ldmaps.threads import single_threaded_blas

    with single_threaded_blas():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_one_thread_in_a_task(with_workers):
    with_workers(2)
    assert set(computed([task("count", thread_counts)])[0]) == {1}


def missing():
    raise FileNotFoundError("there is no file 'run.xtc'; check the path")


def test_a_file_that_workers_cannot_find_is_no_lost_scheduler(with_workers):
    with_workers(2)
    with pytest.raises(FileNotFoundError, match="there is no file 'run.xtc'"):
        computed([task("read", missing)])


def test_without_a_client_there_is_none():
    assert client_in_use() is None
