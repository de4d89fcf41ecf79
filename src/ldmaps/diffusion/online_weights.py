"""The weights of the online step for many points at once, and how errors change with what they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.threads import (
    MIN_TILE_ENTRIES,
    resolve_threads,
    run_tiles,
    single_threaded_blas,
    tile_rows,
)

__all__ = ["interpolation_weights", "weight_gradient"]


def interpolation_weights(
    squared: NDArray[Any], rate: float, log_weights: NDArray[np.float64], n_threads: int | None = None
) -> NDArray[np.float64]:
    """Return w_ij ∝ exp(−rate·d²_ij) s_j with rows that sum to 1, in float64 whatever d² is stored in."""
    out: NDArray[np.float64] = np.empty(squared.shape)

    def work(rows: slice) -> None:
        block = out[rows]
        np.multiply(squared[rows], -rate, out=block)
        block += log_weights
        block -= block.max(axis=1, keepdims=True)
        np.exp(block, out=block)
        block /= block.sum(axis=1, keepdims=True)

    run_tiles(len(out), _tile(out), work, resolve_threads(n_threads))
    return out


def weight_gradient(
    weights: NDArray[np.float64],
    squared: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    residuals: NDArray[np.float64],
    n_threads: int | None = None,
    *,
    curvatures: NDArray[np.float64] | None = None,  # κ, for Σ_i r_i·(w·B)_i + κ_i |w_i|²/2 instead
    by_exponent: NDArray[Any] | None = None,  # (M, n), filled with those by log s_j − rate·d²_ij of each row
) -> tuple[NDArray[np.float64], float]:
    """Return Σ_i r_i·∂(w·B)_i by log s_j, of shape (M,), and by the rate; rows of ``weights`` sum to 1."""
    # From ∂w_ij/∂log s_m = w_ij (δ_jm − w_im) and ∂w_ij/∂rate = −w_ij (d²_ij − Σ_m w_im d²_im).
    tile = _tile(weights)
    starts = range(0, len(weights), tile)
    # One row of partial sums per tile, added up in order, so that threads cannot change the rounding.
    by_weight = np.empty((len(starts), weights.shape[1]))
    by_rate = np.empty(len(starts))

    def work(rows: slice) -> None:
        place = rows.start // tile
        shares = residuals[rows] @ coefficients.T
        if curvatures is not None:
            shares += curvatures[rows, None] * weights[rows]
        shares -= np.einsum("ij,ij->i", shares, weights[rows])[:, None]
        shares *= weights[rows]
        np.sum(shares, axis=0, out=by_weight[place])
        if by_exponent is not None:
            by_exponent[:, rows] = shares.T
        by_rate[place] = -np.einsum("ij,ij->", shares, squared[rows])

    with single_threaded_blas():
        run_tiles(len(weights), tile, work, resolve_threads(n_threads))
    return by_weight.sum(axis=0), float(by_rate.sum())


def _tile(weights: NDArray[np.float64]) -> int:
    """Return how many rows make a tile: all of them where they take less time than waking a thread."""
    n_columns = int(weights.shape[1])
    return max(tile_rows(n_columns, weights.itemsize), MIN_TILE_ENTRIES // n_columns)
