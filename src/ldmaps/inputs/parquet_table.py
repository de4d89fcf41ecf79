"""Rows of a Parquet file, and pyarrow, which reads and writes them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.base_table import Numbered, Table, kept_rows
from ldmaps.inputs.column_roles import SAMPLE, Roles, roles_of
from ldmaps.inputs.source import Reading

__all__ = ["ParquetTable", "import_parquet"]


class ParquetTable(Table):
    """The columns of a Parquet file."""

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

    def roles(self) -> Roles:
        """Tell from names, types and first rows; an index that pandas has stored is no feature."""
        names = self._file.schema_arrow.names
        first = next(self._file.iter_batches(SAMPLE), None)
        rows = [] if first is None else [[_cell(row[name]) for name in names] for row in first.to_pylist()]
        roles = roles_of(names, rows)
        stored = self._file.schema_arrow.pandas_metadata or {}
        index = [name for name in stored.get("index_columns", ()) if name in names]
        places = [place for place in roles.features if names[place] in index]
        if len(places) == len(roles.features):
            return roles
        return Roles(
            [place for place in roles.features if place not in places],
            roles.time,
            (*roles.left_out, *((place, "index") for place in places)),
        )

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
                    block[:, place] = _seconds(values) if name == time else _numbers(values)
                except (TypeError, ValueError, NotImplementedError) as error:
                    raise InvalidInputError(
                        f"{self.path}, column {name!r}: {values.type} is not a number; leave it out with ",
                        Named("columns"),
                    ) from error
            yield block


def _cell(value: Any) -> str:
    """Return a value as a text table would have it."""
    if value is None:
        return ""
    return str(int(value) if isinstance(value, bool) else value)


def _numbers(values: Any) -> NDArray[np.float64]:
    """Return numbers, NaN where one is missing."""
    return np.asarray(values.cast("float64", safe=False).to_numpy(zero_copy_only=False))


def _seconds(values: Any) -> NDArray[np.float64]:
    """Return times as they are, dates as seconds since 1970, NaN where there is none."""
    times = np.asarray(values.to_numpy(zero_copy_only=False))
    if times.dtype.kind in "MO":
        times = times.astype("datetime64[us]")
        return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)
    return times.astype(np.float64)


def import_parquet(what: str) -> ModuleType:
    """Return pyarrow's Parquet module, or raise saying what is done with it and how to install it."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InvalidInputError(
            f"{what} with pyarrow, which cannot be imported ({error}); pip install pyarrow"
        ) from error
    return parquet  # type: ignore[no-any-return]
