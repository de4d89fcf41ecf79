"""Workers: a cluster of processes on this machine, or a scheduler that runs elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ldmaps.errors import ClusterError, InvalidInputError, one_line
from ldmaps.threads import resolve_threads

#: Seconds without a sign of life after which a worker's tasks are given to others, and to wait for a scheduler.
WORKER_LIFE, SCHEDULER_WAIT = 60, 15


@contextmanager
def workers(
    n_workers: int | None = None,
    *,
    scheduler: str | None = None,
    n_threads: int | None = None,
    memory_limit: str | float = "auto",
) -> Iterator[Any]:
    """Start worker processes, or join a scheduler; work inside the block goes there.

    Parameters
    ----------
    n_workers : int, optional
        Processes to start on this machine.
    scheduler : str, optional
        Address of a scheduler that runs, such as "tcp://node01:8786".
    n_threads : int, optional
        Threads of each process that is started; by default all cores shared among them.
    memory_limit : str or float
        Of each process that is started: "2GB" or bytes; "auto" shares the machine's memory.

    Yields
    ------
    distributed.Client
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InvalidInputError(
            f"workers need Dask, which cannot be imported ({error}); pip install dask distributed"
        ) from error
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=SCHEDULER_WAIT)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {scheduler} ({one_line(error)}); start it with dask scheduler, and "
                "check address and port"
            ) from error
        with client:
            yield client
        return
    if n_workers is None or n_workers < 1:
        raise InvalidInputError(f"workers must be a whole number of at least 1, got {n_workers!r}")
    settings = {
        "distributed.scheduler.worker-ttl": f"{WORKER_LIFE}s",
        # Looking at every worker's stack a hundred times a second takes time from the work.
        "distributed.worker.profile.enabled": False,
    }
    with dask.config.set(settings):
        try:
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=n_threads or max(1, resolve_threads(None) // n_workers),
                processes=True,
                memory_limit=memory_limit,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
        except (RuntimeError, OSError, TimeoutError) as error:
            raise ClusterError(
                f"{n_workers} workers could not be started ({one_line(error, 160)}); was one killed, or is there too "
                "little memory? Start fewer, or again"
            ) from error
        with cluster, Client(cluster) as client:
            yield client
