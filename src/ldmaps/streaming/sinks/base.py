"""The Sink seam: where embedded records go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ldmaps.streaming.records import Embedded

__all__ = ["Sink"]


class Sink(ABC):
    """Takes embedded records in order.

    A durable sink can say how far it is safe (``flush`` returns a mark) and drop
    what came after a mark (``rewind``): that is what makes a restart neither lose
    nor repeat a record. Other sinks return None and are told everything again.

    Attributes
    ----------
    name : str
        For messages.
    durable : bool
        Whether ``rewind`` works.
    takes_rejected : bool
        Whether it keeps records that could not be embedded.
    """

    name: str = "sink"
    durable: bool = False
    takes_rejected: bool = False

    @abstractmethod
    def write(self, embedded: Embedded) -> None:
        """Take records. May block: that slows the source down, which is meant."""

    def check(self, mark: Any = None) -> None:
        """Raise if records cannot be written here, or not go on from a mark; change nothing.

        Called first of all, so that a run that is refused has not touched anything.
        """

    def flush(self) -> Any:
        """Make everything written so far safe against a crash; return a JSON mark for :meth:`rewind`."""
        return None

    def rewind(self, mark: Any) -> None:
        """Drop all that came after ``mark`` (None: everything); called after :meth:`check`, before the first write."""

    def close(self) -> None:
        """Let go of files and connections."""
