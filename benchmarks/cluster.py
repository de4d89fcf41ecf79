"""Fits and embeddings out of core on worker processes: time, memory, scaling, and a model of both.

python benchmarks/cluster.py                  all cases, docs/benchmarks/cluster.md
python benchmarks/cluster.py CASE DATA ARGS   one case in this process, as JSON
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import DOCS, provenance

M, SAMPLE, RECORDED = 400, 50_000, 100_000
N_POINTS, N_FRAMES = 10_000_000, 2_000_000
LIMIT = "2GB"
TURNS = 2


# -- data -------------------------------------------------------------------------------


def write_data(folder: Path) -> None:
    """Write jittered copies of the bundled data, a part at a time."""
    from ldmaps.datasets import alanine_dipeptide, swiss_roll

    rng = np.random.default_rng(0)
    for name, source, n, scale in (
        ("points", swiss_roll(100_000).points.astype(np.float32), N_POINTS, 0.05),
        ("frames", alanine_dipeptide().frames, N_FRAMES, 0.002),
    ):
        out = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (n, *source.shape[1:]))
        for start in range(0, n, len(source)):
            part = source[: min(len(source), n - start)]
            out[start : start + len(part)] = part + rng.normal(scale=scale, size=part.shape).astype(
                np.float32
            )
        out.flush()
        del out


def settings(data: Path) -> dict:
    from ldmaps.datasets import alanine_dipeptide
    from ldmaps.metrics import RMSD

    if data.stem == "points":
        return {"n_components": 2, "epsilon": 1.0, "n_landmarks": M}
    return {
        "n_components": 2,
        "epsilon": 1.6e-3,
        "n_landmarks": M,
        "metric": RMSD(weights=alanine_dipeptide().masses),
    }


# -- cases, each in a process of its own ---------------------------------------------------


def own_peak() -> int:
    """Return the highest resident memory of this process; workers get this function by value, not by name."""
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def on_workers(data: Path, n_workers: int) -> dict:
    from ldmaps import LandmarkDiffusionMap
    from ldmaps.cluster import open_blocks, workers

    began = time.perf_counter()
    with workers(n_workers, n_threads=1, memory_limit=LIMIT) as client:
        started = time.perf_counter()
        warm(client)
        cpu = time.process_time() + sum(client.run(time.process_time).values())
        before_fit = time.perf_counter()
        model = LandmarkDiffusionMap(**settings(data)).fit(open_blocks(str(data)))
        fitted = time.perf_counter()
        model.transform(open_blocks(str(data))).sum(axis=0).compute()
        done = time.perf_counter()
        cpu = time.process_time() + sum(client.run(time.process_time).values()) - cpu
        worker_peak = max(client.run(own_peak).values())
    return {
        "start": started - began,
        "fit": fitted - before_fit,
        "transform": done - fitted,
        "client": own_peak(),
        "worker": worker_peak,
        "cpu": cpu,
        "eigenvalues": model.eigenvalues_.tolist(),
    }


def warm(client) -> None:
    """Let every worker load the compiled loops, as a worker of a long-lived cluster has."""
    client.run(loaded)


def loaded() -> None:
    from ldmaps import LandmarkDiffusionMap
    from ldmaps.datasets import alanine_dipeptide, swiss_roll

    LandmarkDiffusionMap(2, 1.0, n_landmarks=200).fit(swiss_roll(4000).points.astype(np.float32))
    LandmarkDiffusionMap(2, 0.005, "rmsd", n_landmarks=50).fit(alanine_dipeptide().frames[:1000])


def on_threads(data: Path, n_threads: int) -> dict:
    """The plain path: all in memory, threads of this process."""
    import ldmaps.inputs
    from ldmaps import LandmarkDiffusionMap

    loaded()
    cpu = time.process_time()
    before_fit = time.perf_counter()
    model = LandmarkDiffusionMap(**settings(data), n_threads=n_threads).fit(ldmaps.inputs.open(str(data)))
    fitted = time.perf_counter()
    model.transform(ldmaps.inputs.open(str(data))).sum(axis=0)
    done = time.perf_counter()
    return {
        "fit": fitted - before_fit,
        "transform": done - fitted,
        "client": own_peak(),
        "cpu": time.process_time() - cpu,
        "eigenvalues": model.eigenvalues_.tolist(),
    }


def spin(seconds: float) -> int:
    """Return how often a loop ran: it reads nothing and shares nothing."""
    values = np.random.default_rng(0).normal(size=1 << 14)
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        np.exp(values)
        count += 1
    return count


def unrelated_loops(_: Path, n: int) -> dict:
    """What so many processes that know nothing of each other do in a second."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import cluster; print(cluster.spin(3.0))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(n)
    ]
    return {"rate": sum(int(process.communicate()[0]) for process in running) / 3.0}


def scheduling(_: Path, n_tasks: int) -> dict:
    """What the scheduler takes for a task that does nothing."""
    from ldmaps.cluster import workers
    from ldmaps.cluster.engine import computed, task

    with workers(2, n_threads=1, memory_limit=LIMIT):
        computed([task("nothing", nothing, number) for number in range(100)])
        begin = time.perf_counter()
        computed([task("nothing", nothing, number) for number in range(n_tasks)])
        return {"seconds": (time.perf_counter() - begin) / n_tasks}


def nothing(number: int) -> int:
    return number


CASES = {
    "workers": on_workers,
    "threads": on_threads,
    "loops": unrelated_loops,
    "scheduling": scheduling,
}


def case(name: str, data: Path, argument: int) -> dict:
    command = [sys.executable, __file__, name, str(data), str(argument)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} {data.name} {argument}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# -- the page ---------------------------------------------------------------------------------


def median(runs: list[dict], *names: str) -> float:
    return statistics.median(sum(run[name] for name in names) for run in runs)


def model_of_cost(runs: dict, task_seconds: float) -> list[str]:
    """Return the page's section that says what a larger job takes, from the numbers measured here."""
    one = runs["frames", "workers", 1]
    # Reading, assigning and embedding, for each frame, on one core; the client's part does not grow with N.
    client = max(0.0, median(one, "fit") - 2 * median(one, "transform"))
    per_frame = (median(one, "fit") + median(one, "transform") - client) / N_FRAMES
    lines = [
        "## A model, and what it says of a large cluster",
        "",
        "    time    = T_client + N · t_frame / cores + (N / piece) · tasks · t_task",
        "    traffic = sample · row + 2 · workers · M · row + pieces · (2 · 8 M + a few bytes)",
        "",
        f"t_frame = {1e6 * per_frame:.1f} µs per frame and core (22 atoms, M = {M}: sample, assignment, embedding of the "
        f"training points, embedding once more), T_client = {client:.1f} s (k-medoids on {SAMPLE:,} points, the "
        f"eigenproblem), t_task = {1e3 * task_seconds:.2f} ms for the scheduler, 12 tasks per piece.",
        "",
        "| frames | cores | piece | computing | scheduling | sum | traffic through the client |",
        "|---|---|---|---|---|---|---|",
    ]
    row = 22 * 12
    for n, cores, piece_bytes in (
        (N_FRAMES, 2, 32 << 20),
        (10**8, 64, 32 << 20),
        (10**9, 3200, 32 << 20),
        (10**9, 3200, 256 << 20),
        (10**9, 3200, 1 << 30),
    ):
        pieces = -(-n * row // piece_bytes)
        computing, scheduling_time = n * per_frame / cores, pieces * 12 * task_seconds
        traffic = SAMPLE * row + M * row + RECORDED * 16 + pieces * 64
        lines.append(
            f"| {n:,} | {cores:,} | {piece_bytes >> 20} MB | {computing:.1f} s | {scheduling_time:.1f} s | "
            f"{client + max(computing, scheduling_time):.0f} s | {traffic / 1e6:.0f} MB |"
        )
    two = runs["frames", "workers", 2]
    predicted, measured = client + N_FRAMES * per_frame / 2, median(two, "fit", "transform")
    busy = (32 << 20) / row * per_frame / (12 * task_seconds)
    lines += [
        "",
        f"Scheduling and computing overlap. With pieces of 32 MB one scheduler keeps about {busy:,.0f} cores busy; beyond, "
        "larger pieces are needed, up to what a worker's memory holds (three pieces a thread). Past that a job stops "
        "scaling at T_client, and where the file system cannot deliver N · row bytes three times (sample, assignment, "
        "embedding) in that time: 10⁹ frames of 22 atoms are 264 GB, so 100 nodes must read 792 GB. The size of a piece is a "
        "constant of `ldmaps/cluster/reading.py` (and 262,144 rows at most). T_client is a difference of times, the fit's less "
        f"two transforms. Checked on the first row only, on {N_FRAMES:,} frames and 2 workers: predicted {predicted:.0f} s, "
        f"measured {measured:.0f} s. The other rows were not run.",
    ]
    return lines


def page(runs: dict, task_seconds: float, n_turns: int) -> str:
    lines = [
        "# Clusters: out of core, on worker processes",
        "",
        f"`make bench-cluster` on {provenance()}",
        "",
        f"Data are written to disk first, as .npy: {N_POINTS:,} points of a Swiss roll in 3-D, and {N_FRAMES:,} frames of "
        "alanine dipeptide (22 atoms), jittered copies of the bundled ones. Workers are processes of one thread with a "
        f"limit of {LIMIT}; they read pieces of 32 MB, or 262,144 rows. Fit: ε given, M = {M}. Transform: all "
        f"coordinates from the files, added up. Medians of {n_turns} turns in which all cases follow each other; workers have their compiled loops loaded.",
        "",
        "| data | who | fit, s | transform, s | processor time of both, s | client, MB | worker, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for data in ("points", "frames"):
        for kind, count in (("workers", 1), ("workers", 2), ("threads", 2)):
            found = runs[data, kind, count]
            who = f"{count} worker{'s' if count > 1 else ''}" if kind == "workers" else "plain, 2 threads"
            worker = f"{median(found, 'worker') / 1e6:.0f}" if kind == "workers" else "–"
            lines.append(
                f"| {data} | {who} | {median(found, 'fit'):.1f} | {median(found, 'transform'):.1f} | {processor(found)} | "
                f"{median(found, 'client') / 1e6:.0f} | {worker} |"
            )
    start = statistics.median(
        run["start"] for key, found in runs.items() if key[1] == "workers" for run in found
    )
    loops = median(runs["points", "loops", 2], "rate") / median(runs["points", "loops", 1], "rate")
    lines += [
        "",
        f"Starting workers takes {start:.1f} s. Memory is the highest resident set of the process, interpreter and "
        "libraries included; the plain path holds all points, workers a few pieces.",
        "",
        "## Scaling and overhead",
        "",
        "| data | step | 1 → 2 workers | two unrelated loops | 2 workers against 2 threads |",
        "|---|---|---|---|---|",
    ]
    for data in ("points", "frames"):
        for step in ("fit", "transform"):
            one, two = (median(runs[data, "workers", count], step) for count in (1, 2))
            plain = median(runs[data, "threads", 2], step)
            lines.append(f"| {data} | {step} | {one / two:.2f}× | {loops:.2f}× | {two / plain:.2f}× |")
    lines += [
        "",
        "The loops read and share nothing: what they gain from a second process is what this machine had to give in the "
        "same turns. Where that is far from 2, others were using the machine, and neither scaling nor overhead can be read "
        "off these times; processor time can be compared. The fit of the points has a part that one process does (k-medoids on the sample), which does not "
        "shrink.",
        "",
        "The eigenvalues of all runs of a data set agree to "
        f"{max(spread(runs, data) for data in ('points', 'frames')):.0e}.",
        "",
        *model_of_cost(runs, task_seconds),
    ]
    return "\n".join(lines) + "\n"


def processor(found: list[dict]) -> str:
    """Return the processor time of client and workers together, which other jobs on the machine do not lengthen."""
    timed = [run for run in found if "cpu" in run]
    return f"{median(timed, 'cpu'):.1f}" if timed else "–"


def spread(runs: dict, data: str) -> float:
    values = np.array(
        [run["eigenvalues"] for key, found in runs.items() if key[0] == data for run in found if "fit" in run]
    )
    return float(np.max(np.ptp(values, axis=0) / values[0]))


def main() -> None:
    if len(sys.argv) > 1:
        name, data, argument = sys.argv[1:]
        print(json.dumps(CASES[name](Path(data), int(argument))))
        return
    runs: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        task_seconds = case("scheduling", Path(folder), 2000)["seconds"]
        print("scheduling", task_seconds, flush=True)
        for turn in range(1, TURNS + 1):
            for data in ("points", "frames"):
                path = Path(folder) / f"{data}.npy"
                for kind, count in (
                    ("loops", 1),
                    ("loops", 2),
                    ("workers", 1),
                    ("workers", 2),
                    ("threads", 2),
                ):
                    found = case(kind, path, count)
                    print(data, kind, count, found, flush=True)
                    runs.setdefault((("points" if kind == "loops" else data), kind, count), []).append(found)
            (DOCS / "cluster.md").write_text(page(runs, task_seconds, turn))


if __name__ == "__main__":
    main()
