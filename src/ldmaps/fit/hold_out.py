"""Which training points a tolerance fits to, which guide its search, and which certify what was found.

    rows   ─── fitted ───┤ gap │ search or certify │ gap ├─── fitted ───┤ gap │ …
                         └──────── a block ────────┘

Points are held out in blocks of consecutive rows, several correlation times long, without the rows at their ends that
resemble fitted ones: these would not show how unseen points fare. Independent rows have no memory, and need no gap.
Points that the walk leaves out lie between them, and are held out with those around them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldmaps.correlation_times import correlation_time, longest_memory
from ldmaps.errors import InvalidInputError, Named, ToleranceError
from ldmaps.extension.calibration import SHORT_MEMORY, watched_distances
from ldmaps.fit.confidence_bound import MIN_CERTIFYING
from ldmaps.fit.data import Data
from ldmaps.fit.row_memory import row_memory
from ldmaps.metrics.base import Points

#: Share of the points held out, the most of them, and which part of those is for the search.
HELD_OUT_SHARE, MAX_HELD_OUT, SEARCH_PART = 0.5, 20_000, 0.4
#: Points are drawn so often, each time anew after the certificate of those drawn before was missed; and the same shares
#: then: half as many points again certify, because a miss tells that few of them decide the bound.
HOLD_OUT_DRAWS, HELD_OUT_SHARE_AGAIN, SEARCH_PART_AGAIN = 3, 0.6, 0.25
#: Points are held out in so many blocks of consecutive ones, or in fewer if rows remember each other for long.
HELD_OUT_BLOCKS = 200
#: Least length of a block, in correlation times and in rows that resemble fitted ones.
BLOCK_TIMES, BLOCK_GAPS = 4.0, 6
#: Fewest independent points that all rows must be worth.
FEWEST_INDEPENDENT = 40.0
#: Squared errors are averaged over the blocks they were held out in, but not to fewer means than this unless they must.
ENOUGH_MEANS = 60


@dataclass(frozen=True)
class Memory:
    """How long rows remember."""

    correlation_time: float = 0.5  # or an upper estimate of it, in rows
    gap: int = 0  # rows within so many of each other are nearer than unrelated ones


@dataclass(frozen=True)
class HeldOut:
    """Which points are fitted to, which guide the search, and which certify."""

    fitted: NDArray[np.intp]
    search: NDArray[np.intp]
    certify: NDArray[np.intp]
    block: int = 1  # how many consecutive points of ``search`` and ``certify`` were held out together


@dataclass(frozen=True)
class Strays:
    """Points that were left out of the fit, some of which judge it: new points like them will come."""

    points: Points
    weights: NDArray[np.float64]
    after: NDArray[np.intp]  # the member that each follows, in the order of rows; -1 before the first

    @classmethod
    def of(cls, all_data: Data, kept: Data) -> Strays | None:
        """Return the members of ``whole`` that ``kept``, with the metric of the fit, lacks; None if it lacks none."""
        rows = all_data.used[kept.weights[all_data.used] == 0]
        if not len(rows):
            return None
        return cls(kept.points.take(rows), all_data.weights[rows], np.searchsorted(kept.used, rows) - 1)

    def among(self, members: NDArray[np.intp]) -> Strays | None:
        """Return those that follow one of some members; None if there are none."""
        chosen = np.flatnonzero(np.isin(self.after, members))
        if not len(chosen):
            return None
        return Strays(self.points.take(chosen), self.weights[chosen], self.after[chosen])


@dataclass(frozen=True)
class TooFewIndependent:
    """Rows that resemble their neighbours too long for any of them to show how unseen points fare."""

    n_points: int
    n_independent: float  # what they are worth

    def error(self, tolerance: float) -> ToleranceError:
        """Return what to raise."""
        return ToleranceError(
            tolerance,
            reason=(
                f"{self.n_points:,} rows may contain only {self.n_independent:.0f} independent samples, because "
                f"consecutive rows resemble each other; at least {FEWEST_INDEPENDENT:.0f} are needed. Simulate longer, "
                "or thin the rows; the certificate then holds for independent draws from the basins that were visited. "
                "If the rows are independent and only sorted, shuffle them. ",
                Named("n_landmarks"),
                " fits a map without a certificate",
            ),
        )


def memory_of_rows(data: Data, rng: np.random.Generator, n_threads: int | None = None) -> Memory:
    """Measure how long members remember, in the order in which they are."""
    members = data.members
    files = None if data.origin.files is None else data.origin.files[data.used]
    distances, runs = watched_distances(data.metric, members, files, rng, n_threads)
    time = max(longest_memory(column, runs) for column in distances.T)
    return Memory(time, row_memory(data.metric, members, rng, n_threads))


def hold_out_draws(
    n_points: int, memory: Memory, rng: np.random.Generator
) -> tuple[HeldOut, ...] | TooFewIndependent:
    """Draw the points to hold out, several times: each draw is for a certificate that was missed by the one before."""
    first = hold_out(n_points, memory, rng)
    if isinstance(first, TooFewIndependent):
        return first
    others = (
        hold_out(n_points, memory, rng, HELD_OUT_SHARE_AGAIN, SEARCH_PART_AGAIN)
        for _ in range(HOLD_OUT_DRAWS - 1)
    )
    return (first, *(held for held in others if isinstance(held, HeldOut)))


def hold_out(
    n_points: int,
    memory: Memory,
    rng: np.random.Generator,
    held_out_share: float = HELD_OUT_SHARE,
    search_part: float = SEARCH_PART,
) -> HeldOut | TooFewIndependent:
    """Draw the points to hold out, in blocks of consecutive ones."""
    count = min(MAX_HELD_OUT, int(held_out_share * n_points))
    if count - int(search_part * count) < MIN_CERTIFYING:
        needed = math.ceil(MIN_CERTIFYING / (1 - SEARCH_PART) / HELD_OUT_SHARE) + 1
        raise InvalidInputError(
            f"a tolerance needs at least {needed} points with positive weight to hold some of them out, "
            f"got {n_points}; pass ",
            Named("n_landmarks"),
            " instead",
        )
    time = memory.correlation_time
    correlated = 1 if time < SHORT_MEMORY else math.ceil(BLOCK_TIMES * time)
    block = max(count // HELD_OUT_BLOCKS, correlated, BLOCK_GAPS * memory.gap)
    n_blocks = count // block
    n_search = int(search_part * n_blocks)
    n_independent = 0.5 * n_points / max(time, memory.gap)
    if n_independent < FEWEST_INDEPENDENT or n_search < 1:
        return TooFewIndependent(n_points, n_independent)
    drawn = rng.permutation(n_points // block)[:n_blocks]
    inner = np.arange(memory.gap, block - memory.gap)
    search, certify = (
        (np.sort(part)[:, None] * block + inner).ravel() for part in (drawn[:n_search], drawn[n_search:])
    )
    is_held = np.zeros(n_points, dtype=bool)
    is_held[(drawn[:, None] * block + np.arange(block)).ravel()] = True
    return HeldOut(np.flatnonzero(~is_held), search, certify, len(inner))


def independent_block(squares: NDArray[np.float64], block: int) -> int | None:
    """Return how many consecutive squared errors to average so that means are independent; None if these are too few.

    ``squares`` are those of the certifying points in order, so many of which were held out together.
    """
    # The mean of n values with correlation time τ varies as that of n/(2τ) independent ones, also where rows between
    # them were fitted to: only pairs of certifying points matter.
    time = correlation_time(squares, [slice(0, len(squares))]).time
    length = max(round(2.0 * time), min(block, len(squares) // ENOUGH_MEANS), 1)
    return length if len(squares) // length >= MIN_CERTIFYING else None
