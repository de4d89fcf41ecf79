"""How many coordinates and basins a map has by default, where the answer is known: docs/benchmarks/coordinates.md.

Usage: python benchmarks/coordinates.py [--seeds 3] [--first-seed 300] [--only NAME] [--again]

A line of docs/benchmarks/coordinates.csv is written as soon as it is known; what it holds of this commit is not computed
again, and all else is forgotten. coordinates_before.csv beside it has what commit beef3a9 found, for the page's columns
"before". No threshold was chosen with seeds from 300 on.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import DOCS, commit, provenance

from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import LdmapsError
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


def unequal_row(count: int) -> Make:
    """Wells in a row whose depths and populations differ up to threefold."""

    def density(t: np.ndarray) -> np.ndarray:
        return np.exp(-3.5 * np.cos(2 * np.pi * t) + 0.5 * np.sin(1.7 * t + 1.0))

    return lambda rng: drawn(density, 0, count, 2000, rng)[:, None]


def unequal_blobs(count: int) -> Make:
    """Blobs at irregular places in three dimensions; the k-th has 1/k of the points of the first."""
    places = np.random.default_rng(count).normal(size=(count, 3))
    for _ in range(200):  # they repel each other
        apart = places[:, None] - places
        squares = (apart**2).sum(axis=2) + np.eye(count)
        places = places + 0.1 * (apart / squares[:, :, None] ** 2).sum(axis=1)
    nearest = np.sqrt(((places[:, None] - places) ** 2).sum(axis=2) + 1e9 * np.eye(count)).min()
    shares = 1.0 / np.arange(1, count + 1)

    def make(rng: np.random.Generator) -> np.ndarray:
        blob = rng.choice(count, 2000, p=shares / shares.sum())
        return (7.0 / nearest) * places[blob] + rng.normal(size=(2000, 3))

    return make


def scattered_blobs(count: int, dimension: int, apart: float = 8.0) -> Make:
    """Round blobs at random places, at least so many standard deviations from each other."""

    def make(rng: np.random.Generator) -> np.ndarray:
        size = 0.9 * apart * count ** (1 / min(dimension, 3))
        places: list[np.ndarray] = []
        while len(places) < count:
            place = size / np.sqrt(dimension) * rng.normal(size=dimension)
            if all(np.linalg.norm(place - other) >= apart for other in places):
                places.append(place)
            size *= 1.001
        return np.array(places)[rng.integers(0, count, 2000)] + rng.normal(size=(2000, dimension))

    return make


def double_well(barrier: float, n: int) -> Make:
    return lambda rng: drawn(lambda t: np.exp(-barrier * (t**2 - 1) ** 2), -2.2, 2.2, n, rng)[:, None]


def shallow_third_well(rng: np.random.Generator) -> np.ndarray:
    """Wells in a row between barriers of 7 kT, the third 2 kT shallower than the others."""

    def potential(t: np.ndarray) -> np.ndarray:
        return 3.5 * np.cos(2 * np.pi * t) + np.where(t > 2, 2 * np.sin(np.pi * (t - 2)) ** 2, 0)

    return drawn(lambda t: np.exp(-potential(t)), 0, 3, 3000, rng)[:, None]


def wide_double_well(rng: np.random.Generator) -> np.ndarray:
    return np.column_stack([double_well(3, 3000)(rng), 2.0 * rng.uniform(size=3000)])


def in_potential(potential: Callable, cold: float, size: float) -> Make:
    """Points of a plane by their Boltzmann weight exp(-cold·U)."""

    def make(rng: np.random.Generator) -> np.ndarray:
        grid = np.linspace(-size, size, 500)
        x, y = (side.ravel() for side in np.meshgrid(grid, grid))
        weight = np.exp(-cold * potential(x, y))
        cell = rng.choice(len(weight), 3000, p=weight / weight.sum())
        return np.column_stack([x[cell], y[cell]]) + (grid[1] - grid[0]) * (rng.random((3000, 2)) - 0.5)

    return make


def quadruple_well(rng: np.random.Generator) -> np.ndarray:
    """Four wells of unequal depth on a line."""

    def potential(x: np.ndarray) -> np.ndarray:
        bumps = 0.8 * np.exp(-80 * x**2) + 0.2 * np.exp(-80 * (x - 0.5) ** 2)
        return 4 * (x**8 + bumps + 0.5 * np.exp(-40 * (x + 0.5) ** 2))

    return drawn(lambda x: np.exp(-2.5 * potential(x)), -1.2, 1.2, 3000, rng)[:, None]


def arc(rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(0, 4.5, 2000)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def sphere(rng: np.random.Generator) -> np.ndarray:
    places = rng.normal(size=(4000, 3))
    return places / np.linalg.norm(places, axis=1, keepdims=True)


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
    *((f"{count} unequal wells in a row", unequal_row(count), count - 1, count) for count in range(2, 9)),
    *((f"{count} unequal blobs", unequal_blobs(count), count - 1, count) for count in range(3, 9)),
    ("quadruple well on a line", quadruple_well, 3, 4),
    (
        "quadruple well in a plane",
        in_potential(lambda x, y: (x**2 - 1) ** 2 + (y**2 - 1) ** 2, 4.0, 2.0),
        3,
        4,
    ),
    (
        "tilted quadruple well",
        in_potential(lambda x, y: (x**2 - 1) ** 2 + (y**2 - 1) ** 2 + 0.12 * x - 0.2 * y, 4.0, 2.0),
        3,
        4,
    ),
    *((f"rectangle {side}:1", rectangle(side), 2, None) for side in (3.0, 4.5, 6.0)),
    *(
        (f"{count} blobs in {dimension} dimensions", scattered_blobs(count, dimension), count - 1, count)
        for count in range(3, 9)
        for dimension in (2, 4, 6, 10)
    ),
    *(
        (f"double well on a line, {barrier} kT, {n:,} points", double_well(barrier, n), 1, 2)
        for barrier, n in ((2, 2000), (3, 600), (3, 2000), (3, 5000), (5, 2000))
    ),
    ("three wells in a row, the third shallower", shallow_third_well, 2, 3),
    ("double well × interval", wide_double_well, 2, 2),
    ("arc", arc, 1, None),
    ("normal distribution on a line", lambda rng: rng.normal(size=(2000, 1)), 1, None),
    ("sphere", sphere, 3, None),
    ("box 3:2:1", lambda rng: rng.uniform(size=(4000, 3)) * [3.0, 2.0, 1.0], 3, None),
    (
        "circle × smaller circle",
        lambda rng: np.column_stack([circle(rng, 4000), 0.6 * circle(rng, 4000)]),
        4,
        None,
    ),
    ("circle × circle", lambda rng: np.column_stack([circle(rng, 4000), 0.7 * circle(rng, 4000)]), 4, None),
]


def count(make: Make, seed: int) -> tuple[int, int]:
    """Return how many coordinates and basins the default map of a case has."""
    model = LandmarkDiffusionMap().fit(make(np.random.default_rng(seed)))
    try:
        return model.n_components_, len(find_basins(model).names)
    except LdmapsError:
        return model.n_components_, 1  # nothing tells basins apart


#: What a line of the CSV holds.
HEAD = ("data", "seed", "coordinates", "basins", "commit")


def is_right(name: str, row: dict[str, str]) -> bool:
    """Say whether the numbers of coordinates and basins are both right."""
    coordinates, basins = next(case[2:] for case in CASES if case[0] == name)
    return int(row["coordinates"]) == coordinates and (basins is None or int(row["basins"]) == basins)


def page(found: list[dict[str, str]], before: list[dict[str, str]], made: str) -> str:
    """Return the page."""
    lines = [
        "| data | coordinates | before | now | basins | before | now |",
        "|---|---|---|---|---|---|---|",
    ]
    wrong, n_right = {}, 0
    for name, _, *right in CASES:
        own = [row for row in found if row["data"] == name]
        if not own:
            continue
        cells = []
        for column, number in zip(("coordinates", "basins"), right, strict=True):
            cells.append("–" if number is None else str(number))
            for rows in (before, own):
                numbers = Counter(int(row[column]) for row in rows if row["data"] == name and row[column])
                cells.append("–" if number is None or not numbers else in_words(numbers))
        lines.append(f"| {name} | {' | '.join(cells)} |")
        count = sum(is_right(name, row) for row in own)
        n_right += count
        if count < len(own):
            wrong[name] = f"{name} ({len(own) - count} of {len(own)})"
    score = f"Right in {n_right} of {len(found)} data sets."
    if wrong:
        score += f" Wrong: {', '.join(wrong.values())}."
    prose = (Path(__file__).parent / "prose" / "coordinates.md").read_text(encoding="utf-8")
    prose = prose.replace("{table}", "\n".join(lines)).replace("{score}", score)
    return prose + f"\n`python benchmarks/coordinates.py`, {made}.\n"


def in_words(numbers: Counter[int]) -> str:
    """Return which numbers were found, and how often each where they differ."""
    if len(numbers) == 1:
        return str(next(iter(numbers)))
    return ", ".join(f"{number} ({times} ×)" for number, times in sorted(numbers.items()))


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=300)
    parser.add_argument("--only", default="", help="cases whose name has this text (all)")
    parser.add_argument("--again", action="store_true", help="forget what is known")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    made, version, path = (
        provenance(),
        commit(),
        DOCS / "coordinates.csv",
    )  # while the tree is as it was committed
    rows = [row for row in read(path) if row.get("commit") == version and not arguments.again]
    done = {(row["data"], row["seed"]) for row in rows}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEAD)
        writer.writeheader()
        writer.writerows(rows)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for name, make, *_ in CASES:
                if arguments.only in name and (name, str(seed)) not in done:
                    values = (name, seed, *count(make, seed), version)
                    writer.writerow(dict(zip(HEAD, values, strict=True)))
                    file.flush()
    text = page(read(path), read(DOCS / "coordinates_before.csv"), f"on {made}")
    (DOCS / "coordinates.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
