"""Bytes to records: the Decoder seam, and what all formats made of lines share.

    bytes ──feed──► Decoder ──take──► Records, with what could not be read listed separately

Lines are decoded many at a time; only when that fails does each line get its own
verdict, so that one bad line costs its neighbours nothing but time. Large pieces of
plain numbers are not even cut into lines: an object per line takes as long as its
numbers, and the interpreter's lock meanwhile, for which threads that embed would wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import format_of, table_streams
from ldmaps.inputs.text_columns import UnreadableError
from ldmaps.point_faults import wrong_width
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.text_rows import MANY_ROWS

__all__ = [
    "BOM",
    "TROUBLE",
    "Decoder",
    "LineDecoder",
    "as_points",
    "excerpt",
    "form_of",
    "largest_record",
    "times_of",
]

#: Most bytes of a record: of one whose numbers are not counted, of one of few numbers, and per number of others.
#: Anything longer is a fault and is not kept.
_LARGEST, _LARGEST_SMALL, _BYTES_PER_NUMBER = 64 << 20, 4 << 20, 256
#: Below so many lines the set-up of decoding them together costs more than it gains.
_TOGETHER = 8
#: Bytes from which on a piece is kept uncut until it is decoded; less is cut at once, so that a single record is quick.
_UNCUT = 1 << 14
#: What numpy and json raise for values that are not numbers, or too large for them.
TROUBLE = (ValueError, TypeError, OverflowError, RecursionError)
#: Byte order mark, with which some programs begin a text in UTF-8.
BOM = b"\xef\xbb\xbf"


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
        """Return up to ``most`` of them.

        The records' position is a JSON object whose ``"offset"`` is the byte that
        follows them; pass it to :meth:`restore`.
        """

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


def as_points(values: Any, ndim: int, takes_frames: bool = True) -> NDArray[np.float64]:
    """Return a point (``ndim`` 1) or many (2) from nested lists of numbers; frames are laid out as rows."""
    try:
        array = np.array(values, dtype=np.float64)
    except TROUBLE as error:
        raise UnreadableError("the values are not all numbers, or lists of them differ in length") from error
    if takes_frames and array.ndim == ndim + 1 and array.shape[-1] == 3:
        array = array.reshape(*array.shape[: ndim - 1], -1)
    if array.ndim != ndim:
        raise UnreadableError(f"an array of shape {array.shape} is not a point")
    return array


def times_of(moments: Sequence[float | None]) -> NDArray[np.float64] | None:
    """Return records' own times, NaN where one has none; None where none has."""
    if all(moment is None for moment in moments):
        return None
    return np.array([np.nan if moment is None else moment for moment in moments])


#: One record that was read: its numbers, and its own time if it has one.
Row = tuple[Any, float | None]


class LineDecoder(Decoder):
    """What is the same for every format with a record a line.

    Empty lines are skipped. The number of a record counts all records before it,
    those that could not be read included.
    """

    form: str

    def __init__(self, facts: Mapping[str, Any], max_line: int | None = None) -> None:
        self.facts = facts
        self.width: int | None = facts.get("n_features")
        self._max_line = largest_record(self.width) if max_line is None else max_line
        self._uncut: list[bytes] = []  # what comes after self._lines, not cut into lines yet
        self._uncut_lines = 0
        self._lines: list[bytes] = []
        self._at = 0
        self._arrivals: deque[tuple[int, float]] = deque()
        self._overlong: dict[int, int] = {}  # which of self._lines were cut, and their true length
        self._tail: list[bytes] = []
        self._tail_length = 0
        self._unfinished = False
        self._last_arrival = 0.0
        self._offset = 0
        self._number = 0

    # -- what a format adds -------------------------------------------------

    @abstractmethod
    def _together(self, lines: list[bytes]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        """Decode lines in one go, or raise ValueError if one of them is bad in whatever way."""

    @abstractmethod
    def _alone(self, line: bytes) -> Row:
        """Decode one line, or raise :class:`UnreadableError`."""

    def _uncut_together(
        self, text: bytes, count: int
    ) -> tuple[NDArray[Any], NDArray[np.float64] | None, int] | None:
        """Decode the first ``count`` lines of a text; None unless each is certain to be a plain record.

        Returns points, times and the length of these lines.
        """
        return None

    def _records_among(self, lines: list[bytes]) -> list[int] | None:
        """Return which of these lines are records; None is all."""
        return None if all(lines) else [place for place, line in enumerate(lines) if line]

    def _state(self) -> dict[str, Any]:
        """Return what else belongs to the position."""
        return {}

    def many(self, count: int) -> bool:
        """Say whether so many records have come, with these, that compiling a loop for them is worth it."""
        return self._number + count >= MANY_ROWS

    # -- the seam -----------------------------------------------------------

    @property
    def ready(self) -> int:
        """How many whole lines there are."""
        return len(self._lines) - self._at + self._uncut_lines

    def feed(self, data: bytes, arrived: float) -> None:
        """Cut bytes into lines, unless they are many."""
        self._last_arrival = arrived
        count = data.count(b"\n")
        # Without a line break, or behind a line that is too long, only the beginning of a line may be kept.
        if count and len(data) >= _UNCUT and self._tail_length <= self._max_line:
            self._uncut += [*self._tail, data]
            self._tail, self._tail_length = [], 0
            self._uncut_lines += count
        else:
            self._cut_all()
            self._cut(data)
        if count:
            self._arrivals.append((count, arrived))

    def _cut_all(self) -> None:
        """Cut what was left uncut."""
        if self._uncut:
            data = b"".join(self._uncut)
            self._uncut, self._uncut_lines = [], 0
            self._cut(data)

    def _cut(self, data: bytes) -> None:
        head, *rest = data.split(b"\n")
        self._keep_tail(head)
        if not rest:
            return
        if self._at:
            self._overlong = {place - self._at: length for place, length in self._overlong.items()}
            del self._lines[: self._at]
            self._at = 0
        self._end_tail()
        last = rest.pop()
        if max(map(len, rest), default=0) > self._max_line:
            for line in rest:
                self._keep_tail(line)
                self._end_tail()
        else:
            self._lines += rest
        self._keep_tail(last)

    def finish(self) -> None:
        """Count a last line without a line break as a line."""
        self._cut_all()
        if self._tail_length:
            self._cut(b"\n")
            self._arrivals.append((1, self._last_arrival))
            self._unfinished = True

    def take(self, most: int) -> Records:
        """Decode up to ``most`` lines."""
        if self._uncut_lines and self._at == len(self._lines):
            records = self._take_uncut(most)
            if records is not None:
                return records
            self._cut_all()
        begin, end = self._at, min(self._at + most, len(self._lines))
        lines = self._lines[begin:end]
        self._at = end
        cut = {place: self._overlong.pop(place) for place in sorted(self._overlong) if place < end}
        length = sum(map(len, lines)) + len(lines)
        length += sum(true - len(self._lines[place]) for place, true in cut.items())
        if self._unfinished and end == len(self._lines) and lines:
            length -= 1
            self._unfinished = False
        if self._offset == 0 and lines and lines[0].startswith(BOM):
            lines[0] = lines[0][len(BOM) :]
        self._offset += length
        arrived = self._arrived(end - begin)
        lines = [line.strip() for line in lines]
        places = self._records_among(lines)
        if places is not None:
            lines = [lines[place] for place in places]
            arrived = arrived[places]
        bad = {}
        if cut:
            counted = range(len(lines)) if places is None else places
            bad = {at: cut[begin + place] for at, place in enumerate(counted) if begin + place in cut}
        points, times, kept, rejected = self._decoded(lines, bad)
        numbers = self._numbered(len(lines))
        if kept is not None:
            numbers, arrived = numbers[kept], arrived[kept]
        return Records(points, numbers, times, arrived, rejected, self._position())

    def _take_uncut(self, most: int) -> Records | None:
        """Decode up to ``most`` lines without cutting them; None where they must be looked at one by one."""
        text, count = b"".join(self._uncut), min(most, self._uncut_lines)
        self._uncut = [text]
        decoded = self._uncut_together(text, count)
        if decoded is None:
            return None
        points, times, length = decoded
        if length > self._max_line and max(map(len, text[:length].split(b"\n"))) > self._max_line:
            return None
        self._uncut, self._uncut_lines = [text[length:]], self._uncut_lines - count
        self._offset += length
        numbers = self._numbered(count)
        return Records(points, numbers, times, self._arrived(count), (), self._position())

    def restore(self, position: Position) -> None:
        """Go on after a position."""
        self._offset, self._number = int(position["offset"]), int(position["number"])

    # -- pieces -------------------------------------------------------------

    def _numbered(self, count: int) -> NDArray[np.int64]:
        """Return the numbers of the next records."""
        self._number += count
        return np.arange(self._number - count, self._number, dtype=np.int64)

    def _position(self) -> dict[str, Any]:
        return {"format": self.form, "offset": self._offset, "number": self._number, **self._state()}

    def _keep_tail(self, piece: bytes) -> None:
        """Remember the beginning of a line; of an overlong one no more than people need to see."""
        if not piece:
            return
        self._tail_length += len(piece)
        if self._tail_length <= self._max_line:
            self._tail.append(piece)
        elif len(self._tail) != 1 or len(self._tail[0]) > 200:
            self._tail = [b"".join([*self._tail, piece[:200]])[:200]]

    def _end_tail(self) -> None:
        if self._tail_length > self._max_line:
            self._overlong[len(self._lines)] = self._tail_length
        self._lines.append(b"".join(self._tail))
        self._tail, self._tail_length = [], 0

    def _arrived(self, count: int) -> NDArray[np.float64]:
        parts = []
        while count:
            number, when = self._arrivals.popleft()
            if number > count:
                self._arrivals.appendleft((number - count, when))
                number = count
            parts.append(np.full(number, when))
            count -= number
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0)])

    def _decoded(
        self, lines: list[bytes], overlong: Mapping[int, int]
    ) -> tuple[NDArray[Any], NDArray[np.float64] | None, list[int] | None, tuple[Rejected, ...]]:
        """Return points, times, which lines they come from (None: all) and the rest."""
        if len(lines) >= _TOGETHER and not overlong:
            try:
                points, times = self._together(lines)
            except TROUBLE:
                pass  # some line is bad; which one, the loop below finds out
            else:
                return points, times, None, ()
        rows, moments, kept, rejected = [], [], [], []
        for place, line in enumerate(lines):
            try:
                if place in overlong:
                    raise UnreadableError(
                        f"the line has {overlong[place]} bytes; at most {self._max_line} are taken"
                    )
                row, moment = self._alone(line)
            except UnreadableError as reason:
                rejected.append(Rejected(self._number + place, str(reason), excerpt(line)))
            else:
                rows.append(row)
                moments.append(moment)
                kept.append(place)
        points = np.array(rows, dtype=np.float64) if rows else np.empty((0, self.width or 0))
        return points, times_of(moments), None if not rejected else kept, tuple(rejected)

    def _checked_width(self, got: int, what: str = "numbers") -> None:
        """Raise unless a record has as many numbers as the map's points, or as the first record."""
        if self.width is None:
            self.width = got
        fault = wrong_width((got,), self.width, counted=what)
        if fault is not None:
            raise UnreadableError(fault)
