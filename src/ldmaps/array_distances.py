"""Squared distances of points to landmarks, (n, M), in the array API standard: its libraries can differentiate them.

``xp`` are the functions of the points' library, ``known`` the numbers of the map as its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ldmaps.metrics.features import CONTACT_POWER, CONTACT_RADIUS
from ldmaps.metrics.local_scales import POWER

__all__ = ["minimum", "squared_distances"]

#: By how many roundings an eigenvalue counts as more than it is, so that adj(1 − S) is not 0 where it is double.
_ROOM = 256


def squared_distances(xp: Any, X: Any, distance: str, known: Mapping[str, Any]) -> Any:
    """Return d² of points ``X`` to the landmarks, (n, M), by the ``distance`` of that name."""
    squared = _SQUARED[distance](xp, X, known)
    return _in_local_units(xp, squared, known["log_factors"]) if "log_factors" in known else squared


def _in_local_units(xp: Any, squared: Any, log_factors: Any) -> Any:
    """Return d'² = d² f(x) f_j; the factor f(x) is that of the landmarks around x (ldmaps.metrics.local_scales)."""
    lowest = minimum(xp, squared)
    is_apart = squared > 0
    # At a landmark, it alone counts. The division there would have no derivative even where its result is not taken.
    ratios = xp.where(is_apart, lowest / xp.where(is_apart, squared, 1 + 0 * squared), 1 + 0 * squared)
    shares = ratios**POWER
    own = xp.sum(shares * log_factors, axis=-1, keepdims=True) / xp.sum(shares, axis=-1, keepdims=True)
    return squared * xp.exp(own + log_factors)


def minimum(xp: Any, values: Any) -> Any:
    """Return the least of each row, (n, 1)."""
    found = xp.min(values, axis=-1, keepdims=True)
    return getattr(found, "values", found)  # torch returns where it is, too


# -- by metric ------------------------------------------------------------------------------------


def _squared_columns(xp: Any, X: Any, known: Mapping[str, Any]) -> Any:
    difference = X[:, None, :] - known["places"]
    turns = xp.round(difference / known["turn_lengths"])
    return xp.sum(((difference - known["periods"] * turns) * known["scales"]) ** 2, axis=-1)


def _squared_features(xp: Any, X: Any, known: Mapping[str, Any]) -> Any:
    frames = xp.reshape(X, (X.shape[0], -1, 3))
    values = []
    for name, atoms in known.items():
        if name.startswith("atoms_"):
            members = [_chosen(xp, frames, atoms[:, place]) for place in range(atoms.shape[1])]
            values.append(_VALUES[name.removeprefix("atoms_")](xp, *members))
    return _squared_columns(xp, xp.concat(values, axis=1), known)


def _chosen(xp: Any, frames: Any, atoms: Any) -> Any:
    """Return some atoms of frames, by their indices."""
    if hasattr(xp, "index_select"):  # torch, whose take() is another function
        return xp.index_select(frames, 1, atoms)
    return xp.take(frames, atoms, axis=1)


def _squared_rmsd(xp: Any, X: Any, known: Mapping[str, Any]) -> Any:
    # max over rotations R of Σ w x·Rz is the largest eigenvalue of the quaternion matrix (Horn 1987).
    frames, norms = _centred(xp, X, known)
    largest = xp.linalg.eigvalsh(_quaternion_matrix(xp, frames, known["weighted"]))[..., -1]
    return _not_negative(xp, norms + known["norms"] - 2 * largest)


def _squared_aligned(xp: Any, X: Any, known: Mapping[str, Any]) -> Any:
    # The eigenvector q of the fitted atoms' matrix is the rotation that superposes them; q·K·q is Σ w x·Rz over all
    # atoms. It is taken as qqᵀ ∝ adj(1 − S), S being the fitted atoms' matrix over its largest eigenvalue: the adjugate
    # has a derivative where other eigenvalues are equal (a tetrahedron on itself), and eigenvectors have none. By
    # Cayley and Hamilton, for tr S = 0, adj(1 − S) = S³ + S² + (1 − tr S²/2)S + (1 − tr S²/2 − tr S³/3); and tr K = 0.
    frames, norms = _centred(xp, X, known)
    fit = _quaternion_matrix(xp, frames, known["fit_weighted"])
    largest = xp.linalg.eigvalsh(fit)[..., -1]
    # A little more than the largest: where it is double, the fit is not unique, and this takes the mean of all.
    scaled = fit / (largest * (1 + _ROOM * xp.finfo(X.dtype).eps))[..., None, None]
    squared = scaled @ scaled
    of_squares, of_cubes = _trace(xp, scaled, scaled), _trace(xp, squared, scaled)
    matrix = _quaternion_matrix(xp, frames, known["weighted"])
    product = scaled @ matrix
    overlap = (1 - of_squares / 2) * _trace(xp, scaled, matrix)
    overlap = overlap + _trace(xp, scaled, product) + _trace(xp, squared, product)
    overlap = overlap / (4 - of_squares - of_cubes / 3)
    return _not_negative(xp, norms + known["norms"] - 2 * overlap)


def _trace(xp: Any, symmetric: Any, other: Any) -> Any:
    """Return tr(AB) of matrices A, which are symmetric, and B."""
    return xp.sum(xp.sum(symmetric * other, axis=-1), axis=-1)


_SQUARED = {
    "columns": _squared_columns,
    "features": _squared_features,
    "rmsd": _squared_rmsd,
    "aligned": _squared_aligned,
}


def _centred(xp: Any, X: Any, known: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return frames, centred, (n, atoms, 3), and Σ w |x|², (n, 1)."""
    frames = xp.reshape(X, (X.shape[0], -1, 3))
    frames = frames - xp.sum(known["fit_weights"][:, None] * frames, axis=1, keepdims=True)
    return frames, xp.sum(known["weights"] * xp.sum(frames**2, axis=-1), axis=-1)[:, None]


def _quaternion_matrix(xp: Any, frames: Any, weighted: Any) -> Any:
    """Return K, (n, M, 4, 4), with q·K·q = Σ w x·R(q)z for unit quaternions q."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = (
        [frames[..., one] @ weighted[other, ...] for other in range(3)] for one in range(3)
    )
    rows = [
        [xx + yy + zz, zy - yz, xz - zx, yx - xy],
        [zy - yz, xx - yy - zz, xy + yx, xz + zx],
        [xz - zx, xy + yx, yy - xx - zz, yz + zy],
        [yx - xy, xz + zx, yz + zy, zz - xx - yy],
    ]
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def _not_negative(xp: Any, squared: Any) -> Any:
    """Return d² without what rounding took below 0."""
    return xp.where(squared > 0, squared, 0 * squared)


# -- internal coordinates, (n, features) -----------------------------------------------------------


def _cross(xp: Any, a: Any, b: Any) -> Any:
    ax, ay, az, bx, by, bz = (vector[..., axis] for vector in (a, b) for axis in range(3))
    return xp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def _dot(xp: Any, a: Any, b: Any) -> Any:
    return xp.sum(a * b, axis=-1)


def _distance(xp: Any, a: Any, b: Any) -> Any:
    return xp.sqrt(_dot(xp, a - b, a - b))


def _contact(xp: Any, a: Any, b: Any) -> Any:
    return 1 / (1 + (_distance(xp, a, b) / CONTACT_RADIUS) ** CONTACT_POWER)


def _angle(xp: Any, a: Any, vertex: Any, b: Any) -> Any:
    normal = _cross(xp, a - vertex, b - vertex)
    return xp.atan2(xp.sqrt(_dot(xp, normal, normal)), _dot(xp, a - vertex, b - vertex))


def _dihedral(xp: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    first, second = _cross(xp, b - a, c - b), _cross(xp, c - b, d - c)
    return xp.atan2(_distance(xp, b, c) * _dot(xp, b - a, second), _dot(xp, first, second))


_VALUES: dict[str, Callable[..., Any]] = {
    "dihedral": _dihedral,
    "angle": _angle,
    "distance": _distance,
    "contact": _contact,
}
