"""Time of `transform` per point with two versions of the package, alternately, and of copying the points; one thread.

    python benchmarks/embedding.py before/.venv/bin/python after/.venv/bin/python
    python benchmarks/embedding.py before/.venv/bin/python after/.venv/bin/python --only "22 atoms" --rounds 9
    LDMAPS_INSTRUCTION_SET=x86_64_v3 python benchmarks/embedding.py ...

A round is a process with each interpreter, A B, then B A; each repeats short calls many times and keeps the quickest, so
that a busy machine shows little. Ratios are medians of the ratios within a round. "Call" is what a batch of 100 points
takes beyond 100 times the time per point.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import median_ratio
from numpy.typing import NDArray

ROUNDS, REPEATS, POINTS, FEW_POINTS = 5, 60, 2000, 100


def cases() -> dict[str, tuple[tuple[int, ...], int]]:
    """Return shapes of points and numbers of landmarks, by name."""
    found = {f"{a} atoms, M = {m}": ((a, 3), m) for a in (10, 22, 50, 200) for m in (4, 8, 20, 50, 400)}
    return found | {f"{f} features, M = {m}": ((f,), m) for f in (3, 16, 64) for m in (4, 10, 50, 400)}


def model_of(shape: tuple[int, ...], n_landmarks: int, metric: str, rng: np.random.Generator) -> Any:
    """Return a fitted map of so many landmarks, and points like those that it was fitted to."""
    from ldmaps import LandmarkDiffusionMap

    centre = rng.normal(size=shape)
    points = (centre + 0.3 * rng.normal(size=(POINTS, *shape))).astype(np.float32)
    model = LandmarkDiffusionMap(
        2, 1.0, metric=metric, n_landmarks=n_landmarks, n_threads=1, calibration=0.0, random_state=0
    )
    return model.fit(points[: max(500, 2 * n_landmarks)]), points


def quickest(call: Callable[[], Any]) -> float:
    """Return the least of many times, in seconds."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def measure(names: list[str]) -> dict[str, dict[str, float]]:
    """Measure in this process; nanoseconds per point, and per call."""
    import warnings

    found = {}
    for name in names:
        shape, n_landmarks = cases()[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric = "rmsd" if len(shape) == 2 else "euclidean"
            model, points = model_of(shape, n_landmarks, metric, np.random.default_rng(0))
        few: NDArray[Any] = points[:FEW_POINTS].copy()
        copied = np.empty_like(points)
        whole = quickest(lambda: model.transform(points)) / POINTS
        part = quickest(lambda: model.transform(few))
        copy = quickest(lambda: np.copyto(copied, points)) / POINTS
        found[name] = {"point": whole * 1e9, "call": (part - FEW_POINTS * whole) * 1e6, "copy": copy * 1e9}
    return found


def in_process(python: str, names: list[str]) -> dict[str, dict[str, float]]:
    """Measure with another interpreter."""
    done = subprocess.run([python, __file__, "--measure", *names], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python} could not measure:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare embedding with two versions of the package.")
    parser.add_argument("pythons", nargs="*", help="two interpreters, A and B")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"processes with each ({ROUNDS})")
    parser.add_argument("--only", nargs="+", help="cases with one of these texts in their name")
    parser.add_argument("--measure", nargs="+", help="measure these cases here and print what was measured")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    if len(arguments.pythons) != 2:
        parser.error(f"two interpreters are compared, got {len(arguments.pythons)}")
    names = [name for name in cases() if not arguments.only or any(text in name for text in arguments.only)]
    rounds: list[list[dict[str, dict[str, float]]]] = [[], []]
    for number in range(arguments.rounds):
        for place in (0, 1) if number % 2 == 0 else (1, 0):
            rounds[place].append(in_process(arguments.pythons[place], names))
    print(
        f"{'':24}{'A, ns':>9}{'B, ns':>9}{'A/B':>7}{'copy':>8}{'B/copy':>8}{'call A':>10}{'call B, µs':>12}"
    )
    for name in names:
        times = [[one[name]["point"] for one in rounds[place]] for place in (0, 1)]
        calls = [statistics.median(one[name]["call"] for one in rounds[place]) for place in (0, 1)]
        copy = min(one[name]["copy"] for one in rounds[1])
        print(
            f"{name:24}{min(times[0]):9.1f}{min(times[1]):9.1f}{median_ratio(times[0], times[1]):7.2f}{copy:8.1f}"
            f"{min(times[1]) / copy:8.1f}{calls[0]:10.1f}{calls[1]:12.1f}"
        )


if __name__ == "__main__":
    main()
