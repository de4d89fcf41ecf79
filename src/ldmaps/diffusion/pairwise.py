"""Tiled, threaded walks over blocks of squared distances: nobody else loops over pairs.

            b: cols ─►
          ┌──────────────┐   A tile of rows against all columns. Each tile is
   a rows │ tile 0       │   filled by the metric, reduced by a compiled loop in
     │    ├──────────────┤   cache, and thrown away; tiles run on threads. Where
     ▼    │ tile 1       │   the cuts fall depends on the shapes alone, never on
          └──────────────┘   the number of threads, so results do not either.

Every kernel releases the GIL and keeps its scratch to itself, so any number of
Python threads may walk at once.
"""

from __future__ import annotations

import itertools
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ldmaps.diffusion.threads import resolve_threads, single_threaded_blas, walk, walk_over
from ldmaps.metrics.base import Metric, Points

__all__ = [
    "Extended",
    "distance_matrix",
    "distance_sums",
    "extend",
    "gaussian_kernel",
    "interpolation_weights",
    "kernel_curve",
    "multiply",
    "near_pairs",
    "nearest",
    "squared_matrix",
    "squared_row",
    "symmetric_product",
    "tile_rows",
    "transposed_product",
    "weight_gradient",
]

#: A tile of d² should stay in cache while it is reduced, and be tall enough to use each column many times.
TILE_BYTES = 1 << 21
MAX_TILE_ROWS = 256
MIN_TILE_ENTRIES = 1 << 16
#: Pairs to a part of a search that stores no distances: enough to be worth another thread, and where progress shows.
SCAN_ENTRIES = 1 << 19, 1 << 24
#: Landmarks from which a single point is worth asking the metric how to pass over some of them.
SCANNED_LANDMARKS = 2048
#: Entries of a stored matrix that make a product worth another thread, and into how many parts one is cut at most.
MIN_PRODUCT = 1 << 20
MAX_BANDS = 64


@cache
def kernels() -> ModuleType:
    """Return the compiled loops; loading numba is put off until the first use."""
    from ldmaps.diffusion import _kernels

    return _kernels


def tile_rows(n_cols: int, itemsize: int, n_rows: int = 0) -> int:
    """Return how many rows make a tile; where columns are few and rows many, enough to be worth a call."""
    tall = min(MIN_TILE_ENTRIES // max(1, n_cols), n_rows // 4)
    return min(max(1, TILE_BYTES // max(1, n_cols * itemsize)), max(MAX_TILE_ROWS, tall))


def _scan_rows(n_rows: int, n_cols: int) -> int:
    """Return how many rows make a part of a search that needs no tile."""
    fewest, most = (max(1, entries // n_cols) for entries in SCAN_ENTRIES)
    return min(max(n_rows // 64, fewest), most)


# -- blocks kept -------------------------------------------------------------


def squared_matrix(
    metric: Metric, a: Points, b: Points | None = None, n_threads: int | None = None
) -> NDArray[Any]:
    """Return all d²(a_i, b_j), or the exactly symmetric matrix of d²(a_i, a_j) without ``b``."""
    threads = resolve_threads(n_threads)
    other = a if b is None else b
    out = np.empty((len(a), len(other)), dtype=a.dtype)
    if b is not None:
        _fill(metric, a, b, out, threads)
        return out

    # Half of the blocks are computed, the rest mirrored: half the work, and symmetric to the last bit.
    n = len(a)
    side = 256

    def work(rows: slice) -> None:
        block = np.empty((rows.stop - rows.start, n - rows.start), dtype=a.dtype)
        metric.squared_block(a, rows, a, slice(rows.start, n), block)
        height = rows.stop - rows.start
        corner = block[:, :height]
        np.copyto(corner, np.tril(corner.T, -1) + np.triu(corner, 1))  # the diagonal is exactly zero
        out[rows, rows.start :] = block
        for start in range(rows.stop, n, side):
            stop = min(start + side, n)
            out[start:stop, rows] = block[:, start - rows.start : stop - rows.start].T

    walk(n, min(side, 64 if n < 4096 else side), work, threads)
    return out


def _fill(metric: Metric, a: Points, b: Points, out: NDArray[Any], threads: int) -> None:
    columns = slice(0, len(b))
    walk(
        len(a),
        tile_rows(len(b), out.itemsize),
        lambda rows: metric.squared_block(a, rows, b, columns, out[rows]),
        threads,
    )


def distance_matrix(metric: Metric, a: Points, b: Points, n_threads: int | None = None) -> NDArray[Any]:
    """Return all distances d(a_i, b_j) (eqn dmap_pair)."""
    squared = squared_matrix(metric, a, None if b is a else b, n_threads)
    np.sqrt(squared, out=squared)
    return squared


def gaussian_kernel(squared: NDArray[Any], epsilon: float, n_threads: int | None = None) -> NDArray[Any]:
    """Turn a C-contiguous matrix of d² into A = exp(−d²/(2ε)) in place (eqns dmap_kernel, ldmap_kernel)."""
    function = kernels().gaussian
    rate = squared.dtype.type(0.5 / epsilon)
    walk(
        len(squared),
        MAX_TILE_ROWS,
        lambda rows: function(squared[rows], rate),
        resolve_threads(n_threads),
        asks_metric=False,
    )
    return squared


def multiply(matrix: Any, vector: NDArray[np.float64], n_threads: int = 1) -> NDArray[np.float64]:
    """Return ``matrix @ vector``, dense or CSR, accumulated in float64 whatever the matrix is stored in."""
    out = np.empty(matrix.shape[0])
    if issparse(matrix):
        sparse = kernels().sparse_matvec_rows

        def work(rows: slice) -> None:
            starts = matrix.indptr[rows.start : rows.stop + 1]
            sparse(starts, matrix.indices, matrix.data, vector, out[rows])
    else:
        dense = kernels().matvec_rows

        def work(rows: slice) -> None:
            dense(matrix[rows], vector, out[rows])

    # A tile that is read quicker than a thread wakes up is not worth handing over.
    tile = max(512, MIN_PRODUCT // max(1, matrix.shape[1]))
    walk(len(out), tile, work, n_threads, asks_metric=False)
    return out


def symmetric_product(
    matrix: NDArray[Any], vector: NDArray[np.float64], n_threads: int = 1
) -> NDArray[np.float64]:
    """Return ``matrix @ vector`` of a symmetric dense matrix, of which only the upper half is read."""
    n = len(matrix)
    bands = _equal_bands(n, min(MAX_BANDS, max(1, n * n // 2 // MIN_PRODUCT)))
    # Each band has sums of its own, added up in order, so that threads cannot change the rounding.
    parts = {band.start: np.empty(n) for band in bands}
    function = kernels().symmetric_matvec_band
    walk_over(
        bands,
        lambda band: function(matrix, band.start, band.stop, vector, parts[band.start]),
        n_threads,
        asks_metric=False,
    )
    total = parts.pop(0)
    for start, part in parts.items():
        total[start:] += part[start:]
    return total


@cache
def _equal_bands(n: int, n_bands: int) -> list[slice]:
    """Cut the rows of an n×n matrix, at multiples of four, so that its upper half falls into equal parts."""
    shares = 1.0 - np.sqrt(1.0 - np.arange(n_bands) / n_bands)
    bounds = [*(4 * np.round(n * shares / 4).astype(int)).tolist(), n]
    return [slice(first, last) for first, last in itertools.pairwise(bounds) if first < last]


# -- blocks thrown away ------------------------------------------------------


def squared_row(metric: Metric, a: Points, index: int, b: Points, out: NDArray[Any]) -> NDArray[Any]:
    """Fill ``out`` (1, len(b)) with d²(a_index, b_j) and return it as a row."""
    metric.squared_block(a, slice(index, index + 1), b, slice(0, len(b)), out)
    row: NDArray[Any] = out[0]
    return row


def nearest(
    metric: Metric, a: Points, b: Points, n_threads: int | None = None
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return for each point of ``a`` the index of the nearest of ``b`` (the first among equals) and its d²."""
    index = np.empty(len(a), dtype=np.intp)
    lowest = np.empty(len(a), dtype=a.dtype)
    threads = resolve_threads(n_threads)
    scan = metric.nearest_scan(a, b)
    if scan is not None:
        tile = _scan_rows(len(a), len(b))
        walk(len(a), tile, lambda rows: scan(rows, index[rows], lowest[rows]), threads, asks_metric=False)
        return index, lowest
    columns = slice(0, len(b))
    tile = tile_rows(len(b), a.dtype.itemsize, len(a))
    reduce = kernels().nearest_in_rows

    def work(rows: slice) -> None:
        block = np.empty((rows.stop - rows.start, len(b)), dtype=a.dtype)
        metric.squared_block(a, rows, b, columns, block)
        reduce(block, index[rows], lowest[rows])

    walk(len(a), tile, work, threads)
    return index, lowest


def near_pairs(
    metric: Metric, points: Points, cutoff: float, n_threads: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """Return all pairs with d² ≤ cutoff as CSR arrays: row starts, columns, d²; memory grows with their number."""
    tile = tile_rows(len(points), points.dtype.itemsize)
    parts: list[Any] = [None] * len(range(0, len(points), tile))

    def work(rows: slice) -> None:
        block = np.empty((rows.stop - rows.start, len(points)), dtype=points.dtype)
        metric.squared_block(points, rows, points, slice(0, len(points)), block)
        near = block <= cutoff
        counts = np.count_nonzero(near, axis=1)
        parts[rows.start // tile] = counts, np.nonzero(near)[1].astype(np.int32), block[near]

    walk(len(points), tile, work, resolve_threads(n_threads))
    starts = np.concatenate([[0], np.cumsum(np.concatenate([part[0] for part in parts]))]).astype(np.int64)
    columns = np.concatenate([part[1] for part in parts])
    return starts, columns, np.concatenate([part[2] for part in parts])


def distance_sums(
    metric: Metric,
    points: Points,
    weights: NDArray[np.float64],
    n_threads: int | None = None,
    bounds: NDArray[np.intp] | None = None,
) -> NDArray[np.float64]:
    """Return Σ_j w_j d(x_i, x_j) for every point, over all points or over those of its group.

    Parameters
    ----------
    bounds : ndarray of shape (groups + 1,), optional
        Where groups begin and the last one ends: points are only compared with those
        between the same two bounds.
    """
    sums = np.zeros(len(points))
    threads = resolve_threads(n_threads)
    if bounds is None:
        bounds = np.array([0, len(points)])
    sizes = np.diff(bounds)
    large = sizes > MAX_TILE_ROWS
    for group in np.flatnonzero(large).tolist():
        members = slice(int(bounds[group]), int(bounds[group + 1]))
        _group_sums(metric, points, weights, members, sums, threads)
    # Small groups are dealt with in parcels. A parcel ends before a group that is large or would make it too big.
    entries = np.concatenate([[0], np.cumsum(np.where(large, 0, sizes**2))])
    parcel = max(MIN_TILE_ENTRIES, int(entries[-1]) // 32)
    begins = np.diff(entries[:-1] // parcel, prepend=-1) > 0
    begins |= large | np.concatenate([[False], large[:-1]])
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(sizes))
    wanted = ~large[firsts]
    parcels = [slice(*ends) for ends in zip(firsts[wanted].tolist(), lasts[wanted].tolist(), strict=True)]

    def work(groups: slice) -> None:
        metric.group_distance_sums(points, bounds[groups.start : groups.stop + 1], weights, sums)

    if parcels:
        walk_over(parcels, work, threads)
    return sums


def _group_sums(
    metric: Metric,
    points: Points,
    weights: NDArray[np.float64],
    group: slice,
    sums: NDArray[np.float64],
    threads: int,
) -> None:
    """Fill in the sums of one large group, tile by tile."""
    n = group.stop - group.start
    reduce = kernels().distance_sums

    def work(part: slice) -> None:
        rows = slice(group.start + part.start, group.start + part.stop)
        block = np.empty((rows.stop - rows.start, n), dtype=points.dtype)
        metric.squared_block(points, rows, points, group, block)
        reduce(block, weights[group], sums[rows])

    walk(n, tile_rows(n, points.dtype.itemsize), work, threads)


def kernel_curve(
    metric: Metric,
    points: Points,
    weights: NDArray[np.float64],
    epsilons: NDArray[np.float64],
    n_threads: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return S(ε) = Σ_ij w_i w_j exp(−d_ij²/(2ε)) and d ln S/d ln ε for every ε of a grid."""
    rates = 0.5 / epsilons
    columns = slice(0, len(points))
    tile = tile_rows(len(points), points.dtype.itemsize)
    starts = range(0, len(points), tile)
    # One row of partial sums a tile, added up in order, so that threads cannot change the rounding.
    sums = np.zeros((len(starts), len(rates)))
    moments = np.zeros_like(sums)
    reduce = kernels().kernel_moments

    def work(rows: slice) -> None:
        block = np.empty((rows.stop - rows.start, len(points)), dtype=points.dtype)
        metric.squared_block(points, rows, points, columns, block)
        place = rows.start // tile
        reduce(block, rates, weights[rows], weights, sums[place], moments[place])

    walk(len(points), tile, work, resolve_threads(n_threads))
    total = sums.sum(axis=0)
    return total, moments.sum(axis=0) / total


class Extended:
    """What one pass over the landmarks tells of a batch of points."""

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
    """Embed points as w(x)·B with w_j(x) ∝ exp(−d²(x, z_j)/(2ε)) s_j; trusts its input.

    Parameters
    ----------
    weights : ndarray of shape (M,)
        The source weights s_j.
    coefficients : ndarray of shape (k, M)
        Bᵀ, C-contiguous, in the points' dtype as are the weights.
    """
    result = Extended(len(points), len(coefficients), points.dtype)
    columns = slice(0, len(landmarks))
    function = kernels().extend
    rate = points.dtype.type(0.5 / epsilon)
    if len(points) == 1 and len(landmarks) < SCANNED_LANDMARKS:
        # A stream's single point: nothing but the two compiled calls.
        block = np.empty((1, len(landmarks)), dtype=points.dtype)
        metric.squared_block(points, slice(0, 1), landmarks, columns, block)
        function(
            block, rate, weights, coefficients, result.coordinates, result.nearest, result.squared_distance
        )
        return result
    scan = metric.extension_scan(landmarks, rate)

    def work(rows: slice) -> None:
        found = result.coordinates[rows], result.nearest[rows], result.squared_distance[rows]
        if scan is not None:
            scan(points, rows, weights, coefficients, *found)
            return
        block = np.empty((rows.stop - rows.start, len(landmarks)), dtype=points.dtype)
        metric.squared_block(points, rows, landmarks, columns, block)
        function(block, rate, weights, coefficients, *found)

    if scan is not None:
        tile = _scan_rows(len(points), len(landmarks))
    else:
        tile = tile_rows(len(landmarks), points.dtype.itemsize, len(points))
    walk(len(points), tile, work, resolve_threads(n_threads), asks_metric=scan is None)
    return result


# -- weights of the online step, kept ------------------------------------------


def interpolation_weights(
    squared: NDArray[Any], rate: float, log_weights: NDArray[np.float64], n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return w_ij ∝ exp(−rate·d²_ij) s_j with rows that sum to 1, in float64 whatever d² is stored in."""
    out: NDArray[np.float64] = np.empty(squared.shape)

    def work(rows: slice) -> None:
        block = out[rows]
        np.multiply(squared[rows], -rate, out=block)
        block += log_weights
        block -= block.max(axis=1, keepdims=True)
        np.exp(block, out=block)
        block /= block.sum(axis=1, keepdims=True)

    walk(len(out), tile_rows(len(log_weights), out.itemsize), work, resolve_threads(n_threads))
    return out


def transposed_product(
    left: NDArray[np.float64], right: NDArray[np.float64], n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return leftᵀ·right, cut by the shapes alone; only the lower half is computed where both are one array."""
    out = np.empty((left.shape[1], right.shape[1]))
    symmetric = left is right
    side = 128

    def work(rows: slice) -> None:
        wide = slice(0, rows.stop) if symmetric else slice(0, right.shape[1])
        np.matmul(left[:, rows].T, right[:, wide], out=out[rows, wide])
        if symmetric:
            out[: rows.start, rows] = out[rows, : rows.start].T

    with single_threaded_blas():
        walk(len(out), side, work, resolve_threads(n_threads))
    return out


def weight_gradient(
    weights: NDArray[np.float64],
    squared: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    residuals: NDArray[np.float64],
    n_threads: int | None = None,
) -> tuple[NDArray[np.float64], float]:
    """Return Σ_i r_i·∂(w·B)_i by log s_j, of shape (M,), and by the rate; rows of ``weights`` sum to 1.

    From ∂w_ij/∂log s_m = w_ij (δ_jm − w_im) and ∂w_ij/∂rate = −w_ij (d²_ij − Σ_m w_im d²_im).
    """
    tile = tile_rows(weights.shape[1], weights.itemsize)
    starts = range(0, len(weights), tile)
    # One row of partial sums a tile, added up in order, so that threads cannot change the rounding.
    by_weight = np.empty((len(starts), weights.shape[1]))
    by_rate = np.empty(len(starts))

    def work(rows: slice) -> None:
        place = rows.start // tile
        shares = residuals[rows] @ coefficients.T
        shares -= np.einsum("ik,ik->i", residuals[rows], weights[rows] @ coefficients)[:, None]
        shares *= weights[rows]
        np.sum(shares, axis=0, out=by_weight[place])
        by_rate[place] = -np.einsum("ij,ij->", shares, squared[rows])

    with single_threaded_blas():
        walk(len(weights), tile, work, resolve_threads(n_threads))
    return by_weight.sum(axis=0), float(by_rate.sum())
