"""Embedding by a few landmarks, points side by side, against the equation and against itself cut otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import kernels as loaded
from ldmaps.diffusion.pairwise import extend
from ldmaps.metrics import RMSD

RATE = 0.7


def made_up(n, n_landmarks, k, dtype):
    rng = np.random.default_rng(3)
    squared = rng.uniform(0, 20, (n, n_landmarks)).astype(dtype)
    weights = rng.uniform(0.1, 1.0, n_landmarks).astype(dtype)
    return squared, weights, rng.normal(size=(k, n_landmarks)).astype(dtype)


def embed(kernels, squared, weights, coefficients):
    n, dtype = len(squared), squared.dtype
    coordinates, nearest = np.empty((n, len(coefficients)), dtype), np.empty(n, np.intp)
    lowest = np.empty(n, dtype)
    kernels.extend(squared.copy(), dtype.type(RATE), weights, coefficients, coordinates, nearest, lowest)
    return coordinates, nearest, lowest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_landmarks", [1, 2, 3, 8, loaded.FEW])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 50])
def test_the_equation(kernels, n, n_landmarks, dtype):
    squared, weights, coefficients = made_up(n, n_landmarks, 3, dtype)
    coordinates, nearest, lowest = embed(kernels, squared, weights, coefficients)
    shares = np.exp(-RATE * squared.astype(np.float64)) * weights
    expected = (shares / shares.sum(axis=1, keepdims=True)) @ coefficients.T
    np.testing.assert_allclose(coordinates, expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-13)
    np.testing.assert_array_equal(nearest, squared.argmin(axis=1))
    np.testing.assert_array_equal(lowest, squared.min(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_point_does_not_depend_on_those_beside_it(kernels, dtype):
    squared, weights, coefficients = made_up(37, 5, 2, dtype)
    whole = embed(kernels, squared, weights, coefficients)
    for size in (1, 3, 16):
        parts = [
            embed(kernels, squared[start : start + size], weights, coefficients)
            for start in range(0, 37, size)
        ]
        for position, expected in enumerate(whole):
            np.testing.assert_array_equal(np.concatenate([part[position] for part in parts]), expected)


def test_ties_go_to_the_first_and_far_points_are_no_division_by_zero(kernels):
    squared = np.array([[4.0, 1.0, 1.0], [1e9, 2e9, 3e9]])
    coordinates, nearest, _ = embed(kernels, squared, np.ones(3), np.array([[1.0, 2.0, 3.0]]))
    assert nearest.tolist() == [1, 0]
    assert coordinates[1, 0] == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_landmarks", [1, 3, 7])
def test_frames_are_exchanged_with_a_few_landmarks_to_the_bit(n_landmarks, dtype):
    rng = np.random.default_rng(5)
    frames = rng.normal(size=(9, 3)) + 0.3 * rng.normal(size=(60, 9, 3))
    metric = RMSD()
    points, landmarks = metric.prepare(frames, dtype), metric.prepare(frames[:n_landmarks] + 0.1, dtype)
    together, alone = np.empty((60, n_landmarks), dtype), np.empty((60, n_landmarks), dtype)
    columns = slice(0, n_landmarks)
    metric.squared_block(points, slice(0, 60), landmarks, columns, together)
    for row in range(60):
        metric.squared_block(points, slice(row, row + 1), landmarks, columns, alone[row : row + 1])
    np.testing.assert_array_equal(together, alone)


def test_both_loops_agree_where_one_takes_over():
    rng = np.random.default_rng(6)
    n_frames = loaded.FEW + 1
    frames = rng.normal(size=(6, 3)) + 0.3 * rng.normal(size=(n_frames, 6, 3))
    metric = RMSD()
    points = metric.prepare(frames)
    for count in (loaded.FEW, loaded.FEW + 1):
        landmarks = points.take(np.arange(count))
        weights, coefficients = np.ones(count), rng.normal(size=(2, count))
        squared = np.empty((n_frames, count))
        metric.squared_block(points, slice(0, n_frames), landmarks, slice(0, count), squared)
        shares = np.exp(-squared / 0.4)
        expected = (shares / shares.sum(axis=1, keepdims=True)) @ coefficients.T
        found = extend(metric, points, landmarks, 0.2, weights, coefficients).coordinates
        np.testing.assert_allclose(found, expected, atol=1e-13)
