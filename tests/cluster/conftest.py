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
        "distributed.scheduler.worker-ttl": "8s",
        # A worker gives no sign of life while its first task imports these. On a busy machine, or traced, that takes
        # longer than the time above: it would be given up, and so would its successor, without end.
        "distributed.worker.preload": [
            "dask.array",
            "ldmaps.cluster.blocks",
            "ldmaps.maps.landmark_diffusion_map",
        ],
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
        client.wait_for_workers(count, timeout=60)
        return client

    yield start
    for client in clients:
        client.close()
