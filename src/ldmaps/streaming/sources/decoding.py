"""Bytes to records: bytes ──feed──► Decoder ──take──► Records; lines of CSV and NDJSON.

Lines of plain numbers are read many at a time, without being cut; any other line gets its own
verdict, so that one bad line costs its neighbours nothing.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.column_roles import find_columns, finite_time, moment, time_places
from ldmaps.inputs.formats import format_of, table_streams
from ldmaps.inputs.text_table import BOM, TextColumns, UnreadableError
from ldmaps.point_faults import wrong_width
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.text_rows import PlainRows, read_lines

#: Most bytes of a record: of one whose numbers are not counted, of one of few numbers, and per number of others.
#: Anything longer is a fault and is not kept.
_LARGEST, _LARGEST_SMALL, _BYTES_PER_NUMBER = 64 << 20, 4 << 20, 256
#: What numpy and json raise for values that are not numbers, or too large for them.
TROUBLE = (ValueError, TypeError, OverflowError, RecursionError)


class Decoder(ABC):
    """Turns bytes into records; knows at which byte it is."""

    @abstractmethod
    def feed(self, data: bytes, arrived: float) -> None:
        """Take bytes that came at ``arrived`` (``time.monotonic()``); a record may be cut anywhere."""

    @abstractmethod
    def finish(self) -> None:
        """Note that no more bytes will come, so that an unfinished record is judged as it stands."""

    @property
    @abstractmethod
    def ready(self) -> int:
        """How many records (or lines that may turn out to be none) can be taken now."""

    @abstractmethod
    def take(self, most: int) -> Records:
        """Return up to ``most`` of them; their position is an object whose ``"offset"`` is the byte behind them."""

    @abstractmethod
    def restore(self, position: Position) -> None:
        """Go on after a position; the first byte to be fed is the one at its ``"offset"``."""


def largest_record(width: int | None) -> int:
    """Return the most bytes that a record of ``width`` numbers may have: decoding it takes many times that."""
    return _LARGEST if width is None else max(_LARGEST_SMALL, _BYTES_PER_NUMBER * width)


def form_of(path: str) -> str | None:
    """Return the form that a file's name says, or None; raise if such a file cannot be streamed."""
    form = format_of(path)
    if form is not None and form.decoder not in table_streams():
        raise InvalidInputError(
            f"{path} is {form.name}, which is not a stream of records; embed it with ldmaps embed, or write one of "
            f"{', '.join(table_streams())}"
        )
    return None if form is None else form.decoder


def excerpt(data: bytes) -> str:
    """Return the beginning of what was received, for people."""
    return data[:200].decode("utf-8", errors="replace")


def as_point(values: Any, takes_frames: bool = True) -> NDArray[np.float64]:
    """Return a point from a list of numbers, or a frame from nested ones, laid out as a row."""
    try:
        array = np.array(values, dtype=np.float64)
    except TROUBLE as error:
        raise UnreadableError("the values are not all numbers, or lists of them differ in length") from error
    if takes_frames and array.ndim == 2 and array.shape[1] == 3:
        array = array.ravel()
    if array.ndim != 1:
        raise UnreadableError(f"an array of shape {array.shape} is not a point")
    return array


def _check_numbers(values: list[Any]) -> None:
    """Raise where a list of JSON holds what numpy would take for a number: true, false, or digits as text."""
    lists = [values]  # not by recursion: they may be nested as deep as JSON is read
    while lists:
        for value in lists.pop():
            if isinstance(value, list):
                lists.append(value)
            elif isinstance(value, (bool, str)):
                raise UnreadableError(f"{json.dumps(value)[:40]} is not a number")


#: One record that was read: its numbers, and its own time if it has one that is not among them.
Row = tuple[Sequence[float] | NDArray[np.float64], float | None]


class LineParser(ABC):
    """What a format with a record per line adds: plain lines are read many at a time, others one by one."""

    form: str
    #: Reads lines of nothing but numbers, once there was a record.
    plain: PlainRows | None = None
    #: Whether the last of the numbers read is the record's own time.
    time_is_last: bool = False

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.width: int | None = facts.get("n_features")
        self.longest = largest_record(self.width)

    @abstractmethod
    def row(self, line: bytes) -> Row | None:
        """Read any line, None if it is no record, or raise :class:`UnreadableError`."""

    def state(self) -> dict[str, Any]:
        """Return what belongs to a position."""
        return {}

    def restore(self, position: Position) -> None:
        """Go on with the state of a position."""


class LineDecoder(Decoder):
    """Decodes lines; a record's number counts all before it, those that could not be read included."""

    def __init__(self, parser: LineParser) -> None:
        self._parser = parser
        self._text, self._at = b"", 0  # the next line begins there
        self._more: list[bytes] = []  # what follows the text
        self._tail = 0  # bytes of the line that is not whole yet
        self._left_out: dict[int, int] = {}  # bytes of overlong lines that are not kept, by line
        self._arrived, self._last = np.empty(0), 0.0  # when each whole line came, and when the last bytes
        self._offset = self._fed = self._number = 0

    @property
    def ready(self) -> int:
        """How many whole lines there are."""
        return len(self._arrived)

    def feed(self, data: bytes, arrived: float) -> None:
        """Take bytes; of a line that is longer than any record the end is not kept."""
        self._fed += len(data)
        head, newline, rest = data.partition(b"\n")
        excess = min(len(head), max(0, self._tail + len(head) - self._parser.longest - 1))
        if excess:
            self._left_out[self.ready] = self._left_out.get(self.ready, 0) + excess
            data = head[: len(head) - excess] + newline + rest
        count = data.count(b"\n")
        self._tail = len(data) - data.rindex(b"\n") - 1 if count else self._tail + len(data)
        self._more.append(data)
        self._arrived, self._last = np.append(self._arrived, np.full(count, arrived)), arrived

    def finish(self) -> None:
        """Count a last line without a line break as a line."""
        if self._tail:
            self.feed(b"\n", self._last)
            self._fed -= 1

    def take(self, most: int) -> Records:
        """Decode up to ``most`` lines."""
        parser, count = self._parser, min(most, self.ready)
        if self._more:
            self._text, self._at, self._more = b"".join([self._text[self._at :], *self._more]), 0, []
        begin = self._at
        if self._offset == 0 and self._text.startswith(BOM, begin):
            begin += len(BOM)
        times, is_record = np.full(count, np.nan), np.ones(count, dtype=bool)
        rejected: dict[int, tuple[str, str]] = {}

        def other(raw: bytes, which: int) -> Sequence[float] | NDArray[np.float64] | None:
            line, length = raw.strip(), len(raw) + self._left_out.get(which, 0)
            try:
                if length > parser.longest:
                    raise UnreadableError(f"the line has {length} bytes; at most {parser.longest} are taken")
                row = parser.row(line)
            except UnreadableError as reason:
                rejected[which] = str(reason), excerpt(line)
                return None
            is_record[which] = row is not None
            numbers, time = (None, None) if row is None else row
            times[which] = np.nan if time is None else time
            return numbers

        points, end = read_lines(lambda: parser.plain, self._text, begin, count, other)
        numbers = self._number + np.cumsum(is_record, dtype=np.int64) - 1
        arrived, self._arrived = np.split(self._arrived, [count])
        left_out = sum(size for line, size in self._left_out.items() if line < count)
        self._left_out = {line - count: size for line, size in self._left_out.items() if line >= count}
        # No further than bytes came: finish() may have added a line break.
        self._offset, self._at = min(self._offset + end - self._at + left_out, self._fed), end
        self._number += int(np.count_nonzero(is_record))
        is_record[list(rejected)] = False
        moments = times[is_record]
        if parser.time_is_last and len(points):
            points, moments = points[:, :-1], points[:, -1].copy()
        return Records(
            points,
            numbers[is_record],
            None if np.isnan(moments).all() else moments,
            arrived[is_record],
            tuple(Rejected(int(numbers[line]), *why) for line, why in rejected.items()),
            {"format": parser.form, "offset": self._offset, "number": self._number, **parser.state()},
        )

    def restore(self, position: Position) -> None:
        """Go on after a position."""
        self._offset = self._fed = int(position["offset"])
        self._number = int(position["number"])
        self._parser.restore(position)


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
            if isinstance(own_time, bool):
                raise TypeError("true and false are not times")
            return point, moment(own_time) if isinstance(own_time, str) else finite_time(float(own_time))
        except TROUBLE as error:
            raise UnreadableError(
                f"the time {str(own_time)[:40]!r} is neither a number nor a date"
            ) from error

    def _checked(self, values: Any) -> NDArray[Any]:
        """Return a point; where no map says how many numbers it has, the first record does."""
        if isinstance(values, list):
            _check_numbers(values)
            values = as_point(values, self.facts.get("takes_frames", True))
        point: NDArray[Any] = values
        if self.width is None:
            self._expect(len(point))
        fault = wrong_width((len(point),), self.width or 0)
        if fault is not None:
            raise UnreadableError(fault)
        return point

    def _expect(self, width: int) -> None:
        self.width = width
        self.plain = PlainRows(width, ",", longest=self.longest, is_json=True)
