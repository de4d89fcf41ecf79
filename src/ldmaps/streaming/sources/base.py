"""The Source seam: where records come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from ldmaps.streaming.records import Position, Records

__all__ = ["Source"]


class Source(ABC):
    """Records that come by and by, in order.

    A source is opened once, polled until it ends, and closed. Polling is done by
    one thread, not always the one that made the source.

    Attributes
    ----------
    name : str
        For messages: a file, an address, "stdin".
    replayable : bool
        Whether ``open(position)`` can go on where an earlier run stopped.
    needs_main_thread : bool
        Whether it must be opened, polled and closed by the main thread.
    reads_ahead : bool
        Whether there is always more to read, as in a file, so that reading in another
        thread while records are embedded pays.
    may_block : bool
        Whether a poll may wait longer than it is asked to, as for a Python iterator.
    facts : dict or None
        What is known of the records beyond numbers, as ``model.source_`` has it.
    """

    name: str = "stream"
    replayable: ClassVar[bool] = False
    needs_main_thread: ClassVar[bool] = False
    reads_ahead: ClassVar[bool] = False
    may_block: ClassVar[bool] = False
    facts: dict[str, Any] | None = None

    @abstractmethod
    def open(self, position: Position = None) -> None:
        """Connect, and go to where ``position`` (of the last records that were dealt with) ends."""

    @abstractmethod
    def poll(self, most: int, wait: float) -> Records | None:
        """Return up to ``most`` records.

        Waits up to ``wait`` seconds for the first one and then takes what is there
        without waiting for more. Returns records of length 0 if nothing came in
        time, and None when the stream has ended.
        """

    def close(self) -> None:
        """Let go of files and connections; called once, also after an error."""
