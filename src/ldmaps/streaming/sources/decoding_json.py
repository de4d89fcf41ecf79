"""NDJSON lines to records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.inputs.text_columns import UnreadableError
from ldmaps.streaming.sources.decoding import LineDecoder, Row

__all__ = ["JsonDecoder"]

_TROUBLE = (ValueError, TypeError, OverflowError, RecursionError)


class JsonDecoder(LineDecoder):
    """Decodes lines that are each a list of numbers, or an object.

    ``[1, 2, 3]``, ``{"x": [1, 2, 3], "time": 0.5}`` or, where the columns are known by
    name, ``{"a": 1, "b": 2, "c": 3, "time": 0.5}``; frames may be nested,
    ``[[x, y, z], ...]``. Other fields of an object are ignored.
    """

    form = "ndjson"

    def __init__(self, facts: Mapping[str, Any], columns: Sequence[str] | None = None) -> None:
        super().__init__(facts)
        names = columns if columns is not None else facts.get("columns")
        self._names = None if not names else [str(name) for name in names]
        self._has_time = self._names is None or "time" not in self._names
        self._decode = json.JSONDecoder().raw_decode

    def _together(self, lines: list[bytes]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        # Line by line, not joined to one document: two broken halves must not make a whole.
        texts = b"\n".join(lines).decode("utf-8").split("\n")
        found = [self._decode(text) for text in texts]
        if any(end != len(text) for (_, end), text in zip(found, texts, strict=True)):
            raise ValueError("something follows a value")
        values = [value for value, _ in found]
        times = None
        kinds = set(map(type, values))
        if kinds == {dict}:
            if any("time" in value for value in values) and self._has_time:
                moments = [value.get("time") for value in values]
                times = np.array(
                    [np.nan if moment is None else moment for moment in moments], dtype=np.float64
                )
            if isinstance(values[0].get("x"), list):
                values = list(map(itemgetter("x"), values))
            elif self._names is not None and len(self._names) > 1:
                values = list(map(itemgetter(*self._names), values))
            else:
                raise ValueError("line by line")
        elif kinds != {list}:
            raise ValueError("line by line")
        points = np.array(values, dtype=np.float64)
        if points.ndim == 3 and points.shape[2] == 3 and self.facts.get("takes_frames", True):
            points = points.reshape(len(points), -1)
        if points.ndim != 2:
            raise ValueError("not points")
        self._checked_width(points.shape[1])
        return points, times

    def _alone(self, line: bytes) -> Row:
        try:
            text = line.decode("utf-8")
            value, end = self._decode(text)
        except UnicodeDecodeError as error:
            raise UnreadableError(f"not UTF-8 at byte {error.start}") from error
        except json.JSONDecodeError as error:
            raise UnreadableError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
        except _TROUBLE as error:
            raise UnreadableError(f"not JSON: {error}") from error
        if end != len(text):
            raise UnreadableError(f"not JSON: something follows the value at character {end + 1}")
        moment = None
        if isinstance(value, dict):
            moment = self._moment(value)
            value = self._point(value)
        elif not isinstance(value, list):
            raise UnreadableError(f"{type(value).__name__} is neither a list of numbers nor an object")
        try:
            point = np.array(value, dtype=np.float64)
        except _TROUBLE as error:
            raise UnreadableError(
                "the values are not all numbers, or lists of them differ in length"
            ) from error
        if point.ndim == 2 and point.shape[1] == 3 and self.facts.get("takes_frames", True):
            point = point.reshape(-1)
        if point.ndim != 1:
            raise UnreadableError(f"an array of shape {point.shape} is not a point")
        self._checked_width(len(point))
        return point, moment

    def _point(self, value: dict[str, Any]) -> Any:
        if isinstance(value.get("x"), list):
            return value["x"]
        if self._names is None:
            raise UnreadableError('the object has no list "x", and the names of the columns are not known')
        missing = [name for name in self._names if name not in value]
        if missing:
            raise UnreadableError(f"there is no field {missing[0]!r}")
        return [value[name] for name in self._names]

    def _moment(self, value: dict[str, Any]) -> float | None:
        moment = value.get("time") if self._has_time else None
        if moment is None:
            return None
        try:
            return float(moment)
        except _TROUBLE as error:
            raise UnreadableError(f"the time {str(moment)[:40]!r} is not a number") from error
