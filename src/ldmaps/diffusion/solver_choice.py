"""Which way to solve the exact map's eigenproblem, told by what each would take.

stored     the N×N kernel in memory, Lanczos               quickest where it fits
sparse     its entries above rounding alone, Lanczos       where near pairs are few
streamed   tiles that are thrown away, block Lanczos       any N, in a few passes over all pairs
"""

from __future__ import annotations

from typing import Literal

from ldmaps.errors import InvalidInputError

__all__ = ["Solver", "basis_size", "choose_solver", "sparse_bytes", "stored_bytes"]

Solver = Literal["stored", "sparse", "streamed"]

#: Sparse kernels pay from this many points on, and while no more than this share of the pairs is near.
MIN_SPARSE_POINTS = 4096
MAX_SPARSE_FRACTION = 0.2
#: The near fraction comes from a sample of rows, which may be this much too low.
SAMPLING_MARGIN = 1.25


def stored_bytes(n_points: int, itemsize: int) -> float:
    """Return how much memory the stored kernel takes.

    >>> stored_bytes(20_000, 4)
    1600000000.0
    """
    return float(n_points) ** 2 * itemsize


def sparse_bytes(n_points: int, itemsize: int, near_fraction: float) -> float:
    """Return how much memory a sparse kernel takes while it is made: value and column, twice when parts are joined.

    >>> sparse_bytes(20_000, 4, 0.02)
    128000000.0
    """
    return float(n_points) ** 2 * near_fraction * 2.0 * (itemsize + 4)


def choose_solver(n_points: int, itemsize: int, near_fraction: float, memory_limit: float) -> Solver:
    """Return the quickest solver that keeps the memory limit.

    Parameters
    ----------
    n_points, itemsize : int
        N, and bytes of a kernel entry.
    near_fraction : float
        Share of pairs whose kernel entry is above rounding, from
        :func:`~ldmaps.diffusion.sparse_kernel.near_fraction`; 1 if it is not known.
    memory_limit : float
        Bytes.

    Examples
    --------
    Molecules, whose frames are all near each other, and a sheet in three dimensions:

    >>> choose_solver(20_000, 4, 1.0, 4e9), choose_solver(100_000, 4, 1.0, 4e9)
    ('stored', 'streamed')
    >>> choose_solver(40_000, 8, 0.02, 4e9), choose_solver(1_000_000, 8, 0.001, 4e9)
    ('sparse', 'streamed')
    """
    near = SAMPLING_MARGIN * near_fraction
    if (
        n_points >= MIN_SPARSE_POINTS
        and near_fraction < MAX_SPARSE_FRACTION
        and sparse_bytes(n_points, itemsize, near) <= memory_limit
    ):
        return "sparse"
    return "stored" if stored_bytes(n_points, itemsize) <= memory_limit else "streamed"


def basis_size(
    n_points: int, n_eigenvalues: int, n_start: int, block_size: int, memory_limit: float, n_threads: int
) -> int:
    """Return how many basis vectors the streamed solver may keep within the memory limit, or raise.

    Counted are three times the basis (vectors, their images, and either of them while it is changed), five
    blocks, and two more for each thread.

    >>> basis_size(1_000_000, 3, 16, 16, 4e9, 2)
    118
    """
    widest = max(n_start, block_size)
    column = 8.0 * n_points
    fixed = column * (5 + 2 * n_threads) * widest
    least = max(n_eigenvalues + 2 * block_size, n_start)
    most = int((memory_limit - fixed) / (3 * column))
    if most < least:
        raise InvalidInputError(
            f"the streamed solver needs {(fixed + 3 * column * least) / 1e9:.2g} GB for {n_points:,} points with "
            f"blocks of {widest} vectors, but memory_limit is {memory_limit / 1e9:.2g} GB; raise it, or use fewer "
            "components or threads"
        )
    return most
