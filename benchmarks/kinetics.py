"""Slow modes, committors and passage times where the truth is known, and what they cost: docs/benchmarks/kinetics.md.

Usage: python benchmarks/kinetics.py [--part scales,committors,coverage,speed] [--repetitions 100]

Potentials of deeptime are simulated by deeptime; their truth, like that of the others, is from a generator on a grid
(finite volumes). What parts printed is kept in docs/benchmarks/kinetics.json, and the page is written from all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from harness import DOCS, provenance

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from known_diffusions import Diffusion, double_well, mueller_brown, ornstein_uhlenbeck

from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import AccuracyWarning
from ldmaps.kinetics import slow_modes as module

warnings.simplefilter("ignore", AccuracyWarning)


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


def scales():
    import deeptime.data

    print("| process | frames | lag | truth | found, with its 95 % interval | off |")
    print("|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)

    def told(name, points, runs, lag, spacing, truth, epsilon, n_landmarks=200):
        model = LandmarkDiffusionMap(n_components=3, epsilon=epsilon, n_landmarks=n_landmarks)
        model.fit(points[rng.permutation(len(points))[:10_000]])
        found = model.slow_modes(points, lag=lag, n_modes=len(truth), runs=runs)
        for mode, true in enumerate(truth):
            value, (low, high) = spacing * found.timescales_[mode], spacing * found.timescale_intervals_[mode]
            print(
                f"| {name}, slow{mode + 1} | {len(points):,} | {lag * spacing:g} | {true:.3g} | {value:.3g} "
                f"({low:.3g} to {high:.3g}) | {100 * (value / true - 1):+.1f} % |"
            )

    points = ornstein_uhlenbeck(100_000, [30.0, 8.0])
    told("Ornstein–Uhlenbeck", points, None, 4, 1.0, [30.0, 15.0], 0.2)

    prinz = deeptime.data.prinz_potential(h=1e-5, n_steps=500)  # frames every 0.005
    runs = np.repeat(np.arange(20), 10_000)
    points = np.concatenate(
        [prinz.trajectory([[0.0]], 10_000, seed=s, n_jobs=1).reshape(-1, 1) for s in range(20)]
    )
    told("Prinz", points, runs, 4, 0.005, line_truth(prinz.potential, -1.3, 1.3)[:2], 0.005)

    triple = deeptime.data.triple_well_2d(h=1e-4, n_steps=2000)  # frames every 0.2
    runs = np.repeat(np.arange(8), 10_000)
    starts = [[-1.0, 0.0], [1.0, 0.0]]
    points = np.concatenate(
        [triple.trajectory([starts[s % 2]], 10_000, seed=s, n_jobs=1).reshape(-1, 2) for s in range(8)]
    )
    told(
        "triple well",
        points,
        runs,
        4,
        0.2,
        grid_truth(triple.potential, 1.09, [(-2.5, 2.5), (-2, 3)])[:1],
        0.05,
    )

    quadruple = deeptime.data.quadruple_well(h=1e-3, n_steps=1000)  # frames every 1
    starts = [[x, y] for x in (-1.0, 1.0) for y in (-1.0, 1.0)]
    points = np.concatenate(
        [quadruple.trajectory([starts[s % 4]], 10_000, seed=s, n_jobs=1).reshape(-1, 2) for s in range(8)]
    )
    truth = grid_truth(quadruple.potential, np.sqrt(0.5), [(-2.2, 2.2), (-2.2, 2.2)])[:2]
    told("quadruple well", points, runs, 2, 1.0, truth, 0.05)


# -- committors ----------------------------------------------------------------------------


def committors():
    print("| process | what | truth | found |")
    print("|---|---|---|---|")
    brown, spacing = mueller_brown(), 1e-3
    in_a, in_b = near([-0.558, 1.442], 0.2), near([0.623, 0.028], 0.2)
    truth = brown.committor(in_a(brown.grid), in_b(brown.grid))
    errors, walks = [], []
    for seed in range(5):
        runs = brown.simulate(200, 100, spacing, 1e-4, seed=seed)
        points = runs.points
        model = LandmarkDiffusionMap(n_components=3, epsilon=0.03, n_landmarks=300).fit(points)
        sets = {"source": in_a(points), "target": in_b(points)}
        errors.append(
            rms(
                model.committor(points, lag=1, runs=runs.runs, **sets).transform(brown.grid)[:, 0],
                truth,
                brown.density,
            )
        )
        walks.append(rms(model.committor(points, **sets).transform(brown.grid)[:, 0], truth, brown.density))
    told("Müller–Brown, 5 × 20,000 frames", "committor, rms error, Galerkin", errors)
    told("", "committor, rms error, the walk alone", walks)

    runs = brown.simulate(400, 200, 5e-4, 1e-4, seed=11)
    points = runs.points
    model = LandmarkDiffusionMap(n_components=3, epsilon=0.03, n_landmarks=300).fit(points)
    sets = {"source": in_a(points), "target": in_b(points), "runs": runs.runs, "lag": 1}
    q, wait = model.committor(points, **sets), model.passage_time(points, **sets)
    density, flux = brown.density, reactive_flux(brown, truth)
    low, high = np.array(q.rate_interval_) / 5e-4
    print(
        f"| Müller–Brown, 80,000 frames | rate A to B | {flux / ((1 - truth) @ density):.3g} | {q.rate_ / 5e-4:.3g} ({low:.3g} to {high:.3g}) |"
    )
    start = in_a(brown.grid)
    mean = np.average(brown.passage_times(in_b(brown.grid))[start], weights=density[start])
    low, high = 5e-4 * wait.mean_time_interval_
    print(
        f"| | mean first-passage time | {mean:.3g} | {5e-4 * wait.mean_time_:.3g} ({low:.3g} to {high:.3g}) |"
    )

    well = double_well((1.0, 0.1))

    def along(x):
        return x[:, 0] + 0.3 * x[:, 1]

    truth = well.committor(along(well.grid) < -1.1, along(well.grid) > 1.1)
    errors, walks = [], []
    for seed in range(3):
        runs = well.simulate(500, 100, 0.01, 0.005, seed=seed)
        points = runs.points
        model = LandmarkDiffusionMap(n_components=3, epsilon=0.08, n_landmarks=200).fit(points)
        sets = {"source": along(points) < -1.1, "target": along(points) > 1.1}
        errors.append(
            rms(
                model.committor(points, lag=5, runs=runs.runs, **sets).transform(well.grid)[:, 0],
                truth,
                well.density,
            )
        )
        walks.append(rms(model.committor(points, **sets).transform(well.grid)[:, 0], truth, well.density))
    told("double well, unequal diffusion, 3 × 50,000 frames", "committor, rms error, Galerkin", errors)
    told("", "committor, rms error, the walk alone", walks)


def told(process, what, values):
    print(f"| {process} | {what} | 0 | {min(values):.3f} to {max(values):.3f} |")


# -- coverage --------------------------------------------------------------------------------


def reactive_flux(process, chance):
    """Return transitions per unit of time, given the committor on the grid."""
    generator, density = process.generator.tocoo(), process.density
    far = generator.row != generator.col
    one, other = generator.row[far], generator.col[far]
    return 0.5 * (density[one] * generator.data[far] * (chance[one] - chance[other]) ** 2).sum()


def coverage(repetitions, rows=6000, spacing=0.05):
    well = double_well((1.0, 1.0))

    def left(x):
        return x[..., 0] < -0.8

    def right(x):
        return x[..., 0] > 0.8

    begin, end = left(well.grid), right(well.grid)
    chance, density = well.committor(begin, end), well.density
    flux = reactive_flux(well, chance) * spacing
    wait = np.average(well.passage_times(end)[begin], weights=density[begin]) / spacing
    truths = {
        "slowest time scale": well.timescales(1)[0][0] / spacing,
        "reactive flux": flux,
        "rate from left to right": flux / ((1 - chance) @ density),
        "rate from right to left": flux / (chance @ density),
        "mean first-passage time": wait,
    }
    every = well.simulate(repetitions + 1, rows, spacing, 0.0125, seed=7).points.reshape(-1, rows, 2)
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.05, n_landmarks=80).fit(every[-1])
    found = {name: [] for name in truths}
    for points in every[:-1]:
        sets = {"source": left(points), "target": right(points), "lag": 1}
        slow, facts = (
            model.slow_modes(points, lag=5, n_modes=1),
            model.committor(points, **sets).record_.facts,
        )
        passage = model.passage_time(points, **sets)
        values = [(slow.timescales_[0], slow.timescale_intervals_[0])]
        values += [(facts[name], facts[f"{name}_interval"]) for name in ("flux", "rate", "back_rate")]
        values += [(passage.mean_time_, passage.mean_time_interval_)]
        for name, (value, interval) in zip(truths, values, strict=True):
            found[name].append((value, *interval))
    print(
        f"A double well, {repetitions} runs of {rows:,} rows ({rows / truths['slowest time scale']:.0f} of the slowest "
        f"time scale and about {flux * rows:.0f} transitions each way), in rows:\n"
    )
    print(
        "| quantity | truth | mean of estimates | their standard deviation | 95 % intervals hold the truth |"
    )
    print("|---|---|---|---|---|")
    for name, truth in truths.items():
        value, low, high = np.array(found[name]).T
        held = int(((low < truth) & (truth < high)).sum())
        print(
            f"| {name} | {truth:.3g} | {value.mean():.3g} | {100 * value.std() / truth:.0f} % | {held} of {repetitions} |"
        )


# -- speed -----------------------------------------------------------------------------------


def speed(rounds=3):
    rng, n = np.random.default_rng(0), 100_000
    angle = np.zeros(n)
    for row in range(1, n):
        angle[row] = 0.98 * angle[row - 1] + 0.2 * rng.normal()
    swing = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    frames = np.repeat(0.3 * rng.normal(size=(1, 22, 3)), n, axis=0)
    frames[:, 10:] += 0.2 * swing[:, None]
    frames = (frames + 0.02 * rng.normal(size=frames.shape)).astype(np.float32)
    features = np.cos(angle[:, None] + np.arange(45)) + 0.1 * rng.normal(size=(n, 45))
    print(
        "| 100,000 frames, 400 landmarks | embedding | slow modes: pass | solving | pass / embedding | committor: all |"
    )
    print("|---|---|---|---|---|---|")
    for name, metric, points in (
        ("RMSD, 22 atoms", "rmsd", frames),
        ("Euclidean, 45 features", "euclidean", features),
    ):
        model = LandmarkDiffusionMap(n_components=3, metric=metric, n_landmarks=400, n_threads=1)
        model.fit(points[::20])
        rows = []
        for _ in range(rounds):
            began = time.process_time()
            model.transform(points)
            embedding = time.process_time() - began
            solving = 0.0
            original = module._check_pairs

            def note(*arguments, check=original):
                nonlocal solving
                solving = time.process_time()
                return check(*arguments)

            module._check_pairs = note  # called where the pass ends
            began = time.process_time()
            model.slow_modes(points, lag=5)
            ended = time.process_time()
            module._check_pairs = original
            first = time.process_time()
            model.committor(points, source=angle < -1, target=angle > 1, lag=2)
            rows.append((embedding, solving - began, ended - solving, time.process_time() - first))
        embedding, run, solve, committor = np.median(rows, axis=0)
        print(
            f"| {name} | {embedding:.2f} s | {run:.2f} s | {solve:.2f} s | {run / embedding:.1f} | {committor:.2f} s |"
        )


PARTS = ("scales", "committors", "coverage", "speed")
PROSE = """\
# Slow modes, committors and rates where the truth is known

Written by `python benchmarks/kinetics.py`. {provenance}

Maps have 200 to 300 landmarks of points in one or two dimensions; the truth is that of a generator on a grid. Functions on these maps are
learned from the frames alone. Errors of committors are root mean squares over the equilibrium density.

## Time scales

Intervals are 95 %. The two slowest modes of the quadruple well have the same time scale, and the larger of two estimates is found first:
one is above the truth and one below.

{scales}

## Committors, rates and passage times

Galerkin is `model.committor(..., lag=...)`, which follows frames; "the walk alone" is the committor without a lag (alpha = 1/2). In the double
well the coordinates diffuse with 1 and 0.1, which distances cannot know.

{committors}

## Coverage of intervals

{coverage}

## Cost

Processor time on one thread, medians of three alternating rounds. A pass embeds all frames and adds up pairs at four lags; solving chooses among
numbers of functions and ridges on held-out blocks, and resamples blocks.

{speed}
"""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default=",".join(PARTS))
    parser.add_argument("--repetitions", type=int, default=100)
    arguments = parser.parse_args()
    store = DOCS / "kinetics.json"
    known = json.loads(store.read_text()) if store.exists() else {}
    for part in arguments.part.split(","):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            if part == "coverage":
                coverage(arguments.repetitions)
            else:
                {"scales": scales, "committors": committors, "speed": speed}[part]()
        print(text.getvalue(), flush=True)
        known = (json.loads(store.read_text()) if store.exists() else {}) | {part: text.getvalue().strip()}
        store.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    parts = {part: known.get(part, "Not measured with this code so far.") for part in PARTS}
    (DOCS / "kinetics.md").write_text(PROSE.format(provenance=provenance(), **parts), encoding="utf-8")


if __name__ == "__main__":
    main()
