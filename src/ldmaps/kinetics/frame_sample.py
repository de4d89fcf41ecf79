"""Some of the frames of a series, evenly spread, for what cannot be had from sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Most frames, and most bytes of them.
MOST_FRAMES = 20_000
MOST_BYTES = 256 << 20


class FrameSample:
    """Every so-many-th frame, as many as memory allows, whatever the number of frames."""

    def __init__(self, most_frames: int = MOST_FRAMES, most_bytes: int = MOST_BYTES) -> None:
        self._most_frames, self._most_bytes = most_frames, most_bytes
        self._stride = 1
        self._rows: list[NDArray[np.intp]] = []
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self._count = 0

    def add(self, first_row: int, *columns: NDArray[Any]) -> None:
        """Take from consecutive frames; each of ``columns`` has one entry per frame, the first is the frames."""
        rows = np.arange(first_row, first_row + len(columns[0]))
        self._keep(rows, columns)
        most = min(self._most_frames, max(1000, self._most_bytes // max(1, columns[0][:1].nbytes)))
        while self._count > most:
            self._stride *= 2
            rows_kept, kept, self._rows, self._parts, self._count = self._rows, self._parts, [], [], 0
            for own, part in zip(rows_kept, kept, strict=True):
                self._keep(own, part)

    def _keep(self, rows: NDArray[np.intp], columns: tuple[NDArray[Any], ...]) -> None:
        chosen = rows % self._stride == 0
        if chosen.any():
            self._rows.append(rows[chosen])
            self._parts.append(tuple(column[chosen] for column in columns))
            self._count += int(chosen.sum())

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return what was kept, in order."""
        return tuple(np.concatenate(parts) for parts in zip(*self._parts, strict=True))
