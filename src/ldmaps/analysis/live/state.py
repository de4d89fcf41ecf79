"""What the live page knows of a stream: counters, a thinned recent past, the last events; of bounded size.

The stream's thread calls :meth:`LiveState.take`; the server's thread calls the rest. Neither waits for a viewer.

A frame is one binary message, little-endian:

    uint32 length of the head | head: JSON, padded to a multiple of 4 | float32 rows of shape (points, 3 + k)

and a row is (age in seconds, distance to the nearest landmark, code, coordinates); code = 2·(region + 1) + outside.
Outside is what the alarm says if the first region is one, and what the map does not cover otherwise.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.streaming.records import Embedded

#: Points kept of each second of a fast stream, and how many may be kept at once after a pause.
POINTS_A_SECOND, BURST = 250, 500
#: Points and events kept.
HISTORY, EVENTS = 4096, 200
#: Most points in a frame, and in the first one, which carries the past.
MOST, MOST_AT_FIRST = 500, 2000
#: Seconds that rates are averaged over, and seconds of which each has its own entry in the page's small chart.
WINDOW, SECONDS = 1.0, 120


class Cursor(NamedTuple):
    """What a viewer has received so far."""

    point: int
    event: int


class Frame(NamedTuple):
    """One message and where it leaves its viewer."""

    data: bytes
    cursor: Cursor
    version: int


class LiveState:
    """A bounded summary of a stream: so many coordinates of its points, and regions in the tracker's order."""

    def __init__(self, n_coordinates: int, region_names: Sequence[str] = ()) -> None:
        self._k = n_coordinates
        self._names = tuple(region_names)
        self._lock = threading.Lock()
        self._rows = np.zeros((HISTORY, 3 + n_coordinates), dtype=np.float32)
        self._when = np.zeros(HISTORY, dtype=np.float64)
        self._delay = np.zeros(HISTORY, dtype=np.float32)
        self._points = 0  # ever kept: the place in the ring is this modulo its size
        self._allowance, self._allowed_at = float(BURST), time.monotonic()
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._event_count = 0
        self._alarm: dict[str, Any] | None = None  # the alarm that lasts
        self.has_alarm = False  # whether the first region is one
        self._records = self._rejected = self._outside = 0
        self._by_region = np.zeros(len(self._names) + 1, dtype=np.int64)
        self._last: Embedded | None = None
        self._problem = ""
        self._status = "waiting"
        self._version = 0
        self._window: deque[tuple[float, int, int]] = deque([(time.monotonic(), 0, 0)])
        self._seconds: deque[tuple[float, float]] = deque(maxlen=SECONDS)
        self._second_count = 0
        self._second_began = (time.monotonic(), 0, 0)
        self._frames: dict[Cursor, Frame] = {}
        self.viewers = 0

    # -- the stream's side --------------------------------------------------------

    def take(self, embedded: Embedded) -> None:
        """Note records; the cost is a few whole-array operations and at most ``BURST`` copied rows."""
        n, now = len(embedded), time.monotonic()
        regions = self._known(embedded.regions)
        is_outside = regions == 0 if self.has_alarm else ~embedded.coverage.inside
        outside = int(np.count_nonzero(is_outside))
        counts = np.bincount(regions + 1, minlength=len(self._names) + 1) if self._names else n
        with self._lock:
            self._version += 1
            self._status = "running"
            self._rejected += len(embedded.rejected)
            if embedded.rejected:
                self._problem = embedded.rejected[-1].reason[:200]
            self._note_events(embedded)
            if not n:
                return
            self._records += n
            self._outside += outside
            self._by_region += counts
            self._keep(embedded, regions, is_outside, now)
            self._last = embedded  # read when a frame is made, which is rarer

    def finish(self, problem: str | None = None) -> None:
        """Note that the stream has ended, or what stopped it."""
        with self._lock:
            self._version += 1
            self._status = "ended" if problem is None else "failed"
            self._problem = self._problem if problem is None else problem[:500]

    def _note_events(self, embedded: Embedded) -> None:
        self._event_count += len(embedded.events)
        clock = time.time()
        first = self._event_count - min(len(embedded.events), EVENTS)
        for place, event in enumerate(embedded.events[-EVENTS:], first):
            self._events.append({"id": place, **event.as_dict(), "at": round(clock, 3)})
            if event.began is not None and event.kind != "dwell":
                self._alarm = self._events[-1] if event.kind == "enter" else None

    def _keep(
        self, embedded: Embedded, regions: NDArray[np.intp], is_outside: NDArray[np.bool_], now: float
    ) -> None:
        """Copy as many evenly spread records as the allowance permits, the last one among them."""
        self._allowance = min(BURST, self._allowance + POINTS_A_SECOND * (now - self._allowed_at))
        self._allowed_at = now
        n = len(embedded)
        most = min(n, int(self._allowance))
        if most < 1:
            return
        step = -(-n // most)
        rows = slice((n - 1) % step, None, step)
        coordinates = embedded.coordinates[rows, : self._k]
        kept = len(coordinates)
        self._allowance -= kept
        places = (self._points + np.arange(kept)) % HISTORY
        self._rows[places, 1] = embedded.coverage.distance[rows]
        self._rows[places, 2] = 2 * (regions[rows] + 1) + is_outside[rows]
        self._rows[places, 3:] = coordinates
        self._when[places] = now
        self._delay[places] = now - embedded.arrived[rows]
        self._points += kept

    def _known(self, regions: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return regions as this page knows them: a tracker may have more than it was told about."""
        return np.where(regions < len(self._names), regions, -1)

    # -- the server's side --------------------------------------------------------

    def tick(self) -> None:
        """Measure rates; called at the frame rate."""
        now = time.monotonic()
        with self._lock:
            self._frames.clear()
            self._window.append((now, self._records, self._outside))
            while len(self._window) > 2 and now - self._window[1][0] >= WINDOW:
                self._window.popleft()
            began, records, outside = self._second_began
            if now - began >= 1.0:
                came = self._records - records
                share = (self._outside - outside) / came if came else 0.0
                self._seconds.append((came / (now - began), share))
                self._second_count += 1
                self._second_began = (now, self._records, self._outside)

    def frame(self, after: Cursor | None) -> Frame:
        """Return what a viewer has not received yet; None asks for the past, too."""
        with self._lock:
            ready = None if after is None else self._frames.get(after)
            if ready is not None:
                return ready  # viewers that keep up share their frames
            now = time.monotonic()
            oldest = max(0, self._points - HISTORY)
            first = oldest if after is None else max(oldest, after.point)
            numbers = np.arange(first, self._points)
            most = MOST_AT_FIRST if after is None else MOST
            if len(numbers) > most:
                step = -(-len(numbers) // most)
                numbers = numbers[(len(numbers) - 1) % step :: step]
            places = numbers % HISTORY
            rows = self._rows[places]
            rows[:, 0] = now - self._when[places]
            head = self._head(now)
            head["events"] = [event for event in self._events if after is None or event["id"] >= after.event]
            if after is None:
                head["seconds"] = [[round(rate, 3), round(share, 5)] for rate, share in self._seconds]
            cursor = Cursor(self._points, self._event_count)
            version = self._version
        text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-len(text) % 4)
        data = struct.pack("<I", len(text)) + text + rows.astype("<f4", copy=False).tobytes()
        made = Frame(data, cursor, version)
        if after is not None:
            with self._lock:
                self._frames[after] = made
        return made

    def _current(self) -> dict[str, Any] | None:
        last = self._last
        if last is None:
            return None
        p, region = last.coverage.p_value, int(self._known(last.regions[-1:])[0])
        return {
            "number": int(last.numbers[-1]),
            "time": None if last.times is None else _finite(last.times[-1]),
            "region": region,
            "inside": region != 0 if self.has_alarm else bool(last.coverage.inside[-1]),
            "p": None if p is None else _finite(p[-1]),
            "distance": _finite(last.coverage.distance[-1]),
            "coordinates": [_finite(value) for value in last.coordinates[-1, : self._k]],
        }

    def _head(self, now: float) -> dict[str, Any]:
        since, records, outside = self._window[0]
        came = self._records - records
        recent = np.arange(max(0, self._points - HISTORY, self._points - BURST), self._points) % HISTORY
        delays = self._delay[recent[now - self._when[recent] <= 2 * WINDOW]]
        worst = float(delays.max()) if len(delays) else None
        return {
            "status": self._status,
            "records": self._records,
            "rejected": self._rejected,
            "outside": self._outside,
            "problem": self._problem,
            "rate": round(came / max(now - since, 1e-3), 3),
            "outsideNow": round((self._outside - outside) / came, 5) if came else None,
            "latency": None if worst is None else [float(np.median(delays)), worst],
            "byRegion": self._by_region.tolist(),
            "alarms": self._event_count,
            "alarm": self._alarm,
            "current": self._current(),
            "second": [self._second_count, *(self._seconds[-1] if self._seconds else (0.0, 0.0))],
            "viewers": self.viewers,
            "width": 3 + self._k,
        }


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None
