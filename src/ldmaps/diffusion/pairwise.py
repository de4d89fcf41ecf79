"""Tiled, threaded loops over blocks of squared distances: no other module loops over pairs.

A tile of rows against all columns is filled by the metric, reduced by a kernel in cache, and discarded. The cuts depend
on the shapes alone, never on the number of threads, so results do not either.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels, threads
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.local_scales import interpolated
from ldmaps.threads import resolve_threads, run_slices, run_tiles, tile_rows

#: Pairs per part of a search that stores no distances: enough to be worth another thread, and where progress shows.
SCAN_ENTRIES = 1 << 19, 1 << 24
#: Landmarks from which a single point is worth asking the metric how to skip some of them.
SCANNED_LANDMARKS = 2048
_FIRST = slice(0, 1)


def _scan_rows(n_rows: int, n_cols: int) -> int:
    """Return how many rows make a part of a search that needs no tile."""
    fewest, most = (max(1, entries // n_cols) for entries in SCAN_ENTRIES)
    return min(max(n_rows // 64, fewest), most)


# -- blocks kept -------------------------------------------------------------


def gaussian_kernel(squared: NDArray[Any], epsilon: float, n_threads: int | None = None) -> NDArray[Any]:
    """Turn a C-contiguous matrix of d² into A = exp(−d²/(2ε)) in place (eqns dmap_kernel, ldmap_kernel)."""
    rate = squared.dtype.type(0.5 / epsilon)

    def work(rows: slice) -> None:
        kernels.gaussian(squared[rows], rate)

    run_tiles(len(squared), threads.MAX_TILE_ROWS, work, resolve_threads(n_threads), asks_metric=False)
    return squared


# -- blocks discarded ---------------------------------------------------------


def squared_row(metric: Metric, a: Points, index: int, b: Points, out: NDArray[Any]) -> NDArray[Any]:
    """Fill ``out`` (1, len(b)) with d²(a_index, b_j) and return it as a row."""
    metric.squared_block(a, slice(index, index + 1), b, slice(0, len(b)), out)
    return np.asarray(out[0])


def squared_tile(
    metric: Metric, a: Points, rows: slice, b: Points, columns: slice | None = None
) -> NDArray[Any]:
    """Return d² of some rows of ``a`` to ``b``, all or some of it."""
    columns = slice(0, len(b)) if columns is None else columns
    block = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=a.dtype)
    metric.squared_block(a, rows, b, columns, block)
    return block


class _Scratch:
    """A block of numbers for each thread of one walk, used again for every tile."""

    # A tile's d² are large enough for the allocator to fetch them from the system and give them back each time, which
    # it does on Dask's workers; filling fresh pages took as long as embedding three features.

    def __init__(self, n_rows: int, n_cols: int, dtype: Any) -> None:
        self._shape = n_rows, n_cols
        self._dtype = dtype
        self._held = threading.local()

    def rows(self, count: int) -> NDArray[Any]:
        """Return this thread's first ``count`` rows; what they held is of no more use."""
        block: NDArray[Any] | None = getattr(self._held, "block", None)
        if block is None:
            block = self._held.block = np.empty(self._shape, self._dtype)
        return block[:count]


def nearest(
    metric: Metric, a: Points, b: Points, n_threads: int | None = None
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return for each point of ``a`` the index of the nearest of ``b`` (the first among equals) and its d²."""
    index, lowest = np.empty(len(a), dtype=np.intp), np.empty(len(a), dtype=a.dtype)
    scan = metric.nearest_scan(a, b)
    stored = scan is None
    tile = tile_rows(len(b), a.dtype.itemsize, len(a)) if stored else _scan_rows(len(a), len(b))
    scratch = _Scratch(min(tile, len(a)), len(b), a.dtype)

    def work(rows: slice) -> None:
        if scan is not None:
            scan(rows, index[rows], lowest[rows])
            return
        block = scratch.rows(rows.stop - rows.start)
        metric.squared_block(a, rows, b, slice(0, len(b)), block)
        block.argmin(axis=1, out=index[rows])
        lowest[rows] = block[np.arange(len(block)), index[rows]]

    run_tiles(len(a), tile, work, resolve_threads(n_threads), asks_metric=stored)
    return index, lowest


def near_pairs(
    metric: Metric, points: Points, cutoff: float, n_threads: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """Return all pairs with d² ≤ cutoff as CSR arrays: row starts, columns, d²; memory grows with their number."""

    def near(rows: slice) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        block = squared_tile(metric, points, rows, points)
        is_near = block <= cutoff
        return np.count_nonzero(is_near, axis=1), np.nonzero(is_near)[1], block[is_near]

    return gathered_rows(len(points), tile_rows(len(points), points.dtype.itemsize), near, n_threads)


def gathered_rows(
    n_points: int,
    tile: int,
    near: Callable[[slice], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]],
    n_threads: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """Return as CSR arrays what ``near`` finds in each tile of rows: how many per row, columns, d²."""
    parts: list[Any] = [None] * len(range(0, n_points, tile))

    def work(rows: slice) -> None:
        counts, columns, squares = near(rows)
        parts[rows.start // tile] = counts, columns.astype(np.int32), squares

    run_tiles(n_points, tile, work, resolve_threads(n_threads))
    starts = np.concatenate([[0], np.cumsum(np.concatenate([part[0] for part in parts]))]).astype(np.int64)
    columns = np.concatenate([part[1] for part in parts])
    return starts, columns, np.concatenate([part[2] for part in parts])


def distance_sums(
    metric: Metric,
    points: Points,
    weights: NDArray[np.float64],
    n_threads: int | None = None,
    bounds: NDArray[np.intp] | None = None,  # where groups begin, and the last one ends
) -> NDArray[np.float64]:
    """Return Σ_j w_j d(x_i, x_j) for every point, over all points or over those of its group."""
    sums = np.zeros(len(points))
    n_threads = resolve_threads(n_threads)
    if bounds is None:
        bounds = np.array([0, len(points)])

    def fill(group: slice) -> None:
        """Fill in the sums of one large group, tile by tile."""
        n = group.stop - group.start

        def work(part: slice) -> None:
            rows = slice(group.start + part.start, group.start + part.stop)
            block = squared_tile(metric, points, rows, points, group)
            kernels.distance_sums(block, weights[group], sums[rows])

        run_tiles(n, tile_rows(n, points.dtype.itemsize), work, n_threads)

    sizes = np.diff(bounds)
    large = sizes > threads.MAX_TILE_ROWS
    for first, last in zip(bounds[:-1][large].tolist(), bounds[1:][large].tolist(), strict=True):
        fill(slice(first, last))
    # Small groups are handled in parcels. A parcel ends before a group that is large or would make it too big.
    entries = np.concatenate([[0], np.cumsum(np.where(large, 0, sizes**2))])
    parcel = max(threads.MIN_TILE_ENTRIES, int(entries[-1]) // 32)
    begins = np.diff(entries[:-1] // parcel, prepend=-1) > 0
    begins |= large | np.concatenate([[False], large[:-1]])
    bounds_of_parcels = itertools.pairwise([*np.flatnonzero(begins).tolist(), len(sizes)])
    parcels = [slice(first, last) for first, last in bounds_of_parcels if not large[first]]

    def work(groups: slice) -> None:
        metric.group_distance_sums(points, bounds[groups.start : groups.stop + 1], weights, sums)

    if parcels:
        run_slices(parcels, work, n_threads)
    return sums


def kernel_curve(
    metric: Metric,
    points: Points,
    weights: NDArray[np.float64],
    epsilons: NDArray[np.float64],
    n_threads: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return S(ε) = Σ_ij w_i w_j exp(−d_ij²/(2ε)) and d ln S/d ln ε for every ε of a grid."""
    rates = 0.5 / epsilons
    tile = tile_rows(len(points), points.dtype.itemsize)
    # One row of partial sums per tile, added up in order, so that threads cannot change the rounding.
    sums, moments = np.zeros((2, len(range(0, len(points), tile)), len(rates)))

    def work(rows: slice) -> None:
        block = squared_tile(metric, points, rows, points)
        place = rows.start // tile
        kernels.kernel_moments(block, rates, weights[rows], weights, sums[place], moments[place])

    run_tiles(len(points), tile, work, resolve_threads(n_threads))
    total = sums.sum(axis=0)
    return total, moments.sum(axis=0) / total


def rank_distances(
    metric: Metric, points: Points, n_rows: int, rank: float, n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return d² of each of the first rows to its ``rank``-th nearest other point, interpolated between ranks."""
    # Where that is 0 (copies), d² to the nearest that is no copy; infinite where there is none.
    below = min(int(rank), len(points) - 1)
    above = min(below + 1, len(points) - 1)
    squares = np.empty(n_rows)

    def work(rows: slice) -> None:
        block = squared_tile(metric, points, rows, points)
        # A point is nearest to itself, whatever its distance is rounded to.
        block[np.arange(len(block)), np.arange(rows.start, rows.stop)] = 0.0
        ranked = np.partition(block, (below, above), axis=1)[:, [below, above]].astype(np.float64)
        found = ranked[:, 0] + (rank - below) * (ranked[:, 1] - ranked[:, 0])
        copied = found <= 0
        found[copied] = np.where(block[copied] > 0, block[copied], np.inf).min(axis=1)
        squares[rows] = found

    run_tiles(n_rows, tile_rows(len(points), points.dtype.itemsize), work, resolve_threads(n_threads))
    return squares


def local_factors(
    metric: Metric, points: Points, nodes: Points, factors: NDArray[np.float64], n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return the factors of points between nodes that have some, for :mod:`ldmaps.metrics.local_scales`."""
    found = np.empty(len(points))

    def work(rows: slice) -> None:
        found[rows] = interpolated(squared_tile(metric, points, rows, nodes), factors)

    run_tiles(len(points), tile_rows(len(nodes), points.dtype.itemsize), work, resolve_threads(n_threads))
    return found


def apply_operator(
    metric: Metric,
    rows: Points,
    columns: Points,
    epsilon: float,
    weights: NDArray[np.float64],
    vectors: NDArray[np.float64],
    n_threads: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return D_i = Σ_j A_ij s_j and (Pf)_i = Σ_j A_ij s_j f_j / D_i in one tiled pass."""
    degrees, sums = kernel_sums(metric, rows, columns, epsilon, weights, vectors, n_threads)
    sums /= degrees[:, None]
    return degrees, sums


def kernel_sums(
    metric: Metric,
    rows: Points,
    columns: Points,
    epsilon: float,
    weights: NDArray[np.float64],
    vectors: NDArray[np.float64],
    n_threads: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Σ_j A_ij s_j and Σ_j A_ij s_j f_j."""
    degrees = np.empty(len(rows))
    products = np.empty((len(rows), vectors.shape[1]))
    weights = np.ascontiguousarray(weights)  # ones may be one number, repeated

    def work(tile: slice) -> None:
        block = squared_tile(metric, rows, tile, columns)
        kernel = np.empty(block.shape)
        kernels.kernel_rows(block, 0.5 / epsilon, weights, kernel, degrees[tile])
        np.matmul(kernel, vectors, out=products[tile])

    # Wider than the cache would like: a product of few rows is slow.
    tile = max(16, tile_rows(len(columns), rows.dtype.itemsize))
    run_tiles(len(rows), tile, work, resolve_threads(n_threads))
    return degrees, products


class Extended:
    """What one loop over the landmarks gives for a batch of points."""

    __slots__ = ("coordinates", "nearest", "squared_distance")

    def __init__(self, n_points: int, n_components: int, dtype: np.dtype[Any]) -> None:
        self.coordinates: NDArray[Any] = np.empty((n_points, n_components), dtype=dtype)
        self.nearest: NDArray[np.intp] = np.empty(n_points, dtype=np.intp)
        self.squared_distance: NDArray[Any] = np.empty(n_points, dtype=dtype)


def extend(
    metric: Metric,
    points: Points,
    landmarks: Points,
    epsilon: float,
    weights: NDArray[Any],
    coefficients: NDArray[Any],
    n_threads: int | None = 1,
) -> Extended:
    """Embed points as w(x)·B with w_j(x) ∝ exp(−d²(x, z_j)/(2ε)) s_j; trusts its input."""
    n_points, n_landmarks, dtype = len(points), len(landmarks), points.dtype
    result = Extended(n_points, len(coefficients), dtype)
    columns = slice(0, n_landmarks)
    rate = dtype.type(0.5 / epsilon)
    if n_points == 1 and n_landmarks < SCANNED_LANDMARKS:
        # A stream's single point: nothing but the two kernels.
        block = np.empty((1, n_landmarks), dtype)
        metric.squared_block(points, _FIRST, landmarks, columns, block)
        kernels.extend(
            block, rate, weights, coefficients, result.coordinates, result.nearest, result.squared_distance
        )
        return result
    scan = metric.extension_scan(landmarks, rate)
    stored = scan is None
    tile = tile_rows(n_landmarks, dtype.itemsize, n_points) if stored else _scan_rows(n_points, n_landmarks)
    scratch = _Scratch(min(tile, n_points), n_landmarks, dtype)

    def work(rows: slice) -> None:
        parts = result.coordinates[rows], result.nearest[rows], result.squared_distance[rows]
        if scan is not None:
            scan(points, rows, weights, coefficients, *parts)
            return
        block = scratch.rows(rows.stop - rows.start)
        metric.squared_block(points, rows, landmarks, columns, block)
        kernels.extend(block, rate, weights, coefficients, *parts)

    run_tiles(n_points, tile, work, resolve_threads(n_threads), asks_metric=stored)
    return result
