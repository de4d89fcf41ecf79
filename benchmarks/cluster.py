"""Fits and embeddings out of core on worker processes: time, memory, scaling, and the plan's predictions.

python benchmarks/cluster.py [--points N] [--frames N] [--turns T] [--output FILE]   all cases
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
#: Aims: what a second worker should gain, and what workers may cost against threads of one process.
SCALING, OVERHEAD = 1.7, 1.3
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
    """Load the compiled loops."""
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
    model = LandmarkDiffusionMap(**settings(data), n_threads=n_threads).fit(ldmaps.inputs.open(str(data)))
    fitted = now()
    model.transform(ldmaps.inputs.open(str(data))).sum(axis=0)
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


def planned(data: Path, n_workers: int) -> dict:
    """What ``ldmaps plan --workers`` predicts."""
    from dataclasses import asdict

    from ldmaps.maps.cluster_plan import plan_on_workers

    return asdict(planned_for(plan_on_workers, data, len(np.load(data, mmap_mode="r")), n_workers))


def planned_for(plan_on_workers, data: Path, n: int, n_workers: int, **more):
    chosen = settings(data)
    width = 3 if data.stem == "points" else 22
    metric = chosen.pop("metric", "euclidean")
    count = chosen.pop("n_landmarks")
    return plan_on_workers(n, width, metric, count, n_workers=n_workers, **chosen, **more)


def large(data: Path, _: int) -> dict:
    """What is predicted for clusters that nobody here has."""
    from dataclasses import asdict

    from ldmaps.maps.cluster_plan import plan_on_workers

    return {
        "rows": [
            {
                "piece": piece,
                **asdict(planned_for(plan_on_workers, data, n, nodes, n_threads=threads, piece=piece)),
            }
            for n, nodes, threads, piece in (
                (10**8, 2, 32, "32MB"),
                (10**9, 10, 32, "32MB"),
                (10**9, 100, 32, "32MB"),
                (10**9, 100, 32, "256MB"),
                (10**9, 100, 32, "1GB"),
            )
        ]
    }


RUN = {
    "workers": on_workers,
    "threads": on_threads,
    "loops": unrelated_loops,
    "scheduling": scheduling,
    "planned": planned,
    "large": large,
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
        "| data | who | fit, s | processor time: client + workers, s | transform, s | processor time, s | client, MB | worker, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data in ("points", "frames"):
        for kind, count in CASES[2:]:
            found = runs[data, kind, count]
            who = f"{count} {kind if count > 1 else kind[:-1]}"
            times = []
            for step in ("fit", "transform"):
                here, there = middle(found, step, "here"), middle(found, step, "workers")
                cpu = f"{here:.1f} + {there:.1f}" if kind == "workers" else f"{here:.1f}"
                times.append(f"{middle(found, step, 'seconds'):.1f} | {cpu}")
            worker = f"{peak(found, 'worker') / 1e6:.0f}" if kind == "workers" else "–"
            lines.append(
                f"| {data} | {who} | {times[0]} | {times[1]} | {peak(found, 'client') / 1e6:.0f} | {worker} |"
            )
    return lines


def verdict(values: list[float], aim: float, *, at_least: bool) -> str:
    met = [value >= aim if at_least else value <= aim for value in values]
    return "met in all four rows" if all(met) else f"met in {sum(met)} of {len(met)} rows"


def scaling_and_overhead(runs: dict) -> list[str]:
    loops = [two["rate"] / one["rate"] for one, two in zip(runs["loops", 1], runs["loops", 2], strict=True)]
    gain = statistics.median(loops)
    lines = [
        "## Scaling and overhead",
        "",
        "| data | step | 1 → 2 workers | two unrelated loops | 1 → 2 threads | 2 workers against 2 threads, time | 1 worker "
        "against 1 thread, processor time |",
        "|---|---|---|---|---|---|---|",
    ]
    scaled, cost, cpu = [], [], []
    for data in ("points", "frames"):
        for step in ("fit", "transform"):
            one, two, single, double = (
                runs[data, kind, count] for kind in ("workers", "threads") for count in (1, 2)
            )
            scaled.append(middle(one, step, "seconds") / middle(two, step, "seconds"))
            cost.append(middle(two, step, "seconds") / middle(double, step, "seconds"))
            cpu.append(processor(one, step) / processor(single, step))
            threads = middle(single, step, "seconds") / middle(double, step, "seconds")
            lines.append(
                f"| {data} | {step} | {scaled[-1]:.2f}× | {gain:.2f}× | {threads:.2f}× | {cost[-1]:.2f}× | {cpu[-1]:.2f}× |"
            )
    lines += [
        "",
        f"Aims: a second worker gains {SCALING} times ({verdict(scaled, SCALING, at_least=True)}); workers take at most "
        f"{OVERHEAD} times as long as threads ({verdict(cost, OVERHEAD, at_least=False)} by time, "
        f"{verdict(cpu, OVERHEAD, at_least=False)} by processor time).",
        "",
        f"The loops read and share nothing: what a second one gained, {min(loops):.2f} to {max(loops):.2f} times over the "
        "turns, is what this machine had to give.",
    ]
    if gain < IDLE:
        lines += [
            "",
            f"**The machine was not idle**: two loops should gain 2 times and gained {gain:.2f}. Times, scaling and overhead "
            "by time cannot be read off this run; processor time lengthens less.",
        ]
    lines += [
        "",
        "A fit has a part that one process does, k-medoids on the sample and the eigenproblem, which workers do not "
        "share; threads do.",
    ]
    return lines


def model(runs: dict, plans: dict, task_seconds: float, rows: list[dict]) -> list[str]:
    from ldmaps.maps.cluster_plan import READING_RATE, TASK_SECONDS, TASKS_PER_PIECE

    lines = [
        "## The model, and what it says of a large cluster",
        "",
        "    time    = client + N · (3 · reading + 2 · preparation + assignment + embedding) / threads, or, if that is longer,",
        "              client + pieces · tasks per piece · time per task",
        "    traffic = sample · row + 2 · workers · M · row + pieces · 16 M + what the map remembers",
        "",
        "This is what `ldmaps plan --workers` computes, from a second's measurement of one thread in the same turns; nothing "
        f"in it was fitted to the runs below. Constants: {READING_RATE / 1e9:g} GB/s of reading per thread, {TASKS_PER_PIECE} tasks "
        f"per piece, {1e3 * TASK_SECONDS:g} ms per task (client and scheduler took {1e3 * task_seconds:.2f} ms of processor time for a "
        "task that does nothing).",
        "",
        "| data | workers | fit: predicted, s | measured, s | processor time: predicted, s | measured, s | transform: predicted, "
        "s | measured, s | traffic: predicted, MB | sent by workers in the fit, MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for data in ("points", "frames"):
        for count in (1, 2):
            found, planned_runs = runs[data, "workers", count], plans[data, count]

            def predicted(name: str, planned_runs: list = planned_runs) -> float:
                return statistics.median(plan[name] for plan in planned_runs)

            cpu = predicted("here_seconds") + count * predicted("computing_seconds")
            measured = processor(found, "fit")
            ratios.append(measured / cpu)
            lines.append(
                f"| {data} | {count} | {predicted('fit_seconds'):.1f} | {middle(found, 'fit', 'seconds'):.1f} | {cpu:.1f} | "
                f"{measured:.1f} | {predicted('transform_seconds'):.1f} | {middle(found, 'transform', 'seconds'):.1f} | "
                f"{predicted('traffic_bytes') / 1e6:.1f} | {middle(found, 'fit', 'sent') / 1e6:.1f} |"
            )
    within = all(0.5 <= ratio <= 2.0 for ratio in ratios)
    lines += [
        "",
        f"Measured over predicted processor time of a fit: {min(ratios):.2f} to {max(ratios):.2f}; a plan is meant to be right "
        f"within a factor of two, which {'holds' if within else '**does not hold**'} here.",
        "",
        "Not run here, predicted for frames of 22 atoms, workers of 32 threads:",
        "",
        "| frames | workers | piece | client | computing | scheduling | fit | worker | traffic |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['n_points']:,} | {row['n_workers']} | {row['piece']} | {row['here_seconds']:.1f} s | "
            f"{row['computing_seconds']:.1f} s | {row['scheduling_seconds']:.1f} s | {row['fit_seconds']:.0f} s | "
            f"{row['worker_bytes'] / 1e9:.1f} GB | {row['traffic_bytes'] / 1e6:.0f} MB |"
        )
    small = rows[0]
    busy = small["computing_seconds"] * small["n_workers"] * small["n_threads"] / small["scheduling_seconds"]
    largest = rows[-1]
    total = largest["n_points"] * 264
    lines += [
        "",
        f"Scheduling and computing overlap. With pieces of 32 MB one scheduler keeps about {busy:,.0f} threads busy; beyond, take "
        "larger pieces (`--piece`), up to what a worker's memory holds, four per thread. Past that a job stops scaling "
        f"at the client's part, {largest['here_seconds']:.1f} s, and at the file system: {total / 1e9:.0f} GB read three times in "
        f"{largest['computing_seconds']:.0f} s are {3 * total / 1e9 / largest['computing_seconds']:.0f} GB/s.",
    ]
    return lines


def page(state: dict, options: argparse.Namespace) -> str:
    runs, loads = state["runs"], state["loads"]
    start = statistics.median(
        run["start"] for key, found in runs.items() if key[1] == "workers" for run in found
    )
    is_reduced = (options.points, options.frames) != (10_000_000, 2_000_000)
    size = "**A reduced run.** " if is_reduced else ""
    turns = f"Medians of {state['turns']} turns" if state["turns"] > 1 else "One turn"
    lines = [
        "# Clusters: out of core, on worker processes",
        "",
        "What do worker processes gain over threads, and what do they cost? And does `ldmaps plan --workers` predict it?",
        "",
        f"`make bench-cluster` on {provenance()}",
        "",
        f"{size}Data are written to disk first, as .npy: {options.points:,} points of a Swiss roll in 3-D, and {options.frames:,} "
        "frames of alanine dipeptide (22 atoms), jittered copies of the bundled ones. Workers are processes of one thread with a "
        f"limit of {LIMIT}; they read pieces of 32 MB. Fit: ε given, M = {M}. Transform: all coordinates from the files, added up, "
        f"by both. {turns} in which all cases follow each other; compiled loops are loaded before. Load average of the machine at "
        f"the start of each turn: {', '.join(f'{load:.1f}' for load in loads)}; the benchmark itself is part of it from the second on.",
        "",
        *table_of_runs(runs),
        "",
        f"Starting workers takes {start:.1f} s, not counted above. Processor time is that of the whole processes: Dask's own threads and the "
        "scheduler, which runs in the client's process, are in it. Memory is the highest resident set of the "
        "process, interpreter and libraries included; the plain path holds all points, workers a few pieces. Pages of the mapped "
        "files that the system could take back count as resident too.",
        "",
        *scaling_and_overhead(runs),
        "",
        "The eigenvalues of all runs of a data set agree to "
        f"{max(spread(runs, data) for data in ('points', 'frames')):.0e}.",
        "",
        *model(runs, state["plans"], state["task_seconds"], state["large"]),
    ]
    return "\n".join(lines) + "\n"


def spread(runs: dict, data: str) -> float:
    values = np.array([run["eigenvalues"] for key, found in runs.items() if key[0] == data for run in found])
    return float(np.max(np.ptp(values, axis=0) / values[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--frames", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path, default=DOCS / "cluster.md")
    parser.add_argument("--case", choices=RUN)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(RUN[options.case](options.data, options.count)))
        return
    state: dict = {"runs": {}, "plans": {}, "loads": [], "turns": 0}
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder), options.points, options.frames)
        paths = {data: Path(folder) / f"{data}.npy" for data in ("points", "frames")}
        state["task_seconds"] = case("scheduling", paths["points"], 2000)["seconds"]
        state["large"] = case("large", paths["frames"], 0)["rows"]
        for turn in range(1, options.turns + 1):
            state["loads"].append(os.getloadavg()[0])
            for data, path in paths.items():
                for count in (1, 2):
                    state["plans"].setdefault((data, count), []).append(case("planned", path, count))
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
