"""Embedded points as rows of a table: which columns, of what type, and how they look as text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.settings import is_whole_number
from ldmaps.text_rows import WHOLE, RowWriter, quoted

#: Digits of times, distances and p; coordinates get as many as bring them back unchanged.
TIME_DIGITS, DISTANCE_DIGITS, P_DIGITS = 10, 5, 4

#: The constant, which is no coordinate.
_FIRST = ("psi0", "psi1")
#: Distance, inside, nearest, p.
_Coverage = tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.intp], NDArray[np.float64] | None]


def coordinate_names(k: int) -> list[str]:
    """Return what a map's coordinates are called, psi2, psi3, ...; ψ₁, which is constant, is left out."""
    return [f"psi{number}" for number in range(2, k + 2)]


def column_of(name: str) -> int | None:
    """Return which column of the coordinates has a name: "psi2" is column 0, and of "q" only its map knows."""
    if (
        not isinstance(name, str)
        or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,39}", name) is None
        or name in _FIRST
    ):
        raise InvalidInputError(
            f"coordinates are called psi2, psi3, ..., got {name!r:.80}; functions have names of letters, digits and _"
        )
    match = re.fullmatch(r"psi([0-9]{1,9})", name)
    return None if match is None else int(match[1]) - 2


def place_of(coordinate: int | str, names: Sequence[str]) -> int:
    """Return the column of a coordinate of a map that has these ``names``: given by name, or by its place from 0.

    >>> place_of("psi3", ["psi2", "psi3"]), place_of(1, ["psi2", "psi3"])
    (1, 1)
    """
    if isinstance(coordinate, str) and coordinate in names:
        return list(names).index(coordinate)
    if not isinstance(coordinate, str) and is_whole_number(coordinate) and 0 <= coordinate < len(names):
        return int(coordinate)
    raise InvalidInputError(
        f"coordinate {coordinate!r} does not exist: this map has {', '.join(names)}; name one of these, or pass its "
        f"place, from 0 to {len(names) - 1}"
    )


def shared_columns(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the names and numpy's types of the columns of points embedded to coordinates of these names."""
    psi = [(name, "<f8") for name in names]
    return [("time", "<f8"), *psi, ("distance", "<f8"), ("inside", "?"), ("nearest", "<i8"), ("p", "<f8")]


class EmbeddedText:
    """Embedded points as lines of text."""

    def __init__(
        self,
        form: str,
        first: Sequence[str],
        last: Sequence[str] = (),
        *,
        coordinates: Sequence[str] | None = None,
        writes_nan: bool = False,
    ) -> None:
        #: What they are called; None for psi2, psi3, ...; may be set before the first line is asked for.
        self.coordinates = coordinates
        self._is_json = form == "ndjson"
        self._delimiter = "\t" if form == "tsv" else ","
        self.unknown = "null" if self._is_json else ""
        self._first, self._last = first, last
        self._writes_nan = writes_nan
        self._names: list[str] = []
        self._writer = RowWriter(["\n"], [])
        self._writes: tuple[Any, ...] = ()  # what it was made for

    def word(self, text: str) -> str:
        """Return a text as a cell."""
        return json.dumps(text) if self._is_json else quoted(text, self._delimiter)

    def header(self, k: int) -> bytes:
        """Return the line that names the columns of points with k coordinates; JSON has none."""
        return b"" if self._is_json else (self._delimiter.join(self._names_of(k)) + "\n").encode()

    def lines(
        self,
        numbers: NDArray[np.int64],
        times: NDArray[np.float64] | None,
        coordinates: NDArray[Any],
        coverage: _Coverage,
        *,
        file: str | None = None,
        labels: Sequence[str] = (),
        which: NDArray[np.intp] | None = None,
    ) -> bytes:
        """Return a line per point: of a file that all come from, or with a label (which one; -1 is the last)."""
        *judged, p = coverage
        if p is None:
            p = np.full(len(numbers), np.nan)
        wanted = file, times is None, coordinates.shape[1], coordinates.dtype, labels
        if wanted != self._writes:
            self._writer, self._writes = self._new_writer(*wanted), wanted
        own_times = [] if times is None else [times]
        own_labels = [] if which is None else [which % len(labels)]
        return self._writer.rows([numbers, *own_times, *coordinates.T, *judged, p, *own_labels])

    def _new_writer(
        self, file: str | None, is_untimed: bool, k: int, dtype: np.dtype[Any], labels: Sequence[str]
    ) -> RowWriter:
        # As many digits as bring coordinates of a precision back unchanged.
        digits = 9 if dtype == np.float32 else 17
        inside: int | Sequence[str] = ["false", "true"] if self._is_json else WHOLE
        forms = [WHOLE, TIME_DIGITS, *[digits] * k, DISTANCE_DIGITS, inside, WHOLE, P_DIGITS]
        forms += [labels] if labels else []
        names = self._names_of(k)
        before = [f'{", " if place else "{"}"{name}": ' for place, name in enumerate(names)]
        texts = before if self._is_json else ["", *[self._delimiter] * (len(names) - 1)]
        # Cells that are the same in all rows belong to the text between the others.
        if file is not None:
            texts[:2] = [texts[0] + self.word(file) + texts[1]]
        if is_untimed:
            texts[1:3] = [texts[1] + self.unknown + texts[2]]
            del forms[1]
        end = "}\n" if self._is_json else "\n"
        return RowWriter([*texts, end], forms, None if self._writes_nan else self.unknown)

    def _names_of(self, k: int) -> list[str]:
        if not self._names:
            names = coordinate_names(k) if self.coordinates is None else self.coordinates
            self._names = [*self._first, *(name for name, _ in shared_columns(names)), *self._last]
        return self._names
