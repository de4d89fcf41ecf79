"""Products of matrices that are kept, on threads that cannot change their rounding."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.threads import resolve_threads, run_slices, run_tiles, single_threaded_blas

__all__ = ["equal_bands", "multiply", "symmetric_product", "transposed_product"]

#: Entries of a stored matrix that make a product worth another thread, and into how many parts one is cut at most.
MIN_PRODUCT = 1 << 20
MAX_BANDS = 64


def multiply(matrix: Any, vector: NDArray[np.float64], n_threads: int = 1) -> NDArray[np.float64]:
    """Return ``matrix @ vector``, dense or CSR, accumulated in float64 whatever the matrix is stored in."""
    out = np.empty(matrix.shape[0])
    if scipy.sparse.issparse(matrix):
        sparse = kernels.sparse_matvec_rows

        def work(rows: slice) -> None:
            starts = matrix.indptr[rows.start : rows.stop + 1]
            sparse(starts, matrix.indices, matrix.data, vector, out[rows])
    else:
        dense = kernels.matvec_rows

        def work(rows: slice) -> None:
            dense(matrix[rows], vector, out[rows])

    # A tile that is read quicker than a thread wakes up is not worth handing over.
    tile = max(512, MIN_PRODUCT // max(1, matrix.shape[1]))
    run_tiles(len(out), tile, work, n_threads, asks_metric=False)
    return out


def symmetric_product(
    matrix: NDArray[Any], vector: NDArray[np.float64], n_threads: int = 1
) -> NDArray[np.float64]:
    """Return ``matrix @ vector`` of a symmetric dense matrix, of which only the upper half is read."""
    n = len(matrix)
    bands = equal_bands(n, min(MAX_BANDS, max(1, n * n // 2 // MIN_PRODUCT)))
    # Each band has its own sums, added up in order, so that threads cannot change the rounding.
    parts = {band.start: np.empty(n) for band in bands}
    function = kernels.symmetric_matvec_band
    run_slices(
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
def equal_bands(n: int, n_bands: int) -> list[slice]:
    """Cut the rows of an n×n matrix, at multiples of four, so that its upper half falls into equal parts."""
    shares = 1.0 - np.sqrt(1.0 - np.arange(n_bands) / n_bands)
    bounds = [*(4 * np.round(n * shares / 4).astype(int)).tolist(), n]
    return [slice(first, last) for first, last in itertools.pairwise(bounds) if first < last]


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
        run_tiles(len(out), side, work, resolve_threads(n_threads))
    return out
