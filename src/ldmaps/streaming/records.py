"""What flows through a stream: records as they came, and records with their place on the map.

Source ──► Records ──► StreamEmbedder ──► Embedded ──► Sinks
│
RegionTracker ──► Events
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension.embedder import Coverage
from ldmaps.regions.tracker import Event

__all__ = ["Embedded", "Records", "Rejected"]

#: Where a source goes on after a restart: a JSON value that only the source itself understands.
Position = Any


@dataclass(frozen=True)
class Rejected:
    """A record that could not be embedded.

    Attributes
    ----------
    number : int
        Its place in the stream.
    reason : str
        What is wrong with it, in a line.
    raw : str
        The beginning of what was received.
    """

    number: int
    reason: str
    raw: str = ""


@dataclass(slots=True)  # not frozen, which takes another 2 µs to make: a third of what a 3-D point takes
class Records:
    """Consecutive records of a stream, in order; those that could not be read are listed apart.

    Attributes
    ----------
    points : ndarray of shape (n, features), or (n, atoms, 3) for frames
        Frames are in nm.
    numbers : ndarray of shape (n,)
        Place of each record in the stream, from 0. Rejected records have numbers
        too, so that the numbers of good ones may have gaps.
    times : ndarray of shape (n,) or None
        The source's own time (simulated ps, a time stamp), where it has one.
    arrived : ndarray of shape (n,)
        ``time.monotonic()`` at which each record was received.
    rejected : tuple of Rejected
        What was received between these records and could not be read.
    position : JSON value
        Where the source goes on after these records; None if it cannot be replayed.
    """

    points: NDArray[Any]
    numbers: NDArray[np.int64]
    times: NDArray[np.float64] | None
    arrived: NDArray[np.float64]
    rejected: tuple[Rejected, ...] = ()
    position: Position = None

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(slots=True)
class Embedded:
    """Consecutive records with their place on the map.

    Attributes
    ----------
    numbers, times, arrived, rejected, position
        As in :class:`Records`.
    coordinates : ndarray of shape (n, k)
    coverage : Coverage
        Distance to the nearest landmark, inside the map or not, which landmark.
    regions : ndarray of shape (n,)
        Index of the region (in the tracker's ``names``) each record is counted to, -1 for none.
    events : tuple of Event
        What happened at these records, in order.
    points : ndarray
        The records themselves, for sinks that keep what the map does not cover.
    """

    numbers: NDArray[np.int64]
    times: NDArray[np.float64] | None
    arrived: NDArray[np.float64]
    rejected: tuple[Rejected, ...]
    position: Position
    coordinates: NDArray[Any]
    coverage: Coverage
    regions: NDArray[np.intp]
    events: tuple[Event, ...]
    points: NDArray[Any]

    def __len__(self) -> int:
        return len(self.numbers)
