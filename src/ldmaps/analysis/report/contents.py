"""What a report shows of a map and of points on it, a builder per section."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ldmaps.analysis.basin_table import BasinTable, basin_table
from ldmaps.analysis.free_energy import FreeEnergy, free_energy_surface
from ldmaps.analysis.observables import correlations
from ldmaps.analysis.own_points import PointsOfMap, as_numbers_or_texts
from ldmaps.analysis.report.structures import Structures, landmark_structures
from ldmaps.diffusion.pairwise import Extended
from ldmaps.errors import InvalidInputError
from ldmaps.fit.fitted_map import MAX_RECORDED, thinned_rows
from ldmaps.regions import find_basins
from ldmaps.regions.transitions import region_labels
from ldmaps.settings import check_whole
from ldmaps.time_units import are_dates, date_text, readable_unit

#: Most different texts, or files, to colour by.
MAX_TEXTS = 24
#: Coordinates of which all pairs get a free-energy surface.
MAX_SURFACE_COORDINATES = 6
#: Most landmarks that are drawn as such; an exact map has one a point.
MAX_LANDMARKS = 5_000
#: Columns of a table that are shown of a landmark.
MAX_FEATURES = 8
#: Crispness from which the map opens coloured by basin.
CRISP = 0.8


class Field(NamedTuple):
    """A number per point to colour by or to show under the pointer, and the texts that it stands for, if any."""

    key: str  # "frame", "time", "distance", "error", "basin", "file", or "column" for the user's own
    label: str
    unit: str
    values: NDArray[Any]
    texts: tuple[str, ...] = ()


class DrawnLandmarks(NamedTuple):
    """Landmarks to draw: numbers, places among the points drawn (-1: not there), frames and times (NaN: unknown)."""

    numbers: NDArray[np.intp]
    points: NDArray[np.int64]
    frames: NDArray[np.float64]
    times: NDArray[np.float64] | None
    features: dict[str, NDArray[np.float64]]  # of rows of tables, their own values


@dataclass(frozen=True)
class Clock:
    """How times are shown: from when on they count, in which unit, and what the axis is called."""

    start: float
    scale: float
    unit: str
    label: str

    @classmethod
    def of(cls, points: PointsOfMap) -> Self:
        """Return the clock on which the times of points are easy to read; dates count from the first of them."""
        times = np.empty(0) if points.times is None else points.times[np.isfinite(points.times)]
        if not len(times):
            return cls(0.0, 1.0, points.time_unit, "Time")
        start, label = 0.0, "Time"
        if are_dates(points.time_unit, float(times.min())):
            start = float(times.min())
            label = f"Time since {date_text(start)}"
        return cls(start, *readable_unit(points.time_unit, float(np.abs(times - start).max())), label)

    def shown(self, times: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Return times as they are shown, None where there are none."""
        return None if times is None else self.scale * (times - self.start)


@dataclass(frozen=True)
class Contents:
    """Everything on the page, in plain arrays."""

    model: Any
    title: str
    points: PointsOfMap
    fields: list[Field]
    landmarks: DrawnLandmarks
    inside: NDArray[np.bool_] | None
    clock: Clock
    surfaces: dict[tuple[int, int], FreeEnergy]
    structures: Structures | None
    notes: list[str]
    basins: BasinTable | None
    follows: dict[str, NDArray[np.float64]]


def gather(
    model: Any,
    *,
    title: str | None = None,
    molecule: Any = None,
    max_points: int = MAX_RECORDED,
    errors: Any = None,
    **shown: Any,
) -> Contents:
    """Collect what :func:`~ldmaps.analysis.write_report` shows; see there for the arguments."""
    check_is_fitted(model, "embedder_")
    check_whole("max_points", max_points, 1)
    points = PointsOfMap.shown(model, errors=getattr(errors, "point_errors", errors), **shown)
    drawn, n = points, len(points.coordinates)
    if n > max_points:
        drawn = points.taken(thinned_rows(n, np.empty(0, dtype=np.intp), int(max_points)))
    drawn = replace(drawn, coordinates=drawn.coordinates.astype(np.float32))
    clock = Clock.of(points)
    basins = _basins(model, drawn)
    fields, notes = _fields(model, drawn, basins, clock)
    if not drawn.total:
        notes.insert(
            0,
            "The model file holds no training points (it was saved without its embedding), so the landmarks stand for "
            "them.",
        )
    elif len(drawn.coordinates) < drawn.total:
        notes.insert(0, f"{len(drawn.coordinates):,} of {drawn.total:,} points are drawn, evenly spread.")
    landmarks = _landmarks(model, points, drawn, clock)
    density, weights = drawn.density(model)
    pairs = combinations(range(min(density.shape[1], MAX_SURFACE_COORDINATES)), 2)
    own = {
        field.label: field.values for field in fields if field.key in ("time", "column") and not field.texts
    }
    return Contents(
        model=model,
        title=title if title is not None else _title(model, points),
        points=drawn,
        fields=fields,
        landmarks=landmarks,
        inside=_inside(model, drawn),
        clock=clock,
        surfaces={pair: free_energy_surface(density[:, pair], weights) for pair in pairs},
        structures=landmark_structures(model, landmarks.numbers, molecule),
        notes=notes,
        basins=basins,
        follows=correlations(drawn.coordinates, own) if own and len(drawn.coordinates) > 2 else {},
    )


def _fields(
    model: Any, points: PointsOfMap, basins: BasinTable | None, clock: Clock
) -> tuple[list[Field], list[str]]:
    """Return what points can be coloured by, and remarks about what they cannot."""
    frame = "Frame" if model.metric_.takes_frames else "Row"
    known = [
        ("frame", frame, "", points.frames),
        ("time", clock.label, clock.unit, clock.shown(points.times)),
        ("distance", "Distance to nearest landmark", "√ε", points.distance),
        ("error", "Estimated error ζ", "% of range", points.errors),
        ("uncertainty", "Uncertainty by resampling", "% of range", _uncertainty(model, points)),
    ]
    fields = [Field(key, label, of, values) for key, label, of, values in known if values is not None]
    notes = []
    if basins is not None:
        labels = region_labels(points.coordinates, basins.basins.regions).astype(np.float64)
        labels[labels < 0] = np.nan  # between the cores
        fields.append(Field("basin", "Basin", "", labels, tuple(basins.basins.names)))
    for name, column in points.columns.items():
        values, texts = as_numbers_or_texts(name, column, len(points.coordinates))
        if len(texts) > MAX_TEXTS:
            notes.append(f"The column {name} has {len(texts):,} different texts, too many to colour by.")
        elif texts or np.isfinite(values).any():
            fields.append(Field("column", name, points.unit_of(name), values, texts))
    if points.files is not None and 1 < len(points.file_names) <= MAX_TEXTS:
        fields.append(Field("file", "File", "", points.files, points.file_names))
    return fields, notes


def _uncertainty(model: Any, points: PointsOfMap) -> NDArray[np.float64] | None:
    """Return the standard error of each point's coordinates, those of its landmark, in percent of their ranges."""
    sampling = getattr(model, "sampling_", None)
    places = points.nearest if points.nearest is not None else points.rows
    if sampling is None or places is None or not len(points.coordinates):
        return None
    k = min(model.n_components_, sampling.landmark_errors.shape[1])
    ranges = np.ptp(np.asarray(model.landmark_embedding_, dtype=np.float64)[:, :k], axis=0)
    scaled = sampling.landmark_errors[:, :k] * model.eigenvalues_[:k] ** model.diffusion_time / ranges
    errors = 100.0 * np.linalg.norm(scaled, axis=1)
    if points.nearest is None and len(errors) != points.total:  # an exact map of some of the points
        return None
    return np.asarray(errors[places.astype(np.intp)])


def _landmarks(model: Any, points: PointsOfMap, drawn: PointsOfMap, clock: Clock) -> DrawnLandmarks:
    """Return the landmarks to draw, those that stand for most first; they are training points, whatever is shown."""
    count = len(model.multiplicities_)
    numbers = thinned_rows(count, np.empty(0, dtype=np.intp), MAX_LANDMARKS).astype(np.intp)
    numbers = numbers[np.argsort(-model.multiplicities_[numbers], kind="stable")]
    wanted = np.asarray(model.landmark_indices_)[numbers]
    origin = points if points.rows is not None else PointsOfMap.training(model)
    place = _places_among(origin.rows, wanted)

    def at(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(place >= 0, values[place], np.nan)

    return DrawnLandmarks(
        numbers,
        _places_among(drawn.rows, wanted),
        wanted.astype(np.float64) if origin.frames is None else at(origin.frames),
        None if origin.times is None else clock.shown(at(origin.times)),
        _features(model, numbers),
    )


def _features(model: Any, numbers: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """Return the first columns of landmarks that are rows of a table."""
    metric, facts = model.metric_, model.source_ or {}
    if metric.takes_frames or not metric.is_differentiable:
        return {}
    values = metric.places(model.map_.landmark_points).values[numbers, :MAX_FEATURES]
    names = facts.get("columns") or getattr(model, "feature_names_in_", None)
    names = [f"column {place + 1}" for place in range(values.shape[1])] if names is None else names
    return dict(zip(map(str, names), values.T, strict=False))


def _inside(model: Any, points: PointsOfMap) -> NDArray[np.bool_] | None:
    """Say which points the map covers, as :meth:`~ldmaps.LandmarkDiffusionMap.coverage` does."""
    if points.distance is None or points.nearest is None:
        return None
    extended = Extended(len(points.distance), 0, np.dtype(np.float64))
    extended.squared_distance[:] = points.distance**2 * model.epsilon_
    extended.nearest[:] = points.nearest
    return model.embedder_.coverage_of(extended).inside  # type: ignore[no-any-return]


def _places_among(rows: NDArray[np.int64] | None, wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Return where ``wanted`` stand among sorted ``rows``, -1 where they do not."""
    if rows is None or not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.clip(np.searchsorted(rows, wanted), 0, len(rows) - 1)
    return np.where(rows[place] == wanted, place, -1)


def _basins(model: Any, points: PointsOfMap) -> BasinTable | None:
    """Return the basins of a trajectory's frames; None for other points, and where the map shows none."""
    if len(points.coordinates) < 2 or not model.metric_.takes_frames or points.frames is None:
        return None
    try:
        return basin_table(model, points, find_basins(model))
    except InvalidInputError:  # no basins, or rows that are not in the order of time
        return None


def _title(model: Any, points: PointsOfMap) -> str:
    """Name the files that the points are of, and for others than training points those of the map."""
    fitted = _named((model.source_ or {}).get("files") or ())
    own = _named(points.file_names) if points.rows is None else ""
    if own:
        return f"{own} on the map of {fitted}" if fitted else f"{own} on a diffusion map"
    return f"Diffusion map of {fitted}" if fitted else "Diffusion map"


def _named(files: Any) -> str:
    if not files:
        return ""
    first = str(files[0]).replace("\\", "/").rpartition("/")[2]
    return first + (f" and {len(files) - 1} more" if len(files) > 1 else "")
