"""What each landmark adds to the gradient of the online step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.blocks import gaussian
from ldmaps.compiled.jit import EXACT, REDUCE, compiled

__all__ = ["fill_shares"]


@compiled(fastmath=REDUCE)
def _weigh(kernel: Any, weights: Any) -> Any:
    total = np.float64(0.0)
    for j in range(kernel.size):
        kernel[j] *= weights[j]
        total += kernel[j]
    return total


@compiled
def _shift(row: Any, lowest: Any, out: Any) -> None:
    for j in range(row.size):
        out[j] = row[j] - lowest


@compiled(fastmath=EXACT)
def _shares_of(kernel: Any, coefficients: Any, coordinate: Any, factor: Any, out: Any) -> None:
    for j in range(kernel.size):
        out[j] = factor * kernel[j] * (coefficients[j] - coordinate)


@compiled
def fill_shares(
    squared: Any, lowest: Any, rate: Any, weights: Any, coefficients: Any, coordinates: Any, shares: Any
) -> None:
    """Write −rate·w_j (B_cj − y_c) for rows of d² whose lowest entries and coordinates are known."""
    kernel = np.empty_like(squared)
    for i in range(squared.shape[0]):
        _shift(squared[i], lowest[i], kernel[i])
    gaussian(kernel, rate)
    for i in range(squared.shape[0]):
        # At least the nearest landmark's weight, which is positive.
        factor = kernel.dtype.type(-rate / _weigh(kernel[i], weights))
        for c in range(coefficients.shape[0]):
            _shares_of(kernel[i], coefficients[c], coordinates[i, c], factor, shares[i, c])
