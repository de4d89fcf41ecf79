"""What a fit will cost, before it is begun.

    time of fit = Σ over steps (how often each kind of work is done) × (what it takes on this machine)

The counts follow from N, M and the settings. What a distance, a row of distances, a byte
of kernel, a multiplication take is measured in half a second with the kernels that will do
the work, on points made up for the purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.online_weights import interpolation_weights
from ldmaps.diffusion.pairwise import extend, gaussian_kernel, nearest, squared_matrix, squared_row
from ldmaps.diffusion.products import symmetric_product, transposed_product
from ldmaps.diffusion.spectrum import LANCZOS_VECTORS
from ldmaps.errors import InvalidInputError
from ldmaps.extension import EXTENSIONS, distilled
from ldmaps.landmarks import k_medoids
from ldmaps.landmarks.grouping import neighbour_order
from ldmaps.maps.reference_map import REFERENCE_ITERATIONS, reference_size
from ldmaps.metrics import Hamming, Metric, Precomputed, resolve_metric
from ldmaps.metrics.base import Points
from ldmaps.settings import is_whole_number
from ldmaps.threads import resolve_threads, single_threaded_blas

__all__ = ["Plan", "plan"]

#: Matrix-vector products that the leading eigenpairs take: 50 to 100 where there is a gap, 330 where they crowd.
LANCZOS_PRODUCTS = 180
#: Times that k-medoids compare all points with all landmarks, in parts, until no medoid moves: 1.9 on molecules, 4.4
#: on a Swiss roll.
MEDOID_PASSES = 3
#: Seconds that choosing landmarks takes beside the distances: some ten iterations in Python.
MEDOID_OVERHEAD = 0.02
#: Passes over the weights while distilling: widths tried, the tuned one, held-out points, and once more in the end.
DISTILLING_PASSES = 6
#: Times that the tuned weights' error is evaluated: 9 to 111, as the data have it.
TUNING_EVALUATIONS = 50
#: Bandwidths, in mean squared distances: 0.004 on the Swiss roll, 0.15 and 0.2 on the molecules.
TYPICAL_EPSILON = 0.01
#: Seconds for each measurement.
MEASURED_SECONDS = 0.04


@dataclass(frozen=True)
class Plan:
    """Predicted cost of a landmark map.

    Attributes
    ----------
    n_points, n_landmarks : int
        N and M.
    reference_points : int
        Points of the map that is distilled from: N, fewer where N does not fit into
        the memory limit, 0 for Nyström.
    peak_bytes : float
        Memory that fitting takes on top of the training data, at its highest.
    fit_seconds : float
    seconds_per_point : float
        For points embedded in large batches.
    latency_seconds : float
        For a point embedded by itself.
    steps : dict of str to float
        Seconds of each step of the fit.
    """

    n_points: int
    n_landmarks: int
    reference_points: int
    peak_bytes: float
    fit_seconds: float
    seconds_per_point: float
    latency_seconds: float
    steps: dict[str, float]

    def __str__(self) -> str:
        steps = ", ".join(f"{name} {_duration(seconds)}" for name, seconds in self.steps.items())
        return (
            f"fit of {self.n_points:,} points to {self.n_landmarks:,} landmarks: about {_duration(self.fit_seconds)} "
            f"({steps}) and {self.peak_bytes / 1e9:.2g} GB; then {_duration(self.seconds_per_point)} a point in "
            f"batches, {_duration(self.latency_seconds)} for one by itself"
        )


def plan(
    n: int,
    n_features_or_atoms: int,
    metric: Any = "euclidean",
    n_landmarks: int = 400,
    *,
    extension: str = "auto",
    epsilon: float | str = "connected",
    n_components: int = 2,
    dtype: Any = np.float32,
    memory_limit: float = 4e9,
    n_threads: int | None = None,
) -> Plan:
    """Predict memory and time of :class:`~ldmaps.LandmarkDiffusionMap` on this machine.

    Parameters
    ----------
    n : int
        Number of training points N.
    n_features_or_atoms : int
        Features of a point, or atoms of a frame for metrics that take frames. Ignored
        for "precomputed".
    metric : str, Metric or callable
        As for the estimator. A function is called on points of standard normal features.
    n_landmarks : int
        M.
    extension, epsilon, n_components, memory_limit, n_threads
        As for the estimator.
    dtype : float32 or float64
        Precision of the data.

    Notes
    -----
    Meant to be right within a factor of two. The number of iterations (of k-medoids and
    of the eigensolver) depends on the data and is taken to be typical. What else the
    machine is doing is part of what is measured.

    Examples
    --------
    >>> import ldmaps
    >>> cost = ldmaps.plan(100_000, 22, "rmsd", 200, extension="distilled")
    >>> cost.reference_points, cost.peak_bytes < 2e9
    (5000, True)
    """
    for name, value, least in (
        ("n", n, 3),
        ("n_features_or_atoms", n_features_or_atoms, 1),
        ("n_landmarks", n_landmarks, 2),
        ("n_components", n_components, 1),
    ):
        if not is_whole_number(value) or value < least:
            raise InvalidInputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if n_landmarks > n:
        raise InvalidInputError(f"n_landmarks={n_landmarks} is more than n={n}; ask for at most {n}")
    if extension not in ("auto", *EXTENSIONS):
        known_ones = ", ".join(EXTENSIONS)
        raise InvalidInputError(f'extension must be "auto" or one of {known_ones}, got {extension!r}')
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError(f"dtype must be float32 or float64, got {dtype!r}")
    known = resolve_metric(metric)
    machine = _measure(known, int(n_features_or_atoms), int(n_landmarks), int(n_components), kind, n_threads)
    is_distilled = extension == "distilled"  # "auto" with a given M is Nyström, as in the estimator
    reference = reference_size(known, n, n_landmarks, kind.itemsize, memory_limit) if is_distilled else 0
    steps = _steps(machine, n, n_landmarks, n_components, reference, kind.itemsize, epsilon)
    return Plan(
        int(n),
        int(n_landmarks),
        reference,
        _peak_bytes(n, n_landmarks, n_components, reference, kind.itemsize),
        sum(steps.values()),
        machine.extension * n_landmarks,
        machine.latency,
        steps,
    )


# -- counts ---------------------------------------------------------------------


def _medoids(machine: _Machine, n: int, m: int, passes: int) -> float:
    sample = min(n, max(k_medoids.MIN_SAMPLE, k_medoids.SAMPLE_PER_LANDMARK * m))
    seeding = min(sample, max(k_medoids.MIN_POOL, k_medoids.POOL_PER_LANDMARK * m)) * m
    pairs = seeding + passes * (sample * m + sample * sample / m)
    if sample < n:
        pairs += n * m
    return machine.pair * pairs


def _eigenpairs(machine: _Machine, size: int, itemsize: int) -> float:
    return size**2 * (machine.exponential + LANCZOS_PRODUCTS * itemsize * machine.byte)


def _steps(
    machine: _Machine, n: int, m: int, k: int, reference: int, itemsize: int, epsilon: float | str
) -> dict[str, float]:
    steps: dict[str, float] = {}
    is_exact = reference == n
    if is_exact:
        # A large matrix is new memory, which the system hands out page by page.
        steps["distances"] = (machine.pair / 2 + machine.fresh_byte * itemsize) * n**2
    if epsilon == "connected":
        # The tree takes a row a point, the rows shrinking as it grows. A product, by which a byte is measured, reads
        # half of the kernel.
        from_kept = 3.0 * machine.byte * itemsize * n**2 + machine.row * n
        steps["bandwidth"] = from_kept if is_exact else machine.row_pair * n**2 / 2 + machine.row * n
    steps["landmarks"] = MEDOID_OVERHEAD + _medoids(machine, n, m, MEDOID_PASSES)
    if reference:
        medoids = 0.0 if is_exact else _medoids(machine, n, reference, 1 + REFERENCE_ITERATIONS)
        kernel = 0.0 if is_exact else machine.pair * reference**2 / 2
        steps["reference map"] = medoids + kernel + _eigenpairs(machine, reference, itemsize)
        rows = min(n, max(distilled.MIN_ROWS, distilled.ROWS_PER_LANDMARK * m))
        seconds = DISTILLING_PASSES * rows * m * (machine.pair + machine.weight + m * machine.product)
        seconds += len(distilled.RIDGES) * 2 * m**3 / 6 * machine.product
        if not is_exact:
            seconds += rows * reference * machine.extension
        if m <= distilled.TUNED_LANDMARKS:
            tuning = min(rows, max(distilled.MIN_TUNING_ROWS, distilled.TUNING_ROWS_PER_LANDMARK * m))
            step = (
                tuning * m * (2.0 * machine.weight + (m + 4 * k) * machine.product)
                + m**3 / 6 * machine.product
            )
            seconds += TUNING_EVALUATIONS * step
        steps["distillation"] = seconds
    else:
        steps["eigenproblem"] = machine.pair * m**2 / 2 + _eigenpairs(machine, m, itemsize)
    steps["embedding"] = machine.extension * n * m
    return steps


def _peak_bytes(n: int, m: int, k: int, reference: int, itemsize: int) -> float:
    size = reference or m
    # The kernel, its Lanczos basis, and what every point has: assignment, coordinates, distances.
    solving = size**2 * itemsize + 8.0 * (LANCZOS_VECTORS + 8) * size + n * (24 + 8 * k)
    if not reference:
        return solving
    rows = min(n, max(distilled.MIN_ROWS, distilled.ROWS_PER_LANDMARK * m))
    chunk = min(rows, max(256, distilled.CHUNK_BYTES // (8 * m))) * m * (8 + 8 + itemsize)
    tuning = 0.0
    if m <= distilled.TUNED_LANDMARKS:
        tuning = (
            4.0 * 8 * m * min(rows, max(distilled.MIN_TUNING_ROWS, distilled.TUNING_ROWS_PER_LANDMARK * m))
        )
    return max(solving, max(chunk, tuning) + 6 * 8.0 * m**2 + rows * (24 + 8 * k))


# -- this machine ------------------------------------------------------------------


@dataclass(frozen=True)
class _Machine:
    """Seconds for: a distance in a block and in a row, the overhead of a row, one landmark's share of embedding.

    And for: embedding one point alone, an exponential of the kernel, a normalised
    weight, a byte of kernel in a product with a vector, a multiplication in a product
    of matrices, the first write to a byte of new memory.
    """

    pair: float
    row_pair: float
    row: float
    extension: float
    latency: float
    exponential: float
    weight: float
    byte: float
    product: float
    fresh_byte: float


def _measure(
    metric: Metric,
    size: int,
    n_landmarks: int,
    n_components: int,
    dtype: np.dtype[Any],
    n_threads: int | None,
) -> _Machine:
    rng = np.random.default_rng(0)
    n_wide = min(2048, max(256, n_landmarks))
    n_tall = 2048
    is_slow = reference_size(metric, 10**6, 1, 8, 4e9) < 5000
    if is_slow:
        n_wide, n_tall = 32, 16
    known, points = _made_up(metric, n_wide + n_tall, size, dtype, rng)
    tall, wide = points.take(slice(0, n_tall)), points.take(slice(n_tall, n_tall + n_wide))
    if isinstance(metric, Precomputed):
        wide = known.prepare(np.abs(rng.normal(size=(n_wide, n_wide))).astype(dtype))
        tall = wide.take(slice(0, min(n_wide, n_tall)))
        n_tall = len(tall)
    elif not is_slow:
        # A fit leaves neighbouring landmarks together, and the online step passes over groups that are far away.
        wide = wide.take(neighbour_order(squared_matrix(known, wide, n_threads=n_threads)))
    weights = np.ones(n_wide, dtype=dtype)
    coefficients = np.ones((n_components, n_wide), dtype=dtype)
    one = tall.take(slice(0, 1))
    out = np.empty((1, n_wide), dtype=dtype)
    short = np.empty((1, 8), dtype=dtype)
    few = wide.take(slice(0, 8))

    squared = squared_matrix(known, tall, wide, n_threads)
    scale = TYPICAL_EPSILON * float(squared.mean())
    # Not the matrix, whose memory would be new every time; most distances are looked at and thrown away.
    block = _seconds(lambda: nearest(known, tall, wide, n_threads))
    row_short = _seconds(lambda: squared_row(known, one, 0, few, short))
    row_long = _seconds(lambda: squared_row(known, one, 0, wide, out))
    batch = _seconds(lambda: extend(known, tall, wide, scale, weights, coefficients, n_threads))
    alone = _seconds(lambda: extend(known, one, wide, scale, weights, coefficients, 1))

    entries = rng.random((1024, 1024)).astype(dtype)
    exponential = _seconds(lambda: gaussian_kernel(entries.copy(), 1.0, n_threads)) / entries.size
    logs = np.zeros(256)
    square = rng.random((2048, 256))
    weight = _seconds(lambda: interpolation_weights(square, 1.0, logs, n_threads)) / square.size
    large = np.ones((4096, 4096), dtype=dtype)  # beyond any cache, as real kernels are
    vector = np.ones(4096)
    byte = _seconds(lambda: symmetric_product(large, vector, resolve_threads(n_threads))) / large.nbytes
    with single_threaded_blas():
        product = _seconds(lambda: transposed_product(square, square, n_threads)) / (2048 * 256**2)

    fresh = _seconds(lambda: np.empty(1 << 26, dtype=np.uint8).fill(0)) / (1 << 26)
    row_pair = max(row_long - row_short, 0.1 * row_long) / n_wide
    # A metric's own preparation and Python's overhead of a single point hardly depend on M.
    overhead = max(alone - row_long, 5e-6)
    share = batch / (n_tall * n_wide)
    return _Machine(
        block / (n_tall * n_wide),
        row_pair,
        row_short + 4e-6,
        share,
        overhead + row_short + (alone - row_short) * n_landmarks / n_wide,
        exponential,
        weight,
        byte,
        product,
        fresh,
    )


def _made_up(
    metric: Metric, n: int, size: int, dtype: np.dtype[Any], rng: np.random.Generator
) -> tuple[Metric, Points]:
    if isinstance(metric, Precomputed):
        return metric, metric.prepare(np.abs(rng.normal(size=(n, n))).astype(dtype))
    if metric.takes_frames:
        # Structures that resemble each other, as those of a trajectory do: the superposition then converges as fast.
        frames = rng.normal(size=(size, 3)) + 0.25 * rng.normal(size=(n, size, 3))
        return metric, metric.prepare(frames.astype(dtype))
    if isinstance(metric, Hamming):
        return metric, metric.prepare(rng.integers(0, 4, (n, size)).astype(dtype))
    return metric, metric.prepare(rng.uniform(0.1, 1.0, (n, size)).astype(dtype))


def _seconds(work: Callable[[], object]) -> float:
    """Return the time of one call: the lower quartile of as many as fit, so that a busy moment does not count."""
    work()
    taken: list[float] = []
    end = time.perf_counter() + MEASURED_SECONDS
    while not taken or time.perf_counter() < end:
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    lower: NDArray[np.float64] = np.quantile(taken, [0.25])
    return float(lower[0])


def _duration(seconds: float) -> str:
    """Write a time with a unit that suits it.

    >>> _duration(3e-6), _duration(0.25), _duration(90), _duration(7200)
    ('3 µs', '250 ms', '1.5 min', '2 h')
    """
    for limit, factor, unit in (
        (1e-3, 1e6, "µs"),
        (1.0, 1e3, "ms"),
        (60.0, 1.0, "s"),
        (3600.0, 1 / 60, "min"),
    ):
        if seconds < limit:
            return (
                f"{seconds * factor:.2g} {unit}"
                if seconds * factor < 100
                else f"{seconds * factor:.0f} {unit}"
            )
    return f"{seconds / 3600:.2g} h"
