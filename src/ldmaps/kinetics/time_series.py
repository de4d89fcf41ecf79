"""Frames or rows in the order of time: which follow each other, how far apart they are, and what a lag is in rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.opening import InBlocks, is_dask_array
from ldmaps.inputs.source import FrameChunk, PointSource
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.progress import is_shown, stage
from ldmaps.time_units import time_unit

#: Rows of an array that are embedded at a time.
CHUNK_ROWS = 4096
#: How far the time between two frames may be from that between the first two, as a share of it. Times are often stored
#: in single precision, whose rounding is allowed on top.
UNEVEN = 1e-3
_SINGLE = 2.0 * float(np.finfo(np.float32).eps)
#: How far a lag may be from a whole number of frames, in frames.
_OFF_GRID = 0.01


@dataclass(frozen=True)
class Stretch:
    """Consecutive rows of one run."""

    points: NDArray[Any]  # as they come: (n, features) or (n, atoms, 3)
    first_row: int  # counted over all runs
    begins_run: bool
    weights: NDArray[np.float64] | None = None

    @property
    def rows(self) -> slice:
        """Which rows of all these are."""
        return slice(self.first_row, self.first_row + len(self.points))


class TimeSeries:
    """Points of one or several runs, each in the order of time and equally spaced.

    Parameters
    ----------
    model : DiffusionMap or LandmarkDiffusionMap
        Which says what a point is.
    X : array-like, or trajectories and tables
        As for ``model.transform``. Each file is a run. Blocks of rows of a Dask array are computed one after the other;
        files that were opened for workers are read here, in chunks.
    runs : array-like of shape (n,), optional
        Of an array: a number for each row, the same for all rows of one run. By default all are one run.
    sample_weight : array-like of shape (n,), optional
        How much each row counts.
    in_time : bool
        Whether rows must be equally spaced in time.
    """

    def __init__(
        self,
        model: DiffusionEstimator,
        X: Any,
        runs: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        in_time: bool = True,
    ) -> None:
        self._in_time = in_time
        self._blocks = X if is_dask_array(X) else None
        if isinstance(X, InBlocks):
            X = X.source
        self._model = model
        self._points = model.checked_points(X) if self._blocks is None else X
        self._runs = None if runs is None else np.asarray(runs)
        self._weights = _checked_weights(sample_weight)
        if isinstance(self._points, PointSource):
            if runs is not None:
                raise InvalidInputError(
                    "runs is used with arrays only; each file is a run of its own: leave runs out"
                )
            self.item = self._points.item
            self.interval = _interval(self._points) if in_time else None
            of_frames = self.item == "frames"
            self.unit = self.item if self.interval is None else time_unit(of_frames=of_frames)
        else:
            self.item, self.unit, self.interval = "rows", "rows", None
            for name, given in (("runs", self._runs), ("sample_weight", self._weights)):
                if given is not None and given.shape != (len(self._points),):
                    raise InvalidInputError(
                        f"{name} needs one number per row, ({len(self._points)},), got shape {given.shape}"
                    )

    def in_rows(self, lag: float) -> int:
        """Return a ``lag``, in the unit of times or else in rows, as a number of rows."""
        is_number = isinstance(lag, (int, float, np.number)) and not isinstance(lag, bool)
        if not (is_number and math.isfinite(lag) and lag > 0):
            raise InvalidInputError(Named("lag"), f" must be a positive number, got {lag!r}")
        spacing = 1.0 if self.interval is None else self.interval
        rows = round(float(lag) / spacing)
        if rows < 1 or abs(float(lag) / spacing - rows) > _OFF_GRID:
            # One row is the shortest lag there is.
            nearest = sorted({max(1, math.floor(lag / spacing)), max(1, math.ceil(lag / spacing))})
            rule = f" {self.unit} is not a whole number of {self.item}"
            if self.interval is not None:
                rule = f" {self.unit} is not a multiple of the {spacing:g} {self.unit} between {self.item}"
            remedy = " or ".join(f"{rows * spacing:g}" for rows in nearest)
            raise InvalidInputError(Named("lag", float(lag)), f"{rule}; use {remedy}")
        return rows

    def in_units(self, rows: float) -> float:
        """Return a number of rows as a time."""
        return float(rows) * (1.0 if self.interval is None else self.interval)

    def __iter__(self) -> Iterator[Stretch]:
        known = self._points.n_frames if isinstance(self._points, PointSource) else len(self._points)
        # Distances tick as they are computed.
        with stage("embedding", known if is_shown() else None, self.item or "frames"):
            yield from self._weighed()

    def _weighed(self) -> Iterator[Stretch]:
        row = 0
        for points, begins_run in self._stretches():
            weights = None if self._weights is None else self._weights[row : row + len(points)]
            if weights is not None and len(weights) < len(points):
                raise InvalidInputError(
                    f"sample_weight has {len(self._weights)} numbers, fewer than there are {self.item}"  # type: ignore[arg-type]
                )
            yield Stretch(points, row, begins_run, weights)
            row += len(points)
        if self._weights is not None and len(self._weights) != row:
            raise InvalidInputError(f"sample_weight has {len(self._weights)} numbers for {row} {self.item}")

    def _stretches(self) -> Iterator[tuple[NDArray[Any], bool]]:
        """Yield points of one run each, and whether a run begins with them."""
        if self._blocks is not None:
            yield from self._of_blocks(self._blocks)
            return
        if not isinstance(self._points, PointSource):
            yield from _of_array(np.asarray(self._points), self._runs)
            return
        before: FrameChunk | None = None
        for chunk in self._points:
            if not len(chunk):
                continue
            begins_run = before is None or chunk.file != before.file
            if self._in_time:
                _check_spacing(chunk, None if begins_run else before, self.interval)
            yield chunk.frames, begins_run
            before = chunk

    def _of_blocks(self, blocks: Any) -> Iterator[tuple[NDArray[Any], bool]]:
        """Yield the blocks of rows of a Dask array, one after the other in memory."""
        rows = blocks.rechunk(dict.fromkeys(range(1, blocks.ndim), -1))
        row, last = 0, None
        for place in range(rows.numblocks[0]):
            points = np.asarray(self._model.checked_points(rows.blocks[place].compute()))
            runs = None if self._runs is None else self._runs[row : row + len(points)]
            for number, (part, begins_run) in enumerate(_of_array(points, runs)):
                if number == 0 and row > 0:  # which may go on with the run of the block before
                    yield part, runs is not None and runs[0] != last
                else:
                    yield part, begins_run
            row += len(points)
            last = None if runs is None else runs[-1]


def one_of(unit: str) -> str:
    """Return what follows "per" in words."""
    return {"rows": "row", "frames": "frame"}.get(unit, unit)


def _checked_weights(sample_weight: ArrayLike | None) -> NDArray[np.float64] | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInputError(
            "sample_weight must be one finite number of 0 or more per row; remove or repair others"
        )
    if len(weights) and not weights.any():
        raise InvalidInputError("all weights are 0, so no row is used; some must be above 0")
    return weights


def _of_array(points: NDArray[Any], runs: NDArray[Any] | None) -> Iterator[tuple[NDArray[Any], bool]]:
    edges = [] if runs is None else (np.flatnonzero(runs[1:] != runs[:-1]) + 1).tolist()
    begins = [0, *edges]
    for begin, end in zip(begins, [*edges, len(points)], strict=True):
        for start in range(begin, end, CHUNK_ROWS):
            yield points[start : min(start + CHUNK_ROWS, end)], start == begin


def _interval(source: PointSource) -> float | None:
    """Return the time between the first two frames of one file; None where files have no times."""
    first: FrameChunk | None = None
    for chunk in source:
        if chunk.times is None:
            return None
        if first is None or chunk.file != first.file:
            first = chunk
        times = chunk.times if chunk is first else np.append(first.times, chunk.times)  # type: ignore[arg-type]
        if len(times) < 2:
            continue
        spacing = float(times[1] - times[0])
        if times.any() and not spacing > 0:
            raise InvalidInputError(
                f"{source.describe()}: time goes from {times[0]:g} to {times[1]:g}; "
                "frames must be in the order of time"
            )
        return spacing if spacing > 0 else None  # a format without times gives zeros
    raise InvalidInputError(
        f"{source.describe()} has no two {source.item} that follow each other; give longer files"
    )


def _check_spacing(chunk: FrameChunk, before: FrameChunk | None, interval: float | None) -> None:
    """Raise where frames do not follow the one before them at the same distance as all others."""
    if interval is None or chunk.times is None:
        places = chunk.numbers.astype(np.float64)
        expected, known = None, "number"
    else:
        places, expected, known = chunk.times, interval, "time"
    if before is not None:
        last = before.numbers[-1] if known == "number" else before.times[-1]  # type: ignore[index]
        places = np.append(float(last), places)
    steps = np.diff(places)
    if not len(steps):
        return
    expected = float(steps[0]) if expected is None else expected
    allowed = UNEVEN * expected + (_SINGLE * np.abs(places[1:]) if known == "time" else 0.0)
    uneven = np.flatnonzero(np.abs(steps - expected) > allowed)
    if len(uneven):
        place = int(uneven[0])
        raise InvalidInputError(
            f"{chunk.file or 'the data'}: {known} goes from {places[place]:g} to {places[place + 1]:g}, where all "
            f"others are {expected:g} apart. A lag needs equally spaced frames: split the file there, or repair it"
        )
