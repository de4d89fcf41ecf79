"""Files of rows: their columns, and rows a few at a time; those of arrays (NPY, NPZ, Zarr, AnnData) and of Parquet."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps._lazy import needed
from ldmaps.errors import InvalidInputError, Named, one_line
from ldmaps.inputs.column_roles import SAMPLE, Roles, find_columns, roles_of
from ldmaps.inputs.formats import Format
from ldmaps.inputs.source import Reading

#: Rows and their numbers in the file.
Numbered = Iterator[tuple[NDArray[np.int64], NDArray[Any]]]


class Table(ABC):
    """One file of rows."""

    path: str
    shape: tuple[int, ...]  # of a row: (features,) or (atoms, 3)
    columns: list[str] | None = None  # names of the features, if the file has any
    places: list[int] | None = None  # where they stand in the file; None for all in order
    time: int | None = None  # where the time stands, which is then the last number of each row of a block
    n_rows: int | None = None  # None if only reading will tell
    drops_missing: bool = False  # whether a missing value may be NaN; otherwise a text says where it is

    def choose(self, columns: Sequence[str], time: str | None = None) -> None:
        """Take these columns only, by name or by number from 1, and the one that is the time, if there is one."""
        if len(self.shape) != 1:
            raise InvalidInputError(
                f"{self.path} holds frames of shape {self.shape}, which have no columns to choose"
            )
        self.places = find_columns(columns, self.columns, self.shape[0], self.path)
        if time is not None:
            (self.time,) = find_columns([time], self.columns, self.shape[0], self.path)
        self.shape = (len(self.places),)
        if self.columns is not None:
            self.columns = [self.columns[place] for place in self.places]

    def roles(self) -> Roles:
        """Tell from names and first rows what the columns are for."""
        return Roles(list(range(self.shape[0])))

    def named(self, place: int) -> str:
        """Return a column's name, or its number from 1."""
        return self.columns[place] if self.columns else str(place + 1)

    def mapped(self) -> NDArray[Any] | None:
        """Return all rows as they lie in the file, to be read when they are looked at; None where that is no way."""
        return None

    @abstractmethod
    def rows(self, chunk: int, reading: Reading) -> Numbered:
        """Yield the rows to be read, out of ``chunk`` at a time, with their numbers; the time last if there is one."""


def kept_rows(blocks: Iterator[NDArray[Any]], position: int, reading: Reading) -> Numbered:
    """Yield those rows that are to be read of consecutive ones, which begin at a position."""
    for block in blocks:
        kept = reading.among(position, len(block))
        numbers = np.arange(position, position + len(block), dtype=np.int64)[kept]
        position += len(block)
        if len(numbers):  # a copy of some, so that the others are not held
            yield numbers, block if len(numbers) == len(block) else block[kept].copy()
        if reading.stop is not None and position >= reading.stop:
            return


class ArrayTable(Table):
    """One array; ``array`` is which one of an archive to take."""

    def __init__(self, path: str, form: Format, array: str | None) -> None:
        self.path = path
        rows = self._rows = load_array(path, form, array)
        if rows.dtype.kind not in "biuf":
            raise InvalidInputError(f"{path} holds values of type {rows.dtype}, but numbers are needed")
        if rows.ndim not in (2, 3) or (rows.ndim == 3 and rows.shape[2] != 3):
            raise InvalidInputError(
                f"{path} holds an array of shape {rows.shape}; (rows, features) or (frames, atoms, 3) is needed"
            )
        if 0 in rows.shape[1:]:
            raise InvalidInputError(
                f"{path} holds an array of shape {rows.shape}, whose rows have no numbers"
            )
        self.shape = rows.shape[1:]
        self.n_rows = rows.shape[0]
        # Pages of a mapping that were read count as this process's memory until it ends: each block has its own.
        self._remapped = partial(load_array, path, form, array) if isinstance(rows, np.memmap) else None

    def mapped(self) -> NDArray[Any] | None:
        """Return the rows of a .npy that need no conversion."""
        is_plain = self.places is None and self._rows.dtype in (np.float32, np.float64)
        return self._rows if is_plain and isinstance(self._rows, np.memmap) else None

    def rows(self, chunk: int, reading: Reading) -> Numbered:
        """Copy the rows to be read out of the file."""
        wanted = reading.of(self._rows.shape[0])
        count = max(1, chunk // wanted.step)
        for at in range(0, len(wanted), count):
            part = wanted[at : at + count]
            rows = self._rows if self._remapped is None else self._remapped()
            block = rows[part.start : part.stop : part.step]
            if self.places is not None:
                block = block[:, self.places if self.time is None else [*self.places, self.time]]
            block = np.array(block)
            is_float = block.dtype in (np.float32, np.float64)
            yield np.asarray(part, dtype=np.int64), block if is_float else block.astype(np.float64)


#: What numpy raises for a file that holds no array: of a header that is no Python too (TokenError, SyntaxError), of an
#: archive that is encrypted, or packed in a way that Python does not know (RuntimeError).
NO_ARRAY: tuple[type[Exception], ...] = (ValueError, OSError, EOFError, KeyError, RuntimeError, SyntaxError)
NO_ARRAY += (OverflowError, tokenize.TokenError, zipfile.BadZipFile, zlib.error)


def load_array(path: str, form: Format, name: str | None) -> NDArray[Any]:
    """Return an array, that of a .npy or Zarr as it lies in the file, or raise saying what is wrong."""
    try:
        if form.reader == "array":
            return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
        if form.reader == "zarr":
            return _open_zarr(path, name)  # type: ignore[no-any-return]
        if form.reader == "anndata":
            return _open_anndata(path, name)  # type: ignore[no-any-return]
        # Looked at first, because numpy leaves a file open that is no archive, and reads one that is a .npy.
        zipfile.ZipFile(path).close()
        with np.load(path, allow_pickle=False) as archive:
            names = archive.files
            if name is None and len(names) == 1:
                name = names[0]
            if name not in names:
                asked = "holds several arrays" if name is None else f"has no array {name!r}"
                told = f"{path} {asked}; choose one of {', '.join(names)} with "
                raise InvalidInputError(told, Named("array"))
            return np.asarray(archive[name])
    except InvalidInputError:
        raise
    except NO_ARRAY as error:
        raise InvalidInputError(f"{path} cannot be read as an array ({one_line(error)})") from error


def _open_zarr(path: str, name: str | None) -> Any:
    """Return a Zarr array, which is read where it is sliced."""
    zarr = needed("zarr", f"{path} is read with zarr", "pip install zarr")
    opened = zarr.open(path, mode="r", path=name)
    if isinstance(opened, zarr.Group):
        names = ", ".join(sorted(opened.array_keys())) or "(none)"
        raise InvalidInputError(
            f"{path} holds a group of arrays; choose one of {names} with ", Named("array")
        )
    return opened


def _open_anndata(path: str, name: str | None) -> Any:
    """Return an array of cells, by default their principal components, which is read where it is sliced."""
    h5py = needed("h5py", f"{path} is read with h5py", "pip install h5py")
    opened = h5py.File(path, "r")
    if name is None:
        name = "obsm/X_pca" if "obsm/X_pca" in opened else "X"
    found = opened.get(name)
    if isinstance(found, h5py.Dataset):
        return found
    known = opened.get("obsm", {})
    names = [f"obsm/{key}" for key in known if isinstance(known[key], h5py.Dataset)]
    fault = f"{path} has no array {name!r}"
    if found is not None:
        fault = f"{path} holds {name} as a sparse matrix or a table; maps need dense rows, such as principal components"
    opened.close()
    if names:
        raise InvalidInputError(f"{fault}; choose one of {', '.join(names)} with ", Named("array"))
    raise InvalidInputError(f"{fault}; store some with scanpy.pp.pca(adata)")


class ParquetTable(Table):
    """The columns of a Parquet file."""

    def __init__(self, path: str) -> None:
        parquet = import_parquet(f"{path} is read")
        from pyarrow import ArrowInvalid

        self.path = path
        try:
            self._file = parquet.ParquetFile(path)
        except ArrowInvalid as error:
            raise InvalidInputError(f"{path} is not a Parquet file ({one_line(error)})") from error
        self.columns = list(self._file.schema_arrow.names)
        self.shape = (len(self.columns),)
        self.n_rows = self._file.metadata.num_rows

    def words(self) -> dict[str, NDArray[Any]]:
        """Return all columns, as they are."""
        table = self._file.read()
        return {name: np.asarray(table.column(name).to_numpy()) for name in table.column_names}

    def roles(self) -> Roles:
        """Tell from names, types and first rows; an index that pandas has stored is no feature."""
        names = self._file.schema_arrow.names
        first = next(self._file.iter_batches(SAMPLE), None)
        rows = [] if first is None else [[_cell(row[name]) for name in names] for row in first.to_pylist()]
        stored = self._file.schema_arrow.pandas_metadata or {}
        return roles_of(names, rows, [name for name in stored.get("index_columns", ()) if name in names])

    def rows(self, chunk: int, reading: Reading) -> Numbered:
        """Decode rows from the row group on that holds the first."""
        metadata, group, first = self._file.metadata, 0, 0
        while group < metadata.num_row_groups and first + metadata.row_group(group).num_rows <= reading.first:
            first, group = first + metadata.row_group(group).num_rows, group + 1
        return kept_rows(self._blocks(chunk, range(group, metadata.num_row_groups)), first, reading)

    def _blocks(self, chunk: int, groups: range) -> Iterator[NDArray[Any]]:
        names = list(self.columns or [])
        time = None if self.time is None else self._file.schema_arrow.names[self.time]
        names += [] if time is None else [time]
        for batch in self._file.iter_batches(chunk, row_groups=list(groups), columns=names):
            block = np.empty((batch.num_rows, len(names)))
            for place, name in enumerate(names):
                values = batch.column(batch.schema.get_field_index(name))
                try:
                    block[:, place] = _numbers(values, are_times=name == time)
                except (TypeError, ValueError, NotImplementedError) as error:
                    raise InvalidInputError(
                        f"{self.path}, column {name!r}: {values.type} is not a number; leave it out with ",
                        Named("columns"),
                    ) from error
            yield block


def _cell(value: Any) -> str:
    """Return a value as a text table would have it."""
    return "" if value is None else str(int(value) if isinstance(value, bool) else value)


def _numbers(values: Any, *, are_times: bool) -> NDArray[np.float64]:
    """Return numbers, dates as seconds since 1970, NaN where one is missing."""
    if not are_times:
        return np.asarray(values.cast("float64", safe=False).to_numpy(zero_copy_only=False))
    times = np.asarray(values.to_numpy(zero_copy_only=False))
    if times.dtype.kind in "MO":
        times = times.astype("datetime64[us]")
        return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)
    return times.astype(np.float64)


def import_parquet(what: str) -> ModuleType:
    """Return pyarrow's Parquet module, or raise saying what is done with it and how to install it."""
    needed("pyarrow", f"{what} with pyarrow", "pip install pyarrow")
    from pyarrow import parquet

    return parquet  # type: ignore[no-any-return]
