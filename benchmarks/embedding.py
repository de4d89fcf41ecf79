"""Time of `transform` per point beside that of copying the points, and beside another version of the package; one thread.

    python benchmarks/embedding.py                               writes docs/benchmarks/embedding.md, .csv
    python benchmarks/embedding.py --before old/.venv/bin/python     alternately with an older version
    python benchmarks/embedding.py --only "22 atoms" --no-page
    LDMAPS_INSTRUCTION_SET=x86_64_v3 python benchmarks/embedding.py ...    adds to the page what AVX2 takes

A round is a process with each interpreter, in turns; each repeats a call many times and keeps the quickest, so that a
busy machine shows little. Ratios are medians of the ratios within a round. "Call" is what a batch of 100 points takes
beyond 100 times the time per point.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import median_ratio, peak_memory, provenance
from numpy.typing import NDArray

ROUNDS, FEW_POINTS = 3, 100
#: Of the points of a case, unless they are too many or too few; and seconds that one kind of call is repeated for.
BYTES, FEWEST, MOST, SECONDS = 6 << 20, 2000, 20_000, 0.08
PAGE = Path(__file__).resolve().parents[1] / "docs/benchmarks/embedding.md"
SETS = {"x86_64_v4": "AVX-512", "x86_64_v3": "AVX2", "baseline": "baseline"}
COLUMNS = ["set", "case", "before", "now", "ratio", "copy", "call_before", "call", "gflops", "peak"]
#: Frames by whose embedding memory is measured.
FRAMES = 100_000

INTRODUCTION = """\
Nanoseconds per point that `transform` takes for new points, on one thread, in single precision; *copy* is what copying
the points takes, which no embedding can beat."""


def cases() -> dict[str, tuple[tuple[int, ...], int]]:
    """Return shapes of points and numbers of landmarks, by name."""
    found = {f"{a} atoms, M = {m}": ((a, 3), m) for a in (10, 22, 50, 200) for m in (4, 8, 20, 50, 400)}
    return found | {f"{f} features, M = {m}": ((f,), m) for f in (3, 16, 64) for m in (4, 8, 20, 50, 400)}


def model_of(
    shape: tuple[int, ...], n_landmarks: int, metric: str, rng: np.random.Generator, n_points: int = 2000
) -> Any:
    """Return a fitted map of so many landmarks, and points like those that it was fitted to."""
    from ldmaps import LandmarkDiffusionMap

    centre = rng.normal(size=shape)
    points = (centre + 0.3 * rng.normal(size=(n_points, *shape))).astype(np.float32)
    model = LandmarkDiffusionMap(
        2, 1.0, metric=metric, n_landmarks=n_landmarks, n_threads=1, calibration=0.0, random_state=0
    )
    return model.fit(points[: max(500, 2 * n_landmarks)]), points


def quickest(call: Callable[[], Any], repeats: int = 1) -> float:
    """Return the least processor time of many calls, in seconds; so many of them are timed together."""
    best, end = float("inf"), time.thread_time() + SECONDS
    while best == float("inf") or time.thread_time() < end:
        start = time.thread_time()
        for _ in range(repeats):
            call()
        best = min(best, time.thread_time() - start)
    return best / repeats


def measure(names: list[str]) -> dict[str, dict[str, float]]:
    """Measure in this process; nanoseconds per point, and microseconds per call."""
    import warnings

    found = {}
    for name in names:
        shape, n_landmarks = cases()[name]
        n_points = min(MOST, max(FEWEST, BYTES // (4 * math.prod(shape))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric = "rmsd" if len(shape) == 2 else "euclidean"
            model, points = model_of(shape, n_landmarks, metric, np.random.default_rng(0), n_points)
        few: NDArray[Any] = points[:FEW_POINTS].copy()
        copied = np.empty_like(points)
        model.transform(points)
        whole = quickest(lambda: model.transform(points)) / n_points
        part = quickest(lambda: model.transform(few), 20)
        copy = quickest(lambda: np.copyto(copied, points)) / n_points
        found[name] = {"point": whole * 1e9, "call": (part - FEW_POINTS * whole) * 1e6, "copy": copy * 1e9}
    return found


def peak_rate() -> float:
    """Return how many operations with single numbers a thread does in a nanosecond, in a product of matrices."""
    a = np.ones((512, 512), np.float32)
    return 2 * 512**3 / quickest(lambda: a @ a) / 1e9


def extra_memory() -> float:
    """Return by how many bytes per frame memory grows while many are embedded, coordinates included."""
    model, frames = model_of((22, 3), 4, "rmsd", np.random.default_rng(0), FRAMES)
    model.transform(frames[:1000])
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew
    before = peak_memory()
    coordinates = model.transform(frames)
    return (peak_memory() - before) / len(coordinates)


def operations(name: str) -> float:
    """Return the additions and multiplications that distances of one point to the landmarks take."""
    shape, n_landmarks = cases()[name]
    return n_landmarks * (18.0 * shape[0] if len(shape) == 2 else 3.0 * shape[0])


def in_process(python: str, names: list[str]) -> dict[str, dict[str, float]]:
    """Measure with another interpreter."""
    done = subprocess.run([python, __file__, "--measure", *names], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python} could not measure:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(names: list[str], before: str | None, n_rounds: int) -> list[dict[str, Any]]:
    """Return a line of the table for each case."""
    from ldmaps.kernels import INSTRUCTION_SET

    pythons = [sys.executable] if before is None else [before, sys.executable]
    rounds: list[list[dict[str, dict[str, float]]]] = [[] for _ in pythons]
    for number in range(n_rounds):
        for place in range(len(pythons))[:: 1 if number % 2 == 0 else -1]:
            rounds[place].append(in_process(pythons[place], names))
    peak, lines = peak_rate(), []
    for name in names:
        times = [[one[name]["point"] for one in of_python] for of_python in rounds]
        calls = [statistics.median(one[name]["call"] for one in of_python) for of_python in rounds]
        line: dict[str, Any] = {"set": SETS.get(INSTRUCTION_SET, INSTRUCTION_SET), "case": name}
        line |= {
            "now": min(times[-1]),
            "call": calls[-1],
            "copy": min(one[name]["copy"] for one in rounds[-1]),
        }
        if before is not None:
            line |= {
                "before": min(times[0]),
                "call_before": calls[0],
                "ratio": median_ratio(times[0], times[1]),
            }
        line |= {"gflops": operations(name) / min(times[-1]), "peak": peak}
        lines.append(line)
        print("  ".join(f"{key} {value:.3g}" if key != "set" and key != "case" else value.ljust(22)
                        for key, value in line.items()))  # fmt: skip
    return lines


def stored() -> dict[tuple[str, str], dict[str, str]]:
    """Return the lines of earlier runs by instruction set and case."""
    path = PAGE.with_suffix(".csv")
    if not path.exists():
        return {}
    with path.open(newline="") as stream:
        return {(line["set"], line["case"]): line for line in csv.DictReader(stream)}


def write(lines: list[dict[str, Any]], bytes_per_frame: float) -> None:
    """Write the page, and the table with what other instruction sets took."""
    fresh = {
        (line["set"], line["case"]): {
            key: f"{value:.4g}" if isinstance(value, float) else value for key, value in line.items()
        }
        for line in lines
    }
    known = stored() | fresh
    with PAGE.with_suffix(".csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(known.values())
    best = next(name for name in SETS.values() if any(key[0] == name for key in known))
    others = [name for name in SETS.values() if name != best and any(key[0] == name for key in known)]
    has_before = any(line["ratio"] for key, line in known.items() if key[0] == best)
    head = ["points", *(["before", "now", "times as fast"] if has_before else ["now"]), *others]
    head += ["copy", "now/copy", "operations/ns"]
    text = ["# Embedding", "", INTRODUCTION]
    if has_before:
        text[-1] += (
            " *Before* is the version that prepared points first (commit beef3a9b), in turns in the same runs."
        )
    text += ["", f"`python benchmarks/embedding.py` on {provenance()}.", ""]
    text += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (name, case), line in known.items():
        if name != best:
            continue
        now, copy = float(line["now"]), float(line["copy"])
        cells = [case, f"{now:.3g}"]
        if has_before:
            cells = [case, line["before"], f"{now:.3g}", f"{float(line['ratio']):.2f}"]
        for other in others:
            found = known.get((other, case))
            cells.append("–" if found is None else _with_ratio(found))
        cells += [f"{copy:.2g}", f"{now / copy:.1f}", f"{float(line['gflops']):.0f}"]
        text.append("| " + " | ".join(cells) + " |")
    calls = sorted(float(line["call"]) for key, line in known.items() if key[0] == best)
    earlier = sorted(
        float(line["call_before"]) for key, line in known.items() if key[0] == best and has_before
    )
    than = f" (before: {statistics.median(earlier):.1f} µs)" if earlier else ""
    peak = statistics.median(float(line["peak"]) for key, line in known.items() if key[0] == best)
    text += [
        "",
        "- The first columns are for " + best + (", and those in brackets how many times as fast as before." if others
                                                and has_before else "."),
        "- *Operations* are the additions and multiplications of distances (18 per atom and landmark, 3 per feature). "
        f"A product of matrices of 512 rows does {peak:.0f} per nanosecond here. What is left for few landmarks is centring, roots and "
        "exponentials.",
        f"- Around the kernel, a call takes {statistics.median(calls):.1f} µs{than}: the median over the cases, "
        f"for {FEW_POINTS} points.",
        f"- Memory grows by no more than {max(20.0, bytes_per_frame):.0f} bytes per frame of 22 atoms: two coordinates, the nearest "
        "landmark and its distance.",
        "- An XTC file is decoded in chunks that are then embedded. Decoding takes ten times as long as embedding them (388 and 35 ns per "
        "frame of 22 atoms, four landmarks), so that doing both in one pass would hardly be seen.",
    ]  # fmt: skip
    PAGE.write_text("\n".join(text) + "\n", encoding="utf-8")


def _with_ratio(line: dict[str, str]) -> str:
    now = f"{float(line['now']):.3g}"
    return f"{now} ({float(line['ratio']):.2f})" if line["ratio"] else now


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure embedding beside copying, and beside another version."
    )
    parser.add_argument("--before", help="the interpreter of another version")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"processes with each ({ROUNDS})")
    parser.add_argument("--only", nargs="+", help="cases with one of these texts in their name")
    parser.add_argument("--no-page", action="store_true", help="print, and write no page")
    parser.add_argument("--measure", nargs="+", help="measure these cases here and print what was measured")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    names = [name for name in cases() if not arguments.only or any(text in name for text in arguments.only)]
    memory = extra_memory()
    lines = compared(names, arguments.before, arguments.rounds)
    if not arguments.no_page:
        write(lines, memory)


if __name__ == "__main__":
    main()
