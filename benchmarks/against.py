"""This version beside another one: the same cases, in turns, in one run.

    .venv/bin/python benchmarks/against.py --other PATH/.venv/bin/python

Each version runs in a process of its own that stays warm; the two take turns, case by case, and the
least time of each counts. What a case computes is compared too. Before a change that touches kernels
lands, no case should be below 0.95.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

#: Bandwidths: given, because versions choose different ones, and a wider kernel is more work.
ROLL, FRAMES = {"epsilon": 2.0}, {"epsilon": 0.1, "metric": "rmsd"}
FOLDER = Path(tempfile.gettempdir()) / "ldmaps-against"
#: Seconds that each version may spend on a case, all turns together, and how many turns at least.
SECONDS, TURNS = 2.0, 5

Case = Callable[[], np.ndarray]


def frames(n: int, atoms: int, dtype: type = np.float32) -> np.ndarray:
    rng = np.random.default_rng(atoms)
    shape = rng.normal(size=(atoms, 3))
    bend = rng.uniform(-1, 1, n)[:, None, None]
    return (shape + bend * np.roll(shape, 1, axis=0) + 0.15 * rng.normal(size=(n, atoms, 3))).astype(dtype)


def roll(n: int, features: int = 3, dtype: type = np.float64) -> np.ndarray:
    rng = np.random.default_rng(features)
    angle, height = 4.7 + 9.4 * rng.random(n), 21 * rng.random(n)
    points = np.c_[angle * np.cos(angle), height, angle * np.sin(angle)]
    if features > 3:
        points = points @ rng.normal(size=(3, features)) / 3
    return points[:, :features].astype(dtype)


def pairs(metric: Any, X: np.ndarray, columns: int = 400) -> Case:
    """Blocks of squared distances, written to another place within a page at each turn.

    How places in memory fall to each other decides up to a third of the time of the quickest loops; so each version
    is given several, and its least time is that of a good one.
    """
    a, b = metric.prepare(X), metric.prepare(X[:columns])
    size, line = len(X) * columns, 64 // a.dtype.itemsize
    memory, turns = np.empty(size + 64 * line, a.dtype), itertools.count()

    def run() -> np.ndarray:
        start = next(turns) * 7 % 64 * line
        out = memory[start : start + size].reshape(len(X), columns)
        metric.squared_block(a, slice(0, len(X)), b, slice(0, columns), out)
        return out

    return run


def landmark_map(**settings: Any) -> Any:
    """Return a map that chooses landmarks from all points, in versions that otherwise keep some back too."""
    from ldmaps import LandmarkDiffusionMap

    made = LandmarkDiffusionMap(random_state=0, n_components=3, **settings)
    return made.set_params(calibration=0.0) if "calibration" in made.get_params() else made


def fits(X: np.ndarray, **settings: Any) -> Case:
    return lambda: landmark_map(**settings).fit(X).eigenvalues_


def exact(X: np.ndarray, **settings: Any) -> Case:
    from ldmaps import DiffusionMap

    return lambda: DiffusionMap(n_components=3, **settings).fit(X).eigenvalues_


def model(X: np.ndarray, n_landmarks: int, **settings: Any) -> Any:
    return landmark_map(n_landmarks=n_landmarks, **settings).fit(X)


def one_by_one(fitted: Any, X: np.ndarray) -> Case:
    embed, some = fitted.embedder_.embed_one, list(X[:2000])
    return lambda: np.array([embed(point) for point in some])


def prepared(X: np.ndarray, dtype: type) -> Case:
    from ldmaps.metrics import RMSD

    def run() -> np.ndarray:
        return RMSD().pairwise(X[:3]) if RMSD().prepare(X, dtype) is None else np.zeros(1)

    return run


def command(*arguments: str) -> Case:
    """A command in this process, its output kept."""
    from ldmaps.cli import main

    def run() -> np.ndarray:
        if main([*arguments, "--force"]):
            raise RuntimeError(f"ldmaps {' '.join(arguments)} failed")
        data = Path(arguments[arguments.index("-o") + 1]).read_bytes()
        return np.array([len(data), sum(data) % 100_000.0])

    return run


def cases() -> dict[str, Callable[[], Case]]:
    """Return what is measured; data are made when a case is begun."""
    from ldmaps.metrics import RMSD, EarthMover, Euclidean, Hamming, Periodic

    single, double = np.float32, np.float64
    listed: dict[str, Callable[[], Case]] = {}
    for kind in (single, double):
        name = kind.__name__
        for atoms in (10, 22, 100):
            listed[f"RMSD blocks, {atoms} atoms, {name}"] = lambda a=atoms, k=kind: pairs(
                RMSD(), frames(2000, a, k)
            )
            listed[f"frames prepared, {atoms} atoms, {name}"] = lambda a=atoms, k=kind: prepared(
                frames(4000, a, k), k
            )
        for features in (1, 2, 3, 5, 16, 40):
            listed[f"Euclidean blocks, {features} features, {name}"] = lambda f=features, k=kind: pairs(
                Euclidean(), roll(4000, f, k)
            )
        listed[f"periodic blocks, 4 features, {name}"] = lambda k=kind: pairs(
            Periodic(6.3), roll(4000, 4, k) % 6.0
        )
        listed[f"Hamming blocks, 20 features, {name}"] = lambda k=kind: pairs(
            Hamming(), np.round(roll(4000, 20, k))
        )
        listed[f"RMSD aligned blocks, 22 atoms, {name}"] = lambda k=kind: pairs(
            RMSD(superpose_on=[0, 1, 2, 3]), frames(200, 22, k), 100
        )
    listed["earth mover's blocks, one dimension"] = lambda: pairs(EarthMover(), np.abs(roll(2000, 16)) + 0.1)
    listed |= {
        "fit, spanning tree, roll of 8,000": lambda: fits(roll(8000), landmarks="pst", **ROLL),
        "fit, 400 medoids, roll of 8,000": lambda: fits(roll(8000), n_landmarks=400, **ROLL),
        "fit, 400 medoids, 16 features, 8,000": lambda: fits(roll(8000, 16), n_landmarks=400, epsilon=5.0),
        "fit, 400 medoids, 22 atoms, 8,000": lambda: fits(frames(8000, 22), n_landmarks=400, **FRAMES),
        "fit, tolerance 1 %, 22 atoms, 4,000": lambda: fits(frames(4000, 22), tolerance=1.0, **FRAMES),
        "fit, tolerance 1 %, roll of 4,000": lambda: fits(roll(4000), tolerance=1.0, **ROLL),
        "exact map, stored, roll of 4,000": lambda: exact(roll(4000), **ROLL),
        "exact map, stored, 22 atoms, 3,000": lambda: exact(frames(3000, 22), **FRAMES),
        "exact map, streamed, roll of 4,000": lambda: exact(roll(4000), solver="streamed", **ROLL),
        "exact map, streamed, 22 atoms, 3,000": lambda: exact(frames(3000, 22), solver="streamed", **FRAMES),
    }
    for n_landmarks in (30, 100, 400, 2000):
        listed[f"transform 100,000 points in 3-D, M = {n_landmarks}"] = lambda m=n_landmarks: (
            lambda fitted, X: lambda: fitted.transform(X)
        )(model(roll(8000), m, epsilon=2.0 if m > 30 else 70.0), roll(100_000))
        listed[f"transform 10,000 frames of 22 atoms, M = {n_landmarks}"] = lambda m=n_landmarks: (
            lambda fitted, X: lambda: fitted.transform(X)
        )(model(frames(4000, 22), m, **FRAMES), frames(10_000, 22))
    for n_landmarks in (30, 400):
        listed[f"gradient, 22 atoms, M = {n_landmarks}"] = lambda m=n_landmarks: (
            lambda fitted, X: lambda: fitted.transform_with_gradient(X)[1]
        )(model(frames(3000, 22), m, **FRAMES), frames(200, 22))
        listed[f"gradient, 3-D, M = {n_landmarks}"] = lambda m=n_landmarks: (
            lambda fitted, X: lambda: fitted.transform_with_gradient(X)[1]
        )(model(roll(3000), m, epsilon=2.0 if m > 30 else 70.0), roll(2000))
    listed |= {
        "one point, 3-D, M = 100": lambda: one_by_one(model(roll(4000), 100, **ROLL), roll(4000)),
        "one point, 3-D, M = 400": lambda: one_by_one(model(roll(4000), 400, **ROLL), roll(4000)),
        "one frame, 22 atoms, M = 100": lambda: one_by_one(
            model(frames(4000, 22), 100, **FRAMES), frames(4000, 22)
        ),
        "one frame, 22 atoms, M = 400": lambda: one_by_one(
            model(frames(4000, 22), 400, **FRAMES), frames(4000, 22)
        ),
    }
    listed |= files()
    return listed


def files() -> dict[str, Callable[[], Case]]:
    """Cases that read and write files, made once for both versions."""

    def made(name: str, make: Callable[[Path], None]) -> str:
        path = FOLDER / name
        if not path.exists():
            make(path)
        return str(path)

    def trajectory(path: Path) -> None:
        import mdtraj

        top = mdtraj.Topology()
        residue = top.add_residue("ALA", top.add_chain())
        for number in range(22):
            top.add_atom(f"C{number}", mdtraj.element.carbon, residue)
        run = mdtraj.Trajectory(frames(100_000, 22), top)
        run[0].save_pdb(str(FOLDER / "top.pdb"))
        run.save_xtc(str(path))

    def points_map(path: Path) -> None:
        # Of as many points that few records of the stream are off the map: what is said of those has changed.
        model(roll(100_000), 100, **ROLL).save(path)

    def frames_map(path: Path) -> None:
        model(frames(4000, 22), 8, **FRAMES).save(path)

    def csv(path: Path) -> None:
        np.savetxt(path, roll(200_000), delimiter=",", header="x,y,z", comments="", fmt="%.9g")

    def ndjson(path: Path) -> None:
        path.write_text("".join(f"[{x:.9g}, {y:.9g}, {z:.9g}]\n" for x, y, z in roll(200_000)))

    own = Path(tempfile.mkdtemp(dir=FOLDER))
    quiet = ("--quiet",)
    return {
        "embed, CSV to CSV, 200,000 rows": lambda: command(
            "embed",
            made(f"{own.name}.ldm", points_map),
            made("in.csv", csv),
            "-o",
            str(own / "a.csv"),
            *quiet,
        ),
        "stream, CSV to CSV, 200,000 records": lambda: command(
            "stream",
            made(f"{own.name}.ldm", points_map),
            made("in.csv", csv),
            "-o",
            str(own / "b.csv"),
            *quiet,
        ),
        "stream, NDJSON to CSV, 200,000 records": lambda: command(
            "stream",
            made(f"{own.name}.ldm", points_map),
            made("in.ndjson", ndjson),
            "-o",
            str(own / "c.csv"),
            *quiet,
        ),
        "embed, XTC to CSV, 100,000 frames": lambda: command(
            "embed",
            made(f"{own.name}f.ldm", frames_map),
            made("in.xtc", trajectory),
            "-t",
            str(FOLDER / "top.pdb"),
            "-o",
            str(own / "d.csv"),
            *quiet,
        ),
        "embed, XTC to npy, 100,000 frames": lambda: command(
            "embed",
            made(f"{own.name}f.ldm", frames_map),
            made("in.xtc", trajectory),
            "-t",
            str(FOLDER / "top.pdb"),
            "-o",
            str(own / "e.npy"),
            *quiet,
        ),
    }


def serve() -> None:
    """Run what each line of stdin names, and answer with seconds or values."""
    out, sys.stdout = sys.stdout, sys.stderr
    listed, running = cases(), None
    for line in sys.stdin:
        verb, _, name = line.rstrip("\n").partition(" ")
        answer: dict[str, Any] = {}
        try:
            if verb == "list":
                answer["cases"] = list(listed)
            elif verb == "begin":
                running = listed[name]()
                values = np.abs(np.asarray(running(), dtype=np.float64)).ravel()
                answer["values"] = values[:: max(1, len(values) // 1000)].tolist()
            elif running is not None:
                began = time.perf_counter()
                running()
                answer["seconds"] = time.perf_counter() - began
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=out, flush=True)


class Version:
    """A process that runs cases with one version."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, text: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        self._process.communicate()


def largest_difference(ours: list[float], theirs: list[float]) -> float:
    a, b = np.array(ours), np.array(theirs)
    if a.shape != b.shape:
        return float("inf")
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)) if a.size else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--other", help="the Python that has the other version installed")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    if arguments.serve:
        serve()
        return
    ours, theirs = Version(sys.executable), Version(arguments.other)
    print(f"{'case':52} {'ours':>11} {'theirs':>11}  ratio  difference")
    below = 0
    for name in ours.ask("list")["cases"]:
        if arguments.only not in name:
            continue
        try:
            values = [version.ask(f"begin {name}")["values"] for version in (ours, theirs)]
            seconds: tuple[list[float], list[float]] = [], []
            while len(seconds[0]) < TURNS or (sum(map(sum, seconds)) < 2 * SECONDS and len(seconds[0]) < 200):
                for version, times in zip((ours, theirs), seconds, strict=True):
                    times.append(version.ask("run")["seconds"])
        except RuntimeError as error:
            print(f"{name:52} {error}")
            continue
        mine, other = min(seconds[0]), min(seconds[1])
        below += other / mine < 0.95
        print(
            f"{name:52} {1e3 * mine:8.2f} ms {1e3 * other:8.2f} ms  {other / mine:5.2f}  "
            f"{largest_difference(*values):.1e}",
            flush=True,
        )
    ours.close()
    theirs.close()
    print(f"{below} below 0.95")


if __name__ == "__main__":
    main()
