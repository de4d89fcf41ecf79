"""Coordinates that are functions of others, against a naive local regression and functions that are known."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.quality.sampling import HARMONIC, WIDTHS, find_harmonics, held_out_r2


def naive_r2(X, y, weights, width):
    """One weighted least squares per point, without it."""
    mean = np.average(X, axis=0, weights=weights)
    Z = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    predicted = np.empty(len(y))
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        near = (np.exp(-((Z - Z[i]) ** 2).sum(axis=1) / (2 * width**2)) * weights + 1e-9 * weights)[others]
        root = np.sqrt(near)[:, None]
        design = np.column_stack([np.ones(len(y) - 1), Z[others]])
        slopes = np.linalg.lstsq(root * design, root[:, 0] * y[others], rcond=None)[0]
        predicted[i] = slopes @ np.concatenate([[1.0], Z[i]])
    residual = np.average((y - predicted) ** 2, weights=weights)
    return 1 - residual / np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)


def followed(modes, weights):
    """Which modes each is a function of."""
    return [np.flatnonzero(row).tolist() for row in find_harmonics(modes, weights)[1]]


def test_r2_is_that_of_one_regression_per_point_at_the_best_width():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(80, 2)), rng.uniform(0.2, 5.0, 80)
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.normal(size=80)
    expected = max(naive_r2(X, y, weights, width) for width in WIDTHS)
    assert held_out_r2(X, y, weights) == pytest.approx(expected, abs=1e-4)
    assert held_out_r2(X, y, np.ones(80)) != pytest.approx(expected, abs=1e-3)


def test_noise_is_not_predicted():
    rng = np.random.default_rng(1)
    assert held_out_r2(rng.normal(size=(300, 1)), rng.normal(size=300), np.ones(300)) < 0.05


def test_hermite_polynomials_of_a_plane_are_harmonics_of_its_axes():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 400))
    coordinates = np.column_stack([x, x**2 - 1, y, x * y, x**3 - 3 * x, rng.normal(size=400)])
    r2, _ = find_harmonics(coordinates, np.ones(400))
    assert followed(coordinates, np.ones(400)) == [[], [0], [], [0, 2], [0], []]
    assert r2[[1, 4]].min() > 0.96
    assert r2[3] >= HARMONIC
    assert r2[[0, 2, 5]].max() < 0.2


def test_a_circle_has_two_coordinates_and_then_harmonics():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 700)
    waves = np.column_stack([f(m * angle) for m in (1, 2) for f in (np.cos, np.sin)])
    follows = followed(waves, np.ones(700))
    assert follows[:2] == [[], []]
    assert follows[2] in ([0], [1])  # cos 2t is 2 cos² t - 1 and 1 - 2 sin² t
    assert follows[3] == [0, 1]


def test_landmarks_of_no_weight_to_speak_of_do_not_decide():
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    bent = np.column_stack([x, x**2])
    bent[:30, 1] = rng.normal(size=30) * 20
    weights = np.ones(300)
    assert followed(bent, weights) == [[], []]
    weights[:30] = 1e-9
    assert followed(bent, weights) == [[], [0]]
