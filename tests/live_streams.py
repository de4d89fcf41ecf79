"""Made-up streams for the live page: batches as a stream's embedder hands them to its sinks."""

from __future__ import annotations

import threading
import time

import numpy as np

from ldmaps.streaming import Embedded, Records, Rejected
from ldmaps.validation.outside_reasons import reasons


def embedded(model, points, first=0, tracker=None, rejected=0, times=True):
    """Place points on a map, numbered from ``first`` on."""
    embedder = model.embedder_
    extended = embedder.extend(embedder.prepare(points), 1)
    coverage = embedder.coverage_of(extended)
    numbers = np.arange(first, first + len(points))
    clock = 0.5 * numbers if times else None
    labels, events = np.full(len(points), -1), ()
    if tracker is not None:

        def explain(row):
            return reasons(model, points[row], int(coverage.nearest[row]))

        labels, events = tracker.update(extended.coordinates, coverage, numbers, clock, explain)
    bad = tuple(Rejected(int(first), "3 numbers are needed, got 2") for _ in range(rejected))
    arrived = np.full(len(points), time.monotonic() - 0.002)
    records = Records(points, numbers, clock, arrived, bad)
    return Embedded(records, extended.coordinates, coverage, labels, events)


class Feeder:
    """Writes points round and round to a page from a thread, until its end; use as a context manager."""

    def __init__(self, page, model, points, tracker=None, batch=8, pause=0.02):
        self._settings = page, model, points, tracker, batch, pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.written = 0

    def _run(self):
        page, model, points, tracker, batch, pause = self._settings
        while not self._stop.wait(pause):
            rows = np.arange(self.written, self.written + batch) % len(points)
            page.write(embedded(model, points[rows], self.written, tracker))
            self.written += batch

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive()
