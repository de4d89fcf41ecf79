"""What ldmaps.plan predicts against what a fit takes, each fit in a process of its own.

python benchmarks/planning.py     writes docs/benchmarks/planning.md, .csv
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import numpy as np
from harness import Row, peak_memory, write_table

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD

#: What the page calls the columns.
SHOWN = {"what": "fit", "ours": "predicted", "theirs": "measured"}
#: Rows that the CSV alone has.
HIDDEN = ("3-D, N = 60,000", "300-D, N = 10,000", "landmarks 1000")
INTRODUCTION = """\
How good are the predictions of `ldmaps.plan(points)`? Seconds and memory of a fit, and time per new point. Plan and fit run one after the
other, so other work on the machine shows."""

#: Data, N, and settings of the estimator.
CASES = [
    ("3-D", 20_000, {"n_landmarks": 400, "epsilon": 1.0}),
    ("3-D", 300_000, {"n_landmarks": 2000, "epsilon": 1.0}),
    ("3-D", 60_000, {"n_landmarks": 2000}),
    ("3-D", 16_000, {"n_landmarks": 200, "epsilon": 1.0, "extension": "distilled"}),
    ("300-D", 40_000, {"n_landmarks": 400, "epsilon": 60.0}),
    ("300-D", 10_000, {"n_landmarks": 100}),
    ("22 atoms", 25_000, {"n_landmarks": 400, "epsilon": 1.36e-3}),
    ("22 atoms", 25_000, {"n_landmarks": 1000}),
    ("22 atoms", 10_000, {"n_landmarks": 400, "extension": "distilled"}),
    ("22 atoms", 50_000, {"n_landmarks": 200, "extension": "distilled"}),
    ("22 atoms", 15_000, {"tolerance": 1.0}),
    ("1,000 atoms", 10_000, {"n_landmarks": 100, "epsilon": 0.5}),
]


def data(kind: str, n: int):
    rng = np.random.default_rng(0)
    if kind == "3-D":
        return swiss_roll(n).points, "euclidean"
    if kind == "300-D":
        return rng.normal(size=(n, 300)).astype(np.float32), "euclidean"
    if kind == "1,000 atoms":
        frames = np.empty((n, 1000, 3), np.float32)
        centre = rng.normal(size=(1000, 3))
        for frame in frames:
            frame[:] = centre + 0.3 * rng.normal(size=(1000, 3))
        return frames, RMSD()
    molecule = alanine_dipeptide()
    frames = molecule.frames[np.arange(n) % len(molecule.frames)]
    if n > len(molecule.frames):  # jittered, as frames that stand there twice are cheaper
        frames = frames + rng.normal(scale=0.005, size=frames.shape).astype(np.float32)
    return frames, RMSD(weights=molecule.masses)


def measure(kind: str, n: int, settings: dict[str, float | int | str]) -> dict[str, float]:
    points, metric = data(kind, n)
    model = LandmarkDiffusionMap(2, metric=metric, **settings)
    # Once untimed, to have the memory: a virtual machine that has lent its free memory out takes tens
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
    return {"seconds": seconds, "bytes": peak, "per_point": per_point}


def planned(kind: str, n: int, settings: dict[str, float | int | str]) -> dict[str, float]:
    points, metric = data(kind, n)
    start = time.perf_counter()
    cost = ldmaps.plan(points, metric=metric, n_components=2, **settings)
    took = time.perf_counter() - start
    print(cost, file=sys.stderr)
    return {
        "seconds": cost.fit_seconds,
        "bytes": cost.peak_bytes,
        "per_point": cost.seconds_per_point,
        "largest": cost.tried[-1],
        "took": took,
    }


def alone(what: str, case: tuple[str, int, dict[str, float | int | str]]) -> dict[str, float]:
    """Run in a process of its own, whose memory is nobody else's."""
    command = [sys.executable, __file__, what, json.dumps(case)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def run(cases: list[tuple[str, int, dict[str, float | int | str]]]) -> list[Row]:
    rows = []
    for kind, n, settings in cases:
        plan, fit = alone("plan", (kind, n, settings)), alone("fit", (kind, n, settings))
        words = ", ".join(f"{name.removeprefix('n_')} {value}" for name, value in settings.items())
        rows.append(
            Row(
                f"{kind}, N = {n:,}, {words}",
                "measured",
                f"{plan['seconds']:.2g} s, {plan['bytes'] / 1e6:.0f} MB, {plan['per_point'] * 1e6:.2g} µs",
                f"{fit['seconds']:.2g} s, {fit['bytes'] / 1e6:.0f} MB, {fit['per_point'] * 1e6:.2g} µs",
                plan["seconds"] / fit["seconds"],
                "time within 0.5–2, memory within 0.67–1.5",
                f"memory {plan['bytes'] / fit['bytes']:.2f}, time per point "
                f"{plan['per_point'] / fit['per_point']:.2f}; from {plan['largest']:,} points in {plan['took']:.0f} s",
            )
        )
        print(rows[-1], file=sys.stderr)
    return rows


def write(rows: list[Row], load: str) -> None:
    """Write the page, with how far predictions are off."""
    times = [row.ratio for row in rows]
    noted = [re.search(r"memory ([\d.]+), time per point ([\d.]+)", row.note) for row in rows]
    memory, per_point = ([float(found[place]) for found in noted if found] for place in (1, 2))
    closing = (
        f"Predicted over measured: time {min(times):.2g} to {max(times):.2g}, memory {min(memory):.2g} to {max(memory):.2g}, "
        f"time per new point {min(per_point):.2g} to {max(per_point):.2g} ([every fit](planning.csv)). {load}"
    )
    title = "Predicted by plan, and measured"
    write_table(
        "planning", title, "python benchmarks/planning.py", INTRODUCTION, rows, SHOWN, closing, HIDDEN
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps({"plan": planned, "fit": measure}[sys.argv[1]](*json.loads(sys.argv[2]))))
    else:
        began, rows, ended = os.getloadavg()[2], run(CASES), os.getloadavg()[2]
        load = f"Load average of the machine, 15 minutes: {began:.1f} at the start, {ended:.1f} at the end."
        write(rows, load)
