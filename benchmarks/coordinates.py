"""How many coordinates and basins a map has by default, where the answer is known: docs/benchmarks/coordinates.md.

Usage: python benchmarks/coordinates.py [--seeds 3] [--csv FILE] [--before FILE]

``--csv`` writes what was found; ``--before`` reads such a file of an earlier version for the page's columns "before".
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import DOCS, provenance

from ldmaps import LandmarkDiffusionMap
from ldmaps.regions import find_basins

Make = Callable[[np.random.Generator], np.ndarray]


def drawn(density: Callable, low: float, high: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw from a density on an interval."""
    grid = np.linspace(low, high, 20_001)
    sums = np.cumsum(density(grid))
    return np.interp(rng.uniform(0, sums[-1], n), sums, grid)


def blobs(count: int) -> Make:
    def make(rng: np.random.Generator) -> np.ndarray:
        angle = 2 * np.pi * rng.integers(0, count, 2000) / count
        centres = max(2.0, count / 2.2) * np.column_stack([np.cos(angle), np.sin(angle)])
        return centres + 0.3 * rng.normal(size=(2000, 2))

    return make


def ring(count: int) -> Make:
    def make(rng: np.random.Generator) -> np.ndarray:
        angle = drawn(lambda t: np.exp(3 * np.cos(count * t)), 0, 2 * np.pi, 2000, rng)
        radius = 0.4 * count + 1.0 + 0.2 * rng.normal(size=2000)
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])

    return make


def row(count: int) -> Make:
    return lambda rng: drawn(lambda t: np.exp(-3 * np.cos(2 * np.pi * t)), 0, count, 2000, rng)[:, None]


def four_wells(rng: np.random.Generator) -> np.ndarray:
    sides = [drawn(lambda t: np.exp(-4 * (t**2 - 1) ** 2 - 0.15 * t), -2.2, 2.2, 2000, rng) for _ in range(2)]
    return np.column_stack(sides)


def circle(rng: np.random.Generator, n: int = 2000) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def rectangle(side: float) -> Make:
    return lambda rng: rng.uniform(size=(2000, 2)) * [side, 1.0]


def cylinder(height: float) -> Make:
    return lambda rng: np.column_stack([circle(rng, 3000), height * rng.uniform(size=3000)])


#: Name, how to draw it, coordinates and basins that are right; None where there are no basins to find.
CASES: list[tuple[str, Make, int, int | None]] = [
    *((f"{count} blobs", blobs(count), count - 1, count) for count in (3, 4, 6, 8)),
    *((f"{count} wells on a ring", ring(count), count - 1, count) for count in (3, 5, 7, 8)),
    *((f"{count} wells in a row", row(count), count - 1, count) for count in (2, 3, 4, 6)),
    ("4 unequal wells in a plane", four_wells, 3, 4),
    ("interval", lambda rng: rng.uniform(size=(2000, 1)), 1, None),
    *((f"rectangle {side}:1", rectangle(side), 2, None) for side in (1.0, 1.5, 2.5, 3.7)),
    ("circle", circle, 2, None),
    *((f"circle × interval of {height}", cylinder(height), 3, None) for height in (1.5, 4.0)),
    ("circle × circle", lambda rng: np.column_stack([circle(rng, 4000), 0.7 * circle(rng, 4000)]), 4, None),
]


def count(make: Make, seed: int) -> tuple[int, int]:
    """Return how many coordinates and basins the default map of a case has."""
    model = LandmarkDiffusionMap().fit(make(np.random.default_rng(seed)))
    return model.n_components_, len(find_basins(model).names)


def page(found: dict[str, list[list[str]]], before: dict[str, list[list[str]]], made: str) -> str:
    """Return the page."""
    lines = [
        "| data | coordinates | before | now | basins | before | now |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, _, coordinates, basins in CASES:
        if name not in found:
            continue
        cells = []
        for place, right in enumerate((coordinates, basins)):
            cells.append("–" if right is None else str(right))
            for runs in (before, found):
                numbers = sorted(int(run[place]) for run in runs.get(name, []))
                cells.append("–" if right is None or not numbers else ", ".join(map(str, numbers)))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    prose = (Path(__file__).parent / "prose" / "coordinates.md").read_text(encoding="utf-8")
    return prose.replace("{table}", "\n".join(lines)) + f"\n`python benchmarks/coordinates.py`, {made}.\n"


def read(path: str) -> dict[str, list[list[str]]]:
    """Return coordinates and basins of every seed, by case."""
    runs: dict[str, list[list[str]]] = {}
    with open(path, newline="", encoding="utf-8") as file:
        for name, *numbers in list(csv.reader(file))[1:]:
            runs.setdefault(name, []).append(numbers)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", default=str(DOCS / "coordinates.csv"))
    parser.add_argument("--before", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    made = provenance()  # while the tree is as it was committed
    rows = [["data", "coordinates", "basins"]]
    for name, make, *_ in CASES:
        for seed in range(arguments.seeds):
            rows.append([name, *map(str, count(make, seed))])
            print(", ".join(rows[-1]), flush=True)
    with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    if arguments.before:
        text = page(read(arguments.csv), read(arguments.before), f"on {made}")
        (DOCS / "coordinates.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
