"""Loops over blocks of squared distances for the error estimates; sums in float64 whatever the blocks are in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.exponential import exp64
from ldmaps.compiled.jit import EXACT, compiled
from ldmaps.compiled.rows import total_of, weighted_total

__all__ = ["first_order_rows", "kernel_rows"]


@compiled(fastmath=EXACT)
def _weighted_kernel(squared: Any, rate: Any, weights: Any, out: Any) -> None:
    for j in range(squared.shape[0]):
        out[j] = exp64(-rate * np.float64(squared[j])) * weights[j]


@compiled
def _kernel_change(squared: Any, moved: Any, labels: Any, rate: Any, kernel: Any, change: Any) -> None:
    # eqn err3: δA = −(d δ/ε) A with δ = d′ − d, that is (d² − d d′)/ε
    for j in range(squared.shape[0]):
        before = np.float64(squared[j])
        change[j] = 2.0 * rate * (before - np.sqrt(before * np.float64(moved[labels[j]]))) * kernel[j]


@compiled
def kernel_rows(squared: Any, rate: Any, weights: Any, kernel: Any, degrees: Any) -> None:
    """Fill ``kernel`` (float64) with A_ij s_j and ``degrees`` with its row sums."""
    for i in range(squared.shape[0]):
        _weighted_kernel(squared[i], rate, weights, kernel[i])
        degrees[i] = total_of(kernel[i])


@compiled
def first_order_rows(
    squared: Any,
    moved: Any,
    labels: Any,
    rate: Any,
    weights: Any,
    vectors: Any,
    degrees: Any,
    degree_changes: Any,
    sums: Any,
) -> None:
    """D_i, δD_i and Σ_j δA_ij w_j ψ_l(j), to first order in the changes of distances.

    ``moved`` holds for each row the squared distances to all landmarks, of which
    column j's is ``moved[i, labels[j]]``.
    """
    kernel = np.empty(squared.shape[1])
    change = np.empty(squared.shape[1])
    for i in range(squared.shape[0]):
        _weighted_kernel(squared[i], rate, weights, kernel)
        _kernel_change(squared[i], moved[i], labels, rate, kernel, change)
        degrees[i] = total_of(kernel)
        degree_changes[i] = total_of(change)
        for component in range(vectors.shape[0]):
            sums[i, component] = weighted_total(change, vectors[component])
