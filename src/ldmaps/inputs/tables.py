"""Tables of every format: opened by their names, read in chunks like trajectories, or as columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.files import shown_name
from ldmaps.inputs.column_roles import DATES, NO_TIME, Roles, find_columns, time_places
from ldmaps.inputs.formats import FORMATS, Format, format_of, known_format
from ldmaps.inputs.source import CHUNK_BYTES, FrameChunk, PointSource, Reading
from ldmaps.inputs.table_files import ArrayTable, ParquetTable, Table, load_array
from ldmaps.inputs.text_table import TextTable, text_lines
from ldmaps.inputs.windows import WindowedSource, Windows

#: A column is named that alone costs more than this share of the rows, because it has missing values.
COSTLY_SHARE = 0.25
#: Most rows to a chunk: while the first is read and the last is written, nothing else can be done.
MAX_ROWS = 32_768


def read_columns(path: str, *, named: bool = True) -> dict[str, NDArray[Any]]:
    """Return the columns of a table, those of text as strings; without ``named`` of any suffix, numbered if need be."""
    form = _format(path) if named else format_of(path)
    if form is None or form.reader in ("text", None) or form.kind != "table":
        return TextTable(path, named=named).words(None if named else _commented_names(path))
    if form.reader == "parquet":
        return ParquetTable(path).words()
    rows = load_array(path, form, None)
    if rows.dtype.names is not None:
        return {name: rows[name] for name in rows.dtype.names}
    if named:
        raise InvalidInputError(
            f"{path} has no named columns; give it a .npy that ldmaps embed wrote, or a .csv"
        )
    if rows.ndim not in (1, 2):
        needed = "(rows,) or (rows, columns) is needed"
        raise InvalidInputError(f"{path} holds an array of shape {rows.shape}; {needed}")
    return {str(number): values for number, values in enumerate(np.atleast_2d(rows.T), 1)}


def is_plumed(path: str) -> bool:
    """Say whether a file is a COLVAR that PLUMED printed."""
    return next(text_lines(path), (0, ""))[1].startswith("#! FIELDS")


def _commented_names(path: str) -> list[str] | None:
    """Return the names that the first line of PLUMED's COLVAR or of Colvars' trajectory gives columns, or None."""
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


class TableSource(PointSource):
    """Rows of one or several tables; see :func:`ldmaps.inputs.open_files` for the arguments."""

    # Those of the model are taken where none are given and the tables name theirs; where it has none either, those
    # whose role is to be a feature, less ``weights``.

    reads_ahead = True

    def __init__(
        self,
        files: Sequence[str],
        reading: Reading,
        columns: Sequence[str] | None = None,
        array: str | None = None,
        model_facts: Mapping[str, Any] | None = None,
        weights: str | None = None,
        missing: str | None = None,
        time: str | None = None,
    ) -> None:
        facts = model_facts or {}
        missing = facts.get("missing") or "error" if missing is None else missing
        if missing not in ("drop", "error"):
            rule = f' must be "drop" (rows with missing values) or "error", got {missing!r}'
            raise InvalidInputError(Named("missing"), rule)
        self._drops, self._n_missing, self._n_rows = missing == "drop", 0, 0
        self._alone_missing: NDArray[np.int64] | int = 0  # by column: rows that lack nothing but its value
        self.in_pieces = not self._drops
        self._tables = [open_table(path, array) for path in files]
        self.files = tuple(table.path for table in self._tables)
        self._reading = reading
        first = self._tables[0]
        self._left_out = dict[str, str]()
        if columns is None and first.columns is not None:
            columns = facts.get("columns")
        self._chosen = columns is not None
        # A map of all columns takes all columns again, without looking ahead into what may come slowly.
        asks_for_time = (time or facts.get("time")) and columns is None
        roles = first.roles() if len(first.shape) == 1 and (asks_for_time or not facts) else None
        self.time_column = self._time_of(first, time, columns, roles, facts.get("time"))
        if columns is None and roles is not None:
            columns = self._features(first, roles, weights)
        for table in self._tables:
            table.drops_missing = self._drops
            if columns is not None:
                table.choose(columns, self._time_in(table, time, columns))
            if table.shape != first.shape:
                fault = f"{table.path} has rows of shape {table.shape}, but {first.path} of {first.shape}"
                raise InvalidInputError(f"{fault}; choose the same columns with ", Named("columns"))
            if not self._chosen and first.columns and table.columns and table.columns != first.columns:
                here, there = ", ".join(table.columns), ", ".join(first.columns)
                fault = f"{table.path} has the columns {here}, but {first.path} has {there}"
                raise InvalidInputError(f"{fault}; choose them by name with ", Named("columns"))
        self.columns = first.columns
        width = max(1, prod(first.shape))
        self._chunk = reading.chunk or max(1, min(MAX_ROWS, CHUNK_BYTES // (8 * width)))

    @staticmethod
    def _time_of(
        table: Table,
        wanted: str | None,
        columns: Sequence[str] | None,
        roles: Roles | None,
        of_model: str | None,
    ) -> str | None:
        """Return the column that is the time of the rows: the one wanted, that of a model, or one that is not used."""
        if wanted == NO_TIME or (wanted is None and len(table.shape) != 1):
            return None
        if len(table.shape) != 1:
            fault = (
                f" is a column of a table, but {table.path} holds frames of shape {table.shape}; leave it out"
            )
            raise InvalidInputError(Named("time", wanted), fault)
        count, names = table.shape[0], table.columns
        used = [] if columns is None else find_columns(columns, names, count, table.path)
        if wanted is not None:
            (place,) = find_columns([wanted], names, count, table.path)
            if place in used:
                both = f"column {wanted!r} of {table.path} cannot be both a feature and the time; remove it from "
                raise InvalidInputError(both, Named("columns"), ", or give ", Named("time", NO_TIME))
            return table.named(place)
        known = [] if roles is None else roles.times
        if names is None and of_model is not None and of_model.isdigit() and 1 <= int(of_model) <= count:
            known = [int(of_model) - 1]  # the model's columns had no names either
        elif names is not None and columns is not None:
            known = [*known, *time_places(names, of_model)]
        return next((table.named(place) for place in known if place not in used), None)

    def _time_in(self, table: Table, wanted: str | None, columns: Sequence[str]) -> str | None:
        """Return the time column of one of several tables; where columns are chosen, it may have another name there."""
        if self.time_column is None or table.columns is None or self.time_column in table.columns:
            return self.time_column
        used = find_columns(columns, table.columns, table.shape[0], table.path)
        others = [table.named(place) for place in time_places(table.columns) if place not in used]
        return wanted or next(iter(others), None)

    def _features(self, table: Table, roles: Roles, weights: str | None) -> list[str] | None:
        """Return the columns that are features, None for all of them."""
        self._left_out = {table.named(place): why for place, why in roles.left_out}
        if roles.time is not None:
            self._left_out[table.named(roles.time)] = DATES
        if weights is not None:
            (place,) = find_columns([weights], table.columns, table.shape[0], table.path)
            self._left_out[table.named(place)] = "weights"
        if self.time_column is not None:
            self._left_out.pop(self.time_column, None)
        others = {*self._left_out, self.time_column}
        features = [table.named(place) for place in roles.features]
        return [name for name in features if name not in others] if others != {None} else None

    @property
    def remarks(self) -> list[str]:
        """See :attr:`PointSource.remarks`."""
        others = [f"{name} ({why})" for name, why in self._left_out.items()]
        said = []
        if (others or self.time_column) and not self._chosen:
            names = self.columns or []
            used = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") or str(self.shape[0])
            said.append(f"columns used: {used}" + (f"; left out: {', '.join(others)}" if others else ""))
        if self._n_missing:
            said.append(f"missing values: {self._n_missing:,} rows left out{self._costly_column()}")
        return said

    def _costly_column(self) -> str:
        """Say which column costs the most rows by its missing values, if it costs many."""
        alone = np.atleast_1d(self._alone_missing)
        place = int(np.argmax(alone))
        if alone[place] <= COSTLY_SHARE * self._n_rows:
            return ""
        name = self.columns[place] if self.columns else f"column {place + 1}"
        return (
            f" of {self._n_rows:,}; {alone[place]:,} of them lack a value of {name} alone: choose the other columns to "
            "keep them"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """(features,) or, of arrays of frames, (atoms, 3)."""
        return self._tables[0].shape

    @property
    def n_frames(self) -> int | None:
        """Number of rows to come, or None."""
        if self._drops or any(table.n_rows is None for table in self._tables):
            return None
        return sum(len(self._reading.of(table.n_rows or 0)) for table in self._tables)

    def facts(self) -> dict[str, Any]:
        """Return what a model remembers of the table it was fitted on."""
        facts = {"kind": "table", "columns": self.columns, "files": [shown_name(name) for name in self.files]}
        facts |= {} if self.time_column is None else {"time": self.time_column}
        return facts | ({"missing": "drop"} if self._drops else {})

    def matched(self, facts: Mapping[str, Any] | None, *, match_atoms: bool = False) -> PointSource:
        """Return the windows of a model; raise where it was fitted on other columns, unless these were chosen."""
        wanted = (facts or {}).get("columns")
        if wanted and self.columns is not None and not self._chosen and list(wanted) != self.columns:
            fault = f"the model was fitted on the columns {', '.join(wanted)}, but {self.describe()} has "
            remedy = f"{', '.join(self.columns)}; choose them with "
            raise InvalidInputError(fault, remedy, Named("columns", list(wanted)))
        windows = Windows.stored(facts)
        # Rows may be windows already.
        if windows is None or self.shape == (windows.length * (windows.width or 0),):
            return self
        if self.shape != (windows.width,):
            fault = f"{self.describe()} has rows of shape {self.shape}, but the map is of windows of {windows.width} "
            raise InvalidInputError(fault, "columns; choose them with ", Named("columns"))
        return WindowedSource(self, windows)

    def mapped(self) -> FrameChunk | None:
        """Return the rows of one .npy in place, to be read when they are looked at; None for other tables."""
        rows = self._tables[0].mapped() if len(self._tables) == 1 and not self._drops else None
        if rows is None:
            return None
        kept = self._reading.of(len(rows))
        numbers = np.arange(kept.start, kept.stop, kept.step, dtype=np.int64)
        return FrameChunk(rows[kept.start : kept.stop : kept.step], numbers, None, self.files[0])

    def __iter__(self) -> Iterator[FrameChunk]:
        self._n_missing = 0
        self._n_rows, self._alone_missing = 0, np.zeros(prod(self.shape), dtype=np.int64)
        for table in self._tables:
            count, before = 0, self._n_missing
            for numbers, rows in table.rows(self._chunk, self._reading):
                times = None if table.time is None else rows[:, -1].copy()
                features = rows if times is None else np.ascontiguousarray(rows[:, :-1])
                chunk = FrameChunk(features, numbers, times, table.path)
                self._n_rows += len(chunk)
                if self._drops and np.isnan(chunk.frames).any():
                    lacking = np.isnan(chunk.frames).reshape(len(rows), -1)
                    complete = ~lacking.any(axis=1)
                    self._n_missing += int(np.count_nonzero(~complete))
                    self._alone_missing += lacking[lacking.sum(axis=1) == 1].sum(axis=0)
                    chunk = chunk.take(complete)
                count += len(chunk)
                if len(chunk):
                    yield chunk
            if not count and self._n_missing > before:
                fault = f"{table.path}: each of the {self._n_missing - before:,} rows has a missing value"
                raise InvalidInputError(
                    f"{fault}{self._costly_column()}; choose columns that are filled with ", Named("columns")
                )
            if not count:
                raise InvalidInputError(f"{table.path} has no rows of data from row {self._reading.first} on")
