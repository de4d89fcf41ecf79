"""One real cluster of processes for all tests here."""

from __future__ import annotations

import time

import pytest
from polling import PATIENCE

pytest.importorskip("distributed")


@pytest.fixture(scope="session")
def cluster():
    """A local cluster without workers; ``with_workers`` gives it some."""
    import dask
    from distributed import LocalCluster

    settings = {
        # How often signs of life are looked for; how old they may be is set below.
        "distributed.scheduler.worker-ttl": "8s",
        "distributed.comm.timeouts.connect": "20s",
        # A killed worker that takes longer to come back is not started again.
        "distributed.deploy.lost-worker-timeout": "300s",
        "distributed.admin.low-level-log-length": 0,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit="1GB",
            silence_logs="CRITICAL",
        ) as running,
    ):
        # A worker gives no sign while its first task imports the library. On a busy machine, or traced, that takes more
        # than 8 s: it would be given up, and so would its successor, without end.
        running.scheduler.worker_ttl = 300
        yield running


@pytest.fixture
def with_workers(cluster):
    """Return a function that gives a client of so many worker processes."""
    from distributed import Client

    clients = []

    def start(count):
        cluster.scale(count)
        client = Client(cluster)
        clients.append(client)
        client.wait_for_workers(count, timeout=180)
        _wait_until_settled(cluster)
        return client

    yield start
    for client in clients:
        client.close()


def _wait_until_settled(cluster):
    """Wait until the scheduler knows exactly the workers that the cluster is to have.

    After an earlier test it may still have one that is about to be closed, while the one that stays is being started
    again because it was killed: for a moment there would be none.
    """
    deadline = time.monotonic() + 3 * PATIENCE
    while True:
        known = {worker.name for worker in cluster.scheduler.workers.values()}
        if known == set(cluster.worker_spec):
            return
        assert time.monotonic() < deadline, (
            f"workers {sorted(known)} run instead of {sorted(cluster.worker_spec)}"
        )
        time.sleep(0.02)
