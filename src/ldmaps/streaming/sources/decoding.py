"""Bytes to records: the Decoder seam, and what all formats made of lines share.

    bytes ──feed──► Decoder ──take──► Records, with what could not be read listed separately

Lines of plain numbers are read many at a time, without being cut; any other line gets its own
verdict, so that one bad line costs its neighbours nothing.
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
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.text_rows import PlainRows, read_lines

__all__ = [
    "BOM",
    "TROUBLE",
    "Decoder",
    "LineDecoder",
    "as_point",
    "excerpt",
    "form_of",
    "largest_record",
]

#: Most bytes of a record: of one whose numbers are not counted, of one of few numbers, and per number of others.
#: Anything longer is a fault and is not kept.
_LARGEST, _LARGEST_SMALL, _BYTES_PER_NUMBER = 64 << 20, 4 << 20, 256
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


class _Lines:
    """Bytes that have come, as lines that can be taken.

    A line of more than ``longest`` bytes that comes in several pieces is cut short: it is
    one byte too long, and what was left out is known by its number.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.ready = 0  # whole lines
        self.text, self.at = b"", 0  # the next line begins there
        self._more: list[bytes] = []  # what follows the text
        self._tail = 0  # bytes of the line that is not whole yet
        self._taken = 0  # lines so far
        self._left_out: dict[int, int] = {}
        self._arrivals: deque[tuple[int, float]] = deque()
        self._last_arrival = 0.0
        self._lacks_end = False

    def feed(self, data: bytes, arrived: float) -> None:
        """Take bytes."""
        count = data.count(b"\n")
        if self._tail + len(data) > self.longest:
            data = self._cut(data)
        else:
            self._tail = len(data) - data.rindex(b"\n") - 1 if count else self._tail + len(data)
        self._more.append(data)
        self.ready += count
        self._last_arrival = arrived
        if count:
            self._arrivals.append((count, arrived))

    def _cut(self, data: bytes) -> bytes:
        """Return data without what makes lines longer than they may be."""
        kept: list[bytes] = []
        for number, piece in enumerate(data.split(b"\n"), self._taken + self.ready):
            self._tail = len(piece) + (0 if kept else self._tail)
            excess = min(len(piece), max(0, self._tail - self.longest - 1))
            if excess:
                self._left_out[number] = self._left_out.get(number, 0) + excess
            kept.append(piece[: len(piece) - excess])
        return b"\n".join(kept)

    def finish(self) -> None:
        """Count a last line without a line break as a line."""
        if self._tail:
            self.feed(b"\n", self._last_arrival)
            self._lacks_end = True

    def joined(self) -> bytes:
        """Return the text with all that has come."""
        if self._more:
            self.text, self.at, self._more = b"".join([self.text[self.at :], *self._more]), 0, []
        return self.text

    def length(self, line: bytes, which: int) -> int:
        """Return how many bytes a line had, one of those that are ready."""
        return len(line) + self._left_out.get(self._taken + which, 0)

    def take(self, count: int, end: int) -> tuple[int, NDArray[np.float64]]:
        """Go to the byte behind some lines; return how many bytes they had, and when each of them came."""
        length = end - self.at
        self.ready -= count
        self._taken += count
        length += sum(self._left_out.pop(number) for number in [*self._left_out] if number < self._taken)
        if self._lacks_end and not self.ready and count:
            length, self._lacks_end = length - 1, False
        self.at = end
        parts = []
        while count:
            number, when = self._arrivals.popleft()
            if number > count:
                self._arrivals.appendleft((number - count, when))
                number = count
            parts.append(np.full(number, when))
            count -= number
        return length, parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0)])


#: One record that was read: its numbers, and its own time if it has one that is not among them.
Row = tuple[Sequence[float] | NDArray[np.float64], float | None]


class LineDecoder(Decoder):
    """What is the same for every format with a record a line.

    Empty lines are skipped. The number of a record counts all records before it,
    those that could not be read included.
    """

    form: str

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.width: int | None = facts.get("n_features")
        self._lines = _Lines(largest_record(self.width))
        self._plain = PlainRows(0, ",")  # what reads lines of nothing but numbers, once there is a record
        self._offset = 0
        self._number = 0

    # -- what a format adds -------------------------------------------------

    @abstractmethod
    def _begin(self, text: bytes, at: int, count: int) -> int:
        """Look at the first lines, as long as there is no record; return how many of these are none."""

    @abstractmethod
    def _alone(self, line: bytes) -> Row | None:
        """Decode any line, None if it is no record, or raise :class:`UnreadableError`."""

    def _parted(self, block: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return points, and their times if these are a column."""
        return block, None

    def _state(self) -> dict[str, Any]:
        """Return what else belongs to the position."""
        return {}

    # -- the seam -----------------------------------------------------------

    @property
    def ready(self) -> int:
        """How many whole lines there are."""
        return self._lines.ready

    def feed(self, data: bytes, arrived: float) -> None:
        """Take bytes."""
        self._lines.feed(data, arrived)

    def finish(self) -> None:
        """Count a last line without a line break as a line."""
        self._lines.finish()

    def take(self, most: int) -> Records:
        """Decode up to ``most`` lines."""
        lines, rejected, moments = self._lines, list[Rejected](), dict[int, float]()
        text, at, count = lines.joined(), lines.at, min(most, lines.ready)
        if self._offset == 0 and text.startswith(BOM, at):
            at += len(BOM)
        first = self._begin(text, at, count)
        for _ in range(first):
            at = text.index(b"\n", at) + 1
        left_out, n_skipped = [*range(first)], first

        def alone(line: bytes, which: int) -> Sequence[float] | NDArray[np.float64] | None:
            nonlocal n_skipped
            which += first
            length = lines.length(line, which)
            line = line.strip()
            try:
                if length > lines.longest:
                    raise UnreadableError(f"the line has {length} bytes; at most {lines.longest} are taken")
                record = self._alone(line)
                if record is not None:
                    if record[1] is not None:
                        moments[which - len(left_out)] = record[1]
                    return record[0]
                n_skipped += 1
            except UnreadableError as reason:
                rejected.append(Rejected(self._number + which - n_skipped, str(reason), excerpt(line)))
            left_out.append(which)
            return None

        block, end = read_lines(self._plain, text, at, count - first, alone)
        length, arrived = lines.take(count, end)
        numbers = np.arange(self._number, self._number + count - n_skipped, dtype=np.int64)
        self._offset += length
        self._number += len(numbers)
        if left_out:
            arrived = np.delete(arrived, left_out)
            numbers = np.setdiff1d(numbers, [one.number for one in rejected], assume_unique=True)
        points, times = self._parted(block)
        if moments:
            times = np.full(len(points), np.nan)
            times[[*moments]] = [*moments.values()]
        position = {"format": self.form, "offset": self._offset, "number": self._number, **self._state()}
        return Records(points, numbers, times, arrived, tuple(rejected), position)

    def restore(self, position: Position) -> None:
        """Go on after a position."""
        self._offset, self._number = int(position["offset"]), int(position["number"])
