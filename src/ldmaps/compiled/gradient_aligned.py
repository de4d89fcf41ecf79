"""Σ_j g_cj ∂d²(x, z_j)/∂x under RMSD where only some atoms determine the superposition."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.jit import compiled
from ldmaps.compiled.superposition import best_rotation, write_centre

__all__ = ["aligned_gradients"]


@compiled
def _cross(a: Any, b: Any, out: Any) -> None:
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@compiled(error_model="numpy")
def _turning(fit: Any, whole: Any, rotation: Any, u: Any) -> None:
    """Write u with ∂ tr(Rᵀ M)/∂x_a = f_a u × (R z_a) for a superposed atom; 0 where R is not unique.

    R depends on the fitted atoms through N = Σ f x zᵀ: a change dN turns R by the
    rotation vector ω of (tr S − S) ω = v(dN Rᵀ), S = N Rᵀ, where v(D) is the vector
    of D − Dᵀ; and tr(Rᵀ M) then changes by v(M Rᵀ)·ω.
    """
    s, p = np.zeros((3, 3)), np.zeros((3, 3))
    for row in range(3):
        for column in range(3):
            for axis in range(3):
                s[row, column] += fit[row, axis] * rotation[column, axis]
                p[row, column] += whole[row, axis] * rotation[column, axis]
    trace = s[0, 0] + s[1, 1] + s[2, 2]
    a, b, c = trace - s[0, 0], trace - s[1, 1], trace - s[2, 2]
    d, e, f = -0.5 * (s[0, 1] + s[1, 0]), -0.5 * (s[0, 2] + s[2, 0]), -0.5 * (s[1, 2] + s[2, 1])
    v0, v1, v2 = p[2, 1] - p[1, 2], p[0, 2] - p[2, 0], p[1, 0] - p[0, 1]
    c00, c01, c02 = b * c - f * f, e * f - d * c, d * f - b * e
    c11, c12, c22 = a * c - e * e, d * e - a * f, a * b - d * d
    det = a * c00 + d * c01 + e * c02
    u[:] = 0.0
    if det > 1e-12 * trace * trace * trace:
        u[0] = (c00 * v0 + c01 * v1 + c02 * v2) / det
        u[1] = (c01 * v0 + c11 * v1 + c12 * v2) / det
        u[2] = (c02 * v0 + c12 * v1 + c22 * v2) / det


@compiled(error_model="numpy")
def aligned_gradients(
    frames: Any, kept: Any, weights: Any, fit_weights: Any, landmarks: Any, shares: Any, gradient: Any
) -> None:
    """Write Σ_j g_cj ∂d²(x, z_j)/∂x where only some atoms determine the superposition.

    Parameters
    ----------
    frames : ndarray of shape (n, atoms, 3), float64
    kept : ndarray of int, shape (a,)
        Atoms with a weight.
    weights, fit_weights : ndarray of shape (a,), float64
        Their weights in the mean and in the superposition (0 for atoms that are not
        superposed); each sums to 1.
    landmarks : ndarray of shape (M, a, 3), float64
        Landmarks, moved so that the superposed atoms' weighted mean is 0.
    shares : ndarray of shape (n, k, M)
    gradient : ndarray of shape (n, k, atoms, 3)
        Zero for atoms without a weight, which are not written.
    """
    n_atoms, n_sets = kept.size, shares.shape[1]
    centre, turned, by_turning, u = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    x = np.empty((n_atoms, 3))
    fit, whole, rotation = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    matrix, axes = np.empty((3, 3)), np.empty((3, 3))
    sums, totals = np.empty((n_sets, n_atoms, 3)), np.empty((n_sets, 3))
    for i in range(frames.shape[0]):
        write_centre(frames[i], kept, fit_weights, centre)
        for a in range(n_atoms):
            for axis in range(3):
                x[a, axis] = frames[i, kept[a], axis] - centre[axis]
        sums[:] = 0.0
        for j in range(landmarks.shape[0]):
            z = landmarks[j]
            fit[:] = 0.0
            whole[:] = 0.0
            for a in range(n_atoms):
                for row in range(3):
                    for column in range(3):
                        product = x[a, row] * z[a, column]
                        fit[row, column] += fit_weights[a] * product
                        whole[row, column] += weights[a] * product
            for row in range(3):
                for column in range(3):
                    matrix[row, column] = fit[row, column]
            best_rotation(matrix, axes, rotation)
            _turning(fit, whole, rotation, u)
            for a in range(n_atoms):
                for axis in range(3):
                    turned[axis] = 0.0
                    for column in range(3):
                        turned[axis] += rotation[axis, column] * z[a, column]
                _cross(u, turned, by_turning)
                for axis in range(3):
                    change = weights[a] * (x[a, axis] - turned[axis]) - fit_weights[a] * by_turning[axis]
                    for c in range(n_sets):
                        sums[c, a, axis] += shares[i, c, j] * change
        totals[:] = 0.0
        for c in range(n_sets):
            for a in range(n_atoms):
                for axis in range(3):
                    totals[c, axis] += sums[c, a, axis]
            for a in range(n_atoms):
                for axis in range(3):
                    # Superposed atoms move the centre as well.
                    gradient[i, c, kept[a], axis] = 2.0 * (
                        sums[c, a, axis] - fit_weights[a] * totals[c, axis]
                    )
