"""One step of a stream: records in, the same records with their place on the map out."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import numpy as np

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage, Embedder
from ldmaps.inputs.windows import Cutter, Windows
from ldmaps.maps.reasons import reasons
from ldmaps.regions.tracker import Event, RegionTracker
from ldmaps.streaming.records import Embedded, Records
from ldmaps.streaming.rejecting import repaired, whole_rows
from ldmaps.streaming.sources import model_facts

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
                "fit the map alone with metric=Scaled(), and its file has the scales"
            )
        self.model = model
        self.tracker = tracker
        self.n_threads = n_threads
        self._embedder: Embedder = model.embedder_
        self._facts = model_facts(model)
        self.windows = Windows.stored(self._facts)
        self.cutter: Cutter | None = None  # of the stream under way

    def embed(self, records: Records) -> Embedded:
        """Embed records; those that cannot be are added to the rejected ones. Only the tracker is changed.

        Parameters
        ----------
        records : Records
            Consecutive records of the stream.
        """
        if self.windows is not None and records.points.shape[1:] != (self.model.n_features_in_,):
            records = self._cut(records, self.windows)
        if not len(records):
            return self._nothing(records)
        try:
            placed = self._embedder.place(records.points, self.n_threads)
        except InvalidInputError:
            width = self._facts.get("n_features") if self.windows is None else self.model.n_features_in_
            records = repaired(records, self._embedder, width)
            if not len(records):
                return self._nothing(records)
            placed = self._embedder.place(records.points, self.n_threads)
        coordinates, coverage = placed.coordinates, placed.coverage
        events: tuple[Event, ...] = ()
        if self.tracker is None:
            n = len(records)
            regions = _NO_REGION if n == 1 else np.full(n, -1, dtype=np.intp)
        else:

            def explain(row: int) -> tuple[tuple[str, float], ...]:
                return reasons(self.model, records.points[row], int(coverage.nearest[row]))

            regions, events = self.tracker.update(
                coordinates, coverage, records.numbers, records.times, explain
            )
        return Embedded(records, coordinates, coverage, regions, events)

    def _cut(self, records: Records, windows: Windows) -> Records:
        """Return the windows that end in some rows."""
        rows = whole_rows(records, self._facts["n_features"]) if len(records) else records
        if not len(rows):
            return rows
        self.cutter = self.cutter or Cutter(windows)
        points, ends = self.cutter.cut(rows.points, rows.numbers, rows.times)
        times = None if rows.times is None else rows.times[ends]
        return Records(points, rows.numbers[ends], times, rows.arrived[ends], rows.rejected, rows.position)

    def warm_up(self) -> None:
        """Begin anew, and make what the first point needs before the clock of the first record runs."""
        self.cutter = None if self.windows is None else Cutter(self.windows)
        with suppress(Exception):  # distances that are only looked up cannot be asked for here
            self._embedder.extend(self._embedder.landmarks.take(np.zeros(1, dtype=np.intp)), 1)

    def _nothing(self, records: Records) -> Embedded:
        dtype, nearest = self._embedder.coefficients.dtype, np.empty(0, dtype=np.intp)
        coverage = Coverage(np.empty(0, dtype=dtype), np.empty(0, dtype=bool), nearest)
        return Embedded(records, np.empty((0, self._embedder.n_components), dtype=dtype), coverage, nearest)
