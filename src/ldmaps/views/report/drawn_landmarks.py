"""The landmarks that a report draws: which ones, where they are among the points, and where they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.maps.training_record import TrainingRecord, thinned_rows

__all__ = ["landmark_origin", "landmarks_shown", "places_among"]

#: Most landmarks that are drawn as such; an exact map has one a point.
MAX_LANDMARKS = 5_000


def landmarks_shown(model: Any) -> NDArray[np.intp]:
    """Return the landmarks to draw, those that stand for most first."""
    count = len(model.multiplicities_)
    if count <= MAX_LANDMARKS:
        return np.argsort(-model.multiplicities_, kind="stable").astype(np.intp)
    rows = thinned_rows(count, np.empty(0, dtype=np.intp), MAX_LANDMARKS).astype(np.intp)
    order = np.argsort(-model.multiplicities_[rows], kind="stable")
    return rows[order]


def places_among(rows: NDArray[np.int64] | None, wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Return where ``wanted`` stand among sorted ``rows``, -1 where they do not."""
    if rows is None or not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.clip(np.searchsorted(rows, wanted), 0, len(rows) - 1)
    return np.where(rows[place] == wanted, place, -1)


def landmark_origin(
    model: Any, rows: NDArray[np.intp], frames: ArrayLike | None, times: ArrayLike | None, foreign: bool
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return frame and time of landmarks: they are training points, whatever points are shown."""
    wanted = np.asarray(model.landmark_indices_)[rows]
    record: TrainingRecord | None = getattr(model, "training_", None)
    origins: list[NDArray[np.float64] | None] = []
    for given, kept in ((frames, "frames"), (times, "times")):
        values = None if given is None or foreign else np.asarray(given, dtype=np.float64)
        if values is not None and len(values) > wanted.max(initial=0):
            origins.append(values[wanted])
            continue
        recorded = None if record is None else getattr(record, kept)
        if record is None or recorded is None:
            origins.append(wanted.astype(np.float64) if kept == "frames" else None)
            continue
        place = places_among(record.rows, wanted)
        origins.append(np.where(place >= 0, np.asarray(recorded, dtype=np.float64)[place], np.nan))
    return origins[0], origins[1]
