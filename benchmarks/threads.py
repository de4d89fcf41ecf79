"""Two threads against one, on fit and on batch transform."""

from __future__ import annotations

import time

import numpy as np
from harness import Row, median_ratio, turns

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD


def run() -> list[Row]:
    data = alanine_dipeptide()
    cases = {
        "22 atoms, RMSD, N = 25,001": (data.frames, 1.36e-3, RMSD(weights=data.masses)),
        "3-D, N = 200,000": (swiss_roll(200_000).points, 1.0, "euclidean"),
        "3-D, N = 1,000,000": (swiss_roll(1_000_000).points, 1.0, "euclidean"),
    }
    rows = []
    for name, (points, epsilon, metric) in cases.items():
        models = {
            n: LandmarkDiffusionMap(2, epsilon, metric=metric, n_landmarks=1000, n_threads=n).fit(points)
            for n in (1, 2)
        }
        assert np.array_equal(models[1].embedding_, models[2].embedding_)
        fits = [lambda model=model, points=points: model.fit(points) for model in models.values()]
        transforms = [lambda model=model, points=points: model.transform(points) for model in models.values()]
        for what, contestants in (("fit", fits), ("batch transform", transforms)):
            one, two = turns(contestants, rounds=5, clock=time.perf_counter)
            rows.append(
                Row(
                    f"{what} on two threads, M = 1,000, {name}",
                    "one thread",
                    f"{np.median(two):.2f} s",
                    f"{np.median(one):.2f} s",
                    median_ratio(one, two),
                    "≥ 1.7×",
                    "bitwise equal results",
                )
            )
    return rows
