"""Threads: rows cut into tiles, tiles dealt out to threads, and BLAS held to one while they run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from ldmaps.errors import InvalidInputError
from ldmaps.progress import tick
from ldmaps.settings import LANDMARK_FIT

#: A tile of d² should stay in cache while it is reduced, and be tall enough to use each column many times.
TILE_BYTES = 1 << 21
MAX_TILE_ROWS = 256
MIN_TILE_ENTRIES = 1 << 16


def resolve_threads(n_threads: int | None) -> int:
    """Return the number of threads to use: as asked, ``LDMAPS_NUM_THREADS``, or every core we may run on."""
    if n_threads is None:
        setting = os.environ.get("LDMAPS_NUM_THREADS", "")
        if setting:
            try:
                n_threads = int(setting)
            except ValueError:
                raise InvalidInputError(
                    f"the environment variable LDMAPS_NUM_THREADS must be a whole number, got {setting!r}"
                ) from None
        else:
            affinity = getattr(os, "sched_getaffinity", None)
            n_threads = len(affinity(0)) if affinity else os.cpu_count() or 1
    return int(LANDMARK_FIT["n_threads"].check(n_threads))


@cache
def _pool(n_threads: int, process: int, name: str = "ldmaps") -> ThreadPoolExecutor:
    # Keyed by process: a forked child inherits the object but none of its threads.
    return ThreadPoolExecutor(n_threads, thread_name_prefix=name)


class _SingleThreadedBlas:
    """Holds BLAS to one thread while tiles run; re-entrant across Python threads."""

    # The last call to end is seldom the one that set the limit, but threadpoolctl lets only the thread that
    # set a limit lift it. So a dedicated thread does both.

    def __init__(self) -> None:
        self._controller: Any = None
        self._limiter: Any = None
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # A forked child has none of the tiles that may have been running, nor the thread that held the lock.
        self._lock = threading.Lock()
        self._depth = 0
        self._inherited, self._limiter = self._limiter, None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._depth == 0:
                _pool(1, os.getpid(), "ldmaps-blas").submit(self._limit).result()
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                if self._depth == 0:
                    limiter, self._limiter = self._limiter, None
                    _pool(1, os.getpid(), "ldmaps-blas").submit(limiter.__exit__, None, None, None).result()

    def _limit(self) -> None:
        if self._controller is None:
            from threadpoolctl import ThreadpoolController

            self._controller = ThreadpoolController()
        if self._inherited is not None:  # the parent's limit, which nobody here would lift
            self._inherited.__exit__(None, None, None)
            self._inherited = None
        self._limiter = self._controller.limit(limits=1, user_api="blas")
        self._limiter.__enter__()


#: Holds BLAS to one thread inside a ``with``; also for work elsewhere whose results must not depend on its threads.
single_threaded_blas = _SingleThreadedBlas()
_this_thread = threading.local()


def tile_rows(n_cols: int, itemsize: int, n_rows: int = 0) -> int:
    """Return how many rows make a tile; where columns are few and rows many, enough to be worth a call."""
    tall = min(MIN_TILE_ENTRIES // max(1, n_cols), n_rows // 4)
    return min(max(1, TILE_BYTES // max(1, n_cols * itemsize)), max(MAX_TILE_ROWS, tall))


def run_tiles(
    n_rows: int, tile: int, work: Callable[[slice], None], n_threads: int, *, asks_metric: bool = True
) -> None:
    """Call ``work`` on consecutive slices of ``tile`` rows; see :func:`run_slices`."""
    slices = [slice(start, min(start + tile, n_rows)) for start in range(0, n_rows, tile)]
    run_slices(slices, work, n_threads, asks_metric=asks_metric)


def run_slices(
    slices: list[slice], work: Callable[[slice], None], n_threads: int, *, asks_metric: bool = True
) -> None:
    """Call ``work`` on slices of rows, on threads; an error of any is raised."""
    # Metrics may call BLAS, which is then held to one thread; it takes 0.2 ms, so callers that ask no metric
    # for distances say so.
    if len(slices) == 1:
        work(slices[0])
        return
    with single_threaded_blas() if asks_metric else nullcontext():
        # Tiles started inside a tile (a Python metric that measures distances itself) must not wait for a pool
        # whose threads all wait for it.
        if n_threads == 1 or getattr(_this_thread, "is_worker", False):
            for rows in slices:
                work(rows)
                tick(rows.stop - rows.start)
            return
        pending = iter(slices)
        taking = threading.Lock()

        def stop() -> None:
            with taking:
                for _ in pending:
                    pass

        def drain() -> None:
            _this_thread.is_worker = True
            try:
                while True:
                    with taking:
                        rows = next(pending, None)
                    if rows is None:
                        return
                    work(rows)
                    tick(rows.stop - rows.start)
            except BaseException:
                stop()
                raise
            finally:
                _this_thread.is_worker = False

        # This thread works too: it need not be woken, and a few tiles may be done before others are.
        helpers = min(n_threads, len(slices)) - 1
        futures = [_pool(n_threads, os.getpid()).submit(drain) for _ in range(helpers)]
        try:
            drain()
            for future in futures:
                future.result()
        finally:
            stop()  # after an error nothing further is begun, and nothing runs on behind the caller's back
            for future in futures:
                future.exception()
