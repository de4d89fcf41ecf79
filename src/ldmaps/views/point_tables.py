"""Tables that bring points or colours to a report: what ``ldmaps embed`` writes, or your own columns."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.embedded_rows import coordinate_names
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import format_of, suffixes
from ldmaps.inputs.tables import is_plumed, read_columns

__all__ = ["read_table"]

#: Columns of ldmaps embed, and the arguments of write_report they are.
_KNOWN = {"frame": "frames", "time": "times", "distance": "distance", "nearest": "nearest"}

#: Rows near landmarks that it takes to recognise another map, and how far off they may be, as a share of psi2's
#: variance: rows of another map are off by once or twice the variance, a map's own by 0.4 at most (pure noise).
MIN_COMPARED, MAX_DEVIATION = 10, 0.5


def read_table(path: str, model: Any) -> dict[str, Any]:
    """Return a table as arguments of ``write_report``: points where it has psi2, psi3, …, colours where not."""
    columns = _read(path)
    k = model.n_components_
    names = coordinate_names(k)
    present = [name for name in names if name in columns]
    if not present:
        return {"columns": _coloured(path, columns, model)}
    missing = [name for name in names if name not in columns]
    if missing:
        raise InvalidInputError(
            f"{path} lacks the column {missing[0]}: the map has {k} coordinates, {names[0]} to {names[-1]}; "
            "write the table with ldmaps embed and this map"
        )
    numbers = {
        name: _numbers(path, name, values)
        for name, values in columns.items()
        if name in names or name in (*_KNOWN, "inside")
    }
    arguments: dict[str, Any] = {"points": np.column_stack([numbers.pop(name) for name in names])}
    for name, argument in _KNOWN.items():
        values = numbers.pop(name, None)
        if values is not None and np.isfinite(values).all():
            arguments[argument] = values
    nearest = arguments.get("nearest")
    if nearest is not None and (nearest.min() < 0 or nearest.max() >= len(model.multiplicities_)):
        raise InvalidInputError(
            f"{path} names landmark {int(nearest.max())}, but the map has {len(model.multiplicities_)}; "
            "write the table with this map"
        )
    _check_same_map(path, arguments, model)
    if "file" in columns:
        arguments["files"] = columns["file"].astype(str)
    own = {
        name: values for name, values in columns.items() if name not in (*names, *_KNOWN, "inside", "file")
    }
    arguments["columns"] = {name: values for name, values in (numbers | own).items() if not _is_empty(values)}
    return arguments


def _check_same_map(path: str, arguments: dict[str, Any], model: Any) -> None:
    """Raise when rows close to their nearest landmark do not have its psi2: another map placed them."""
    if "nearest" not in arguments or "distance" not in arguments:
        return
    distance = arguments["distance"]
    near = np.argsort(distance, kind="stable")[: max(MIN_COMPARED, len(distance) // 4)]
    near = near[distance[near] <= 1.0]
    if len(near) < MIN_COMPARED:
        return
    psi2 = np.asarray(model.landmark_embedding_, dtype=np.float64)[:, 0]
    there = psi2[arguments["nearest"][near].astype(np.intp)]
    off = np.mean((arguments["points"][near, 0] - there) ** 2)
    mean = np.average(psi2, weights=model.multiplicities_)
    spread = np.average((psi2 - mean) ** 2, weights=model.multiplicities_)
    if off > MAX_DEVIATION * spread:
        raise InvalidInputError(
            f"the rows of {path} belong to another map: the psi2 of the rows nearest to landmarks differs from the "
            f"landmarks' by {np.sqrt(off):.3g}, where psi2 of the whole map varies by {np.sqrt(spread):.3g}; write the "
            "table with ldmaps embed and this map"
        )


def _is_empty(values: NDArray[Any]) -> bool:
    if values.dtype == object:
        return all(value is None or not str(value).strip() for value in values)
    return bool(values.dtype.kind == "f" and np.isnan(values).all())


def _coloured(path: str, columns: dict[str, NDArray[Any]], model: Any) -> dict[str, NDArray[Any]]:
    n_rows = len(next(iter(columns.values())))
    if not hasattr(model, "embedding_"):
        raise InvalidInputError(
            f"{path} has no columns psi2, psi3, ... and the model file holds no training points to colour; "
            "give it the output of ldmaps embed"
        )
    n_points = len(model.embedding_)
    if n_rows != n_points:
        raise InvalidInputError(
            f"{path} has no columns psi2, psi3, ..., so it should have a row for each of the map's {n_points} "
            f"training points, but it has {n_rows}"
        )
    return {name: values for name, values in columns.items() if name not in ("file", "frame")}


def _read(path: str) -> dict[str, NDArray[Any]]:
    form = format_of(path)
    if form is None and os.path.isfile(path) and is_plumed(path):
        # The column "time" is the COLVAR's own; rows are in the order of the map's points.
        return {name: values for name, values in read_columns(path, named=False).items() if name != "time"}
    if form is None or "embed" not in form.written_by:
        *others, last = suffixes(written_by="embed")
        raise InvalidInputError(f"the table {path} must end in {', '.join(others)} or {last}")
    if not os.path.exists(path):
        raise InvalidInputError(f"there is no table {path}; check the name")
    return read_columns(path)


def _numbers(path: str, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return a column as numbers; empty cells are NaN."""
    if values.dtype != object:
        return np.asarray(values, dtype=np.float64)
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        text = "" if value is None else str(value).strip()
        try:
            numbers[row] = float(text or "nan")
        except ValueError:
            raise InvalidInputError(
                f"{path}, row {row + 1}, column {name!r}: {text!r} is not a number; correct it or leave the "
                "column out"
            ) from None
    return numbers
