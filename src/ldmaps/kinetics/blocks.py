"""Sums over stretches of time, kept apart in some tens of blocks, so that results can be held out and resampled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError

#: Blocks are joined with their neighbours when there are more than these.
MOST_BLOCKS = 40
#: Rows of the first blocks, before any are joined.
_FIRST_ROWS = 32
#: Folds that settings are chosen by: each is held out once.
N_FOLDS = 5
#: Fewest blocks that an error can be estimated from.
FEWEST_BLOCKS = 6
#: Fewest rows of one run that make so many.
FEWEST_ROWS = FEWEST_BLOCKS * _FIRST_ROWS


class Sums(Protocol):
    """Numbers that add up over rows."""

    @property
    def n_rows(self) -> int:
        """How many rows."""

    def plus(self, other: Any) -> Any:
        """Return the sums over the rows of both."""


_Sums = TypeVar("_Sums", bound=Sums)


class Blocks(Generic[_Sums]):
    """Sums over consecutive rows in at most 40 blocks of about the same length, whatever the number of rows."""

    def __init__(self) -> None:
        self._blocks: list[_Sums] = []
        self._rows = _FIRST_ROWS  # length of a block

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[_Sums]:
        return iter(self._blocks)

    def pieces(self, n_rows: int) -> Iterator[slice]:
        """Yield slices of so many further rows, each of which :meth:`add` takes next."""
        start = 0
        while start < n_rows:
            room = self._rows - (self._blocks[-1].n_rows if self._blocks else self._rows)
            stop = min(n_rows, start + (room if room > 0 else self._rows))
            yield slice(start, stop)
            start = stop

    def add(self, sums: _Sums, *, begins_run: bool = False) -> None:
        """Add the sums over the next rows, no more than a block may have; a run begins one if the last is half full."""
        last = self._blocks[-1].n_rows if self._blocks else self._rows
        # Thousands of short runs share blocks: otherwise there would be few blocks, each of them far from full.
        if last + sums.n_rows > self._rows or (begins_run and 2 * last >= self._rows):
            self._blocks.append(sums)
        else:
            self._blocks[-1] = self._blocks[-1].plus(sums)
        while len(self._blocks) > MOST_BLOCKS:
            self._rows *= 2
            self._blocks = joined(self._blocks, self._rows)

    def at_least(self, rows: float) -> list[_Sums]:
        """Return blocks of so many rows or more, as far as enough blocks are left to resample."""
        blocks, length = self._blocks, self._rows
        while length < rows:
            length *= 2
            longer = joined(blocks, length)
            if len(longer) < FEWEST_BLOCKS:
                break
            blocks = longer
        return blocks


def joined(blocks: list[_Sums], rows: int) -> list[_Sums]:
    """Return neighbouring blocks joined as long as they have no more rows than these together."""
    longer: list[_Sums] = []
    for block in blocks:
        if longer and longer[-1].n_rows + block.n_rows <= rows:
            longer[-1] = longer[-1].plus(block)
        else:
            longer.append(block)
    return longer


def total(blocks: list[_Sums], counts: NDArray[np.intp] | None = None) -> _Sums:
    """Return the sums over all blocks, or over a sample that holds each of them so many times."""
    added: _Sums | None = None
    for block, count in zip(blocks, counts if counts is not None else [1] * len(blocks), strict=True):
        for _ in range(int(count)):
            added = block if added is None else added.plus(block)
    if added is None:
        raise ValueError("there are no blocks to add up")
    return added


def check_enough(blocks: list[Any], n_rows: int, item: str | None) -> None:
    """Raise where so few blocks cannot be held out and resampled."""
    if len(blocks) < FEWEST_BLOCKS:
        raise InvalidInputError(
            f"{n_rows} {item} are too few: {FEWEST_ROWS} are the least that errors can be estimated from; give more"
        )


def folds(blocks: list[_Sums]) -> Iterator[tuple[_Sums, _Sums]]:
    """Yield what to fit to and what to judge by: every fifth block is held out in turn."""
    n_folds = min(N_FOLDS, len(blocks))
    for fold in range(n_folds if n_folds > 1 else 0):
        held = [block for place, block in enumerate(blocks) if place % n_folds == fold]
        fitted = [block for place, block in enumerate(blocks) if place % n_folds != fold]
        yield total(fitted), total(held)


class Resamples:
    """Draws of blocks with replacement: as many as there are, again and again."""

    def __init__(self, n_blocks: int, n_resamples: int, seed: int = 0) -> None:
        drawn = np.random.default_rng(seed).integers(n_blocks, size=(n_resamples, n_blocks))
        self.counts = np.array([np.bincount(row, minlength=n_blocks) for row in drawn])
        self._n_blocks = n_blocks

    @classmethod
    def of(cls, blocks: list[Any], n_resamples: int = 100, seed: int = 0) -> Self:
        """Draw from these blocks."""
        return cls(len(blocks), n_resamples, seed)

    def errors(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return standard errors from values of all draws, (n_resamples, ...); NaN unless half of them have one."""
        is_known = np.isfinite(values)
        count = np.maximum(is_known.sum(axis=0), 1)
        mean = np.where(is_known, values, 0.0).sum(axis=0) / count
        variance = np.where(is_known, values - mean, 0.0) ** 2
        # A sample of n blocks drawn from n varies by (n − 1)/n of what n new ones would.
        correction = self._n_blocks / max(self._n_blocks - 1, 1)
        errors = np.sqrt(variance.sum(axis=0) / count * correction)
        return np.where(2 * count >= len(values), errors, np.nan)

    @property
    def width(self) -> float:
        """How many standard errors on either side hold 95 %: Student's t, for errors from few blocks are uncertain."""
        from scipy.stats import t

        return float(t.ppf(0.975, max(self._n_blocks - 1, 1)))
