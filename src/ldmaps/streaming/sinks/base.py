"""The Sink seam: where embedded records go; and the simplest one, a Python function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ldmaps.streaming.records import Embedded


class Sink(ABC):
    """Takes embedded records in order.

    A durable sink says how far its records are safe (``flush`` returns a mark) and drops everything after a
    mark (``rewind``), so that a restart neither loses nor repeats a record. Others get everything again.

    Attributes
    ----------
    name : str
        For messages.
    durable : bool
        Whether ``rewind`` works.
    paths : tuple of str
        Files that it writes.
    takes_rejected : bool
        Whether it keeps records that could not be embedded.
    """

    name: str = "sink"
    durable: bool = False
    paths: tuple[str, ...] = ()
    takes_rejected: bool = False

    @abstractmethod
    def write(self, embedded: Embedded) -> None:
        """Take the next records, ``embedded``. May block, which slows the source down."""

    def check(self, mark: Any = None) -> None:
        """Raise if a stream cannot be written here, or not go on from ``mark``; called first, and changes nothing."""

    def flush(self) -> Any:
        """Make everything written so far safe against a crash; return a JSON value as mark, or None if not durable."""
        return None

    def rewind(self, mark: Any) -> None:
        """Drop everything after ``mark``, None for all; called after :meth:`check`, before the first write."""

    def close(self) -> None:
        """Release files and connections."""


class CallbackSink(Sink):
    """Calls a function with every batch; after a crash, again with everything after the last checkpoint.

    Parameters
    ----------
    function : callable
        Takes an :class:`Embedded`. May block, which slows the source down; an exception ends the stream
        with SinkError.
    """

    def __init__(self, function: Callable[[Embedded], Any]) -> None:
        self._function = function
        self.name = f"the callback {getattr(function, '__name__', type(function).__name__)}"

    def write(self, embedded: Embedded) -> None:
        """Call the function."""
        self._function(embedded)
