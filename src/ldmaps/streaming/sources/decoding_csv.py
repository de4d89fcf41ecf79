"""CSV lines to records."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.streaming.records import Position
from ldmaps.streaming.sources.decoding import LineDecoder, Row, UnreadableError
from ldmaps.text_rows import delimiter_of, is_number

__all__ = ["CsvDecoder"]


class CsvDecoder(LineDecoder):
    """Decodes lines of numbers.

    A first line without any number names the columns; then the model's columns (or
    those chosen) are found by name, and a column called "time" that is none of them is
    the record's own time. Lines that begin with # are skipped.
    """

    form = "csv"

    def __init__(self, facts: Mapping[str, Any], columns: Sequence[str] | None = None) -> None:
        super().__init__(facts)
        self._chosen = None if columns is None else list(columns)
        self._header: list[str] | None = None
        self._begun = False
        self._delimiter: str | None = ","
        self._n_columns = 0
        self._wanted: list[int] | None = None  # None: all columns, in order
        self._time: int | None = None

    def _state(self) -> dict[str, Any]:
        if not self._begun:
            return {}
        return {"header": self._header, "delimiter": self._delimiter, "n_columns": self._n_columns}

    def restore(self, position: Position) -> None:
        """Go on after a position, with the header that was read then."""
        super().restore(position)
        if "n_columns" in position:
            self._header, self._delimiter = position["header"], position["delimiter"]
            self._n_columns = int(position["n_columns"])
            self._choose()

    def _records_among(self, lines: list[bytes]) -> list[int] | None:
        joined = b"\n".join(lines)
        if self._begun and all(lines) and joined[:1] != b"#" and b"\n#" not in joined:
            return None
        places = [place for place, line in enumerate(lines) if line and line[:1] != b"#"]
        if places and not self._begun and self._begin(lines[places[0]]):
            del places[0]
        return places

    def _begin(self, line: bytes) -> bool:
        """Look at the first line; say whether it is a header."""
        text = line.decode("utf-8", errors="replace")
        self._delimiter = delimiter_of(text)
        try:
            cells = self._cells(line)
        except UnreadableError:
            cells = text.split(self._delimiter)
        self._header = None if any(is_number(cell) for cell in cells) else cells
        self._n_columns = len(cells)
        if self._header is None and self._chosen is None and self.width is not None:
            self._n_columns = self.width  # a first line of another length is itself at fault
        self._choose()
        return self._header is not None

    def _choose(self) -> None:
        """Find out which columns are the point and which one is its time."""
        self._begun = True
        names = self._chosen
        if names is None and self._header is not None:
            names = self.facts.get("columns")
        if names is not None:
            self._wanted = [self._place_of(name) for name in names]
        elif self._header is not None:
            times = [place for place, name in enumerate(self._header) if name.lower() == "time"]
            if times and self.width != self._n_columns:
                self._wanted = [place for place in range(self._n_columns) if place != times[0]]
        count = self._n_columns if self._wanted is None else len(self._wanted)
        if self.width is None:
            self.width = count
        if count != self.width:
            shown = "" if self._header is None else f" ({', '.join(self._header)})"
            raise InvalidInputError(
                f"the table has {count} columns to use{shown}, but the map takes {self.width}; choose them with columns"
            )
        if self._header is not None and self._wanted is not None:
            left = set(range(self._n_columns)) - set(self._wanted)
            self._time = next((place for place in left if self._header[place].lower() == "time"), None)

    def _place_of(self, name: str) -> int:
        if self._header is not None and name in self._header:
            return self._header.index(name)
        if name.isdigit() and 1 <= int(name) <= self._n_columns:
            return int(name) - 1
        known = ", ".join(self._header) if self._header else f"1 to {self._n_columns}, without names"
        raise InvalidInputError(f"there is no column {name!r}; the columns are: {known}; choose with columns")

    def _together(self, lines: list[bytes]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        joined = b"\n".join(lines)
        if b'"' in joined:
            raise ValueError("quotes are dealt with line by line")
        if self._delimiter is not None:
            mark = self._delimiter.encode()
            commas = self._n_columns - 1
            if any(line.count(mark) != commas for line in lines):
                raise ValueError("the lines differ in length")
        wanted = self._wanted
        if self._time is not None and wanted is not None:
            wanted = [*wanted, self._time]
        block = np.loadtxt(
            joined.decode("utf-8").split("\n"),
            dtype=np.float64,
            delimiter=self._delimiter,
            comments=None,
            ndmin=2,
            usecols=wanted,
        )
        if len(block) != len(lines) or (wanted is None and block.shape[1] != self._n_columns):
            raise ValueError("the lines differ in length")
        if self._time is None:
            return block, None
        return block[:, :-1], block[:, -1].copy()

    def _alone(self, line: bytes) -> Row:
        cells = self._cells(line)
        if len(cells) != self._n_columns:
            raise UnreadableError(f"{len(cells)} columns, but {self._n_columns} are expected")
        places = range(len(cells)) if self._wanted is None else self._wanted
        row = [self._number_at(cells, place) for place in places]
        return row, None if self._time is None else self._number_at(cells, self._time)

    def _number_at(self, cells: list[str], place: int) -> float:
        cell = cells[place]
        try:
            # Python would also take 1_000 and digits of other scripts, which numpy does not.
            if cell.isascii() and "_" not in cell:
                return float(cell)
        except ValueError:
            pass
        name = f" ({self._header[place]})" if self._header else ""
        raise UnreadableError(
            f"column {place + 1}{name}: "
            + (f"{cell[:40]!r} is not a number" if cell else "the cell is empty")
        )

    def _cells(self, line: bytes) -> list[str]:
        text = line.decode("utf-8", errors="replace")
        if self._delimiter is None:
            return text.split()
        if '"' not in text:
            return [cell.strip() for cell in text.split(self._delimiter)]
        try:
            return [cell.strip() for cell in next(csv.reader([text], delimiter=self._delimiter))]
        except csv.Error as error:
            raise UnreadableError(f"not CSV ({error})") from error
