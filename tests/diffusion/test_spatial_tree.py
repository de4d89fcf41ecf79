"""Shortcuts through a spatial tree give what the row-by-row routines give."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.datasets import swiss_roll
from ldmaps.diffusion import solver_choice, spatial_tree, walk
from ldmaps.diffusion.solver_choice import sparse_squares
from ldmaps.diffusion.walk import Walk, minimum_spanning_tree
from ldmaps.landmarks import PrunedSpanningTree
from ldmaps.metrics import Euclidean, Periodic
from ldmaps.metrics.base import squared_matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adopting_growth_covers_and_connects(dtype, monkeypatch):
    monkeypatch.setattr(spatial_tree, "MIN_POINTS", 2)
    points = Euclidean().prepare(swiss_roll(3000, random_state=2).points.astype(dtype))
    epsilon = minimum_spanning_tree(Euclidean(), points).connecting_epsilon
    for seed in range(3):
        chosen = PrunedSpanningTree().select(
            Walk(Euclidean(), points, np.ones(3000), epsilon), np.random.default_rng(seed)
        )
        assert chosen.squared_distances.max() <= epsilon * (1 + 1e-6)
        landmarks = points.take(chosen.indices)
        squared = squared_matrix(Euclidean(), landmarks)
        assert walk.is_connected(squared, epsilon * (1 + 1e-6))


def test_trees_serve_only_plain_distances_of_few_features_and_many_points():
    many = np.random.default_rng(0).normal(size=(5000, 3))
    assert spatial_tree.raw_values(Euclidean(), Euclidean().prepare(many)) is not None
    assert spatial_tree.raw_values(Euclidean(), Euclidean().prepare(many[:100])) is None
    assert spatial_tree.raw_values(Euclidean(), Euclidean().prepare(np.tile(many, 4))) is None
    assert spatial_tree.raw_values(Periodic(), Periodic().prepare(many)) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_near_pairs_are_those_of_all_distances(monkeypatch, dtype, n_threads):
    X = swiss_roll(5000, random_state=2).points.astype(dtype)
    X[100:110] = X[200]  # copies: distances of zero are stored
    metric = Euclidean()
    points = metric.prepare(X)
    found = sparse_squares(metric, points, 0.05, n_threads)
    monkeypatch.setattr(solver_choice, "raw_values", lambda metric, points: None)
    rows = sparse_squares(metric, points, 0.05, n_threads)
    assert found.nnz < 0.03 * 5000**2, "too many pairs for a tree"
    assert (found.indices.dtype, found.data.dtype) == (rows.indices.dtype, rows.data.dtype)
    # Rounding decides which pairs at the cutoff are in; the others are the same.
    off = found.tocoo()
    assert abs(found.nnz - rows.nnz) < 1e-4 * rows.nnz
    assert not (found != found.T).nnz
    assert ((off.row == off.col).sum()) == 5000
    difference = abs(found - rows)
    cutoff = rows.data.max()
    assert difference.data[difference.data < 0.9 * cutoff].max(initial=0.0) < 1e-5 * cutoff
