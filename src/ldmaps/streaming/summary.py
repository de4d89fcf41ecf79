"""What became of a stream, and how long its records took."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import door
from ldmaps.streaming.records import Embedded

#: Classes per doubling: percentiles are right to about 4 %.
_TO_AN_OCTAVE = 16
_SHORTEST = 1e-7
_CLASSES = 44 * _TO_AN_OCTAVE  # up to 20 days
_KEPT = ("read", "records", "rejected", "missing", "inside", "stalls", "batches")


class LatencyHistogram:
    """Counts durations in classes whose width grows with the duration."""

    def __init__(self) -> None:
        self.counts = np.zeros(_CLASSES, dtype=np.int64)
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    def add(self, seconds: NDArray[Any]) -> None:
        """Count durations, at least one."""
        places = (_TO_AN_OCTAVE * np.log2(np.maximum(seconds, _SHORTEST) / _SHORTEST)).astype(np.int64)
        self.counts += np.bincount(np.minimum(places, _CLASSES - 1), minlength=_CLASSES)
        self.total += float(seconds.sum())
        self.longest = max(self.longest, float(seconds.max()))
        self.count += len(seconds)

    def add_one(self, seconds: float) -> None:
        """Count a single duration."""
        place = int(_TO_AN_OCTAVE * math.log2(max(seconds, _SHORTEST) / _SHORTEST))
        self.counts[min(place, _CLASSES - 1)] += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)
        self.count += 1

    def percentile(self, percent: float) -> float:
        """Return the duration that so many percent of the records did not exceed; 0 without records."""
        if self.count == 0:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self.counts), math.ceil(self.count * percent / 100)))
        return min(_SHORTEST * math.exp2((place + 0.5) / _TO_AN_OCTAVE), self.longest)

    @property
    def mean(self) -> float:
        """Mean duration."""
        return self.total / self.count if self.count else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return percentiles in seconds."""
        percentiles = {f"p{percent:g}": self.percentile(percent) for percent in (50, 99, 99.9)}
        return percentiles | {"mean": self.mean, "longest": self.longest}


@dataclass
class StreamSummary:
    """Counts of a stream; those of earlier runs with the same checkpoint are included.

    Attributes
    ----------
    read : int
        Records that the source gave, but for those it could not read: what ``max_records`` counts.
    records, inside : int
        Records that were embedded, and those of them that the map covers.
    rejected, missing : int
        Records that could not be embedded, and those of them that have missing values.
    events : Counter
        How often each ``"kind:region"`` happened.
    stalls, batches : int
        How often nothing came for ``stall_after`` seconds, and batches that were embedded.
    resumed_from : int
        Records of earlier runs.
    seconds, latency : float, LatencyHistogram
        Duration of this run, and in it from a record's arrival to the return of all sinks.
    peak_queue : int
        Most records that waited between reading and embedding.
    ended : {"end", "stopped", "limit", "failed"}
        Why this run is over: the source ended, it was asked to stop, ``max_records``
        was reached, or an exception was raised.
    """

    read: int = 0
    records: int = 0
    rejected: int = 0
    missing: int = 0
    inside: int = 0
    events: Counter[str] = field(default_factory=Counter)
    stalls: int = 0
    batches: int = 0
    resumed_from: int = 0
    seconds: float = 0.0
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    peak_queue: int = 0
    ended: str = "failed"
    _began: float = field(default_factory=lambda: door.monotonic(), repr=False)

    @property
    def rate(self) -> float:
        """Records per second in this run, up to now."""
        seconds = self.seconds or door.monotonic() - self._began
        return (self.records - self.resumed_from) / max(seconds, 1e-9)

    @property
    def inside_share(self) -> float:
        """Share of the records that the map covers."""
        return self.inside / self.records if self.records else 0.0

    def count(self, embedded: Embedded) -> None:
        """Add a batch, ``embedded``, that all sinks have taken."""
        n = len(embedded)
        if n == 1:  # a stream of single records: no arrays
            self.latency.add_one(door.monotonic() - float(embedded.arrived[0]))
            self.inside += bool(embedded.coverage.inside[0])
        elif n:
            self.latency.add(door.monotonic() - embedded.arrived)
            self.inside += int(np.count_nonzero(embedded.coverage.inside))
        self.batches += 1
        self.records += n
        self.rejected += len(embedded.rejected)
        self.missing += sum(one.missing for one in embedded.rejected)
        for event in embedded.events:
            self.events[f"{event.kind}:{event.region}"] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values: counts, rates and percentiles of the latency."""
        counts = (
            "read",
            "records",
            "rejected",
            "missing",
            "inside",
            "events",
            "stalls",
            "batches",
            "resumed_from",
        )
        return {
            **{name: getattr(self, name) for name in counts},
            "inside": self.inside_share,
            "events": dict(sorted(self.events.items())),
            "seconds": self.seconds,
            "rate": self.rate,
            "latency": self.latency.as_dict(),
            "peak_queue": self.peak_queue,
            "ended": self.ended,
        }

    def kept(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {name: getattr(self, name) for name in _KEPT} | {"events": dict(self.events)}

    def restore(self, kept: dict[str, Any]) -> None:
        """Go on from a checkpoint's counts: ``kept`` is what :meth:`kept` returned."""
        for name in _KEPT:
            setattr(self, name, int(kept.get(name, 0)))
        self.events = Counter({str(key): int(value) for key, value in kept["events"].items()})
        self.resumed_from = self.records
