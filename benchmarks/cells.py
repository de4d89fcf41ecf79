"""Maps of cells beside scanpy's, on the data that ship with scanpy: agreement of subspaces, time, and new cells.

OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 LDMAPS_NUM_THREADS=1 python benchmarks/cells.py    writes docs/benchmarks/cells.md

Needs scanpy, which no group of pyproject.toml installs.
"""

from __future__ import annotations

import statistics
import time
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
import scanpy
from harness import DOCS, provenance, turns
from scipy.linalg import subspace_angles

from ldmaps.anndata import diffmap, project

#: Non-trivial components that are compared, and scanpy's own usual number of neighbours.
COUNTS, N_NEIGHBORS = (1, 2, 3, 5), 15
#: Every so many cells are new.
NEW_EVERY = 5
#: Settings of ours that are compared: one ε or one for each cell, with and without scanpy's normalisation.
OURS: dict[str, dict[str, Any]] = {
    "ldmaps": {},
    "ldmaps, `alpha=1`": {"alpha": 1.0},
    'ldmaps, `epsilon="local"`': {"epsilon": "local"},
    'ldmaps, `epsilon="local"`, `alpha=1`': {"epsilon": "local", "alpha": 1.0},
}
INTRODUCTION = """\
# Single cells

[`ldmaps.anndata.diffmap`](../guide/packages.md#single-cells-with-anndata) beside `scanpy.tl.diffmap` on the two data sets of cells that ship with scanpy: pbmc68k_reduced
(700 blood cells, 50 principal components) and krumsiek11 (640 simulated cells, 11 genes, all of them used). scanpy has its default settings,
which remove the influence of density (`alpha=1` here).

`python benchmarks/cells.py` on one thread, with scanpy {scanpy} on {where}.
"""


def data_sets() -> dict[str, tuple[Any, str]]:
    """Return cells, and what they are compared by."""
    blood = scanpy.datasets.pbmc68k_reduced()
    for name in ("neighbors", "louvain"):
        blood.uns.pop(name, None)
    simulated = scanpy.datasets.krumsiek11()
    simulated.obsm["X_all"] = np.asarray(simulated.X, dtype=np.float64)
    return {"pbmc68k_reduced": (blood, "X_pca"), "krumsiek11": (simulated, "X_all")}


def theirs(adata: Any, use_rep: str, n_neighbors: int = N_NEIGHBORS) -> np.ndarray:
    scanpy.pp.neighbors(adata, n_neighbors=n_neighbors, use_rep=use_rep)
    scanpy.tl.diffmap(adata, n_comps=max(COUNTS) + 1)
    return np.asarray(adata.obsm["X_diffmap"])[:, 1:]  # without the trivial component


def ours(adata: Any, use_rep: str, **settings: Any) -> np.ndarray:
    diffmap(adata, use_rep, n_components=max(COUNTS), **settings)
    return np.asarray(adata.obsm["X_ldmap"])


def agreement(first: np.ndarray, second: np.ndarray, count: int) -> float:
    """Return the mean squared cosine of the angles between what the leading components span, about their means."""
    sides = [part[:, :count] - part[:, :count].mean(axis=0) for part in (first, second)]
    return float(np.mean(np.cos(subspace_angles(*sides)) ** 2))


def predictability(of: np.ndarray, by: np.ndarray) -> list[float]:
    """Return the share of the variance of each component that a span of all others explains, R²."""
    known = np.column_stack([np.ones(len(by)), by])
    rest = of - known @ np.linalg.lstsq(known, of, rcond=None)[0]
    return [float(value) for value in 1 - rest.var(axis=0) / of.var(axis=0)]


def new_cells(adata: Any, use_rep: str, settings: dict[str, Any]) -> tuple[float, float, int]:
    """Fit without every fifth cell, project these; return two agreements with the map of all cells and a count.

    The agreements are R² of the leading two coordinates of all cells, explained by those of the projection, over the
    new cells and over those of the fit.
    """
    whole = ours(adata, use_rep, **settings)[:, :2]
    is_new = np.arange(len(whole)) % NEW_EVERY == 0
    old, new = adata[~is_new].copy(), adata[is_new].copy()
    model = diffmap(old, use_rep, n_components=max(COUNTS), **settings)
    project(new, model, use_rep)
    known = [np.asarray(part.obsm["X_ldmap"]) for part in (new, old)]
    found = [
        statistics.mean(predictability(whole[rows], part))
        for rows, part in zip((is_new, ~is_new), known, strict=True)
    ]
    return found[0], found[1], int(new.obs["ldmap_inside"].sum())


def table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines]) + "\n"


def compare_costs(name: str, adata: Any, use_rep: str, rounds: int) -> list[list[str]]:
    seconds = turns(
        [
            lambda: theirs(adata, use_rep),
            *(lambda settings=settings: ours(adata, use_rep, **settings) for settings in OURS.values()),
        ],
        rounds=rounds,
        clock=time.process_time,
    )
    lines = []
    for who, taken in zip(OURS, seconds[1:], strict=True):
        ratio = statistics.median(a / b for a, b in zip(seconds[0], taken, strict=True))
        medians = [f"{1000 * statistics.median(part):.0f}" for part in (seconds[0], taken)]
        lines.append([name, who, *medians, f"{ratio:.2g}"])
    return lines


def page() -> str:
    agreements, costs, projections = [], [], []
    for name, (adata, use_rep) in data_sets().items():
        reference = theirs(adata, use_rep)
        others = {"scanpy, 30 neighbours": theirs(adata, use_rep, 2 * N_NEIGHBORS)}
        others |= {who: ours(adata, use_rep, **settings) for who, settings in OURS.items()}
        for who, found in others.items():
            agreements.append([name, who, *(f"{agreement(reference, found, count):.3f}" for count in COUNTS)])
        costs += compare_costs(name, adata, use_rep, rounds=5)
        for who, settings in OURS.items():
            of_new, of_old, inside = new_cells(adata, use_rep, settings)
            n_new = len(range(0, adata.n_obs, NEW_EVERY))
            projections.append([name, who, f"{of_new:.3f}", f"{of_old:.3f}", f"{inside} of {n_new}"])
    return "\n".join(
        [
            INTRODUCTION.format(scanpy=version("scanpy"), where=provenance()),
            "**Agreement.** Mean squared cosine of the angles between what the leading 1, 2, 3 and 5 non-trivial components span, with "
            "scanpy's at 15 neighbours; 1 is the same. scanpy's own map with twice the neighbours is the yardstick:",
            "",
            table(["cells", "map", *map(str, COUNTS)], agreements),
            "**Time.** Milliseconds of processor time for neighbours and map, in turns, and the median of the ratios:",
            "",
            table(["cells", "map", "scanpy", "ours", "times faster"], costs),
            "**New cells.** The map is fitted without every fifth cell, which is then projected; scanpy cannot do this. Share of the "
            "variance of the first two coordinates in the map of all cells that the projected coordinates explain (linearly), the same "
            "for the cells of the fit, and how many new cells the map covers:",
            "",
            table(["cells", "map", "new cells", "cells of the fit", "inside"], projections),
        ]
    )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    scanpy.settings.verbosity = 0
    text = page()
    print(text)
    (DOCS / "cells.md").write_text(text, encoding="utf-8")
