"""Modes that are functions of others, against a naive local regression and functions that are known."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.validation.harmonics import HARMONIC, NEIGHBOURS, STEADY, find_harmonics
from ldmaps.validation.states import States


def in_one_state(n):
    return States(1, np.zeros(n, dtype=np.intp))


def followed(modes, weights, states=None):
    """Which modes each is a function of."""
    states = in_one_state(len(modes)) if states is None else states
    return [np.flatnonzero(row).tolist() for row in find_harmonics(modes, weights, states)[1]]


def naive_r2(predictors, values, weights, labels, n_neighbours):
    """One weighted least squares per point, without it, among the points of its state."""
    n, d = predictors.shape
    predicted, centred, ranks = np.zeros(n), np.empty(n), np.empty((n, d))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        mass = weights[members]
        centred[members] = values[members] - np.average(values[members], weights=mass)
        for i in members:
            below = predictors[members] < predictors[i]
            ranks[i] = (mass @ below + 0.5 * weights[i]) / mass.sum()
    for i in range(n):
        others = np.array([j for j in range(n) if j != i and labels[j] == labels[i]])
        squared = ((ranks[others] - ranks[i]) ** 2).sum(axis=1)
        near = others[np.argsort(squared)][: max(NEIGHBOURS)]
        squared = np.sort(squared)[: max(NEIGHBOURS)]
        reach = squared[n_neighbours - 1]
        closeness = np.exp(-2 * squared / reach) * weights[near]
        design = np.column_stack([np.ones(len(near)), ranks[near] - ranks[i]])
        flat = np.diag([0.0] + [STEADY * closeness.sum() * reach] * d)
        moments = design.T @ (closeness[:, None] * design) + flat
        predicted[i] = np.linalg.solve(moments, design.T @ (closeness * centred[near]))[0]
    return 1 - weights @ (centred - predicted) ** 2 / (weights @ centred**2)


@pytest.mark.parametrize(("noise", "is_harmonic"), [(0.02, True), (0.5, False)])
def test_r2_is_that_of_one_regression_per_point_at_the_best_number_of_neighbours(noise, is_harmonic):
    """Of harmonics and other modes, though most other modes are given up before all landmarks are asked."""
    rng = np.random.default_rng(0)
    X, weights, labels = rng.normal(size=(190, 2)), rng.uniform(0.2, 5.0, 190), np.repeat([0, 1], [110, 80])
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + noise * rng.normal(size=190) + 5 * labels
    expected = max(naive_r2(X, y, weights, labels, count) for count in NEIGHBOURS)
    assert (expected >= HARMONIC) == is_harmonic
    r2, follows = find_harmonics(np.column_stack([X, y]), weights, States(2, labels))
    assert r2[2] == pytest.approx(expected, abs=1e-6)
    assert follows[2].tolist() == [is_harmonic, is_harmonic, False]


def test_noise_is_not_predicted():
    r2, _ = find_harmonics(np.random.default_rng(1).normal(size=(300, 2)), np.ones(300), in_one_state(300))
    assert r2[1] < 0.05


def test_hermite_polynomials_of_a_plane_are_harmonics_of_its_axes():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 400))
    modes = np.column_stack([x, x**2 - 1, y, x * y, x**3 - 3 * x, rng.normal(size=400)])
    r2, _ = find_harmonics(modes, np.ones(400), in_one_state(400))
    assert followed(modes, np.ones(400)) == [[], [0], [], [0, 2], [0], []]
    assert r2[[1, 4]].min() > 0.96
    assert r2[3] >= HARMONIC
    assert r2[[0, 2, 5]].max() < 0.2


def test_a_circle_has_two_coordinates_and_then_harmonics():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 700)
    waves = np.column_stack([f(m * angle) for m in (1, 2, 3) for f in (np.cos, np.sin)])
    follows = followed(waves, np.ones(700))
    assert follows[:2] == [[], []]
    assert follows[2] in ([0], [1])  # cos 2t is 2 cos² t - 1 and 1 - 2 sin² t
    assert all(follows[2:])


@pytest.mark.parametrize("order", [2, 5, 9])
def test_all_harmonics_of_an_interval_are_found(order):
    position = np.sort(np.random.default_rng(order).uniform(0, 1, 400))
    waves = np.column_stack([np.cos(np.pi * position), np.cos(np.pi * order * position)])
    assert followed(waves, np.ones(400)) == [[], [0]]


def test_landmarks_of_no_weight_to_speak_of_do_not_decide():
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    bent = np.column_stack([x, x**2])
    bent[:30, 1] = rng.normal(size=30) * 20
    weights = np.ones(300)
    assert followed(bent, weights) == [[], []]
    weights[:30] = 1e-9
    assert followed(bent, weights) == [[], [0]]


def test_what_tells_states_apart_is_never_a_harmonic():
    """Of three states, the first mode takes three values, so that the second is a function of it."""
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, 300)
    values = np.array([[-1.0, 0.4], [0.2, -0.9], [1.1, 0.6]])
    modes = values[labels] + 1e-3 * rng.normal(size=(300, 2))
    assert followed(modes, np.ones(300)) == [[], [0]]  # as if there were no states
    assert followed(modes, np.ones(300), States(3, labels)) == [[], []]


def test_a_harmonic_within_states_is_found_on_their_plateaus():
    """ψ₂ of a double well hardly changes within a well, but its order there is that of the position."""
    position = np.random.default_rng(5).uniform(-1, 1, 400)
    labels = (position > 0).astype(np.intp)
    first = np.sign(position) + 1e-6 * np.sin(np.pi * (np.abs(position) - 0.5)) * np.sign(position)
    modes = np.column_stack([first, np.cos(2 * np.pi * position), np.random.default_rng(6).normal(size=400)])
    assert followed(modes, np.ones(400), States(2, labels)) == [[], [0], []]


def test_states_of_a_landmark_or_two_predict_nothing():
    labels = np.array([0, 0, 1] + [2] * 60)
    modes = np.random.default_rng(7).normal(size=(63, 3))
    modes[:, 1] = labels
    r2, _ = find_harmonics(modes, np.ones(63), States(3, labels))
    assert np.isfinite(r2).all()
