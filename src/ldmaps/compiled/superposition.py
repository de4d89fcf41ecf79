"""The best superposition of one pair of frames, where it is needed itself and not only the distance."""

from __future__ import annotations

import math
from typing import Any

from ldmaps.compiled.jit import compiled

__all__ = ["best_rotation", "write_centre"]


@compiled(error_model="numpy")
def best_rotation(m: Any, k: Any, v: Any, rotation: Any) -> None:
    """Write the proper rotation that maximises tr(Rᵀ M), by Jacobi's method on Horn's 4×4 matrix.

    ``k`` and ``v``, both (4, 4), are scratch. Nothing is ill-conditioned here, and
    where the largest eigenvalue is double one of its eigenvectors is taken.
    """
    a, b, c, d, e, f, g, h, i = (
        m[0, 0], m[0, 1], m[0, 2], m[1, 0], m[1, 1], m[1, 2], m[2, 0], m[2, 1], m[2, 2]
    )  # fmt: skip
    k[0, 0], k[1, 1], k[2, 2], k[3, 3] = a + e + i, a - e - i, e - a - i, i - a - e
    k[0, 1], k[0, 2], k[0, 3] = h - f, c - g, d - b
    k[1, 2], k[1, 3], k[2, 3] = b + d, c + g, f + h
    for p in range(4):
        for q in range(p):
            k[p, q] = k[q, p]
        for q in range(4):
            v[p, q] = 1.0 if p == q else 0.0
    for _ in range(30):
        turned = False
        for p in range(3):
            for q in range(p + 1, 4):
                x = k[p, q]
                if x == 0.0 or abs(x) <= 1e-17 * (abs(k[p, p]) + abs(k[q, q])):
                    continue
                turned = True
                tau = (k[q, q] - k[p, p]) / (2.0 * x)
                t = math.copysign(1.0, tau) / (abs(tau) + math.sqrt(1.0 + tau * tau))
                cosine = 1.0 / math.sqrt(1.0 + t * t)
                sine = cosine * t
                for n in range(4):
                    u, w = k[n, p], k[n, q]
                    k[n, p], k[n, q] = cosine * u - sine * w, sine * u + cosine * w
                for n in range(4):
                    u, w = k[p, n], k[q, n]
                    k[p, n], k[q, n] = cosine * u - sine * w, sine * u + cosine * w
                    u, w = v[n, p], v[n, q]
                    v[n, p], v[n, q] = cosine * u - sine * w, sine * u + cosine * w
        if not turned:
            break
    best = 0
    for p in range(1, 4):
        if k[p, p] > k[best, best]:
            best = p
    q0, q1, q2, q3 = v[0, best], v[1, best], v[2, best], v[3, best]
    size = q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3
    for p in range(3):
        rotation[p, p] = (q0 * q0 - q1 * q1 - q2 * q2 - q3 * q3 + 2.0 * v[p + 1, best] ** 2) / size
    rotation[0, 1], rotation[1, 0] = 2.0 * (q1 * q2 - q0 * q3) / size, 2.0 * (q1 * q2 + q0 * q3) / size
    rotation[0, 2], rotation[2, 0] = 2.0 * (q1 * q3 + q0 * q2) / size, 2.0 * (q1 * q3 - q0 * q2) / size
    rotation[1, 2], rotation[2, 1] = 2.0 * (q2 * q3 - q0 * q1) / size, 2.0 * (q2 * q3 + q0 * q1) / size


@compiled
def write_centre(frame: Any, atoms: Any, weights: Any, centre: Any) -> None:
    """Write the weighted mean position of some atoms, relative to the first of them for accuracy."""
    for x in range(3):
        origin = frame[atoms[0], x]
        total = 0.0
        for a in range(atoms.size):
            total += weights[a] * (frame[atoms[a], x] - origin)
        centre[x] = origin + total
