"""Workers are started, or what is in the way is named."""

from __future__ import annotations

import os
import sys

import dask
import pytest

from ldmaps.cluster import engine
from ldmaps.cluster.engine import workers
from ldmaps.errors import ClusterError, InvalidInputError


@pytest.mark.parametrize("missing", ["dask", "distributed"])
def test_without_dask_the_remedy_is_named(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with (
        pytest.raises(InvalidInputError, match=r"workers need Dask.*pip install dask distributed"),
        workers(2),
    ):
        pass


@pytest.mark.parametrize("count", [None, 0, -3])
def test_a_number_of_workers_that_is_none(count):
    with pytest.raises(InvalidInputError, match=f"whole number of at least 1, got {count}"), workers(count):
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://127.0.0.1:9"])
def test_a_scheduler_that_does_not_answer(monkeypatch, address):
    monkeypatch.setattr(engine, "SCHEDULER_WAIT", 1)
    with (
        pytest.raises(ClusterError, match=f"no Dask scheduler answers at {address}") as caught,
        workers(scheduler=address),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert dask.config.get("scheduler", None) is None  # what others compute goes to no client that failed


def test_workers_are_other_processes_with_the_threads_asked_for():
    with workers(1, n_threads=3, memory_limit="512MB") as client:
        (info,) = client.scheduler_info()["workers"].values()
        assert info["nthreads"] == 3
        assert info["memory_limit"] == 512_000_000
        assert client.submit(os.getpid).result(timeout=180) != os.getpid()
        # One that dies is waited for while it starts again.
        assert dask.config.get("distributed.deploy.lost-worker-timeout") == f"{engine.WORKER_LIFE}s"
        # A scheduler that runs is joined, and left running.
        with workers(scheduler=client.scheduler.address) as joined:
            assert joined.submit(sum, [1, 2]).result(timeout=180) == 3
        assert client.submit(sum, [3, 4]).result(timeout=180) == 7


def test_workers_that_do_not_start_are_no_internal_error(monkeypatch):
    """Such as when one is killed before it has said hello."""

    def fail(**_):
        raise RuntimeError("Cluster failed to start: Nanny failed to start.")

    monkeypatch.setattr("distributed.LocalCluster", fail)
    with pytest.raises(ClusterError, match="2 workers could not be started .*Nanny.*Start fewer"), workers(2):
        pass
