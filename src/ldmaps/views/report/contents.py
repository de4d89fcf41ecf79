"""What a report shows, gathered from a fitted map and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ldmaps.errors import InvalidInputError
from ldmaps.maps.training_record import MAX_RECORDED, thinned_rows
from ldmaps.regions import learn_basins
from ldmaps.settings import check_whole
from ldmaps.views.basin_table import BasinTable, basin_table
from ldmaps.views.free_energy import FreeEnergy, free_energy_surface
from ldmaps.views.observables import correlations
from ldmaps.views.own_points import PointsOfMap
from ldmaps.views.report.drawn_landmarks import landmark_origin, landmarks_shown, places_among
from ldmaps.views.report.drawn_points import DrawnPoints, Field, are_times, own_column, point_files
from ldmaps.views.report.structures import Structures, landmark_structures

__all__ = ["Contents", "gather"]

#: Most different texts, or files, to colour by.
MAX_TEXTS = 24
#: Coordinates of which all pairs get a free-energy surface.
MAX_SURFACE_COORDINATES = 6


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
    drawn = DrawnPoints(model, points)
    n = drawn.n_points
    drawn.take("frame", frames)
    drawn.take("time", times)
    drawn.take("distance", distance)
    drawn.take("nearest", nearest)
    drawn.take("error", _zeta(errors))
    names, file_of = point_files(
        None if files is None else drawn.thinned(files), n, drawn.source_files, drawn.values.get("file")
    )
    notes = list(drawn.notes)
    own = []
    for name, value in (columns or {}).items():
        column = own_column(str(name), drawn.thinned(value), n)
        if len(column.texts) > MAX_TEXTS:
            notes.append(
                f"The column {name} has {len(column.texts):,} different texts, too many to colour by."
            )
        else:
            own.append(column)
    if file_of is not None and 1 < len(names) <= MAX_TEXTS:
        own.append(Field("file", "File", "", file_of, tuple(names)))

    # Thin what is too much to draw; everything above is about all points.
    check_whole("max_points", max_points, 1)
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
    if "time" in values and are_times(values["time"]):
        fields.append(Field("time", "Time", time_unit, values["time"] * time_scale))
    if "distance" in values:
        fields.append(Field("distance", "Distance to nearest landmark", "√ε", values["distance"]))
    if "error" in values:
        fields.append(Field("error", "Estimated error ζ", "% of range", values["error"]))
    fields += [replace(entry, values=entry.values[rows]) for entry in own]

    landmark_rows = landmarks_shown(model)
    landmark_frames, landmark_times = landmark_origin(model, landmark_rows, frames, times, points is not None)
    if landmark_times is not None and not are_times(landmark_times):
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
        landmark_points=places_among(
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
    times = values["time"] if "time" in values and are_times(values["time"]) else None
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


def _zeta(errors: Any) -> ArrayLike | None:
    """Take an ErrorEstimate, or ζ itself."""
    return getattr(errors, "zeta", errors)  # type: ignore[no-any-return]


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
