"""Delay windows: consecutive rows of a table, one after the other, as one point, named by the last of them."""

# rows  r0 r1 r2 r3 │ r4 r5 r6 …        │ a gap in time, a row left out, another file
# W = 3: [r0 r1 r2] [r1 r2 r3] │ [r4 r5 r6] …

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.source import CHUNK_BYTES, FrameChunk, PointSource
from ldmaps.settings import check_whole

#: So many median time steps of the training rows make a gap.
GAP_STEPS = 1.5
#: Rows that a length is found from, and the autocorrelation from which on a peak is a period.
HINT_ROWS, HINT_PEAK = 100_000, 0.2


@dataclass(frozen=True)
class Windows:
    """How rows become windows; a model remembers it.

    Parameters
    ----------
    length : int
        Rows to a window, at least 2.
    step : int
        Every ``step``-th window of a stretch without a gap is taken, from its first on.
    gap : float, optional
        Longest time from one row of a window to the next. By default a fit takes 1.5 times the median of its
        training rows; None where these have no times, or most are equal. A row that is missing, a time that
        goes back and another file begin a new window in any case.
    width : int, optional
        Columns of a row; found where rows are cut.

    Examples
    --------
    >>> import numpy as np
    >>> source = Windows(3).of(np.arange(10.0).reshape(5, 2))
    >>> source.read().frames
    array([[0., 1., 2., 3., 4., 5.],
           [2., 3., 4., 5., 6., 7.],
           [4., 5., 6., 7., 8., 9.]])
    """

    length: int
    step: int = 1
    gap: float | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        check_whole("window", self.length, 2)
        check_whole("step", self.step, 1)
        if self.gap is not None and not 0 < self.gap < math.inf:
            raise InvalidInputError(f"gap must be a time above 0, got {self.gap!r}")

    def __str__(self) -> str:
        gap = "" if self.gap is None else f"; windows are not built across gaps longer than {self.gap:g}"
        return f"{self.length} rows of {self.width} column{'s' * (self.width != 1)}, step {self.step}{gap}"

    @classmethod
    def stored(cls, facts: Mapping[str, Any] | None) -> Windows | None:
        """Return the windows that a model was fitted on, by its ``source_``, ``facts``; None if on single rows."""
        kept = (facts or {}).get("windows")
        return None if kept is None else cls(**kept)

    @classmethod
    def suggested(cls, rows: PointSource, step: int = 1) -> Windows:
        """Return windows as long as the rows' period, or where there is none their memory: the median of all columns.

        Of a table, ``rows``, the first 100,000 rows are looked at; ``step`` is that of the windows.
        """
        if "stdin" in rows.files:
            raise InvalidInputError(
                "the automatic window length reads the input twice, which stdin does not allow; use a file, or ",
                Named("window", 64),
            )
        parts, count = list[NDArray[Any]](), 0
        for chunk in rows:
            if count >= HINT_ROWS or (parts and chunk.file != rows.files[0]):
                break
            parts.append(chunk.frames)
            count += len(chunk)
        lags = [_own_lag(column) for column in np.concatenate(parts)[:HINT_ROWS].T]
        known = sorted(lag for lag in lags if lag)
        return cls(max(2, known[len(known) // 2] if known else 2), step)

    def of(self, rows: PointSource | ArrayLike, times: ArrayLike | None = None) -> WindowedSource:
        """Cut rows into windows.

        Parameters
        ----------
        rows : PointSource, or array-like of shape (n, columns)
            A table (:func:`ldmaps.inputs.open_files`), or rows in memory.
        times : array-like of shape (n,), optional
            Of rows in memory.

        Returns
        -------
        WindowedSource
            To be passed to ``fit`` and ``transform``; a point of it is ``length`` rows, the oldest first.
        """
        source = rows if isinstance(rows, PointSource) else _Rows(rows, times)
        if len(source.shape) != 1 or isinstance(source, WindowedSource):
            raise InvalidInputError(
                f"windows are cut out of rows of a table, but {source.describe()} has {source.item}; leave out ",
                Named("window", self.length),
            )
        return WindowedSource(source, replace(self, width=source.shape[0]), learns=self.gap is None)


class Cutter:
    """Cuts rows into windows as they come; keeps the last rows, which windows to come begin with."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tail: NDArray[Any] | None = None  # at most length - 1 rows
        self._run = 0  # rows since the last gap
        self._number, self._time = -1, math.nan  # of the last row

    def cut(
        self, rows: NDArray[Any], numbers: NDArray[np.int64], times: NDArray[np.float64] | None
    ) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the windows that end in these rows, (n, length · columns), and in which row each ends."""
        windows, n = self._windows, len(rows)
        length, width = windows.length, rows.shape[1]
        none = np.empty((0, length * width), dtype=rows.dtype), np.empty(0, dtype=np.intp)
        if not n:
            return none
        moments = np.full(n, np.nan) if times is None else times
        begins = np.diff(numbers, prepend=self._number) != 1
        steps = np.diff(moments, prepend=self._time)
        begins |= steps < 0  # which no step from or to an unknown time is
        if windows.gap is not None:
            begins |= steps > windows.gap
        begins[0] |= self._tail is None
        places = np.arange(n)
        first = np.maximum.accumulate(np.where(begins, places, -1))
        first[first < 0] = -self._run  # which goes on up to the first gap
        runs = places - first + 1
        ends = np.flatnonzero((runs >= length) & ((runs - length) % windows.step == 0))
        held = rows if self._tail is None else np.concatenate([self._tail, rows])
        self._run, self._number, self._time = int(runs[-1]), int(numbers[-1]), float(moments[-1])
        self._tail = held[len(held) - min(self._run, length - 1) :].copy()
        if not len(ends):
            return none
        views = sliding_window_view(np.ascontiguousarray(held).reshape(-1), length * width)[::width]
        starts = ends + (len(held) - n) - (length - 1)
        if (np.diff(starts) == windows.step).all():  # no gap: a view, which takes no memory
            return views[starts[0] : starts[-1] + 1 : windows.step], ends
        return views[starts], ends

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: the rows of the windows under way."""
        rows = np.empty((0, 0)) if self._tail is None else self._tail
        last = [self._run, self._number, self._time]
        return {"step": self._windows.step, "rows": rows.tolist(), "dtype": rows.dtype.str, "last": last}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where a checkpoint was written."""
        if (step := state["step"]) != self._windows.step:
            told = f"the checkpoint was begun with every {step}-th window; resume with "
            raise InvalidInputError(told, Named("step", step))
        self._tail = np.asarray(state["rows"], dtype=np.dtype(state["dtype"])) if state["rows"] else None
        self._run, self._number, self._time = state["last"]


class WindowedSource(PointSource):
    """The windows of a table."""

    item = "windows"
    in_pieces = False

    def __init__(self, rows: PointSource, windows: Windows, *, learns: bool = False) -> None:
        self.rows = rows
        self._learns = learns  # a gap from the times of all rows
        self.windows = windows
        self.files, self.reads_ahead = rows.files, rows.reads_ahead
        self.columns = getattr(rows, "columns", None)
        self.time_column = rows.time_column

    @property
    def shape(self) -> tuple[int, ...]:
        """(length · columns,)."""
        return (self.windows.length * self.rows.shape[0],)

    @property
    def remarks(self) -> list[str]:
        """See :attr:`PointSource.remarks`."""
        return [*self.rows.remarks, f"windows: {self.windows}"]

    def facts(self) -> dict[str, Any]:
        """Return what a model remembers of the rows, and how windows are cut out of them."""
        return {**self.rows.facts(), "windows": asdict(self.windows)}

    def matched(self, facts: Mapping[str, Any] | None, *, match_atoms: bool = False) -> PointSource:
        """Return windows with the model's gaps, or raise where it has others."""
        if not facts:
            return self
        stored = Windows.stored(facts)
        if stored is None or stored.length != self.windows.length:
            of = "single rows" if stored is None else f"windows of {stored.length} rows"
            raise InvalidInputError(
                f"the map was fitted on {of}, but these are windows of {self.windows.length}; cut the same"
            )
        rows = self.rows.matched({name: fact for name, fact in facts.items() if name != "windows"})
        return WindowedSource(rows, replace(stored, step=self.windows.step))

    def read(self) -> FrameChunk:
        """Read all rows; the windows are views of them where there is no gap."""
        rows = self.rows.read()
        if self._learns:
            self.windows, self._learns = replace(self.windows, gap=_gap(rows)), False
        points, ends = Cutter(self.windows).cut(rows.frames, rows.numbers, rows.times)
        if not len(ends):
            length = self.windows.length
            fault = (
                f"{self.describe()} has {len(rows):,} rows, but no {length} consecutive ones without a gap"
            )
            raise InvalidInputError(f"{fault}; choose shorter windows with ", Named("window"))
        return self._weighed(replace(rows.take(ends), frames=points))

    def __iter__(self) -> Iterator[FrameChunk]:
        if self._learns:
            yield self.read()
            return
        cutter = Cutter(self.windows)  # which another file begins anew: the numbers of its rows do
        most = max(1, self.windows.step * CHUNK_BYTES // (8 * self.shape[0]))
        for chunk in self.rows:
            for at in range(0, len(chunk), most):
                part = chunk.take(slice(at, at + most))
                points, ends = cutter.cut(part.frames, part.numbers, part.times)
                if len(ends):
                    yield replace(part.take(ends), frames=points)


class _Rows(PointSource):
    """Rows in memory."""

    def __init__(self, rows: ArrayLike, times: ArrayLike | None) -> None:
        self._values = np.asarray(rows, None if np.asarray(rows).dtype == np.float32 else np.float64)
        self._times = None if times is None else np.asarray(times, dtype=np.float64)
        shapes = [np.shape(given) for given in (rows, times) if given is not None]
        if len(shapes[0]) != 2 or shapes[1:] not in ([], [shapes[0][:1]]):
            raise InvalidInputError(
                f"rows of shape (n, columns) and a time for each are needed, got {' and '.join(map(str, shapes))}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """(columns,)."""
        return self._values.shape[1:]

    def facts(self) -> dict[str, Any]:
        """Return that these are rows of numbers."""
        return {"kind": "table", "columns": None, "files": []}

    def __iter__(self) -> Iterator[FrameChunk]:
        yield FrameChunk(self._values, np.arange(len(self._values)), self._times, "")


def _gap(rows: FrameChunk) -> float | None:
    """Return the time from one row to the next that is a gap, None where times do not tell."""
    if rows.times is None:
        return None
    steps = np.diff(rows.times)[np.diff(rows.numbers) == 1]
    steps = steps[steps >= 0]
    median = float(np.median(steps)) if len(steps) else 0.0
    return GAP_STEPS * median if median > 0 else None


def _own_lag(values: NDArray[Any]) -> int:
    """Return the period of a series, or else how long it remembers; 0 where it does not vary."""
    # The first peak of the autocorrelation that is nearly the highest, or where it has fallen to 1/e.
    series = values.astype(np.float64) - values.mean(dtype=np.float64)
    n = len(series)
    power = np.abs(np.fft.rfft(series, 2 * n)) ** 2
    # Divided by the number of pairs, so that a period far into the series counts as much as an early one.
    rho = np.fft.irfft(power)[: n // 3 + 1] / (n - np.arange(n // 3 + 1))
    if len(rho) < 3 or rho[0] <= 1e-12 * max(1.0, float(np.abs(values).max())) ** 2:
        return 0
    rho /= rho[0]
    inner = np.arange(1, len(rho) - 1)
    is_peak = (rho[inner] >= rho[inner - 1]) & (rho[inner] > rho[inner + 1]) & (rho[inner] > HINT_PEAK)
    is_peak &= inner > (int(np.argmax(rho < 0)) or len(rho))
    peaks = inner[is_peak]
    if len(peaks):
        return int(peaks[rho[peaks] >= 0.9 * rho[peaks].max()][0])
    return int(np.argmax(rho < 1 / math.e)) or len(rho) - 1
