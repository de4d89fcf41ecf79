"""Solving the walk over all points: stored, sparse or streamed; and bounds for a reference that has fewer points.

streamed   medoids ──► their modes at all points ──► passes over all pairs until residuals are small
reference  exact while its kernel, or the passes, can be afforded; else many more landmarks, their error bounded
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.block_solver import solve_streamed
from ldmaps.diffusion.pairwise import extend, gaussian_kernel
from ldmaps.diffusion.sampled_residuals import sampled_errors
from ldmaps.diffusion.solver_choice import (
    MIN_SPARSE_POINTS,
    Solver,
    choose_solver,
    near_fraction,
    stored_bytes,
    streamed_room,
)
from ldmaps.diffusion.spectrum import solve_spectrum
from ldmaps.diffusion.streamed_kernel import StreamedKernel
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.fit.fitted_map import Solution
from ldmaps.fit.solve import SolvedMap
from ldmaps.landmarks import KMedoids, Landmarks
from ldmaps.metrics.base import squared_matrix
from ldmaps.progress import stage
from ldmaps.settings import Limits
from ldmaps.threads import resolve_threads, single_threaded_blas

#: Medoids whose modes the passes begin with: one for so many points, the fewest and the most.
START_SHARE, MIN_START, MAX_START = 40, 200, 4000
#: Iterations in which these medoids settle well enough.
START_ITERATIONS = 3
#: The second bandwidth of their modes, in mean squared distances of points to their medoids.
WIDENING = 4.0
#: Vectors of a block: at least, and beyond the eigenpairs asked for.
MIN_BLOCK, BLOCK_EXTRA = 16, 4
#: Relative error of a coordinate, in the walk's measure, that ends the passes.
TOLERANCE = 1e-3
#: Eigenvalues that are computed beyond those asked for, to be looked at.
REFERENCE_EXTRA = 4
#: Medoids of a reference settle well enough in so many iterations.
REFERENCE_ITERATIONS = 3
#: Modes of a landmark map that bound its errors: those beyond the coordinates show how far the rest is.
BOUNDING_MODES = 16


@dataclass(frozen=True)
class Effort:
    """What solving over all points may take, and when it is done."""

    limits: Limits
    n_passes: int  # over all pairs, after which a ConvergenceWarning says how good the map is
    #: coordinates that must be good before the passes end, or what says so by the eigenvalues; None for all
    n_coordinates: int | Callable[[NDArray[np.float64]], int] | None = None


def solver_for(walk: Walk, n_eigenvalues: int, memory_limit: float, rng: np.random.Generator) -> Solver:
    """Return the quickest solver that keeps the memory limit; 64 rows of distances show how sparse the kernel is."""
    n_points, itemsize = len(walk.points), walk.points.dtype.itemsize
    if n_points < MIN_SPARSE_POINTS and stored_bytes(n_points, itemsize, n_eigenvalues) <= memory_limit:
        return "stored"  # whatever the kernel is like
    near = near_fraction(walk.metric, walk.points, walk.epsilon, rng)
    return choose_solver(n_points, itemsize, n_eigenvalues, near, memory_limit)


def solve_in_passes(walk: Walk, n_eigenvalues: int, effort: Effort, rng: np.random.Generator) -> SolvedMap:
    """Solve the walk over all points without storing its kernel."""
    n, memory = len(walk.points), effort.limits.memory
    width, n_start, room, n_threads = _sizes(n, n_eigenvalues, memory, walk.n_threads)
    with stage("start of the passes", unit=""):
        start = _start(walk, width, memory, rng)[:, :n_start]
    solved = solve_streamed(
        _kernel_of(walk),
        walk.weights,
        n_eigenvalues,
        start,
        alpha=walk.alpha,
        tolerance=TOLERANCE,
        n_coordinates=effort.n_coordinates,
        block_size=width,
        max_passes=effort.n_passes,
        max_vectors=room,
        state_file=effort.limits.resume,
        n_threads=n_threads,
    )
    solution = Solution("streamed", solved.n_passes, solved.range_errors)
    return SolvedMap(walk, np.arange(n), walk.points, walk.weights, np.zeros(n), solved.spectrum, solution)


def _kernel_of(walk: Walk) -> StreamedKernel:
    """Return the kernel whose passes are done here, or by the workers of a cluster that is in use."""
    if "distributed" in sys.modules:
        from ldmaps.cluster.shared_kernel import kernel_of

        return kernel_of(walk)
    return StreamedKernel(walk.metric, walk.points, walk.epsilon)


def fits_in_passes(n_points: int, n_eigenvalues: int, memory_limit: float) -> bool:
    """Say whether a streamed solve keeps the memory limit."""
    try:
        _sizes(n_points, n_eigenvalues, memory_limit, 1)
    except InvalidInputError:
        return False
    return True


def _sizes(
    n_points: int, n_eigenvalues: int, memory_limit: float, n_threads: int | None
) -> tuple[int, int, int, int]:
    """Return the widths of the blocks and of the start, the room for a basis, and the threads, or raise."""
    # Where memory is short, the start is half as wide; then blocks are as narrow as can be.
    threads = resolve_threads(n_threads)
    wide = min(n_points - 1, max(MIN_BLOCK, n_eigenvalues + BLOCK_EXTRA))
    for width, n_start in ((wide, 2 * wide), (wide, wide), (n_eigenvalues, n_eigenvalues)):
        try:
            room, used = streamed_room(n_points, n_eigenvalues, n_start, width, memory_limit, threads)
        except InvalidInputError as error:
            refusal = error
        else:
            return width, n_start, room, used
    raise refusal


def _start(walk: Walk, width: int, memory_limit: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the leading modes of a landmark map at all points; at least ``width`` of them."""
    n = len(walk.points)
    # Two copies of the medoids' d² are held at a time.
    most = int(math.sqrt(memory_limit / (4 * walk.points.dtype.itemsize)))
    count = min(n, max(width + 1, min(most, MAX_START, max(MIN_START, n // START_SHARE))))
    medoids = KMedoids(count, max_iter=START_ITERATIONS).select(walk, rng)
    return landmark_start(walk, medoids, width)


def landmark_start(walk: Walk, medoids: Landmarks, width: int) -> NDArray[np.float64]:
    """Return leading modes of a landmark map at all points, at most M - 1; twice as many where medoids are sparse."""
    spread = float(np.average(medoids.squared_distances, weights=walk.weights))
    landmarks, dtype = walk.points.take(medoids.indices), walk.points.dtype
    squared = squared_matrix(walk.metric, landmarks, n_threads=walk.n_threads)
    modes = []
    # Where medoids lie farther apart than the kernel reaches, a map of them is rough, and the modes of a wider kernel
    # are closer to those of all points. Which are better depends on the data; the solver takes what it needs of both.
    for epsilon in dict.fromkeys((walk.epsilon, max(walk.epsilon, WIDENING * spread))):
        stored = gaussian_kernel(squared.copy(), epsilon, walk.n_threads)
        with single_threaded_blas():
            spectrum = solve_spectrum(
                stored,
                medoids.multiplicities,
                min(width, len(landmarks) - 1),
                alpha=walk.alpha,
                n_threads=walk.n_threads,
            )
        # Nyström without its division by λ, which only changes the length of a mode.
        extended = extend(
            walk.metric,
            walk.points,
            landmarks,
            epsilon,
            weights=spectrum.source_weights.astype(dtype),
            coefficients=np.ascontiguousarray(spectrum.vectors.T, dtype=dtype),
            n_threads=walk.n_threads,
        )
        modes.append(extended.coordinates.astype(np.float64))
    return np.hstack(modes)


def bounded(solved: SolvedMap, rng: np.random.Generator) -> SolvedMap:
    """Return a landmark map with a bound on its errors against the exact map, measured at a random set of rows."""
    # With density normalisation there is none: rows of the walk then take the density of all points.
    walk = solved.walk
    if walk.alpha:
        return solved
    with stage("error of the reference", len(walk.points)):
        kernel = StreamedKernel(walk.metric, walk.points, walk.epsilon)
        still = replace(solved, walk=replace(walk, time=0.0))
        errors = sampled_errors(kernel, walk.weights, still.coordinates, rng, walk.n_threads)
    return replace(solved, solution=replace(solved.solution, error_bound=errors))
