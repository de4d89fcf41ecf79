"""Loops over blocks of squared distances, whatever metric they come from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.exponential import exp
from ldmaps.compiled.jit import EXACT, REDUCE, compiled
from ldmaps.compiled.layout import BLOCK
from ldmaps.compiled.rows import first_equal, lowest_of, weigh

__all__ = ["extend", "gaussian", "judge", "kernel_moments", "nearest_in_rows"]


@compiled(fastmath=EXACT)
def gaussian(squared: Any, rate: Any) -> None:
    """Replace each d² by exp(−rate·d²)."""
    for i in range(squared.shape[0]):
        row = squared[i]
        for j in range(row.shape[0]):
            row[j] = exp(-rate * row[j])


@compiled
def extend(
    squared: Any, rate: Any, weights: Any, coefficients: Any, coordinates: Any, nearest: Any, lowest: Any
) -> None:
    """Embed each row of d² to the landmarks: w(x)·B, nearest landmark and its d²; destroys ``squared``.

    The nearest landmark's d² is subtracted inside the exponential: it cancels in
    the normalised weights, and a point far from all landmarks does not become 0/0.
    ``coefficients`` is Bᵀ, (k, M), so that every sum runs over contiguous memory.
    Blocks of landmarks that are all too far to matter are skipped, which pays
    where neighbours among the landmarks stand together.
    """
    n_blocks = (squared.shape[1] + BLOCK - 1) // BLOCK
    lows = np.empty(n_blocks, squared.dtype)
    sums = np.empty(coefficients.shape[0])
    for i in range(squared.shape[0]):
        row = squared[i]
        for block in range(n_blocks):
            lows[block] = lowest_of(row[block * BLOCK : (block + 1) * BLOCK])
        nearest[i], lowest[i] = weigh(row, lows, rate, weights, coefficients, sums, coordinates[i])


@compiled
def judge(
    squared: Any, nearest: Any, squared_radii: Any, slack: float, epsilon: float, distance: Any, inside: Any
) -> None:
    """Say how far points are from their nearest landmarks, in √ε, and whether their domains hold them."""
    for i in range(len(squared)):
        value = np.float64(squared[i])
        inside[i] = value <= squared_radii[nearest[i]] * slack
        distance[i] = np.sqrt(value / epsilon)


@compiled
def nearest_in_rows(squared: Any, nearest: Any, lowest: Any) -> None:
    """Find the smallest entry of each row and the first place where it stands."""
    n_columns = squared.shape[1]
    for i in range(squared.shape[0]):
        row = squared[i]
        # Only a minimum can be vectorised, not its place; so the place is looked for in one block alone.
        low, closest = lowest_of(row[:BLOCK]), 0
        for start in range(BLOCK, n_columns, BLOCK):
            part = lowest_of(row[start : start + BLOCK])
            if part < low:
                low, closest = part, start
        nearest[i] = closest + first_equal(row[closest : closest + BLOCK], low)
        lowest[i] = low


@compiled(fastmath=REDUCE)
def kernel_moments(
    squared: Any, rates: Any, row_weights: Any, col_weights: Any, sums: Any, moments: Any
) -> None:
    """Add Σ w_i w_j exp(−r d²) and Σ w_i w_j r d² exp(−r d²) over a block, for every rate r."""
    for i in range(squared.shape[0]):
        row = squared[i]
        for g in range(rates.shape[0]):
            rate = rates[g]
            total = 0.0
            moment = 0.0
            for j in range(row.shape[0]):
                x = rate * row[j]
                if x < 700.0:
                    value = np.exp(-x) * col_weights[j]
                    total += value
                    moment += x * value
            sums[g] += row_weights[i] * total
            moments[g] += row_weights[i] * moment
