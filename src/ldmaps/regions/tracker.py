"""Follows a stream through regions and reports when it enters, leaves or dwells.

A region's two masks give hysteresis in space; this module adds the one in time. Each
region has a small state machine:

                 enter_after records in a row that enter
    outside  ──────────────────────────────────────────────►  inside
             ◄──────────────────────────────────────────────
                 leave_after records in a row that do not stay

A point that enters also stays, so no record can do both, and the state is set by whichever
run of records was completed last. So a whole batch can be computed at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import Region
from ldmaps.settings import check_whole

__all__ = ["Event", "RegionTracker"]

#: Order of events at one record: what is left is left before something else is entered.
_LEAVE, _ENTER, _DWELL = 0, 1, 2
_KINDS = ("leave", "enter", "dwell")


@dataclass(frozen=True)
class Event:
    """Something happened to a region.

    Attributes
    ----------
    kind : {"enter", "leave", "dwell"}
        What the stream did.
    region : str
        Name of the region.
    number : int
        Record at which it was decided.
    time : float or None
        The record's time, if the source has one.
    duration : int
        Records since the stream entered the region; 0 for "enter".
    """

    kind: str
    region: str
    number: int
    time: float | None
    duration: int

    def as_dict(self) -> dict[str, Any]:
        """Return the event as JSON values; a time that is not finite becomes None."""
        return {**vars(self), "time": None if self.time is None or not isfinite(self.time) else self.time}


class RegionTracker:
    """Labels records with regions and reports events; remembers where the stream is.

    The result does not depend on how the stream is cut into batches.

    Parameters
    ----------
    regions : mapping of str to Region
        By name. Each is tracked independently; where regions overlap, a record gets the
        label of the first one.
    enter_after : int
        Records in a row that must lie in a region before it is entered.
    leave_after : int
        Records in a row that must lie beyond a region's margin before it is left.
    dwell_every : int, optional
        Report a "dwell" event after every so many records in a region.

    Attributes
    ----------
    names : tuple of str
        Of the regions, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps.extension import Coverage
    >>> from ldmaps.regions import Box
    >>> tracker = RegionTracker({"right": Box({"psi2": (0.5, None)}, margin=0.2)})
    >>> x = np.array([[0.0], [0.6], [0.4], [0.1]])
    >>> anywhere = Coverage(np.zeros(4), np.ones(4, bool), np.zeros(4, int))
    >>> labels, events = tracker.update(x, anywhere, np.arange(4), None)
    >>> labels
    array([-1,  0,  0, -1])
    >>> [(event.kind, event.number, event.duration) for event in events]
    [('enter', 1, 0), ('leave', 3, 2)]
    """

    def __init__(
        self,
        regions: Mapping[str, Region],
        *,
        enter_after: int = 1,
        leave_after: int = 1,
        dwell_every: int | None = None,
    ) -> None:
        if not regions:
            raise InvalidInputError("a tracker needs at least one region, got none")
        for name, value in (
            ("enter_after", enter_after),
            ("leave_after", leave_after),
            ("dwell_every", 1 if dwell_every is None else dwell_every),
        ):
            check_whole(name, value, 1)
        self.regions = dict(regions)
        self.names = tuple(self.regions)
        self.enter_after = int(enter_after)
        self.leave_after = int(leave_after)
        self.dwell_every = None if dwell_every is None else int(dwell_every)
        self.reset()

    def reset(self) -> None:
        """Forget the stream: it is outside every region again."""
        self._followed = [_Followed(self.enter_after, self.leave_after) for _ in self.names]

    @property
    def inside(self) -> tuple[str, ...]:
        """Names of the regions that the stream is in now."""
        return tuple(name for name, one in zip(self.names, self._followed, strict=True) if one.inside)

    def update(
        self,
        coordinates: NDArray[Any],
        coverage: Coverage,
        numbers: ArrayLike,
        times: ArrayLike | None,
    ) -> tuple[NDArray[np.intp], tuple[Event, ...]]:
        """Return labels and events of the next records of the stream.

        Parameters
        ----------
        coordinates : ndarray of shape (n, k)
            As ``transform`` returns them.
        coverage : Coverage
            Of the same points.
        numbers : array-like of shape (n,)
            Place of each record in the stream.
        times : array-like of shape (n,), optional
            Copied to the events.

        Returns
        -------
        labels : ndarray of shape (n,)
            Index in ``names`` of the first region that each record is in, -1 for none.
        events : tuple of Event
            By record; at one record what is left comes before what is entered.
        """
        n = len(coordinates)
        labels = np.full(n, -1, dtype=np.intp)
        if n == 0:
            return labels, ()
        numbers = np.asarray(numbers)
        times = None if times is None else np.asarray(times)
        changes: list[tuple[int, int, int, int]] = []
        for place, (region, followed) in enumerate(zip(self.regions.values(), self._followed, strict=True)):
            entering, staying = region.masks(coordinates, coverage)
            if n == 1:  # as it comes from a simulation: plain numbers are several times faster here
                happened = followed.step(bool(entering[0]), bool(staying[0]), self.dwell_every)
                if followed.inside and labels[0] < 0:
                    labels[0] = place
            else:
                inside, happened = followed.advance(entering, staying, self.dwell_every)
                labels[inside & (labels < 0)] = place
            changes += [(row, kind, place, duration) for row, kind, duration in happened]
        changes.sort()
        return labels, tuple(
            Event(
                kind=_KINDS[kind],
                region=self.names[place],
                number=int(numbers[row]),
                time=None if times is None else float(times[row]),
                duration=duration,
            )
            for row, kind, place, duration in changes
        )

    def state(self) -> dict[str, Any]:
        """Return where the stream is, as JSON values for a checkpoint."""
        return {
            "regions": self._fingerprint(),
            "inside": {
                name: [one.inside, one.entering, one.away, one.duration]
                for name, one in zip(self.names, self._followed, strict=True)
            },
        }

    def restore(self, state: Any) -> None:
        """Go on from an earlier state; regions and settings must be the same.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned.
        """
        try:
            same = state["regions"] == self._fingerprint()
            kept = [tuple(state["inside"][name]) for name in self.names] if same else []
        except (KeyError, TypeError) as error:
            raise InvalidInputError(f"this is not the state of a tracker: {error!r}") from error
        if not same:
            raise InvalidInputError(
                "the regions or the tracker's settings are not those of the checkpoint; go on with the same ones, "
                "or start again"
            )
        for one, (inside, entering, away, duration) in zip(self._followed, kept, strict=True):
            one.inside, one.entering = bool(inside), int(entering)
            one.away, one.duration = int(away), int(duration)

    def _fingerprint(self) -> str:
        what = [
            {name: region.as_dict() for name, region in self.regions.items()},
            list(self.names),
            [self.enter_after, self.leave_after, self.dwell_every],
        ]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


class _Followed:
    """Where the stream is with respect to one region."""

    __slots__ = ("away", "duration", "enter_after", "entering", "inside", "leave_after")

    def __init__(self, enter_after: int, leave_after: int) -> None:
        self.enter_after = enter_after
        self.leave_after = leave_after
        self.inside = False
        self.entering = self.away = self.duration = 0

    def step(self, entering: bool, staying: bool, dwell_every: int | None) -> list[tuple[int, int, int]]:
        """Do what :meth:`advance` does for one record."""
        self.entering = min(self.entering + 1, self.enter_after) if entering else 0
        self.away = 0 if staying or entering else min(self.away + 1, self.leave_after)
        if not self.inside:
            if self.entering < self.enter_after:
                return []
            self.inside, self.duration = True, 0
            return [(0, _ENTER, 0)]
        duration = self.duration = self.duration + 1
        if self.away >= self.leave_after:
            self.inside, self.duration = False, 0
            return [(0, _LEAVE, duration)]
        return [(0, _DWELL, duration)] if dwell_every and duration % dwell_every == 0 else []

    def advance(
        self, entering: NDArray[np.bool_], staying: NDArray[np.bool_], dwell_every: int | None
    ) -> tuple[NDArray[np.bool_], list[tuple[int, int, int]]]:
        """Return whether the stream is inside after each record, and events as (row, kind, duration)."""
        n = len(entering)
        runs_in = _run_lengths(entering, self.entering)
        runs_out = _run_lengths(~(staying | entering), self.away)
        rows = np.arange(n)
        enters, leaves = runs_in >= self.enter_after, runs_out >= self.leave_after
        last = np.maximum.accumulate(np.where(enters | leaves, rows, -1))
        inside = np.where(last >= 0, enters[last], self.inside)
        before = np.concatenate(([self.inside], inside[:-1]))
        entered = inside & ~before
        left = before & ~inside
        # Durations count from the row of entry, which for a visit under way lies before this batch.
        since = np.maximum.accumulate(np.where(entered, rows, -1 - self.duration))
        durations = rows - since
        happened = [(int(row), _ENTER, 0) for row in np.flatnonzero(entered)]
        happened += [(int(row), _LEAVE, int(durations[row])) for row in np.flatnonzero(left)]
        if dwell_every is not None:
            dwelt = inside & ~entered & (durations % dwell_every == 0)
            happened += [(int(row), _DWELL, int(durations[row])) for row in np.flatnonzero(dwelt)]
        self.inside = bool(inside[-1])
        self.entering = min(int(runs_in[-1]), self.enter_after)
        self.away = min(int(runs_out[-1]), self.leave_after)
        self.duration = int(durations[-1]) if self.inside else 0
        return inside, happened


def _run_lengths(mask: NDArray[np.bool_], before: int) -> NDArray[np.intp]:
    """Return how many records in a row, up to each one, are True; ``before`` were so already."""
    rows = np.arange(len(mask))
    runs: NDArray[np.intp] = rows - np.maximum.accumulate(np.where(mask, -1 - before, rows))
    return runs
