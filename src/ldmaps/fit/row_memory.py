"""How many rows apart two points must be to resemble each other no more than any two do.

Consecutive rows of a trajectory are near each other in space. A point that is held out while its neighbours in time are
fitted to is predicted better than a new point would be, so it must be farther from them than rows remember:

    near(g) = distance to the nearest of all rows more than g rows away
    far     = distance to the nearest of all rows more than G rows away (a tenth of all)
    spared  = the same when as many rows around another place are left out as well

If rows g to G away are like any others, leaving them out costs what leaving out as many others does, so that
Σ far²/Σ near(g)² is about Σ spared²/Σ far². The memory of rows is the smallest g from which that holds. Slow motions
between states that were visited often do not count, because other visits have points as near; a state that was visited
once does, for as long as the visit was. (Theiler, Phys. Rev. A 34, 2427 (1986), excludes neighbours in time likewise.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ldmaps.metrics.base import Metric, Points, squared_matrix

#: Rows whose neighbours are looked for, how many at a time, and most rows that these are looked for among.
N_QUERIES, QUERIES_AT_ONCE, MOST_ROWS = 400, 50, 60_000
#: G, as a share of the rows.
FARTHEST_SHARE = 0.1
#: Rows remember each other if near ones in time are worth this much more than others, in all draws of queries but LOST.
WORTH, N_DRAWS, LOST = 1.05, 200, 0.1

_Array = NDArray[np.float64]


def row_memory(metric: Metric, points: Points, rng: np.random.Generator, n_threads: int | None = None) -> int:
    """Return how many rows points remember: 0 for independent ones, about a tenth of all rows if that is not enough."""
    rows = np.arange(len(points))
    if len(rows) > MOST_ROWS:  # a stretch of consecutive ones, with its own memory
        start = int(rng.integers(len(points) - MOST_ROWS))
        rows, points = rows[:MOST_ROWS], points.take(start + rows[:MOST_ROWS])
    n, farthest = len(rows), int(FARTHEST_SHARE * len(rows))
    if farthest < 2:
        return 0
    lags = np.array([0, *_growing(farthest)])
    queries = np.sort(rng.choice(n, min(N_QUERIES, n), replace=False))
    distant = (queries + rng.integers(2 * farthest, n - 2 * farthest, len(queries))) % n
    near, far, spared = np.empty((len(lags), len(queries))), np.empty(len(queries)), np.empty(len(queries))
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        part = slice(start, start + QUERIES_AT_ONCE)
        squared = squared_matrix(metric, points.take(queries[part]), points, n_threads).astype(np.float64)
        apart = np.abs(rows - queries[part, None])
        for place, lag in enumerate(lags):
            near[place, part] = np.min(squared, axis=1, where=apart > lag, initial=np.inf)
        is_far = apart > farthest
        far[part] = np.min(squared, axis=1, where=is_far, initial=np.inf)
        is_spared = is_far & (np.abs(rows - distant[part, None]) > farthest)
        spared[part] = np.min(squared, axis=1, where=is_spared, initial=np.inf)
    draws = rng.multinomial(len(queries), np.full(len(queries), 1.0 / len(queries)), size=N_DRAWS)
    sums_near, sums_far, sums_spared = draws @ near.T, draws @ far, draws @ spared
    smallest = np.finfo(np.float64).tiny
    worth = (sums_far**2 / np.maximum(sums_spared, smallest))[:, None] / np.maximum(sums_near, smallest)
    remembers = np.quantile(np.sqrt(worth), LOST, axis=0) > WORTH
    # Memory ends where nothing farther is remembered.
    return int(lags[np.flatnonzero(remembers)[-1] + 1]) if remembers.any() else 0


def _growing(farthest: int) -> Iterator[int]:
    """Yield 1, 2, 3, 4, 6, 8, 12 … up to, and at last, the farthest."""
    lag = 1
    while lag < farthest:
        yield lag
        lag = max(lag + 1, round(1.4 * lag))
    yield farthest
