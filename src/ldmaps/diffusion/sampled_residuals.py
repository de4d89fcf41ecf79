"""How far a landmark map is from the exact one, estimated from residuals at R random rows of the walk.

r_l = P ψ_l − θ_l ψ_l = Σ_m ρ_m ψ_m + r_⊥ makes an error of Σ_m ρ_m ψ_m/(θ_l − θ_m) along the other modes, to first
order, and across them of at most |r_⊥|/(θ_l − θ_b), b being the last mode that is known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import kernel_sums
from ldmaps.diffusion.ritz_bounds import in_percent_of_range
from ldmaps.diffusion.streamed_kernel import StreamedKernel

#: Rows of the walk at which residuals are computed.
SAMPLED_ROWS = 2000
#: Points whose coordinates are held at a time.
CHUNK = 1 << 16
#: Standard errors that are added to what comes from a sample: one in forty is larger.
CONFIDENCE = 2.0
#: Relative errors above this are beyond the first order.
LARGEST = 0.5


def sampled_errors(
    kernel: StreamedKernel,
    weights: NDArray[np.float64],
    modes_at: Callable[[NDArray[np.intp]], NDArray[np.float64]],
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Return bounds on the errors of coordinates against the exact map, without density normalisation."""
    # ``modes_at`` gives ψ at some points, ψᵀCψ = 1, largest λ first.
    n = len(kernel)
    rows = np.sort(rng.choice(n, min(n, SAMPLED_ROWS), replace=False))
    own, chosen = modes_at(rows), kernel.points.take(rows)
    sums, squares = np.zeros((len(rows), 1 + own.shape[1])), np.zeros(own.shape[1])
    lowest, highest = own.min(axis=0), own.max(axis=0)
    for start in range(0, n, CHUNK):
        columns = slice(start, min(start + CHUNK, n))
        modes = modes_at(np.arange(columns.start, columns.stop))
        those = kernel.points.take(columns)
        parts = kernel_sums(kernel.metric, chosen, those, kernel.epsilon, weights[columns], modes, n_threads)
        sums += np.column_stack(parts)
        squares += weights[columns] @ modes**2
        lowest, highest = np.minimum(lowest, modes.min(axis=0)), np.maximum(highest, modes.max(axis=0))
    degrees = sums[:, 0]
    root = np.sqrt(weights[rows] * degrees)[:, None]
    # In the measure C D, as vectors of S: the trivial mode first, for which P 1 = 1.
    symmetric = root * np.column_stack([np.ones(len(rows)), own])
    lengths = np.linalg.norm(symmetric, axis=0)
    vectors, images = symmetric / lengths, root * sums / degrees[:, None] / lengths
    values = (vectors * images).sum(axis=0)
    defects = images - vectors * values
    angles = np.array([_relative_error(number, vectors, defects, values) for number in range(1, len(values))])
    # What no residual can show: the scale of a mode, by which it is not normalised over all points.
    angles = np.minimum(angles + np.abs(np.sqrt(squares) - 1.0), 1.0)
    ranges = highest - lowest
    return in_percent_of_range(angles, symmetric[:, 1:], defects[:, 1:], weights[rows], degrees, ranges)


def _relative_error(
    number: int, vectors: NDArray[np.float64], defects: NDArray[np.float64], values: NDArray[np.float64]
) -> float:
    """Return the bound on the error of one of the modes relative to its length, in the measure C D; 1 says nothing."""
    residual, n_rows = defects[:, number], len(vectors)
    shares, *_ = np.linalg.lstsq(vectors, residual, rcond=None)
    others = np.delete(np.arange(len(values)), number)
    gaps = np.abs(values[number] - values[others])
    beyond = values[number] - values[-1]
    if beyond <= 0 or not (gaps > 0).all():
        return 1.0
    # Each share is a sum over rows, whose scatter is that of its terms.
    products = vectors[:, others] * residual[:, None]
    along = np.abs(shares[others]) + CONFIDENCE * products.std(axis=0, ddof=1) * np.sqrt(n_rows)
    squares = (residual - vectors @ shares) ** 2
    across = squares.sum() + CONFIDENCE * squares.std(ddof=1) * np.sqrt(n_rows)
    error = float(np.sqrt(((along / gaps) ** 2).sum() + across / beyond**2))
    return error / (1.0 - error) if error < LARGEST else 1.0
