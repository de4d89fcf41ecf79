"""A start for the streamed solver: the modes of a landmark map, at all points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import extend, gaussian_kernel, squared_matrix
from ldmaps.diffusion.spectrum import solve_spectrum
from ldmaps.diffusion.streamed_kernel import StreamedKernel
from ldmaps.threads import single_threaded_blas

__all__ = ["landmark_start"]

#: The second bandwidth, in mean squared distances of points to their landmarks.
WIDENING = 4.0


def landmark_start(
    kernel: StreamedKernel,
    indices: NDArray[np.intp],
    multiplicities: NDArray[np.float64],
    spread: float,
    n_vectors: int,
    *,
    alpha: float = 0.0,
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Return the leading modes of a landmark map at all points."""
    # Where landmarks lie farther apart than the kernel reaches, a map of them is rough, and the modes of a wider
    # kernel are closer to those of all points. Which are better depends on the data; the solver takes what it needs
    # of both.
    metric, points, dtype = kernel.metric, kernel.points, kernel.points.dtype
    landmarks = points.take(indices)
    squared = squared_matrix(metric, landmarks, n_threads=n_threads)
    count = min(n_vectors, len(indices) - 1)
    modes = []
    for epsilon in dict.fromkeys((kernel.epsilon, max(kernel.epsilon, WIDENING * spread))):
        stored = gaussian_kernel(squared.copy(), epsilon, n_threads)
        with single_threaded_blas():
            spectrum = solve_spectrum(stored, multiplicities, count, alpha=alpha, n_threads=n_threads)
        # Nyström without its division by λ, which only changes the length of a mode.
        coefficients = np.ascontiguousarray(spectrum.vectors.T, dtype=dtype)
        source = spectrum.source_weights.astype(dtype)
        extended = extend(metric, points, landmarks, epsilon, source, coefficients, n_threads)
        modes.append(extended.coordinates.astype(np.float64))
    return np.hstack(modes)
