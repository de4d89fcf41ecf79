"""Loops over blocks of squared distances, whatever metric they come from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.exponential import exp
from ldmaps.compiled.jit import EXACT, REDUCE, compiled
from ldmaps.compiled.layout import BLOCK
from ldmaps.compiled.rows import first_equal, lowest_of, weigh

__all__ = ["FEW", "extend", "extend_few", "gaussian", "judge", "kernel_moments", "nearest_in_rows"]

#: Landmarks up to which points are embedded side by side, by :func:`extend_few`.
FEW = 16
#: Points that stand side by side.
LANES = 16


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


@compiled(fastmath=EXACT)
def _find_nearest(squared: Any, nearest: Any, lowest: Any) -> None:
    """Find the smallest of each column of (M, LANES) and the first row where it stands."""
    for lane in range(LANES):
        lowest[lane], nearest[lane] = squared[0, lane], 0
    for j in range(1, squared.shape[0]):
        for lane in range(LANES):
            value, low = squared[j, lane], lowest[lane]
            nearest[lane] = j if value < low else nearest[lane]
            lowest[lane] = value if value < low else low


@compiled(fastmath=EXACT)
def _weigh_columns(squared: Any, lowest: Any, rate: Any, weights: Any, total: Any) -> None:
    """Replace d² of (M, LANES) by weights, and add them up."""
    for lane in range(LANES):
        total[lane] = 0.0
    for j in range(squared.shape[0]):
        weight = weights[j]
        for lane in range(LANES):
            share = exp(rate * (lowest[lane] - squared[j, lane])) * weight
            squared[j, lane] = share
            total[lane] += share


@compiled(fastmath=EXACT)
def _project_columns(shares: Any, coefficients: Any, total: Any, sums: Any) -> None:
    """Write w(x)·B of one component for (M, LANES) weights."""
    for lane in range(LANES):
        sums[lane] = 0.0
    for j in range(shares.shape[0]):
        coefficient = np.float64(coefficients[j])
        for lane in range(LANES):
            sums[lane] += shares[j, lane] * coefficient
    for lane in range(LANES):
        sums[lane] /= total[lane]


@compiled
def extend_few(
    squared: Any, rate: Any, weights: Any, coefficients: Any, coordinates: Any, nearest: Any, lowest: Any
) -> None:
    """Embed as :func:`extend` does, LANES points side by side: a few landmarks make a row too short for that.

    All lanes are always computed, copies of a point in those left over, so that a point's
    coordinates do not depend on how many come with it.
    """
    n_points, n_landmarks = squared.shape
    block = np.empty((n_landmarks, LANES), squared.dtype)
    low, place = np.empty(LANES, squared.dtype), np.empty(LANES, np.int32)
    total, sums = np.empty(LANES), np.empty(LANES)
    for start in range(0, n_points, LANES):
        last = min(LANES, n_points - start) - 1
        for lane in range(LANES):
            point = start + min(lane, last)
            for j in range(n_landmarks):
                block[j, lane] = squared[point, j]
        _find_nearest(block, place, low)
        _weigh_columns(block, low, rate, weights, total)
        for lane in range(last + 1):
            nearest[start + lane], lowest[start + lane] = place[lane], low[lane]
        for component in range(coefficients.shape[0]):
            _project_columns(block, coefficients[component], total, sums)
            for lane in range(last + 1):
                coordinates[start + lane, component] = sums[lane]


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
