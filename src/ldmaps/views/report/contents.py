"""What a report shows, gathered from a fitted map and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ldmaps.errors import InvalidInputError
from ldmaps.maps.training_record import MAX_RECORDED, TrainingRecord, thinned_rows
from ldmaps.regions import learn_basins
from ldmaps.views.basin_table import BasinTable, basin_table
from ldmaps.views.free_energy import FreeEnergy, free_energy_surface
from ldmaps.views.observables import correlations
from ldmaps.views.own_points import PointsOfMap
from ldmaps.views.report.structures import Structures, landmark_structures

__all__ = ["Contents", "Field", "gather"]

#: Most landmarks that are drawn as such; an exact map has one a point.
MAX_LANDMARKS = 5_000
#: Most different texts, or files, to colour by.
MAX_TEXTS = 24
#: Coordinates of which all pairs get a free-energy surface.
MAX_SURFACE_COORDINATES = 6


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


@dataclass(frozen=True)
class Contents:
    """Everything on the page, in plain arrays.

    Attributes
    ----------
    coordinates : ndarray of shape (n, k), float32
        Of the points shown; none when the model does not hold its training points.
    n_points : int
        How many there are, shown or not.
    what : str
        "training frames", "points" …
    weights, nearest : ndarray of shape (n,) or None
    fields : list of Field
    files : list of str
        Names, and for each point which (or None).
    landmark_rows : ndarray of int
        Which landmarks are shown.
    landmark_points : ndarray of int
        Where the landmarks shown are among the points shown, -1 where they are not.
    landmark_frames, landmark_times : ndarray or None
        Of the landmarks shown; NaN where not recorded.
    surfaces : dict
        Free energy for pairs of coordinates.
    basins : BasinTable or None
        Of points in the order of time.
    follows : dict of str to ndarray of shape (k,)
        Rank correlations of the coordinates with time and the user's own columns.
    """

    model: Any
    title: str
    coordinates: NDArray[np.float32]
    n_points: int
    what: str
    weights: NDArray[np.float64] | None
    nearest: NDArray[np.int32] | None
    fields: list[Field]
    files: list[str]
    file_of: NDArray[np.int32] | None
    landmark_rows: NDArray[np.intp]
    landmark_points: NDArray[np.int64]
    landmark_frames: NDArray[np.float64] | None
    landmark_times: NDArray[np.float64] | None
    time_unit: str
    surfaces: dict[tuple[int, int], FreeEnergy]
    structures: Structures | None
    errors: NDArray[np.float64] | None
    notes: list[str] = field(default_factory=list)
    basins: BasinTable | None = None
    follows: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def values(self, key: str) -> NDArray[Any] | None:
        """Return a field's values by its key."""
        return next((entry.values for entry in self.fields if entry.key == key), None)


def gather(
    model: Any,
    *,
    title: str | None = None,
    points: ArrayLike | None = None,
    columns: Mapping[str, ArrayLike] | None = None,
    frames: ArrayLike | None = None,
    times: ArrayLike | None = None,
    files: ArrayLike | None = None,
    distance: ArrayLike | None = None,
    nearest: ArrayLike | None = None,
    errors: Any = None,
    molecule: Any = None,
    max_points: int = MAX_RECORDED,
) -> Contents:
    """Collect what :func:`~ldmaps.views.report.write_report` shows; see there for the arguments."""
    check_is_fitted(model, "embedder_")
    drawn = _DrawnPoints(model, points)
    n = drawn.n_points
    drawn.take("frame", frames)
    drawn.take("time", times)
    drawn.take("distance", distance)
    drawn.take("nearest", nearest)
    drawn.take("error", _zeta(errors))
    names, file_of = _files(
        None if files is None else drawn.thinned(files), n, drawn.source_files, drawn.values.get("file")
    )
    notes = list(drawn.notes)
    own = []
    for name, value in (columns or {}).items():
        column = _column(str(name), drawn.thinned(value), n)
        if len(column.texts) > MAX_TEXTS:
            notes.append(
                f"The column {name} has {len(column.texts):,} different texts, too many to colour by."
            )
        else:
            own.append(column)
    if file_of is not None and 1 < len(names) <= MAX_TEXTS:
        own.append(Field("file", "File", "", file_of, tuple(names)))

    # Thin what is too much to draw; everything above is about all points.
    if isinstance(max_points, bool) or int(max_points) != max_points or max_points < 1:
        raise InvalidInputError(f"max_points must be a whole number of at least 1, got {max_points!r}")
    rows = slice(None) if n <= max_points else thinned_rows(n, np.empty(0, dtype=np.intp), int(max_points))
    values = {name: array[rows] for name, array in drawn.values.items()}
    coordinates = drawn.coordinates[rows]
    if len(coordinates) < drawn.n_total:
        notes.append(f"{len(coordinates):,} of {drawn.n_total:,} points are drawn, evenly spread.")

    time_unit, time_scale = "ps", 1.0
    if "time" in values and np.nanmax(np.abs(values["time"]), initial=0.0) >= 2e4:
        time_unit, time_scale = "ns", 1e-3
    fields = []
    if "frame" in values:
        label = "Frame" if model.metric_.takes_frames else "Row"
        fields.append(Field("frame", label, "", values["frame"]))
    if "time" in values and _are_times(values["time"]):
        fields.append(Field("time", "Time", time_unit, values["time"] * time_scale))
    if "distance" in values:
        fields.append(Field("distance", "Distance to nearest landmark", "√ε", values["distance"]))
    if "error" in values:
        fields.append(Field("error", "Estimated error ζ", "% of range", values["error"]))
    fields += [replace(entry, values=entry.values[rows]) for entry in own]

    landmark_rows = _landmarks_shown(model)
    landmark_frames, landmark_times = _landmark_origin(
        model, landmark_rows, frames, times, points is not None
    )
    if landmark_times is not None and not _are_times(landmark_times):
        landmark_times = None
    weights = values.get("weights")
    return Contents(
        model=model,
        title=title if title is not None else _title(model),
        coordinates=coordinates,
        n_points=drawn.n_total,
        what=drawn.what,
        weights=weights,
        nearest=values["nearest"].astype(np.int32) if "nearest" in values else None,
        fields=fields,
        files=names,
        file_of=None if file_of is None else file_of[rows],
        landmark_rows=landmark_rows,
        landmark_points=_places(
            None if drawn.rows is None else drawn.rows[rows],
            np.asarray(model.landmark_indices_)[landmark_rows],
        ),
        landmark_frames=landmark_frames,
        landmark_times=None if landmark_times is None else landmark_times * time_scale,
        time_unit=time_unit,
        surfaces=_surfaces(model, coordinates, weights),
        structures=landmark_structures(model, landmark_rows, molecule),
        errors=values.get("error"),
        notes=notes,
        basins=_basins(model, coordinates, values, None if file_of is None else file_of[rows]),
        follows=_followed(coordinates, fields),
    )


def _basins(
    model: Any, coordinates: NDArray[Any], values: Mapping[str, NDArray[Any]], files: NDArray[Any] | None
) -> BasinTable | None:
    """Return the basins of a trajectory's frames; None for other points, and where the map shows none."""
    if len(coordinates) < 2 or not (model.metric_.takes_frames and "frame" in values):
        return None
    times = values["time"] if "time" in values and _are_times(values["time"]) else None
    try:
        points = PointsOfMap(coordinates, times, files)
        return basin_table(model, points, learn_basins(model))
    except InvalidInputError:  # no basins, or rows that are not in the order of time
        return None


def _followed(coordinates: NDArray[Any], fields: list[Field]) -> dict[str, NDArray[np.float64]]:
    own = [entry for entry in fields if entry.key in ("time", "column") and not entry.texts]
    if not own or len(coordinates) < 3:
        return {}
    return correlations(coordinates, {entry.label: entry.values for entry in own})


class _DrawnPoints:
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
            # Without files, points are told apart by their place in the training set.
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


def _numbers(name: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name!r} must be numbers ({error})") from error
    if array.shape != (n,):
        raise InvalidInputError(f"{name!r} needs one number per point, ({n},), got shape {array.shape}")
    return array


def _column(name: str, values: NDArray[Any], n: int) -> Field:
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


def _are_times(times: NDArray[np.float64]) -> bool:
    """Tell times from what a file without any holds: zeros, or whatever was in memory."""
    known = times[np.isfinite(times)].round(3)
    return len(known) > 0 and bool((known != known[0]).any())


def _zeta(errors: Any) -> ArrayLike | None:
    """Take an ErrorEstimate, or ζ itself."""
    return getattr(errors, "zeta", errors)  # type: ignore[no-any-return]


def _files(
    files: ArrayLike | None, n: int, source_files: list[str], recorded: NDArray[Any] | None
) -> tuple[list[str], NDArray[np.int32] | None]:
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


def _landmarks_shown(model: Any) -> NDArray[np.intp]:
    """Return the landmarks to draw, those that stand for most first."""
    count = len(model.multiplicities_)
    if count <= MAX_LANDMARKS:
        return np.argsort(-model.multiplicities_, kind="stable").astype(np.intp)
    rows = thinned_rows(count, np.empty(0, dtype=np.intp), MAX_LANDMARKS).astype(np.intp)
    order = np.argsort(-model.multiplicities_[rows], kind="stable")
    return rows[order]


def _places(rows: NDArray[np.int64] | None, wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Return where ``wanted`` stand among sorted ``rows``, -1 where they do not."""
    if rows is None or not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.clip(np.searchsorted(rows, wanted), 0, len(rows) - 1)
    return np.where(rows[place] == wanted, place, -1)


def _landmark_origin(
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
        place = _places(record.rows, wanted)
        origins.append(np.where(place >= 0, np.asarray(recorded, dtype=np.float64)[place], np.nan))
    return origins[0], origins[1]


def _surfaces(
    model: Any, coordinates: NDArray[np.float32], weights: NDArray[np.float64] | None
) -> dict[tuple[int, int], FreeEnergy]:
    if not len(coordinates):
        coordinates, weights = np.asarray(model.landmark_embedding_, dtype=np.float32), model.multiplicities_
    last = min(coordinates.shape[1], MAX_SURFACE_COORDINATES)
    return {
        (x, y): free_energy_surface(coordinates[:, [x, y]], weights)
        for x in range(last)
        for y in range(x + 1, last)
    }


def _title(model: Any) -> str:
    facts = getattr(model, "source_", None) or {}
    files = facts.get("files") or []
    if not files:
        return "Diffusion map"
    first = str(files[0]).replace("\\", "/").rpartition("/")[2]
    return f"Diffusion map of {first}" + (f" and {len(files) - 1} more" if len(files) > 1 else "")
