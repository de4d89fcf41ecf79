"""Σ_j g_cj ∂d²(x, z_j)/∂x for rows of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.jit import EXACT, REDUCE, compiled

__all__ = ["vector_gradients"]


@compiled(fastmath=REDUCE)
def _product(a: Any, b: Any) -> Any:
    total = a[0] * a.dtype.type(0)
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@compiled(fastmath=EXACT)
def _differences(x: Any, column: Any, period: Any, inverse: Any, out: Any) -> None:
    for j in range(out.size):
        t = x - column[j]
        out[j] = t - period * np.rint(t * inverse)


@compiled
def vector_gradients(columns: Any, points: Any, period: Any, shares: Any, gradient: Any) -> None:
    """Write Σ_j g_cj 2(x − z_j), taken the shorter way round where a feature is periodic.

    Parameters
    ----------
    columns : ndarray of shape (features, M)
    points : ndarray of shape (n, features)
    period : ndarray of shape (features,)
        0 where a feature does not repeat.
    shares : ndarray of shape (n, k, M)
    gradient : ndarray of shape (n, k, features)
    """
    features, n_landmarks = columns.shape
    real = columns.dtype.type
    difference = np.empty(n_landmarks, columns.dtype)
    for i in range(shares.shape[0]):
        for f in range(features):
            inverse = real(1) / period[f] if period[f] > 0 else real(0)
            _differences(points[i, f], columns[f], period[f], inverse, difference)
            for c in range(shares.shape[1]):
                gradient[i, c, f] = real(2) * _product(shares[i, c], difference)
