"""The Sink seam: where embedded records go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ldmaps.streaming.records import Embedded

__all__ = ["Sink"]


class Sink(ABC):
    """Takes embedded records in order.

    A durable sink says how far its records are safe (``flush`` returns a mark) and drops
    everything after a mark (``rewind``), so that a restart neither loses nor repeats a
    record. Other sinks return None and get everything again.

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
        """Raise if records cannot be written here, or not continued from a mark; change nothing.

        Called first, so that a run that is refused has not changed anything.

        Parameters
        ----------
        mark : JSON value, optional
            What :meth:`flush` returned in an earlier run; None for a new stream.
        """

    def flush(self) -> Any:
        """Make everything written so far safe against a crash.

        Returns
        -------
        JSON value
            A mark for :meth:`rewind`; None for sinks that are not durable.
        """
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
