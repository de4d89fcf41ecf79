"""Rows of text (CSV, TSV, columns separated by blanks), from a file or from stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.base_table import Table
from ldmaps.inputs.text_columns import TextColumns, UnreadableError
from ldmaps.text_rows import MANY_ROWS, parsed_rows

__all__ = ["TextTable", "text_lines"]

_BOM = b"\xef\xbb\xbf"


class TextTable(Table):
    """Lines of cells; where ``named``, the first one names the columns, numbers or not."""

    def __init__(self, path: str, *, named: bool = False) -> None:
        self.path = "stdin" if path == "-" else path
        self._name = path
        # A pipe can be read only once, so the line looked at here is handed on.
        self._stream = text_lines(path) if path == "-" else None
        first = next(self._lines(), None)
        if first is None:
            raise InvalidInputError(f"{self.path} holds no rows; check how it was written")
        self._first = first
        self._layout = TextColumns.of(first[1], path, named=named)
        self.columns = self._layout.names
        self.shape = (self._layout.count,)

    def blocks(self, chunk: int, begin: int = 0) -> Iterator[NDArray[Any]]:
        """Parse ``chunk`` lines at a time."""
        before = self._first[0] - (self.columns is None)
        with nullcontext() if self._stream is not None else open(self._name, "rb") as raw:
            if raw is None or _has_lone_returns(b"".join(islice(raw, before))):
                lines = self._rows()
                while batch := list(islice(lines, chunk)):
                    yield self._block(batch)
                return
            number, rows = before + 1, 0
            while pieces := list(islice(raw, chunk)):
                text = b"".join(pieces)
                if number == 1:
                    text = text.removeprefix(_BOM)
                block = self._plain_block(text) if rows + len(pieces) >= MANY_ROWS else None
                lines_there = len(pieces)
                if block is None:
                    universal = _universal_lines(text)
                    lines_there = len(universal)
                    batch = [(at, line) for at, line in enumerate(universal, number) if _is_data(line)]
                    block = self._block(batch) if batch else np.empty((0, 0))
                number += lines_there
                rows += len(block)
                if len(block):
                    yield block

    def _block(self, batch: list[tuple[int, str]]) -> NDArray[np.float64]:
        """Parse lines, or raise saying which one is at fault."""
        try:
            block = self._layout.block([text for _, text in batch], self.places)
        except ValueError as error:
            self._explain(batch)
            raise InvalidInputError(f"{self.path} cannot be read as a table ({error})") from error
        if not np.isfinite(block).all():
            self._explain(batch)
        return block

    def _plain_block(self, raw: bytes) -> NDArray[np.float64] | None:
        """Parse lines that hold nothing but finite numbers in a compiled loop; None where they hold anything else."""
        layout = self._layout
        if layout.delimiter is None or _has_lone_returns(raw):
            return None
        plain = raw.replace(b"\r\n", b"\n")
        n_lines = plain.count(b"\n") + (not plain.endswith(b"\n"))
        return parsed_rows(plain, n_lines, layout.count, layout.delimiter, self.places)

    def words(self, names: list[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return all columns as strings, by the names given, the table's own, or else their numbers from 1."""
        names = names or self.columns or [str(number + 1) for number in range(self._layout.count)]
        rows: list[list[str]] = []
        for number, (_, text) in enumerate(self._rows(), 1):
            try:
                rows.append(self._layout.cells(text))
            except UnreadableError as reason:
                raise InvalidInputError(f"{self.path}, row {number}: {reason}") from reason
            if len(rows[-1]) != len(names):
                raise InvalidInputError(
                    f"{self.path}, row {number}: {len(rows[-1])} columns, but {len(names)} in the header"
                )
        if not rows:
            raise InvalidInputError(f"{self.path} holds no rows below its header")
        return {
            name: np.asarray(values, dtype=object)
            for name, values in zip(names, zip(*rows, strict=True), strict=True)
        }

    def _rows(self) -> Iterator[tuple[int, str]]:
        """Yield the lines below the header."""
        lines = self._lines()
        if self._stream is None:
            next(lines)
        if self.columns is None:
            yield self._first
        yield from lines

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines that hold data, with their numbers from 1."""
        lines: Iterable[tuple[int, str]] = self._stream or text_lines(self._name)
        return ((number, line) for number, line in lines if _is_data(line))

    def _explain(self, batch: list[tuple[int, str]]) -> None:
        """Raise with line and column of the first cell that is at fault."""
        layout = self._layout
        for number, line in batch:
            where = f"{self.path}, line {number}"
            try:
                cells = layout.cells(line)
                if len(cells) != layout.count:
                    raise InvalidInputError(
                        f"{where}: {len(cells)} columns, but {layout.count} in the lines before; "
                        "every line needs the same columns"
                    )
                for place in range(layout.count) if self.places is None else self.places:
                    if not np.isfinite(layout.number(cells, place)):
                        raise InvalidInputError(
                            f"{where}, {layout.title(place)}: {cells[place]!r} is not finite; "
                            "correct it or remove the line"
                        )
            except UnreadableError as reason:
                raise InvalidInputError(
                    f"{where}, {reason}; correct it, remove the line, or leave the column out with ",
                    Named("columns"),
                ) from reason


def _is_data(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and stripped[0] != "#"


def _has_lone_returns(raw: bytes) -> bool:
    """Say whether a carriage return stands alone, which ends a line of a file opened for text, too."""
    return b"\r" in raw and raw.count(b"\r") != raw.count(b"\r\n")


def _universal_lines(raw: bytes) -> list[str]:
    """Return lines as a file opened for text gives them: they end in a line feed, a carriage return or both."""
    text = raw.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n").split("\n")


def text_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield lines without their ends, with their numbers from 1; "-" is stdin."""
    if path == "-":
        for number, raw in enumerate(sys.stdin.buffer, 1):
            yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace").rstrip("\r\n")
        return
    with open(path, encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            yield number, line.rstrip("\r\n")
