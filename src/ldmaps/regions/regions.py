"""Regions of a map: what a stream can enter and leave.

A region answers for a batch of points with two masks, ``entering`` and ``staying``.
What enters lies in the region itself; what stays may have strayed by the region's
margin, so that a point which jitters on the border does not come and go.

Coordinates are named as in the package's tables: psi2 is the first one. Every mask
is computed element by element, so it does not depend on how a stream is cut into
batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.polygon import locate, simple_polygon
from ldmaps.regions.region_values import (
    check_columns,
    column,
    column_of,
    finite,
    interval,
    not_negative,
    or_none,
    settings,
)

__all__ = ["Ball", "Box", "Masks", "OutOfDomain", "Polygon", "Region", "load_regions", "region_from_dict"]

#: Entering and staying, one boolean a point each.
Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


class Region(ABC):
    """A part of the map.

    Attributes
    ----------
    kind : str
        What it is called in files.
    """

    kind: ClassVar[str]

    @abstractmethod
    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """Say which points lie in the region, and which would still count if the stream were in it.

        Parameters
        ----------
        coordinates : ndarray of shape (n, k)
        coverage : Coverage
            Of the same points.

        Returns
        -------
        entering, staying : ndarray of bool, shape (n,)
            Whatever enters also stays.
        """

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the region as JSON values, with its ``kind``."""

    @classmethod
    @abstractmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Make a region from what :meth:`as_dict` returned, or from a table of a regions file."""

    def check_model(self, model: Any) -> None:
        """Raise when the region does not fit a map, such as when the map lacks one of its coordinates."""
        return

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.as_dict() == self.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        facts = {key: value for key, value in self.as_dict().items() if key != "kind"}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in facts.items())})"


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
        self.bounds = {name: interval(name, pair) for name, pair in bounds.items()}
        self.margin = not_negative("margin", margin)
        self._columns = [column_of(name) for name in self.bounds]

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        entering = np.ones(len(coordinates), dtype=bool)
        staying = entering.copy()
        for place, (low, high) in zip(self._columns, self.bounds.values(), strict=True):
            values = column(coordinates, place)
            entering &= (values >= low) & (values <= high)
            staying &= (values >= low - self.margin) & (values <= high + self.margin)
        return entering, staying

    def as_dict(self) -> dict[str, Any]:
        """Return the region as JSON values."""
        bounds = {name: [or_none(low), or_none(high)] for name, (low, high) in self.bounds.items()}
        return {"kind": self.kind, **bounds, "margin": self.margin}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Make a region from what :meth:`as_dict` returned."""
        bounds = {key: value for key, value in facts.items() if key not in ("kind", "margin")}
        return cls(bounds, margin=facts.get("margin", 0.0))

    def check_model(self, model: Any) -> None:
        """Raise when the map lacks one of the coordinates."""
        check_columns(self.bounds, model)


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
        self._columns = [column_of(name) for name in self.centre]

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        squared = np.zeros(len(coordinates))
        for place, centre in zip(self._columns, self.centre.values(), strict=True):
            squared += (column(coordinates, place) - centre) ** 2
        return squared <= self.radius**2, squared <= (self.radius + self.margin) ** 2

    def as_dict(self) -> dict[str, Any]:
        """Return the region as JSON values."""
        return {"kind": self.kind, "centre": dict(self.centre), "radius": self.radius, "margin": self.margin}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Make a region from what :meth:`as_dict` returned."""
        return cls(**settings(facts, {"centre", "radius"}, {"margin"}))

    def check_model(self, model: Any) -> None:
        """Raise when the map lacks one of the coordinates."""
        check_columns(self.centre, model)


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
        if isinstance(axes, str) or len(axes) != 2 or axes[0] == axes[1]:
            raise InvalidInputError(
                f'a polygon has two different axes, such as ["psi2", "psi3"], got {axes!r}'
            )
        self.axes = (str(axes[0]), str(axes[1]))
        self._columns = [column_of(name) for name in self.axes]
        self.vertices = simple_polygon(vertices)
        self.margin = not_negative("margin", margin)

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        x, y = (column(coordinates, place) for place in self._columns)
        entering, away = locate(self.vertices, x, y)
        return entering, entering | (away <= self.margin)

    def as_dict(self) -> dict[str, Any]:
        """Return the region as JSON values."""
        return {
            "kind": self.kind,
            "vertices": self.vertices.tolist(),
            "axes": list(self.axes),
            "margin": self.margin,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Make a region from what :meth:`as_dict` returned."""
        return cls(**settings(facts, {"vertices"}, {"axes", "margin"}))

    def check_model(self, model: Any) -> None:
        """Raise when the map lacks one of the coordinates."""
        check_columns(self.axes, model)


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

    def __init__(self, *, farther_than: float = 0.0) -> None:
        self.farther_than = not_negative("farther_than", farther_than)

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        staying = ~np.asarray(coverage.inside, dtype=bool)
        return staying & (np.asarray(coverage.distance) >= self.farther_than), staying

    def as_dict(self) -> dict[str, Any]:
        """Return the region as JSON values."""
        return {"kind": self.kind, "farther_than": self.farther_than}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Make a region from what :meth:`as_dict` returned."""
        return cls(**settings(facts, set(), {"farther_than"}))


# -- from values ----------------------------------------------------------------


def region_from_dict(facts: Mapping[str, Any]) -> Region:
    """Make a region from what its ``as_dict`` returned, or from a table of a regions file.

    >>> region_from_dict({"kind": "ball", "centre": {"psi2": 0.5}, "radius": 0.1})
    Ball(centre={'psi2': 0.5}, radius=0.1, margin=0.0)
    """
    from ldmaps.regions.basins import Basin

    kinds: tuple[type[Region], ...] = (Box, Ball, Polygon, OutOfDomain, Basin)
    if not isinstance(facts, Mapping):
        raise InvalidInputError(f"a region is a table with a kind, got {facts!r}")
    for kind in kinds:
        if facts.get("kind") == kind.kind:
            return kind.from_dict(facts)
    known = ", ".join(f'"{kind.kind}"' for kind in kinds)
    raise InvalidInputError(f"a region's kind is one of {known}, got {facts.get('kind')!r}")


def load_regions(path: Any, model: Any) -> dict[str, Region]:
    """Read regions from a TOML or JSON file; see :func:`ldmaps.regions.region_file.load_regions`."""
    from ldmaps.regions import region_file

    return region_file.load_regions(path, model)
