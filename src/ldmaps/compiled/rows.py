"""Loops over one row of squared distances, or of weights, that other loops are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.exponential import exp
from ldmaps.compiled.jit import EXACT, REDUCE, compiled, inlined
from ldmaps.compiled.layout import BLOCK

__all__ = [
    "distance_sums",
    "first_equal",
    "lowest_of",
    "negligible",
    "total_of",
    "weigh",
    "weighted_total",
]

#: Exponents beyond which a weight is lost in rounding even if its multiplicity is a million times the nearest's.
NEGLIGIBLE32 = 30.0
NEGLIGIBLE64 = 51.0


@compiled(fastmath=REDUCE)
def lowest_of(row: Any) -> Any:
    """Return the lowest value."""
    low = row[0]
    for j in range(row.shape[0]):
        low = min(low, row[j])
    return low


@compiled
def first_equal(row: Any, value: Any) -> int:
    """Return the first place where ``value`` stands."""
    for j in range(row.shape[0]):
        if row[j] == value:
            return j
    return 0


@compiled(fastmath=REDUCE)
def total_of(row: Any) -> Any:
    """Return Σ_j x_j in float64."""
    total = np.float64(0.0)
    for j in range(row.shape[0]):
        total += row[j]
    return total


@compiled(fastmath=REDUCE)
def weighted_total(row: Any, values: Any) -> Any:
    """Return Σ_j x_j v_j in float64."""
    total = np.float64(0.0)
    for j in range(row.shape[0]):
        total += row[j] * values[j]
    return total


@compiled(fastmath=REDUCE)
def distance_sums(squared: Any, weights: Any, sums: Any) -> None:
    """Σ_j w_j d_ij for each row, from d²."""
    for i in range(squared.shape[0]):
        row = squared[i]
        total = np.float64(0.0)
        for j in range(row.shape[0]):
            total += np.sqrt(row[j]) * weights[j]
        sums[i] = total


@inlined
def negligible(values: Any) -> Any:
    """Return the exponent beyond which a weight is lost in rounding, in the precision of an array."""
    return NEGLIGIBLE32 if values.itemsize == 4 else NEGLIGIBLE64


@compiled(fastmath=EXACT)
def _shifted_weights(row: Any, lowest: Any, rate: Any, weights: Any) -> None:
    for j in range(row.shape[0]):
        row[j] = exp(rate * (lowest - row[j])) * weights[j]


@compiled
def weigh(
    row: Any, lows: Any, rate: Any, weights: Any, coefficients: Any, sums: Any, coordinates: Any
) -> Any:
    """Embed one point by its d² to the landmarks and the lowest of each block; return the nearest and its d².

    Blocks too far to matter are not read, so nothing need stand there.
    """
    closest = 0
    for block in range(1, lows.size):
        if lows[block] < lows[closest]:
            closest = block
    low = lows[closest]
    nearest = closest * BLOCK + first_equal(row[closest * BLOCK : (closest + 1) * BLOCK], low)
    total = 0.0
    sums[:] = 0.0
    reach = low + negligible(row) / rate
    for block in range(lows.size):
        if lows[block] > reach:
            continue
        start, stop = block * BLOCK, (block + 1) * BLOCK
        part = row[start:stop]
        _shifted_weights(part, low, rate, weights[start:stop])
        total += total_of(part)
        for component in range(sums.size):
            sums[component] += weighted_total(part, coefficients[component, start:stop])
    for component in range(sums.size):
        coordinates[component] = sums[component] / total
    return nearest, low
