"""The points that a report draws, and what is known of each, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.maps.training_record import TrainingRecord, thinned_rows

__all__ = ["DrawnPoints", "Field", "are_times", "own_column", "point_files"]


@dataclass(frozen=True)
class Field:
    """A number per point, to colour by or to show under the pointer.

    Attributes
    ----------
    key : str
        "frame", "time", "distance", "error", "file", or "column" for the user's own.
    label : str
    unit : str
    values : ndarray of shape (n,)
    texts : tuple of str
        What each value stands for, of files and of a column of text. Empty for numbers.
    """

    key: str
    label: str
    unit: str
    values: NDArray[Any]
    texts: tuple[str, ...] = ()


class DrawnPoints:
    """The points to show, and what is known of each."""

    def __init__(self, model: Any, points: ArrayLike | None) -> None:
        k = model.n_components_
        record: TrainingRecord | None = getattr(model, "training_", None)
        facts = getattr(model, "source_", None) or {}
        self.source_files = [str(name) for name in facts.get("files") or []]
        self.values: dict[str, NDArray[Any]] = {}
        self.notes: list[str] = []
        self.rows: NDArray[np.int64] | None = None  # of the training points
        kind = "frames" if model.metric_.takes_frames else "points"
        if points is not None:
            self.coordinates = np.asarray(points, dtype=np.float32)
            if self.coordinates.ndim != 2 or self.coordinates.shape[1] != k:
                raise InvalidInputError(
                    f"points must be coordinates on the map, of shape (n, {k}), got {self.coordinates.shape}; "
                    "embed raw data with model.transform first"
                )
            self.n_total, self.what = len(self.coordinates), f"{kind} placed on the map"
            self.source_files = []
        elif hasattr(model, "embedding_"):
            embedding = np.asarray(model.embedding_)
            self.n_total, self.what = len(embedding), f"training {kind}"
            rows = (
                record.rows if record is not None else thinned_rows(self.n_total, np.empty(0, dtype=np.intp))
            )
            self.rows = rows
            self.coordinates = embedding[rows].astype(np.float32)
            if record is not None:
                pairs = {
                    "frame": record.frames,
                    "time": record.times,
                    "distance": record.distance,
                    "nearest": record.nearest,
                    "weights": record.weights,
                    "file": record.files,
                }
                self.values = {
                    name: np.asarray(value, dtype=np.float64)
                    for name, value in pairs.items()
                    if value is not None
                }
            # Without files, a point is identified by its place in the training set.
            self.values.setdefault("frame", rows.astype(np.float64))
        else:
            self.coordinates = np.empty((0, k), dtype=np.float32)
            self.n_total, self.what = 0, f"training {kind}"
            self.notes.append(
                "The model file holds no training points (it was saved without its embedding), so the landmarks "
                "stand for them."
            )
        if not np.isfinite(self.coordinates).all():
            raise InvalidInputError("points must be finite coordinates on the map; remove those with NaN")

    @property
    def n_points(self) -> int:
        """How many points are at hand; of a large training set not all are recorded."""
        return len(self.coordinates)

    def take(self, name: str, values: ArrayLike | None) -> None:
        """Add or replace a number per point."""
        if values is None:
            return
        self.values[name] = _numbers(name, self.thinned(values), self.n_points)

    def thinned(self, values: ArrayLike) -> NDArray[Any]:
        """Return values of the points at hand, where values of all training points were given."""
        array = np.asarray(values)
        return array if self.rows is None or array.shape != (self.n_total,) else array[self.rows]


def own_column(name: str, values: NDArray[Any], n: int) -> Field:
    """Return a column of the user's; texts become their place among all texts, and what is empty NaN."""
    array = np.asarray(values)
    if array.shape != (n,) or array.dtype.kind not in "OU":
        return Field("column", name, "", _numbers(name, array, n))
    cells = ["" if value is None or value != value else str(value).strip() for value in array.tolist()]
    try:
        return Field("column", name, "", np.array([float(cell or "nan") for cell in cells]))
    except ValueError:
        texts = sorted({cell for cell in cells if cell})
        place = {text: float(number) for number, text in enumerate(texts)}
        return Field("column", name, "", np.array([place.get(cell, np.nan) for cell in cells]), tuple(texts))


def point_files(
    files: ArrayLike | None, n: int, source_files: list[str], recorded: NDArray[Any] | None
) -> tuple[list[str], NDArray[np.int32] | None]:
    """Return the names of files, and for each point which one it comes from (or None), given or as recorded."""
    if files is None:
        place = None if recorded is None else recorded.astype(np.int32)
        if place is not None and len(source_files) <= int(place.max(initial=0)):
            source_files = [f"file {number + 1}" for number in range(int(place.max(initial=0)) + 1)]
        return source_files, place
    texts = np.asarray(files, dtype=str)
    if texts.shape != (n,):
        raise InvalidInputError(f"files needs one name per point, ({n},), got shape {texts.shape}")
    names, file_of = np.unique(texts, return_inverse=True)
    return names.tolist(), file_of.astype(np.int32)


def are_times(times: NDArray[np.float64]) -> bool:
    """Tell times from what a file without any holds: zeros, or whatever was in memory."""
    known = times[np.isfinite(times)].round(3)
    return len(known) > 0 and bool((known != known[0]).any())


def _numbers(name: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name!r} must be numbers ({error})") from error
    if array.shape != (n,):
        raise InvalidInputError(f"{name!r} needs one number per point, ({n},), got shape {array.shape}")
    return array
