"""What flows through a stream: records as they came, and records with their place on the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension.embedder import Coverage
from ldmaps.regions.tracker import Event

#: Where a source continues after a restart: a JSON value that only the source itself understands.
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
    missing : bool
        Whether it is whole but for missing values.
    """

    number: int
    reason: str
    raw: str = ""
    missing: bool = False


@dataclass(slots=True)  # not frozen, which takes another 2 µs to make: a third of what a 3-D point takes
class Records:
    """Consecutive records of a stream, in order; those that could not be read are listed separately.

    Attributes
    ----------
    points : ndarray of shape (n, features), or (n, atoms, 3) for frames
        Frames are in nm.
    numbers : ndarray of shape (n,)
        Place of each record in the stream, from 0. Rejected records have numbers too: those of good ones have gaps.
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

    @staticmethod
    def none(rejected: tuple[Rejected, ...] = (), position: Position = None) -> Records:
        """Return no records, or only ``rejected`` ones, after which the source continues at ``position``."""
        return Records(np.empty((0, 0)), np.empty(0, dtype=np.int64), None, np.empty(0), rejected, position)

    @staticmethod
    def joined(parts: Sequence[Records]) -> Records:
        """Return ``parts``, consecutive and of one shape, as one: with all rejected ones, and the last position."""
        if len(parts) == 1:
            return parts[0]
        filled = [part for part in parts if len(part)] or [parts[0]]
        times = [np.full(len(part), np.nan) if part.times is None else part.times for part in filled]
        return Records(
            np.concatenate([part.points for part in filled]),
            np.concatenate([part.numbers for part in filled]),
            None if all(part.times is None for part in filled) else np.concatenate(times),
            np.concatenate([part.arrived for part in filled]),
            tuple(one for part in parts for one in part.rejected),
            parts[-1].position,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def empty(self) -> bool:
        """Whether nothing was received, not even something to be rejected."""
        return not (len(self.numbers) or self.rejected)

    def take(
        self, mask: NDArray[np.bool_], rejected: tuple[Rejected, ...] = (), position: Position = None
    ) -> Records:
        """Return the records that ``mask`` is True for, with ``rejected`` and ``position`` attached to them."""
        times = None if self.times is None else self.times[mask]
        return Records(self.points[mask], self.numbers[mask], times, self.arrived[mask], rejected, position)


@dataclass(slots=True)
class Embedded:
    """Consecutive records with their place on the map.

    Attributes
    ----------
    records : Records
        As they came; their ``numbers``, ``times``, ``arrived``, ``rejected``, ``position`` and
        ``points`` are attributes here as well.
    coordinates : ndarray of shape (n, k)
        ψ of each record.
    coverage : Coverage
        Distance to the nearest landmark, inside the map or not, which landmark.
    regions : ndarray of shape (n,)
        Index in the tracker's ``names`` of the region that each record is in, -1 for none.
    events : tuple of Event
        What happened at these records, in order.
    names : sequence of str or None
        What the coordinates are called; None for psi2, psi3, ....
    """

    records: Records
    coordinates: NDArray[Any]
    coverage: Coverage
    regions: NDArray[np.intp]
    events: tuple[Event, ...] = ()
    names: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.records.numbers)

    # Of the records.
    numbers = property(attrgetter("records.numbers"))
    times = property(attrgetter("records.times"))
    arrived = property(attrgetter("records.arrived"))
    rejected = property(attrgetter("records.rejected"))
    position = property(attrgetter("records.position"))
    points = property(attrgetter("records.points"))

    def take(self, mask: NDArray[np.bool_]) -> Embedded:
        """Return the records that ``mask`` is True for, with their events, without rejected ones and position."""
        records = self.records.take(mask)
        numbers = set(records.numbers.tolist())
        parts: list[Any] = [None if part is None else part[mask] for part in self.coverage]
        return Embedded(
            records,
            self.coordinates[mask],
            Coverage(*parts),
            self.regions[mask],
            tuple(event for event in self.events if event.number in numbers),
            self.names,
        )
