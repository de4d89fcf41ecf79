"""The exact map of more points than an N×N kernel can be stored for.

sparse     entries above rounding ──► Lanczos
streamed   medoids ──► their modes at all points ──► passes over all pairs until residuals are small
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldmaps.cluster.shared_kernel import kernel_of
from ldmaps.diffusion.block_solver import solve_streamed
from ldmaps.diffusion.connectivity import REACH, check_points_connected
from ldmaps.diffusion.landmark_start import landmark_start
from ldmaps.diffusion.solver_choice import (
    MIN_SPARSE_POINTS,
    Solver,
    choose_solver,
    stored_bytes,
    streamed_room,
)
from ldmaps.diffusion.sparse_kernel import near_fraction, sparse_squares
from ldmaps.diffusion.streamed_kernel import StreamedKernel
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.landmarks import KMedoids
from ldmaps.maps.solution import Solution
from ldmaps.maps.solved_map import SolvedMap, solve
from ldmaps.progress import stage
from ldmaps.threads import resolve_threads

__all__ = ["Limits", "fits_in_passes", "solve_exact", "solver_for"]

#: Medoids whose modes the passes begin with: one for so many points, the fewest and the most.
START_SHARE, MIN_START, MAX_START = 40, 200, 4000
#: Iterations in which these medoids settle well enough.
START_ITERATIONS = 3
#: Vectors of a block: at least, and beyond the eigenpairs asked for.
MIN_BLOCK, BLOCK_EXTRA = 16, 4
#: Relative error of a coordinate, in the walk's measure, that ends the passes.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Limits:
    """What solving may take.

    Attributes
    ----------
    memory : float
        Bytes in addition to the points.
    max_passes : int
        Passes over all pairs after which a :class:`~ldmaps.errors.ConvergenceWarning` says how good the map is.
    state_file : path or None
        Where the passes' state is kept, to go on from.
    """

    memory: float
    max_passes: int
    state_file: str | os.PathLike[str] | None = None


def solver_for(walk: Walk, n_eigenvalues: int, memory_limit: float, rng: np.random.Generator) -> Solver:
    """Return the quickest solver that keeps the memory limit; 64 rows of distances show how sparse the kernel is."""
    n_points, itemsize = len(walk.points), walk.points.dtype.itemsize
    if n_points < MIN_SPARSE_POINTS and stored_bytes(n_points, itemsize, n_eigenvalues) <= memory_limit:
        return "stored"  # whatever the kernel is like
    near = near_fraction(walk.metric, walk.points, walk.epsilon, rng)
    return choose_solver(n_points, itemsize, n_eigenvalues, near, memory_limit)


def solve_exact(
    walk: Walk,
    n_eigenvalues: int,
    solver: str,
    limits: Limits,
    rng: np.random.Generator,
    *,
    n_coordinates: int | Callable[[NDArray[np.float64]], int] | None = None,
    is_known_connected: bool = False,
) -> SolvedMap:
    """Solve the walk over all points.

    Parameters
    ----------
    walk : Walk
    n_eigenvalues : int
        How many pairs, fewer than there are points.
    solver : {"stored", "sparse", "streamed"}
    limits : Limits
    rng : Generator
        Draws the medoids that passes begin with.
    n_coordinates : int or callable, optional
        How many leading pairs have to be accurate, as for
        :func:`~ldmaps.diffusion.block_solver.solve_streamed`.
    is_known_connected : bool
        Whether ε was found to hold the walk together, so that it need not be checked again.
    """
    if solver == "streamed":
        return _solve_in_passes(walk, n_eigenvalues, limits, rng, n_coordinates, is_known_connected)
    squared = None
    if solver == "sparse":
        with stage("near pairs", len(walk.points), "rows"):
            squared = sparse_squares(walk.metric, walk.points, walk.epsilon, walk.n_threads)
    with stage("eigenvectors", unit="rows"):
        return solve(walk, n_eigenvalues, squared=squared, is_known_connected=is_known_connected)


def _solve_in_passes(
    walk: Walk,
    n_eigenvalues: int,
    limits: Limits,
    rng: np.random.Generator,
    n_coordinates: int | Callable[[NDArray[np.float64]], int] | None,
    is_known_connected: bool,
) -> SolvedMap:
    n = len(walk.points)
    if not is_known_connected:
        with stage("connectivity", n):
            check_points_connected(walk.metric, walk.points, walk.epsilon, REACH, walk.n_threads)
    kernel = kernel_of(walk)
    width, n_start, room, n_threads = _sizes(n, n_eigenvalues, limits.memory, walk.n_threads)
    with stage("start of the passes", unit="rows"):
        start = _start(walk, kernel, width, limits.memory, rng)[:, :n_start]
    solved = solve_streamed(
        kernel,
        walk.weights,
        n_eigenvalues,
        start,
        alpha=walk.alpha,
        tolerance=TOLERANCE,
        n_coordinates=n_coordinates,
        block_size=width,
        max_passes=limits.max_passes,
        max_vectors=room,
        state_file=limits.state_file,
        n_threads=n_threads,
    )
    solution = Solution("streamed", solved.n_passes, solved.range_errors)
    return SolvedMap(walk, np.arange(n), walk.points, walk.weights, np.zeros(n), solved.spectrum, solution)


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
    """Return the widths of the blocks and of the start, the room for a basis, and the threads, or raise.

    Where memory is short, the start is half as wide; then blocks are as narrow as can be.
    """
    threads = resolve_threads(n_threads)
    widths = _block_size(n_points, n_eigenvalues), n_eigenvalues
    for width, n_start in ((widths[0], 2 * widths[0]), (widths[0], widths[0]), (widths[1], widths[1])):
        try:
            return (
                width,
                n_start,
                *streamed_room(n_points, n_eigenvalues, n_start, width, memory_limit, threads),
            )
        except InvalidInputError as error:
            refusal = error
    raise refusal


def _block_size(n_points: int, n_eigenvalues: int) -> int:
    return min(n_points - 1, max(MIN_BLOCK, n_eigenvalues + BLOCK_EXTRA))


def _start(
    walk: Walk, kernel: StreamedKernel, width: int, memory_limit: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the leading modes of a landmark map at all points; at least ``width`` of them."""
    n = len(walk.points)
    # Two copies of the medoids' d² are held at a time.
    most = int(math.sqrt(memory_limit / (4 * walk.points.dtype.itemsize)))
    count = min(n, max(width + 1, min(most, MAX_START, max(MIN_START, n // START_SHARE))))
    medoids = KMedoids(count, max_iter=START_ITERATIONS).select(walk, rng)
    return landmark_start(
        kernel,
        medoids.indices,
        medoids.multiplicities,
        float(np.average(medoids.squared_distances, weights=walk.weights)),
        width,
        alpha=walk.alpha,
        n_threads=walk.n_threads,
    )
