"""The three data sets, in the order of the folds' permutation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.metrics import RMSD, Euclidean, Metric

__all__ = ["DataSet", "load_data"]


@dataclass(frozen=True)
class DataSet:
    """Points, how to measure distances between them, and the permutation that is cut into folds."""

    points: NDArray[Any]
    metric: Metric
    order: NDArray[np.intp]
    #: Position along the Swiss roll's spiral; empty for molecules.
    position: NDArray[np.float64]


@lru_cache(maxsize=2)
def load_data(key: str, variant: str, n_points: int, stride: int, seed: int) -> DataSet:
    """Load a data set; ``variant`` says which atoms count and how much."""
    order = np.random.default_rng(seed).permutation(n_points)
    if key == "swiss_roll":
        roll = swiss_roll(n_points, random_state=seed)
        return DataSet(roll.points, Euclidean(), order, roll.position)
    molecule = c24h50(stride=stride) if key == "c24h50" else alanine_dipeptide(stride=stride)
    frames = molecule.frames[:n_points]
    if variant == "heavy":
        frames = np.ascontiguousarray(frames[:, molecule.heavy_atoms])
    metric = RMSD(weights=molecule.masses) if variant == "masses" else RMSD()
    return DataSet(frames, metric, order, np.empty(0))
