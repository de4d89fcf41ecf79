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

#: Data, N, M, extension, ε.
CASES = [
    ("3-D", 20_000, 400, "nystrom", 1.0),
    ("3-D", 200_000, 1000, "nystrom", 1.0),
    ("3-D", 16_000, 200, "distilled", 1.0),
    ("3-D", 8_000, 400, "nystrom", "connected"),
    ("22 atoms", 25_000, 400, "nystrom", 1.36e-3),
    ("22 atoms", 25_000, 1000, "nystrom", 1.36e-3),
    ("22 atoms", 10_000, 100, "distilled", 1.36e-3),
    ("22 atoms", 10_000, 400, "distilled", "connected"),
]


def data(kind: str, n: int):
    if kind == "3-D":
        return swiss_roll(n).points, "euclidean", 3
    molecule = alanine_dipeptide()
    return molecule.frames[np.arange(n) % len(molecule.frames)], RMSD(weights=molecule.masses), 22


def measure(kind: str, n: int, m: int, extension: str, epsilon: float | str) -> dict[str, float]:
    points, metric, size = data(kind, n)
    settings = {"epsilon": epsilon, "metric": metric, "extension": extension}
    # Compile, and grow the process to what it needs for a small one.
    LandmarkDiffusionMap(2, n_landmarks=20, **{**settings, "epsilon": "connected"}).fit(points[:300])
    planned = ldmaps.plan(
        n, size, metric, m, extension=extension, epsilon=epsilon, dtype=points.dtype, n_components=2
    )
    model = LandmarkDiffusionMap(2, n_landmarks=m, **settings)
    before = peak_memory()
    # Once untimed: a virtual machine that has lent its free memory out takes tens of seconds to get gigabytes back.
    model.fit(points)
    start = time.perf_counter()
    model.fit(points)
    seconds = time.perf_counter() - start
    after = peak_memory()
    few = points[:5000]
    start = time.perf_counter()
    model.transform(few)
    batch = (time.perf_counter() - start) / len(few)
    return {
        "seconds": seconds,
        "planned_seconds": planned.fit_seconds,
        "bytes": after - before,
        "planned_bytes": planned.peak_bytes,
        "point": batch,
        "planned_point": planned.seconds_per_point,
    }


def run() -> list[Row]:
    rows = []
    for case in CASES:
        answer = subprocess.run(
            [sys.executable, __file__, json.dumps(case)], capture_output=True, text=True, check=True
        )
        found = json.loads(answer.stdout)
        kind, n, m, extension, epsilon = case
        # What a small fit needs at its highest is there already, and hides what a slightly larger one adds.
        memory = f"memory {found['planned_bytes'] / found['bytes']:.2f}, " if found["bytes"] > 5e7 else ""
        shown = "connected ε" if epsilon == "connected" else "ε given"
        rows.append(
            Row(
                f"fit, {kind}, N = {n:,}, M = {m:,}, {extension}, {shown}",
                "measured",
                f"planned {found['planned_seconds']:.2g} s, {found['planned_bytes'] / 1e6:.0f} MB, "
                f"{found['planned_point'] * 1e6:.2g} µs a point",
                f"{found['seconds']:.2g} s, {found['bytes'] / 1e6:.0f} MB, {found['point'] * 1e6:.2g} µs a point",
                found["planned_seconds"] / found["seconds"],
                "time within 0.5–2",
                f"{memory}time a point {found['planned_point'] / found['point']:.2f}",
            )
        )
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(*json.loads(sys.argv[1]))))
    else:
        write_table(
            "planning", "What plan predicts and what a fit takes", "python benchmarks/planning.py", run()
        )
