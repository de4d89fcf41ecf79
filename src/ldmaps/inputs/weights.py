"""Weights of points from another file, whose rows belong to points by file and frame, by time, or by their order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.column_roles import find_columns, moment
from ldmaps.inputs.source import FrameChunk
from ldmaps.inputs.tables import read_columns, read_numbers
from ldmaps.time_units import are_dates, date_text, time_unit

#: Two times of frames, in ps, are the same within this and a millionth of themselves: trajectory files round them.
SAME_TIME = 1e-3
#: Two times of rows of a table are the same within this share of the time between weights. Not of the times themselves:
#: a millionth of a date, which counts the seconds since 1970, is half an hour.
SAME_TIME_OF_ROWS = 0.01
#: Columns that say which point a row is about.
_KEYS = ("file", "frame", "time")


@dataclass(frozen=True)
class WeightTable:
    """Weights, and which point each belongs to."""

    name: str  # what messages call it
    values: NDArray[np.float64]  # (n,): weights, or energies of a bias in units of ``kt``
    # (n,): of the point that each is for
    frames: NDArray[np.int64] | None = None
    times: NDArray[np.float64] | None = None
    files: NDArray[Any] | None = None
    kt: float | None = None  # if given, a point weighs exp(value / kt)

    @classmethod
    def read(
        cls, path: str, column: str | None = None, kt: float | None = None, *, are_weights: bool = True
    ) -> WeightTable:
        """Read a file; what are not weights may be any numbers, for :meth:`values_of`."""
        columns = read_columns(path, named=False)
        column = _column(path, columns, column)
        if are_weights and kt is None and column.lower().endswith("bias"):
            fault = f"column {column} of {path} holds bias energies by its name, not weights"
            remedy = "; give k_BT in the unit of the energies (", Named("kt", 2.494), " is 300 K in kJ/mol)"
            raise InvalidInputError(fault, *remedy)
        if kt is not None and not 0 < kt < np.inf:
            raise InvalidInputError(
                Named("kt"), f" must be a number above 0, k_BT in the unit of the bias, got {kt!r}"
            )
        values = _finite(path, column, columns[column])
        frames, times, files = (columns.get(name) for name in ("frame", "time", "file"))
        # What ldmaps embed does not know it leaves empty.
        if times is not None and times.dtype == object and not all(str(value).strip() for value in times):
            times = None
        return cls(
            f"{path}:{column}" if len(columns) > 1 else path,
            values,
            None if frames is None else _finite(path, "frame", frames).astype(np.int64),
            None if times is None else _times(path, times),
            None if files is None else np.asarray(files, dtype=str),
            kt,
        )

    @classmethod
    def of_column(cls, column: str, paths: Sequence[str], kt: float | None = None) -> WeightTable:
        """Read the weights of tables' rows from a column of theirs."""
        parts = [read_numbers(path, column) for path in paths]
        return cls(
            f"column {column}",
            np.concatenate(parts),
            np.concatenate([np.arange(len(part)) for part in parts]),
            None,
            np.concatenate([np.full(len(part), path) for path, part in zip(paths, parts, strict=True)]),
            kt,
        )

    def values_of(self, points: FrameChunk, files: Sequence[str]) -> NDArray[np.float64]:
        """Return the number of each point of a source as it is, or raise."""
        return np.asarray(self.values[self._rows(points, files)])

    def of(self, points: FrameChunk, files: Sequence[str]) -> NDArray[np.float64]:
        """Return the weight of each point of a source, or raise."""
        rows = self._rows(points, files)
        values = self.values[rows]
        if self.kt is not None:
            weights = np.exp((values - values.max()) / self.kt)
            return np.asarray(weights / weights.mean())
        if (values < 0).any():
            fault = f"{self.name}: a weight must not be negative, got {values[values < 0][0]:g}"
            remedy = "; if these are bias energies, also give k_BT in their unit ("
            raise InvalidInputError(fault, remedy, Named("kt"), ")")
        return values

    def _rows(self, points: FrameChunk, files: Sequence[str]) -> NDArray[np.intp]:
        n, several = len(points), len(files) > 1
        if self.frames is not None and (self.files is not None or not several):
            return self._rows_of_frames(points, files)
        times = points.times
        if self.times is not None and times is not None and len(np.unique(times)) == n:
            return self._rows_of_times(points, times)
        if len(self.values) != n:
            by_time = several and self.times is not None
            why = ", because the same times occur in several files" if by_time else ""
            raise InvalidInputError(
                f"{self.name} ({len(self.values):,} rows) cannot be matched to {n:,} points{why}; provide one row per "
                "point that is read, or columns file and frame, or time"
            )
        return np.arange(n)

    def _rows_of_frames(self, points: FrameChunk, files: Sequence[str]) -> NDArray[np.intp]:
        known = {name: place for place, name in enumerate(files)}
        own = (
            [0] * len(self.values) if self.files is None else [known.get(str(one), -1) for one in self.files]
        )
        row_of = {key: row for row, key in enumerate(zip(own, np.asarray(self.frames).tolist(), strict=True))}
        places = [0] * len(points) if points.files is None else points.files.tolist()
        rows = [row_of.get(key, -1) for key in zip(places, points.numbers.tolist(), strict=True)]
        if -1 in rows:
            point = rows.index(-1)
            file = files[places[point]] if files else "the data"
            raise InvalidInputError(
                f"{self.name} has no row for frame {points.numbers[point]} of {file} ({rows.count(-1):,} of "
                f"{len(points):,} points have none); give file names and frames as they are read"
            )
        return np.asarray(rows, dtype=np.intp)

    def _rows_of_times(self, points: FrameChunk, times: NDArray[np.float64]) -> NDArray[np.intp]:
        own = np.asarray(self.times)
        are_frames = points.frames.ndim == 3
        tolerance = SAME_TIME + 1e-6 * np.abs(times) if are_frames else SAME_TIME_OF_ROWS * _interval(own)
        # Of rows of the same time the last counts: a restarted run writes the end of the one before again.
        order = np.argsort(own, kind="stable")
        after = np.searchsorted(own[order], times + tolerance, side="right") - 1
        rows = order[np.maximum(after, 0)]
        unmatched = np.abs(own[rows] - times) > tolerance
        if unmatched.any():
            bad = int(np.argmax(unmatched))
            nearest = own[np.argmin(np.abs(own - times[bad]))]
            item = "frame" if are_frames else "row"
            unit = time_unit(of_frames=are_frames)
            raise InvalidInputError(
                f"{self.name} has no row at {_time_text(times[bad], unit)}, the time of {item} "
                f"{int(points.numbers[bad])}; the nearest is {_time_text(nearest, unit)} ({int(unmatched.sum()):,} of "
                f"{len(points):,} {item}s have none). Provide a row for every {item}, or remove the time column to "
                f"match rows to {item}s in order"
            )
        return np.asarray(rows, dtype=np.intp)


def _interval(times: NDArray[np.float64]) -> float:
    """Return the median step between different times; 0 where there is only one."""
    steps = np.diff(np.unique(times))
    return float(np.median(steps)) if len(steps) else 0.0


def _time_text(time: float, unit: str) -> str:
    return date_text(time) if are_dates(unit, time) else f"{time:.10g} {unit}"


def split_column(what: str) -> tuple[str | None, str | None]:
    """Return the file and the column that ``FILE``, ``FILE:COLUMN`` or ``COLUMN`` names; None for what it does not."""
    if os.path.exists(what):
        return what, None
    path, colon, column = what.rpartition(":")
    return (path, column) if colon and os.path.exists(path) else (None, what)


def _column(path: str, columns: dict[str, NDArray[Any]], wanted: str | None) -> str:
    names = list(columns)
    if wanted is not None:
        return names[find_columns([wanted], names, len(names), path)[0]]
    numbers = [name for name in names if name not in _KEYS]
    if len(numbers) == 1:
        return numbers[0]
    if "weight" in columns:
        return "weight"
    raise InvalidInputError(f"{path} has several columns ({', '.join(names)}); name one: {path}:COLUMN")


def _times(path: str, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return times: numbers as they are, dates as seconds since 1970."""
    if values.dtype.kind in "iuf":
        return _finite(path, "time", values)
    try:
        seconds = np.array([moment(str(value)) for value in values], dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{path}, column time: {error}; write numbers, or dates such as 2024-05-01T12:00:00"
        ) from error
    return _finite(path, "time", seconds)


def _finite(path: str, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    try:
        numbers = values.astype(np.float64)
    except ValueError as error:
        raise InvalidInputError(f"{path}, column {name}: {error}; correct it") from error
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise InvalidInputError(f"{path}, column {name}, row {row}: {numbers[row]} is not finite; correct it")
    return numbers
