"""K-medoid landmarks without the N×N matrix, against building it and the ``kmedoids`` package."""

from __future__ import annotations

import threading
import time

import numpy as np
from harness import Row

from ldmaps.datasets import alanine_dipeptide
from ldmaps.diffusion.pairwise import nearest
from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks import KMedoids
from ldmaps.metrics import RMSD
from ldmaps.metrics.base import squared_matrix


class PeakMemory:
    """Samples resident memory while a block runs; ``extra`` is the rise in bytes."""

    def __enter__(self) -> PeakMemory:
        self.base = self.peak = _resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, _resident())

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self.extra = max(self.peak, _resident()) - self.base


def _resident() -> int:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096


class Medoids:
    n_points, n_landmarks = 20_000, 400

    def __init__(self) -> None:
        data = alanine_dipeptide()
        self.metric = RMSD(weights=data.masses)
        self.points = self.metric.prepare(data.frames[: self.n_points])
        self.weights = np.ones(self.n_points)

    def ours(self) -> np.ndarray:
        chosen = KMedoids(self.n_landmarks, init="random").select(
            Walk(self.metric, self.points, self.weights, 1.0, n_threads=1), np.random.default_rng(0)
        )
        return chosen.indices

    def theirs(self) -> np.ndarray:
        import kmedoids

        distances = np.sqrt(squared_matrix(self.metric, self.points, n_threads=1))
        return kmedoids.alternating(
            distances, self.n_landmarks, max_iter=100, init="random", random_state=0
        ).medoids

    def loss(self, medoids: np.ndarray) -> float:
        _, squared = nearest(self.metric, self.points, self.points.take(np.asarray(medoids, dtype=np.intp)))
        return float(np.sqrt(squared.astype(float)).sum())


def run() -> list[Row]:
    case = Medoids()
    case.points.take(np.arange(100))
    figures = {}
    for name in ("ours", "theirs", "ours", "theirs"):
        with PeakMemory() as memory:
            start = time.perf_counter()
            medoids = getattr(case, name)()
            seconds = time.perf_counter() - start
        best = min(seconds, figures.get(name, (np.inf,))[0])
        figures[name] = best, memory.extra, case.loss(medoids)
    (ours, own_memory, own_loss), (theirs, their_memory, their_loss) = figures["ours"], figures["theirs"]
    return [
        Row(
            f"k-medoids, N = {case.n_points:,} frames, M = {case.n_landmarks}",
            "N×N matrix, kmedoids.alternating",
            f"{ours:.1f} s, {own_memory / 1e6:.0f} MB",
            f"{theirs:.1f} s, {their_memory / 1e6:.0f} MB",
            theirs / ours,
            "> 1×, ≤ 500 MB, loss ≤ 1.02",
            f"loss {own_loss / their_loss:.4f} of theirs; one thread, random seeds",
        )
    ]
