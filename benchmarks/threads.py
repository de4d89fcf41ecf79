"""Two threads against one, on fit and on batch transform, beside what the machine gives two threads that share nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from harness import Row, median_ratio, turns

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD, Euclidean


def machine_limit() -> list[Callable[[], object]]:
    """Return the same compiled work in two halves one after the other, and both at once; a quarter of a second each."""
    metric = Euclidean()
    points = metric.prepare(np.random.default_rng(0).normal(size=(100_000, 3)))
    scan = metric.nearest_scan(points, points.take(slice(0, 5000)))
    assert scan is not None
    index, squared = np.empty(len(points), dtype=np.intp), np.empty(len(points))
    halves = [slice(0, 50_000), slice(50_000, 100_000)]
    pool = ThreadPoolExecutor(1)

    def half(rows: slice) -> None:
        scan(rows, index[rows], squared[rows])

    def at_once() -> None:
        other = pool.submit(half, halves[1])
        half(halves[0])
        other.result()

    return [lambda: [half(rows) for rows in halves], at_once]


def run() -> list[Row]:
    data = alanine_dipeptide()
    cases = {
        "22 atoms, RMSD, N = 25,001": (data.frames, 1.36e-3, RMSD(weights=data.masses)),
        "3-D, N = 200,000": (swiss_roll(200_000).points, 1.0, "euclidean"),
        "3-D, N = 1,000,000": (swiss_roll(1_000_000).points, 1.0, "euclidean"),
    }
    rows = []
    limit = machine_limit()
    for name, (points, epsilon, metric) in cases.items():
        models = {
            n: LandmarkDiffusionMap(2, epsilon, metric=metric, n_landmarks=1000, n_threads=n).fit(points)
            for n in (1, 2)
        }
        assert np.array_equal(models[1].embedding_, models[2].embedding_)
        fits = [lambda model=model, points=points: model.fit(points) for model in models.values()]
        transforms = [lambda model=model, points=points: model.transform(points) for model in models.values()]
        for what, contestants in (("fit", fits), ("batch transform", transforms)):
            one, two, apart, together = turns([*contestants, *limit], rounds=9, clock=time.perf_counter)
            rows.append(
                Row(
                    f"{what} on two threads, {name}",
                    "one thread",
                    f"{np.median(two):.2f} s",
                    f"{np.median(one):.2f} s",
                    median_ratio(one, two),
                    "≥ 1.7×",
                    "bitwise equal results; two loops that share nothing gained "
                    f"{median_ratio(apart, together):.2f}× in the same turns",
                )
            )
    return rows
