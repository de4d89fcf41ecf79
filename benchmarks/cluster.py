"""Fits and embeddings out of core on worker processes: time, memory and scaling.

python benchmarks/cluster.py [--points N] [--frames N] [--turns T] [--output FILE]   all cases: minutes
python benchmarks/cluster.py --case NAME --data FILE --count N                       one case, as JSON
"""

from __future__ import annotations

import argparse
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

M = 400
LIMIT = "2GB"
#: Tasks for each piece: read and gather; read, prepare, assign and its two results; read, embed and its two results.
TASKS_PER_PIECE = 11
#: Below this gain of two loops that share nothing, the machine had no second core to give.
IDLE = 1.8
CASES = (("loops", 1), ("loops", 2), ("threads", 1), ("workers", 1), ("threads", 2), ("workers", 2))


# -- data -------------------------------------------------------------------------------


def write_data(folder: Path, n_points: int, n_frames: int) -> None:
    """Write jittered copies of the bundled data, a part at a time."""
    from ldmaps.datasets import alanine_dipeptide, swiss_roll

    rng = np.random.default_rng(0)
    for name, source, n, scale in (
        ("points", swiss_roll(100_000).points.astype(np.float32), n_points, 0.05),
        ("frames", alanine_dipeptide().frames, n_frames, 0.002),
    ):
        out = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (n, *source.shape[1:]))
        for start in range(0, n, len(source)):
            part = source[: min(len(source), n - start)]
            noise = rng.normal(scale=scale, size=part.shape).astype(np.float32)
            out[start : start + len(part)] = part + noise
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


def sent(dask_worker) -> int:
    """Return the bytes that a worker has sent to others and to the client."""
    return dask_worker.transfer_outgoing_bytes_total


def on_workers(data: Path, n_workers: int) -> dict:
    from ldmaps import LandmarkDiffusionMap
    from ldmaps.cluster import open_blocks, workers

    began = time.perf_counter()
    with workers(n_workers, n_threads=1, memory_limit=LIMIT) as client:
        started = time.perf_counter()
        client.run(loaded)  # as a worker of a long-lived cluster has
        loaded()

        def now() -> dict:
            return {
                "seconds": time.perf_counter(),
                "here": time.process_time(),
                "workers": sum(client.run(time.process_time).values()),
                "sent": sum(client.run(sent).values()),
            }

        first = now()
        model = LandmarkDiffusionMap(**settings(data)).fit(open_blocks(str(data)))
        fitted = now()
        model.transform(open_blocks(str(data))).sum(axis=0).compute()
        done = now()
        worker_peak = max(client.run(own_peak).values())
    return {
        "start": started - began,
        "fit": since(first, fitted),
        "transform": since(fitted, done),
        "client": own_peak(),
        "worker": worker_peak,
        "eigenvalues": model.eigenvalues_.tolist(),
    }


def since(begin: dict, end: dict) -> dict:
    return {name: end[name] - begin[name] for name in begin}


def loaded() -> None:
    """Load the kernels."""
    from ldmaps import LandmarkDiffusionMap
    from ldmaps.datasets import alanine_dipeptide, swiss_roll

    LandmarkDiffusionMap(2, 1.0, n_landmarks=200).fit(swiss_roll(4000).points.astype(np.float32))
    LandmarkDiffusionMap(2, 0.005, "rmsd", n_landmarks=50).fit(alanine_dipeptide().frames[:1000])


def on_threads(data: Path, n_threads: int) -> dict:
    """The plain path: all in memory, threads of this process."""
    import ldmaps.inputs
    from ldmaps import LandmarkDiffusionMap

    loaded()

    def now() -> dict:
        return {"seconds": time.perf_counter(), "here": time.process_time(), "workers": 0.0}

    first = now()
    model = LandmarkDiffusionMap(**settings(data), n_threads=n_threads).fit(
        ldmaps.inputs.open_files(str(data))
    )
    fitted = now()
    model.transform(ldmaps.inputs.open_files(str(data))).sum(axis=0)
    done = now()
    return {
        "fit": since(first, fitted),
        "transform": since(fitted, done),
        "client": own_peak(),
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
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import cluster; print(cluster.spin(2.0))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(n)
    ]
    return {"rate": sum(int(process.communicate()[0]) for process in running) / 2.0}


def scheduling(_: Path, n_tasks: int) -> dict:
    """What scheduler and client take for a task that does nothing, in processor time of their process."""
    from ldmaps.cluster import workers
    from ldmaps.cluster.engine import computed, task

    with workers(2, n_threads=1, memory_limit=LIMIT):
        computed([task("nothing", nothing, number) for number in range(100)])
        begin = time.process_time()
        computed([task("nothing", nothing, number) for number in range(n_tasks)])
        return {"seconds": (time.process_time() - begin) / n_tasks}


def nothing(number: int) -> int:
    return number


RUN = {
    "workers": on_workers,
    "threads": on_threads,
    "loops": unrelated_loops,
    "scheduling": scheduling,
}


def case(name: str, data: Path, count: int) -> dict:
    arguments = ["--case", name, "--data", str(data), "--count", str(count)]
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} {data.name} {count}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# -- the page ---------------------------------------------------------------------------------


def middle(runs: list[dict], step: str, *names: str) -> float:
    """Return the median over turns of what a step took."""
    return statistics.median(sum(run[step][name] for name in names) for run in runs)


def processor(runs: list[dict], step: str) -> float:
    return middle(runs, step, "here", "workers")


def peak(runs: list[dict], name: str) -> float:
    return max(run[name] for run in runs)


def table_of_runs(runs: dict) -> list[str]:
    lines = [
        "| data | who | fit, s | transform, s | client, MB | worker, MB |",
        "|---|---|---|---|---|---|",
    ]
    for data in ("points", "frames"):
        for kind, count in CASES[2:]:
            found = runs[data, kind, count]
            who = f"{count} {kind if count > 1 else kind[:-1]}"
            times = [f"{middle(found, step, 'seconds'):.1f}" for step in ("fit", "transform")]
            worker = f"{peak(found, 'worker') / 1e6:.0f}" if kind == "workers" else "–"
            lines.append(
                f"| {data} | {who} | {times[0]} | {times[1]} | {peak(found, 'client') / 1e6:.0f} | {worker} |"
            )
    return lines


def scaling_and_overhead(runs: dict) -> list[str]:
    loops = [two["rate"] / one["rate"] for one, two in zip(runs["loops", 1], runs["loops", 2], strict=True)]
    gains: dict[str, list[float]] = {"workers": [], "threads": []}
    cost = []
    for data in ("points", "frames"):
        for step in ("fit", "transform"):
            for kind, found in gains.items():
                one, two = (middle(runs[data, kind, count], step, "seconds") for count in (1, 2))
                found.append(one / two)
            cost.append(processor(runs[data, "workers", 1], step) / processor(runs[data, "threads", 1], step))
    lines = [
        f"From one to two: workers gain {among(gains['workers'])} times, threads {among(gains['threads'])}, two loops that share nothing "
        f"{among(loops)}, the upper limit on this machine. One worker takes {among(cost)} of the processor time of one thread. "
        "K-medoids on the sample and the eigenproblem of a fit run in one process, on its threads: workers do not share them.",
    ]
    gain = statistics.median(loops)
    if gain < IDLE:
        lines += [
            "",
            f"**The machine was not idle**: two loops should gain 2 times and gained {gain:.2f}. Times cannot be read off this run.",
        ]
    return lines


def among(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def limits(task_seconds: float) -> list[str]:
    return [
        "## What limits a large cluster",
        "",
        f"Client and scheduler take {1e3 * TASKS_PER_PIECE * task_seconds:.0f} ms of processor time per piece of a fit ({TASKS_PER_PIECE} "
        f"tasks of {1e3 * task_seconds:.2f} ms), which more workers do not share. Where a worker's time per piece, divided by the number "
        "of workers, is less than that, take larger pieces (`--piece`), up to a quarter of the memory per thread. A fit reads "
        "everything three times.",
    ]


def page(state: dict, options: argparse.Namespace) -> str:
    runs, loads = state["runs"], state["loads"]
    start = statistics.median(
        run["start"] for key, found in runs.items() if key[1] == "workers" for run in found
    )
    turns = f"Medians of {state['turns']} turns" if state["turns"] > 1 else "One turn"
    lines = [
        "# Clusters: out of core, on worker processes",
        "",
        f"Worker processes of one thread and {LIMIT} against threads: {options.points:,} points of a Swiss roll, and "
        f"{options.frames:,} frames of alanine dipeptide (22 atoms, jittered copies), from .npy files in pieces of 32 MB. Fit: ε given, "
        f"M = {M}. Transform: all coordinates, added up. {turns}; load average at their starts "
        f"{', '.join(f'{load:.1f}' for load in loads)}.",
        "",
        f"`python benchmarks/cluster.py` on {provenance()}",
        "",
        *table_of_runs(runs),
        "",
        f"Starting workers takes {start:.1f} s, not counted. Memory is the highest resident set, mapped pages included.",
        "",
        *scaling_and_overhead(runs),
        "",
        *limits(state["task_seconds"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--frames", type=int, default=500_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--output", type=Path, default=DOCS / "cluster.md")
    parser.add_argument("--case", choices=RUN)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(RUN[options.case](options.data, options.count)))
        return
    state: dict = {"runs": {}, "loads": [], "turns": 0}
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder), options.points, options.frames)
        paths = {data: Path(folder) / f"{data}.npy" for data in ("points", "frames")}
        state["task_seconds"] = case("scheduling", paths["points"], 2000)["seconds"]
        for turn in range(1, options.turns + 1):
            state["loads"].append(os.getloadavg()[0])
            for data, path in paths.items():
                for kind, count in CASES:
                    if kind == "loops" and data == "frames":
                        continue
                    found = case(kind, path, count)
                    print(turn, data, kind, count, found, flush=True)
                    key = (kind, count) if kind == "loops" else (data, kind, count)
                    state["runs"].setdefault(key, []).append(found)
            state["turns"] = turn
            options.output.write_text(page(state, options))


if __name__ == "__main__":
    main()
