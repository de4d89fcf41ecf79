"""Absorbing a part that was held out: how near the map comes to one of all data, and how far old points move.

``python benchmarks/absorbing.py`` prints the table of docs/guide/extending.md.
"""

from __future__ import annotations

import warnings

import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.absorbing import absorb
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import AccuracyWarning
from ldmaps.streaming import Reservoir
from ldmaps.validation.fidelity import match_columns, nrmse

KINDS = {
    "roll": [
        {"n_landmarks": 300},
        {"n_landmarks": 300, "extension": "distilled"},
        {"n_landmarks": 600, "extension": "distilled"},
        {"n_landmarks": 100, "extension": "distilled"},
        {"tolerance": 5.0},
    ],
    "alanine dipeptide": [
        {"n_landmarks": 200},
        {"n_landmarks": 200, "extension": "distilled"},
        {"n_landmarks": 50, "extension": "distilled"},
        {"tolerance": 5.0},
    ],
}


def main() -> None:
    """Print the table."""
    print(
        "| held out | map | outside | landmarks | Z before | Z absorbed | old points moved | in common | inside |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    roll = swiss_roll(4000)
    exact = DiffusionMap(2, epsilon=4.0).fit(roll.points)
    for cut in (13.5, 13.0):
        held = roll.position >= cut
        for kind in KINDS["roll"]:
            row(f"roll, outer {held.mean():.0%}", roll.points, held, exact, kind)
    molecule = alanine_dipeptide(stride=10)
    frames = molecule.frames[:, molecule.heavy_atoms]
    psi = dihedral(frames[:, [3, 4, 6, 8]])
    exact = DiffusionMap(2, epsilon="connected", metric="rmsd").fit(frames)
    core = (psi > -1.2) & (psi < -0.2)
    for kind in KINDS["alanine dipeptide"]:
        row(f"alanine dipeptide, core of αR ({core.mean():.0%})", frames, core, exact, kind)


def row(name: str, points: np.ndarray, held: np.ndarray, exact: DiffusionMap, kind: dict) -> None:
    """Fit to what is not held out, absorb the rest as a stream would bring it, and print what came out."""
    settings = {"epsilon": exact.epsilon_, "metric": exact.metric, **kind}
    old = LandmarkDiffusionMap(2, **settings).fit(points[~held])
    coverage = old.coverage(points[held])
    reservoir = Reservoir(1000)
    reservoir.offer(points[held][~coverage.inside])
    reservoir.count(coverage.nearest[coverage.inside])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        new = absorb(old, reservoir.points, reservoir.weights, counts=reservoir.counts)
    moved = nrmse(old.embedding_, new.transform(points[~held]), matched=True)
    what = f"tolerance {kind['tolerance']:g} %" if "tolerance" in kind else kind.get("extension", "nystrom")
    done, common = new.absorption_, " ".join(f"{share:.3f}" for share in new.absorption_.in_common)
    print(
        f"| {name} | {what} | {len(reservoir.points)} | {len(old.multiplicities_)} + {done.n_new_landmarks} | "
        f"{shape_error(exact, old, points):.2g} | {shape_error(exact, new, points):.2g} | {moved:.2g} % | {common} | "
        f"{old.coverage(points[held]).inside.mean():.0%} → {new.coverage(points[held]).inside.mean():.0%} |",
        flush=True,
    )


def shape_error(exact: DiffusionMap, model: LandmarkDiffusionMap, points: np.ndarray) -> float:
    """Return Z after the best scale and origin of each coordinate: an aligned map has those of the old one."""
    true, found = exact.embedding_.astype(float), model.transform(points).astype(float)
    found = match_columns(true, found - found.mean(axis=0))
    for column in range(true.shape[1]):
        found[:, column] = np.polyval(np.polyfit(found[:, column], true[:, column], 1), found[:, column])
    return nrmse(true, found, matched=True)


def dihedral(four: np.ndarray) -> np.ndarray:
    """Return the angle about the middle bond of four atoms."""
    a, b, c = (np.diff(four, axis=1)[:, place] for place in range(3))
    first, second = np.cross(a, b), np.cross(b, c)
    sine = (np.cross(first, second) * b).sum(axis=1) / np.linalg.norm(b, axis=1)
    return np.arctan2(sine, (first * second).sum(axis=1))


if __name__ == "__main__":
    main()
