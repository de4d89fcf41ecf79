"""Rows of text from numbers and numbers from rows of text, many in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels

#: A column of whole numbers; other forms are the significant digits of numbers, or the words that values are places of.
WHOLE = 0
_WORDS = -1
_BRACE = ord("{")


def quoted(text: str, delimiter: str) -> str:
    """Quote a cell where it must be."""
    needs_quotes = any(mark in text for mark in (delimiter, '"', "\n"))
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text


class PlainRows:
    """Reads lines that are plain rows of finite numbers, as Python's ``float`` does."""

    def __init__(
        self,
        n_columns: int,
        delimiter: str | None,
        places: Sequence[int] | None = None,
        *,
        longest: int = 1 << 62,
        is_json: bool = False,
    ) -> None:
        chosen = range(n_columns) if places is None else places
        targets = np.full(n_columns, -1, dtype=np.intp)
        targets[list(chosen)] = range(len(chosen))
        self.width = len(chosen)
        self._takes_each_once = np.count_nonzero(targets >= 0) == self.width
        self._settings = ord(delimiter or "\0"), is_json, longest, targets

    def fill(self, text: bytes, begin: int, block: NDArray[np.float64]) -> tuple[int, int]:
        """Fill rows until there is no room or a line is not plain; return how many, and the byte behind them."""
        # Many objects of JSON follow one another, and a call takes a tenth of the time that Python needs for one.
        if not self._takes_each_once or text[begin] == _BRACE:
            return 0, begin
        return kernels.read_rows(text, begin, *self._settings, block)  # type: ignore[no-any-return]


def read_lines(
    plain: Callable[[], PlainRows | None],
    text: bytes,
    begin: int,
    count: int,
    other: Callable[[bytes, int], Sequence[float] | NDArray[np.float64] | None],
) -> tuple[NDArray[np.float64], int]:
    """Return the rows of ``count`` lines, and the byte behind them."""
    # A line that is not plain is for ``other(line, which)``, counted from 0, which returns its numbers, or
    # None where it is no row. ``plain()`` reads the others, None until a line has said what rows are like.
    block = np.empty((count, 0))
    row, at, which = 0, begin, 0
    while which < count:
        fast = plain()
        if fast is not None:
            if block.shape[1] != fast.width:
                block = np.empty((count, fast.width))
            filled, at = fast.fill(text, at, block[row : row + count - which])
            row, which = row + filled, which + filled
        if which < count:
            end = text.index(b"\n", at)
            numbers = other(text[at:end], which)
            if numbers is not None:
                if not block.shape[1]:
                    block = np.empty((count, len(numbers)))
                block[row] = numbers
                row += 1
            at, which = end + 1, which + 1
    return block[:row], at


class RowWriter:
    """Writes rows of text, numbers as Python's ``"%.17g"`` does."""

    def __init__(
        self, texts: Sequence[str], forms: Sequence[int | Sequence[str]], unknown: str | None = None
    ) -> None:
        # Texts stand before each column and behind the last; forms are significant digits (at most 17), WHOLE, or
        # the words that values are places of; ``unknown`` is written in place of nan, inf and -inf.
        words = ["nan", "inf", "-inf"] if unknown is None else [unknown] * 3
        self._first_words = []
        codes = [form if isinstance(form, int) else _WORDS for form in forms]
        for form in forms:
            self._first_words.append(len(words))
            words += [] if isinstance(form, int) else form
        encoded = [word.encode() for word in words]
        longest = max(map(len, encoded))
        cells = sum(longest if code == _WORDS else kernels.CELL_BYTES for code in codes)
        self._room = len("".join(texts).encode()) + cells
        self._codes = codes
        self._settings = np.array(codes), *_joined([text.encode() for text in texts]), *_joined(encoded)

    def rows(self, columns: Sequence[Any]) -> bytes:
        """Return a line per row."""
        values = np.empty((len(columns[0]), len(columns)))
        integers = values.view(np.int64)
        for place, (code, first) in enumerate(zip(self._codes, self._first_words, strict=True)):
            if code > 0:
                values[:, place] = columns[place]
            elif code == WHOLE:
                integers[:, place] = columns[place]
            else:
                integers[:, place] = np.asarray(columns[place]) + first
        out = np.empty(len(values) * self._room, dtype=np.uint8)
        return out[: kernels.write_rows(values, *self._settings, out)].tobytes()


def csv_table(columns: Mapping[str, tuple[int | Sequence[str], Any]]) -> bytes:
    """Return a header and rows from the form and the values of each column; values of None leave cells empty."""
    count = max(len(values) for _, values in columns.values() if values is not None)
    nothing: Any = [""], np.zeros(count, int)
    known = [nothing if values is None else (form, values) for form, values in columns.values()]
    forms = [form if isinstance(form, int) else [quoted(word, ",") for word in form] for form, _ in known]
    rows = RowWriter(["", *[","] * (len(forms) - 1), "\n"], forms).rows([values for _, values in known])
    return (",".join(columns) + "\n").encode() + rows


def _joined(texts: list[bytes]) -> tuple[bytes, NDArray[np.intp]]:
    """Return texts as one, and where each of them stops."""
    return b"".join(texts), np.cumsum([len(text) for text in texts], dtype=np.intp)
