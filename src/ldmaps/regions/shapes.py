"""Regions that are drawn by hand: boxes, balls, polygons, and what the map does not cover."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import Masks, Region
from ldmaps.regions.polygon import locate, simple_polygon
from ldmaps.regions.region_values import column, column_of, finite, not_negative

__all__ = ["Ball", "Box", "OutOfDomain", "Polygon"]


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
        self.columns = [column_of(name) for name in self.bounds]

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        entering = np.ones(len(coordinates), dtype=bool)
        staying = entering.copy()
        for place, (low, high) in zip(self.columns, self.bounds.values(), strict=True):
            values = column(coordinates, place)
            entering &= (values >= low) & (values <= high)
            staying &= (values >= low - self.margin) & (values <= high + self.margin)
        return entering, staying

    def as_dict(self) -> dict[str, Any]:
        """Return the region as JSON values."""
        bounds = {name: [_or_none(low), _or_none(high)] for name, (low, high) in self.bounds.items()}
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
    required = ("centre", "radius")
    optional = ("margin",)

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
        self.columns = [column_of(name) for name in self.centre]

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        squared = np.zeros(len(coordinates))
        for place, centre in zip(self.columns, self.centre.values(), strict=True):
            squared += (column(coordinates, place) - centre) ** 2
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
    required = ("vertices",)
    optional = ("axes", "margin")

    def __init__(self, vertices: Any, axes: Sequence[str] = ("psi2", "psi3"), *, margin: float = 0.0) -> None:
        if not isinstance(axes, (list, tuple)) or len(axes) != 2 or axes[0] == axes[1]:
            raise InvalidInputError(
                f'a polygon has two different axes, such as ["psi2", "psi3"], got {axes!r}'
            )
        self.axes = (str(axes[0]), str(axes[1]))
        self.columns = [column_of(name) for name in self.axes]
        self.vertices = simple_polygon(vertices)
        self.margin = not_negative("margin", margin)

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        x, y = (column(coordinates, place) for place in self.columns)
        entering, away = locate(self.vertices, x, y)
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
    optional = ("farther_than",)
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


def _or_none(bound: float) -> float | None:
    """Return a bound as JSON can hold it."""
    return None if math.isinf(bound) else bound
