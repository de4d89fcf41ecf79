"""One real cluster of processes for all tests here."""

from __future__ import annotations

import pytest

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
        return client

    yield start
    for client in clients:
        client.close()
