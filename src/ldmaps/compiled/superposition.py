"""The best superposition of one pair of frames, where it is needed itself and not only the distance."""

from __future__ import annotations

import math
from typing import Any

from ldmaps.compiled.jit import compiled
from ldmaps.compiled.rmsd_roots import orthogonal_columns

__all__ = ["best_rotation", "write_centre"]


@compiled(error_model="numpy")
def best_rotation(u: Any, v: Any, rotation: Any) -> None:
    """Write the proper rotation R that maximises tr(Rᵀ M), M being ``u``; ``u`` and ``v``, both (3, 3), are scratch.

    R = Σ_p u_p v_pᵀ over M's singular vectors. Third axes as cross products make it proper and turn
    the shortest axis over where that is needed; nothing is ill-conditioned, and where R is not
    unique one of the best is taken, always the same.
    """
    orthogonal_columns(u, v)
    last = 0
    for p in range(3):
        rotation[0, p] = math.sqrt(u[0, p] * u[0, p] + u[1, p] * u[1, p] + u[2, p] * u[2, p])
        if rotation[0, p] < rotation[0, last]:
            last = p
    p, q = (last + 1) % 3, (last + 2) % 3
    if rotation[0, p] < rotation[0, q]:
        p, q = q, p
    first, second = rotation[0, p], rotation[0, q]
    for i in range(3):
        u[i, p] = u[i, p] / first if first > 0.0 else (1.0 if i == 0 else 0.0)
        u[i, q] /= second
    if second <= 1e-14 * first:
        # Atoms on a line leave the turn about that line open.
        least = 0
        for i in range(1, 3):
            if abs(u[i, p]) < abs(u[least, p]):
                least = i
        along = u[least, p]
        size = math.sqrt(1.0 - along * along)
        for i in range(3):
            u[i, q] = ((1.0 if i == least else 0.0) - along * u[i, p]) / size
    for i in range(3):
        left = _third(u, p, q, i)
        for j in range(3):
            rotation[i, j] = u[i, p] * v[j, p] + u[i, q] * v[j, q] + left * _third(v, p, q, j)


@compiled
def _third(axes: Any, p: int, q: int, i: int) -> Any:
    """Return a coordinate of the cross product of two columns."""
    j, k = (i + 1) % 3, (i + 2) % 3
    return axes[j, p] * axes[k, q] - axes[k, p] * axes[j, q]


@compiled
def write_centre(frame: Any, atoms: Any, weights: Any, centre: Any) -> None:
    """Write the weighted mean position of some atoms, relative to the first of them for accuracy."""
    for x in range(3):
        origin = frame[atoms[0], x]
        total = 0.0
        for a in range(atoms.size):
            total += weights[a] * (frame[atoms[a], x] - origin)
        centre[x] = origin + total
