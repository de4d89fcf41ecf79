"""Rows of text (CSV, TSV, columns separated by blanks), from a file, from stdin or as a stream brings them."""

from __future__ import annotations

import csv
import gzip
import math
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.column_roles import (
    SAMPLE,
    Roles,
    is_missing,
    is_number,
    looks_like_number,
    moment,
    roles_of,
)
from ldmaps.inputs.formats import format_of
from ldmaps.inputs.source import Reading
from ldmaps.inputs.table_files import Numbered, Table, kept_rows
from ldmaps.text_rows import PlainRows, read_lines


class UnreadableError(ValueError):
    """A line is not a row of the table; the text is the reason."""


@dataclass
class TextColumns:
    """The columns of a text table."""

    delimiter: str | None  # what separates cells; None is white space
    names: list[str] | None  # as the first line gives them, if it has no number
    count: int

    @classmethod
    def of(cls, first_line: str, path: str = "", *, named: bool = False) -> Self:
        """Find out from the first line; ``named`` says that it is names, which may be numbers and hold spaces."""
        columns = cls(_delimiter_of(first_line, path), None, 0)
        if named and columns.delimiter is None:
            columns.delimiter = ","
        try:
            cells = columns.cells(first_line)
        except UnreadableError:
            cells = first_line.split(columns.delimiter)
        columns.count = len(cells)
        if named or not any(map(is_number, cells)):
            columns.names = cells
        return columns

    def cells(self, line: str) -> list[str]:
        """Cut a line into cells."""
        if self.delimiter is None:
            return line.split()
        if '"' not in line:
            return [cell.strip() for cell in line.split(self.delimiter)]
        reader = csv.reader([line, ""], delimiter=self.delimiter)
        try:
            cells = [cell.strip() for cell in next(reader)]
        except csv.Error as error:
            raise UnreadableError(f"not CSV ({error})") from error
        if reader.line_num > 1:
            raise UnreadableError("not CSV (a quote is not closed)")
        return cells

    @property
    def has_decimal_commas(self) -> bool:
        """Whether a comma can only be the decimal mark of a number."""
        return self.delimiter in (";", "\t")

    def with_points(self, cell: str) -> str:
        """Return a cell with a point as its decimal mark."""
        return cell.replace(",", ".") if self.has_decimal_commas else cell

    def number(self, cells: Sequence[str], place: int) -> float:
        """Return a cell's number, NaN for a missing one, or raise :class:`UnreadableError`."""
        cell = self.with_points(cells[place])
        if is_missing(cell):
            return math.nan
        # Python would also take 1_000 and digits of other scripts, which numpy does not.
        if cell.isascii() and "_" not in cell and is_number(cell):
            return float(cell)
        reason = f"{cells[place][:40]!r} is not a number"
        if looks_like_number(cell):
            reason += "; write it with a point and no thousands separators, or separate columns by semicolons"
        raise UnreadableError(f"{self.title(place)}: {reason}")

    def moment(self, cells: Sequence[str], place: int) -> float:
        """Return the time in a cell, a number or a date, NaN for an empty one, or raise :class:`UnreadableError`."""
        try:
            return math.nan if is_missing(cells[place]) else moment(self.with_points(cells[place]))
        except (ValueError, OverflowError) as error:
            raise UnreadableError(
                f"{self.title(place)}: {cells[place][:40]!r} is neither a number nor a date such as 2024-05-01T12:00:00"
            ) from error

    def title(self, place: int) -> str:
        """Return what to call a column in messages: "column 2 (x)"."""
        return f"column {place + 1}" + (f" ({self.names[place]})" if self.names else "")


def _delimiter_of(line: str, path: str) -> str | None:
    form = format_of(path)
    if "\t" in line or (form and form.name == "TSV"):
        return "\t"
    found = next((mark for mark in ",;" if mark in line), None)
    return found or (None if len(line.split()) > 1 else ",")


#: Byte order mark, with which some programs begin a text in UTF-8.
BOM = b"\xef\xbb\xbf"


class TextTable(Table):
    """Lines of cells; where ``named``, the first one names the columns, numbers or not."""

    def __init__(self, path: str, *, named: bool = False) -> None:
        self.path = "stdin" if path == "-" else path
        self._name = path
        self._ahead: list[bytes] = []  # first lines of stdin, which can be read only once
        self._is_ahead = True  # until rows are read
        self._stdin = _own_stdin() if path == "-" else ()
        self._begin = -1  # lines before the first row
        first = next(self._lines(), None)
        if first is None:
            raise InvalidInputError(f"{self.path} holds no rows; check how it was written")
        self._begin, line = first
        self._layout = TextColumns.of(line, path, named=named)
        self.columns = self._layout.names
        self.shape = (self._layout.count,)
        if self._layout.names is None:
            self._begin -= 1

    def roles(self) -> Roles:
        """Tell from the header and the first lines."""
        rows = []
        for number, line in islice(self._lines(), SAMPLE + 1):
            if number > self._begin:
                with suppress(UnreadableError):  # which is said of it when it is read
                    rows.append([self._layout.with_points(cell) for cell in self._layout.cells(line)])
        return roles_of(self.columns, [row for row in rows if len(row) == self._layout.count])

    def _places(self) -> list[int]:
        chosen = list(range(self._layout.count)) if self.places is None else self.places
        return chosen if self.time is None else [*chosen, self.time]

    def rows(self, chunk: int, reading: Reading) -> Numbered:
        """Parse ``chunk`` lines at a time, from the first on."""
        return kept_rows(self._blocks(chunk), 0, reading)

    def _blocks(self, chunk: int) -> Iterator[NDArray[Any]]:
        self._is_ahead = False
        plain = PlainRows(self._layout.count, self._layout.delimiter, self._places())
        number = 0  # how many lines have been read
        with self._raw() as raw:
            while pieces := list(islice(raw, chunk)):
                text = _universal(b"".join(pieces))
                if number == 0:
                    text = text.removeprefix(BOM)
                if self._layout.has_decimal_commas:
                    text = text.replace(b",", b".")
                count, at = text.count(b"\n"), 0
                while number < self._begin and count:
                    at = text.index(b"\n", at) + 1
                    number, count = number + 1, count - 1
                block, _ = read_lines(lambda: plain, text, at, count, partial(self._row, number + 1))
                number += count
                if len(block):
                    yield block

    def words(self, names: list[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return all columns as strings, by the names given, the table's own, or else their numbers from 1."""
        names = names or self.columns or [str(number + 1) for number in range(self._layout.count)]
        rows: list[list[str]] = []
        lines = (text for number, text in self._lines() if number > self._begin)
        for number, text in enumerate(lines, 1):
            try:
                rows.append(self._layout.cells(text))
            except UnreadableError as reason:
                raise InvalidInputError(f"{self.path}, row {number}: {reason}") from reason
            if len(rows[-1]) != len(names):
                fault = f"{len(rows[-1])} columns, but {len(names)} in the header"
                raise InvalidInputError(f"{self.path}, row {number}: {fault}")
        if not rows:
            raise InvalidInputError(f"{self.path} holds no rows below its header")
        columns = zip(names, zip(*rows, strict=True), strict=True)
        return {name: np.asarray(values, dtype=object) for name, values in columns}

    def _raw(self) -> AbstractContextManager[Iterable[bytes]]:
        """Open the file, or go back to the beginning of stdin."""
        if self._name != "-":
            return _opened(self._name)
        return nullcontext(chain(self._ahead, self._from_stdin()))

    def _from_stdin(self) -> Iterator[bytes]:
        for line in self._stdin:
            if self._is_ahead:
                self._ahead.append(line)
            yield line

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines that hold data, with their numbers from 1."""
        with self._raw() as raw:
            yield from ((number, line) for number, line in _numbered(raw) if _is_data(line))

    def _row(self, first: int, line: bytes, which: int) -> list[float] | None:
        """Return the numbers of a line, None where it holds no data; raise where one of them is at fault."""
        text, layout = line.decode("utf-8", errors="replace"), self._layout
        where = f"{self.path}, line {first + which}"
        if not _is_data(text):
            return None
        try:
            cells = layout.cells(text)
            if len(cells) != layout.count:
                raise InvalidInputError(
                    f"{where}: {len(cells)} columns, but {layout.count} in the lines before; "
                    "every line needs the same columns"
                )
            row = []
            for place in self._places():
                if place == self.time:
                    row.append(layout.moment(cells, place))
                    continue
                row.append(layout.number(cells, place))
                here, cell = f"{where}, {layout.title(place)}", cells[place]
                if math.isnan(row[-1]) and not self.drops_missing:
                    fault = f"{cell!r} is no value" if cell else "the cell is empty"
                    remedy = "correct it, remove the line, or leave such rows out with "
                    raise InvalidInputError(f"{here}: {fault}; {remedy}", Named("missing", "drop"))
                if math.isinf(row[-1]):
                    raise InvalidInputError(f"{here}: {cell!r} is not finite; correct it or remove the line")
        except UnreadableError as reason:
            told = f"{where}, {reason}; correct it, remove the line, or leave the column out with "
            raise InvalidInputError(told, Named("columns")) from reason
        return row


def _is_data(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and stripped[0] != "#"


def _universal(raw: bytes) -> bytes:
    """Return lines that end in a line feed: a carriage return, alone or before one, ends a line too."""
    if raw.count(b"\r") != raw.count(b"\r\n"):
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return raw if raw.endswith(b"\n") else raw + b"\n"


def _numbered(raw: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    number = 0
    for piece in raw:
        text = _universal(piece if number else piece.removeprefix(BOM))
        for line in text.decode("utf-8", errors="replace").removesuffix("\n").split("\n"):
            number += 1
            yield number, line.removesuffix("\r")


@contextmanager
def _opened(path: str) -> Iterator[Iterable[bytes]]:
    """Open a text file, packed by gzip or not."""
    try:
        with gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb") as raw:
            yield raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidInputError(f"{path} cannot be unpacked ({error}); write it again") from error


def _own_stdin() -> Iterable[bytes]:
    """Return lines of stdin by a buffer of our own: Python cannot end while a thread waits inside its buffer."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # replaced by something that is no file
        return sys.stdin.buffer


def text_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield lines without their ends, with their numbers from 1; "-" is stdin."""
    with nullcontext(sys.stdin.buffer) if path == "-" else _opened(path) as raw:
        yield from _numbered(raw)
