"""A Python function as a sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldmaps.streaming.records import Embedded
from ldmaps.streaming.sinks.base import Sink

__all__ = ["CallbackSink"]


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
