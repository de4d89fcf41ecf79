"""Tables of numbers (CSV, NPY, NPZ, Parquet), read in chunks like trajectories."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.source import FrameChunk
from ldmaps.text_rows import delimiter_of, is_number

__all__ = ["TABLE_FORMATS", "Table", "TableSource", "open_table"]

TABLE_FORMATS = (".csv", ".tsv", ".txt", ".npy", ".npz", ".parquet")
CHUNK_BYTES = 4 << 20
MAX_CHUNK = 65_536


class Table(ABC):
    """One file of rows.

    Attributes
    ----------
    path : str
    shape : tuple of int
        Of a row: (features,) or (atoms, 3).
    columns : list of str or None
        Names of the features, if the file has any.
    n_rows : int or None
        None if only reading will tell.
    """

    path: str
    shape: tuple[int, ...]
    columns: list[str] | None = None
    n_rows: int | None = None

    @abstractmethod
    def blocks(self, chunk: int, wanted: list[int] | None) -> Iterator[NDArray[Any]]:
        """Yield consecutive rows, ``chunk`` at a time, of the wanted columns."""


class TableSource:
    """Rows of one or several tables.

    Parameters
    ----------
    tables : list of Table
    names : list of str, optional
        Columns to take, by name or by number from 1.
    stride, start, stop : int
        As for trajectories, in each file.
    """

    reads_ahead = True
    select = None

    def __init__(
        self,
        tables: list[Table],
        names: list[str] | None,
        stride: int = 1,
        start: int | None = None,
        stop: int | None = None,
        chunk: int | None = None,
    ) -> None:
        self._tables = tables
        self.files = tuple(table.path for table in tables)
        self._wanted = [_find_columns(table, names) for table in tables]
        self._stride, self._start, self._stop = stride, start or 0, stop
        first = tables[0]
        wanted = self._wanted[0]
        self.shape = first.shape if wanted is None else (len(wanted),)
        self.columns: list[str] | None = None
        if first.columns is not None:
            self.columns = first.columns if wanted is None else [first.columns[place] for place in wanted]
        for table, chosen in zip(tables, self._wanted, strict=True):
            shape = table.shape if chosen is None else (len(chosen),)
            if shape != self.shape:
                raise InvalidInputError(
                    f"{table.path} has rows of shape {shape}, but {first.path} of {self.shape}; "
                    "choose the same columns with --columns"
                )
        width = int(np.prod(self.shape))
        self._chunk = chunk or max(1, min(MAX_CHUNK, CHUNK_BYTES // (8 * max(1, width))))

    @property
    def n_frames(self) -> int | None:
        """Number of rows to come, or None."""
        total = 0
        for table in self._tables:
            if table.n_rows is None:
                return None
            total += len(range(table.n_rows)[self._start : self._stop : self._stride])
        return total

    def describe(self) -> str:
        """Return a few words for messages."""
        return self.files[0] if len(self.files) == 1 else f"{self.files[0]} and {len(self.files) - 1} more"

    def facts(self) -> dict[str, Any]:
        """Return what a model remembers of the table it was fitted on."""
        return {"kind": "table", "columns": self.columns, "files": list(self.files)}

    def __iter__(self) -> Iterator[FrameChunk]:
        for table, wanted in zip(self._tables, self._wanted, strict=True):
            position, found = 0, False
            for block in table.blocks(self._chunk, wanted):
                numbers = np.arange(position, position + len(block), dtype=np.int64)
                position += len(block)
                kept = numbers >= self._start
                if self._stop is not None:
                    kept &= numbers < self._stop
                kept &= (numbers - self._start) % self._stride == 0
                if kept.any():
                    found = True
                    yield FrameChunk(block if kept.all() else block[kept], numbers[kept], None, table.path)
                if self._stop is not None and position >= self._stop:
                    break
            if not found:
                raise InvalidInputError(f"{table.path} has no rows of data from row {self._start} on")


def open_table(path: str, array: str | None = None) -> Table:
    """Open a table by its extension; "-" is CSV from stdin."""
    lower = path.lower()
    if path != "-" and os.path.getsize(path) == 0:
        raise InvalidInputError(f"{path} is empty; check how it was written")
    if lower.endswith((".npy", ".npz")):
        return _ArrayTable(path, array)
    if lower.endswith(".parquet"):
        return _ParquetTable(path)
    return _CsvTable(path)


def _find_columns(table: Table, names: list[str] | None) -> list[int] | None:
    if names is None:
        return None
    if len(table.shape) != 1:
        raise InvalidInputError(
            f"{table.path} holds frames of shape {table.shape}, which have no columns to choose"
        )
    places = []
    for name in names:
        if table.columns is not None and name in table.columns:
            places.append(table.columns.index(name))
        elif name.isdigit() and 1 <= int(name) <= table.shape[0]:
            places.append(int(name) - 1)
        else:
            known = ", ".join(table.columns) if table.columns else f"1 to {table.shape[0]}, without names"
            raise InvalidInputError(f"{table.path} has no column {name!r}; its columns are: {known}")
    return places


class _CsvTable(Table):
    def __init__(self, path: str) -> None:
        self.path = "stdin" if path == "-" else path
        self._name = path
        # A pipe can be read only once, so the lines looked at here are handed on.
        self._stream = _text_lines(path) if path == "-" else None
        first = next(self._numbered(), None)
        if first is None:
            raise InvalidInputError(f"{self.path} holds no rows; check how it was written")
        self._delimiter = delimiter_of(first[1], path)
        cells = self._cells(first[1])
        self._header_line = 0
        if not any(is_number(cell) for cell in cells):
            self.columns = cells
            self._header_line = first[0]
        self._first = first
        self.shape = (len(cells),)

    def blocks(self, chunk: int, wanted: list[int] | None) -> Iterator[NDArray[Any]]:
        """Parse ``chunk`` lines at a time."""
        lines = self._numbered(again=True)
        while batch := list(islice(lines, chunk)):
            texts = [text for _, text in batch]
            try:
                block = np.loadtxt(
                    texts,
                    dtype=np.float64,
                    delimiter=self._delimiter,
                    comments=None,
                    quotechar='"',
                    ndmin=2,
                    usecols=wanted,
                )
            except ValueError as error:
                self._explain(batch, wanted)
                raise InvalidInputError(f"{self.path} cannot be read as a table ({error})") from error
            if wanted is None and block.shape[1] != self.shape[0]:
                self._explain(batch, wanted)
            if not np.isfinite(block).all():
                self._explain(batch, wanted)
            yield block

    def _numbered(self, again: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the lines that hold data, with their numbers from 1."""
        if self._stream is not None:
            lines: Iterable[tuple[int, str]] = self._stream
            if again and self._first[0] != self._header_line:
                yield self._first
        else:
            lines = _text_lines(self._name)
        for number, line in lines:
            if not line.strip() or line.lstrip().startswith("#") or (again and number == self._header_line):
                continue
            yield number, line

    def _cells(self, line: str) -> list[str]:
        import csv

        if self._delimiter is None:
            return line.split()
        return [cell.strip() for cell in next(csv.reader([line], delimiter=self._delimiter))]

    def _explain(self, batch: list[tuple[int, str]], wanted: list[int] | None) -> None:
        """Raise with line and column of the first cell that is at fault."""
        for number, line in batch:
            cells = self._cells(line)
            if len(cells) != self.shape[0]:
                raise InvalidInputError(
                    f"{self.path}, line {number}: {len(cells)} columns, but {self.shape[0]} in the lines before; "
                    "every line needs the same columns"
                )
            for place in range(len(cells)) if wanted is None else wanted:
                cell = cells[place]
                where = f"{self.path}, line {number}, column {place + 1}"
                if self.columns:
                    where += f" ({self.columns[place]})"
                if not is_number(cell):
                    shown = f"{cell!r} is not a number" if cell else "the cell is empty"
                    raise InvalidInputError(
                        f"{where}: {shown}; correct it, remove the line, or leave the column out with --columns"
                    )
                if not np.isfinite(float(cell)):
                    raise InvalidInputError(f"{where}: {cell!r} is not finite; correct it or remove the line")


def _text_lines(path: str) -> Iterator[tuple[int, str]]:
    if path == "-":
        for number, raw in enumerate(sys.stdin.buffer, 1):
            yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace").rstrip("\r\n")
        return
    with open(path, encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            yield number, line.rstrip("\r\n")


class _ArrayTable(Table):
    def __init__(self, path: str, array: str | None) -> None:
        self.path = path
        try:
            self._rows = _load_array(path, array)
        except InvalidInputError:
            raise
        except (ValueError, OSError, EOFError, KeyError) as error:
            raise InvalidInputError(
                f"{path} cannot be read as an array ({' '.join(str(error).split())})"
            ) from error
        rows = self._rows
        if rows.dtype.kind not in "biuf":
            raise InvalidInputError(f"{path} holds values of type {rows.dtype}, but numbers are needed")
        if rows.ndim not in (2, 3) or (rows.ndim == 3 and rows.shape[2] != 3):
            raise InvalidInputError(
                f"{path} holds an array of shape {rows.shape}; (rows, features) or (frames, atoms, 3) is needed"
            )
        self.shape = rows.shape[1:]
        self.n_rows = len(rows)

    def blocks(self, chunk: int, wanted: list[int] | None) -> Iterator[NDArray[Any]]:
        """Copy ``chunk`` rows at a time out of the file."""
        for begin in range(0, len(self._rows), chunk):
            block = self._rows[begin : begin + chunk]
            block = np.array(block if wanted is None else block[:, wanted])
            yield block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)


def _load_array(path: str, name: str | None) -> NDArray[Any]:
    if path.lower().endswith(".npy"):
        rows: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return rows
    with np.load(path, allow_pickle=False) as archive:
        names = archive.files
        if name is None and len(names) == 1:
            name = names[0]
        if name not in names:
            asked = "holds several arrays" if name is None else f"has no array {name!r}"
            raise InvalidInputError(f"{path} {asked}; choose one of {', '.join(names)} with --array")
        return np.asarray(archive[name])


class _ParquetTable(Table):
    def __init__(self, path: str) -> None:
        try:
            from pyarrow import ArrowInvalid, parquet
        except ImportError as error:
            raise InvalidInputError(
                f'{path} is read with pyarrow, which cannot be imported ({error}); pip install "ldmaps[parquet]"'
            ) from error
        self.path = path
        try:
            self._file = parquet.ParquetFile(path)
        except ArrowInvalid as error:
            raise InvalidInputError(
                f"{path} is not a Parquet file ({' '.join(str(error).split())})"
            ) from error
        self.columns = list(self._file.schema_arrow.names)
        self.shape = (len(self.columns),)
        self.n_rows = self._file.metadata.num_rows

    def blocks(self, chunk: int, wanted: list[int] | None) -> Iterator[NDArray[Any]]:
        """Decode ``chunk`` rows at a time."""
        columns = self.columns or []
        names = columns if wanted is None else [columns[place] for place in wanted]
        row = 0
        for batch in self._file.iter_batches(chunk, columns=names):
            block = np.empty((batch.num_rows, len(names)))
            for place, name in enumerate(names):
                values = batch.column(batch.schema.get_field_index(name))
                if values.null_count:
                    bad = row + int(np.argmax(np.asarray(values.is_null())))
                    where = f"{self.path}, row {bad}, column {name!r}"
                    raise InvalidInputError(f"{where}: the cell is empty; remove the row")
                try:
                    block[:, place] = values.to_numpy(zero_copy_only=False)
                except (TypeError, ValueError) as error:
                    raise InvalidInputError(
                        f"{self.path}, column {name!r}: {values.type} is not a number; leave it out with --columns"
                    ) from error
            row += batch.num_rows
            yield block
