"""Metastable states of known walks: how many, and which points are in which."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.validation.resampling import fitted_modes
from ldmaps.validation.states import corners_of, find_states, nearest_corners, shares_between


def states_of(points, epsilon, n_modes=11):
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    modes = fitted_modes(np.exp(-squared / (2 * epsilon)), np.ones(len(points)))
    return find_states(modes.eigenvalues[1:], modes.vectors[:, 1 : n_modes + 1], np.ones(len(points)))


def wells_on_a_ring(count, n, seed, barrier=5.0):
    rng = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, 4001)
    sums = np.cumsum(np.exp(0.5 * barrier * np.cos(count * angles)))
    angle = np.interp(rng.uniform(0, sums[-1], n), sums, angles)
    radius = 0.4 * count + 1.0 + 0.15 * rng.normal(size=n)
    well = np.round(angle / (2 * np.pi) * count).astype(int) % count
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), well


@pytest.mark.parametrize("count", range(2, 9))
def test_wells_are_counted_and_told_apart(count):
    points, well = wells_on_a_ring(count, 500, seed=count)
    found = states_of(points, 0.1)
    assert found.count == count
    for label in range(count):
        shares = np.bincount(well[found.labels == label]) / (found.labels == label).sum()
        assert shares.max() > 0.97


def test_states_within_states_are_counted():
    """Two pairs of blobs, far apart: the slowest mode by far tells the pairs apart."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [12.0, 0.0], [15.0, 0.0]])
    points = centres[rng.integers(0, 4, 500)] + 0.4 * rng.normal(size=(500, 2))
    assert states_of(points, 2.0).count == 4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "shape",
    [
        lambda rng: rng.uniform(size=(400, 1)),
        lambda rng: rng.normal(size=(400, 1)),
        lambda rng: rng.uniform(size=(400, 2)) * [3.7, 1.0],
        lambda rng: rng.normal(size=(400, 3)),
        lambda rng: (lambda t: np.column_stack([np.cos(t), np.sin(t)]))(rng.uniform(0, 2 * np.pi, 400)),
    ],
    ids=["interval", "normal", "rectangle", "cloud", "circle"],
)
def test_what_is_connected_smoothly_has_no_states(shape, seed):
    points = shape(np.random.default_rng(seed))
    assert states_of(points, 0.1 * points.var(axis=0).sum()).count == 1


def test_an_interval_cut_in_two_is_one_state():
    """Its modes relax four times as fast as the one before, and more, but are constant nowhere."""
    place, order = np.linspace(0.0, 1.0, 200), np.arange(1, 6)
    found = find_states(np.exp(-0.001 * order**2), np.cos(np.pi * place[:, None] * order), np.ones(200))
    assert found.count == 1


@pytest.mark.parametrize(("faster", "count"), [(3.9, 1), (4.1, 2)])
def test_states_relax_four_times_faster_within(faster, count):
    rng = np.random.default_rng(6)
    modes = np.column_stack([np.repeat([1.0, -1.0], 100), rng.normal(size=(200, 3))])
    assert (
        find_states(np.exp(-0.01 * np.array([1.0, faster, 30.0, 30.0])), modes, np.ones(200)).count == count
    )


def test_a_group_on_a_barrier_needs_twenty_points_and_one_apart_eleven():
    rng = np.random.default_rng(7)
    for eigenvalue, n_points, count in ((0.99, 15, 1), (0.99, 20, 2), (0.99999, 15, 2), (0.99999, 9, 1)):
        modes = np.column_stack([np.arange(1000) < n_points, rng.normal(size=1000)]).astype(float)
        assert find_states(np.array([eigenvalue, 0.5]), modes, np.ones(1000)).count == count


@pytest.mark.parametrize(("n_points", "count"), [(6, 1), (7, 2)])
def test_of_few_points_a_state_has_more_than_three_percent(n_points, count):
    modes = np.column_stack([np.arange(200) < n_points, np.random.default_rng(8).normal(size=200)]).astype(
        float
    )
    assert find_states(np.array([0.99, 0.5]), modes, np.ones(200)).count == count


@pytest.mark.parametrize(("share", "count"), [(0.86, 1), (0.88, 2)])
def test_modes_that_tell_states_apart_vary_between_them(share, count):
    within = np.sqrt(1 / share - 1) * np.tile([1.0, -1.0], 100)
    modes = np.column_stack([np.repeat([1.0, -1.0], 100) + within, np.random.default_rng(9).normal(size=200)])
    assert shares_between(modes[:, :1], np.ones(200), np.repeat([0, 1], 100)) == pytest.approx(share)
    assert find_states(np.array([0.99, 0.5]), modes, np.ones(200)).count == count


def test_every_mode_that_tells_states_apart_varies_between_them():
    """Not the first one alone: three groups by a second mode that varies as much within two of them."""
    rng = np.random.default_rng(10)
    modes = np.column_stack([np.repeat([1.0, -1.0], 100), rng.normal(size=(200, 2))])
    assert find_states(np.array([0.99, 0.98, 0.5]), modes, np.ones(200)).count == 1


def test_what_hardly_relaxes_is_not_told_from_what_never_does():
    rng = np.random.default_rng(11)
    modes = np.column_stack([np.repeat([1.0, -1.0], 100), rng.normal(size=200)])
    assert find_states(1 - np.array([1e-10, 1e-9]), modes, np.ones(200)).count == 1
    assert find_states(1 - np.array([1e-7, 1e-6]), modes, np.ones(200)).count == 2


def test_eigenvalues_of_one_are_states():
    """Groups without any transition, in a basis that is any rotation of what tells them apart."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2, 3], [200, 100, 40, 20])
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    modes = np.column_stack([turn[labels][:, :3], rng.normal(size=360)])
    found = find_states(np.array([1.0, 1.0, 1.0, 0.95]), modes, np.ones(360))
    assert found.count == 4
    assert len({tuple(pair) for pair in zip(labels, found.labels, strict=True)}) == 4


def test_shares_between_are_those_of_an_analysis_of_variance():
    rng = np.random.default_rng(2)
    labels, weights, modes = rng.integers(0, 3, 50), rng.uniform(0.1, 2.0, 50), rng.normal(size=(50, 2))
    modes[:, 0] += labels
    expected = []
    for mode in modes.T:
        centre = np.average(mode, weights=weights)
        within = sum(
            weights[labels == label]
            @ (mode[labels == label] - np.average(mode[labels == label], weights=weights[labels == label]))
            ** 2
            for label in range(3)
        )
        expected.append(1 - within / (weights @ (mode - centre) ** 2))
    np.testing.assert_allclose(shares_between(modes, weights, labels), expected)


def test_corners_are_the_outermost_points_and_none_where_points_span_less():
    triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.3, 0.3], [0.1, 0.2]])
    assert sorted(corners_of(triangle)) == [0, 1, 2]
    assert corners_of(np.zeros((4, 2))) is None


def test_a_point_belongs_to_the_corner_that_it_has_most_of():
    """0.4 of the first and 0.3 of each other, which are nearer to it; in any unit of either mode."""
    corners = np.array([[0.0, 0.0], [1.0, 0.9], [0.9, 1.0]])
    points = np.vstack([corners, np.array([0.4, 0.3, 0.3]) @ corners])
    for unit in (1.0, 1e-3):
        assert nearest_corners(points * [1.0, unit])[3] == nearest_corners(points * [1.0, unit])[0]


def test_an_outlier_is_not_a_state():
    rng = np.random.default_rng(3)
    modes = np.column_stack([np.arange(300) == 7, rng.normal(size=300)]).astype(float)
    assert find_states(np.array([0.99, 0.5]), modes, np.ones(300)).count == 1
    modes[:, 0] = np.arange(300) < 20
    assert find_states(np.array([0.99, 0.5]), modes, np.ones(300)).count == 2
