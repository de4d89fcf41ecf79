"""Print the measurements quoted in ``background/theory.md``: ``python docs/method_numbers.py``."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion.pairwise import nearest
from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks import KMedoids, base, k_medoids
from ldmaps.metrics import RMSD, Euclidean, Metric
from ldmaps.metrics.base import Points
from ldmaps.validation.fidelity import nrmse


def atoms_and_weights() -> None:
    """Show what the choice of atoms and weights does to alanine dipeptide's spectrum."""
    molecule = alanine_dipeptide()
    chosen = np.sort(np.random.default_rng(0).permutation(len(molecule))[:20_000])
    frames = molecule.frames[chosen]
    heavy = molecule.heavy_atoms
    print("Alanine dipeptide, 20,000 random frames of 25,001, connected ε, adopting PST")
    for name, points, metric in (
        ("22 atoms, equal weights", frames, RMSD()),
        ("22 atoms, masses", frames, RMSD(weights=molecule.masses)),
        ("10 heavy atoms, equal", frames[:, heavy], RMSD()),
    ):
        model = LandmarkDiffusionMap(2, "connected", metric, landmarks="pst").fit(points)
        exact = DiffusionMap(3, model.epsilon_, metric).fit(points)
        error = nrmse(exact.embedding_[:, :2], model.embedding_)
        values = ", ".join(f"{value:.3f}" for value in exact.spectrum_)
        print(
            f"  {name:<24} ε = {model.epsilon_:.2e} nm²  λ2–λ5 = {values}  "
            f"M = {len(model.landmark_indices_):5,}  Z = {error:.2f} %"
        )


def medoid_distances() -> None:
    """Count the distances to landmarks that k-medoids take, in units of N·M."""

    def counted(selector: KMedoids, points: Points, metric: Metric) -> int:
        pairs = []

        def counting(metric: Metric, a: Points, b: Points, n_threads: int | None = None) -> Any:
            pairs.append(len(a) * len(b))
            return nearest(metric, a, b, n_threads)

        with patch.object(base, "nearest", counting), patch.object(k_medoids, "nearest", counting):
            walk = Walk(metric, points, np.ones(len(points)), 1.0)
            selector.select(walk, np.random.default_rng(0))
        return sum(pairs)

    molecule = alanine_dipeptide()
    print("K-medoids, N = 20,000, M = 400: distances between points and landmarks, seeding left out")
    for name, data, metric in (
        ("Swiss roll", swiss_roll(20_000).points, Euclidean()),
        ("alanine dipeptide", molecule.frames[:20_000], RMSD(weights=molecule.masses)),
    ):
        points = metric.prepare(data)
        # Without iterations: the seeds' distances, and one pass.
        later = counted(KMedoids(400), points, metric) - counted(KMedoids(400, max_iter=0), points, metric)
        print(f"  {name:<18} {1 + later / (len(points) * 400):.1f}·N·M", flush=True)


if __name__ == "__main__":
    medoid_distances()
    atoms_and_weights()
