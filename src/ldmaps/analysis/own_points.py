"""The points a map is looked at by, and what is known of each: training points, or those that a table brings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.analysis.observables import UNITS
from ldmaps.errors import InvalidInputError
from ldmaps.fit.fitted_map import thinned_rows
from ldmaps.inputs.formats import format_of, suffixes
from ldmaps.inputs.tables import is_plumed, read_columns
from ldmaps.time_units import PICOSECONDS, time_unit

#: What may be known of each point, as a number.
_NUMBERS = ("frames", "times", "distance", "nearest", "errors", "weights")
#: Columns of ldmaps embed, and the arguments of write_report they are.
_KNOWN = {"frame": "frames", "time": "times", "distance": "distance", "nearest": "nearest"}

#: Rows near landmarks that it takes to recognise another map, and how far off they may be, as a share of psi2's
#: variance: rows of another map are off by once or twice the variance, a map's own by 0.4 at most (pure noise).
MIN_COMPARED, MAX_DEVIATION = 10, 0.5


@dataclass(frozen=True)
class PointsOfMap:
    """Coordinates of points and an array of shape (n,) for whatever is known of them, None where nothing is."""

    coordinates: NDArray[Any]
    total: int = 0  # with training points that the model does not record
    what: str = "points"
    rows: NDArray[np.int64] | None = None  # places of those it does; None for other points
    frames: NDArray[np.float64] | None = None
    times: NDArray[np.float64] | None = None
    time_unit: str = PICOSECONDS
    distance: NDArray[np.float64] | None = None
    nearest: NDArray[np.float64] | None = None
    errors: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] | None = None
    files: NDArray[np.int32] | None = None  # places in:
    file_names: tuple[str, ...] = ()
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def training(cls, model: Any) -> Self:
        """Return the training points that a model records; none if its file was saved without them."""
        what = "training frames" if model.metric_.takes_frames else "training points"
        if not hasattr(model, "embedding_"):
            none = np.empty((0, model.n_components_), dtype=np.float32)
            return cls(none, 0, what, time_unit=_time_unit(model))
        embedding, record = np.asarray(model.embedding_), model.training_
        rows = thinned_rows(len(embedding), np.empty(0, np.intp)) if record is None else record.rows
        known = {} if record is None else record.arrays()
        numbers: dict[str, Any] = {
            name: np.asarray(known[name], dtype=np.float64) for name in _NUMBERS if name in known
        }
        numbers.setdefault("frames", rows.astype(np.float64))  # without files, its place identifies a point
        files, names = known.get("files"), tuple(map(str, (model.source_ or {}).get("files") or ()))
        last = -1 if files is None else int(files.max(initial=0))
        if last >= len(names):
            names = tuple(f"file {number + 1}" for number in range(last + 1))
        numbers |= {"files": files, "file_names": names, "time_unit": _time_unit(model)}
        return cls(embedding[rows], len(embedding), what, rows, **numbers)._with_true_times()

    @classmethod
    def shown(
        cls,
        model: Any,
        points: ArrayLike | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        files: ArrayLike | None = None,
        **numbers: ArrayLike | None,
    ) -> Self:
        """Return what the arguments of :func:`~ldmaps.analysis.write_report` describe, checked."""
        of = cls.training(model) if points is None else cls._projected(model, points)
        n = len(of.coordinates)
        known: dict[str, Any] = {
            name: _as_numbers(name, of._recorded(values), n)
            for name, values in numbers.items()
            if values is not None
        }
        if files is not None:
            texts = of._recorded(np.asarray(files, dtype=str))
            if texts.shape != (n,):
                raise InvalidInputError(f"files needs one name per point, ({n},), got shape {texts.shape}")
            names, file_of = np.unique(texts, return_inverse=True)
            known |= {"file_names": tuple(names.tolist()), "files": file_of.astype(np.int32)}
        own = {str(name): of._recorded(values) for name, values in (columns or {}).items()}
        return replace(of, **known, columns=own)._with_true_times()

    @classmethod
    def of(cls, model: Any, table: str | None = None) -> Self:
        """Return a map's training points, or those that a table of ``ldmaps embed`` brings; its columns in any case."""
        found = cls.shown(model, **({} if table is None else read_table(table, model)))
        if not len(found.coordinates):
            raise InvalidInputError(
                "the model file holds no training points; embed frames with ldmaps embed and give its table with --data"
            )
        return found

    @classmethod
    def _projected(cls, model: Any, points: ArrayLike) -> Self:
        coordinates, k = np.asarray(points), model.n_components_
        if coordinates.ndim != 2 or coordinates.shape[1] != k:
            raise InvalidInputError(
                f"points must be coordinates on the map, of shape (n, {k}), got {coordinates.shape}; "
                "embed raw data with model.transform first"
            )
        if not np.isfinite(coordinates).all():
            raise InvalidInputError("points must be finite coordinates on the map; remove those with NaN")
        kind = "frames" if model.metric_.takes_frames else "points"
        projected = f"{kind} projected onto the map"
        return cls(coordinates, len(coordinates), projected, time_unit=_time_unit(model))

    def unit_of(self, column: str) -> str:
        """Return the unit of a column that ldmaps embed or ldmaps correlate wrote; empty where it is unknown."""
        return self.time_unit if column == "time" else UNITS.get(column, "")

    def density(self, model: Any) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        """Return coordinates and weights to take densities from: of the points, or else of the landmarks."""
        if len(self.coordinates):
            return self.coordinates, self.weights
        return np.asarray(model.landmark_embedding_, dtype=np.float32), model.multiplicities_

    def taken(self, rows: NDArray[Any] | slice) -> Self:
        """Return some of the points."""
        arrays = ("coordinates", "rows", "files", *_NUMBERS)
        some = {name: array[rows] for name in arrays if (array := getattr(self, name)) is not None}
        return replace(self, **some, columns={name: values[rows] for name, values in self.columns.items()})

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Return time and the columns that are numbers; words have no order."""
        n = len(self.coordinates)
        own = {name: as_numbers_or_texts(name, values, n) for name, values in self.columns.items()}
        numbers = {name: values for name, (values, texts) in own.items() if not texts}
        return numbers if self.times is None else {"time": self.times, **numbers}

    def _recorded(self, values: ArrayLike) -> NDArray[Any]:
        """Return values of the points at hand, where values of all training points were given."""
        array = np.asarray(values)
        return array if self.rows is None or array.shape != (self.total,) else array[self.rows]

    def _with_true_times(self) -> Self:
        """Drop what a file without times holds: zeros, or whatever was in memory."""
        if self.times is None:
            return self
        known = self.times[np.isfinite(self.times)].round(3)
        return self if len(known) and (known != known[0]).any() else replace(self, times=None)


def _time_unit(model: Any) -> str:
    """Return the unit of the times of a map's points."""
    return time_unit(of_frames=model.metric_.takes_frames)


def as_numbers_or_texts(name: str, values: ArrayLike, n: int) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return a column as numbers, and what they stand for: texts become their place among all; NaN is empty."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise InvalidInputError(f"{name!r} needs one number per point, ({n},), got shape {array.shape}")
    if array.dtype.kind not in "OU":
        return array.astype(np.float64), ()
    cells = ["" if value is None or value != value else str(value).strip() for value in array.tolist()]
    try:
        return np.array([float(cell or "nan") for cell in cells]), ()
    except ValueError:
        texts = sorted({cell for cell in cells if cell})
        place = {text: float(number) for number, text in enumerate(texts)}
        return np.array([place.get(cell, np.nan) for cell in cells]), tuple(texts)


def _as_numbers(name: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    """Return a number per point, or say which is none."""
    numbers, texts = as_numbers_or_texts(name, values, n)
    for row, cell in enumerate(np.asarray(values).tolist() if texts else ()):
        text = "" if cell is None else str(cell).strip()
        try:
            float(text or "nan")
        except ValueError:
            raise InvalidInputError(
                f"{name}, row {row + 1}: {text!r} is not a number; correct it or leave the column out"
            ) from None
    return numbers


def read_table(path: str, model: Any) -> dict[str, Any]:
    """Return a table as arguments of ``write_report``: points where it has the coordinates, colours where not."""
    columns, names = _read(path), model.coordinate_names_
    missing = [name for name in names if name not in columns]
    if missing == names:
        return {"columns": _coloured(path, columns, model)}
    if missing:
        raise InvalidInputError(
            f"{path} lacks the column {missing[0]}: the map has {len(names)} coordinates, {names[0]} to {names[-1]}; "
            "write the table with ldmaps embed and this map"
        )
    for name, values in columns.items():
        if name in (*names, *_KNOWN, "inside"):
            columns[name] = _as_numbers(f"{path}, column {name!r}", values, len(values))
    arguments: dict[str, Any] = {"points": np.column_stack([columns[name] for name in names])}
    for name, argument in _KNOWN.items():
        if name in columns and np.isfinite(columns[name]).all():
            arguments[argument] = columns[name]
    nearest = arguments.get("nearest")
    if nearest is not None and (nearest.min() < 0 or nearest.max() >= len(model.multiplicities_)):
        raise InvalidInputError(
            f"{path} names landmark {int(nearest.max())}, but the map has {len(model.multiplicities_)}; "
            "write the table with this map"
        )
    _check_same_map(path, arguments, model)
    if "file" in columns:
        arguments["files"] = columns["file"].astype(str)
    own = {name: values for name, values in columns.items() if name not in (*names, *_KNOWN, "file")}
    arguments["columns"] = {name: values for name, values in own.items() if not _is_empty(values)}
    return arguments


def _check_same_map(path: str, arguments: dict[str, Any], model: Any) -> None:
    """Raise when rows close to their nearest landmark do not have its psi2: another map placed them."""
    distance = arguments.get("distance", np.empty(0))
    near = np.argsort(distance, kind="stable")[: max(MIN_COMPARED, len(distance) // 4)]
    near = near[distance[near] <= 1.0]
    if len(near) < MIN_COMPARED or "nearest" not in arguments:
        return
    psi2 = np.asarray(model.landmark_embedding_, dtype=np.float64)[:, 0]
    there = psi2[arguments["nearest"][near].astype(np.intp)]
    off = np.mean((arguments["points"][near, 0] - there) ** 2)
    mean = np.average(psi2, weights=model.multiplicities_)
    spread = np.average((psi2 - mean) ** 2, weights=model.multiplicities_)
    if off > MAX_DEVIATION * spread:
        name = model.coordinate_names_[0]
        raise InvalidInputError(
            f"the rows of {path} belong to another map: the {name} of the rows nearest to landmarks differs from the "
            f"landmarks' by {np.sqrt(off):.3g}, where {name} of the whole map varies by {np.sqrt(spread):.3g}; write "
            "the table with ldmaps embed and this map"
        )


def _sought(model: Any) -> str:
    names = model.coordinate_names_
    return ", ".join(names) if model.map_.record is not None else "psi2, psi3, ..."


def _is_empty(values: NDArray[Any]) -> bool:
    if values.dtype == object:
        return all(value is None or not str(value).strip() for value in values)
    return bool(values.dtype.kind == "f" and np.isnan(values).all())


def _coloured(path: str, columns: dict[str, NDArray[Any]], model: Any) -> dict[str, NDArray[Any]]:
    n_rows = len(next(iter(columns.values())))
    if not hasattr(model, "embedding_"):
        raise InvalidInputError(
            f"{path} has no columns {_sought(model)} and the model file holds no training points to colour; "
            "give it the output of ldmaps embed"
        )
    n_points = len(model.embedding_)
    if n_rows != n_points:
        raise InvalidInputError(
            f"{path} has no columns {_sought(model)}, so it should have a row for each of the map's {n_points} "
            f"training points, but it has {n_rows}"
        )
    return {name: values for name, values in columns.items() if name not in ("file", "frame")}


def _read(path: str) -> dict[str, NDArray[Any]]:
    form = format_of(path)
    if form is None and os.path.isfile(path) and is_plumed(path):
        columns = read_columns(path, named=False)
        columns.pop("time", None)  # the COLVAR's own; rows are in the order of the map's points
        return columns
    if form is None or "embed" not in form.written_by:
        *others, last = suffixes(written_by="embed")
        raise InvalidInputError(f"the table {path} must end in {', '.join(others)} or {last}")
    if not os.path.exists(path):
        raise InvalidInputError(f"there is no table {path}; check the name")
    return read_columns(path)
