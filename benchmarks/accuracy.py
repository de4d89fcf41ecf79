"""Accuracy of landmark maps at full size, against the exact map and beside the paper's table.

    python benchmarks/accuracy.py [--folds 5] [--only table1 draws speed unseen outside] [--data "Swiss roll" ...] [--again]

Writes docs/accuracy/*.csv, a line as soon as it is known, and docs/accuracy.md from
them. What the CSVs hold already is not computed again, except with ``--again``.
Exact maps are kept in .cache/accuracy/COMMIT, a file for each data set and fold.
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from harness import commit

from ldmaps import DiffusionMap, LandmarkDiffusionMap, __version__
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.diffusion.spectrum import Spectrum
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import LdmapsError
from ldmaps.extension import Distilled, Embedder
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.solve import SolvedMap
from ldmaps.landmarks import KMedoids, Landmarks
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.threads import single_threaded_blas
from ldmaps.validation.fidelity import column_matching, nrmse

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "accuracy"
#: Words that stand before the tables.
PROSE = Path(__file__).parent / "prose"
CACHE = ROOT / ".cache" / "accuracy" / commit()
SEED = 0
N_FOLDS = 5
TOLERANCE = 1.0
#: Timings of each map; the page gives their median and range, so that none can be picked.
TIMED_RUNS = 5
#: Draws of landmarks that plain maps are averaged over in each fold, where modes lie so close that the draw decides.
DRAWS = 6
#: Left out without ``--full``: distilling takes five minutes per fold.
SLOW = {("Swiss roll", 8000)}
#: Sets of landmarks of which the best is taken where as few as possible are wanted.
ATTEMPTS = 5


@dataclass(frozen=True)
class DataSet:
    name: str
    load: Callable[[], tuple[np.ndarray, Any]]
    n_components: int
    #: M: (Z_train, Z_test) of the paper's Table 1
    paper: dict[int, tuple[float, float]] = field(default_factory=dict)
    target: int = 0
    stretch: int = 0
    n_draws: int = 1

    @cached_property
    def points(self) -> np.ndarray:
        return self.load()[0]

    @cached_property
    def metric(self) -> Any:
        return self.load()[1]


def _alanine() -> tuple[np.ndarray, Any]:
    data = alanine_dipeptide()
    return data.frames[:25_000], RMSD(weights=data.masses)


TABLE = [
    DataSet(
        "Swiss roll",
        lambda: (swiss_roll(20_000).points, Euclidean()),
        2,
        {2000: (13.43, 13.37), 4000: (3.74, 3.75), 8000: (1.22, 1.22)},
        50,
        200,
    ),
    DataSet(
        "C24H50",
        lambda: (c24h50().frames[:10_000], RMSD()),
        4,
        {50: (9.97, 10.65), 100: (5.38, 5.76), 300: (3.19, 3.49)},
        150,
        500,
        DRAWS,
    ),
    DataSet(
        "alanine dipeptide",
        _alanine,
        2,
        {200: (5.93, 6.31), 400: (2.92, 3.05), 1000: (1.43, 1.50)},
        400,
        1000,
    ),
]


def torus(n: int, seed: int) -> np.ndarray:
    u, v = np.random.default_rng(seed).uniform(0, 2 * np.pi, (2, n))
    return np.column_stack([(3 + np.cos(v)) * np.cos(u), (3 + np.cos(v)) * np.sin(u), 1.5 * np.sin(v)])


def s_curve(n: int, seed: int) -> np.ndarray:
    t, h = np.random.default_rng(seed).uniform(size=(2, n))
    t = 3 * np.pi * (t - 0.5)
    return np.column_stack([np.sin(t), 2 * h, np.sign(t) * (np.cos(t) - 1)])


def ten_dimensions(n: int, seed: int) -> np.ndarray:
    """A noisy roll turned into ten dimensions and bent there."""
    rng = np.random.default_rng(seed)
    roll = swiss_roll(n, noise=0.2, random_state=seed).points
    turned = roll @ rng.normal(size=(3, 10))
    return turned + 2 * np.sin(turned / 6) + 0.1 * rng.normal(size=turned.shape)


def two_basins(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centre = np.where(rng.random(n) < 0.7, -2.0, 2.0)
    centre[: n // 8] = rng.uniform(-2, 2, n // 8)
    X = 0.4 * rng.normal(size=(n, 5))
    X[:, 0] += centre
    return X


def _frames(load: Callable[..., Any], stride: int, atoms: str) -> tuple[np.ndarray, Any]:
    data = load(stride=stride)
    if atoms == "heavy":
        return data.frames[:, data.heavy_atoms], RMSD(weights=data.masses[data.heavy_atoms])
    if atoms == "half":
        return data.frames[:, ::2], RMSD()
    return data.frames, RMSD()


UNSEEN = [
    DataSet("Swiss roll, seed 1", lambda: (swiss_roll(6250, random_state=1).points, Euclidean()), 2),
    DataSet(
        "Swiss roll, seed 2, noise 0.3",
        lambda: (swiss_roll(6250, noise=0.3, random_state=2).points, Euclidean()),
        2,
    ),
    DataSet("torus", lambda: (torus(6250, 3), Euclidean()), 4),
    DataSet("S curve", lambda: (s_curve(6250, 4), Euclidean()), 3),
    DataSet("bent roll in 10 dimensions, noise", lambda: (ten_dimensions(6250, 5), Euclidean()), 2),
    DataSet("two basins in 5 dimensions", lambda: (two_basins(6250, 6), Euclidean()), 2),
    DataSet("alanine dipeptide, heavy atoms", lambda: _frames(alanine_dipeptide, 4, "heavy"), 2),
    DataSet("alanine dipeptide, equal weights", lambda: _frames(alanine_dipeptide, 4, "all"), 2),
    DataSet("C24H50, every other atom", lambda: _frames(c24h50, 2, "half"), 3),
]
UNSEEN_LANDMARKS = (25, 50, 100, 200, 400)
#: Of these, the ones on the page.
UNSEEN_SHOWN = (25, 400)


# -- one fold --------------------------------------------------------------------


class Fold:
    """Training and test points of one fold, with the exact map of the former and its extension to the latter."""

    def __init__(self, data: DataSet, fold: int) -> None:
        self.data, self.fold = data, fold
        order = np.random.default_rng(SEED).permutation(len(data.points))
        parts = np.array_split(order, N_FOLDS)
        self.train = data.points[np.sort(np.concatenate(parts[:fold] + parts[fold + 1 :]))]
        self.test = data.points[np.sort(parts[fold])]
        path = CACHE / f"{data.name.replace(' ', '_').replace(',', '')}-{len(self.train)}-{fold}.npz"
        if not path.exists():
            log(f"{data.name}, fold {fold}: exact map of {len(self.train)} points")
            began = time.perf_counter()
            exact = DiffusionMap(data.n_components, "connected", data.metric).fit(self.train)
            seconds = time.perf_counter() - began
            CACHE.mkdir(parents=True, exist_ok=True)
            np.savez(
                path,
                epsilon=exact.epsilon_,
                eigenvalues=exact.eigenvalues_,
                train=exact.embedding_,
                test=exact.transform(self.test),
                seconds=seconds,
            )
        with np.load(path) as stored:
            self.exact = {key: stored[key] for key in stored.files}
        self.epsilon = float(self.exact["epsilon"])
        self.span = np.ptp(self.exact["train"].astype(np.float64), axis=0)

    @cached_property
    def reference(self) -> SolvedMap:
        points = self.data.metric.prepare(self.train)
        ones = np.ones(len(points))
        spectrum = Spectrum(self.exact["eigenvalues"], self.exact["train"].astype(np.float64), ones, ones)
        zeros, everyone = np.zeros(len(points)), np.arange(len(points))
        walk = Walk(self.data.metric, points, ones, self.epsilon)
        return SolvedMap(walk, everyone, points, ones, zeros, spectrum)

    @cached_property
    def full(self) -> Embedder:
        return self.reference.embedder()

    def landmarks(self, m: int, attempt: int = 0) -> Landmarks:
        points = self.reference.points
        return KMedoids(m).select(
            Walk(self.data.metric, points, np.ones(len(points)), self.epsilon),
            np.random.default_rng([SEED, self.fold, m, attempt]),
        )

    def embedder(self, extension: str, chosen: Landmarks) -> tuple[Embedder, Any]:
        points = self.reference.points
        if extension == "nystrom":
            model = LandmarkDiffusionMap(
                self.data.n_components,
                self.epsilon,
                self.data.metric,
                landmarks=chosen.indices,
                extension="nystrom",
            ).fit(self.train)
            return model.embedder_, None
        rng = np.random.default_rng([SEED, self.fold])
        step = Distilled().fit(self.reference, chosen, np.arange(len(points)), rng)
        return LandmarkFit.of(self.reference.walk, chosen, step, None).embedder, step

    def best_of(self, m: int, attempts: int = ATTEMPTS) -> Landmarks:
        """Return the set of landmarks of lowest error on training points held out while distilling."""
        sets = [self.landmarks(m, attempt) for attempt in range(attempts)]
        return min(sets, key=lambda chosen: self.embedder("distilled", chosen)[1].held_out_z)

    def judge(self, extension: str, chosen: Landmarks) -> dict[str, Any]:
        began = time.perf_counter()
        try:
            embedder, found = self.embedder(extension, chosen)
        except LdmapsError as error:
            return {"z_train": float("nan"), "z_test": float("nan"), "note": type(error).__name__}
        seconds = time.perf_counter() - began
        train = embedder.extend(self.reference.points).coordinates
        test = embedder.extend(embedder.prepare(self.test)).coordinates
        order, signs = column_matching(self.exact["train"], train)
        errors = [
            nrmse(self.exact[part], found_[:, order] * signs, ranges=self.span, matched=True)
            for part, found_ in (("train", train), ("test", test))
        ]
        row = {"z_train": errors[0], "z_test": errors[1], "seconds": seconds}
        if found is not None:
            row |= {
                "width": found.bandwidth / self.epsilon,
                "ridge": found.ridge,
                "tuned": found.is_tuned,
                "hull": float((np.ptp(found.coefficients, axis=0) / self.span).max()),
            }
        return row


# -- tables as files ---------------------------------------------------------------


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


class Table:
    """A CSV that grows a line at a time, and knows which lines it has."""

    def __init__(self, name: str, keys: tuple[str, ...], values: tuple[str, ...]) -> None:
        self.path, self.keys, self.columns = OUT / f"{name}.csv", keys, keys + values
        self.rows: list[dict[str, str]] = []
        if self.path.exists():
            with self.path.open(newline="") as stream:
                self.rows = list(csv.DictReader(stream))

    def has(self, **key: Any) -> bool:
        return any(all(row[name] == str(value) for name, value in key.items()) for row in self.rows)

    def add(self, **row: Any) -> None:
        text = {
            name: f"{value:.6g}" if isinstance(value, float) else str(value)
            for name, value in row.items()
            if name in self.columns
        }
        OUT.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        with self.path.open("a", newline="") as stream:
            writer = csv.DictWriter(stream, self.columns, restval="")
            if is_new:
                writer.writeheader()
            writer.writerow(text)
        self.rows.append({name: text.get(name, "") for name in self.columns})
        log(" ".join(f"{name}={value}" for name, value in text.items()))

    def select(self, **key: Any) -> list[dict[str, str]]:
        return [row for row in self.rows if all(row[name] == str(value) for name, value in key.items())]

    def numbers(self, column: str, **key: Any) -> list[float]:
        return [float(row[column]) for row in self.select(**key) if row[column]]


JUDGED = ("z_train", "z_test", "seconds", "width", "ridge", "tuned", "hull", "note")


def table1() -> Table:
    return Table("table1", ("data", "m", "extension", "fold"), JUDGED)


def draws() -> Table:
    """Plain maps over further draws of landmarks; the first is in :func:`table1`."""
    return Table("draws", ("data", "m", "fold", "draw"), ("z_train", "z_test", "note"))


def small() -> Table:
    return Table("small_m", ("data", "m", "extension", "fold"), JUDGED)


def speed() -> Table:
    return Table("speed", ("data", "m", "fold", "run"), SPEEDS)


SPEEDS = ("n", "prepare_us", "full_us", "landmark_us", "speedup", "whole_speedup", "single_speedup")


def unseen() -> Table:
    return Table("unseen", ("data", "m", "extension", "fold"), JUDGED)


def outside() -> Table:
    return Table("outside", ("data", "m", "noise", "extension"), ("farthest", "beyond", "z_to_exact"))


# -- measurements ------------------------------------------------------------------


def run_table1(sets: list[DataSet], folds: int, *, full: bool) -> None:
    table = table1()
    for fold in range(folds):
        for data in sets:
            for m in data.paper:
                if (data.name, m) in SLOW and not full:
                    continue
                missing = [
                    name
                    for name in ("nystrom", "distilled")
                    if not table.has(data=data.name, m=m, extension=name, fold=fold)
                ]
                if missing:
                    part = _fold(data, fold)
                    chosen = part.landmarks(m)
                    for name in missing:
                        table.add(data=data.name, m=m, extension=name, fold=fold, **part.judge(name, chosen))


def run_draws(sets: list[DataSet], folds: int) -> None:
    """Measure plain maps over further draws of landmarks, the first folds of all M before the next."""
    table = draws()
    for fold in range(folds):
        for data in sets:
            for m in data.paper:
                for draw in range(1, data.n_draws):
                    if not table.has(data=data.name, m=m, fold=fold, draw=draw):
                        part = _fold(data, fold)
                        row = part.judge("nystrom", part.landmarks(m, draw))
                        table.add(data=data.name, m=m, fold=fold, draw=draw, **row)


def _grid() -> Iterator[int]:
    m = 3.0
    while m < 600:
        yield round(m)
        m = max(m + 1, m * 2**0.25)


def run_speed(sets: list[DataSet], folds: int) -> None:
    """Find the smallest M whose mean Z over the folds meets the tolerance, and time it."""
    table, times = small(), speed()
    for data in sets:
        for m in _grid():
            for fold in range(folds):
                if not table.has(data=data.name, m=m, extension="distilled", fold=fold):
                    part = _fold(data, fold)
                    row = part.judge("distilled", part.best_of(m))
                    table.add(data=data.name, m=m, extension="distilled", fold=fold, **row)
                if fold == 0 and table.numbers("z_test", data=data.name, m=m, fold=0)[0] > 1.5 * TOLERANCE:
                    break  # far from it: the other folds need not be looked at
            found = table.numbers("z_test", data=data.name, m=m)
            if len(found) == folds and statistics.mean(found) <= TOLERANCE:
                if not times.has(data=data.name, m=m, run=TIMED_RUNS - 1):
                    part = _fold(data, 0)
                    embedder, _ = part.embedder("distilled", part.best_of(m))
                    for run in range(len(times.select(data=data.name, m=m)), TIMED_RUNS):
                        row = _time(part, embedder)
                        times.add(data=data.name, m=m, fold=0, run=run, n=len(part.train), **row)
                break


def _time(part: Fold, embedder: Embedder, rounds: int = 9) -> dict[str, float]:
    """Return processor times a point on one thread, and median ratios of turns taken alternately.

    ``speedup`` is that of distances and projection, as in the paper; ``whole_speedup``
    counts all that is done with new points as they come: each map validates, prepares and embeds them.
    """
    batch, few = part.test, part.test[:20]
    points = embedder.prepare(batch)
    repeats = 10
    rows = []
    with single_threaded_blas():  # once for all, instead of at every call
        for _ in range(rounds + 1):
            prepare = _clock(lambda: embedder.prepare(batch), repeats) / len(batch)
            full = _clock(lambda: part.full.extend(points, 1), 1) / len(batch)
            ours = _clock(lambda: embedder.extend(points, 1), repeats) / len(batch)
            alone = [
                _clock(lambda each=each: [each.embed_one(x) for x in few], 3)
                for each in (part.full, embedder)
            ]
            as_they_come = _clock(lambda: embedder.project(batch, 1), repeats) / len(batch)
            # Of the full map only the preparation beside what was measured already: it takes seconds.
            whole = (prepare + full) / as_they_come
            rows.append((1e6 * prepare, 1e6 * full, 1e6 * ours, full / ours, whole, alone[0] / alone[1]))
    found = np.median(rows[1:], axis=0)
    return dict(zip(SPEEDS[1:], map(float, found), strict=True))


def _clock(work: Callable[[], object], repeats: int) -> float:
    began = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - began) / repeats


def run_unseen() -> None:
    table = unseen()
    for data in UNSEEN:
        for m in UNSEEN_LANDMARKS:
            for name in ("nystrom", "distilled"):
                if not table.has(data=data.name, m=m, extension=name, fold=0):
                    part = _fold(data, 0)
                    row = part.judge(name, part.landmarks(m))
                    table.add(data=data.name, m=m, extension=name, fold=0, **row)


def run_outside(sets: list[DataSet]) -> None:
    """Move test points off the data by noise and see where the maps put them."""
    table = outside()
    for data in sets:
        m = next(iter(data.paper))
        if table.has(data=data.name, m=m):
            continue
        part = _fold(data, 0)
        chosen = part.landmarks(m)
        low, high = part.exact["train"].min(axis=0), part.exact["train"].max(axis=0)
        rng = np.random.default_rng(SEED)
        test = part.test[:1000]
        direction = rng.normal(size=test.shape)
        n_moving = test.shape[1] if test.ndim == 3 else 1
        direction /= np.sqrt((direction**2).sum(axis=tuple(range(1, test.ndim)), keepdims=True) / n_moving)
        embedders = {name: part.embedder(name, chosen)[0] for name in ("nystrom", "distilled")}
        for noise in (1.0, 3.0, 10.0):
            moved = (test + noise * np.sqrt(part.epsilon) * direction).astype(test.dtype)
            truth = part.full.extend(part.full.prepare(moved)).coordinates
            for name, embedder in {"full Nyström": part.full, **embedders}.items():
                found = embedder.extend(embedder.prepare(moved)).coordinates.astype(np.float64)
                order, signs = (
                    column_matching(part.exact["train"], embedder.extend(part.reference.points).coordinates)
                    if name != "full Nyström"
                    else (np.arange(found.shape[1]), 1.0)
                )
                found = found[:, order] * signs
                excess = np.maximum(np.maximum(low - found, found - high), 0) / part.span
                table.add(
                    data=data.name,
                    m=m,
                    noise=noise,
                    extension=name,
                    farthest=100 * float(excess.max()),
                    beyond=100 * float((excess > 0.1).any(axis=1).mean()),
                    z_to_exact=nrmse(truth, found, ranges=part.span, matched=True),
                )


_kept: dict[str, Fold] = {}


def _fold(data: DataSet, fold: int) -> Fold:
    """Return a fold; only the last one is kept in memory."""
    key = f"{data.name}/{fold}"
    if key not in _kept:
        _kept.clear()
        _kept[key] = Fold(data, fold)
    return _kept[key]


# -- the page ----------------------------------------------------------------------


def _mean(values: list[float]) -> str:
    if not values:
        return "–"
    if any(np.isnan(values)):
        return "no map"
    spread = f" ({statistics.stdev(values):.2g})" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3g}{spread}"


def page(*, measured: bool = True) -> None:
    first, few, times, other, far = table1(), small(), speed(), unseen(), outside()
    lines = [
        "# Accuracy",
        "",
        (PROSE / "accuracy.md").read_text(encoding="utf-8").rstrip(),
        "",
    ]
    folds = max(len(first.select(data=d.name, m=m, extension="distilled")) for d in TABLE for m in d.paper)
    lines += [
        "## The paper's Table 1",
        "",
        "Z of test points in percent (eqn Z_error) against the exact map's Nyström extension, k-medoids, smallest connected ε; mean",
        f"(standard deviation) over {folds} of {N_FOLDS} folds. [All numbers](accuracy/table1.csv).",
        *_about_draws(),
        "",
        "| data | M | paper | nystrom | distilled | paper over distilled |",
        "|---|---|---|---|---|---|",
    ]
    for data in TABLE:
        for m, (_, test) in data.paper.items():
            cells = []
            for name in ("nystrom", "distilled"):
                key = {"data": data.name, "m": m, "extension": name}
                further = draws() if name == "nystrom" else None
                z = first.numbers("z_test", **key)
                z += further.numbers("z_test", data=data.name, m=m) if further is not None else []
                cells.append(_mean(z))
            ours = first.numbers("z_test", data=data.name, m=m, extension="distilled")
            if not ours:
                continue
            gain = f"{test / statistics.mean(ours):.0f}"
            lines.append(f"| {data.name} | {m:,} | {test} | {cells[0]} | {cells[1]} | {gain} |")
    lines += [
        "",
        "## Fewest landmarks for Z ≤ 1 %, and what they save",
        "",
        "M is the first of a grid (3 to 8, then ratio 2^¼) whose mean test Z is at most 1 %, distilled, the best of five choices of",
        "medoids. The test points choose M, so their Z is slightly too low; `tolerance` has no such bias. Speed-up over all N points, in",
        "processor time of one thread, median (range) of five timings: of distances and projection, as in the paper; of all that is done",
        "with new points as they come; and of points one by one. [All numbers](accuracy/speed.csv), [Z against M](accuracy/small_m.csv).",
        "",
        "| data | N | M | Z test | speed-up | all counted | one by one |",
        "|---|---|---|---|---|---|---|",
    ]
    for data in TABLE:
        counts = sorted({int(row["m"]) for row in times.select(data=data.name)})
        for m in counts[-1:]:
            key = {"data": data.name, "m": m}
            number = {name: statistics.median(times.numbers(name, **key)) for name in SPEEDS}
            ratios = times.numbers("speedup", **key)
            z = few.numbers("z_test", **key)
            lines.append(
                f"| {data.name} | {number['n']:,.0f} | {m} | {_mean(z)} | "
                f"{number['speedup']:.0f}× "
                f"({min(ratios):.0f}–{max(ratios):.0f}) | {number['whole_speedup']:.0f}× | "
                f"{number['single_speedup']:.0f}× |"
            )
    lines += [
        "",
        "## Data not used while the method was developed",
        "",
        "The constants of the method were chosen on reduced versions of the three sets above, including their test points; the sets below "
        "were not used.",
        "One fold (5,000 training, 1,250 test points), smallest connected ε, Z test in percent, nystrom → distilled. *No map*: so few",
        "landmarks are not connected. [All numbers](accuracy/unseen.csv).",
        "",
        "| data | " + " | ".join(f"M = {m}" for m in UNSEEN_SHOWN) + " |",
        "|---|" + "---|" * len(UNSEEN_SHOWN),
    ]
    for data in UNSEEN:
        cells = [
            " → ".join(
                _mean(other.numbers("z_test", data=data.name, m=m, extension=name))
                for name in ("nystrom", "distilled")
            )
            for m in UNSEEN_SHOWN
        ]
        lines.append(f"| {data.name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Outside the data",
        "",
        "Test points moved in a random direction (frames: before superposition). Z in percent, against the Nyström extension over all N",
        "points there. At 10 √ε every answer is an extrapolation. [All numbers](accuracy/outside.csv).",
        "",
        "| data, M | extension | moved by 1 √ε | 3 √ε | 10 √ε |",
        "|---|---|---|---|---|",
    ]
    for data, m, name in dict.fromkeys((row["data"], row["m"], row["extension"]) for row in far.rows):
        if name != "full Nyström":
            z = far.numbers("z_to_exact", data=data, m=m, extension=name)
            lines.append(f"| {data}, {m} | {name} | " + " | ".join(f"{value:.3g}" for value in z) + " |")
    missing = [data.name for data in TABLE if not far.has(data=data.name, extension="distilled")]
    if missing:
        lines += ["", f"Not measured, distilled: {', '.join(missing)}."]
    target = OUT.parent / "accuracy.md"
    made = _provenance() if measured or not target.exists() else target.read_text().rstrip().splitlines()[-1:]
    lines += ["", *made, ""]
    target.write_text("\n".join(lines))
    log(f"wrote {OUT.parent / 'accuracy.md'}")


def _about_draws() -> list[str]:
    """Say which plain rows are means over draws of landmarks too."""
    table = draws()
    lines = []
    for data in TABLE:
        rows = table.select(data=data.name)
        if rows:
            n_folds = len({row["fold"] for row in rows})
            lines += [
                f"*Nystrom* of {data.name} is the mean over {data.n_draws} draws of landmarks in each of {n_folds} folds, because each",
                "draw mixes its close modes in its own way ([all draws](accuracy/draws.csv)).",
            ]
    return lines


def _provenance() -> list[str]:
    return [
        f"`python benchmarks/accuracy.py`, seed {SEED}, ldmaps {__version__}, commit {commit()}, "
        f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"{platform.machine()}, {time.strftime('%Y-%m-%d')}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure accuracy at full size into docs/accuracy.md.")
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="folds of cross-validation to do (5)")
    parser.add_argument(
        "--only", nargs="+", choices=["table1", "draws", "speed", "unseen", "outside", "page"]
    )
    parser.add_argument("--full", action="store_true", help="what takes minutes per map, too")
    parser.add_argument("--again", action="store_true", help="forget the stored numbers first")
    parser.add_argument("--data", nargs="+", help="names of data sets to do, for example C24H50")
    arguments = parser.parse_args()
    sets = [data for data in TABLE if arguments.data is None or data.name in arguments.data]
    if arguments.again:
        for table in (table1(), draws(), small(), speed(), unseen(), outside()):
            table.path.unlink(missing_ok=True)
    steps = {
        "table1": lambda: run_table1(sets, arguments.folds, full=arguments.full),
        "draws": lambda: run_draws(sets, arguments.folds),
        "speed": lambda: run_speed(sets, arguments.folds),
        "unseen": run_unseen,
        "outside": lambda: run_outside(sets),
    }
    for name, step in steps.items():
        if arguments.only is None or name in arguments.only:
            step()
            page()
    page(measured=False)


if __name__ == "__main__":
    main()
