"""Running tasks on Dask: workers, what travels once, what comes back, how far it is, and what can go wrong."""

from __future__ import annotations

import logging
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from ldmaps._lazy import needed
from ldmaps.errors import ClusterError, InvalidInputError, one_line
from ldmaps.progress import tick
from ldmaps.threads import resolve_threads

#: Partial results that one task adds up, so that neither a worker nor this process meets all of them at once.
FAN_IN = 16
#: Share of the workers' memory that points may take to be kept there from one pass to the next.
KEPT_SHARE = 0.25
#: Seconds without a sign of life after which a worker's tasks are given to others, and to wait for a scheduler.
WORKER_LIFE, SCHEDULER_WAIT = 60, 15


def client_in_use() -> Any:
    """Return the ``distributed.Client`` that Dask would send work to now, or None for threads of this process."""
    if "distributed" not in sys.modules:  # nobody can have made one
        return None
    from dask.base import get_scheduler
    from distributed import Client

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


def threads_in_use() -> int:
    """Return how many tasks run at a time: threads of all workers there are now, or Dask's own."""
    client = client_in_use()
    if client is None:
        from dask.system import CPU_COUNT

        return int(CPU_COUNT)
    return max(1, sum(map(int, client.nthreads().values())))


def fits_in_workers(n_bytes: float) -> bool:
    """Say whether the workers of the client in use can keep so much beside their work; no where nobody knows."""
    client = client_in_use()
    if client is None:
        return False
    limits = [worker["memory_limit"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
    return all(limits) and n_bytes <= KEPT_SHARE * sum(limits)


def shared(name: str, value: Any) -> Any:
    """Return a value as a task, which each worker gets once, from this process or from another worker."""
    # A task, not scattered data: when the only worker that holds it dies, the scheduler makes it again.
    import cloudpickle
    from dask import delayed

    return delayed(pickle.loads, pure=False)(cloudpickle.dumps(value), dask_key_name=task_key(name))


def task(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a call to be made by a worker."""
    from dask import delayed

    return delayed(function, pure=False, traverse=False)(*arguments, dask_key_name=task_key(name))


def task_key(name: str) -> str:
    """Return a key for a task or an array, which Dask's dashboard shows as "ldmaps: assign" and so on."""
    return f"ldmaps: {name}-{uuid4().hex}"


def tree_sum(name: str, parts: Sequence[Any], add: Callable[[list[Any]], Any]) -> Any:
    """Return a task that adds up the results of others, a few at a time and in a fixed order."""
    level = list(parts)
    while len(level) > 1:
        level = [task(name, add, level[at : at + FAN_IN]) for at in range(0, len(level), FAN_IN)]
    return level[0]


def keep(tasks: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Start tasks and wait for them; return them with their results held by the workers."""
    return _run("persist", tasks, sizes)


def computed(tasks: Sequence[Any], sizes: Sequence[int] = ()) -> list[Any]:
    """Run tasks and return their results to this process."""
    return _run("compute", tasks, sizes)


def _run(how: str, tasks: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    import dask

    client = client_in_use()
    with faults(client):
        if client is None:
            return list(getattr(dask, how)(*tasks))
        started = getattr(client, how)(list(tasks))
        _follow(client, started, sizes)
        return list(started if how == "persist" else client.gather(started))


def _follow(client: Any, kept: Sequence[Any], sizes: Sequence[int]) -> None:
    """Advance the progress bar as tasks end, and raise the first error."""
    from distributed import as_completed, futures_of

    futures = [future for part in kept for future in futures_of(part)]
    points = dict(zip((future.key for future in futures), sizes, strict=False))
    try:
        for future in as_completed(futures):
            if future.status != "finished":
                future.result()
                raise ClusterError(lost(client))
            tick(points.get(future.key, 0))
    except BaseException:
        # Whoever keeps the traceback keeps them: blocks that are too large would go on ending workers.
        with suppress(Exception):  # the scheduler may be gone
            client.cancel(futures)
        raise


@contextmanager
def faults(client: Any) -> Iterator[None]:
    """Turn what Dask raises when machines fail into one line with a remedy; errors of tasks pass."""
    if client is None:
        yield
        return
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        with warnings.catch_warnings():
            # Landmarks travel with the graph, once; see `shared`.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            yield
    except KilledWorker as error:
        raise ClusterError(
            f"workers died again and again over the same block ({one_line(error)}); most often a block needs more "
            "memory than a worker may use: use smaller chunks (files: a smaller piece), or give workers more memory"
        ) from error
    except (CancelledError, CommClosedError, TimeoutError, ConnectionError) as error:
        raise ClusterError(lost(client)) from error
    except OSError as error:
        # Dask says so when nobody answers; a file that a worker cannot read is another kind, or has a name.
        if type(error) is not OSError or error.filename is not None:
            raise
        raise ClusterError(lost(client)) from error


def lost(client: Any) -> str:
    """Return what to tell when a cluster is gone."""
    address = getattr(getattr(client, "scheduler", None), "address", "unknown")
    return (
        f"the connection to the Dask scheduler at {address} was lost, or it dropped this job; nothing was written. "
        "Start it again once the cluster is up"
    )


@contextmanager
def workers(
    n_workers: int | None = None,
    *,
    scheduler: str | None = None,
    n_threads: int | None = None,
    memory_limit: str | float = "auto",
) -> Iterator[Any]:
    """Start worker processes, or join a scheduler; yield a ``distributed.Client``, to which work in the block goes.

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
    """
    dask = needed("dask", "workers need Dask", "pip install dask distributed")
    distributed = needed("distributed", "workers need Dask", "pip install dask distributed")
    if scheduler is not None:
        try:
            # A client of an address that is none would stay Dask's default until it is collected.
            distributed.comm.get_address_host(scheduler)
            client = distributed.Client(scheduler, timeout=SCHEDULER_WAIT)
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
        # Dask gives up a worker that died and takes longer to start again, which it does on a busy machine.
        "distributed.deploy.lost-worker-timeout": f"{WORKER_LIFE}s",
        # Looking at every worker's stack a hundred times a second takes time from the work.
        "distributed.worker.profile.enabled": False,
    }
    with dask.config.set(settings):
        try:
            cluster = distributed.LocalCluster(
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
        with cluster, distributed.Client(cluster) as client:
            yield client
