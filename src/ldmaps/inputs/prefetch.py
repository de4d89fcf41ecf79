"""Reading ahead in another thread while the caller computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar("T")
_END = object()
#: Seconds that a caller who stops early waits for the item under way; a pipe that is silent may never bring it.
PATIENCE = 1.0


def prefetch(items: Iterable[T], depth: int = 3) -> Generator[T, None, None]:
    """Yield what ``items`` yields, computed up to ``depth`` items ahead in another thread.

    An error in ``items`` is raised where its item would have come. When the caller stops early the thread ends
    after the item it is at; a generator is closed then. The caller waits for that a second at the most.

    Parameters
    ----------
    items : iterable
        What to compute ahead.
    depth : int
        Most items that wait to be taken.

    Examples
    --------
    >>> list(prefetch(range(4)))
    [0, 1, 2, 3]
    """
    ready: queue.Queue[object] = queue.Queue(depth)
    stopped = threading.Event()
    failure: list[BaseException] = []

    def put(item: object) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:  # handed over, whatever it is
            failure.append(error)
        finally:
            if isinstance(
                items, Generator
            ):  # what it reads ahead itself ends now, not with the last reference
                items.close()
        put(_END)

    thread = threading.Thread(target=work, name="ldmaps-reader", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not _END:
            yield item  # type: ignore[misc]
        if failure:
            raise failure[0]
    finally:
        stopped.set()
        thread.join(PATIENCE)
