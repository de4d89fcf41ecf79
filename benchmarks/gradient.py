"""What gradients cost beside values, and forces beside the rest of a step of an OpenMM run.

python benchmarks/gradient.py     writes docs/benchmarks/gradient.md, .csv
"""

from __future__ import annotations

import statistics

import numpy as np
from harness import Row, median_ratio, turns, write_table

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD


def against_values() -> list[Row]:
    """Value and gradient against the value alone, one point and a batch, on one thread."""
    rows = []
    molecule = alanine_dipeptide(stride=5)
    for what, points, metric, epsilon in [
        ("22 atoms, RMSD", molecule.frames, RMSD(molecule.masses), 1.36e-3),
        ("3-D points", swiss_roll(4000).points, "euclidean", 1.0),
    ]:
        for dtype in (np.float32, np.float64):
            X = points.astype(dtype)
            model = LandmarkDiffusionMap(2, epsilon, metric=metric, n_landmarks=400, extension="nystrom")
            embedder = model.fit(X).embedder_
            for many, few, target in (("one", X[7:8].copy(), 3), (f"{len(X):,}", X, 4)):
                value, both = turns(
                    [
                        lambda few=few: embedder.extend(embedder.prepare(few), 1),
                        lambda few=few: embedder.extend_with_gradient(few, 1),
                    ],
                    rounds=15,
                    repeats=500 if many == "one" else 1,
                )
                rows.append(
                    Row(
                        f"value and gradient, {what}, {np.dtype(dtype)}, M = 400, k = 2, {many} at a time",
                        "value alone",
                        f"{1e6 * statistics.median(both) / len(few):.1f} µs a point",
                        f"{1e6 * statistics.median(value) / len(few):.1f} µs a point",
                        median_ratio(value, both),
                        f"at most {target} times the time",
                        f"{1 / median_ratio(value, both):.2f} times the time",
                    )
                )
    return rows


if __name__ == "__main__":
    write_table("gradient", "Gradients and biasing forces: what they cost", "make bench", against_values())
