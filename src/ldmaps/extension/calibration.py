"""How often a map cries wolf: conformal p-values against training points that its landmarks were not chosen from.

    s_i = distance of held-out point i to the nearest landmark,  i = 1 … n
    p(x) = (1 + ν F(s(x))) / (ν + 1),   F(s) = #{s_i ≥ s} / n,   ν of the n scores being independent

For independent points ν = n, and p(x) = (1 + #{s_i ≥ s(x)})/(n + 1): of new points like the held-out ones at most a
share α has p ≤ α, for every α, whatever their distribution (Vovk, Gammerman & Shafer 2005). Scores that follow each
other in time count as the ν = n/(2τ) independent ones that they are worth, τ being how long scores stay high.

Held-out points must be as far from landmarks as new ones are:

    rows   ─── fitted ───┤ edge │ scores │ edge ├─── fitted ───┤ edge │ …
                         └── a held-out block ──┘

Rows that resemble their neighbours in time are held out in blocks of several correlation times, and those within one
correlation time of a fitted row have no score: a landmark just before them would make them look nearer than a new point
is. All points count in multiplicities, ε and the walk: none of these changes which of two is farther from its landmark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.correlation_times import correlation_time, runs_of
from ldmaps.errors import InvalidInputError, Named
from ldmaps.metrics.base import Metric, Points, squared_matrix
from ldmaps.time_units import LENGTHS, time_unit

#: The largest scores are all kept, and as many of the others, at ranks that grow by the same factor.
KEPT = 2000
#: By default, alarms are this rare, or as rare as the calibration can promise.
DEFAULT_RATE = 1e-3
_NUMBERS = ("n_points", "n_independent", "interval")

#: Fewest scores that make a calibration, and fewest points that are held out for one: with fewer, every alarm would
#: be a common one, and small data sets lose more by it.
FEWEST, FEWEST_HELD = 20, 100
#: Points that distances are followed from, stretches of rows to follow, and rows in each.
_WATCHED_FROM, _STRETCHES, _ROWS = 8, 4, 16_384
#: Rows forget each other within this many correlation times; shorter memories do not count.
BLOCK_TIMES, SHORT_MEMORY = 8.0, 1.0
#: Where all points are landmarks, so many of them are compared with the others.
_COMPARED, _AT_ONCE = 1000, 128
#: Scores above this quantile are high.
_HIGH = 0.9
#: Held-out blocks are at least so many.
LEAST_BLOCKS = 10


@dataclass(frozen=True)
class Calibration:
    """Scores of held-out points (of all points, if all are landmarks), thinned where they are many."""

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
        return f"false-alarm rates down to 1 in {1 / self.least_rate:,.0f} can be guaranteed ({self._size})"

    @property
    def _size(self) -> str:
        """How many points, and for how many independent ones they stand if these are fewer."""
        size = f"{self.n_points:,} calibration points"
        if self.n_independent >= 0.99 * self.n_points:
            return size
        return f"{size}, about {self.n_independent:,.0f} independent"

    def header(self) -> dict[str, Any]:
        """Return all but the arrays, as a model file's header has it."""
        return {name: value for name, value in vars(self).items() if name in _NUMBERS}

    @property
    def least_rate(self) -> float:
        """The lowest false-alarm rate that can be guaranteed: 1/(ν + 1)."""
        return float(self.levels[-1])

    def threshold(self, rate: float) -> float:
        """Return the distance beyond which p is at most ``rate``, which is at least :attr:`least_rate`."""
        reached = np.flatnonzero(self.levels[1:] <= rate * (1 + 1e-12))
        if not len(reached):
            times = math.ceil(self.least_rate / rate) if rate > 0 else 0
            raise InvalidInputError(
                Named("alarm_rate", rate),
                " is too low for this map: the training points that calibrate it support false-alarm "
                f"rates down to 1 in {1 / self.least_rate:,.0f} records ({self._size}). Use ",
                Named("alarm_rate", float(f"{self.least_rate * 1.005:.2g}")),
                f" or more, or fit the map to about {times} times as many points" if times else " or more",
            )
        return float(self.scores[reached[0]])

    def rate_of(self, text: str | float | None, *, frames: bool = False) -> float:
        """Return a rate per record from a share or words such as "1/day", of frames "1/ns"; None gives the default."""
        if text is None:
            return max(DEFAULT_RATE, self.least_rate)
        number, slash, unit = str(text).partition("/")
        units = LENGTHS[time_unit(of_frames=frames)]
        try:
            rate = float(number)
            length = units[unit.strip()] if slash else None
        except (ValueError, KeyError):
            rate, length = math.nan, None
        if length is not None:
            if self.interval is None or not self.interval > 0:
                raise InvalidInputError(
                    Named("alarm_rate", text),
                    " is a rate per unit of time, but the map was fitted to points without times; give a fraction of "
                    "the records, such as ",
                    Named("alarm_rate", 0.001),
                )
            rate *= self.interval / length
        if not 0 < rate < 1:
            raise InvalidInputError(
                Named("alarm_rate"),
                " must be a fraction of the records between 0 and 1, or a number per "
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


def memory_of(
    metric: Metric,
    points: Points,
    files: NDArray[Any] | None,
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> float:
    """Return the correlation time of points in rows: the longest of their distances from a few of them."""
    distances, runs = watched_distances(metric, points, files, rng, n_threads)
    return max(correlation_time(column, runs).time for column in distances.T)


def watched_distances(
    metric: Metric,
    points: Points,
    files: NDArray[Any] | None,
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> tuple[NDArray[np.float64], list[slice]]:
    """Return distances of points, or of some stretches of them, from a few, and which rows follow each other."""
    n = len(points)
    rows = np.arange(n)
    if n > _STRETCHES * _ROWS:
        starts = np.linspace(0, n - _ROWS, _STRETCHES).astype(np.intp)
        rows = (starts[:, None] + np.arange(_ROWS)).ravel()
    if len(rows) < n or not points.are_here:
        points = points.take(rows)
    parts = np.zeros(len(rows), np.int64) if files is None else files[rows].astype(np.int64)
    edges = np.append(False, (np.diff(rows) != 1) | (np.diff(parts) != 0))
    runs = runs_of(len(rows), np.cumsum(edges).astype(np.int32))
    origins = points.take(np.sort(rng.choice(len(rows), min(_WATCHED_FROM, len(rows)), replace=False)))
    return np.sqrt(squared_matrix(metric, points, origins, n_threads), dtype=np.float64), runs


def held_out_rows(n_points: int, share: float, memory: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw which of ``n_points`` rows to hold out: about a share, spread evenly over the rows."""
    block = 1 if memory < SHORT_MEMORY else math.ceil(BLOCK_TIMES * memory)
    block = max(1, min(block, int(share * n_points) // LEAST_BLOCKS))
    every = max(2, round(1.0 / share))
    groups = -(-n_points // (block * every))
    # One block of each group of neighbouring ones.
    starts = (np.arange(groups) * every + rng.integers(every, size=groups)) * block
    rows = (starts[:, None] + np.arange(block)).ravel()
    held = np.zeros(n_points, dtype=bool)
    held[rows[rows < n_points]] = True
    return held


def scored_rows(held: NDArray[np.bool_], memory: float) -> NDArray[np.intp]:
    """Return which of the rows that are held out have a score."""
    scored = held.copy()
    if memory >= SHORT_MEMORY:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], held, [0]])))
        longest = int(edges[1] - edges[0]) if len(edges) else 0
        for step in range(1, min(math.ceil(memory), longest // 4) + 1):
            scored[step:] &= held[:-step]
            scored[:-step] &= held[step:]
    return np.flatnonzero(scored)


def is_worth_it(calibration: Calibration | None) -> bool:
    """Say whether a promise of rare alarms is worth landmarks that were not chosen from the held-out points."""
    return calibration is not None and calibration.n_independent >= FEWEST


def calibrate_by_others(
    metric: Metric,
    points: Points,
    epsilon: float,
    memory: float,
    steps: NDArray[np.float64],
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> Calibration | None:
    """Return the calibration of a map whose landmarks are all its points: distances from the nearest of the others."""
    # A new point has one more to be near to, so that its p is never too small: with it among the points, the ranks of
    # all would be exchangeable, and the distances of the others not larger than these.
    n = len(points)
    held = held_out_rows(n, min(0.5, _COMPARED / n), memory, rng) if n > _COMPARED else np.ones(n, dtype=bool)
    rows = np.flatnonzero(held)[: 2 * _COMPARED]
    gap = 0 if memory < SHORT_MEMORY else math.ceil(memory)
    scores = np.empty(len(rows))
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        squared = squared_matrix(metric, points.take(part), points, n_threads)
        for row, own in zip(part, squared, strict=True):
            own[max(row - gap, 0) : row + gap + 1] = np.inf
        scores[start : start + _AT_ONCE] = np.sqrt(squared.min(axis=1) / epsilon)
    return calibrate(rows, scores, memory, steps)


def calibrate(
    rows: NDArray[np.intp], scores: NDArray[np.float64], memory: float, steps: NDArray[np.float64]
) -> Calibration | None:
    """Return the calibration by distances of some rows in √ε, and times between rows; None where there are too few."""
    if len(rows) < FEWEST or not np.isfinite(scores).all():
        return None
    runs = runs_of(len(rows), np.cumsum(np.append(0, np.diff(rows) != 1)).astype(np.int32))
    n_independent = float(len(rows))
    if memory >= SHORT_MEMORY and max(run.stop - run.start for run in runs) > 1:
        # What makes a share of high scores uncertain is how long they stay high, not how long low ones stay low.
        n_independent = correlation_time(
            (scores > np.quantile(scores, _HIGH)).astype(float), runs
        ).n_independent
    steps = steps[np.isfinite(steps) & (steps > 0)]
    return Calibration.of(scores, n_independent, float(np.median(steps)) if len(steps) else None)
