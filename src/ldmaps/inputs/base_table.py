"""What every file of rows can do: its columns, and its rows a few at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.text_columns import find_columns

__all__ = ["Table"]


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
