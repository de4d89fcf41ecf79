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
        """Take records. May block, which slows the source down.

        Parameters
        ----------
        embedded : Embedded
            The next records, in order.
        """

    def check(self, mark: Any = None) -> None:
        """Raise if records cannot be written here, or not continued from a mark; called first, and changes nothing.

        Parameters
        ----------
        mark : JSON value, optional
            What :meth:`flush` returned in an earlier run; None for a new stream.
        """

    def flush(self) -> Any:
        """Make everything written so far safe against a crash; return a JSON value as mark, or None if not durable."""
        return None

    def rewind(self, mark: Any) -> None:
        """Drop everything after a mark; called after :meth:`check`, before the first write.

        Parameters
        ----------
        mark : JSON value, optional
            What :meth:`flush` returned; None drops everything.
        """

    def close(self) -> None:
        """Release files and connections."""


class CallbackSink(Sink):
    """Calls a function with every batch.

    A function cannot be made to forget: after a crash it gets everything after the last
    checkpoint again (at least once, not exactly once).

    Parameters
    ----------
    function : callable
        Takes an :class:`~ldmaps.streaming.records.Embedded`. May block, which slows the
        source down; an exception ends the stream with SinkError.

    Examples
    --------
    >>> sink = CallbackSink(lambda embedded: print(len(embedded), "records"))
    """

    def __init__(self, function: Callable[[Embedded], Any]) -> None:
        self._function = function
        self.name = f"the callback {getattr(function, '__name__', type(function).__name__)}"

    def write(self, embedded: Embedded) -> None:
        """Call the function."""
        self._function(embedded)
