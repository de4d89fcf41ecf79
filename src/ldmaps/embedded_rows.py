"""Embedded points as rows of a table: which columns, of what type, and how they look as text.

Every such table has the columns time, psi2, psi3, …, distance, inside and nearest. Whoever
writes it adds where a row comes from, before them, and what else is known of it, after.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import compiled
from ldmaps.text_rows import MANY_ROWS, formatted_rows, quoted

__all__ = ["EmbeddedText", "coordinate_names", "shared_columns", "written_rows"]

#: Digits of times and of distances; coordinates get as many as bring them back unchanged.
TIME_DIGITS, DISTANCE_DIGITS = 10, 5

#: Distance, inside, nearest.
_Coverage = tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.intp]]
#: What a cell of a column is made with, and the column's values; None where all cells are the same.
_Column = tuple[str, list[Any] | None]


def coordinate_names(k: int) -> list[str]:
    """Return what a map's coordinates are called; ψ₁, which is constant, is left out.

    >>> coordinate_names(3)
    ['psi2', 'psi3', 'psi4']
    """
    return [f"psi{number}" for number in range(2, k + 2)]


def shared_columns(k: int) -> list[tuple[str, str]]:
    """Return the names and numpy's types of the columns that all tables of embedded points have.

    >>> [name for name, _ in shared_columns(2)]
    ['time', 'psi2', 'psi3', 'distance', 'inside', 'nearest']
    """
    psi = [(name, "<f8") for name in coordinate_names(k)]
    return [("time", "<f8"), *psi, ("distance", "<f8"), ("inside", "?"), ("nearest", "<i8")]


class EmbeddedText:
    """Embedded points as lines of text.

    Parameters
    ----------
    form : {"csv", "tsv", "ndjson"}
    first, last : sequence of str
        Names of the columns before and after those that all tables have.
    writes_nan : bool
        Whether numbers that are not finite are written. By default their cells are :attr:`unknown`.

    Attributes
    ----------
    unknown : str
        A cell without a value.
    """

    def __init__(
        self, form: str, first: Sequence[str], last: Sequence[str] = (), *, writes_nan: bool = False
    ) -> None:
        self._is_json = form == "ndjson"
        self._delimiter = "\t" if form == "tsv" else ","
        self.unknown = "null" if self._is_json else ""
        self._first, self._last = first, last
        self._writes_nan = writes_nan
        self._names: list[str] = []
        self._rows = 0

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
        labels: NDArray[Any] | None = None,
        which: NDArray[np.intp] | None = None,
    ) -> bytes:
        """Return a line per point: of a file that all come from, or with a label (which one; -1 is the last)."""
        self._rows += len(numbers)
        distance, inside, nearest = coverage
        is_long = self._rows >= MANY_ROWS and not self._is_json
        if is_long and (not self._writes_nan or _are_finite(times, coordinates, distance)):
            endings = [""] if labels is None else [self._delimiter + label for label in labels]
            rows = written_rows(
                numbers,
                times,
                coordinates,
                coverage,
                delimiter=self._delimiter,
                prefix="" if file is None else self.word(file) + self._delimiter,
                endings=endings,
                which=None if which is None else which % len(endings),
            )
            if rows is not None:
                return rows
        digits = _digits(coordinates.dtype)
        columns: list[_Column] = [
            *([] if file is None else [(self.word(file).replace("%", "%%"), None)]),
            ("%d", numbers.tolist()),
            (self.unknown, None) if times is None else self._numbers(times, TIME_DIGITS),
            *(self._numbers(column, digits) for column in coordinates.T),
            self._numbers(distance, DISTANCE_DIGITS),
            ("%s", np.where(inside, "true", "false").tolist()) if self._is_json else ("%d", inside.tolist()),
            ("%d", nearest.tolist()),
            *([] if labels is None else [("%s", labels[which].tolist())]),
        ]
        cells = [cell for cell, _ in columns]
        values = [column for _, column in columns if column is not None]
        if self._is_json:
            names = self._names_of(coordinates.shape[1])
            pairs = (f'"{name}": {cell}' for name, cell in zip(names, cells, strict=True))
            return formatted_rows("{" + ", ".join(pairs) + "}\n", values)
        return formatted_rows(self._delimiter.join(cells) + "\n", values)

    def _names_of(self, k: int) -> list[str]:
        if not self._names:
            self._names = [*self._first, *(name for name, _ in shared_columns(k)), *self._last]
        return self._names

    def _numbers(self, column: NDArray[Any], digits: int) -> _Column:
        """Return a column of numbers, those that are not finite left out unless they are to be written."""
        form, values = f"%.{digits}g", column.tolist()
        # For a single point the call of numpy would cost more than the rest.
        if self._writes_nan or (
            all(map(math.isfinite, values)) if len(values) < 16 else np.isfinite(column).all()
        ):
            return form, values
        return "%s", [form % value if math.isfinite(value) else self.unknown for value in values]


def _are_finite(*parts: NDArray[Any] | None) -> bool:
    return all(np.isfinite(part).all() for part in parts if part is not None)


def _digits(dtype: np.dtype[Any]) -> int:
    """Return how many digits bring numbers of a precision back unchanged."""
    return 9 if dtype == np.float32 else 17


def written_rows(
    numbers: NDArray[np.int64],
    times: NDArray[np.float64] | None,
    coordinates: NDArray[Any],
    coverage: _Coverage,
    *,
    delimiter: str,
    prefix: str = "",
    endings: Sequence[str] = ("",),
    which: NDArray[np.intp] | None = None,
) -> bytes | None:
    r"""Return embedded points as rows of text, in a compiled loop; None where a number must be written by Python.

    Parameters
    ----------
    numbers : ndarray of shape (n,)
        Not negative.
    times : ndarray of shape (n,) or None
        None leaves the column empty.
    coordinates : ndarray of shape (n, k)
        With as many digits as bring them back unchanged.
    coverage : Coverage
        Distance; inside, as 0 or 1; nearest.
    delimiter, prefix
        A single character; what each row begins with.
    endings, which
        What rows may end with, and the place of each row's ending (the first).

    Notes
    -----
    The same bytes as Python's ``"%.17g"`` gives; what is not finite leaves its cell empty.

    Examples
    --------
    >>> coverage = np.array([0.5]), np.array([True]), np.array([3])
    >>> written_rows(np.array([7]), None, np.array([[0.1, -2.0]]), coverage, delimiter=",")
    b'7,,0.10000000000000001,-2,0.5,1,3\n'
    """
    n, k = coordinates.shape
    distance, inside, nearest = coverage
    values = np.zeros((n, k + 2))
    if times is not None:
        values[:, 0] = times
    values[:, 1:-1], values[:, -1] = coordinates, distance
    digits = [_digits(coordinates.dtype)] * k
    precisions = np.array([0 if times is None else TIME_DIGITS, *digits, DISTANCE_DIGITS])
    first = prefix.encode()
    ends = [f"{ending}\n".encode() for ending in endings]
    loops = compiled.decimals
    room = loops.ROW_BYTES + loops.CELL_BYTES * (k + 2) + len(first) + max(map(len, ends))
    out = np.empty(n * room, dtype=np.uint8)
    length = loops.write_rows(
        np.frombuffer(first, dtype=np.uint8),
        np.ascontiguousarray(numbers, dtype=np.int64),
        values.view(np.uint64),
        precisions,
        np.ascontiguousarray(inside),
        np.ascontiguousarray(nearest, dtype=np.int64),
        np.frombuffer(b"".join(ends), dtype=np.uint8),
        np.cumsum([len(end) for end in ends]),
        np.zeros(n, dtype=np.int64) if which is None else np.ascontiguousarray(which, dtype=np.int64),
        ord(delimiter),
        loops.POWERS,
        loops.TENS,
        out,
    )
    return None if length < 0 else out[:length].tobytes()
