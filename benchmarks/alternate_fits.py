"""Time and memory of default fits with two versions of the package, alternately: what a change costs or saves.

    python benchmarks/alternate_fits.py before/.venv/bin/python after/.venv/bin/python
    python benchmarks/alternate_fits.py before/.venv/bin/python after/.venv/bin/python --only roll digits --rounds 9

Each fit is a process of its own with one of the two interpreters, A B A B and so on; every second round begins with the
other. Data are made and the package is imported before the clock starts, and a small fit of other points loads what is
loaded on first use. Ratios are medians of the ratios within a round, so that a machine that slows down for a while slows
both. Memory is the most that the process held, data and imports included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import median_ratio, peak_memory
from numpy.typing import NDArray

ROUNDS = 5


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def roll(n_points: int) -> NDArray[Any]:
    from ldmaps.datasets import swiss_roll

    return swiss_roll(n_points).points


def torus() -> NDArray[Any]:
    around, through = random().uniform(0, 2 * np.pi, (2, 5000))
    radius = 3.0 + np.cos(through)
    return np.column_stack([radius * np.cos(around), radius * np.sin(around), np.sin(through)])


def digits() -> NDArray[Any]:
    from sklearn.datasets import load_digits

    return load_digits().data


def alanine_dipeptide() -> NDArray[Any]:
    from ldmaps.datasets import alanine_dipeptide

    return alanine_dipeptide(stride=12).frames[:2000]


def c24h50() -> NDArray[Any]:
    from ldmaps.datasets import c24h50

    return c24h50(stride=10).frames[:1000]


def two_halves() -> NDArray[Any]:
    return np.concatenate([roll(1000), roll(1000) + np.array([0.0, 80.0, 0.0])])


#: Data, and the metric if it is not the Euclidean one.
DATA: dict[str, tuple[Callable[[], NDArray[Any]], str]] = {
    "roll 2,000": (lambda: roll(2000), "euclidean"),
    "roll 20,000": (lambda: roll(20_000), "euclidean"),
    "torus 5,000": (torus, "euclidean"),
    "digits 1,797": (digits, "euclidean"),
    "gaussian 10-d 20,000": (lambda: random().standard_normal((20_000, 10)), "euclidean"),
    "alanine dipeptide 2,000": (alanine_dipeptide, "rmsd"),
    "C24H50 1,000": (c24h50, "rmsd"),
    "t(2.5) 2,000": (lambda: random(1).standard_t(2.5, size=(2000, 3)), "euclidean"),
    "t(1.5) 2,000": (lambda: random(1).standard_t(1.5, size=(2000, 3)), "euclidean"),
    "two halves 2,000": (two_halves, "euclidean"),
    "random walk 600": (lambda: np.cumsum(random(2).standard_normal((600, 3)), axis=0), "euclidean"),
}


def measure(name: str) -> dict[str, float]:
    """Fit one data set in this process; return seconds, bytes, and what tells whether both found the same."""
    from ldmaps import LandmarkDiffusionMap

    make, metric = DATA[name]
    X = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LandmarkDiffusionMap(metric=metric).fit(X[:100])
        model = LandmarkDiffusionMap(metric=metric)
        start = time.perf_counter()
        model.fit(X)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "bytes": peak_memory(), "epsilon": float(model.epsilon_)}


def in_process(python: str, name: str) -> dict[str, float]:
    """Measure with another interpreter."""
    done = subprocess.run([python, __file__, "--measure", name], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python} could not fit {name}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def alternate(pythons: Sequence[str], name: str, rounds: int) -> list[list[dict[str, float]]]:
    """Return what each interpreter measured in each round."""
    measured: list[list[dict[str, float]]] = [[], []]
    for number in range(rounds):
        for place in (0, 1) if number % 2 == 0 else (1, 0):
            measured[place].append(in_process(pythons[place], name))
    return measured


def row(name: str, measured: Sequence[Sequence[dict[str, float]]]) -> str:
    """Return a line of the table."""
    seconds, memory = (
        [[each[what] for each in rounds] for rounds in measured] for what in ("seconds", "bytes")
    )
    cells = [name.ljust(24)]
    cells += [f"{statistics.median(values):9.3f} s" for values in seconds]
    cells.append(f"{median_ratio(seconds[1], seconds[0]):8.3f}")
    cells += [f"{statistics.median(values) / 1e6:9.0f} MB" for values in memory]
    cells.append(f"{median_ratio(memory[1], memory[0]):8.3f}")
    epsilons = [rounds[0]["epsilon"] for rounds in measured]
    if not np.isclose(*epsilons, rtol=1e-9):
        cells.append(f"  epsilon {epsilons[0]:.6g} became {epsilons[1]:.6g}")
    return "".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare default fits with two versions of the package.")
    parser.add_argument("pythons", nargs="*", help="two interpreters, A and B")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"fits with each ({ROUNDS})")
    parser.add_argument("--only", nargs="+", help="data sets with one of these texts in their name")
    parser.add_argument("--measure", choices=DATA, help="fit once, here, and print what was measured")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    if len(arguments.pythons) != 2:
        parser.error(f"two interpreters are compared, got {len(arguments.pythons)}")
    print(
        f"{'default fit of':24}{'A':>11}{'B':>11}{'B/A':>8}{'A':>12}{'B':>12}{'B/A':>8}   medians of {arguments.rounds}"
    )
    for name in DATA:
        if arguments.only is None or any(text in name for text in arguments.only):
            print(row(name, alternate(arguments.pythons, name, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
