"""Overheads around the kernels: start-up, text, preparation, single points, trajectories.

    python benchmarks/surroundings.py [subject ...]

Subjects: start_up first_fit text tables preparation one_point xtc.

Writes docs/benchmarks/surroundings.md and .csv. Contestants take turns, and ratios are
those of the least times: what others do on the machine only ever adds to a time.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mdtraj
import numpy as np
import pyarrow.csv
from harness import Row, stored, turns, with_rows, write_table

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap, kernels
from ldmaps.cli.embed import embed_source
from ldmaps.cli.writers import open_writer
from ldmaps.datasets import alanine_dipeptide
from ldmaps.diffusion.pairwise import Extended
from ldmaps.metrics import RMSD
from ldmaps.progress import Progress
from ldmaps.streaming import OutputFile, StreamEmbedder

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from written_trajectories import mdtraj_trajectory

INTRODUCTION = """\
What do start-up, text and single points cost? *Ratio* is the time of the other contestant over ours, by the least times
of turns in one run. Rates are rows, records or frames per second; [more rows, and notes](surroundings.csv)."""

#: Rows that the CSV alone has.
HIDDEN = ("float64", "stream, M = 100", "embed, M = 100", "NDJSON", "xtc to csv")
N_RECORDS, N_ROWS = 400_000, 200_000


def points(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


def fitted(n_landmarks: int) -> LandmarkDiffusionMap:
    return LandmarkDiffusionMap(2, 0.2, landmarks="kmedoids", n_landmarks=n_landmarks).fit(points(4000))


def least(*works: Callable[[], object], rounds: int = 4) -> list[float]:
    """Return the least wall time of each."""
    return [min(seconds) for seconds in turns(works, rounds, clock=time.perf_counter)]


def processor(work: Callable[[], object], count: int) -> str:
    """Return what one of ``count`` takes on the processors, all threads together: half of it on two that are free."""
    seconds = min(turns([work], 2, clock=time.process_time)[0])
    return f"{1e6 * seconds / count:.2f} µs on the processors, all threads together"


# -- start-up -----------------------------------------------------------------


#: Prints the highest resident memory: what the system tells of a child begins with the size of its parent.
_PEAK = """
import sys
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""
_COMMAND = "import sys; from ldmaps.cli import main; assert main(sys.argv[1:]) == 0" + _PEAK


def timed(code: str, *arguments: str, **environment: str) -> tuple[float, float, str]:
    """Run Python; return seconds, seconds on the processor, and what it wrote to stderr.

    Python keeps its bytecode, as it does unless it is told not to: else each start would translate all our files.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**inherited, **environment},
    )
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, spent, done.stderr


def child(code: str, *arguments: str) -> tuple[float, float, float]:
    """Run Python; return seconds, seconds on the processor, and the highest resident memory in MB."""
    seconds, spent, told = timed(code, *arguments)
    return seconds, spent, int(told.split()[-2]) / 1024


def start_up(folder: Path) -> list[Row]:
    """Commands on a single record, against loading what they cannot do without."""
    fitted(100).save(folder / "map.ldm")
    np.savetxt(folder / "one.csv", points(1), delimiter=",")
    model, one = str(folder / "map.ldm"), str(folder / "one.csv")
    commands = {
        "info": (["info", model], "numpy", "at most 0.4 s"),
        "embed": (["embed", model, one, "-o", "-", "-q"], "numpy, scipy.linalg", "at most 0.6 s and 100 MB"),
        "stream": (["stream", model, one, "-q"], "numpy, scipy.linalg", "at most 0.6 s and 100 MB"),
    }
    rows = []
    for name, (command, package, target) in commands.items():
        ours, theirs = [], []
        for _ in range(5):
            theirs.append(child(f"import {package}" + _PEAK))
            ours.append(child(_COMMAND, *command))
        wall, _, memory = (min(column) for column in zip(*ours, strict=True))
        base, _, base_memory = (min(column) for column in zip(*theirs, strict=True))
        rows.append(
            Row(
                f"`ldmaps {name}`, from the shell and back",
                f"import {package}",
                f"{wall:.2f} s, {memory:.0f} MB",
                f"{base:.2f} s, {base_memory:.0f} MB",
                base / wall,
                target,
            )
        )
    return rows


#: Fits twice, and tells how long each took.
_FITS = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide

if sys.argv[1] == "euclidean":
    X, settings = np.random.default_rng(0).normal(size=(2000, 3)), {"n_landmarks": 100}
else:
    X, settings = alanine_dipeptide().frames[::10], {"metric": "rmsd"}
    settings |= {"tolerance": 1.0} if sys.argv[1] == "tolerance" else {"n_landmarks": 100}
for fit in range(2):
    began = time.perf_counter()
    LandmarkDiffusionMap(2, **settings).fit(X)
    print(time.perf_counter() - began, file=sys.stderr)
"""


def first_fit(_: Path) -> list[Row]:
    """The first fit of a process against the second: nothing is left to do at a first use."""
    rows = []
    for kind in ("euclidean", "rmsd", "tolerance"):
        runs = [[float(word) for word in timed(_FITS, kind)[2].split()[-2:]] for _ in range(5)]
        first, second = (min(column) for column in zip(*runs, strict=True))
        rows.append(
            Row(
                f"first fit of a process, {kind}",
                "the second",
                f"{first:.2f} s",
                f"{second:.2f} s",
                second / first,
                "at least 0.83 (1.2 times the time)",
            )
        )
    return rows


# -- text ---------------------------------------------------------------------


def text(folder: Path) -> list[Row]:
    """Text through the whole engine into a file, against merely reading the numbers."""
    values = points(N_RECORDS)
    table = folder / "records.csv"
    np.savetxt(table, values, delimiter=",", fmt="%.17g")
    lines = folder / "records.ndjson"
    lines.write_text("".join(json.dumps(row) + "\n" for row in values.tolist()))
    rows = []
    for n_landmarks in (100, 400):
        engine = StreamEmbedder(fitted(n_landmarks))

        def streamed(path: Path, engine: StreamEmbedder = engine) -> None:
            engine.run(path, [OutputFile(folder / "psi.csv", overwrite=True)])

        csv, ndjson, loadtxt, arrow = least(
            lambda: streamed(table),
            lambda: streamed(lines),
            lambda: np.loadtxt(table, delimiter=","),
            lambda: pyarrow.csv.read_csv(
                table, read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=True)
            ),
        )
        for name, path, ours in (("CSV", table, csv), ("NDJSON", lines, ndjson)):
            spent = processor(lambda path=path: streamed(path), N_RECORDS)
            for peer, theirs in (("numpy.loadtxt", loadtxt), ("pyarrow.csv", arrow)):
                rows.append(
                    Row(
                        f"{name} to CSV by a stream, M = {n_landmarks}, 3-D",
                        f"{peer} reading it",
                        f"{N_RECORDS / ours:,.0f}",
                        f"{N_RECORDS / theirs:,.0f}",
                        theirs / ours,
                        "at least 500,000 records/s",
                        spent,
                    )
                )
    return rows


def tables(folder: Path) -> list[Row]:
    """``ldmaps embed`` of tables, without loading packages, against reading them and embedding."""
    os.chdir(folder)  # names as one types them: each row carries that of its file
    number = itertools.count()
    np.savetxt("rows.csv", points(N_ROWS), delimiter=",", fmt="%.17g")
    np.save("rows.npy", points(4 * N_ROWS))
    rows = []
    for n_landmarks in (100, 400):
        embedder = fitted(n_landmarks).embedder_

        def embed(source: str, target: str, embedder=embedder) -> Path:
            # A new file each time, as most outputs are: to free an old one takes time, too.
            path = Path(f"{next(number)}{target}")
            opened = ldmaps.inputs.open_files(source)
            with (
                Progress(False).stage("embedding") as stage,
                open_writer(str(path), embedder.n_components, opened.files) as writer,
            ):
                embed_source(embedder, opened, writer, stage, None)
            return path

        def bare(source: str, embedder=embedder) -> None:
            if source.endswith(".csv"):
                blocks = [np.loadtxt(source, delimiter=",")]
            else:
                whole = np.load(source, mmap_mode="r")
                blocks = [whole[at : at + 65_536] for at in range(0, len(whole), 65_536)]
            for block in blocks:
                embedder.extend(embedder.prepare(np.array(block)))

        output = embed("rows.npy", "psi.npy").read_bytes()

        def write(output: bytes = output) -> None:
            with open(f"{next(number)}copy.npy", "wb") as stream:
                stream.write(output)
                stream.flush()
                os.fsync(stream.fileno())

        from_text, bare_text, from_array, bare_array, written = least(
            lambda: embed("rows.csv", "psi.csv"),
            lambda: bare("rows.csv"),
            lambda: embed("rows.npy", "psi.npy"),
            lambda: bare("rows.npy"),
            write,
        )
        rows.append(
            Row(
                f"CSV to CSV by embed, M = {n_landmarks}, 3-D",
                "numpy.loadtxt and embedding",
                f"{N_ROWS / from_text:,.0f}",
                f"{N_ROWS / bare_text:,.0f}",
                bare_text / from_text,
                "at most 1.5 times the time",
                processor(lambda: embed("rows.csv", "psi.csv"), N_ROWS),
            )
        )
        rows.append(
            Row(
                f"npy to npy by embed, M = {n_landmarks}, 3-D",
                "embedding alone",
                f"{4 * N_ROWS / from_array:,.0f}",
                f"{4 * N_ROWS / bare_array:,.0f}",
                bare_array / from_array,
                "at least 0.8",
                processor(lambda: embed("rows.npy", "psi.npy"), 4 * N_ROWS),
            )
        )
        rows.append(
            Row(
                f"npy to npy by embed, M = {n_landmarks}, 3-D",
                "writing the output",
                f"{4 * N_ROWS / from_array:,.0f}",
                f"{4 * N_ROWS / written:,.0f}",
                written / from_array,
                "–",
                f"{len(output) / (4 * N_ROWS):.0f} bytes per row",
            )
        )
    return rows


# -- frames and single points -------------------------------------------------


def preparation(_: Path) -> list[Row]:
    """Frames checked, centred, turned and packed, against copying them."""
    rows = []
    frames = alanine_dipeptide().frames
    for dtype in (np.float32, np.float64):
        X, metric = np.ascontiguousarray(frames, dtype=dtype), RMSD()
        ours, theirs = least(lambda X=X: metric.prepare(X), X.copy, rounds=15)
        rows.append(
            Row(
                f"prepare a frame of 22 atoms for RMSD, {np.dtype(dtype)}",
                "copying it",
                f"{1e6 * ours / len(X):.3f} µs",
                f"{1e6 * theirs / len(X):.3f} µs",
                theirs / ours,
                "at most 0.15 µs",
            )
        )
    return rows


def percentiles(work: Callable[[np.ndarray], object], some: np.ndarray, calls: int = 20_000) -> np.ndarray:
    """Return p50 and p99 of single calls, in µs."""
    taken = np.empty(calls)
    clock = time.perf_counter_ns
    rows = [row.copy() for row in some[:512]]
    for call in range(calls):
        row = rows[call % len(rows)]
        begin = clock()
        work(row)
        taken[call] = clock() - begin
    return np.percentile(taken, [50, 99]) / 1e3


def idle(microseconds: float) -> Callable[[np.ndarray], None]:
    """Return a function that only waits: what its p99 adds is the machine's."""

    clock, length = time.perf_counter_ns, round(1e3 * microseconds)

    def wait(_: np.ndarray) -> None:
        end = clock() + length
        while clock() < end:
            pass

    return wait


def one_point(_: Path) -> list[Row]:
    """One point from Python, against the two kernels alone."""
    frames = alanine_dipeptide().frames[::5]
    molecule = LandmarkDiffusionMap(2, metric="rmsd", landmarks="kmedoids", n_landmarks=100).fit(frames)
    rows = []
    for name, model, some, target in (
        ("3-D", fitted(100), points(512), 6),
        ("22 atoms, RMSD", molecule, frames, 12),
    ):
        embedder = model.embedder_
        landmarks, dtype = embedder.landmarks, embedder.landmarks.dtype
        prepared = embedder.prepare(some[:1])
        block, result = np.empty((1, len(landmarks)), dtype), Extended(1, 2, dtype)
        rate, one, all_of_them = dtype.type(0.5 / embedder.bandwidth), slice(0, 1), slice(0, len(landmarks))

        def bare(
            _: object,
            embedder=embedder,
            prepared=prepared,
            landmarks=landmarks,
            block=block,
            result=result,
            rate=rate,
            one=one,
            all_of_them=all_of_them,
        ) -> None:
            embedder.metric.squared_block(prepared, one, landmarks, all_of_them, block)
            kernels.extend(
                block,
                rate,
                embedder.source_weights,
                embedder.coefficients,
                result.coordinates,
                result.nearest,
                result.squared_distance,
            )

        works = {
            "embedder_.embed_one": (
                embedder.embed_one,
                f"p50 at most {target} µs, p99 at most 3 times",
            ),
            "transform": (lambda x, model=model: model.transform(x[None]), "at most 1.5 times that"),
        }
        for work, _ in works.values():
            percentiles(work, some, 300)
        base = min((percentiles(bare, some) for _ in range(3)), key=lambda found: found[0])
        for what, (work, wanted) in works.items():
            ours = min((percentiles(work, some) for _ in range(3)), key=lambda found: found[0])
            waited = min((percentiles(idle(ours[0]), some) for _ in range(3)), key=lambda found: found[0])
            rows.append(
                Row(
                    f"one point, {what}, M = 100, {name}",
                    "the arithmetic alone",
                    f"{ours[0]:.1f} µs, p99 {ours[1]:.1f}",
                    f"{base[0]:.1f} µs, p99 {base[1]:.1f}",
                    base[0] / ours[0],
                    wanted,
                    f"a loop that only waits as long: p99 {waited[1]:.1f} µs",
                )
            )
    return rows


def xtc(folder: Path) -> list[Row]:
    """A trajectory of 22 atoms through ``ldmaps embed``, against reading it."""
    dry = mdtraj_trajectory(stride=1)
    masses = [atom.element.mass for atom in dry.topology.atoms]
    model = LandmarkDiffusionMap(2, metric=RMSD(weights=masses), tolerance=1.0).fit(dry.xyz[::5])
    embedder = model.embedder_
    dry[0].save_pdb(str(folder / "dry.pdb"))
    path, top = folder / "dry.xtc", folder / "dry.pdb"
    # Long enough that opening the files and the last synchronisation count for little.
    mdtraj.join([dry] * 16, check_topology=False).save_xtc(str(path))
    n = 16 * len(dry)

    def embed(target: str) -> None:
        opened = ldmaps.inputs.open_files(path, top=top)
        with (
            Progress(False).stage("embedding") as stage,
            open_writer(str(folder / target), embedder.n_components, [str(path)]) as writer,
        ):
            embed_source(embedder, opened, writer, stage, None)

    def read() -> None:
        for _ in mdtraj.iterload(str(path), top=str(top), chunk=1000):
            pass

    rows = []
    for target in ("psi.npy", "psi.csv"):
        ours, theirs = least(lambda target=target: embed(target), read)
        rows.append(
            Row(
                f"xtc to {target[-3:]} by embed, 22 atoms, M = {embedder.n_landmarks}",
                "mdtraj reading it",
                f"{n / ours:,.0f}",
                f"{n / theirs:,.0f}",
                theirs / ours,
                "at least 0.8",
            )
        )
    return rows


SUBJECTS = {one.__name__: one for one in (start_up, first_fit, text, tables, preparation, one_point, xtc)}

if __name__ == "__main__":
    table = stored("surroundings") if sys.argv[1:] else []
    for subject in sys.argv[1:] or SUBJECTS:
        with tempfile.TemporaryDirectory() as name:
            table = with_rows(table, SUBJECTS[subject](Path(name)))
        title = "Overheads"
        write_table(
            "surroundings", title, "python benchmarks/surroundings.py", INTRODUCTION, table, hidden=HIDDEN
        )
