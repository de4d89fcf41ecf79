"""NDJSON lines to records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ldmaps.inputs.text_columns import UnreadableError
from ldmaps.point_faults import wrong_width
from ldmaps.streaming.sources.decoding import TROUBLE, LineDecoder, Row, as_point
from ldmaps.text_rows import PlainRows

__all__ = ["JsonDecoder"]


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

    def _begin(self, text: bytes, at: int, count: int) -> int:
        """Let the first record say how many numbers there are, where no map does."""
        while self.width is None and count:
            end = text.index(b"\n", at)
            with suppress(UnreadableError):
                record = self._alone(text[at:end].strip())
                self.width = None if record is None else len(record[0])
            at, count = end + 1, count - 1
        if self.width != self._plain.width:
            self._plain = PlainRows(self.width or 0, ",", longest=self._lines.longest, is_json=True)
        return 0

    def _alone(self, line: bytes) -> Row | None:
        if not line:
            return None
        try:
            row, moment = self._parts(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UnreadableError(f"not UTF-8 at byte {error.start}") from error
        point = as_point(row, self.facts.get("takes_frames", True))
        fault = None if self.width is None else wrong_width((len(point),), self.width)
        if fault is not None:
            raise UnreadableError(fault)
        return point, moment

    def _parts(self, text: str) -> tuple[Any, float | None]:
        """Return the numbers of a line and its time, as far as they are there."""
        try:
            value, end = self._decode(text)
        except json.JSONDecodeError as error:
            raise UnreadableError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
        except TROUBLE as error:
            raise UnreadableError(f"not JSON: {error}") from error
        if end != len(text):
            raise UnreadableError(f"not JSON: something follows the value at character {end + 1}")
        if isinstance(value, dict):
            moment = self._moment(value)
            return self._point(value), moment
        if not isinstance(value, list):
            raise UnreadableError(f"{type(value).__name__} is neither a list of numbers nor an object")
        return value, None

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
        except TROUBLE as error:
            raise UnreadableError(f"the time {str(moment)[:40]!r} is not a number") from error
