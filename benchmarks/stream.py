"""Streams: sustained rate, latency of single records, memory over ten million of them, and the peers.

    python benchmarks/stream.py [subject ...]     subjects: sustained one_by_one pipe memory

Writes docs/benchmarks/stream.md, .csv and stream_memory.png, .svg. Subjects run
again replace their rows.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from harness import DOCS, Row, stored, with_rows, write_table
from online import PEERS, Datafold, OnePoint

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD
from ldmaps.streaming import StreamEmbedder
from ldmaps.validation.fidelity import nrmse

INTRODUCTION = """\
How fast does a stream go through a map, and does its memory stay constant? *Ratio* is the other's time over ours (for rates: ours over the
other's). Times are from a record to its coordinates, median and percentiles; [more rows, and notes](stream.csv)."""
CLOSING = """\
- {errors} (one by one, ours and pyDiffMap's, 3-D). The others have no RMSD and take the 66 coordinates as they are.
- From a pipe, a record is read, decoded, embedded, formatted and written.
- Memory was measured with two regions, a reservoir and CSV output. Sustained rates are those of batches of 4,096 on all cores.

![Resident memory against records](stream_memory.png)"""

MILLIONS = 10
#: Rows that the CSV alone has.
HIDDEN = ("sustained rate, M = 400", "NDJSON")


def blocks(points: np.ndarray, n: int, size: int = 4096) -> Iterator[np.ndarray]:
    """Yield ``n`` points, a block at a time, over and over from the beginning."""
    place = 0
    while n > 0:
        block = points[place : place + min(size, n)]
        n -= len(block)
        place = 0 if place + size >= len(points) else place + size
        yield block


def ignore(_: object) -> None:
    pass


# -- sustained rate ---------------------------------------------------------------


class Sustained:
    """Blocks through the whole engine against the bare embedding of the same blocks."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "22 atoms, RMSD":
            data = alanine_dipeptide()
            self.points, self.metric, self.epsilon, self.n = (
                data.frames,
                RMSD(weights=data.masses),
                1.36e-3,
                60_000,
            )
        else:
            self.points, self.metric, self.epsilon, self.n = (
                swiss_roll(20_000).points,
                "euclidean",
                4.0,
                400_000,
            )

    def run(self) -> list[Row]:
        return [self.at(m) for m in (100, 400, 1000)]

    def at(self, m: int) -> Row:
        train = self.points[:16_000]
        model = LandmarkDiffusionMap(2, self.epsilon, metric=self.metric, n_landmarks=m).fit(train)
        stream = StreamEmbedder(model, max_delay=0.1)
        embedder = model.embedder_

        def engine() -> float:
            return stream.run(blocks(self.points, self.n), [ignore]).rate

        def bare() -> float:
            start = time.monotonic()
            for block in blocks(self.points, self.n):
                _ = embedder.project(block).coverage
            return self.n / (time.monotonic() - start)

        engine(), bare()
        rates = [(engine(), bare()) for _ in range(5)]
        ours, limit = np.median(rates, axis=0)
        return Row(
            f"sustained rate, M = {m:,}, {self.name}",
            "embedding alone",
            f"{ours:,.0f} points/s",
            f"{limit:,.0f} points/s",
            statistics.median(one / other for one, other in rates),
            "",
            "batches of 4,096 on all cores",
        )


# -- one record at a time -----------------------------------------------------------


class OneByOne(OnePoint):
    """Single records through the whole engine against the peers' ``transform`` of one point."""

    def run(self) -> list[Row]:
        model = LandmarkDiffusionMap(2, **self.settings, n_landmarks=self.n_landmarks).fit(self.train)
        stream = StreamEmbedder(model, n_threads=1)
        contestants = {"pyDiffMap (k = 64)": self.pydiffmap()}
        worker = None
        if PEERS.exists():
            worker = Datafold(self.flat, self.flat_epsilon, self.cut_off, self.n_landmarks)
            if "DiffusionMaps" in worker.models:
                contestants["datafold DiffusionMaps"] = lambda: worker.median("DiffusionMaps")
        stream.run(iter(self.new[:2000]), [ignore])
        rows = []
        for name, contestant in contestants.items():
            pairs, shares = [], []
            for _ in range(7):
                theirs = contestant()
                latency = stream.run(iter(self.new[:3000]), [ignore]).latency
                pairs.append((theirs, latency.percentile(50)))
                shares.append([latency.percentile(percent) for percent in (50, 99, 99.9)])
            p50, p99, p999 = np.median(shares, axis=0) * 1e6
            rows.append(
                Row(
                    f"one record at a time, M = 400, {self.name}",
                    name,
                    f"{p50:.0f} µs, p99 {p99:.0f}, p99.9 {p999:.0f}",
                    f"{statistics.median(theirs for theirs, _ in pairs) * 1e6:.0f} µs",
                    statistics.median(theirs / ours for theirs, ours in pairs),
                    "≥ 50× at equal or better Z",
                    self.errors(model, name),
                )
            )
        if worker is not None:
            worker.close()
        return rows

    @property
    def settings(self) -> dict:
        if self.name == "3-D":
            return {"epsilon": 1.0, "metric": "euclidean", "extension": "distilled"}
        return {"epsilon": 1.36e-3, "metric": RMSD(weights=alanine_dipeptide().masses)}

    def errors(self, model: LandmarkDiffusionMap, name: str) -> str:
        """Say how far both are from the exact map, where both approximate the same one."""
        if self.name != "3-D" or not name.startswith("pyDiffMap"):
            return (
                "" if self.name == "3-D" else "the peer takes the 66 coordinates as they are: it has no RMSD"
            )
        from batch import _scaled_error
        from pydiffmap.diffusion_map import DiffusionMap as PyDiffMap

        exact = DiffusionMap(2, 1.0).fit(self.train)
        truth = exact.transform(self.new)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = PyDiffMap.from_sklearn(n_evecs=2, k=64, epsilon=0.5, alpha=0.0)
            peer_train = peer.fit_transform(self.train)
            theirs = _scaled_error(truth, exact.embedding_, peer.transform(self.new), peer_train)
        return f"Z = {nrmse(truth, model.transform(self.new)):.2f} % against {theirs:.2f} %"


# -- from a pipe to a file -----------------------------------------------------------


def pipe() -> list[Row]:
    """``producer | ldmaps stream`` with text on both sides, as people use it."""
    points = swiss_roll(20_000).points
    model = LandmarkDiffusionMap(2, 1.0, n_landmarks=400).fit(points[:16_000])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/map.ldm")
        repeated = np.tile(points, (10, 1))
        np.savetxt(f"{folder}/in.csv", repeated, delimiter=",", header="x,y,z", comments="")
        with open(f"{folder}/in.ndjson", "w") as stream:
            stream.writelines(f"[{x:.9g},{y:.9g},{z:.9g}]\n" for x, y, z in repeated)
        for kind in ("csv", "ndjson"):
            command = [sys.executable, "-m", "ldmaps", "stream", f"{folder}/map.ldm", "-", "--format", kind]
            command += ["-o", f"{folder}/out.csv", "--max-delay", "0.1", "--json", "--force"]
            found = []
            for _ in range(3):
                with open(f"{folder}/in.{kind}", "rb") as source:
                    producer = subprocess.Popen(["cat"], stdin=source, stdout=subprocess.PIPE)
                    answer = subprocess.run(
                        command, stdin=producer.stdout, capture_output=True, text=True, check=True
                    )
                    producer.wait(timeout=60)
                found.append(json.loads(answer.stdout or answer.stderr)["rate"])
            start = time.perf_counter()
            np.loadtxt(f"{folder}/in.csv", delimiter=",", skiprows=1)
            reading = len(repeated) / (time.perf_counter() - start)
            rows.append(
                Row(
                    f"{kind.upper()} from a pipe to a CSV file, M = 400, 3-D",
                    "numpy.loadtxt reading it",
                    f"{statistics.median(found):,.0f} records/s",
                    f"{reading:,.0f} rows/s",
                    statistics.median(found) / reading,
                    "",
                    "read, decoded, embedded, formatted, written",
                )
            )
    return rows


# -- memory ----------------------------------------------------------------------------


def resident() -> float:
    """Return this process's resident memory in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def watch_memory() -> None:
    """Stream ten million records with everything attached; print resident memory along the way."""
    from ldmaps.regions import Ball, OutOfDomain, RegionTracker
    from ldmaps.streaming.reservoir import Reservoir
    from ldmaps.streaming.sinks.files import OutputFile

    roll = swiss_roll(20_000).points
    model = LandmarkDiffusionMap(2, 4.0, n_landmarks=100).fit(roll)  # so few do not hang together at less
    centre = dict(zip(("psi2", "psi3"), model.landmark_embedding_[0].tolist(), strict=True))
    spread = float(model.landmark_embedding_.std())
    tracker = RegionTracker({"ball": Ball(centre, 0.3 * spread), "outside": OutOfDomain()})
    seen = 0
    due = 0

    def note(embedded: object) -> None:
        nonlocal seen, due
        if seen >= due:
            print(json.dumps([seen, resident()]), flush=True)
            due += 250_000
        seen += len(embedded)

    rng = np.random.default_rng(0)

    def records() -> Iterator[np.ndarray]:
        for block in blocks(roll, MILLIONS * 1_000_000):
            noisy = block + rng.normal(scale=0.02, size=block.shape)
            noisy[::1000] += 30.0  # out of the domain
            noisy[7::4000, 0] = np.nan  # malformed
            yield noisy

    with tempfile.TemporaryDirectory() as folder:
        sinks = [OutputFile(f"{folder}/psi.csv"), Reservoir(1000, seed=0), note]
        summary = StreamEmbedder(model, max_delay=0.05, tracker=tracker).run(records(), sinks)
    print(json.dumps([summary.records + summary.rejected, resident()]), flush=True)
    print(json.dumps({"rate": summary.rate, "rejected": summary.rejected}), flush=True)


def memory() -> list[Row]:
    answer = subprocess.run(
        [sys.executable, __file__, "--watch-memory"], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    found, facts = np.array(lines[:-1]), lines[-1]
    draw_memory(found)
    first = found[np.searchsorted(found[:, 0], 1_000_000), 1]
    growth = found[-1, 1] - first
    return [
        Row(
            f"resident memory, {MILLIONS} million records, M = 100, 3-D",
            "after the first million",
            f"{found[-1, 1]:.0f} MB, {growth:+.1f} MB since",
            f"{first:.0f} MB",
            first / found[-1, 1],
            "flat",
            f"two regions, reservoir, CSV output; {facts['rejected']:,} records rejected; {facts['rate']:,.0f} records/s",
        )
    ]


def draw_memory(found: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    axes.plot(found[:, 0] / 1e6, found[:, 1], color="#0072B2", linewidth=2)
    axes.set(
        xlabel="million records",
        ylabel="resident memory / MB",
        ylim=(0, 1.25 * found[:, 1].max()),
        xlim=(0, found[-1, 0] / 1e6),
    )
    axes.set_title("Memory of a stream of ten million records", loc="left", fontsize=11)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for suffix in ("png", "svg"):
        figure.savefig(DOCS / f"stream_memory.{suffix}", dpi=130)
    plt.close(figure)


SUBJECTS = {
    "sustained": lambda: [row for name in ("3-D", "22 atoms, RMSD") for row in Sustained(name).run()],
    "one_by_one": lambda: [row for name in ("3-D", "22 atoms, RMSD") for row in OneByOne(name).run()],
    "pipe": pipe,
    "memory": memory,
}


def main(names: list[str]) -> None:
    rows = stored("stream") if names else []
    for name in names or SUBJECTS:
        print(f"... {name}", file=sys.stderr, flush=True)
        rows = with_rows(rows, SUBJECTS[name]())
    write_table(
        "stream",
        "Streams",
        "python benchmarks/stream.py",
        INTRODUCTION,
        rows,
        closing=CLOSING.format(errors=next(row.note for row in rows if row.note.startswith("Z = "))),
        hidden=HIDDEN,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--watch-memory"]:
        watch_memory()
    else:
        main(sys.argv[1:])
