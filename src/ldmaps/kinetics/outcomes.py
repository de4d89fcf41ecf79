"""Where frames went: whether the committor of some frames is the share of them that reached the target first.

A committor is a martingale: with s the first entry into a set, or the end of the run if it ends before,

    ⟨q(x_t)⟩ = ⟨q(x_s)⟩    over frames of any range of q

where q(x_s) is 0 or 1 in a set. Functions that are too smooth, or too few, show here and not in their standard error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.kinetics.frame_sample import FrameSample

#: Ranges of q in which frames are compared.
EDGES = (0.1, 0.3, 0.5, 0.7, 0.9)
#: A difference is one if it is this large, and this many times what chance makes of it.
LEAST_DIFFERENCE, CERTAIN = 0.1, 3.0
#: Most frames that are kept, and most bytes of them: many, for few are in the middle.
_MOST_FRAMES, _MOST_BYTES = 200_000, 64 << 20

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Level:
    """Frames at which q is about the same."""

    value: float  # mean q
    arrived: float  # share of them that reached the target first
    error: float  # standard deviation of that, if q is right
    visits: float  # effective number of independent ones: frames with the same next entry count together

    @property
    def is_off(self) -> bool:
        """Whether more or fewer reached the target than q has it, beyond doubt."""
        difference = abs(self.arrived - self.value)
        return difference > LEAST_DIFFERENCE and difference > CERTAIN * self.error


class Outcomes:
    """Takes frames in the order of time and keeps some that are in no set, until it is known where they went."""

    def __init__(self) -> None:
        self._sample = FrameSample(_MOST_FRAMES, _MOST_BYTES)
        self._n_frames = self._n_between = 0
        self._stopped: list[NDArray[np.intp]] = []  # rows in a set that follow one in none
        self._arrived: list[_Mask] = []  # which of these are in the target
        self._was_stopped = False  # the last row
        self._begins: list[int] = []  # first row of each run
        self._last: list[NDArray[Any]] = []  # last frame of each run, of the run that goes on as well

    def add(
        self, points: NDArray[Any], stops: _Mask, arrives: _Mask, weights: _Array, *, begins_run: bool
    ) -> None:
        """Add frames that follow those before, or begin a run; ``arrives`` are those in the target."""
        if not len(points):
            return
        if begins_run or not self._begins:
            self._begins.append(self._n_frames)
            self._last.append(points[-1:])
        self._last[-1] = points[-1:].copy()
        rows, between = np.arange(self._n_frames, self._n_frames + len(points)), ~stops
        entries = stops & ~np.append(self._was_stopped, stops[:-1])
        self._stopped.append(rows[entries])
        self._arrived.append(arrives[entries])
        self._was_stopped = bool(stops[-1])
        self._sample.add(self._n_between, points[between], rows[between], weights[between])
        self._n_frames += len(points)
        self._n_between += int(between.sum())

    def levels(self, values_at: Callable[[NDArray[Any]], _Array]) -> list[Level]:
        """Return the mean q and where frames went, in each range of q that has any; ``values_at`` returns q."""
        points, rows, weights = self._sample.columns()
        values = values_at(points)
        stopped, arrived = np.concatenate(self._stopped), np.concatenate(self._arrived)
        run = np.searchsorted(self._begins, rows, side="right") - 1
        ends = np.append(self._begins[1:], self._n_frames)[run]
        # The next entry of each frame; a run that ends before has its end in the place of one.
        place = np.searchsorted(stopped, rows)
        following = np.append(stopped, self._n_frames)[place]
        is_open = following >= ends
        became = np.append(arrived, False)[place].astype(np.float64)
        became[is_open] = values_at(np.concatenate(self._last))[run[is_open]]
        event = np.where(is_open, ends - 1, following)
        levels = []
        for low, high in itertools.pairwise(EDGES):
            chosen = (values >= low) & (values < high) & (weights > 0)
            if not chosen.any():
                continue
            own = weights[chosen]
            per_visit = np.bincount(np.unique(event[chosen], return_inverse=True)[1], own)
            visits = float(per_visit.sum() ** 2 / (per_visit**2).sum())
            value = float(np.average(values[chosen], weights=own))
            share = float(np.average(became[chosen], weights=own))
            levels.append(Level(value, share, float(np.sqrt(value * (1.0 - value) / visits)), visits))
        return levels
