"""Tables of every format: opened by their names, or read as columns."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.array_table import ArrayTable, load_array
from ldmaps.inputs.base_table import Table
from ldmaps.inputs.formats import FORMATS, Format, format_of, known_format
from ldmaps.inputs.parquet_table import ParquetTable
from ldmaps.inputs.source import Reading
from ldmaps.inputs.text_table import TextTable, text_lines

__all__ = ["MAX_ROWS", "is_plumed", "open_table", "read_columns", "read_numbers"]

#: Most rows to a chunk: while the first is read and the last is written, nothing else can be done.
MAX_ROWS = 32_768


def read_columns(path: str, *, named: bool = True) -> dict[str, NDArray[Any]]:
    """Return the columns of a table, those of a text table as strings; words are allowed.

    Where they need not be ``named``, text may have any suffix, and columns without names get numbers from 1.
    """
    form = _format(path) if named else format_of(path)
    if form is None or form.reader in ("text", None) or form.kind != "table":
        return TextTable(path, named=named).words(None if named else _commented_names(path))
    if form.reader == "parquet":
        table = ParquetTable(path).read()
        return {name: np.asarray(table.column(name).to_numpy()) for name in table.column_names}
    rows = load_array(path, form, None)
    if rows.dtype.names is not None:
        return {name: rows[name] for name in rows.dtype.names}
    if named:
        raise InvalidInputError(
            f"{path} has no named columns; give it a .npy that ldmaps embed wrote, or a .csv"
        )
    if rows.ndim not in (1, 2):
        raise InvalidInputError(
            f"{path} holds an array of shape {rows.shape}; (rows,) or (rows, columns) is needed"
        )
    return {str(number): values for number, values in enumerate(np.atleast_2d(rows.T), 1)}


def is_plumed(path: str) -> bool:
    """Say whether a file is a COLVAR that PLUMED printed."""
    return next(text_lines(path), (0, ""))[1].startswith("#! FIELDS")


def _commented_names(path: str) -> list[str] | None:
    """Return the names that the first line of PLUMED's COLVAR or of Colvars' trajectory gives columns, or None.

    >>> _commented_names(os.devnull) is None
    True
    """
    first = next(text_lines(path), (0, ""))[1].split()
    if first[:2] == ["#!", "FIELDS"]:
        return first[2:]
    return first[1:] if first[:2] == ["#", "step"] else None


def read_numbers(path: str, column: str) -> NDArray[Any]:
    """Return one column of a table, by name or number from 1."""
    table = open_table(path, None)
    table.choose([column])
    return np.concatenate([rows[:, 0] for _, rows in table.rows(MAX_ROWS, Reading())])


def open_table(path: str, array: str | None) -> Table:
    """Open a table; ``array`` is which one of an archive to take."""
    form = _format(path)
    if form.reader == "parquet":
        return ParquetTable(path)
    return TextTable(path) if form.reader == "text" else ArrayTable(path, form, array)


def _format(path: str) -> Format:
    if path == "-":
        return FORMATS[0]
    if os.path.getsize(path) == 0:
        raise InvalidInputError(f"{path} is empty; check how it was written")
    return known_format(path)
