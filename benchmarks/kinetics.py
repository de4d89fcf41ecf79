"""Slow modes, committors and passage times where the truth is known, and what they cost: docs/benchmarks/kinetics.md.

    python benchmarks/kinetics.py                       measures what docs/benchmarks/kinetics.json does not hold yet
    python benchmarks/kinetics.py --part scales,cost    of these parts only (scales, committors, coverage, cost, memory)
    python benchmarks/kinetics.py --again               forgets the numbers of these parts first
    python benchmarks/kinetics.py --pieces 1            measures the next one alone, some seconds; the rest another time

Potentials of deeptime are simulated by deeptime; their truth, like that of the others, is from a generator on a grid
(finite volumes). Every number is kept in docs/benchmarks/kinetics.json when it is measured, so that a run which was
interrupted resumes, and the page is written from all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from harness import DOCS, commit, peak_memory, provenance

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from known_diffusions import Diffusion, double_well, mueller_brown, ornstein_uhlenbeck

from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import LdmapsWarning

GALERKIN, SLOW_MODES, COMMITTOR = (
    import_module(f"ldmaps.kinetics.{name}") for name in ("galerkin", "slow_modes", "committor")
)
STORE = DOCS / "kinetics.json"


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


class PausedError(Exception):
    """As much was measured as was asked for."""


class Numbers:
    """The numbers of the page, kept as they are measured: by part, and in it by what they are of."""

    def __init__(self, path: Path, most: float = np.inf) -> None:
        self._path, self._left = path, most

    @property
    def _known(self) -> dict[str, dict[str, Any]]:
        # Read each time, so that parts can be measured side by side.
        return json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}

    def _write(self, part: str, entry: dict[str, Any]) -> None:
        known = self._known | {part: entry}
        ordered = {name: known[name] for name in PARTS if name in known}
        self._path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def forget(self, part: str) -> None:
        """Forget a part."""
        self._write(part, {"commit": commit(), "seconds": 0.0})

    def of(self, part: str, name: str, measure: Callable[[], Any]) -> Any:
        """Return a number, or several, that are measured if they are not known."""
        if name not in self._known.get(part, {}):
            if self._left < 1:
                raise PausedError
            self._left -= 1
            began = processor_seconds()
            value = measure()
            spent = processor_seconds() - began
            entry = self._known.get(part, {"commit": commit(), "seconds": 0.0})
            self._write(part, entry | {"seconds": round(entry["seconds"] + spent, 1), name: value})
            print(f"{part}, {name}: {value}", flush=True)
        return self._known[part][name]

    @property
    def parts(self) -> set[str]:
        """Of which parts something is known."""
        return set(self._known)

    def origin(self, part: str) -> str:
        """Say which commit a part was measured with, and how long that took."""
        known = self._known[part]
        return f"Measured with commit {known['commit']} in {known['seconds']:.0f} s of one core."


def near(centre, radius):
    return lambda x: ((x - centre) ** 2).sum(axis=-1) < radius**2


def rms(found, truth, weights):
    return float(np.sqrt(np.average((found - truth) ** 2, weights=weights)))


# -- time scales -------------------------------------------------------------------------


def line_truth(potential, low, high, n=4001, count=3):
    """Return the time scales of dx = −V′ dt + √2 dW on a line."""
    x = np.linspace(low, high, n)
    v, h = potential(x[:, None]), x[1] - x[0]
    up = np.exp(-0.5 * np.diff(v)) / h**2
    down = np.exp(0.5 * np.diff(v)) / h**2
    from scipy.linalg import eigvalsh_tridiagonal

    stay = np.append(up, 0.0) + np.append(0.0, down)
    values = eigvalsh_tridiagonal(stay, -np.sqrt(up * down), select="i", select_range=(1, count))
    return 1 / values


def grid_truth(potential, sigma, box, cells=120, count=2):
    """Return the time scales of dx = −∇V dt + σ dW in two dimensions."""
    kt = 0.5 * sigma**2
    well = Diffusion(lambda x: potential(x.reshape(-1, 2)).reshape(x.shape[:-1]) / kt, box, (kt, kt), cells)
    return well.timescales(count)[0]


def simulated(system, starts, n_runs, n_frames=10_000):
    """Return runs of a system of deeptime one behind the other, and which run each frame is of."""
    runs = [system.trajectory([starts[s % len(starts)]], n_frames, seed=s, n_jobs=1) for s in range(n_runs)]
    return np.concatenate([one.reshape(n_frames, -1) for one in runs]), np.repeat(np.arange(n_runs), n_frames)


def gaussian():
    """30 and 8 rows; the second mode is the square of the first."""
    return (ornstein_uhlenbeck(100_000, [30.0, 8.0]), None), 4, 1.0, [30.0, 15.0], 0.2


def prinz():
    import deeptime.data

    system = deeptime.data.prinz_potential(h=1e-5, n_steps=500)  # frames every 0.005
    truth = line_truth(system.potential, -1.3, 1.3)[:2]
    return simulated(system, [[0.0]], 20), 4, 0.005, truth, 0.005


def triple_well():
    import deeptime.data

    system = deeptime.data.triple_well_2d(h=1e-4, n_steps=2000)  # frames every 0.2
    truth = grid_truth(system.potential, 1.09, [(-2.5, 2.5), (-2, 3)])[:1]
    return simulated(system, [[-1.0, 0.0], [1.0, 0.0]], 8), 4, 0.2, truth, 0.05


def quadruple_well():
    import deeptime.data

    system = deeptime.data.quadruple_well(h=1e-3, n_steps=1000)  # frames every 1
    truth = grid_truth(system.potential, np.sqrt(0.5), [(-2.2, 2.2), (-2.2, 2.2)])[:2]
    return simulated(system, [[x, y] for x in (-1.0, 1.0) for y in (-1.0, 1.0)], 32), 2, 1.0, truth, 0.05


PROCESSES = {
    "Ornstein–Uhlenbeck": gaussian,
    "Prinz": prinz,
    "triple well": triple_well,
    "quadruple well": quadruple_well,
}


def time_scales(process):
    """Return a list of lag, frames, length in time scales, truth, estimate and its interval of each mode."""
    (points, runs), lag, spacing, truth, epsilon = process()
    model = LandmarkDiffusionMap(n_components=3, epsilon=epsilon, n_landmarks=200)
    model.fit(points[np.random.default_rng(0).permutation(len(points))[:10_000]])
    found = model.slow_modes(points, lag=lag, n_modes=len(truth), runs=runs)
    rows = []
    for mode, true in enumerate(truth):
        value, (low, high) = spacing * found.timescales_[mode], spacing * found.timescale_intervals_[mode]
        length = len(points) * spacing / true
        rows.append(
            [len(points), lag * spacing, *(float(number) for number in (length, true, value, low, high))]
        )
    return rows


def scales(numbers):
    lines = [
        "| process | frames | length, in time scales | lag | truth | found, with its 95 % interval | off |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, process in PROCESSES.items():
        rows = numbers.of("scales", name, lambda process=process: time_scales(process))
        for mode, (count, lag, length, true, value, low, high) in enumerate(rows, 1):
            lines.append(
                f"| {name}, slow{mode} | {count:,} | {length:,.0f} | {lag:g} | {true:.3g} | {value:.3g} ({low:.3g} to "
                f"{high:.3g}) | {100 * (value / true - 1):+.1f} % |"
            )
    return lines


# -- committors ----------------------------------------------------------------------------

IN_A, IN_B = near([-0.558, 1.442], 0.2), near([0.623, 0.028], 0.2)


def along(x):
    return x[:, 0] + 0.3 * x[:, 1]


def brown_errors(seed):
    """Return the errors of the committor of Müller–Brown, and of that of the walk alone."""
    brown = mueller_brown()
    truth = brown.committor(IN_A(brown.grid), IN_B(brown.grid))
    runs = brown.simulate(400, 100, 1e-3, 1e-4, seed=seed)
    model = LandmarkDiffusionMap(n_components=3, epsilon=0.03, n_landmarks=300).fit(runs.points)
    sets = {"source": IN_A(runs.points), "target": IN_B(runs.points)}
    return errors_of(model, runs, sets, 1, brown, truth)


def well_errors(seed, n_runs):
    """Return the same for a double well whose coordinates diffuse with 1 and 0.1."""
    well = double_well((1.0, 0.1))
    truth = well.committor(along(well.grid) < -1.1, along(well.grid) > 1.1)
    runs = well.simulate(n_runs, 100, 0.01, 0.005, seed=seed)
    model = LandmarkDiffusionMap(n_components=3, epsilon=0.08, n_landmarks=200).fit(runs.points)
    sets = {"source": along(runs.points) < -1.1, "target": along(runs.points) > 1.1}
    return errors_of(model, runs, sets, 5, well, truth)


def barrier_errors(seed):
    """Return the errors for a steep barrier, with the default and with the map's own wide kernel."""
    steep = Diffusion(lambda x: 5 * (x[..., 0] ** 2 - 1) ** 2 + 2 * x[..., 1] ** 2, [(-2, 2), (-2.5, 2.5)])
    truth = steep.committor(steep.grid[:, 0] < -0.3, steep.grid[:, 0] > 0.9)
    runs = steep.simulate(200, 200, 0.02, 0.004, seed=seed)
    model = LandmarkDiffusionMap(n_components=2, epsilon=2.0, n_landmarks=100).fit(runs.points)
    sets = {"source": runs.points[:, 0] < -0.3, "target": runs.points[:, 0] > 0.9}
    middle = np.where((truth > 0.1) & (truth < 0.9), steep.density, 0.0)
    errors, widths = [], COMMITTOR.NARROWINGS
    for COMMITTOR.NARROWINGS in (widths, (1.0,)):
        found = model.committor(runs.points, lag=1, runs=runs.runs, **sets)
        errors.append(rms(found.transform(steep.grid)[:, 0], truth, middle))
    COMMITTOR.NARROWINGS = widths
    return errors


def errors_of(model, runs, sets, lag, process, truth):
    followed = model.committor(runs.points, lag=lag, runs=runs.runs, **sets)
    walk = model.committor(runs.points, **sets)
    return [rms(found.transform(process.grid)[:, 0], truth, process.density) for found in (followed, walk)]


def brown_rates():
    """Return truth, estimate and interval of the rate from A to B and of the mean first-passage time."""
    brown, spacing = mueller_brown(), 5e-4
    truth, density = brown.committor(IN_A(brown.grid), IN_B(brown.grid)), brown.density
    runs = brown.simulate(400, 200, spacing, 1e-4, seed=11)
    model = LandmarkDiffusionMap(n_components=3, epsilon=0.03, n_landmarks=300).fit(runs.points)
    sets = {"source": IN_A(runs.points), "target": IN_B(runs.points), "runs": runs.runs, "lag": 1}
    q, wait = model.committor(runs.points, **sets), model.passage_time(runs.points, **sets)
    start = IN_A(brown.grid)
    rate = reactive_flux(brown, truth) / ((1 - truth) @ density)
    mean = np.average(brown.passage_times(IN_B(brown.grid))[start], weights=density[start])
    found = {
        "rate from A to B": [rate, *(np.array([q.rate_, *q.rate_interval_]) / spacing)],
        "mean first-passage time": [
            mean,
            *(np.array([wait.mean_time_, *wait.mean_time_interval_]) * spacing),
        ],
    }
    return {name: [float(value) for value in values] for name, values in found.items()}


def committors(numbers):
    lines = ["| process | what | truth | found |", "|---|---|---|---|"]
    walk = "committor, rms error, Galerkin", "committor, rms error, the walk alone"
    middle = "committor of 0.1 to 0.9, rms error"
    for name, of, whats in (
        ("Müller–Brown, 5 × 40,000 frames", brown_errors, walk),
        ("double well, unequal diffusion, 5 × 50,000 frames", partial(well_errors, n_runs=500), walk),
        ("double well, unequal diffusion, 5 × 100,000 frames", partial(well_errors, n_runs=1000), walk),
        ("steep barrier, 5 × 40,000 frames", barrier_errors, (middle, f"{middle}, one width")),
    ):
        pairs = [
            numbers.of("committors", f"{name}, seed {seed}", lambda of=of, seed=seed: of(seed))
            for seed in range(5)
        ]
        for what, values in zip(whats, zip(*pairs, strict=True), strict=True):
            lines.append(f"| {name} | {what} | 0 | {min(values):.3f} to {max(values):.3f} |")
    for what, (truth, value, low, high) in numbers.of("committors", "rates", brown_rates).items():
        lines.append(
            f"| Müller–Brown, 80,000 frames | {what} | {truth:.3g} | {value:.3g} ({low:.3g} to {high:.3g}) |"
        )
    return lines


# -- coverage --------------------------------------------------------------------------------


def reactive_flux(process, chance):
    """Return transitions per unit of time, given the committor on the grid."""
    generator, density = process.generator.tocoo(), process.density
    far = generator.row != generator.col
    one, other = generator.row[far], generator.col[far]
    return 0.5 * (density[one] * generator.data[far] * (chance[one] - chance[other]) ** 2).sum()


def left(x):
    return x[..., 0] < -0.8


def right(x):
    return x[..., 0] > 0.8


#: Of each run of the double well: rows, and the time between them.
ROWS, SPACING, PER_PIECE = 6000, 0.05, 10


def truths():
    """Return the true values of what is estimated, in rows: of rows, and of the process in continuous time."""
    well = double_well((1.0, 1.0))
    begin, end = left(well.grid), right(well.grid)
    chance, density = well.committor(begin, end), well.density
    wait = np.average(well.passage_times(end)[begin], weights=density[begin]) / SPACING
    continuous = rates_of(reactive_flux(well, chance) * SPACING, chance @ density, wait)
    time = well.timescales(1)[0][0] / SPACING
    pairs = zip(QUANTITIES, (time, *rates_of_rows(well)), (time, *continuous), strict=True)
    return {name: [float(value) for value in values] for name, *values in pairs}


QUANTITIES = (
    "slowest time scale",
    "reactive flux",
    "rate from left to right",
    "rate from right to left",
    "mean first-passage time",
)


def rates_of(flux, mean_chance, wait):
    """Return the flux, the rates both ways, and the mean first-passage time."""
    return flux, flux / (1 - mean_chance), flux / mean_chance, wait


def rates_of_rows(well, cells=60):
    """Return these of the chain of rows, which does not see what happens between two of them."""
    coarse = Diffusion(well.potential, well.box, well.diffusion, cells)
    likely = coarse.density > 1e-9
    density, grid = coarse.density[likely] / coarse.density[likely].sum(), coarse.grid[likely]
    rates = coarse.generator.toarray()[np.ix_(likely, likely)]
    rates -= np.diag(rates.sum(axis=1))
    root = np.sqrt(density)
    symmetric = root[:, None] * rates / root
    values, vectors = np.linalg.eigh(0.5 * (symmetric + symmetric.T))
    chain = (vectors * np.exp(values * SPACING)) @ vectors.T / root[:, None] * root
    begin, end = left(grid), right(grid)
    between, outside = ~(begin | end), ~end
    chance, wait = end.astype(float), np.zeros(len(grid))
    chance[between] = np.linalg.solve(
        np.eye(between.sum()) - chain[np.ix_(between, between)], chain[np.ix_(between, end)].sum(axis=1)
    )
    wait[outside] = np.linalg.solve(
        np.eye(outside.sum()) - chain[np.ix_(outside, outside)], np.ones(outside.sum())
    )
    flux = density[begin] @ (chain[begin] @ chance)
    return rates_of(flux, chance @ density, np.average(wait[begin], weights=density[begin]))


def estimates(seed):
    """Return estimate and interval of each quantity of some runs."""
    well = double_well((1.0, 1.0))
    every = well.simulate(PER_PIECE + 1, ROWS, SPACING, 0.003125, seed=seed).points.reshape(-1, ROWS, 2)
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.05, n_landmarks=80).fit(every[-1])
    found = []
    for points in every[:-1]:
        sets = {"source": left(points), "target": right(points), "lag": 1}
        slow = model.slow_modes(points, lag=5, n_modes=1)
        facts = model.committor(points, **sets).record_.facts
        passage = model.passage_time(points, **sets)
        values = [(slow.timescales_[0], *slow.timescale_intervals_[0])]
        values += [(facts[name], *facts[f"{name}_interval"]) for name in ("flux", "rate", "back_rate")]
        values += [(passage.mean_time_, *passage.mean_time_interval_)]
        found.append([[float(number) for number in one] for one in values])
    return found


def coverage(numbers, repetitions=100):
    known = numbers.of("coverage", "truths", truths)
    pieces = [
        numbers.of("coverage", f"seed {seed}", lambda seed=seed: estimates(seed))
        for seed in range(7, 7 + repetitions // PER_PIECE)
    ]
    every = np.concatenate([np.array(piece) for piece in pieces])
    lines = [
        f"A double well, {len(every)} runs of {ROWS:,} rows ({ROWS / known['slowest time scale'][0]:.0f} of the slowest "
        f"time scale and about {known['reactive flux'][0] * ROWS:.0f} transitions each way), in rows:",
        "",
        "| quantity | in continuous time | truth of rows | mean of estimates | their standard deviation | 95 % intervals hold "
        "the truth of rows |",
        "|---|---|---|---|---|---|",
    ]
    for place, (name, (truth, continuous)) in enumerate(known.items()):
        value, low, high = every[:, place].T
        held = int(((low < truth) & (truth < high)).sum())
        lines.append(
            f"| {name} | {continuous:.3g} | {truth:.3g} | {value.mean():.3g} | {100 * value.std() / truth:.0f} % | {held} of {len(every)} |"
        )
    return lines


# -- cost ------------------------------------------------------------------------------------

N_FRAMES, N_LANDMARKS = 100_000, 400


def swinging(n):
    """Return an angle that swings."""
    rng = np.random.default_rng(0)
    kicks, angle = 0.2 * rng.normal(size=n), np.zeros(n)
    for row in range(1, n):
        angle[row] = 0.98 * angle[row - 1] + kicks[row]
    return angle


def frames_and_features(name):
    """Return a metric, points of a swinging angle and that angle."""
    rng, angle = np.random.default_rng(0), swinging(N_FRAMES)
    if name.startswith("Euclidean"):
        return (
            "euclidean",
            np.cos(angle[:, None] + np.arange(45)) + 0.1 * rng.normal(size=(N_FRAMES, 45)),
            angle,
        )
    swing = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    frames = np.repeat(0.3 * rng.normal(size=(1, 22, 3)), N_FRAMES, axis=0)
    frames[:, 10:] += 0.2 * swing[:, None]
    return "rmsd", (frames + 0.02 * rng.normal(size=frames.shape)).astype(np.float32), angle


def pass_and_solving(learn, where, name):
    """Return how long a pass over the frames and what follows took; the pass ends where a function is called."""
    original, ended = getattr(where, name), 0.0

    def note(*arguments):
        nonlocal ended
        ended = time.process_time()
        return original(*arguments)

    setattr(where, name, note)
    began = time.process_time()
    try:
        learn()
    finally:
        setattr(where, name, original)
    return ended - began, time.process_time() - ended


def costs(name, rounds=3):
    """Return seconds of one thread: embedding; slow modes and a committor, each a pass and solving; an observable."""
    from threadpoolctl import threadpool_limits

    metric, points, angle = frames_and_features(name)
    sets = {"source": angle < -1, "target": angle > 1}
    rows = []
    with threadpool_limits(1):
        model = LandmarkDiffusionMap(n_components=3, metric=metric, n_landmarks=N_LANDMARKS, n_threads=1)
        model.fit(points[::20])
        for _ in range(rounds):
            began = time.process_time()
            model.transform(points)
            row = [time.process_time() - began]
            row += pass_and_solving(lambda: model.slow_modes(points, lag=5), SLOW_MODES, "_check_pairs")
            # One width of the kernel; others that are tried cost the same again.
            widths, COMMITTOR.NARROWINGS = COMMITTOR.NARROWINGS, (1.0,)
            row += pass_and_solving(lambda: model.committor(points, lag=2, **sets), GALERKIN, "_check")
            COMMITTOR.NARROWINGS = widths
            began = time.process_time()
            model.function(points, angle, name="angle")
            rows.append([*row, time.process_time() - began])
    return np.median(rows, axis=0).tolist()


def cost(numbers):
    lines = [
        f"| {N_FRAMES:,} frames, {N_LANDMARKS} landmarks | embedding | slow modes: pass | as a multiple | solving | committor: pass | "
        "as a multiple | solving | observable |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in ("RMSD, 22 atoms", "Euclidean, 45 features"):
        embedding, one, solving, other, more, observable = numbers.of(
            "cost", name, lambda name=name: costs(name)
        )
        lines.append(
            f"| {name} | {embedding:.2f} s | {one:.2f} s | {one / embedding:.1f} | {solving:.2f} s | {other:.2f} s | "
            f"{other / embedding:.1f} | {more:.2f} s | {observable:.2f} s |"
        )
    return lines


# -- memory ----------------------------------------------------------------------------------


def learn_from_blocks(n_rows):
    """Learn from blocks of a Dask array that are made as they are asked for, and print this process' highest memory."""
    import dask.array
    import dask.delayed

    def block(first, count):
        row = np.arange(first, first + count)
        angle = 2.5 * np.sin(0.01 * row) * np.sin(0.0037 * row)
        noise = 0.1 * np.random.default_rng(first).normal(size=(count, 20))
        return np.cos(angle[:, None] + np.arange(20)) + noise

    size = 10_000
    parts = [
        dask.array.from_delayed(dask.delayed(block)(first, size), (size, 20), float)
        for first in range(0, n_rows, size)
    ]
    points = dask.array.concatenate(parts)
    model = LandmarkDiffusionMap(n_components=2, n_landmarks=N_LANDMARKS).fit(block(0, size))
    before = peak_memory()
    psi = np.concatenate([model.transform(part.compute())[:, 0] for part in parts])
    low, high = np.quantile(psi, [0.2, 0.8])
    model.slow_modes(points, lag=5)
    model.committor(points, source=psi < low, target=psi > high, lag=5)
    print(json.dumps([before, peak_memory()]))


def memory(numbers):
    lines = [
        "| rows of 20 features | as an array | fit of 10,000 rows | with slow modes and a committor |",
        "|---|---|---|---|",
    ]
    for n_rows in (100_000, 800_000):

        def measure(n_rows=n_rows):
            words = [sys.executable, __file__, "--blocks", str(n_rows)]
            return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

        before, after = numbers.of("memory", f"{n_rows:,} rows", measure)
        lines.append(
            f"| {n_rows:,} | {160 * n_rows / 1e6:,.0f} MB | {before / 1e6:,.0f} MB | {after / 1e6:,.0f} MB |"
        )
    return lines


PARTS = {"scales": scales, "committors": committors, "coverage": coverage, "cost": cost, "memory": memory}
PROSE = """\
# Slow modes, committors and rates where the truth is known

Written by `python benchmarks/kinetics.py`. {provenance}. All numbers are in `docs/benchmarks/kinetics.json`.

Maps have 80 to 400 landmarks of points in one or two dimensions; the truth is that of a generator on a grid. Functions on these maps are
learned from the frames alone. Errors of committors are root mean squares over the equilibrium density.

## Time scales

The two slowest modes of the quadruple well have the same time scale. The larger of two estimates is found first, so that slow1 tends to be above
the truth and slow2 below.

{scales}

## Committors, rates and passage times

Galerkin is `model.committor(..., lag=...)`, which follows frames; "the walk alone" is the committor without a lag (α = ½). Ranges are those of
five simulations. In the double well the coordinates diffuse with 1 and 0.1, which distances cannot know. The steep barrier is crossed in a few
frames; its map has a kernel much wider than the barrier, and "one width" is the committor with that kernel, where the default may narrow it.
Intervals are 95 %.

{committors}

Of Markov chains, committors, passage times and fluxes equal those of linear algebra to 1e-10 (`tests/kinetics/test_committor.py`).

## Coverage of intervals

Rates are those of the rows, between which a set may be entered and left unseen. If 95 % are right, 90 to 99 of 100 intervals hold the truth.

{coverage}

## Cost

Processor time on one thread, medians of three alternating rounds. Slow modes combine up to 50 modes of the walk, and add up their pairs at four
lags; committors combine up to 75. Solving chooses among numbers of functions and ridges on held-out blocks, resamples blocks and, of a
committor, compares it with where frames went. A committor that gets narrower kernels takes as long again for each that is tried.

{cost}

## Memory

The highest memory of a process that reads blocks of 10,000 rows as they are made.

{memory}
"""


def write_page(numbers: Numbers, texts: dict[str, list[str]]) -> None:
    """Write the page."""
    found = {part: "\n".join([*lines, "", numbers.origin(part)]) for part, lines in texts.items()}
    (DOCS / "kinetics.md").write_text(PROSE.format(provenance=provenance(), **found), encoding="utf-8")


def main() -> None:
    """Measure what is asked for, and write the page when all parts are known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default=",".join(PARTS))
    parser.add_argument("--again", action="store_true", help="forget the numbers of these parts first")
    parser.add_argument("--pieces", type=int, default=np.inf, help="measure so many numbers at the most")
    parser.add_argument("--blocks", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", LdmapsWarning)
    if arguments.blocks is not None:
        learn_from_blocks(arguments.blocks)
        return
    numbers = Numbers(STORE, arguments.pieces)
    try:
        for part in arguments.part.split(","):
            if arguments.again:
                numbers.forget(part)
            print("\n".join(PARTS[part](numbers)), flush=True)
        if set(PARTS) <= numbers.parts:
            write_page(numbers, {part: write(numbers) for part, write in PARTS.items()})
    except PausedError:
        print("more is to be measured: run this again")


if __name__ == "__main__":
    main()
