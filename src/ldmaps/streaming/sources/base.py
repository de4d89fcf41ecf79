"""The Source seam: where records come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from ldmaps.streaming.records import Position, Records


class Source(ABC):
    """Records that arrive over time, in order. It is opened once, polled by one thread until it ends, and closed.

    Attributes
    ----------
    name : str
        For messages: a file, an address, "stdin".
    replayable : bool
        Whether ``open(position)`` can go on where an earlier run stopped.
    needs_main_thread : bool
        Whether it must be opened, polled and closed by the main thread.
    reads_ahead : bool
        Whether there is always more to read, as in a file, so that reading ahead in a thread pays.
    may_block : bool
        Whether a poll may wait longer than it is asked to, as for a Python iterator.
    paths : tuple of str or int
        Files that it reads, by name or descriptor, as far as it knows.
    facts : dict or None
        What is known of the records beyond numbers, as ``model.source_`` has it.
    """

    name: str = "stream"
    replayable: ClassVar[bool] = False
    needs_main_thread: ClassVar[bool] = False
    reads_ahead: bool = False
    may_block: ClassVar[bool] = False
    paths: tuple[str | int, ...] = ()
    facts: dict[str, Any] | None = None

    @abstractmethod
    def open(self, position: Position = None) -> None:
        """Connect, and continue at ``position``: that of the last records that an earlier run delivered, if one did."""

    @abstractmethod
    def poll(self, most: int, wait: float) -> Records | None:
        """Return the records that have arrived, ``most`` at most; None when the stream has ended.

        The first one is waited for, ``wait`` seconds, the others are not; there are none if nothing came in time.
        """

    def close(self) -> None:
        """Release files and connections; called once, also after an error."""
