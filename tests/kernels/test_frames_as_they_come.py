"""Frames measured as they come, against naive superposition and against themselves cut otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.metrics import RMSD
from ldmaps.metrics.rmsd_frames import resolve_atoms

RATE = 0.7
SIZES = [(1, 2), (3, 4), (4, 22), (8, 64), (16, 65), (17, 7), (70, 130)]


def made_up(n_landmarks, n_atoms, given, dtype, weights=None):
    rng = np.random.default_rng([n_landmarks, n_atoms])
    centre = rng.normal(size=(n_atoms, 3))
    Z, X = (centre + 0.4 * rng.normal(size=(n, n_atoms, 3)) for n in (n_landmarks, 37))
    landmarks = RMSD(weights).prepare(Z.astype(given), dtype)
    atoms = resolve_atoms(weights, None, n_atoms)
    return X.astype(given), Z, (atoms.kept, atoms.root_weights, landmarks.panels, landmarks.moments)


def squares_of(kernels, X, left, n_landmarks, dtype):
    squared = np.empty((len(X), n_landmarks), dtype)
    assert kernels.rmsd_squares(np.ascontiguousarray(X), *left, squared)
    return squared


def online_of(n_landmarks, dtype):
    rng = np.random.default_rng(n_landmarks)
    return (
        dtype(RATE),
        rng.uniform(0.5, 1.0, n_landmarks).astype(dtype),
        rng.normal(size=(2, n_landmarks)).astype(dtype),
    )


def naive(X, Z, weights):
    weights = weights / weights.sum()
    squared = np.empty((len(X), len(Z)))
    for i, x in enumerate(X.astype(np.float64)):
        for j, z in enumerate(Z):
            a, b = x - weights @ x, z - weights @ z
            u, s, vt = np.linalg.svd((weights[:, None] * a).T @ b)
            s[2] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))
            squared[i, j] = max(0.0, (weights[:, None] * (a**2 + b**2)).sum() - 2 * s.sum())
    return squared


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_landmarks", "n_atoms"), SIZES)
def test_naive_superposition(kernels, n_landmarks, n_atoms, dtype):
    weights = np.random.default_rng(n_atoms).uniform(0.5, 2.0, n_atoms)
    weights[1:-1:5] = 0.0
    X, Z, left = made_up(n_landmarks, n_atoms, dtype, dtype, weights)
    squared = squares_of(kernels, X[:6], left, n_landmarks, dtype)
    expected = naive(X[:6], Z, weights)
    precision = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(squared, expected, rtol=0, atol=precision * (1 + expected.max()))


@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_landmarks", "n_atoms"), SIZES)
def test_a_frame_does_not_depend_on_those_beside_it(kernels, n_landmarks, n_atoms, dtype, given):
    X, _, left = made_up(n_landmarks, n_atoms, given, dtype)
    whole = squares_of(kernels, X, left, n_landmarks, dtype)
    for size in (1, 2, 3, 4, 5, 16, 19):
        parts = [
            squares_of(kernels, X[start : start + size], left, n_landmarks, dtype)
            for start in range(0, len(X), size)
        ]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_landmarks", "n_atoms"), [(4, 22), (20, 7)])
def test_gradients_in_one_pass_are_those_of_the_single_steps(kernels, n_landmarks, n_atoms, dtype, given):
    X, _, left = made_up(n_landmarks, n_atoms, given, dtype)
    n, online = len(X), online_of(n_landmarks, dtype)
    squared = squares_of(kernels, X, left, n_landmarks, dtype)

    def new():
        return np.empty((n, 2), dtype), np.empty(n, np.intp), np.empty(n, dtype)

    expected, found = new(), new()
    kernels.extend(squared, *online, *expected)
    shares = np.empty((n, 2, n_landmarks), dtype)
    kernels.fill_shares(squared, expected[2], *online, expected[0], shares)
    slopes, wanted = (np.empty((n, 2, n_atoms, 3), dtype) for _ in range(2))
    kept, root_weights, panels, moments = left
    kernels.rmsd_gradients(
        X.astype(np.float64), kept, root_weights**2, panels, moments, squared, shares, wanted
    )
    assert kernels.embed_rmsd_with_gradient(X, *left, *online, *found, slopes)
    for one, other in zip((*found, slopes), (*expected, wanted), strict=True):
        np.testing.assert_array_equal(one, other)
    assert kernels.embed_rmsd(X, *left, *online, *expected)
    np.testing.assert_array_equal(found[0], expected[0])
    broken = X.copy()
    broken[20, 1, 2] = np.nan
    assert not kernels.embed_rmsd_with_gradient(broken, *left, *online, *found, slopes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_that_are_not_finite_are_cleared(kernels, dtype):
    gradient = np.arange(24, dtype=dtype).reshape(2, 3, 4)
    expected = gradient.copy()
    gradient[0, 1, 3], gradient[1, 0, 0], gradient[1, 2, 1] = np.nan, np.inf, -np.inf
    expected[0, 1], expected[1, 0], expected[1, 2] = 0, 0, 0
    kernels.clear_not_finite(gradient)
    np.testing.assert_array_equal(gradient, expected)
