"""Simple polygons in the plane: which points are inside, and how far the others are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError

__all__ = ["locate", "simple_polygon"]

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
    if not np.isfinite(corners).all():
        bad = int(np.flatnonzero(~np.isfinite(corners).all(axis=1))[0])
        raise InvalidInputError(
            f"vertex {bad} of a polygon is {corners[bad].tolist()}; vertices must be finite"
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
        if (corners[first] == ends[first]).all():
            return first, (first + 1) % count
        for second in range(first + 1, count):
            a, b, c, d = corners[first], ends[first], corners[second], ends[second]
            if second == first + 1 or (first == 0 and second == count - 1):
                shared, p, q = (b, a, d) if second == first + 1 else (a, b, c)
                # Neighbours meet in one point unless one runs back over the other.
                if _turn(shared, p, q) == 0 and np.dot(p - shared, q - shared) > 0:
                    return first, second
            elif _meet(a, b, c, d):
                return first, second
    return None


def _turn(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> int:
    cross = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    return int(np.sign(cross))


def _meet(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any]) -> bool:
    turns = _turn(a, b, c), _turn(a, b, d), _turn(c, d, a), _turn(c, d, b)
    if turns[0] * turns[1] < 0 and turns[2] * turns[3] < 0:
        return True
    ends = ((a, b, c), (a, b, d), (c, d, a), (c, d, b))
    return any(
        turn == 0 and bool((np.minimum(p, q) <= r).all() and (r <= np.maximum(p, q)).all())
        for turn, (p, q, r) in zip(turns, ends, strict=True)
    )
