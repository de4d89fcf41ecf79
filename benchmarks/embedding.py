"""Time of `transform` per point beside that of copying the points, and beside another version of the package; one thread.

    python benchmarks/embedding.py                               writes docs/benchmarks/embedding.md, .csv
    python benchmarks/embedding.py --before old/.venv/bin/python     alternately with an older version
    python benchmarks/embedding.py --only "22 atoms" --no-page
    LDMAPS_INSTRUCTION_SET=x86_64_v3 python benchmarks/embedding.py ...    adds to the page what AVX2 takes

A round is a process with each interpreter, in turns; each repeats a call many times and keeps the least of this thread's
processor times, so that a busy machine shows little. Ratios are medians of the ratios within a round. What other
instruction sets took stays in the table until they are measured again.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import median_ratio, peak_memory, provenance
from numpy.typing import NDArray

ROUNDS = 3
#: Of the points of a case, unless they are too many or too few; and seconds that one kind of call is repeated for.
BYTES, FEWEST, MOST, SECONDS = 6 << 20, 2000, 20_000, 0.03
PAGE = Path(__file__).resolve().parents[1] / "docs/benchmarks/embedding.md"
SETS = {"x86_64_v4": "AVX-512", "x86_64_v3": "AVX2", "baseline": "baseline"}
COLUMNS = [
    *("set", "case", "before", "now", "ratio", "copy", "slopes_before", "slopes", "calls"),
]
#: Numbers of points for which the time around the kernel is measured.
BATCHES = 100, 1000, 10_000
#: Frames by whose embedding memory is measured.
FRAMES = 100_000
COMPONENTS = 2
#: Additions and multiplications per atom for centring and weighing, per landmark for the largest root of its quartic
#: and for an exponential and what is summed with it.
OF_ATOM, OF_ROOT, OF_WEIGHT = 24, 165, 30

INTRODUCTION = """\
Nanoseconds per point that `transform` takes for new points, on one thread, in single precision; *copy* is what copying
the points takes, which no embedding can beat."""


class Case(NamedTuple):
    """Points of a shape, a number of landmarks, and a metric with its arguments."""

    shape: tuple[int, ...]
    n_landmarks: int
    metric: str = ""
    arguments: tuple[Any, ...] = ()
    epsilon: float = 1.0


def cases() -> dict[str, Case]:
    """Return what is measured, by name."""
    found = {f"{a} atoms, M = {m}": Case((a, 3), m) for a in (10, 22, 50, 200) for m in (4, 8, 20, 50, 400)}
    found |= {f"{f} features, M = {m}": Case((f,), m) for f in (3, 16, 64) for m in (4, 8, 20, 50, 400)}
    chain = [[k, k + 1, k + 2, k + 3] for k in range(6)]
    pairs = [[k, k + 9] for k in range(12)]
    kinds = {
        "22 atoms, weighed": ((22, 3), "RMSD", (np.linspace(1.0, 16.0, 22),)),
        "22 atoms, superposed on 6": ((22, 3), "RMSD", (None, np.arange(6))),
        "16 features, standardized": ((16,), "StandardizedEuclidean", (np.linspace(0.5, 2.0, 16),)),
        "16 angles": ((16,), "Periodic", (360.0,)),
        "6 dihedrals of 22 atoms": ((22, 3), "Features", (22, {"dihedrals": chain})),
        "12 distances of 22 atoms": ((22, 3), "Features", (22, {"distances": pairs, "scales": np.ones(12)})),
        "12 contacts of 22 atoms": ((22, 3), "Features", (22, {"contacts": pairs})),
    }
    for what, (shape, metric, arguments) in kinds.items():
        found |= {f"{what}, M = {m}": Case(shape, m, metric, arguments, 25.0) for m in (4, 8)}
    return found


def metric_of(case: Case) -> Any:
    """Return the metric of a case, by the names of old versions too."""
    from ldmaps import metrics

    if not case.metric:
        return "rmsd" if len(case.shape) == 2 else "euclidean"
    kind = getattr(metrics, case.metric, None) or metrics.Scaled
    named = case.arguments[-1] if isinstance(case.arguments[-1], dict) else {}
    return kind(*case.arguments[:-1], **named) if named else kind(*case.arguments)


def model_of(case: Case, rng: np.random.Generator, n_points: int = 2000) -> Any:
    """Return a fitted map, and points like those that it was fitted to."""
    from ldmaps import LandmarkDiffusionMap

    centre = rng.normal(size=case.shape)
    points = (centre + 0.3 * rng.normal(size=(n_points, *case.shape))).astype(np.float32)
    model = LandmarkDiffusionMap(
        COMPONENTS,
        case.epsilon,
        metric=metric_of(case),
        n_landmarks=case.n_landmarks,
        n_threads=1,
        calibration=0.0,
        random_state=0,
    )
    return model.fit(points[: max(500, 2 * case.n_landmarks)]), points


def quickest(call: Callable[[], Any], repeats: int = 1) -> float:
    """Return the least processor time of many calls, in seconds; so many of them are timed together."""
    best, end = float("inf"), time.thread_time() + SECONDS
    while best == float("inf") or time.thread_time() < end:
        start = time.thread_time()
        for _ in range(repeats):
            call()
        best = min(best, time.thread_time() - start)
    return best / repeats


def measure(names: list[str]) -> dict[str, dict[str, Any]]:
    """Measure in this process; nanoseconds per point, and microseconds per call."""
    found = {}
    for name in names:
        case = cases()[name]
        n_points = min(MOST, max(FEWEST, BYTES // (4 * math.prod(case.shape))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, points = model_of(case, np.random.default_rng(0), n_points)
        copied = np.empty_like(points)
        model.transform(points)
        line: dict[str, Any] = {"point": quickest(lambda: model.transform(points)) / n_points * 1e9}
        line["copy"] = quickest(lambda: np.copyto(copied, points)) / n_points * 1e9
        if case.n_landmarks == 4:
            some: NDArray[Any] = points[:FEWEST].copy()
            line["slopes"] = quickest(lambda: model.transform_with_gradient(some)) / len(some) * 1e9
            line["calls"] = [around(model, points, n) for n in BATCHES if n <= n_points]
        found[name] = line
    return found


def around(model: Any, points: NDArray[Any], n_points: int) -> float:
    """Return what a call takes beyond its kernel, in microseconds; NaN where points are prepared."""
    step = getattr(model.embedder_, "direct_step", None)
    if step is None:
        return math.nan
    few, dtype = points[:n_points].copy(), points.dtype
    filled = np.empty((n_points, COMPONENTS), dtype), np.empty(n_points, np.intp), np.empty(n_points, dtype)
    repeats = max(1, 2000 // n_points)
    # The longer the kernel takes, the less sure their difference is: both again and again, and the least of each.
    times = [
        (
            quickest(lambda: model.transform(few), repeats),
            quickest(lambda: step.embed(few, *filled), repeats),
        )
        for _ in range(2)
    ]
    return (min(whole for whole, _ in times) - min(kernel for _, kernel in times)) * 1e6


def peak_rate() -> float:
    """Return how many operations with single numbers a thread does in a nanosecond, in a product of matrices."""
    from ldmaps.threads import single_threaded_blas

    a = np.ones((512, 512), np.float32)
    with single_threaded_blas():
        return 2 * 512**3 / min(quickest(lambda: a @ a) for _ in range(40)) / 1e9


def extra_memory() -> float:
    """Return by how many bytes per frame memory grows while many are embedded, coordinates included."""
    model, frames = model_of(Case((22, 3), 4), np.random.default_rng(0), FRAMES)
    model.transform(frames[:1000])
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew
    before = peak_memory()
    coordinates = model.transform(frames)
    return (peak_memory() - before) / len(coordinates)


def xtc_times() -> tuple[float, float]:
    """Return nanoseconds per frame of alanine dipeptide that decoding an XTC file takes, and embedding it."""
    from ldmaps import LandmarkDiffusionMap
    from ldmaps.datasets import alanine_dipeptide
    from ldmaps.demo.files import write_files
    from ldmaps.inputs import open_files

    with tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the map that is written beside
            write_files(folder, stride=5)
        path, top = Path(folder) / "traj.xtc", Path(folder) / "top.pdb"
        n_frames = sum(len(chunk.frames) for chunk in open_files(path, top=top))
        clock, time.thread_time = time.thread_time, time.process_time  # files may be read by another thread
        try:
            decoding = quickest(lambda: [None for _ in open_files(path, top=top)]) / n_frames
        finally:
            time.thread_time = clock
    frames = alanine_dipeptide().frames
    model = LandmarkDiffusionMap(COMPONENTS, 1.0, metric="rmsd", n_landmarks=4, n_threads=1, calibration=0.0)
    model.fit(frames[::50])
    return decoding * 1e9, quickest(lambda: model.transform(frames)) / len(frames) * 1e9


def borders() -> None:
    """Print for wide rows how many times as fast as products of matrices direct differences are."""
    from ldmaps.extension import Embedder, OnlineStep
    from ldmaps.metrics import Euclidean, euclidean

    for size, m in itertools.product((40, 64, 256, 1024, 4096), (8, 64, 400, 1500)):
        rng, n_points = np.random.default_rng(0), max(256, min(2000, 2_000_000 // size))
        points, landmarks = (rng.normal(size=(n, size)).astype(np.float32) for n in (n_points, m))
        times = []
        for most in (euclidean.MAX_DIRECT_BYTES << 20, 0):
            metric, kept = Euclidean(), euclidean.MAX_DIRECT_BYTES
            step = OnlineStep(coefficients=rng.normal(size=(m, 2)), source_weights=np.ones(m), bandwidth=size)
            embedder = Embedder.build(metric, metric.prepare(landmarks), size, step, np.ones(m))
            euclidean.MAX_DIRECT_BYTES = most
            times.append(quickest(lambda embedder=embedder: embedder.project(points, 1)))
            euclidean.MAX_DIRECT_BYTES = kept
        print(
            f"{size:5d} features, M = {m:4d}, {4e-6 * size * m:6.2f} MB: {times[1] / times[0]:.2f}",
            flush=True,
        )


def operations(case: Case) -> float:
    """Return the additions and multiplications that one point takes."""
    size, m = case.shape[0], case.n_landmarks
    if len(case.shape) == 2:
        return OF_ATOM * size + m * (18 * size + OF_ROOT + OF_WEIGHT)
    return m * (3 * size + OF_WEIGHT)


def _is_counted(case: Case) -> bool:
    """Say whether `operations` counts all that a point takes: not what features of frames take, nor other superpositions."""
    return case.metric != "Features" and (case.metric != "RMSD" or len(case.arguments) == 1)


def least(case: Case, copy: float, peak: float) -> float:
    """Return the time that no embedding can beat: reading and writing as in a copy, or operations as in a product."""
    read, written = 4 * math.prod(case.shape), 4 * COMPONENTS + 8 + 4
    return max(copy * (read + written) / (2 * read), operations(case) / peak)


def in_process(python: str, *arguments: str) -> Any:
    """Measure with another interpreter."""
    done = subprocess.run([python, __file__, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python} could not measure:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(names: list[str], before: str | None, n_rounds: int) -> list[dict[str, Any]]:
    """Return a line of the table for each case."""
    from ldmaps.kernels import INSTRUCTION_SET

    pythons = [sys.executable] if before is None else [before, sys.executable]
    rounds: list[list[dict[str, dict[str, Any]]]] = [[] for _ in pythons]
    for number in range(n_rounds):
        for place in range(len(pythons))[:: 1 if number % 2 == 0 else -1]:
            rounds[place].append(in_process(pythons[place], "--measure", *names))
    lines = []
    for name in names:
        times = [[one[name]["point"] for one in of_python] for of_python in rounds]
        copy = min(one[name]["copy"] for one in rounds[-1])
        line: dict[str, Any] = {"set": SETS.get(INSTRUCTION_SET, INSTRUCTION_SET), "case": name}
        line |= {"now": min(times[-1]), "copy": copy}
        if before is not None:
            line |= {"before": min(times[0]), "ratio": median_ratio(times[0], times[1])}
        for key, of_python in zip(("slopes_before", "slopes")[-len(pythons) :], rounds, strict=True):
            if "slopes" in of_python[0][name]:
                line[key] = min(one[name]["slopes"] for one in of_python)
        if "calls" in rounds[-1][0][name]:
            calls = zip(*(one[name]["calls"] for one in rounds[-1]), strict=True)
            line["calls"] = " ".join(f"{statistics.median(each):.2f}" for each in calls)
        lines.append(line)
        print("  ".join(f"{key} {value:.3g}" if isinstance(value, float) else value.ljust(22)
                        for key, value in line.items()), flush=True)  # fmt: skip
    return lines


def stored() -> dict[tuple[str, str], dict[str, str]]:
    """Return the lines of earlier runs by instruction set and case."""
    path = PAGE.with_suffix(".csv")
    if not path.exists():
        return {}
    with path.open(newline="") as stream:
        return {(line["set"], line["case"]): line for line in csv.DictReader(stream)}


def write(lines: list[dict[str, Any]], memory: list[float], xtc: tuple[float, float]) -> None:
    """Write the page, and the table with what other instruction sets took."""
    fresh = {
        (line["set"], line["case"]): {
            key: f"{value:.4g}" if isinstance(value, float) else value for key, value in line.items()
        }
        for line in lines
    }
    known = stored() | fresh
    with PAGE.with_suffix(".csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(known.values())
    best = next(name for name in SETS.values() if any(key[0] == name for key in known))
    others = [name for name in SETS.values() if name != best and any(key[0] == name for key in known)]
    own = {case: line for (name, case), line in known.items() if name == best}
    has_before = any(line.get("ratio") for line in own.values())
    head = ["points", *(["before", "now", "times as fast"] if has_before else ["now"]), *others]
    head += ["copy", "now/copy", "now/least"]
    peak = peak_rate()
    text = ["# Embedding", "", INTRODUCTION]
    if has_before:
        text[-1] += (
            " *Before* is the version that prepared points first (commit beef3a9b), in turns in the same runs."
        )
    text += ["", f"`python benchmarks/embedding.py` on {provenance()}.", ""]
    text += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for case, line in own.items():
        now, copy = float(line["now"]), float(line["copy"])
        cells = [case, f"{now:.3g}"]
        if has_before:
            cells = [case, f"{float(line['before']):.3g}", f"{now:.3g}", f"{float(line['ratio']):.2f}"]
        for other in others:
            found = known.get((other, case))
            cells.append("–" if found is None else _with_ratio(found))
        cells += [
            f"{copy:.2g}",
            f"{now / copy:.1f}",
            f"{now / least(cases()[case], copy, peak):.1f}" if _is_counted(cases()[case]) else "–",
        ]
        text.append("| " + " | ".join(cells) + " |")
    text += ["", *_notes(own, best, bool(others and has_before), peak, memory, xtc)]
    PAGE.write_text("\n".join(text) + "\n", encoding="utf-8")


def _notes(
    own: dict[str, dict[str, str]],
    best: str,
    is_ratio: bool,
    peak: float,
    memory: list[float],
    xtc: tuple[float, float],
) -> list[str]:
    """Return what is said below the table."""
    calls = [[float(each) for each in line["calls"].split()] for line in own.values() if line.get("calls")]
    columns = [
        [each for each in column if each == each]
        for column in zip(*(c for c in calls if len(c) == 3), strict=True)
    ]
    around = [
        f"{statistics.median(column):.1f} µs ({max(column):.1f} at most) for {n:,}"
        for n, column in zip(BATCHES, columns, strict=True)
    ]
    slopes = [
        f"{case.removesuffix(', M = 4')} {float(line['slopes']):.3g}"
        + (f" (before: {float(line['slopes_before']):.3g})" if line.get("slopes_before") else "")
        for case, line in own.items()
        if line.get("slopes")
    ]
    return [
        "- The first columns are for " + best + (", and those in brackets how many times as fast as before." if is_ratio else "."),
        "- *Least*, the roofline, is the longer of two times: that of reading a point and writing what is returned of it "
        f"({4 * COMPONENTS + 12} bytes) at the rate of a copy, and that of its additions and multiplications at {peak:.0f} per nanosecond, the rate of "
        "a product of matrices of 512 rows on the same thread (sums that never leave the registers exceed it). "
        f"Operations are 18 per atom and landmark (3 per feature), {OF_ATOM} per atom for centring, {OF_ROOT} per landmark for the root of a "
        f"superposition, {OF_WEIGHT} for a weight. At that rate the arithmetic for a frame of 10 atoms and four landmarks takes "
        f"{operations(cases()['10 atoms, M = 4']) / peak:.0f} ns, "
        f"{operations(cases()['10 atoms, M = 4']) / peak / float(own['10 atoms, M = 4']['copy']):.0f} copies of it; of three features more is written "
        "than read."
        if "10 atoms, M = 4" in own
        else "",
        f"- Around the kernel, a call takes {around[0]} points, {around[1]} and {around[2]}: the difference of two measured times, the median of the "
        "cases of four landmarks that are not prepared.",
        "- Narrower registers gain less with many atoms or features: what is left is arithmetic, and products of matrices, which measured rows of 64 "
        "features before, use AVX-512 here whichever set is ours.",
        "- With derivatives (`transform_with_gradient`), four landmarks, ns per point: " + "; ".join(slopes) + ".",
        "- Points are embedded side by side up to 64 landmarks, row by row above, where blocks of landmarks that are too far to matter can be skipped. "
        "Rows of more than 32 features are left to products of matrices where these are quicker (`--borders`): from 4 MB of landmarks on with AVX-512, "
        "64 landmarks with AVX2, always with baseline, as the library that multiplies has the processor's widest registers whichever are ours. They then "
        "depend on the batch by rounding; nothing else does. Frames superposed on some of their atoms are prepared first, as before, and so are points "
        "of `epsilon=\"local\"`, histograms and functions of users.",
        "- One function embeds one point or many. The ways that five metrics had for a single point (`one_row`) and those of frames and of rows in "
        "C++ went.",
        f"- Memory grows by {memory[-1]:.0f} bytes per frame of 22 atoms while {FRAMES:,} are embedded"
        + (f" (before: {memory[0]:.0f})" if len(memory) == 2 else "")
        + f", of which {4 * COMPONENTS + 12} are what is returned and remembered of it.",
        f"- An XTC file is decoded in chunks that are then embedded. Decoding takes {xtc[0] / xtc[1]:.0f} times as long as embedding ({xtc[0]:.0f} and "
        f"{xtc[1]:.0f} ns per frame of 22 atoms, four landmarks): one pass without an array in between could save less than a copy, "
        f"{float(own['22 atoms, M = 4']['copy']):.0f} ns."
        if "22 atoms, M = 4" in own
        else "",
    ]  # fmt: skip


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
    parser.add_argument("--page", action="store_true", help="write the page again from what is stored")
    parser.add_argument("--borders", action="store_true", help="print where products of matrices are quicker")
    parser.add_argument("--measure", nargs="*", help="measure these cases here, or memory, and print it")
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(arguments.measure) if arguments.measure else extra_memory()))
        return
    if arguments.borders:
        borders()
        return
    names = [name for name in cases() if not arguments.only or any(text in name for text in arguments.only)]
    lines = [] if arguments.page else compared(names, arguments.before, arguments.rounds)
    if not arguments.no_page:
        pythons = [*([] if arguments.before is None else [arguments.before]), sys.executable]
        write(lines, [in_process(python, "--measure") for python in pythons], xtc_times())


if __name__ == "__main__":
    main()
