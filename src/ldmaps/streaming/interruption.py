"""Ctrl-C and SIGTERM while records are on their way to the sinks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from ldmaps import door

__all__ = ["DeferredSignals"]


class DeferredSignals:
    """Lets signals wait until the records under way are written; outside the main thread nothing is changed."""

    # The handlers that were there (which raise, as a rule) are called where that is harmless: while ``may_raise``
    # says so, or by ``deliver``. A second signal is never held back.

    def __init__(self, may_raise: Callable[[], bool]) -> None:
        self._may_raise = may_raise
        self._handlers: dict[int, Any] = {}
        self._pending: tuple[int, FrameType | None] | None = None

    @property
    def pending(self) -> bool:
        """Whether a signal waits."""
        return self._pending is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = door.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    door.set_handler(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            if door.getsignal(number) == self._note:
                door.set_handler(number, handler)

    def deliver(self) -> None:
        """Call the handler that a signal was meant for."""
        if self._pending is not None:
            (number, frame), self._pending = self._pending, None
            self._handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._pending is not None or self._may_raise():
            self._handlers[number](number, frame)
        else:
            self._pending = number, frame
