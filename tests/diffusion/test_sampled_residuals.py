"""Residuals at some rows bound the error of coordinates, whatever is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
from streamed_cases import peptide, random_weights, roll, stored_spectrum

from ldmaps.diffusion import sampled_residuals
from ldmaps.diffusion.sampled_residuals import sampled_errors

N, B = 700, 8


@pytest.fixture(params=[peptide, lambda n: roll(n, epsilon=30.0)], ids=["peptide", "roll"])
def problem(request):
    kernel = request.param(N)
    weights = random_weights(N)
    return kernel, weights, stored_spectrum(kernel, weights, 2 * B).vectors


def bound(kernel, weights, modes, seed=0):
    return sampled_errors(kernel, weights, lambda wanted: modes[wanted], np.random.default_rng(seed))


def true_errors(exact, modes, weights):
    off = modes - exact[:, : modes.shape[1]]
    return 100.0 * np.sqrt(weights @ off**2 / weights.sum()) / np.ptp(modes, axis=0)


def normalised(modes, weights):
    return modes / np.sqrt(weights @ modes**2)


def test_eigenvectors_have_no_error(problem):
    kernel, weights, exact = problem
    assert bound(kernel, weights, exact[:, :B])[: B // 2].max() < 0.01


@pytest.mark.parametrize("size", [0.003, 0.03])
@pytest.mark.parametrize(
    "source", [1, B - 1, B + 2], ids=["a neighbour", "the last known", "one that is not known"]
)
def test_a_share_of_another_mode(problem, source, size):
    kernel, weights, exact = problem
    modes = exact[:, :B].copy()
    modes[:, 0] = normalised(exact[:, 0] + size * exact[:, source], weights)
    found, true = bound(kernel, weights, modes)[0], true_errors(exact, modes, weights)[0]
    assert true <= found < 8.0 * true


def test_a_constant_added(problem):
    kernel, weights, exact = problem
    modes = exact[:, :B].copy()
    modes[:, 0] = normalised(exact[:, 0] + 0.02 * np.abs(exact[:, 0]).mean(), weights)
    found, true = bound(kernel, weights, modes)[0], true_errors(exact, modes, weights)[0]
    assert true <= found < 8.0 * true


def test_a_scale_that_no_residual_shows(problem):
    kernel, weights, exact = problem
    modes = exact[:, :B] * 1.05
    found, true = bound(kernel, weights, modes)[0], true_errors(exact, modes, weights)[0]
    assert true <= found * 1.0001 < 1.2 * true


@pytest.mark.parametrize("seed", range(8))
def test_noise_seen_at_some_rows(problem, monkeypatch, seed):
    monkeypatch.setattr(sampled_residuals, "SAMPLED_ROWS", 150)
    kernel, weights, exact = problem
    noise = np.random.default_rng(seed).standard_t(4, size=(N, B)) * 0.02 * np.abs(exact[:, :B]).mean(axis=0)
    modes = normalised(exact[:, :B] + noise, weights)
    found, true = bound(kernel, weights, modes, seed), true_errors(exact, modes, weights)
    assert (true <= found)[:3].all()


def test_modes_that_are_no_modes_are_not_bounded(problem):
    kernel, weights, _ = problem
    modes = normalised(np.random.default_rng(0).normal(size=(N, B)), weights)
    assert np.isinf(bound(kernel, weights, modes)).all()


def test_chunks_and_threads_do_not_matter(problem, monkeypatch):
    kernel, weights, exact = problem
    modes = exact[:, :B] + 0.02 * exact[:, B:]
    whole = bound(kernel, weights, modes)
    monkeypatch.setattr(sampled_residuals, "CHUNK", 90)
    cut = sampled_errors(kernel, weights, lambda wanted: modes[wanted], np.random.default_rng(0), n_threads=3)
    np.testing.assert_allclose(cut, whole, rtol=1e-3)
