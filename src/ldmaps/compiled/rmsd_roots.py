"""The largest root for one pair of frames at a time, in float64: for lanes that the vector code leaves in doubt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldmaps.compiled.jit import compiled
from ldmaps.compiled.rmsd_vectors import BOUND

__all__ = ["careful_root", "load_matrix", "orthogonal_columns"]


@compiled(error_model="numpy")
def orthogonal_columns(u: Any, v: Any) -> None:
    """Turn the columns of ``u`` (3×3) to right angles from the right, and write to ``v`` by what rotation.

    One-sided Jacobi: the column lengths become the singular values, each to
    nearly full relative accuracy, and no case is ill-conditioned.
    """
    for i in range(3):
        for j in range(3):
            v[i, j] = 1.0 if i == j else 0.0
    for _ in range(30):
        turned = False
        for p in range(2):
            for q in range(p + 1, 3):
                pp = u[0, p] * u[0, p] + u[1, p] * u[1, p] + u[2, p] * u[2, p]
                qq = u[0, q] * u[0, q] + u[1, q] * u[1, q] + u[2, q] * u[2, q]
                pq = u[0, p] * u[0, q] + u[1, p] * u[1, q] + u[2, p] * u[2, q]
                if abs(pq) <= 1e-16 * math.sqrt(pp * qq) or pq == 0.0:
                    continue
                turned = True
                tau = (qq - pp) / (2.0 * pq)
                t = math.copysign(1.0, tau) / (abs(tau) + math.sqrt(1.0 + tau * tau))
                cosine = 1.0 / math.sqrt(1.0 + t * t)
                sine = cosine * t
                for i in range(3):
                    x, y = u[i, p], u[i, q]
                    u[i, p], u[i, q] = cosine * x - sine * y, sine * x + cosine * y
                    x, y = v[i, p], v[i, q]
                    v[i, p], v[i, q] = cosine * x - sine * y, sine * x + cosine * y
        if not turned:
            break


@compiled(error_model="numpy")
def load_matrix(work: Any, lane: int, u: Any) -> None:
    """Write M of one lane to ``u``."""
    for i in range(3):
        for j in range(3):
            u[i, j] = work[3 * i + j, lane]


@compiled(error_model="numpy")
def _jacobi_root(work: Any, lane: int, u: Any, v: Any) -> float:
    load_matrix(work, lane, u)
    # Jacobi treats rows and columns differently: of M and Mᵀ always take the same one.
    b, c, f, d, g, h = u[0, 1], u[0, 2], u[1, 2], u[1, 0], u[2, 0], u[2, 1]
    if b < d or (b == d and (c < g or (c == g and f < h))):
        u[0, 1], u[0, 2], u[1, 2], u[1, 0], u[2, 0], u[2, 1] = d, g, h, b, c, f
    orthogonal_columns(u, v)
    total = 0.0
    smallest = np.inf
    for p in range(3):
        length = math.sqrt(u[0, p] * u[0, p] + u[1, p] * u[1, p] + u[2, p] * u[2, p])
        total += length
        smallest = min(smallest, length)
    # The columns are at right angles now, so the sign of their determinant is certain.
    det = (
        u[0, 0] * (u[1, 1] * u[2, 2] - u[1, 2] * u[2, 1])
        + u[0, 1] * (u[1, 2] * u[2, 0] - u[1, 0] * u[2, 2])
        + u[0, 2] * (u[1, 0] * u[2, 1] - u[1, 1] * u[2, 0])
    )
    return total - 2.0 * smallest if det < 0.0 else total


@compiled(error_model="numpy")
def careful_root(work: Any, lane: int, epsilon: float, u: Any, v: Any) -> Any:
    """Return λ of one doubtful lane: Laguerre in float64 until it stands still, else Jacobi.

    float64 alone settles nearly all lanes of a float32 block.
    """
    a, b, c = np.float64(work[0, lane]), np.float64(work[1, lane]), np.float64(work[2, lane])
    d, e, f = np.float64(work[3, lane]), np.float64(work[4, lane]), np.float64(work[5, lane])
    g, h, i = np.float64(work[6, lane]), np.float64(work[7, lane]), np.float64(work[8, lane])
    cg, bd, fh, bf, dh = c * g, b * d, f * h, b * f, d * h
    c00, c11, c22 = e * i - fh, a * i - cg, a * e - bd
    c01, c10 = f * g - d * i, h * c - b * i
    c02, c20 = dh - g * e, bf - c * e
    c12, c21 = b * g - a * h, d * c - a * f
    square = (a * a + e * e + i * i) + ((b * b + d * d) + (c * c + g * g) + (f * f + h * h))
    cofactors = (c00 * c00 + c11 * c11 + c22 * c22) + (
        (c01 * c01 + c10 * c10) + (c02 * c02 + c20 * c20) + (c12 * c12 + c21 * c21)
    )
    det = (bf * g + dh * c) - e * cg - i * bd + a * c00
    root_c = math.sqrt(cofactors)
    product = min(np.float64(work[BOUND, lane]), 0.5 * square)
    rounding = 2.2e-16 * (2.0 * cofactors + 0.5 * product * (root_c + product))
    lam = math.sqrt(square + 2.0 * root_c)
    y = math.sqrt(max(cofactors + 2.0 * det * lam, 0.0))
    lam = math.sqrt(square + 2.0 * y)
    for _ in range(12):
        value = y * y - cofactors - 2.0 * det * lam
        q = y * lam - det
        curvature = lam * lam + y
        t = 2.0 * value / (abs(q) + math.sqrt(max(9.0 * q * q - 6.0 * value * curvature, 0.0)) + 1e-300)
        y -= t * (lam - 0.5 * t)
        lam -= t
        q = y * lam - det
        curvature = lam * lam + y
        if curvature > 0.0 and t * t * curvature <= epsilon * q and rounding <= 8.0 * epsilon * q:
            return lam
    return _jacobi_root(work, lane, u, v)
