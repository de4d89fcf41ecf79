"""What ldmaps.plan predicts against what a fit takes, each fit in a process of its own.

python benchmarks/planning.py     writes docs/benchmarks/planning.md, .csv
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
from harness import Row, peak_memory, write_table

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD

INTRODUCTION = """\
How good are the predictions of `ldmaps plan`? *Ours* is predicted, *theirs* is measured, *ratio* is predicted over measured
time; the note gives the ratios of memory and of the time per point."""

#: Data, N, and settings of the estimator.
CASES = [
    ("3-D", 20_000, {"n_landmarks": 400, "epsilon": 1.0}),
    ("3-D", 200_000, {"n_landmarks": 1000, "epsilon": 1.0}),
    ("3-D", 300_000, {"n_landmarks": 2000}),
    ("3-D", 16_000, {"n_landmarks": 200, "epsilon": 1.0, "extension": "distilled"}),
    ("300-D", 40_000, {"n_landmarks": 400, "epsilon": 60.0}),
    ("300-D", 10_000, {"n_landmarks": 100}),
    ("22 atoms", 25_000, {"n_landmarks": 400, "epsilon": 1.36e-3}),
    ("22 atoms", 25_000, {"n_landmarks": 1000}),
    ("22 atoms", 10_000, {"n_landmarks": 400, "extension": "distilled"}),
    ("22 atoms", 15_000, {"tolerance": 1.0}),
    ("1,000 atoms", 10_000, {"n_landmarks": 100, "epsilon": 0.5}),
    ("1,000 atoms", 5_000, {"n_landmarks": 100}),
]


def data(kind: str, n: int):
    rng = np.random.default_rng(0)
    if kind == "3-D":
        return swiss_roll(n).points, "euclidean", 3
    if kind == "300-D":
        return rng.normal(size=(n, 300)).astype(np.float32), "euclidean", 300
    if kind == "1,000 atoms":
        frames = np.empty((n, 1000, 3), np.float32)
        centre = rng.normal(size=(1000, 3))
        for frame in frames:
            frame[:] = centre + 0.3 * rng.normal(size=(1000, 3))
        return frames, RMSD(), 1000
    molecule = alanine_dipeptide()
    return molecule.frames[np.arange(n) % len(molecule.frames)], RMSD(weights=molecule.masses), 22


def measure(kind: str, n: int, settings: dict[str, float | int | str]) -> dict[str, float]:
    points, metric, _ = data(kind, n)
    model = LandmarkDiffusionMap(2, metric=metric, **settings)
    # Once untimed, to compile and to have the memory: a virtual machine that has lent its free memory out takes tens
    # of seconds to get gigabytes back.
    model.fit(points)
    peak = peak_memory()
    start = time.perf_counter()
    model.fit(points)
    seconds = time.perf_counter() - start
    few = points[:5000]
    start = time.perf_counter()
    model.transform(few)
    per_point = (time.perf_counter() - start) / len(few)
    return {"seconds": seconds, "bytes": peak, "per_point": per_point, "m": model.embedder_.n_landmarks}


def run() -> list[Row]:
    rows = []
    for kind, n, settings in CASES:
        case = json.dumps((kind, n, settings))
        answer = subprocess.run([sys.executable, __file__, case], capture_output=True, text=True, check=True)
        taken = json.loads(answer.stdout)
        points, metric, width = data(kind, 300)
        planned = ldmaps.plan(n, width, metric, dtype=points.dtype, **settings)
        # A tolerance finds M; the time per point is compared at the M it found.
        per_point = planned.seconds_per_point * taken["m"] / planned.n_landmarks
        words = ", ".join(f"{name.removeprefix('n_')} {value}" for name, value in settings.items())
        rows.append(
            Row(
                f"fit, {kind}, N = {n:,}, {words}",
                "measured",
                f"planned {planned.fit_seconds:.2g} s, {planned.peak_bytes / 1e6:.0f} MB, "
                f"{per_point * 1e6:.2g} µs per point",
                f"{taken['seconds']:.2g} s, {taken['bytes'] / 1e6:.0f} MB, "
                f"{taken['per_point'] * 1e6:.2g} µs per point",
                planned.fit_seconds / taken["seconds"],
                "time within 0.5–2, memory within 0.67–1.5",
                f"memory {planned.peak_bytes / taken['bytes']:.2f}, time per point {per_point / taken['per_point']:.2f}",
            )
        )
        print(rows[-1], file=sys.stderr)
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(*json.loads(sys.argv[1]))))
    else:
        title = "Predicted by plan, and measured"
        write_table("planning", title, "python benchmarks/planning.py", INTRODUCTION, run())
