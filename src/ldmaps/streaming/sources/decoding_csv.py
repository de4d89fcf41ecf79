"""CSV lines to records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.text_columns import TextColumns, UnreadableError, find_columns
from ldmaps.point_faults import wrong_width
from ldmaps.streaming.records import Position
from ldmaps.streaming.sources.decoding import LineDecoder, Row

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
        self._begun = False
        self._layout = TextColumns(",", None, 0)
        self._places: list[int] | None = None  # None: all columns, in order
        self._time: int | None = None

    def _state(self) -> dict[str, Any]:
        layout = self._layout
        if not self._begun:
            return {}
        return {"header": layout.names, "delimiter": layout.delimiter, "n_columns": layout.count}

    def restore(self, position: Position) -> None:
        """Go on after a position, with the header that was read then."""
        super().restore(position)
        if "n_columns" in position:
            self._choose(TextColumns(position["delimiter"], position["header"], int(position["n_columns"])))

    def _begin(self, text: bytes, at: int, count: int) -> int:
        for which in range(0 if self._begun else count):
            end = text.index(b"\n", at)
            line = text[at:end].strip()
            if line and line[:1] != b"#":
                layout = TextColumns.of(_text(line))
                if layout.names is None and self._chosen is None and self.width is not None:
                    layout.count = self.width  # a first line of another length is itself at fault
                self._choose(layout)
                return which + (layout.names is not None)
            at = end + 1
        return 0 if self._begun else count

    def _choose(self, layout: TextColumns) -> None:
        """Find out which columns are the point and which one is its time."""
        self._begun, self._layout = True, layout
        header = layout.names
        names = self._chosen
        if names is None and header is not None:
            names = self.facts.get("columns")
        if names is not None:
            self._places = find_columns(names, header, layout.count, "the table")
        elif header is not None:
            times = [place for place, name in enumerate(header) if name.lower() == "time"]
            if times and self.width != layout.count:
                self._places = [place for place in range(layout.count) if place != times[0]]
        count = layout.count if self._places is None else len(self._places)
        if self.width is None:
            self.width = count
        named = "" if header is None else f" ({', '.join(header)})"
        fault = wrong_width((count,), self.width, counted=f"columns to use{named}")
        if fault is not None:
            raise InvalidInputError(f"the table has {fault}; choose them with ", Named("columns"))
        if header is not None and self._places is not None:
            left = set(range(layout.count)) - set(self._places)
            self._time = next((place for place in left if header[place].lower() == "time"), None)
        self._plain = layout.plain(self._wanted(), self._lines.longest)

    def _wanted(self) -> list[int] | None:
        """Return the columns to read, that of the time last."""
        return self._places if self._time is None or self._places is None else [*self._places, self._time]

    def _parted(self, block: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        if self._time is None:
            return block, None
        return block[:, :-1], block[:, -1].copy()

    def _alone(self, line: bytes) -> Row | None:
        if not line or line[:1] == b"#":
            return None
        layout = self._layout
        cells = layout.cells(_text(line))
        if len(cells) != layout.count:
            raise UnreadableError(f"{len(cells)} columns, but {layout.count} are expected")
        wanted = self._wanted()
        return [
            layout.number(cells, place) for place in (range(layout.count) if wanted is None else wanted)
        ], None


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")
