"""Follows a stream through regions and reports when it enters, leaves or dwells.

A region's two masks give hysteresis in space; this module adds the one in time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
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

#: Names and shares of what makes a record, by its row, far from the map.
_Explain = Callable[[int], tuple[tuple[str, float], ...]]
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
    number, time : int, float or None
        Record at which it was decided, and its time, if the source has one.
    duration : int
        Records since the stream entered the region; 0 for "enter".
    began, began_time : int or None, float or None
        Record at which the stream entered a region that explains its events (an alarm, or what lies off the
        map), and its time; the others below are None or empty for other regions, too.
    peak, p : float or None
        Largest distance from the nearest landmark since then, in √ε; the p-value there, if the map is calibrated.
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
        facts = {**vars(self), "why": dict(self.why)}
        for name in ("time", "began_time"):
            facts[name] = None if facts[name] is None or not isfinite(facts[name]) else facts[name]
        return dict(list(facts.items())[:5]) if self.began is None else facts

    def __str__(self) -> str:
        text = f"{self.kind}:{self.region} at record {self.number}"
        if self.began is None or self.peak is None:
            return text
        if self.kind == "leave":
            text += f", after {self.duration} records"
        chance = "" if self.p is None else f", p = {self.p:.2g}"
        because = "; " * bool(self.why) + ", ".join(f"{name} {100 * part:.0f} %" for name, part in self.why)
        return f"{text}: {self.peak:.3g} sqrt(epsilon) from the map{chance}{because}"


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
        self.regions = dict(regions)
        self.names = tuple(self.regions)
        self.enter_after = check_whole("enter_after", enter_after, 1)
        self.leave_after = check_whole("leave_after", leave_after, 1)
        self.dwell_every = None if dwell_every is None else check_whole("dwell_every", dwell_every, 1)
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

        If the ``model`` is not calibrated and no ``rate`` is asked for, the alarm is :class:`OutOfDomain`, at no
        promised rate. Of further ``regions``, one called "alarm" takes its place. ``rate`` and ``adapt`` are as for
        :meth:`Alarm.of`, and ``settings`` as for the class.
        """
        alarm: Region = OutOfDomain()
        alarm.hold = LEAST_HOLD
        if model.embedder_.calibration is not None or rate is not None or adapt:
            alarm = Alarm.of(model, rate, adapt=adapt)
        return cls({"alarm": alarm, **(regions or {})}, **settings)

    def reset(self) -> None:
        """Forget the stream: it is outside every region again."""
        self._followed = [
            _Followed(region, self.enter_after, region.hold or self.leave_after, self.dwell_every)
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
        explain: _Explain = lambda row: (),
    ) -> tuple[NDArray[np.intp], tuple[Event, ...]]:
        """Return labels and events of the next records of the stream.

        ``coordinates`` and ``coverage`` are of the same points, ``numbers`` their places in the stream, and ``times``
        (or None) are copied to the events. ``explain`` says why one of these records is far from the map. Labels are
        places in ``names`` of the first region that a record is in, -1 for none; events are in the order of records,
        and at one record what is left comes before what is entered.
        """
        n = len(coordinates)
        labels = np.full(n, -1, dtype=np.intp)
        if n == 0:
            return labels, ()
        numbers = np.asarray(numbers)
        times = None if times is None else np.asarray(times)
        changes: list[tuple[int, int, int, int, dict[str, Any]]] = []
        for place, followed in enumerate(self._followed):
            inside, happened = followed.follow(coordinates, coverage, numbers, times, explain)
            if happened or followed.inside:
                labels[inside & (labels < 0)] = place
            changes += [(row, kind, place, duration, visit) for row, kind, duration, visit in happened]
        events = []
        for row, kind, place, duration, visit in sorted(changes, key=lambda change: change[:3]):
            time = None if times is None else float(times[row])
            events.append(Event(_KINDS[kind], self.names[place], int(numbers[row]), time, duration, **visit))
        return labels, tuple(events)

    def state(self) -> dict[str, Any]:
        """Return where the stream is, as JSON values for a checkpoint."""
        return {
            "regions": self._fingerprint(),
            "inside": {name: one.state() for name, one in zip(self.names, self._followed, strict=True)},
        }

    def restore(self, state: Any) -> None:
        """Go on from what :meth:`state` returned as ``state``; regions and settings must be the same."""
        try:
            same = state["regions"] == self._fingerprint()
            kept = [tuple(state["inside"][name]) for name in self.names] if same else []
        except (KeyError, TypeError) as error:
            raise InvalidInputError(f"this is not the state of a tracker: {error!r}") from error
        if not same:
            raise InvalidInputError(
                "the regions or the tracker's settings are not those of the checkpoint; resume with the same ones, "
                "or start again"
            )
        for one, facts in zip(self._followed, kept, strict=True):
            one.restore(facts)

    def _fingerprint(self) -> str:
        what = [
            {name: region.as_dict() for name, region in self.regions.items()},
            list(self.names),
            [self.enter_after, self.leave_after, self.dwell_every],
        ]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


class _Followed:
    """Where the stream is with respect to one region."""

    #              enter_after records in a row that enter
    # outside  ──────────────────────────────────────────────►  inside
    #          ◄──────────────────────────────────────────────
    #              leave_after records in a row that do not stay
    #
    # A point that enters also stays, so no record can do both: outside it is enough to count those that enter,
    # inside those that do not stay.

    def __init__(self, region: Region, enter_after: int, leave_after: int, dwell_every: int | None) -> None:
        self.region = region
        self.enter_after, self.leave_after, self.dwell_every = enter_after, leave_after, dwell_every
        self.inside = False
        self.run = self.duration = 0  # records in a row that ask for a change, and records since the entry
        self.visit: dict[str, Any] = {}  # the event under way, as a region that explains its events tells it
        # A threshold that adapts: now, and before the event under way.
        self.level = self.level_before = region.threshold if isinstance(region, Alarm) else 0.0

    def state(self) -> list[Any]:
        """Return all that changes, as JSON values."""
        coming, going = (0, self.run) if self.inside else (self.run, 0)
        levels = [self.level, self.level_before] if self.region.step else []
        return [self.inside, coming, going, self.duration, self.visit, *levels]

    def restore(self, state: Any) -> None:
        """Go on from what :meth:`state` returned; of earlier versions it ends before the visit."""
        inside, coming, going, duration, *more = state
        self.inside, self.run, self.duration = bool(inside), int(going if inside else coming), int(duration)
        self.visit = dict(more[0]) if more else {}
        if self.visit:
            self.visit["why"] = tuple((str(name), float(share)) for name, share in self.visit["why"])
        if self.region.step:
            self.level, self.level_before = float(more[1]), float(more[2])

    def follow(
        self,
        coordinates: NDArray[Any],
        coverage: Coverage,
        numbers: NDArray[Any],
        times: NDArray[Any] | None,
        explain: _Explain,
    ) -> tuple[NDArray[np.bool_], list[tuple[int, int, int, dict[str, Any]]]]:
        """Return whether the stream is inside after each record, and events as (row, kind, duration, visit)."""
        masks: Iterable[tuple[bool, bool]]
        happened: list[tuple[int, int, int, dict[str, Any]]] = []
        if isinstance(self.region, Alarm) and self.region.step:
            masks = self._moving(self.region, coverage.distance.tolist())
        else:
            entering, staying = self.region.masks(coordinates, coverage)
            if not self.inside and not entering.any():  # as nearly always
                self.run = 0
                return entering, happened
            masks = zip(entering.tolist(), (staying | entering).tolist(), strict=True)
        inside = np.zeros(len(coordinates), dtype=bool)
        run, began, since = self.run, -1 - self.duration, 0
        for row, (enters, stays) in enumerate(masks):
            kind = _DWELL
            if not self.inside:
                run = run + 1 if enters else 0
                if run < self.enter_after:
                    continue
                kind, began, since = _ENTER, row, row
                if self.region.explains:
                    time = None if times is None else float(times[row])
                    self.visit = {"began": int(numbers[row]), "began_time": time, "peak": -1.0, "why": ()}
            else:
                run = 0 if stays else run + 1
                if run >= self.leave_after:
                    kind = _LEAVE
                    inside[max(began, 0) : row] = True
                elif self.dwell_every is None or (row - began) % self.dwell_every:
                    continue
            after = row + (kind != _LEAVE)
            self._look(coverage, since, after, explain)
            happened.append((row, kind, row - began, dict(self.visit)))
            since = after
            if kind != _DWELL:
                self.inside, run = kind == _ENTER, 0
            if kind == _LEAVE:
                self.visit = {}
        if self.inside:
            inside[max(began, 0) :] = True
            self._look(coverage, since, len(inside), explain)
        self.run, self.duration = run, len(inside) - 1 - began if self.inside else 0
        return inside, happened

    def _look(self, coverage: Coverage, first: int, last: int, explain: _Explain) -> None:
        """Remember the farthest record of a visit."""
        if not self.visit or first == last:
            return
        row = first + int(np.argmax(coverage.distance[first:last]))
        peak = float(coverage.distance[row])
        if peak > self.visit["peak"]:
            p = None if coverage.p_value is None else float(coverage.p_value[row])
            is_known = p is not None and isfinite(p)
            self.visit |= {"peak": peak, "p": p if is_known else None, "why": explain(row)}

    def _moving(self, alarm: Alarm, scores: list[float]) -> Iterator[tuple[bool, bool]]:
        """Yield whether each record enters and stays, and move the threshold after it."""
        rate, margin = float(alarm.rate or 0.0), alarm.threshold - alarm.release

        def ordinary(score: float, level: float) -> bool:
            # What the calibration calls ordinary ends an event, however low the threshold has come: with a long tail
            # the margin is wider than the whole bulk of the scores.
            return score <= max(level - margin, alarm.release)

        for score in scores:
            is_far, before, was_inside = score > self.level, self.level, self.inside
            yield is_far, not ordinary(score, self.level)
            # The level moves by γ(1{alarm} − α), in units of the score; γ is smaller while an event lasts.
            gain = PART_OF_STEP if was_inside else 1.0
            self.level = max(self.level + alarm.step * (gain * is_far - rate), alarm.release)
            if self.inside and not was_inside:
                self.level_before = before
            elif was_inside and not self.inside and ordinary(score, self.level_before):
                # It came back to where it was: one alarm, and no drift.
                self.level = self.level_before + alarm.step * (1.0 - rate)
