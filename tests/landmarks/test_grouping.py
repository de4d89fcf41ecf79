"""Grouped landmarks are the same landmarks, with neighbours in the same block."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.datasets import swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks import Uniform
from ldmaps.landmarks.base import group_neighbours, neighbour_order
from ldmaps.metrics import Euclidean
from ldmaps.metrics.base import squared_matrix


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 128, 200, 1000])
def test_order_is_a_permutation(n):
    X = np.random.default_rng(n).normal(size=(n, 2))
    squared = Euclidean().pairwise(X) ** 2
    np.testing.assert_array_equal(np.sort(neighbour_order(squared, 64)), np.arange(n))


def test_coinciding_points_are_no_trouble():
    np.testing.assert_array_equal(np.sort(neighbour_order(np.zeros((300, 300)), 64)), np.arange(300))


def test_blocks_hold_neighbours():
    X = np.random.default_rng(0).uniform(size=(1024, 2))
    squared = Euclidean().pairwise(X) ** 2
    order = neighbour_order(squared, 64)

    def width(order: np.ndarray) -> float:
        return float(np.mean([squared[np.ix_(part, part)].mean() for part in np.split(order, 16)]))

    assert width(order) < 0.15 * width(np.arange(1024))


def test_cells_stay_with_their_landmarks():
    points = Euclidean().prepare(swiss_roll(2000, random_state=0).points)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 2000)
    walk = Walk(Euclidean(), points, weights, 1.0)
    landmarks = Uniform(300).select(walk, np.random.default_rng(0))
    grouped, squared = group_neighbours(landmarks, walk)
    assert set(grouped.indices) == set(landmarks.indices)
    np.testing.assert_array_equal(
        grouped.indices[grouped.assignment], landmarks.indices[landmarks.assignment]
    )
    by_index = dict(zip(landmarks.indices, landmarks.multiplicities, strict=True))
    assert [by_index[index] for index in grouped.indices] == list(grouped.multiplicities)
    assert not np.array_equal(grouped.indices, landmarks.indices)
    np.testing.assert_allclose(squared, squared_matrix(Euclidean(), points.take(grouped.indices)), rtol=1e-12)
