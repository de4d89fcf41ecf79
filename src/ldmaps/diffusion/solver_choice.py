"""Which way to solve the exact map: stored (N×N kernel), sparse (entries above rounding) or streamed."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from ldmaps.diffusion.pairwise import gathered_rows, near_pairs, squared_tile
from ldmaps.diffusion.spatial_tree import near_rows, raw_values
from ldmaps.diffusion.spectrum import spectrum_bytes
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Metric, Points
from ldmaps.settings import NamedLimit

Solver = Literal["stored", "sparse", "streamed"]

#: Where all entries fit, sparse kernels pay from this many points on, and while no more than this share is near.
MIN_SPARSE_POINTS = 4096
MAX_SPARSE_FRACTION = 0.2
#: The near fraction comes from a sample of rows, which may be this much too low.
SAMPLING_MARGIN = 1.25


def stored_bytes(n_points: int, itemsize: int, n_eigenvalues: int = 2) -> float:
    """Return how much memory the stored kernel and its eigenpairs take."""
    return float(n_points) ** 2 * itemsize + spectrum_bytes(n_points, n_eigenvalues)


def sparse_bytes(n_points: int, itemsize: int, near_fraction: float) -> float:
    """Return how much memory a sparse kernel takes while it is made: value and column, twice when parts are joined."""
    return float(n_points) ** 2 * near_fraction * 2.0 * (itemsize + 4)


def choose_solver(
    n_points: int, itemsize: int, n_eigenvalues: int, near_fraction: float, memory_limit: float
) -> Solver:
    """Return the quickest solver that keeps the memory limit."""
    stored_fits = stored_bytes(n_points, itemsize, n_eigenvalues) <= memory_limit
    sparse_fits = sparse_bytes(n_points, itemsize, SAMPLING_MARGIN * near_fraction) <= memory_limit
    pays = near_fraction < MAX_SPARSE_FRACTION and (n_points >= MIN_SPARSE_POINTS or not stored_fits)
    if sparse_fits and pays:
        return "sparse"
    return "stored" if stored_fits else "streamed"


def check_memory(solver: str, needed: float, memory_limit: float) -> None:
    """Raise when a solver that was asked for would not keep the memory limit."""
    if needed > memory_limit:
        raise InvalidInputError(
            f'solver="{solver}" takes about {needed / 1e9:.2g} GB for these points, but only '
            f'{memory_limit / 1e9:.2g} GB are allowed; use solver="streamed" or "auto", or allow more with ',
            NamedLimit("memory", ...),
        )


def streamed_bytes(n_points: int, n_basis: int, block_size: int, n_threads: int) -> float:
    """Return how much memory the streamed solver takes with a basis of so many vectors."""
    # Counted are three times the basis (vectors, their images, and either of them while it is changed), five blocks,
    # and two more for each thread.
    return 8.0 * n_points * (3 * n_basis + (5 + 2 * n_threads) * block_size)


def streamed_room(
    n_points: int, n_eigenvalues: int, n_start: int, block_size: int, memory_limit: float, n_threads: int
) -> tuple[int, int]:
    """Return how many basis vectors the streamed solver may keep, and on how many threads it may run, or raise."""
    # There are as many threads as leave room for a basis.
    widest = max(n_start, block_size)
    column = 8.0 * n_points
    least = max(n_eigenvalues + 2 * block_size, n_start)
    free = memory_limit - streamed_bytes(n_points, least, widest, 0)
    threads = min(n_threads, int(free / (2 * column * widest)))
    if threads < 1:
        needed = streamed_bytes(n_points, least, widest, 1)
        raise InvalidInputError(
            f"the streamed solver needs {needed / 1e9:.2g} GB for {n_points:,} points with "
            f"blocks of {widest} vectors, but only {memory_limit / 1e9:.2g} GB are allowed; allow more with ",
            NamedLimit("memory", ...),
            ", or use fewer components",
        )
    return int((memory_limit - streamed_bytes(n_points, 0, widest, threads)) / (3 * column)), threads


#: A spatial tree finds near pairs quicker than rows of distances while no more than this share is near; rows at a time.
TREE_FRACTION, TREE_ROWS = 0.03, 512
#: Rows that give the near fraction, and how many of them are in memory at a time.
SAMPLED_ROWS, ROWS_AT_ONCE = 64, 8


def sparse_squares(metric: Metric, points: Points, epsilon: float, n_threads: int | None = None) -> csr_array:
    """Return d² of all pairs whose kernel entry exp(−d²/(2ε)) is above the dtype's rounding, zeros stored."""
    cutoff = _cutoff(epsilon, points)
    values = raw_values(metric, points)
    share_near = (
        near_fraction(metric, points, epsilon, np.random.default_rng(0)) if values is not None else 1.0
    )
    if values is not None and share_near < TREE_FRACTION:
        rows = near_rows(values, cutoff, points.dtype)
        starts, columns, squares = gathered_rows(len(points), TREE_ROWS, rows, n_threads)
    else:
        starts, columns, squares = near_pairs(metric, points, cutoff, n_threads)
    if len(columns) < 2**31:
        starts = starts.astype(columns.dtype)  # or scipy would widen the columns to the starts' type
    return csr_array((squares, columns, starts), shape=(len(points), len(points)))


def near_fraction(metric: Metric, points: Points, epsilon: float, rng: np.random.Generator) -> float:
    """Return the share of pairs that :func:`sparse_squares` would keep, from a random set of rows."""
    n = len(points)
    rows = points.take(np.sort(rng.choice(n, min(n, SAMPLED_ROWS), replace=False)))
    cutoff, n_near = _cutoff(epsilon, points), 0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(start, min(start + ROWS_AT_ONCE, len(rows)))
        n_near += int(np.count_nonzero(squared_tile(metric, rows, part, points) <= cutoff))
    return n_near / (len(rows) * n)


def _cutoff(epsilon: float, points: Points) -> float:
    """Squared distance at which the kernel falls to the dtype's rounding."""
    return -2.0 * epsilon * math.log(float(np.finfo(points.dtype).eps))
