"""How often 95 % intervals hold the truth, and when a coordinate is called reproducible: docs/benchmarks/sampling.md.

Each system is run many times, briefly and independently. Two questions are asked of every run:

- for these landmarks: λ of the walk with multiplicities of (nearly) endless data, computed from an independent sample;
- for the system: λ of the continuous walk at this ε, known in closed form for Gaussian densities (the kernel and the
  density make an AR(1) process: λ = Π_i (σ_i²/(σ_i² + ε))^n_i), and from a fine grid for the double well.

Usage: python benchmarks/sampling.py [--repetitions 100] [--only NAME] [--again]

A system is written to docs/benchmarks/sampling.csv as soon as it is known, and not run again at the same commit
unless --again. The beads need OpenMM; without it their lines stay as they are.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from harness import DOCS, commit, provenance
from scipy.signal import lfilter

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.correlation_times import FEW_INDEPENDENT, correlation_time
from ldmaps.metrics.base import squared_matrix
from ldmaps.validation.resampling import fitted_modes

COORDINATES = 3
HEADING = [
    *("system", "coordinate", "error", "spread", "landmarks", "system_truth", "points", "called", "agree"),
    *("blocks", "runs", "commit"),
]
#: What the page shows of them.
SHOWN = {
    "landmarks": "these landmarks, %",
    "system_truth": "the system, %",
    "points": "points, %",
    "called": "called reproducible, %",
    "agree": "and then correlates by",
}


@dataclass(frozen=True)
class System:
    """A system that can be sampled briefly, and endlessly."""

    name: str
    run: Callable[[int], np.ndarray]
    endless: Callable[[], np.ndarray]
    epsilon: float
    truth: np.ndarray | None
    metric: str = "euclidean"
    n_landmarks: int = 150


def gaussian_truth(sigmas: list[float], epsilon: float) -> np.ndarray:
    ratios = np.square(sigmas) / (np.square(sigmas) + epsilon)
    orders = itertools.product(range(8), repeat=len(sigmas))
    return np.array(sorted((float(np.prod(ratios**n)) for n in orders), reverse=True)[1 : COORDINATES + 1])


def ornstein_uhlenbeck(n: int, sigmas: list[float], tau: float, seed: int) -> np.ndarray:
    a = np.exp(-1.0 / tau)
    noise = np.random.default_rng(seed).normal(size=(n, len(sigmas)))
    noise[1:] *= np.sqrt(1 - a**2)
    return lfilter([1.0], [1.0, -a], noise, axis=0) * sigmas


BARRIER, STEP = 2.0, 0.02


def double_well(n: int, seed: int, every: int = 10) -> np.ndarray:
    """Overdamped motion in U = B (x² − 1)², B = 2 kT, and a harmonic direction."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], size=1)
    out = np.empty(n)
    kicks = rng.normal(size=(n * every)) * np.sqrt(2 * STEP)
    place = 0
    value = float(x[0])
    for i in range(n):
        for _ in range(every):
            value += -4 * BARRIER * value * (value * value - 1) * STEP + kicks[place]
            place += 1
        out[i] = value
    return out[:, None]


def double_well_grid(epsilon: float) -> np.ndarray:
    x = np.linspace(-2.6, 2.6, 900)
    # The density of the discretised motion, by its own transition matrix.
    mean = x - 4 * BARRIER * x * (x**2 - 1) * STEP
    transition = np.exp(-((x[None] - mean[:, None]) ** 2) / (4 * STEP))
    transition /= transition.sum(axis=1, keepdims=True)
    density = np.full(len(x), 1.0 / len(x))
    for _ in range(20_000):
        density = density @ transition
    kernel = np.exp(-((x[:, None] - x[None]) ** 2) / (2 * epsilon))
    keep = density > 1e-12 * density.max()
    modes = fitted_modes(kernel[np.ix_(keep, keep)], density[keep])
    return modes.eigenvalues[1 : COORDINATES + 1]


def double_well_endless() -> np.ndarray:
    rng = np.random.default_rng(10**6)
    walkers = rng.choice([-1.0, 1.0], size=200_000)
    for _ in range(1500):
        force = -4 * BARRIER * walkers * (walkers**2 - 1)
        walkers += force * STEP + rng.normal(size=len(walkers)) * np.sqrt(2 * STEP)
    return walkers[:, None]


def bead_chain(n: int, seed: int) -> np.ndarray:
    """Six beads with bonds and repulsion in OpenMM, Langevin dynamics; frames of shape (n, 6, 3)."""
    import openmm
    from openmm import unit

    system = openmm.System()
    for _ in range(6):
        system.addParticle(12.0)
    bonds = openmm.HarmonicBondForce()
    for i in range(5):
        bonds.addBond(i, i + 1, 0.15, 20_000.0)
    angles = openmm.HarmonicAngleForce()
    for i in range(4):
        angles.addAngle(i, i + 1, i + 2, 1.95, 60.0)
    torsions = openmm.PeriodicTorsionForce()
    for i in range(3):
        torsions.addTorsion(i, i + 1, i + 2, i + 3, 3, 0.0, 1.5)
    for force in (bonds, angles, torsions):
        system.addForce(force)
    integrator = openmm.LangevinMiddleIntegrator(300 * unit.kelvin, 5 / unit.picosecond, 0.004)
    integrator.setRandomNumberSeed(seed + 1)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    zigzag = [[0.125 * i, 0.04 * (-1) ** i, 0.02 * (i % 3)] for i in range(6)]
    context.setPositions(zigzag)
    context.setVelocitiesToTemperature(300 * unit.kelvin, seed + 1)
    integrator.step(5000)
    frames = np.empty((n, 6, 3), dtype=np.float32)
    for i in range(n):
        integrator.step(50)
        frames[i] = context.getState(getPositions=True).getPositions(asNumpy=True)._value
    return frames


def systems() -> list[System]:
    """What is run; ``endless`` are samples that took part in no run."""
    flat, five = [2.0, 1.0], [2.0, 1.4, 0.8, 0.8, 0.8]
    return [
        System(
            "Ornstein–Uhlenbeck, 2-D",
            lambda seed: ornstein_uhlenbeck(3000, flat, 10.0, seed),
            cache(lambda: ornstein_uhlenbeck(200_000, flat, 0.01, 10**6)),
            2.0,
            gaussian_truth(flat, 2.0),
        ),
        System(
            "Ornstein–Uhlenbeck, 5-D",
            lambda seed: ornstein_uhlenbeck(3000, five, 10.0, seed),
            cache(lambda: ornstein_uhlenbeck(200_000, five, 0.01, 10**6)),
            3.0,
            gaussian_truth(five, 3.0),
        ),
        System(
            "double well",
            lambda seed: double_well(4000, seed),
            cache(double_well_endless),
            0.1,
            double_well_grid(0.1),
            n_landmarks=80,
        ),
        System(
            "six beads, OpenMM",
            lambda seed: bead_chain(1500, seed),
            cache(lambda: np.concatenate([bead_chain(4000, 10_000 + part) for part in range(10)])),
            0.004,
            None,
            "rmsd",
            100,
        ),
    ]


def judge(system: System, repetitions: int) -> list[list[str]]:
    held: dict[str, list] = {"landmarks": [], "system": [], "points": []}
    errors, spread, blocks, called, agree = [], [], [], [], []
    for seed in range(repetitions):
        X = system.run(seed)
        model = LandmarkDiffusionMap(
            COORDINATES, system.epsilon, system.metric, n_landmarks=system.n_landmarks
        ).fit(X)
        sampling = model.resample(100, blocks="time")
        nearest = model.coverage(system.endless()).nearest
        c = np.bincount(nearest, minlength=system.n_landmarks) + 1e-6
        embedder = model.embedder_
        squared = squared_matrix(embedder.metric, embedder.landmarks).astype(np.float64)
        endless = fitted_modes(np.exp(-squared / (2 * system.epsilon)), c)
        own = endless.eigenvalues[1 : COORDINATES + 1]
        inside = (sampling.intervals[:COORDINATES, 0] < own) & (own < sampling.intervals[:COORDINATES, 1])
        held["landmarks"].append(inside)
        errors.append(sampling.errors[:COORDINATES])
        spread.append(model.eigenvalues_ - own)
        blocks.append(sampling.n_blocks)
        # ψ at the landmarks, the endless one with the run's total weight and sign.
        total, points, cosines = model.multiplicities_.sum(), [], []
        for mode in range(COORDINATES):
            true = endless.vectors[:, mode + 1]
            true = true / np.sqrt((c * total / c.sum()) @ true**2)
            psi = model.landmark_embedding_[:, mode]
            cosine = (model.multiplicities_ * psi) @ true
            true = true * np.sign(cosine)
            near = np.abs(psi - true) < 1.96 * sampling.landmark_errors[:, mode]
            points.append(float(model.multiplicities_ @ near / total))
            length = np.sqrt(model.multiplicities_ @ true**2 * (model.multiplicities_ @ psi**2))
            cosines.append(abs(cosine) / length)
        held["points"].append(points)
        called.append([sampling.reproducibility(mode) == "reproducible" for mode in range(COORDINATES)])
        agree.append(cosines)
        if system.truth is not None:
            exact = model if system.n_landmarks < 100 else DiffusionMap(COORDINATES, system.epsilon).fit(X)
            shift = exact.eigenvalues_ - sampling.eigenvalues[:COORDINATES]
            low, high = sampling.intervals[:COORDINATES].T + shift
            held["system"].append((low < system.truth) & (system.truth < high))
    share = {key: 100 * np.mean(value, axis=0) if value else None for key, value in held.items()}
    said, cosine = np.array(called), np.array(agree)
    rows = []
    for mode in range(COORDINATES):
        own_said = said[:, mode]
        low = f"{np.quantile(cosine[own_said, mode], 0.05):.2f}" if own_said.sum() >= 20 else "–"
        rows.append(
            [
                system.name,
                f"psi{mode + 2}",
                f"{np.mean(errors, axis=0)[mode]:.4f}",
                f"{np.std(spread, axis=0)[mode]:.4f}",
                f"{share['landmarks'][mode]:.0f}",
                "–" if share["system"] is None else f"{share['system'][mode]:.0f}",
                f"{share['points'][mode]:.0f}",
                f"{100 * own_said.mean():.0f}",
                low,
                f"{np.mean(blocks):.0f}",
                str(repetitions),
                commit(),
            ]
        )
    return rows


def short_series(n_independent: int, repetitions: int = 300, time: float = 20.0) -> list[str]:
    """Return a line: how AR(1) series worth so many independent samples are judged, and the interval of their mean."""
    decay = (2 * time - 1) / (2 * time + 1)
    noise = np.random.default_rng(n_independent).normal(size=(repetitions, int(2 * time * n_independent)))
    noise[:, 1:] *= np.sqrt(1 - decay**2)
    told, held, times = [], [], []
    for series in lfilter([1.0], [1.0, -decay], noise, axis=1):
        found = correlation_time(series, [slice(0, len(series))])
        times.append(found.time / time)
        told.append(found.n_independent * found.time / found.upper >= FEW_INDEPENDENT)
        held.append(abs(series.mean()) < 1.96 * series.std() / np.sqrt(found.n_independent))
    told = np.array(told)
    covered = f"{100 * np.mean(np.array(held)[told]):.0f}" if told.sum() >= 20 else "–"
    return [str(n_independent), f"{np.mean(times):.2f}", f"{100 * (1 - told.mean()):.0f}", covered]


def series_table() -> str:
    lines = [
        "| independent samples | correlation time, found/true | unknown, % | held otherwise, % |",
        "|---|---|---|---|",
    ]
    return "\n".join(
        [*lines, *(f"| {' | '.join(short_series(count))} |" for count in (5, 10, 20, 30, 50, 100))]
    )


def page(rows: list[dict[str, str]], made: str) -> str:
    """Return the page: what is held, system by system; the other columns are in the CSV."""
    lines = [f"| system | runs | | {' | '.join(SHOWN.values())} |", "|---" * (len(SHOWN) + 3) + "|"]
    before = ""
    for row in rows:
        number = row["coordinate"].removeprefix("psi").translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
        first = ["", ""] if row["system"] == before else [row["system"], row["runs"]]
        lines.append(f"| {' | '.join([*first, f'ψ{number}', *(row[name] for name in SHOWN)])} |")
        before = row["system"]
    prose = (Path(__file__).parent / "prose" / "sampling.md").read_text(encoding="utf-8")
    prose = prose.replace("{table}", "\n".join(lines)).replace("{series}", series_table())
    return prose + f"\n`python benchmarks/sampling.py`, {made}.\n"


def read() -> list[dict[str, str]]:
    """Return what was measured, in the order of systems."""
    path = DOCS / "sampling.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if set(row) == set(HEADING)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true", help="run also what was measured with this commit")
    parser.add_argument("--page", action="store_true", help="only write the page, of what was measured")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    made, known = provenance(), read()  # while the tree is as it was committed
    names = [system.name for system in systems()]
    for system in [] if arguments.page else systems():
        own = [row for row in known if row["system"] == system.name]
        is_current = any(
            row["commit"] == commit() and row["runs"] == str(arguments.repetitions) for row in own
        )
        if arguments.only not in system.name or (is_current and not arguments.again):
            continue
        if "OpenMM" in system.name and find_spec("openmm") is None:
            continue
        rows = judge(system, arguments.repetitions)
        for row in rows:
            print(", ".join(row), flush=True)
        known = [row for row in known if row["system"] != system.name]
        known += [dict(zip(HEADING, row, strict=True)) for row in rows]
        known.sort(key=lambda row: names.index(row["system"]))
        with (DOCS / "sampling.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, HEADING)
            writer.writeheader()
            writer.writerows(known)
    (DOCS / "sampling.md").write_text(page(known, f"on {made}"), encoding="utf-8")


if __name__ == "__main__":
    main()
