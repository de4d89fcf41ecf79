"""Regions that are drawn by hand: boxes, balls, polygons, and what the map does not cover."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.embedded_rows import column_of
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import LARGEST, Masks, Region, finite, not_negative

#: Each edge is compared with all others.
MOST_VERTICES = 10_000
#: Roundings by which a point may miss an edge and still lie on it.
_ON_EDGE = 8 * np.finfo(np.float64).eps


class Box(Region):
    """Bounds on some of the coordinates.

    Parameters
    ----------
    bounds : mapping of str to (low, high)
        By coordinate, such as ``{"psi2": (-0.02, 0.01)}``. A bound of None or ±inf is
        open; coordinates that are not named are free. Bounds belong to the box.
    margin : float
        How far beyond each bound a point may stray without leaving.

    Examples
    --------
    >>> Box({"psi2": (0.0, None), "psi3": (-1.0, 1.0)}, margin=0.1)
    Box(psi2=[0.0, None], psi3=[-1.0, 1.0], margin=0.1)
    """

    kind = "box"

    def __init__(self, bounds: Mapping[str, Sequence[float | None]], *, margin: float = 0.0) -> None:
        if not bounds:
            raise InvalidInputError(
                "a box needs bounds for at least one coordinate, such as psi2 = [-0.1, 0.1]"
            )
        self.bounds = {name: _interval(name, pair) for name, pair in bounds.items()}
        self.margin = not_negative("margin", margin)
        self._look_at([*self.bounds])

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        entering = np.ones(len(coordinates), dtype=bool)
        staying = entering.copy()
        for values, (low, high) in zip(self._columns_of(coordinates), self.bounds.values(), strict=True):
            entering &= (values >= low) & (values <= high)
            staying &= (values >= low - self.margin) & (values <= high + self.margin)
        return entering, staying

    def as_dict(self) -> dict[str, Any]:
        """Return the region as JSON values."""
        bounds = {
            name: [None if math.isinf(bound) else bound for bound in pair]
            for name, pair in self.bounds.items()
        }
        return {"kind": self.kind, **bounds, "margin": self.margin}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Make a region from what :meth:`as_dict` returned."""
        bounds = {key: value for key, value in facts.items() if key not in ("kind", "margin")}
        return cls(bounds, margin=facts.get("margin", 0.0))


class Ball(Region):
    """Points near a centre, by the Euclidean distance in some of the coordinates.

    Parameters
    ----------
    centre : mapping of str to float
        By coordinate; those that are not named do not count.
    radius : float
        The sphere itself belongs to the ball.
    margin : float
        How far beyond the radius a point may stray without leaving.
    """

    kind = "ball"

    def __init__(self, centre: Mapping[str, float], radius: float, *, margin: float = 0.0) -> None:
        if not isinstance(centre, Mapping) or not centre:
            raise InvalidInputError(
                f"a ball needs a centre with at least one coordinate, such as {{psi2 = 0.1}}, got {centre!r}"
            )
        self.centre = {name: finite(f"centre of {name}", value) for name, value in centre.items()}
        self.radius = finite("radius", radius)
        if self.radius <= 0:
            raise InvalidInputError(f"the radius of a ball must be above 0, got {radius!r}")
        self.margin = not_negative("margin", margin)
        self._look_at([*self.centre])

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        squared = np.zeros(len(coordinates))
        for values, centre in zip(self._columns_of(coordinates), self.centre.values(), strict=True):
            squared += (values - centre) ** 2
        return squared <= self.radius**2, squared <= (self.radius + self.margin) ** 2


class Polygon(Region):
    """The inside of a simple polygon in two of the coordinates; its edges belong to it.

    Parameters
    ----------
    vertices : array-like of shape (v, 2)
        In order, either way round, not necessarily convex. Edges that cross or touch
        are refused, because what is inside would then depend on the rule.
    axes : pair of str
        The coordinates of the vertices.
    margin : float
        How far from the edges a point outside may stray without leaving.
    """

    kind = "polygon"

    def __init__(self, vertices: Any, axes: Sequence[str] = ("psi2", "psi3"), *, margin: float = 0.0) -> None:
        if not isinstance(axes, (list, tuple)) or len(axes) != 2 or axes[0] == axes[1]:
            raise InvalidInputError(
                f'a polygon has two different axes, such as ["psi2", "psi3"], got {axes!r}'
            )
        self.axes = (str(axes[0]), str(axes[1]))
        self._look_at(self.axes)
        self.vertices = _simple_polygon(vertices)
        self.margin = not_negative("margin", margin)

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        x, y = self._columns_of(coordinates)
        entering, away = _located(self.vertices, x, y)
        return entering, entering | (away <= self.margin)


class OutOfDomain(Region):
    """Points that the map does not cover, where an embedding is an extrapolation.

    Parameters
    ----------
    farther_than : float
        Distance from the nearest landmark, in units of √ε, beyond which a point
        outside the domain enters. Any inside point leaves. Values above 1 keep
        points on the border from coming and going.
    """

    kind = "out_of_domain"
    explains = True

    def __init__(self, *, farther_than: float = 0.0) -> None:
        self.farther_than = not_negative("farther_than", farther_than)

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        staying = ~np.asarray(coverage.inside, dtype=bool)
        return staying & (np.asarray(coverage.distance) >= self.farther_than), staying


def _interval(name: str, pair: Any) -> tuple[float, float]:
    """Return a box's bounds on one coordinate, ±inf where open, or raise."""
    column_of(name)
    if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise InvalidInputError(f"the bounds of {name} are a pair [low, high], got {pair!r}")
    low = -math.inf if _is_open(pair[0]) else finite(f"the lower bound of {name}", pair[0])
    high = math.inf if _is_open(pair[1]) else finite(f"the upper bound of {name}", pair[1])
    if pair[0] == math.inf or pair[1] == -math.inf or low >= high:
        raise InvalidInputError(
            f"the bounds {pair!r} of {name} leave an empty box; the lower one comes first"
        )
    return low, high


def _is_open(bound: Any) -> bool:
    return bound is None or (isinstance(bound, float) and math.isinf(bound))


def _located(
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


def _simple_polygon(vertices: Any) -> NDArray[np.float64]:
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
        raise InvalidInputError(
            f"edges {crossing[0]} and {crossing[1]} of the polygon cross or touch (edge i runs from vertex i to the "
            "next), so what is inside is not defined; order the vertices along the outline, or use several polygons"
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
    u, v = b - a, c - a
    return np.asarray(np.sign(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]))


def _meet(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of the edges from c to d the edge from a to b crosses or touches."""
    turns = _turn(a, b, c), _turn(a, b, d), _turn(c, d, a), _turn(c, d, b)
    hits = (turns[0] * turns[1] < 0) & (turns[2] * turns[3] < 0)
    for turn, (p, q, r) in zip(turns, ((a, b, c), (a, b, d), (c, d, a), (c, d, b)), strict=True):
        lies_between = ((np.minimum(p, q) <= r) & (r <= np.maximum(p, q))).all(axis=-1)
        hits |= (turn == 0) & lies_between
    return np.asarray(hits)
