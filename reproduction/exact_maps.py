"""Exact maps, reduced to their eigenpairs as soon as they are solved.

Eigenpairs are all that Nyström, distilling and the expansions need, so the N×N kernel
lives for one piece only.
"""

from __future__ import annotations

import time

import numpy as np

from ldmaps import DiffusionMap
from ldmaps.diffusion.spectrum import Spectrum
from ldmaps.diffusion.walk import Walk
from ldmaps.fit.solve import SolvedMap
from ldmaps.metrics.base import Points
from reproduction.laboratory import Laboratory
from reproduction.pieces import Arrays, Piece
from reproduction.plan import CONNECTED

__all__ = ["make_exact", "solved_map"]

#: Eigenvalues kept of every exact map, to show the gap (or its absence) behind the k-th.
SHOWN_EIGENVALUES = 6


def make_exact(lab: Laboratory, piece: Piece) -> Arrays:
    """Solve the exact map of a fold's training points, and extend it to the test points."""
    plan, data, width = lab.plan.of(piece["data"]), lab.data(piece), lab.width(piece)
    train, test = lab.split(piece)
    rule: float | str = "connected" if width == CONNECTED else lab.epsilon(piece)
    n_modes = piece["n_modes"]
    start = time.perf_counter()
    # The estimator solves for one eigenvalue more than it keeps.
    model = DiffusionMap(
        max(n_modes, SHOWN_EIGENVALUES - 1),
        rule,
        data.metric,
        solver="sparse" if width in plan.sparse_widths else "stored",
        n_threads=lab.n_threads,
    )
    model.fit(data.points[train])
    seconds = time.perf_counter() - start
    return {
        "epsilon": np.array(model.epsilon_),
        "eigenvalues": model.eigenvalues_[:n_modes],
        "spectrum": model.spectrum_[:SHOWN_EIGENVALUES],
        "train": model.embedding_[:, :n_modes],
        "test": model.transform(data.points[test])[:, : plan.n_components],
        "seconds": np.array(seconds),
    }


def solved_map(lab: Laboratory, piece: Piece, points: Points) -> SolvedMap:
    """Return the exact map of a fold's training points in its k coordinates, without solving it again."""
    exact, k = lab.exact_of(piece), lab.n_components(piece)
    ones, zeros = np.ones(len(points)), np.zeros(len(points))
    walk = Walk(lab.data(piece).metric, points, ones, float(exact["epsilon"]), n_threads=lab.n_threads)
    # Degrees serve only to leave points out, which nobody does here.
    spectrum = Spectrum(exact["eigenvalues"][:k], exact["train"][:, :k].astype(np.float64), ones, ones)
    return SolvedMap(walk, np.arange(len(points)), points, ones, zeros, spectrum)
