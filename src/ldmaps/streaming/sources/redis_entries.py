"""Entries of a Redis stream to points."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.inputs.text_columns import UnreadableError
from ldmaps.point_faults import wrong_width
from ldmaps.streaming.records import Rejected
from ldmaps.streaming.sources.decoding import TROUBLE, as_point

__all__ = ["Entry", "EntryDecoder"]

#: Identifier and fields.
Entry = tuple[bytes, dict[bytes, bytes]]

_DTYPES = {name: np.dtype(code) for code in ("<f4", "<f8") for name in (code, np.dtype(code).name)}


class EntryDecoder:
    """Decodes entries; where the model does not say how many values a point has, the first entry decides."""

    def __init__(self, facts: Mapping[str, Any], columns: Sequence[str] | None = None) -> None:
        names = columns if columns is not None else facts.get("columns")
        self._names = [str(name).encode() for name in names] if names else None
        self._width: int | None = facts.get("n_features")
        if self._width is None and facts.get("n_atoms") is not None:
            self._width = 3 * int(facts["n_atoms"])
        if self._width is None and self._names is not None:
            self._width = len(self._names)
        self._has_time = self._names is None or b"time" not in self._names

    def decode(
        self, entries: Sequence[Entry], first: int
    ) -> tuple[NDArray[Any], NDArray[np.float64] | None, list[int], tuple[Rejected, ...]]:
        """Return points, times, which entries these are, and the rest; ``first`` is the first one's number."""
        rows: list[Any] = []
        times: list[float] = []
        kept: list[int] = []
        rejected: list[Rejected] = []
        for place, (_, fields) in enumerate(entries):
            try:
                row, moment = self._point(fields), self._moment(fields)
            except UnreadableError as reason:
                rejected.append(Rejected(first + place, str(reason), _excerpt(fields)))
                continue
            rows.append(row)
            times.append(moment)
            kept.append(place)
        points = np.stack(rows) if rows else np.empty((0, self._width or 0))
        moments = np.asarray(times)
        return points, None if np.isnan(moments).all() else moments, kept, tuple(rejected)

    def _point(self, fields: Mapping[bytes, bytes]) -> NDArray[Any]:
        if b"x" in fields and not (self._names and b"x" in self._names):
            point = self._raw(fields) if b"dtype" in fields else _from_json(fields[b"x"])
        elif self._names is not None:
            point = np.array([_number(fields, name) for name in self._names])
        else:
            raise UnreadableError('there is no field "x", and the names of the columns are not known')
        if self._width is None:
            self._width = len(point)
        fault = wrong_width((len(point),), self._width)
        if fault is not None:
            raise UnreadableError(fault)
        return point

    def _raw(self, fields: Mapping[bytes, bytes]) -> NDArray[Any]:
        name, data = fields[b"dtype"].decode(errors="replace"), fields[b"x"]
        dtype = _DTYPES.get(name)
        if dtype is None:
            raise UnreadableError(f"the dtype {name[:40]!r} is neither float32 nor float64")
        if len(data) % dtype.itemsize:
            raise UnreadableError(f"{len(data)} bytes are not a whole number of {dtype.name}")
        return np.frombuffer(data, dtype)

    def _moment(self, fields: Mapping[bytes, bytes]) -> float:
        return _number(fields, b"time") if self._has_time and b"time" in fields else np.nan


def _from_json(data: bytes) -> NDArray[Any]:
    try:
        value = json.loads(data)
    except TROUBLE as error:
        raise UnreadableError(f"x is not JSON ({error}); raw bytes need a field dtype") from error
    if not isinstance(value, list):
        raise UnreadableError("x is not a list of numbers")
    return as_point(value)


def _number(fields: Mapping[bytes, bytes], name: bytes) -> float:
    label = name.decode(errors="replace")
    if name not in fields:
        raise UnreadableError(f"there is no field {label!r}")
    try:
        return float(fields[name])
    except ValueError as error:
        text = fields[name][:40].decode(errors="replace")
        raise UnreadableError(f"{label}: {text!r} is not a number") from error


def _excerpt(fields: Mapping[bytes, bytes]) -> str:
    text = " ".join(f"{name.decode(errors='replace')}={value[:80]!r}" for name, value in fields.items())
    return text[:200]
