"""Why a point is far from the map: which columns, atoms or features make up its distance to the nearest landmark."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.extension.embedder import Embedder
from ldmaps.metrics.squared_matrix import squared_matrix

#: Reasons that are given, and the least share of d² that is one.
_MOST, _LEAST_SHARE = 3, 0.05


def contributions(embedder: Embedder, point: ArrayLike, landmark: int) -> NDArray[np.float64] | None:
    """Return the part that each column, atom or feature has in d² of one point to a landmark; None where none has."""
    metric = embedder.metric
    if not metric.is_differentiable:
        return None
    # d² is a sum of squares of what differs, times scales, so each part is (∂d²/∂x)²/(2·scale)²: of frames after
    # superposition, of angles the shorter way round.
    space = metric.of_places()
    here, there = embedder.prepare(np.asarray(point)[None]), embedder.landmarks.take(np.array([landmark]))
    values, scales = metric.places(here)
    squared, gradient = squared_matrix(metric, here, there), np.empty((1, 1, values.shape[1]))
    sums = space.squares_gradient(space.prepare(metric.places(there).values))
    sums(np.ascontiguousarray(values), squared.astype(np.float64), np.ones((1, 1, 1)), gradient)
    slopes = gradient[0, 0]
    parts = np.square(np.divide(slopes, 2.0 * scales, out=np.zeros_like(slopes), where=scales > 0))
    if not np.isclose(parts.sum(), squared[0, 0], rtol=1e-2):
        return None  # frames superposed on some of their atoms: moving these turns all the others
    return np.asarray(parts.reshape(-1, 3).sum(axis=1) if space.takes_frames else parts)


def reasons(model: Any, point: ArrayLike, landmark: int) -> tuple[tuple[str, float], ...]:
    """Return what accounts for most of a point's d² to a landmark: names and shares, the largest first."""
    parts = contributions(model.embedder_, point, landmark)
    total = 0.0 if parts is None else float(parts.sum())
    if parts is None or not 0.0 < total < np.inf:
        return ()
    names = _names(model, len(parts))
    first = np.argsort(-parts, kind="stable")[:_MOST]
    return tuple(
        (names[place], round(float(parts[place]) / total, 4))
        for place in first
        if parts[place] >= _LEAST_SHARE * total
    )


def _names(model: Any, count: int) -> list[str]:
    """Return what the model knows its columns, atoms or features by."""
    source, metric = model.source_ or {}, model.embedder_.metric
    known = getattr(model, "feature_names_in_", None)
    for names in (getattr(metric, "names", None), source.get("atom_labels"), source.get("columns"), known):
        if names is not None and len(names) == count:
            return [str(name) for name in names]
    item = "atom" if metric.takes_frames and metric.of_places() is metric else "column"
    return [f"{item} {place}" for place in range(count)]
