"""Changes of eigenvectors under other weights against finite differences, and the draws of such weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from ldmaps.quality.sampling_noise import N_DRAWS, SampledWalk, draw_disturbances, first_order_changes

POINTS = np.random.default_rng(0).normal(size=(120, 2)) * [2.0, 1.0]


def kernel(epsilon):
    return np.exp(-cdist(POINTS, POINTS, "sqeuclidean") / (2 * epsilon))


def solved(A, weights, alpha, n_modes):
    """The walk over weighted points by a dense eigensolver."""
    source = weights * (A @ weights) ** -alpha
    degrees = A @ source
    root = np.sqrt(source * degrees)
    values, vectors = eigh(np.sqrt(np.outer(source, source) / np.outer(degrees, degrees)) * A)
    stationary = source * degrees / (source @ degrees)
    modes = vectors[:, ::-1] / root[:, None] * np.sqrt(source @ degrees)
    return SampledWalk(
        lambda s, f: (A @ s, (A @ (s[:, None] * f)) / (A @ s)[:, None]),
        weights,
        source,
        alpha,
        stationary,
        modes[:, :n_modes],
        values[::-1][:n_modes],
    )


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize(("epsilon", "n_modes"), [(0.3, 120), (20.0, 12)])
def test_changes_are_the_derivative_by_the_weights(alpha, epsilon, n_modes):
    """With all modes, and with few where the others' eigenvalues are next to 0."""
    rng = np.random.default_rng(1)
    A, weights, eta = kernel(epsilon), rng.uniform(0.5, 2.0, 120), rng.normal(size=(120, 3))
    walk = solved(A, weights, alpha, n_modes)
    found = first_order_changes(walk, 2, eta)
    psi = walk.modes[:, 1:3]
    squares = weights @ psi**2
    for draw, change in enumerate(found):
        ends = []
        for step in (1e-5, -1e-5):
            moved = weights * (1 + step * eta[:, draw])
            other = solved(A, moved, alpha, 120).modes[:, 1:3]
            other = other * np.sign((other * psi).sum(axis=0)) * np.sqrt(squares / (moved @ other**2))
            ends.append(other)
        expected = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(change, expected, atol=2e-4 * np.abs(expected).max())


def test_every_cell_keeps_its_weight_and_no_point_varies_less_than_it_would_alone():
    rng = np.random.default_rng(2)
    cells = np.repeat(np.arange(3000), rng.integers(2, 6, 3000))
    weights = np.ones(len(cells))
    eta = draw_disturbances(weights, cells, np.random.default_rng(3))
    assert eta.shape == (len(cells), N_DRAWS)
    for column in eta.T:
        np.testing.assert_allclose(np.bincount(cells, weights=weights * column), 0.0, atol=1e-12)
    counts = np.bincount(cells)[cells]
    for count in (2, 5):
        assert np.mean(eta[counts == count] ** 2) == pytest.approx(1.0, abs=0.05)


def test_weights_count():
    weights = np.array([1.0, 3.0, 2.0, 5.0])
    eta = draw_disturbances(weights, np.array([0, 0, 1, 1]), np.random.default_rng(0))
    np.testing.assert_allclose(eta[:2].T @ weights[:2], 0.0, atol=1e-12)
    np.testing.assert_allclose(eta[2:].T @ weights[2:], 0.0, atol=1e-12)


@pytest.mark.parametrize("cells", [[0, 1, 2], [0, 0, 1], [0, 1, 1, 2], [3, 5], [2]])
def test_points_that_stand_for_cells_alone_share_their_neighbours_weight(cells):
    eta = draw_disturbances(np.ones(len(cells)), np.array(cells), np.random.default_rng(0))
    np.testing.assert_allclose(eta.sum(axis=0), 0.0, atol=1e-12)
    if len(cells) > 1:
        assert (np.abs(eta).max(axis=1) > 0).all()
