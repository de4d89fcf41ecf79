"""What every file of rows can do: its columns, and its rows a few at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.column_roles import Roles, time_places
from ldmaps.inputs.source import Reading
from ldmaps.inputs.text_columns import find_columns

__all__ = ["Numbered", "Table", "kept_rows"]

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
        """Take these columns only, by name or by number from 1, and the time: that of this name, or called so."""
        if len(self.shape) != 1:
            raise InvalidInputError(
                f"{self.path} holds frames of shape {self.shape}, which have no columns to choose"
            )
        self.places = find_columns(columns, self.columns, self.shape[0], self.path)
        names = self.columns or []
        times = time_places(names, time)
        self.time = next((place for place in times if place not in self.places), None)
        if self.time is None and not names and time is not None:
            (self.time,) = find_columns([time], None, self.shape[0], self.path)
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
