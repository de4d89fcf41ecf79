"""What each kind of work takes on this machine, measured in a second with the loops that will do it.

Points are made up for the purpose. How much memory points take once they are prepared,
and while they are, is read off the same points.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.costs import DataSize
from ldmaps.diffusion.online_weights import interpolation_weights
from ldmaps.diffusion.pairwise import extend, gaussian_kernel, nearest, squared_matrix, squared_row
from ldmaps.diffusion.products import symmetric_product, transposed_product
from ldmaps.diffusion.spatial_tree import MIN_POINTS, spanning_edges, tree_pays
from ldmaps.landmarks.grouping import neighbour_order
from ldmaps.metrics.base import Metric, Points
from ldmaps.threads import resolve_threads, single_threaded_blas

__all__ = ["Machine", "measure"]

#: Bandwidths, in mean squared distances: 0.004 on the Swiss roll, 0.15 and 0.2 on the molecules.
TYPICAL_EPSILON = 0.01
#: Seconds for each measurement.
MEASURED_SECONDS = 0.04
#: Most points made up, most numbers in them, and most numbers looked at by all distances between them.
MADE_UP_POINTS, MADE_UP_NUMBERS, COMPARED_NUMBERS = 2048, 4e6, 4e8
#: Bytes of points that no cache holds.
BEYOND_CACHES = 1e8


@dataclass(frozen=True)
class Machine:
    """What was measured.

    Attributes
    ----------
    speeds : mapping
        Seconds of one of each kind of work, see :class:`~ldmaps.costs.Cost`.
    latency : float
        Seconds to embed one point alone.
    preparing : float
        Seconds to prepare one point.
    raw_bytes : float
        Memory of one point as it comes.
    prepared_share, preparing_share, copied_share, compared_share : float
        Memory in units of that: of a prepared point, while it is prepared, of a copy, and
        what a comparison in blocks adds to it.
    """

    speeds: Mapping[str, float]
    latency: float
    preparing: float
    raw_bytes: float
    prepared_share: float
    preparing_share: float
    copied_share: float
    compared_share: float

    def data_size(self, n_points: int, n_features: int, itemsize: int) -> DataSize:
        """Return the size of so many points."""
        point, block = self.copied_share * self.raw_bytes, self.compared_share * self.raw_bytes
        return DataSize(n_points, n_features, point, block, itemsize)


def measure(
    metric: Metric,
    n_points: int,
    n_features: int,
    n_landmarks: int,
    n_components: int,
    dtype: np.dtype[Any],
    n_threads: int | None,
) -> Machine:
    """Measure with points of ``n_features`` numbers and maps of ``n_landmarks`` landmarks."""
    rng = np.random.default_rng(0)
    n_tall, n_wide = _made_up_sizes(metric, n_features, n_landmarks)
    raw = metric.made_up(n_tall + n_wide, n_features, rng).astype(dtype)
    points = metric.prepare(raw)
    tall, wide = points.take(slice(0, n_tall)), points.take(slice(n_tall, n_tall + n_wide))
    squared = squared_matrix(metric, tall, wide, n_threads)
    if n_wide > kernels.BLOCK:
        # A fit leaves neighbouring landmarks together, and the online step skips groups that are far away.
        wide = wide.take(neighbour_order(squared_matrix(metric, wide, n_threads=n_threads)))
    weights = np.ones(n_wide, dtype=dtype)
    coefficients = np.ones((n_components, n_wide), dtype=dtype)
    one, few = tall.take(slice(0, 1)), wide.take(slice(0, 8))
    row, short = np.empty((1, n_wide), dtype=dtype), np.empty((1, len(few)), dtype=dtype)
    scale = TYPICAL_EPSILON * float(squared.mean())

    # Not the matrix, whose memory would be new every time; most distances are looked at and thrown away.
    block = _seconds(lambda: nearest(metric, tall, wide, n_threads))
    row_short = _seconds(lambda: squared_row(metric, one, 0, few, short))
    row_long = _seconds(lambda: squared_row(metric, one, 0, wide, row))
    batch = _seconds(lambda: extend(metric, tall, wide, scale, weights, coefficients, n_threads))
    alone = _seconds(lambda: extend(metric, one, wide, scale, weights, coefficients, 1))
    speeds = _arithmetic(rng, dtype, n_threads)
    speeds["distances"] = block / (n_tall * n_wide)
    speeds["row_distances"] = _row_seconds(metric, points, one, n_points, raw.nbytes / len(raw))
    speeds["rows"] = row_short + 4e-6
    speeds["landmark_shares"] = batch / (n_tall * n_wide)
    speeds["tree_points"] = _tree_seconds(metric, n_points, n_features, rng)
    speeds["overhead"] = 1.0
    # A metric's own preparation and Python's overhead of a single point hardly depend on M.
    latency = max(alone - row_long, 5e-6) + row_short + (alone - row_short) * n_landmarks / n_wide
    return Machine(
        speeds,
        latency,
        _seconds(lambda: metric.prepare(raw)) / len(points),
        float(n_features * dtype.itemsize),
        *_shares(metric, raw),
    )


def _row_seconds(metric: Metric, points: Points, one: Points, n_points: int, point_bytes: float) -> float:
    """Return the time of a distance in a row to all points, which is that of reading them where no cache holds them."""
    length = int(min(n_points, max(len(points), BEYOND_CACHES / point_bytes)))
    everyone = points.take(np.arange(length) % len(points))
    out = np.empty((1, length), dtype=points.dtype)
    return _seconds(lambda: squared_row(metric, one, 0, everyone, out)) / length


def _made_up_sizes(metric: Metric, n_features: int, n_landmarks: int) -> tuple[int, int]:
    """Return how many points to compare with how many landmarks, so that neither memory nor time gets out of hand."""
    if metric.is_slow:
        return 16, 32
    n_wide = min(MADE_UP_POINTS, max(256, n_landmarks))
    n_tall = min(MADE_UP_POINTS, int(max(64, MADE_UP_NUMBERS / n_features - n_wide)))
    n_wide = min(n_wide, int(max(64, MADE_UP_NUMBERS / n_features)))
    return int(min(n_tall, max(64, COMPARED_NUMBERS / (n_features * n_wide)))), n_wide


def _arithmetic(rng: np.random.Generator, dtype: np.dtype[Any], n_threads: int | None) -> dict[str, float]:
    """Return the speeds of what does not depend on the metric."""
    entries = rng.random((1024, 1024)).astype(dtype)
    square, logs = rng.random((2048, 256)), np.zeros(256)
    large, vector = np.ones((4096, 4096), dtype=dtype), np.ones(4096)  # beyond any cache, as real kernels are
    threads = resolve_threads(n_threads)
    with single_threaded_blas():
        product = _seconds(lambda: transposed_product(square, square, n_threads))
    return {
        "exponentials": _seconds(lambda: gaussian_kernel(entries.copy(), 1.0, n_threads)) / entries.size,
        "weights": _seconds(lambda: interpolation_weights(square, 1.0, logs, n_threads)) / square.size,
        "kernel_bytes": _seconds(lambda: symmetric_product(large, vector, threads)) / large.nbytes,
        "multiplications": product / (len(square) * square.shape[1] ** 2),
        "new_bytes": _seconds(lambda: np.empty(1 << 26, dtype=np.uint8).fill(0)) / (1 << 26),
    }


def _tree_seconds(metric: Metric, n_points: int, n_features: int, rng: np.random.Generator) -> float:
    """Return the time per point of a spatial tree, which grows with the depth of the tree."""
    if not tree_pays(metric, n_points, n_features):
        return 0.0
    values = rng.uniform(size=(MIN_POINTS, n_features))
    depth = np.log(n_points) / np.log(MIN_POINTS)
    return float(depth * _seconds(lambda: spanning_edges(values)) / MIN_POINTS)


def _shares(metric: Metric, raw: NDArray[Any]) -> tuple[float, float, float, float]:
    """Return the memory of prepared points, of preparing, of a copy, and of comparing, in units of the raw points."""

    def compare(points: Points) -> None:
        out = np.empty((min(8, len(points)), len(points)), dtype=points.dtype)
        metric.squared_block(points, slice(0, len(out)), points, slice(0, len(points)), out)

    with _traced() as memory_of:
        points, prepared, preparing = memory_of(lambda: metric.prepare(raw))
        copy, copied, _ = memory_of(lambda: points.take(slice(0, len(points))))
        _, compared, _ = memory_of(lambda: compare(copy))
    return prepared / raw.nbytes, preparing / raw.nbytes, copied / raw.nbytes, compared / raw.nbytes


_MemoryOf = Callable[[Callable[[], Any]], tuple[Any, int, int]]


@contextmanager
def _traced() -> Iterator[_MemoryOf]:
    """Give a function that does some work and returns its result, the bytes that it keeps, and the most it held."""

    def memory_of(work: Callable[[], Any]) -> tuple[Any, int, int]:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = work()
        after, highest = tracemalloc.get_traced_memory()
        return result, after - before, highest - before

    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        yield memory_of
    finally:
        if not was_tracing:
            tracemalloc.stop()


def _seconds(work: Callable[[], object]) -> float:
    """Return the time of one call: the lower quartile of as many as fit, so that a busy moment does not count."""
    work()
    taken: list[float] = []
    end = time.perf_counter() + MEASURED_SECONDS
    while not taken or time.perf_counter() < end:
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return float(np.quantile(taken, 0.25))
