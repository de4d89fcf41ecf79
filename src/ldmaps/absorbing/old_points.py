"""How far a map that absorbs points moves those it knew, and how far it is then from a fresh one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.extension import Embedder
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.metrics.base import Points

#: Fewest and most old points that their move is measured on.
FEWEST_OLD_POINTS, MOST_OLD_POINTS = 2, 20_000

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class OldPoints:
    """Points that the map knew, their coordinates on it, and how much each counts."""

    points: Points
    coordinates: _Array
    weights: _Array
    measured_on: str

    def moved(self, grown: Embedder, n_threads: int | None) -> _Array:
        """Return the root mean square move of each old coordinate, in percent of its range."""
        now = grown.extend(self.points, n_threads).coordinates[:, : self.coordinates.shape[1]]
        squares = self.weights @ (now - self.coordinates) ** 2 / self.weights.sum()
        return np.asarray(100.0 * np.sqrt(squares) / np.ptp(self.coordinates, axis=0))


def choose_old_points(model: LandmarkDiffusionMap, given: ArrayLike | None) -> OldPoints:
    """Return the old points to measure on: those given, those that the model kept, or its landmarks."""
    embedder, kept = model.embedder_, model.kept_training_points()
    if given is not None:
        points = embedder.prepare(given)
        weights, measured_on = np.ones(len(points)), "points"
        if len(points) < FEWEST_OLD_POINTS:
            raise InvalidInputError(
                f"old_points must be at least {FEWEST_OLD_POINTS} points to measure how far they move, "
                f"got {len(points)}; pass more of the training points, or leave old_points out"
            )
    elif kept is not None:
        some = slice(None, None, -(-len(kept.points) // MOST_OLD_POINTS))
        places = np.arange(len(kept.points))[some]
        points, weights, measured_on = kept.points.take(places), kept.weights[places], "points"
    else:
        shown = model.map_.representatives
        points = embedder.landmarks if shown is None else shown
        weights, measured_on = model.multiplicities_, "landmarks"
    coordinates = embedder.extend(points, model.n_threads).coordinates.astype(np.float64)
    return OldPoints(points, coordinates, weights, measured_on)


def apart_from(fresh: _Array, coordinates: NDArray[Any], weights: _Array) -> float:
    """Return Z in percent between modes of the walk and the linear map of the coordinates that is nearest to them."""
    root = np.sqrt(weights / weights.sum())[:, None]
    predictors = np.column_stack([coordinates, np.ones(len(fresh))]) * root
    solution = np.linalg.lstsq(predictors, fresh * root, rcond=None)[0]
    residuals = fresh * root - predictors @ solution
    spans = np.ptp(fresh, axis=0)
    return float(100.0 * np.sqrt(((residuals / np.where(spans > 0, spans, 1.0)) ** 2).sum()))
