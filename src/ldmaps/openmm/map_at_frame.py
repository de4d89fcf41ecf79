"""A map at the frame of a step, computed once for all forces of a run that Python computes.

OpenMM asks each force by itself, and a coordinate and the wall need the same distances to the landmarks. So forces of
one map and the same atoms share one object, which remembers the last frame. OpenMM copies forces by pickles; copies
find the object by its key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension.embedder import Embedder


class _Asked(NamedTuple):
    """Coordinates that forces have asked for."""

    places: dict[int, int]  # of columns of the map in what is computed
    embedder: Embedder  # with the coefficients of these alone, so that no others are differentiated


class _Found(NamedTuple):
    """What is known of a frame; never changed, so that threads may exchange it."""

    seen: bytes  # its positions
    places: dict[int, int]
    coordinates: NDArray[Any]  # (k,)
    forces: NDArray[np.float64]  # (k, atoms, 3)
    nearest: int
    lowest: float  # d² to it


class MapAtFrame:
    """Computes coordinates of a map and minus their gradients; made by :func:`map_at_frame` alone."""

    def __init__(self, embedder: Embedder, key: str) -> None:
        self.embedder, self.key = embedder, key
        self._asked = _Asked({}, embedder)
        self._last = _Found(b"", {}, np.empty(0), np.empty(0), 0, 0.0)

    def __reduce__(self) -> tuple[Callable[..., MapAtFrame], tuple[Embedder, str]]:
        return map_at_frame, (self.embedder, self.key)

    def coordinate(self, positions: NDArray[np.float64], column: int) -> tuple[float, NDArray[np.float64]]:
        """Return a coordinate at positions, (atoms, 3), and minus its gradient."""
        found, seen = self._last, positions.tobytes()
        if found.seen != seen or column not in found.places:
            asked = self._asked  # another thread may replace it
            if column not in asked.places:
                places = {each: place for place, each in enumerate([*asked.places, column])}
                coefficients = self.embedder.coefficients[list(places)].copy()
                self._asked = asked = _Asked(places, replace(self.embedder, coefficients=coefficients))
            found = self._compute(asked, positions, seen)
        place = found.places[column]
        return float(found.coordinates[place]), found.forces[place]

    def nearest(self, positions: NDArray[np.float64]) -> tuple[int, float] | None:
        """Return the nearest landmark and d² to it; None if no coordinate is asked for, so nothing is shared."""
        found, seen = self._last, positions.tobytes()
        if found.seen != seen:
            asked = self._asked
            if not asked.places:
                return None
            found = self._compute(asked, positions, seen)
        return found.nearest, found.lowest

    def _compute(self, asked: _Asked, positions: NDArray[np.float64], seen: bytes) -> _Found:
        extended, gradient = asked.embedder.extend_with_gradient(positions[None], 1)
        forces = np.multiply(gradient[0], -1.0, dtype=np.float64)
        nearest, lowest = int(extended.nearest[0]), float(extended.squared_distance[0])
        found = _Found(seen, asked.places, extended.coordinates[0], forces, nearest, lowest)
        self._last = found
        return found


_IN_USE: WeakValueDictionary[str, MapAtFrame] = WeakValueDictionary()


def map_at_frame(embedder: Embedder, key: str) -> MapAtFrame:
    """Return the object that all forces of a key share; two maps, or other atoms, have other keys."""
    return _IN_USE.setdefault(key, MapAtFrame(embedder, key))
