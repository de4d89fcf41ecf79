"""Follows a stream through regions and reports when it enters, leaves or dwells.

A region's two masks give hysteresis in space; this module adds the one in time. Each
region has a small state machine:

                 enter_after records in a row that enter
    outside  ──────────────────────────────────────────────►  inside
             ◄──────────────────────────────────────────────
                 leave_after records in a row that do not stay

A point that enters also stays, so no record can do both, and the state is set by whichever
run of records was completed last. So a whole batch can be computed at once, except where a threshold adapts
to the records before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.alarm import LEAST_HOLD, PART_OF_STEP, Alarm
from ldmaps.regions.base import Region
from ldmaps.regions.shapes import OutOfDomain
from ldmaps.settings import check_whole

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
    began : int or None
        Record at which the stream entered a region that explains its events (an alarm, or what lies off the
        map); the others below are None or empty for other regions, too.
    began_time : float or None
        The time of that record.
    peak : float or None
        Largest distance from the nearest landmark since then, in √ε.
    p : float or None
        The p-value there, if the map is calibrated.
    why : tuple of (str, float)
        Which columns, atoms or features account for the squared distance there, and for which share of it.
    """

    kind: str
    region: str
    number: int
    time: float | None
    duration: int
    began: int | None = None
    began_time: float | None = None
    peak: float | None = None
    p: float | None = None
    why: tuple[tuple[str, float], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the event as JSON values without what is not known; a time that is not finite becomes None."""
        facts = {**vars(self), "time": None if self.time is None or not isfinite(self.time) else self.time}
        facts["why"] = dict(self.why)
        if self.began is None:
            facts = {name: facts[name] for name in ("kind", "region", "number", "time", "duration")}
        elif self.began_time is None or not isfinite(self.began_time):
            facts["began_time"] = None
        return facts

    def __str__(self) -> str:
        text = f"{self.kind}:{self.region} at record {self.number}"
        if self.began is None or self.peak is None:
            return text
        if self.kind == "leave":
            text += f", after {self.duration} records"
        chance = "" if self.p is None else f", p = {self.p:.2g}"
        because = ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.why)
        return f"{text}: {self.peak:.3g} sqrt(epsilon) from the map{chance}" + (
            f"; {because}" if because else ""
        )


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
        Records in a row that must lie beyond a region's margin before it is left. An alarm knows its own number.
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

    @classmethod
    def watching(
        cls,
        model: Any,
        regions: Mapping[str, Region] | None = None,
        *,
        rate: str | float | None = None,
        adapt: bool = False,
        **settings: Any,
    ) -> Self:
        """Return a tracker whose first region, "alarm", is entered when a stream leaves the map.

        Parameters
        ----------
        model : LandmarkDiffusionMap or DiffusionMap
            The map, fitted or loaded. If it is not calibrated and no rate is asked for, the alarm is
            :class:`OutOfDomain`, at no promised rate.
        regions : mapping of str to Region, optional
            Further ones. One called "alarm" takes the place of this alarm.
        rate, adapt
            As for :meth:`Alarm.of`.
        **settings
            As for the class.
        """
        alarm: Region
        if model.embedder_.calibration is None and rate is None and not adapt:
            alarm = OutOfDomain()
            alarm.hold = LEAST_HOLD
        else:
            alarm = Alarm.of(model, rate, adapt=adapt)
        return cls({"alarm": alarm, **(regions or {})}, **settings)

    def reset(self) -> None:
        """Forget the stream: it is outside every region again."""
        self._followed = [
            (
                _Adapting(region, self.enter_after)
                if isinstance(region, Alarm) and region.step
                else _Followed(self.enter_after, region.hold or self.leave_after)
            )
            for region in self.regions.values()
        ]

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
        explain: Callable[[int], tuple[tuple[str, float], ...]] = lambda row: (),
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
        explain : callable
            Says why one of these records is far from the map, for the events of regions that explain them.

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
        changes: list[tuple[int, int, int, int, dict[str, Any]]] = []
        for place, (region, followed) in enumerate(zip(self.regions.values(), self._followed, strict=True)):
            was_inside = followed.inside
            entering, staying = region.masks(coordinates, coverage)
            if isinstance(followed, _Adapting):
                inside, happened = followed.follow(coverage.distance, self.dwell_every)
                labels[inside & (labels < 0)] = place
            elif n == 1:  # as it comes from a simulation: plain numbers are several times faster here
                happened = followed.step(bool(entering[0]), bool(staying[0]), self.dwell_every)
                if followed.inside and labels[0] < 0:
                    labels[0] = place
            else:
                inside, happened = followed.advance(entering, staying, self.dwell_every)
                labels[inside & (labels < 0)] = place
            visits: list[dict[str, Any]] = [{}] * len(happened)
            if region.explains and (was_inside or happened):
                visits = followed.visits(happened, was_inside, numbers, times, coverage, explain)
            changes += [
                (row, kind, place, duration, visit)
                for (row, kind, duration), visit in zip(happened, visits, strict=True)
            ]
        changes.sort(key=lambda change: change[:3])
        return labels, tuple(
            Event(
                kind=_KINDS[kind],
                region=self.names[place],
                number=int(numbers[row]),
                time=None if times is None else float(times[row]),
                duration=duration,
                **visit,
            )
            for row, kind, place, duration, visit in changes
        )

    def state(self) -> dict[str, Any]:
        """Return where the stream is, as JSON values for a checkpoint."""
        return {
            "regions": self._fingerprint(),
            "inside": {
                name: [one.inside, one.entering, one.away, one.duration, *one.more()]
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
        for one, (inside, entering, away, duration, *more) in zip(self._followed, kept, strict=True):
            one.inside, one.entering = bool(inside), int(entering)
            one.away, one.duration = int(away), int(duration)
            one.restore_more(more)

    def _fingerprint(self) -> str:
        what = [
            {name: region.as_dict() for name, region in self.regions.items()},
            list(self.names),
            [self.enter_after, self.leave_after, self.dwell_every],
        ]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


class _Followed:
    """Where the stream is with respect to one region."""

    __slots__ = ("away", "duration", "enter_after", "entering", "inside", "leave_after", "visit")

    def __init__(self, enter_after: int, leave_after: int) -> None:
        self.enter_after = enter_after
        self.leave_after = leave_after
        self.inside = False
        self.entering = self.away = self.duration = 0
        self.visit: dict[str, Any] = {}  # the event under way, as a region that explains its events tells it

    def more(self) -> list[Any]:
        """Return the rest of the state, as JSON values."""
        return [self.visit]

    def restore_more(self, more: list[Any]) -> None:
        """Go on from what :meth:`more` returned."""
        visit = dict(more[0]) if more else {}
        if visit:
            visit["why"] = tuple((str(name), float(share)) for name, share in visit["why"])
        self.visit = visit

    def visits(
        self,
        happened: list[tuple[int, int, int]],
        was_inside: bool,
        numbers: NDArray[Any],
        times: NDArray[Any] | None,
        coverage: Coverage,
        explain: Callable[[int], tuple[tuple[str, float], ...]],
    ) -> list[dict[str, Any]]:
        """Return what is to be said of each event, and remember the visit under way."""

        def look(first: int, last: int) -> None:
            """Remember the farthest record of some."""
            if first == last:
                return
            row = first + int(np.argmax(coverage.distance[first:last]))
            peak, p = float(coverage.distance[row]), coverage.p_value
            if peak > self.visit["peak"]:
                self.visit |= {"peak": peak, "p": None if p is None else float(p[row]), "why": explain(row)}

        told: list[dict[str, Any]] = [{}] * len(happened)
        since = 0 if was_inside else None
        for place in sorted(range(len(happened)), key=lambda place: happened[place][:2]):
            row, kind, _ = happened[place]
            if kind == _ENTER:
                began_time = None if times is None else float(times[row])
                self.visit = {
                    "began": int(numbers[row]),
                    "began_time": began_time,
                    "peak": -1.0,
                    "p": None,
                    "why": (),
                }
                look(row, row + 1)
                since = row + 1
            elif since is not None and self.visit:
                look(since, row + (kind == _DWELL))
                since = row + (kind == _DWELL)
            told[place] = dict(self.visit)
            if kind == _LEAVE:
                self.visit, since = {}, None
        if since is not None and self.visit:
            look(since, len(numbers))
        return told

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


class _Adapting(_Followed):
    """Where the stream is with respect to an alarm whose threshold adapts."""

    __slots__ = ("level", "level_before", "region")

    def __init__(self, region: Alarm, enter_after: int) -> None:
        super().__init__(enter_after, region.hold or 1)
        self.region = region
        self.level = self.level_before = region.threshold

    def more(self) -> list[Any]:
        return [self.visit, self.level, self.level_before]

    def restore_more(self, more: list[Any]) -> None:
        super().restore_more(more)
        self.level, self.level_before = float(more[1]), float(more[2])

    def follow(
        self, distance: NDArray[Any], dwell_every: int | None
    ) -> tuple[NDArray[np.bool_], list[tuple[int, int, int]]]:
        """Do what :meth:`advance` does, record by record, and move the threshold after each."""
        region, happened = self.region, []
        rate, margin = float(region.rate or 0.0), region.threshold - region.release
        inside = np.empty(len(distance), dtype=bool)
        for row, score in enumerate(distance.tolist()):
            is_far, before, was_inside = score > self.level, self.level, self.inside
            happened += [
                (row, kind, duration)
                for _, kind, duration in self.step(is_far, score > self.level - margin, dwell_every)
            ]
            inside[row] = self.inside
            # The level moves by γ(1{alarm} − α), in units of the score; γ is smaller while an event lasts.
            gain = PART_OF_STEP if was_inside else 1.0
            self.level = max(self.level + region.step * (gain * is_far - rate), region.release)
            if self.inside and not was_inside:
                self.level_before = before
            elif was_inside and not self.inside and score <= self.level_before - margin:
                # It came back to where it was: one alarm, and no drift.
                self.level = self.level_before + region.step * (1.0 - rate)
        return inside, happened


def _run_lengths(mask: NDArray[np.bool_], before: int) -> NDArray[np.intp]:
    """Return how many records in a row, up to each one, are True; ``before`` were so already."""
    rows = np.arange(len(mask))
    runs: NDArray[np.intp] = rows - np.maximum.accumulate(np.where(mask, -1 - before, rows))
    return runs
