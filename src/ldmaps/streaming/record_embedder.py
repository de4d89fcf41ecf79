"""One step of a stream: records in, the same records with their place on the map out; what has none is set aside."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import BadRecordError, InvalidInputError, one_line
from ldmaps.extension.embedder import Coverage, Embedder
from ldmaps.inputs.windows import Cutter, Windows
from ldmaps.point_faults import bad_value, wrong_width
from ldmaps.regions.tracker import Event, RegionTracker
from ldmaps.streaming.records import Embedded, Records, Rejected
from ldmaps.streaming.sources import model_facts
from ldmaps.validation.outside_reasons import reasons

_NO_REGION = np.array([-1], dtype=np.intp)
_NO_REGION.flags.writeable = False


class RecordEmbedder:
    """Embeds records, wherever they come from and wherever they go; the model may be a file of one."""

    def __init__(
        self, model: Any, *, tracker: RegionTracker | None = None, n_threads: int | None = None
    ) -> None:
        if isinstance(model, (str, os.PathLike)):
            from ldmaps.maps.loading import load

            model = load(model)
        if not hasattr(model, "embedder_"):
            raise InvalidInputError(
                f"a fitted map is needed, got {model!r}; call fit first. A pipeline's scaler is not part of its map: "
                "fit the map alone with metric=StandardizedEuclidean(), and its file has the scales"
            )
        self.model = model
        self.n_threads = n_threads
        self._embedder: Embedder = model.embedder_
        self._facts = model_facts(model)
        self.windows = Windows.stored(self._facts)
        self.cutter: Cutter | None = None  # of the stream under way
        record = model.map_.record
        self._names = None if record is None else record.names
        self.tracker = tracker

    @property
    def tracker(self) -> RegionTracker | None:
        """What follows the stream through regions, which must fit the map."""
        return self._tracker

    @tracker.setter
    def tracker(self, tracker: RegionTracker | None) -> None:
        for region in () if tracker is None else tracker.regions.values():
            region.check_model(self.model)
        self._tracker = tracker

    def embed(self, records: Records) -> Embedded:
        """Embed consecutive ``records``; those that cannot be join the rejected ones. Only the tracker is changed."""
        width = self._facts.get("n_features")  # of a row
        if self.windows is not None:
            if records.points.shape[1:] != (self.model.n_features_in_,):
                records = self._cut(records, self.windows)
            width = self.model.n_features_in_
        if not len(records):
            return self._nothing(records)
        try:
            projected = self._embedder.project(records.points, self.n_threads)
        except InvalidInputError:
            records = _repaired(records, self._embedder, width)
            if not len(records):
                return self._nothing(records)
            projected = self._embedder.project(records.points, self.n_threads)
        coordinates, coverage = projected.coordinates, projected.coverage
        events: tuple[Event, ...] = ()
        tracker = self._tracker
        if tracker is None:
            n = len(records)
            regions = _NO_REGION if n == 1 else np.full(n, -1, dtype=np.intp)
        else:

            def explain(row: int) -> tuple[tuple[str, float], ...]:
                return reasons(self.model, records.points[row], int(coverage.nearest[row]))

            regions, events = tracker.update(coordinates, coverage, records.numbers, records.times, explain)
        return Embedded(records, coordinates, coverage, regions, events, self._names)

    def _cut(self, records: Records, windows: Windows) -> Records:
        """Return the windows that end in some rows."""
        if len(records):
            records = _without(records, _faults(records, self._facts["n_features"]))
        if not len(records):
            return records
        self.cutter = self.cutter or Cutter(windows)
        points, ends = self.cutter.cut(records.points, records.numbers, records.times)
        times = None if records.times is None else records.times[ends]
        numbers, arrived = records.numbers[ends], records.arrived[ends]
        return Records(points, numbers, times, arrived, records.rejected, records.position)

    def warm_up(self) -> None:
        """Begin anew, and make what the first point needs before the clock of the first record runs."""
        self.cutter = None if self.windows is None else Cutter(self.windows)
        with suppress(Exception):  # distances that are only looked up cannot be asked for here
            self._embedder.extend(self._embedder.landmarks.take(np.zeros(1, dtype=np.intp)), 1)

    def _nothing(self, records: Records) -> Embedded:
        dtype, nearest = self._embedder.coefficients.dtype, np.empty(0, dtype=np.intp)
        coverage = Coverage(np.empty(0, dtype=dtype), np.empty(0, dtype=bool), nearest)
        nothing = np.empty((0, self._embedder.n_components), dtype=dtype)
        return Embedded(records, nothing, coverage, nearest, names=self._names)


def judged(embedded: Embedded, bad_records: str, missing: str) -> tuple[Embedded, BadRecordError | None]:
    """Return what may be passed on, and the error that the first bad record is where such a one ends the stream."""
    ends = bad_records == "raise"
    fatal = [one for one in embedded.rejected if ends or (one.missing and missing == "error")]
    if not fatal:
        return embedded, None
    first = min(fatal, key=lambda one: one.number)
    received = f" (received {first.raw[:80]!r})" if first.raw else ""
    error = BadRecordError(f"record {first.number} cannot be embedded: {first.reason}{received}")
    return embedded.take(embedded.numbers < first.number), error


def _repaired(records: Records, embedder: Embedder, width: int | None) -> Records:
    """Set aside the records that cannot be embedded; return the others."""
    reasons = _faults(records, width, embedder.metric.takes_frames)
    kept = _without(records, reasons)
    if not len(kept):
        return kept
    try:
        embedder.prepare(kept.points)
    except InvalidInputError:  # the metric has a rule of its own: find out who breaks it
        for row in sorted({*range(len(records))} - {*reasons}):
            try:
                embedder.prepare(records.points[row : row + 1])
            except InvalidInputError as error:
                reasons[row] = one_line(error)
        kept = _without(records, reasons)
    return kept


def _faults(records: Records, width: int | None, takes_frames: bool = False) -> dict[int, str]:
    """Return what is wrong with rows: all are of another width, or some are not finite."""
    points = np.asarray(records.points)
    reason = None if width is None else wrong_width(points.shape[1:], width, takes_frames=takes_frames)
    if reason is not None:
        return dict.fromkeys(range(len(points)), reason)
    if points.dtype.kind != "f":
        return {}
    bad = np.flatnonzero(~np.isfinite(points.reshape(len(points), -1)).all(axis=1)).tolist()
    return {row: "{} at {} is not a finite number".format(*bad_value(points[row])) for row in bad}


def _without(records: Records, reasons: dict[int, str]) -> Records:
    """Return records without some of their rows, which become rejected ones."""
    keep = np.ones(len(records), dtype=bool)
    keep[list(reasons)] = False
    bad = [_rejected(int(records.numbers[row]), why, records.points[row]) for row, why in reasons.items()]
    rejected = sorted((*records.rejected, *bad), key=lambda one: one.number)
    return records.take(keep, tuple(rejected), records.position)


def _rejected(number: int, reason: str, point: NDArray[Any]) -> Rejected:
    values = np.ravel(point)
    raw = ", ".join(f"{value:.6g}" for value in values[:12].tolist()) + ", ..." * (len(values) > 12)
    return Rejected(number, reason, raw, bool(np.isnan(point).any()))
