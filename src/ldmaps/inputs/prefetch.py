"""Reading ahead in another thread while the caller computes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
#: What :meth:`Ahead.get` returns where there is no item.
NOTHING: Any = object()
#: Seconds that a caller who stops early waits for the item under way; a pipe that is silent may never bring it.
PATIENCE = 1.0


class Ahead(Generic[T]):
    """Items that another thread computes; those that wait to be taken have a size of ``room`` together, or one has."""

    # Items of size 0 are left out. One that was computed is kept even when the thread is stopped meanwhile: it may
    # not come again.

    def __init__(
        self,
        items: Iterable[T],
        room: int,
        size: Callable[[T], int] = lambda _: 1,
        name: str = "ldmaps-reader",
    ) -> None:
        self._items, self._room, self._size = items, room, size
        self._ready: deque[T] = deque()
        self._waiting = self.peak = 0
        self._changed = threading.Condition()
        self._ended = self.stopped = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        failure: BaseException | None = None
        try:
            for item in self._items:
                if size := self._size(item):
                    self._put(item, size)
                if self.stopped:
                    break
        except BaseException as error:  # handed over, whatever it is
            failure = error
        if isinstance(self._items, Generator):
            self._items.close()  # what it reads ahead itself ends now, not with the last reference
        with self._changed:
            self._failure, self._ended = failure, True
            self._changed.notify_all()

    def _put(self, item: T, size: int) -> None:
        def has_room() -> bool:
            return self.stopped or not self._waiting or self._waiting + size <= self._room

        with self._changed:
            self._changed.wait_for(has_room)
            self._ready.append(item)
            self._waiting += size
            self.peak = max(self.peak, self._waiting)
            self._changed.notify_all()

    def get(self, wait: float | None = None, accept: Callable[[T], bool] = lambda _: True) -> Any:
        """Take the next item; NOTHING if none came within so many seconds or will come, or it is not accepted."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended, wait)
            if not self._ready or not accept(self._ready[0]):
                return NOTHING
            item = self._ready.popleft()
            self._waiting -= self._size(item)
            self._changed.notify_all()
        return item

    def is_over(self) -> bool:
        """Say whether all items were taken; raise the error that ended them, if one did."""
        with self._changed:
            is_over = self._ended and not self._ready
        if is_over and self._failure is not None:
            raise self._failure
        return is_over

    def stop(self, patience: float) -> bool:
        """Let the thread end after the item it is at; say whether it has."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()
        self._thread.join(patience)
        return not self._thread.is_alive()


def prefetch(items: Iterable[T], depth: int = 3) -> Generator[T, None, None]:
    """Yield what ``items`` yields, computed up to ``depth`` items ahead in another thread.

    An error in ``items`` is raised where its item would have come. When the caller stops early the thread ends
    after the item it is at; a generator is closed then. The caller waits for that a second at the most.

    Examples
    --------
    >>> list(prefetch(range(4)))
    [0, 1, 2, 3]
    """
    ahead = Ahead(items, depth)
    try:
        while (item := ahead.get()) is not NOTHING:
            yield item
        ahead.is_over()
    finally:
        ahead.stop(PATIENCE)
