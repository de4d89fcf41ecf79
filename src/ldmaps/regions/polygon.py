"""Simple polygons in the plane: which points are inside, and how far the others are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.regions.region_values import LARGEST

__all__ = ["locate", "simple_polygon"]

#: Each edge is compared with all others.
MOST_VERTICES = 10_000
#: Roundings by which a point may miss an edge and still lie on it.
_ON_EDGE = 8 * np.finfo(np.float64).eps


def locate(
    vertices: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether points lie inside a simple polygon, edges included, and their distance to the nearest edge."""
    odd = np.zeros(len(x), dtype=bool)
    on_edge = odd.copy()
    nearest = np.full(len(x), np.inf)
    for (ax, ay), (bx, by) in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        ux, uy, px, py = bx - ax, by - ay, x - ax, y - ay
        # A ray to +x: half-open in y, so that a vertex counts for one of its two edges.
        side = ux * py - uy * px
        odd ^= ((ay > y) != (by > y)) & ((side > 0) == (uy > 0))
        along = np.clip((px * ux + py * uy) / (ux * ux + uy * uy), 0.0, 1.0)
        away = np.hypot(px - along * ux, py - along * uy)
        on_edge |= away <= _ON_EDGE * (abs(ax) + abs(ay) + abs(bx) + abs(by))
        nearest = np.minimum(nearest, away)
    return odd | on_edge, nearest


def simple_polygon(vertices: Any) -> NDArray[np.float64]:
    """Return the vertices as (v, 2), or raise when they do not make a simple polygon."""
    try:
        corners = np.array(vertices, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        corners = np.empty(0)
    if corners.ndim != 2 or corners.shape[1] != 2:
        raise InvalidInputError("the vertices of a polygon are pairs of numbers, [[x, y], [x, y], ...]")
    is_good = (np.abs(corners) <= LARGEST).all(axis=1)
    if not is_good.all():
        bad = int(np.argmin(is_good))
        raise InvalidInputError(
            f"vertex {bad} of a polygon is {corners[bad].tolist()}; vertices must be finite, at most {LARGEST:g}"
        )
    if len(corners) > MOST_VERTICES:
        raise InvalidInputError(
            f"a polygon of {len(corners):,} vertices takes too long to check; give at most {MOST_VERTICES:,}"
        )
    if len(corners) > 1 and (corners[0] == corners[-1]).all():
        corners = corners[:-1]  # closed by hand
    if len(corners) < 3:
        raise InvalidInputError(f"a polygon needs at least three different vertices, got {len(corners)}")
    crossing = _first_crossing(corners)
    if crossing is not None:
        first, second = crossing
        raise InvalidInputError(
            f"edges {first} and {second} of the polygon cross or touch (edge i runs from vertex i to the next), so "
            "what is inside is not defined; order the vertices along the outline, or use several polygons"
        )
    return corners


def _first_crossing(corners: NDArray[np.float64]) -> tuple[int, int] | None:
    """Return two edges that meet elsewhere than at the vertex they share."""
    count = len(corners)
    ends = np.roll(corners, -1, axis=0)
    for first in range(count):
        a, b = corners[first], ends[first]
        if (a == b).all():
            return first, (first + 1) % count
        hits = _meet(a, b, corners[first + 1 :], ends[first + 1 :])
        # Neighbours meet in one point unless one runs back over the other.
        if first + 1 < count:
            hits[0] = _runs_back(b, a, ends[first + 1])
        if first == 0:
            hits[-1] = _runs_back(a, b, corners[-1])
        if hits.any():
            return first, first + 1 + int(np.argmax(hits))
    return None


def _runs_back(shared: NDArray[Any], p: NDArray[Any], q: NDArray[Any]) -> bool:
    return bool(_turn(shared, p, q) == 0 and np.dot(p - shared, q - shared) > 0)


def _turn(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    """Return the signs of (b - a) x (c - a); points are in the last axis."""
    cross = (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
        c[..., 0] - a[..., 0]
    )
    return np.asarray(np.sign(cross))


def _meet(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of the edges from c to d the edge from a to b crosses or touches."""
    turns = _turn(a, b, c), _turn(a, b, d), _turn(c, d, a), _turn(c, d, b)
    hits = (turns[0] * turns[1] < 0) & (turns[2] * turns[3] < 0)
    for turn, (p, q, r) in zip(turns, ((a, b, c), (a, b, d), (c, d, a), (c, d, b)), strict=True):
        lies_between = ((np.minimum(p, q) <= r) & (r <= np.maximum(p, q))).all(axis=-1)
        hits |= (turn == 0) & lies_between
    return np.asarray(hits)
