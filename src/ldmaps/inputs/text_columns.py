"""The columns of a text table: what its first line says, and numbers out of the other lines.

All readers of text tables use :class:`TextColumns`: ``fit`` and ``embed``
(which stop at a bad line and say where it is), streams (which reject it and continue)
and reports (which also want columns of words).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.column_roles import is_missing, looks_like_number, moment
from ldmaps.inputs.formats import format_of
from ldmaps.text_rows import PlainRows

__all__ = ["TextColumns", "UnreadableError", "find_columns"]


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
        """Find out from the first line; ``named`` says that it is names, which may be numbers and hold spaces.

        >>> TextColumns.of("time; x; y")
        TextColumns(delimiter=';', names=['time', 'x', 'y'], count=3)
        >>> TextColumns.of("0.5 1.5")
        TextColumns(delimiter=None, names=None, count=2)
        """
        columns = cls(_delimiter_of(first_line, path), None, 0)
        if named and columns.delimiter is None:
            columns.delimiter = ","
        try:
            cells = columns.cells(first_line)
        except UnreadableError:
            cells = first_line.split(columns.delimiter)
        columns.count = len(cells)
        if named or not any(_is_number(cell) for cell in cells):
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
        try:
            # Python would also take 1_000 and digits of other scripts, which numpy does not.
            if cell.isascii() and "_" not in cell:
                return float(cell)
        except ValueError:
            pass
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
        """Return what to call a column in messages.

        >>> TextColumns(",", ["time", "x"], 2).title(1)
        'column 2 (x)'
        """
        return f"column {place + 1}" + (f" ({self.names[place]})" if self.names else "")

    def plain(self, places: Sequence[int] | None, longest: int = 1 << 62) -> PlainRows:
        """Return what reads lines of nothing but finite numbers in such places."""
        return PlainRows(self.count, self.delimiter, places, longest=longest)


def find_columns(wanted: Sequence[str], names: Sequence[str] | None, count: int, described: str) -> list[int]:
    """Return the places of columns given by name or by number from 1.

    >>> find_columns(["x", "1"], ["t", "x"], 2, "the table")
    [1, 0]
    """
    places = []
    for name in wanted:
        if names is not None and name in names:
            places.append(list(names).index(name))
        elif name.isdigit() and 1 <= int(name) <= count:
            places.append(int(name) - 1)
        else:
            there = ", ".join(names) if names else f"1 to {count}, without names"
            raise InvalidInputError(f"{described} has no column {name!r}; its columns are: {there}")
    return places


def _delimiter_of(line: str, path: str) -> str | None:
    form = format_of(path)
    if "\t" in line or (form and form.name == "TSV"):
        return "\t"
    if "," in line:
        return ","
    if ";" in line:
        return ";"
    return None if len(line.split()) > 1 else ","


def _is_number(cell: str) -> bool:
    """Say whether a cell holds a number, NaN and infinity included."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
