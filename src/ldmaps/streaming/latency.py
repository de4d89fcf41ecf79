"""How long records take, in a histogram of fixed size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LatencyHistogram"]

#: Classes per doubling: percentiles are right to about 4 %.
_TO_AN_OCTAVE = 16
_SHORTEST = 1e-7
_CLASSES = 44 * _TO_AN_OCTAVE  # up to 20 days


class LatencyHistogram:
    """Counts durations in classes whose width grows with the duration."""

    def __init__(self) -> None:
        self.counts = np.zeros(_CLASSES, dtype=np.int64)
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    def add(self, seconds: NDArray[Any]) -> None:
        """Count durations."""
        n = len(seconds)
        if n == 0:
            return
        places = (_TO_AN_OCTAVE * np.log2(np.maximum(seconds, _SHORTEST) / _SHORTEST)).astype(np.int64)
        self.counts += np.bincount(np.minimum(places, _CLASSES - 1), minlength=_CLASSES)
        self.total += float(seconds.sum())
        self.longest = max(self.longest, float(seconds.max()))
        self.count += n

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
        return {
            "p50": self.percentile(50),
            "p99": self.percentile(99),
            "p99.9": self.percentile(99.9),
            "mean": self.mean,
            "longest": self.longest,
        }
