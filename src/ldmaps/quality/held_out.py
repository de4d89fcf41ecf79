"""Training points that landmarks are not chosen from, so that their distances are those of new points.

    rows   ─── fitted ───┤ edge │ scores │ edge ├─── fitted ───┤ edge │ …
                         └── a held-out block ──┘

Rows that resemble their neighbours in time are held out in blocks of several correlation times, and those within one
correlation time of a fitted row have no score: a landmark just before them would make them look nearer than a new point
is. All points count in multiplicities, ε and the walk: none of these changes which of two is farther from its landmark.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension.calibration import Calibration
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.squared_matrix import squared_matrix
from ldmaps.quality.correlation_times import correlation_time, runs_of

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


def memory_of(
    metric: Metric,
    points: Points,
    files: NDArray[Any] | None,
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> float:
    """Return the correlation time of points in rows: the longest of their distances from a few of them."""
    n = len(points)
    rows = np.arange(n)
    if n > _STRETCHES * _ROWS:
        starts = np.linspace(0, n - _ROWS, _STRETCHES).astype(np.intp)
        rows = (starts[:, None] + np.arange(_ROWS)).ravel()
        points = points.take(rows)
    parts = np.zeros(len(rows), np.int64) if files is None else np.asarray(files)[rows].astype(np.int64)
    edges = np.append(False, (np.diff(rows) != 1) | (np.diff(parts) != 0))
    runs = runs_of(len(rows), np.cumsum(edges).astype(np.int32))
    origins = points.take(np.sort(rng.choice(len(rows), min(_WATCHED_FROM, len(rows)), replace=False)))
    distances = np.sqrt(squared_matrix(metric, points, origins, n_threads), dtype=np.float64)
    return max(correlation_time(column, runs).time for column in distances.T)


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


def calibrate(
    held: NDArray[np.bool_], distance: NDArray[Any], memory: float, times: NDArray[Any] | None = None
) -> Calibration | None:
    """Return the calibration by held-out rows, given all rows' distances in √ε; None where there are too few."""
    scored = held.copy()
    if memory >= SHORT_MEMORY:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], held, [0]])))
        longest = int(edges[1] - edges[0]) if len(edges) else 0
        for step in range(1, min(math.ceil(memory), longest // 4) + 1):
            scored[step:] &= held[:-step]
            scored[:-step] &= held[step:]
    rows = np.flatnonzero(scored)
    return _calibration(rows, np.asarray(distance, np.float64)[rows], memory, times)


def is_worth_it(calibration: Calibration | None) -> bool:
    """Say whether a promise of rare alarms is worth landmarks that were not chosen from the held-out points."""
    return calibration is not None and calibration.n_independent >= FEWEST


def calibrate_by_others(
    metric: Metric,
    points: Points,
    epsilon: float,
    memory: float,
    times: NDArray[Any] | None,
    rng: np.random.Generator,
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
        squared = squared_matrix(metric, points.take(part), points, None)
        for row, own in zip(part, squared, strict=True):
            own[max(row - gap, 0) : row + gap + 1] = np.inf
        scores[start : start + _AT_ONCE] = np.sqrt(squared.min(axis=1) / epsilon)
    return _calibration(rows, scores, memory, times)


def _calibration(
    rows: NDArray[np.intp], scores: NDArray[np.float64], memory: float, times: NDArray[Any] | None
) -> Calibration | None:
    """Return the calibration by scores of some rows, in their order."""
    if len(rows) < FEWEST or not np.isfinite(scores).all():
        return None
    runs = runs_of(len(rows), np.cumsum(np.append(0, np.diff(rows) != 1)).astype(np.int32))
    n_independent = float(len(rows))
    if memory >= SHORT_MEMORY and max(run.stop - run.start for run in runs) > 1:
        # What makes a share of high scores uncertain is how long they stay high, not how long low ones stay low.
        n_independent = correlation_time(
            (scores > np.quantile(scores, _HIGH)).astype(float), runs
        ).n_independent
    interval = None
    if times is not None and len(times) > 1:
        steps = np.diff(np.asarray(times, np.float64))
        steps = steps[np.isfinite(steps) & (steps > 0)]
        interval = float(np.median(steps)) if len(steps) else None
    return Calibration.of(scores, n_independent, interval)
