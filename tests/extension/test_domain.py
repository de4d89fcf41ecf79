"""How far points are beyond the domain, against the formula of the module."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.extension import Embedder, OnlineStep
from ldmaps.extension.domain import SOFTNESS, excess_with_gradient
from ldmaps.metrics import Euclidean

EPSILON = 0.5


@pytest.fixture
def embedder():
    rng = np.random.default_rng(2)
    landmarks = Euclidean().prepare(rng.normal(size=(6, 2)), np.float64)
    step = OnlineStep(coefficients=rng.normal(size=(6, 2)), source_weights=np.ones(6), bandwidth=EPSILON)
    return Embedder.build(Euclidean(), landmarks, EPSILON, step, rng.uniform(0.2, 1.5, 6))


def naive(embedder, X):
    squared = ((X[:, None] - embedder.landmarks.values[None]) ** 2).sum(axis=2)
    rate = 0.5 / (SOFTNESS * EPSILON)
    smooth = -np.log(np.exp(-rate * (squared - embedder.squared_radii)).sum(axis=1)) / rate
    return np.sqrt(np.maximum(smooth, 0.0) + EPSILON) - np.sqrt(EPSILON)


def test_the_formula_inside_at_the_border_and_outside(embedder):
    X = np.random.default_rng(3).uniform(-4, 4, (400, 2))
    expected = naive(embedder, X)
    assert 20 < np.count_nonzero(expected == 0) < 380
    assert np.count_nonzero((expected > 0) & (expected < 0.1)) > 3
    excess, gradient = excess_with_gradient(embedder, X)
    np.testing.assert_allclose(excess, expected, rtol=0, atol=1e-12)
    h = 1e-6
    slopes = [(naive(embedder, X + h * axis) - naive(embedder, X - h * axis)) / (2 * h) for axis in np.eye(2)]
    np.testing.assert_allclose(gradient, np.transpose(slopes), rtol=0, atol=1e-4)


def test_points_together_are_as_points_alone(embedder):
    X = np.random.default_rng(3).uniform(-4, 4, (60, 2))
    together = excess_with_gradient(embedder, X)
    alone = [excess_with_gradient(embedder, x[None]) for x in X]
    for position in range(2):
        np.testing.assert_allclose(
            np.concatenate([one[position] for one in alone]), together[position], rtol=0, atol=1e-15
        )
