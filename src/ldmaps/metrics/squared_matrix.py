"""All squared distances between two sets of points, or within one, as a matrix that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.threads import resolve_threads, run_tiles, tile_rows

if TYPE_CHECKING:
    from ldmaps.metrics.base import Metric, Points


def squared_matrix(
    metric: Metric, a: Points, b: Points | None = None, n_threads: int | None = None
) -> NDArray[Any]:
    """Return all d²(a_i, b_j), or the exactly symmetric matrix of d²(a_i, a_j) without ``b``."""
    n_threads = resolve_threads(n_threads)
    other = a if b is None else b
    out = np.empty((len(a), len(other)), dtype=a.dtype)
    if b is not None:

        def fill(rows: slice) -> None:
            metric.squared_block(a, rows, b, slice(0, len(b)), out[rows])

        run_tiles(len(a), tile_rows(len(b), out.itemsize, len(a)), fill, n_threads)
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

    run_tiles(n, min(side, 64 if n < 4096 else side), work, n_threads)
    return out
