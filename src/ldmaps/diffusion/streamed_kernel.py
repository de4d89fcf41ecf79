"""The kernel matrix applied to vectors tile by tile, and never stored.

A tile of the upper half is filled by the metric, turned into A = exp(−d²/(2ε)), multiplied both ways while it is in
cache (own rows += A V[columns], columns += Aᵀ V[rows]) and discarded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import gaussian_kernel, squared_tile
from ldmaps.diffusion.spectrum import equal_bands
from ldmaps.metrics.base import Metric, Points
from ldmaps.threads import resolve_threads, run_tiles, single_threaded_blas

#: Shape of a tile: half a megabyte in single precision, which a core's own cache holds together with the vectors.
TILE_ROWS, TILE_COLUMNS = 256, 512
#: A pass has at most this many bands; the first and shortest has no less than this many rows.
MAX_BANDS, MIN_BAND_ROWS = 256, 256


@dataclass
class PartialProduct:
    """The sum of the first bands of a pass."""

    sums: NDArray[np.float64]  # (n, b): A V of those bands
    n_bands: int = 0  # how many bands are in it


@dataclass(frozen=True)
class StreamedKernel:
    """A = exp(−d²/(2ε)) over all pairs of points, as something to multiply vectors by."""

    # Entries are those of a stored kernel, bit by bit. A pass is cut into bands of rows of equal work, which a thread,
    # process or cluster worker can do. The cuts depend on the number of points alone and the bands' sums are added in
    # order, so the result does not depend on how bands were distributed.

    metric: Metric
    points: Points
    epsilon: float

    def __len__(self) -> int:
        return len(self.points)

    def bands(self) -> list[slice]:
        """Return the rows of each band of a pass, in the order in which they are added up."""
        n = len(self.points)
        return equal_bands(n, min(MAX_BANDS, max(1, n // (2 * MIN_BAND_ROWS))))

    def band_product(self, band: slice, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what a band of rows of the upper half adds to A V, both ways."""
        n, first = len(self.points), band.start
        # Single precision has a narrow range: columns are brought to order 1 by powers of two, which round nothing.
        _, exponents = np.frexp(np.abs(vectors).max(axis=0))
        narrow = np.ldexp(vectors[first:], -exponents).astype(self.points.dtype)
        sums = np.zeros((n - first, vectors.shape[1]))
        tile = np.empty(TILE_ROWS * TILE_COLUMNS, dtype=self.points.dtype)
        with single_threaded_blas():
            for start in range(first, band.stop, TILE_ROWS):
                rows = slice(start, min(start + TILE_ROWS, band.stop))
                own = slice(rows.start - first, rows.stop - first)
                sums[own] += self._corner(rows) @ narrow[own]
                # Cut at multiples of the tile's width, where the panels of frames begin.
                for left in range(rows.stop - rows.stop % TILE_COLUMNS, n, TILE_COLUMNS):
                    columns = slice(max(left, rows.stop), min(left + TILE_COLUMNS, n))
                    others = slice(columns.start - first, columns.stop - first)
                    block = self._block(rows, columns, tile)
                    sums[own] += block @ narrow[others]
                    sums[others] += block.T @ narrow[own]
        return np.ldexp(sums, exponents, out=sums)

    def product(
        self,
        vectors: NDArray[np.float64],
        n_threads: int | None = None,
        *,
        partial: PartialProduct | None = None,
        on_band: Callable[[PartialProduct], None] | None = None,
    ) -> NDArray[np.float64]:
        """Return A V: one pass over all pairs."""
        bands = self.bands()
        so_far = PartialProduct(np.zeros(vectors.shape)) if partial is None else partial
        done = so_far.n_bands
        waiting: dict[int, NDArray[np.float64]] = {}
        adding = threading.Lock()

        def work(place: slice) -> None:
            part = self.band_product(bands[done + place.start], vectors)
            with adding:
                waiting[done + place.start] = part
                while so_far.n_bands in waiting:
                    so_far.sums[bands[so_far.n_bands].start :] += waiting.pop(so_far.n_bands)
                    so_far.n_bands += 1
                    if on_band is not None:
                        on_band(so_far)

        if done < len(bands):
            run_tiles(len(bands) - done, 1, work, resolve_threads(n_threads), asks_metric=False)
        return so_far.sums

    def _block(self, rows: slice, columns: slice, tile: NDArray[Any]) -> NDArray[Any]:
        shape = rows.stop - rows.start, columns.stop - columns.start
        block = tile[: shape[0] * shape[1]].reshape(shape)
        self.metric.squared_block(self.points, rows, self.points, columns, block)
        return gaussian_kernel(block, self.epsilon, 1)

    def _corner(self, rows: slice) -> NDArray[Any]:
        """Return the square tile on the diagonal."""
        # The diagonal is exactly zero.
        upper = np.triu(squared_tile(self.metric, self.points, rows, self.points, rows), 1)
        return gaussian_kernel(upper + upper.T, self.epsilon, 1)
