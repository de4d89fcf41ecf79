"""Blocks of training points that are drawn again: what a map of other data from the same system would be made of.

A block bootstrap leaves the landmarks and the kernel between them as they are and changes their
multiplicities alone: c'_j is the weight of the points of cell j in as many blocks as there are,
drawn with replacement. Points that follow each other in time are alike, so that a block must be
longer than they remember. Points without an order are put into blocks at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.quality.correlation_times import runs_of

#: Most blocks: a variance of so many is known to 4 %.
MOST_BLOCKS = 1000
#: Fewest blocks that time is cut into, however long the points remember; `Blocks.are_long_enough` says so then.
FEWEST_BLOCKS = 12
#: Length of a block in correlation times (beyond the half that uncorrelated points have).
BLOCK_LENGTH = 8.0


@dataclass(frozen=True)
class Blocks:
    """Which block each training point is in.

    Attributes
    ----------
    kind : {"time", "files", "rows"}
        Consecutive points, whole files, or points at random.
    labels : ndarray of int, shape (N,)
        The block of each point, from 0.
    count : int
        How many blocks there are.
    correlation_time : float
        Of the slowest coordinate, in points; 0.5 where they have no order or no memory.
    """

    kind: str
    labels: NDArray[np.int32]
    count: int
    correlation_time: float = 0.5

    @property
    def length(self) -> float:
        """Points per block, on average."""
        return len(self.labels) / self.count

    @property
    def are_long_enough(self) -> bool:
        """Whether a block forgets the one before: it is several correlation times long."""
        return self.kind != "time" or self.length >= 0.5 * BLOCK_LENGTH * (self.correlation_time - 0.5)

    @property
    def inflation(self) -> float:
        """What deviations of resamples are multiplied by, for what blocks cannot show.

        n blocks vary by (n − 1)/n of the variance around their own mean, and neighbours that
        remember each other for τ points take the share τ/length of it (exact for exponential memory).
        """
        scale = self.count / max(self.count - 1, 1)
        if self.kind == "time" and self.length > 1.5:
            scale /= max(1.0 - (self.correlation_time - 0.5) / self.length, 0.25)
        return float(np.sqrt(scale))


def cut_blocks(
    n_points: int,
    kind: str,
    *,
    correlation_time: float = 0.5,
    files: NDArray[np.int32] | None = None,
    rng: np.random.Generator | None = None,
) -> Blocks:
    """Put training points into blocks.

    Parameters
    ----------
    n_points : int
        N, in the order of time where there is one.
    kind : {"time", "files", "rows"}
    correlation_time : float
        In points.
    files : ndarray of int, shape (N,), optional
        Which file each point is from; no block of "time" has points of two.
    rng : Generator, optional
        Shuffles "rows".
    """
    if kind == "files":
        if files is None or len(np.unique(files)) < 2:
            raise InvalidInputError(
                "resampling whole files needs points of two files at least; leave it out, or fit on several files"
            )
        labels = np.unique(files, return_inverse=True)[1]
        return Blocks(kind, labels.astype(np.int32), int(labels.max()) + 1, correlation_time)
    if kind == "rows":
        count = min(n_points, MOST_BLOCKS)
        labels = np.arange(n_points) % count
        (rng or np.random.default_rng(0)).shuffle(labels)
        return Blocks(kind, labels.astype(np.int32), count)
    length = max(1.0, BLOCK_LENGTH * (correlation_time - 0.5), n_points / MOST_BLOCKS)
    length = min(length, max(1.0, n_points / FEWEST_BLOCKS))
    count, places = 0, np.empty(n_points, dtype=np.int32)
    for run in runs_of(n_points, files):
        size = run.stop - run.start
        here = max(1, round(size / length))
        places[run] = count + np.arange(size) * here // size
        count += here
    return Blocks(kind, places, count, correlation_time)


def resampled_multiplicities(
    cells: NDArray[np.intp],
    weights: NDArray[np.float64],
    n_landmarks: int,
    blocks: Blocks,
    n_resamples: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return c' of every resample, shape (n_resamples, M), each with the total weight of the points.

    Parameters
    ----------
    cells : ndarray of int, shape (N,)
        The landmark each point belongs to.
    weights : ndarray of shape (N,)
        Of the points; those of weight 0 do not count.
    """
    from scipy import sparse

    by_block = sparse.csr_array(
        (weights, (blocks.labels, cells)), shape=(blocks.count, n_landmarks), dtype=np.float64
    )
    draws = rng.multinomial(blocks.count, np.full(blocks.count, 1.0 / blocks.count), size=n_resamples)
    drawn = np.asarray(by_block.T.dot(draws.T.astype(np.float64))).T
    # Blocks may all have been drawn that weigh nothing.
    drawn = drawn[drawn.sum(axis=1) > 0]
    return np.ascontiguousarray(drawn * (weights.sum() / drawn.sum(axis=1, keepdims=True)))


def block_error(
    values: NDArray[np.float64], weights: NDArray[np.float64], blocks: Blocks
) -> NDArray[np.float64]:
    """Return the standard error of weighted means, shape (m,), by the spread of blocks.

    Parameters
    ----------
    values : ndarray of shape (N, m)
        Such as memberships, whose means are populations.
    """
    means = weights @ values / weights.sum()
    deviations = weights[:, None] * (values - means)  # of a ratio of sums, to first order
    sums = np.stack([np.bincount(blocks.labels, column, blocks.count) for column in deviations.T], axis=1)
    return np.asarray(blocks.inflation * np.sqrt((sums**2).sum(axis=0)) / weights.sum())
