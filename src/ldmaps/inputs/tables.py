"""Files of rows (CSV, NPY, NPZ, Parquet), read a few rows or a column at a time."""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import FORMATS, Format, format_of, known_format
from ldmaps.inputs.text_columns import TextColumns, UnreadableError, find_columns
from ldmaps.text_rows import MANY_ROWS, parsed_rows

__all__ = [
    "MAX_ROWS",
    "Table",
    "import_parquet",
    "open_table",
    "read_any_columns",
    "read_columns",
    "read_numbers",
]

#: Most rows to a chunk.
MAX_ROWS = 65_536
_BOM = b"\xef\xbb\xbf"


class Table(ABC):
    """One file of rows.

    Attributes
    ----------
    path : str
    shape : tuple of int
        Of a row: (features,) or (atoms, 3).
    columns : list of str or None
        Names of the features, if the file has any.
    places : list of int or None
        Where they stand in the file; None for all in order.
    n_rows : int or None
        None if only reading will tell.
    """

    path: str
    shape: tuple[int, ...]
    columns: list[str] | None = None
    places: list[int] | None = None
    n_rows: int | None = None

    def choose(self, columns: Sequence[str]) -> None:
        """Take these columns only, by name or by number from 1."""
        if len(self.shape) != 1:
            raise InvalidInputError(
                f"{self.path} holds frames of shape {self.shape}, which have no columns to choose"
            )
        self.places = find_columns(columns, self.columns, self.shape[0], self.path)
        self.shape = (len(self.places),)
        if self.columns is not None:
            self.columns = [self.columns[place] for place in self.places]

    def all_but(self, column: str) -> list[str]:
        """Return the columns without one, as :meth:`choose` takes them."""
        names = self.columns or [str(number + 1) for number in range(self.shape[0])]
        (place,) = find_columns([column], self.columns, self.shape[0], self.path)
        return names[:place] + names[place + 1 :]

    def first_block(self, row: int) -> int:
        """Return the last row at or before ``row`` that :meth:`blocks` can begin at without reading those before."""
        return 0

    def mapped(self) -> NDArray[Any] | None:
        """Return all rows as they lie in the file, to be read when they are looked at; None where that is no way."""
        return None

    @abstractmethod
    def blocks(self, chunk: int, begin: int = 0) -> Iterator[NDArray[Any]]:
        """Yield consecutive rows from a :meth:`first_block` on, ``chunk`` at a time."""


def read_columns(path: str) -> dict[str, NDArray[Any]]:
    """Return the named columns of a table, those of a text table as strings; words are allowed."""
    form = _format(path)
    if form.reader == "text":
        return _TextTable(path, named=True).words()
    if form.reader == "parquet":
        table = _ParquetTable(path).read()
        return {name: np.asarray(table.column(name).to_numpy()) for name in table.column_names}
    rows = _load_array(path, form, None)
    if rows.dtype.names is None:
        raise InvalidInputError(
            f"{path} has no named columns; give it a .npy that ldmaps embed wrote, or a .csv"
        )
    return {name: rows[name] for name in rows.dtype.names}


def read_any_columns(path: str) -> dict[str, NDArray[Any]]:
    """Return the columns of a table, those of a text table as strings, by name or else by number from 1.

    Text may have any suffix. The first line of a PLUMED COLVAR names its columns.
    """
    form = format_of(path)
    if form is not None and form.reader == "parquet":
        return read_columns(path)
    if form is not None and form.reader in ("array", "archive"):
        rows = _load_array(path, form, None)
        if rows.dtype.names is not None:
            return {name: rows[name] for name in rows.dtype.names}
        if rows.ndim not in (1, 2):
            raise InvalidInputError(
                f"{path} holds an array of shape {rows.shape}; (rows,) or (rows, columns) is needed"
            )
        by_column = rows[None] if rows.ndim == 1 else rows.T
        return {str(number): values for number, values in enumerate(by_column, 1)}
    table = _TextTable(path)
    return table.words(_plumed_fields(path))


def _plumed_fields(path: str) -> list[str] | None:
    """Return the names that a COLVAR's first line gives its columns, or None.

    >>> _plumed_fields(os.devnull) is None
    True
    """
    first = next(_text_lines(path), (0, ""))[1].split()
    return first[2:] if first[:2] == ["#!", "FIELDS"] else None


def read_numbers(path: str, column: str) -> NDArray[Any]:
    """Return one column of a table, by name or number from 1."""
    table = open_table(path, None)
    table.choose([column])
    return np.concatenate([block[:, 0] for block in table.blocks(MAX_ROWS)])


def open_table(path: str, array: str | None) -> Table:
    """Open a table; ``array`` is which one of an archive to take."""
    form = _format(path)
    if form.reader == "parquet":
        return _ParquetTable(path)
    return _TextTable(path) if form.reader == "text" else _ArrayTable(path, form, array)


def _format(path: str) -> Format:
    if path == "-":
        return FORMATS[0]
    if os.path.getsize(path) == 0:
        raise InvalidInputError(f"{path} is empty; check how it was written")
    return known_format(path)


class _TextTable(Table):
    def __init__(self, path: str, *, named: bool = False) -> None:
        self.path = "stdin" if path == "-" else path
        self._name = path
        # A pipe can be read only once, so the line looked at here is handed on.
        self._stream = _text_lines(path) if path == "-" else None
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
        lines: Iterable[tuple[int, str]] = self._stream or _text_lines(self._name)
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
                    f"{where}, {reason}; correct it, remove the line, or leave the column out with --columns"
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


def _text_lines(path: str) -> Iterator[tuple[int, str]]:
    if path == "-":
        for number, raw in enumerate(sys.stdin.buffer, 1):
            yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace").rstrip("\r\n")
        return
    with open(path, encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            yield number, line.rstrip("\r\n")


class _ArrayTable(Table):
    def __init__(self, path: str, form: Format, array: str | None) -> None:
        self.path = path
        rows = self._rows = _load_array(path, form, array)
        if rows.dtype.kind not in "biuf":
            raise InvalidInputError(f"{path} holds values of type {rows.dtype}, but numbers are needed")
        if rows.ndim not in (2, 3) or (rows.ndim == 3 and rows.shape[2] != 3):
            raise InvalidInputError(
                f"{path} holds an array of shape {rows.shape}; (rows, features) or (frames, atoms, 3) is needed"
            )
        self.shape = rows.shape[1:]
        self.n_rows = rows.shape[0]

    def first_block(self, row: int) -> int:
        """Return the row itself."""
        return min(row, int(self._rows.shape[0]))

    def mapped(self) -> NDArray[Any] | None:
        """Return the rows of a .npy that need no conversion."""
        is_plain = self.places is None and self._rows.dtype in (np.float32, np.float64)
        return self._rows if is_plain and isinstance(self._rows, np.memmap) else None

    def blocks(self, chunk: int, begin: int = 0) -> Iterator[NDArray[Any]]:
        """Copy ``chunk`` rows at a time out of the file."""
        for row in range(begin, self._rows.shape[0], chunk):
            block = self._rows[row : row + chunk]
            block = np.array(block if self.places is None else block[:, self.places])
            yield block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)


def _load_array(path: str, form: Format, name: str | None) -> NDArray[Any]:
    try:
        if form.reader == "array":
            rows: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            return rows
        if form.reader == "zarr":
            opened: NDArray[Any] = _open_zarr(path, name)
            return opened
        # Looked at first, because numpy leaves a file open that is no archive, and reads one that is a .npy.
        with zipfile.ZipFile(path):
            pass
        with np.load(path, allow_pickle=False) as archive:
            names = archive.files
            if name is None and len(names) == 1:
                name = names[0]
            if name not in names:
                asked = "holds several arrays" if name is None else f"has no array {name!r}"
                raise InvalidInputError(f"{path} {asked}; choose one of {', '.join(names)} with --array")
            return np.asarray(archive[name])
    except InvalidInputError:
        raise
    # RuntimeError: an archive that is encrypted, or packed in a way that Python does not know.
    except (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidInputError(
            f"{path} cannot be read as an array ({' '.join(str(error).split())})"
        ) from error


def _open_zarr(path: str, name: str | None) -> Any:
    """Return a Zarr array, which is read where it is sliced."""
    try:
        import zarr
    except ImportError as error:
        raise InvalidInputError(
            f'{path} is read with zarr, which cannot be imported ({error}); pip install "ldmaps[zarr]"'
        ) from error
    opened = zarr.open(path, mode="r", path=name)
    if isinstance(opened, zarr.Group):
        names = sorted(opened.array_keys())
        raise InvalidInputError(
            f"{path} holds a group of arrays; choose one of {', '.join(names) or '(none)'} with --array"
        )
    return opened


class _ParquetTable(Table):
    def __init__(self, path: str) -> None:
        parquet = import_parquet(f"{path} is read")
        from pyarrow import ArrowInvalid

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

    def read(self) -> Any:
        """Return all of it as a pyarrow table."""
        return self._file.read()

    def first_block(self, row: int) -> int:
        """Return where the row's row group begins."""
        return self._group_of(row)[1]

    def _group_of(self, row: int) -> tuple[int, int]:
        """Return the row group that holds a row, and the group's first row."""
        metadata, first = self._file.metadata, 0
        for group in range(metadata.num_row_groups):
            size = metadata.row_group(group).num_rows
            if row < first + size:
                return group, first
            first += size
        return metadata.num_row_groups, first

    def blocks(self, chunk: int, begin: int = 0) -> Iterator[NDArray[Any]]:
        """Decode ``chunk`` rows at a time."""
        names = self.columns or []
        row = begin
        groups = list(range(self._group_of(begin)[0], self._file.metadata.num_row_groups))
        for batch in self._file.iter_batches(chunk, row_groups=groups, columns=names):
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


def import_parquet(what: str) -> ModuleType:
    """Return pyarrow's Parquet module, or raise saying what is done with it and how to install it."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InvalidInputError(
            f"{what} with pyarrow, which cannot be imported ({error}); pip install pyarrow"
        ) from error
    return parquet  # type: ignore[no-any-return]
