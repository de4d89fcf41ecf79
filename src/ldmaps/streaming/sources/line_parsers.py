"""Lines to records: CSV and NDJSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.column_roles import find_columns, moment, time_places
from ldmaps.inputs.text_table import TextColumns, UnreadableError
from ldmaps.point_faults import wrong_width
from ldmaps.streaming.records import Position
from ldmaps.streaming.sources.decoding import TROUBLE, LineParser, Row, as_point
from ldmaps.text_rows import PlainRows


class CsvParser(LineParser):
    """Reads lines of numbers."""

    # A first line without any number names the columns; then the model's columns (or those chosen) are found by
    # name, and a column that is a time and none of them is the record's own time. Lines that begin with # are
    # skipped.

    form = "csv"

    def __init__(self, facts: Mapping[str, Any], columns: Sequence[str] | None = None) -> None:
        super().__init__(facts)
        self._chosen = None if columns is None else list(columns)
        self._layout: TextColumns | None = None
        self._places: list[int] = []  # columns to read, that of the time last

    def state(self) -> dict[str, Any]:
        """Return what the first line said."""
        layout = self._layout
        if layout is None:
            return {}
        return {"header": layout.names, "delimiter": layout.delimiter, "n_columns": layout.count}

    def restore(self, position: Position) -> None:
        """Go on with the header that was read then."""
        if "n_columns" in position:
            header, count = position["header"], int(position["n_columns"])
            if not 0 < count <= self.longest or (header is not None and len(header) != count):
                raise ValueError(f"{count} columns")
            self._choose(TextColumns(position["delimiter"], header, count))

    def row(self, line: bytes) -> Row | None:
        """Read a line; the first one says which columns there are."""
        if not line or line[:1] == b"#":
            return None
        text = line.decode("utf-8", errors="replace")
        if self._layout is None:
            layout = TextColumns.of(text)
            if layout.names is None and self._chosen is None and self.width is not None:
                layout.count = self.width  # a first line of another length is itself at fault
            self._choose(layout)
            if layout.names is not None:
                return None
        else:
            layout = self._layout
        cells = layout.cells(text)
        if len(cells) != layout.count:
            raise UnreadableError(f"{len(cells)} columns, but {layout.count} are expected")
        n_point = len(self._places) - self.time_is_last
        row = [layout.number(cells, place) for place in self._places[:n_point]]
        return [*row, *(layout.moment(cells, place) for place in self._places[n_point:])], None

    def _choose(self, layout: TextColumns) -> None:
        """Find out which columns are the point and which one is its time."""
        header, names = layout.names, self._chosen
        if names is None and header is not None:
            names = self.facts.get("columns")
        places = list(range(layout.count))
        times = time_places(header or (), self.facts.get("time"))
        if names is not None:
            places = find_columns(names, header, layout.count, "the table")
        elif times and self.width != layout.count:
            places.remove(times[0])
        if self.width is None:
            self.width = len(places)
        named = "" if header is None else f" ({', '.join(header)})"
        fault = wrong_width((len(places),), self.width, counted=f"columns to use{named}")
        if fault is not None:
            raise InvalidInputError(f"the table has {fault}; choose them with ", Named("columns"))
        own_time = [place for place in times if place not in places][:1]
        self.time_is_last = bool(own_time)
        self._layout, self._places = layout, places + own_time
        self.plain = PlainRows(layout.count, layout.delimiter, self._places, longest=self.longest)


class JsonParser(LineParser):
    """Reads lines that are each a list of numbers, or an object, whose other fields are ignored."""

    # [1, 2, 3], {"x": [1, 2, 3], "time": 0.5} or, where the columns are known by name, {"a": 1, "b": 2, "c": 3,
    # "time": 0.5}; frames may be nested, [[x, y, z], ...].

    form = "ndjson"

    def __init__(self, facts: Mapping[str, Any], columns: Sequence[str] | None = None) -> None:
        super().__init__(facts)
        names = columns if columns is not None else facts.get("columns")
        self.names = None if not names else [str(name) for name in names]
        self.time = str(facts.get("time") or "time")
        self._has_time = self.names is None or self.time not in self.names
        self._decode = json.JSONDecoder().raw_decode
        if self.width is not None:
            self._expect(self.width)

    def row(self, line: bytes) -> Row | None:
        """Read a line."""
        if not line:
            return None
        try:
            text = line.decode("utf-8")
            value, end = self._decode(text)
        except UnicodeDecodeError as error:
            raise UnreadableError(f"not UTF-8 at byte {error.start}") from error
        except json.JSONDecodeError as error:
            raise UnreadableError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
        except TROUBLE as error:
            raise UnreadableError(f"not JSON: {error}") from error
        if end != len(text):
            raise UnreadableError(f"not JSON: something follows the value at character {end + 1}")
        if isinstance(value, dict):
            return self.record(value)
        if not isinstance(value, list):
            raise UnreadableError(f"{type(value).__name__} is neither a list of numbers nor an object")
        return self._checked(value), None

    def record(self, fields: Mapping[str, Any]) -> Row:
        """Read an object: a list of numbers or an array ``x``, or a number per column; and its time."""
        values, own_time = fields.get("x"), fields.get(self.time) if self._has_time else None
        if not isinstance(values, (list, np.ndarray)):
            if self.names is None:
                raise UnreadableError('there is no list "x", and the names of the columns are not known')
            missing = [name for name in self.names if name not in fields]
            if missing:
                raise UnreadableError(f"there is no field {missing[0]!r}")
            values = [fields[name] for name in self.names]
        point = self._checked(values)
        if own_time is None:
            return point, None
        try:
            return point, moment(own_time) if isinstance(own_time, str) else float(own_time)
        except TROUBLE as error:
            raise UnreadableError(
                f"the time {str(own_time)[:40]!r} is neither a number nor a date"
            ) from error

    def _checked(self, values: Any) -> NDArray[Any]:
        """Return a point; where no map says how many numbers it has, the first record does."""
        point = as_point(values, self.facts.get("takes_frames", True)) if isinstance(values, list) else values
        if self.width is None:
            self._expect(len(point))
        fault = wrong_width((len(point),), self.width or 0)
        if fault is not None:
            raise UnreadableError(fault)
        return point

    def _expect(self, width: int) -> None:
        self.width = width
        self.plain = PlainRows(width, ",", longest=self.longest, is_json=True)
