"""How often a map cries wolf: conformal p-values against training points that its landmarks were not chosen from.

    s_i = distance of held-out point i to the nearest landmark,  i = 1 … n
    p(x) = (1 + ν F(s(x))) / (ν + 1),   F(s) = #{s_i ≥ s} / n,   ν of the n scores being independent

For independent points ν = n, and p(x) = (1 + #{s_i ≥ s(x)})/(n + 1): of new points like the held-out ones at most a
share α has p ≤ α, for every α, whatever their distribution (Vovk, Gammerman & Shafer 2005). Scores that follow each
other in time count as the ν = n/(2τ) independent ones that they are worth, τ being how long scores stay high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named

#: The largest scores are all kept, and as many of the others, at ranks that grow by the same factor.
KEPT = 2000
#: By default, alarms are this rare, or as rare as the calibration can promise.
DEFAULT_RATE = 1e-3
_NUMBERS = ("n_points", "n_independent", "interval")
_SECONDS = {"s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_SECONDS |= {"day": 86400.0, "d": 86400.0, "week": 604800.0, "month": 2629746.0, "year": 31556952.0}
_PICOSECONDS = {"ps": 1.0, "ns": 1e3, "us": 1e6, "µs": 1e6, "ms": 1e9}


@dataclass(frozen=True)
class Calibration:
    """Scores of held-out points, thinned where they are many."""

    scores: NDArray[np.float64]  # (m,): distances in √ε, the nearest first: those of :func:`kept_ranks`
    n_points: int  # n
    n_independent: float  # ν: for how many independent points these stand
    interval: float | None = (
        None  # median time between rows, in the source's unit (s for dates, ps for frames)
    )

    @classmethod
    def of(cls, scores: NDArray[Any], n_independent: float, interval: float | None = None) -> Calibration:
        """Keep what p-values need of the scores of held-out points, at least one."""
        farthest_first, n = np.sort(np.asarray(scores, np.float64))[::-1], len(scores)
        kept = farthest_first[kept_ranks(n) - 1][::-1]
        return cls(np.ascontiguousarray(kept), n, min(float(n_independent), float(n)), interval)

    @cached_property
    def levels(self) -> NDArray[np.float64]:
        """P of a score that exceeds none of ``scores``, the first of them, the first two, and so on."""
        # Where the j farthest that are kept reach s, fewer points do than the rank of the next.
        reaching = np.append(kept_ranks(self.n_points), self.n_points + 1)[::-1] - 1
        shares = reaching / self.n_points
        return np.asarray((1.0 + self.n_independent * shares) / (self.n_independent + 1.0))

    def p_values(self, distance: NDArray[Any]) -> NDArray[np.float64]:
        """Return p of points at these distances in √ε from the nearest landmark; too large where scores are thinned."""
        return self.levels[self.scores.searchsorted(distance, "left")]

    def __str__(self) -> str:
        worth = f", worth {self.n_independent:,.0f} independent ones" * (
            self.n_independent < 0.99 * self.n_points
        )
        return f"{self.n_points:,} held-out points{worth}, promise alarms as rare as 1 in {1 / self.least_rate:,.0f}"

    def header(self) -> dict[str, Any]:
        """Return all but the arrays, as a model file's header has it."""
        return {name: value for name, value in vars(self).items() if name in _NUMBERS}

    @property
    def least_rate(self) -> float:
        """The rarest alarm that can be promised: 1/(ν + 1)."""
        return float(self.levels[-1])

    def threshold(self, rate: float) -> float:
        """Return the distance beyond which p is at most ``rate``, which is at least :attr:`least_rate`."""
        reached = np.flatnonzero(self.levels[1:] <= rate * (1 + 1e-12))
        if not len(reached):
            times = math.ceil(self.least_rate / rate) if rate > 0 else 0
            raise InvalidInputError(
                Named("alarm_rate", rate),
                f" cannot be promised: {self.n_points:,} training points were held out to calibrate this map, worth "
                f"{self.n_independent:,.0f} independent ones, so that the rarest alarm is one in "
                f"{1 / self.least_rate:,.0f} records. Ask for ",
                Named("alarm_rate", float(f"{self.least_rate * 1.005:.2g}")),
                f" or more, or fit the map to about {times} times as many points" if times else " or more",
            )
        return float(self.scores[reached[0]])

    def rate_of(self, text: str | float | None, *, frames: bool = False) -> float:
        """Return a rate per record from a share or words such as "1/day", of frames "1/ns"; None gives the default."""
        if text is None:
            return max(DEFAULT_RATE, self.least_rate)
        number, slash, unit = str(text).partition("/")
        units = _PICOSECONDS if frames else _SECONDS
        try:
            rate = float(number)
            length = units[unit.strip()] if slash else None
        except (ValueError, KeyError):
            rate, length = math.nan, None
        if length is not None:
            if self.interval is None or not self.interval > 0:
                raise InvalidInputError(
                    Named("alarm_rate", text),
                    " needs times, but the map was fitted to points without any; give a share of the records, such as ",
                    Named("alarm_rate", 0.001),
                )
            rate *= self.interval / length
        if not 0 < rate < 1:
            raise InvalidInputError(
                Named("alarm_rate"),
                " must be a share of the records between 0 and 1, or a number per "
                f"{', '.join(units)}, such as 1/{'ns' if frames else 'day'}, got {text!r}",
            )
        return rate


def kept_ranks(n: int) -> NDArray[np.int64]:
    """Return which of n scores are kept, 1 being the farthest; the nearest is always among them.

    >>> kept_ranks(3).tolist(), len(kept_ranks(4000)) == 4000, len(kept_ranks(10**6)) <= 2 * KEPT
    ([1, 2, 3], True, True)
    """
    if n <= 2 * KEPT:
        return np.arange(1, n + 1)
    rest = np.geomspace(KEPT, n, KEPT).round().astype(np.int64)
    return np.unique(np.concatenate([np.arange(1, KEPT + 1), rest, [n]]))
