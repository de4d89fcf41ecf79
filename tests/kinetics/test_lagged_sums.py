"""Sums over lagged pairs: those of plain loops, however the rows come."""

import numpy as np
import pytest

from ldmaps.kinetics.blocks import total
from ldmaps.kinetics.lagged_sums import LaggedPairs

LAGS = [1, 4, 70]


def plain_sums(functions, weights, runs, lag):
    instant, lagged = np.zeros((2, functions.shape[1], functions.shape[1]))
    for row in range(len(functions) - lag):
        if runs[row] != runs[row + lag]:
            continue
        now, later, weight = functions[row], functions[row + lag], weights[row]
        instant += 0.5 * weight * (np.outer(now, now) + np.outer(later, later))
        lagged += 0.5 * weight * (np.outer(now, later) + np.outer(later, now))
    return instant, lagged


def sums_of(functions, weights, runs, piece):
    pairs = LaggedPairs(LAGS)
    for run in np.unique(runs):
        own = np.flatnonzero(runs == run)
        for start in range(0, len(own), piece):
            rows = own[start : start + piece]
            given = None if weights is None else weights[rows]
            pairs.add(functions[rows], given, begins_run=start == 0)
    return total(list(pairs.blocks))


@pytest.fixture(scope="module")
def functions():
    rng = np.random.default_rng(0)
    rows = np.cumsum(rng.normal(size=(900, 3)), axis=0)
    return np.column_stack([np.ones(900), rows])


@pytest.mark.parametrize("piece", [1, 7, 100, 900])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_a_plain_loop(functions, piece, weighted):
    runs = np.repeat([0, 1, 2], [300, 590, 10])  # the last is shorter than the longest lag
    weights = np.random.default_rng(1).uniform(size=900) if weighted else None
    found = sums_of(functions, weights, runs, piece)
    assert found.n_rows == 900
    for place, lag in enumerate(LAGS):
        instant, lagged = plain_sums(functions, np.ones(900) if weights is None else weights, runs, lag)
        np.testing.assert_allclose(found.instant[place], instant, rtol=1e-10)
        np.testing.assert_allclose(found.lagged[place], lagged, rtol=1e-10)


def test_covariances_are_about_the_mean_of_the_pairs(functions):
    found = sums_of(functions, None, np.zeros(900), 900)
    now, later = functions[:-4, 1:], functions[4:, 1:]
    mean = 0.5 * (now.mean(axis=0) + later.mean(axis=0))
    np.testing.assert_allclose(found.mean(1), mean)
    instant, lagged = found.covariances(1)
    now, later = now - mean, later - mean
    np.testing.assert_allclose(instant, 0.5 * (now.T @ now + later.T @ later) / 896, atol=1e-8)
    np.testing.assert_allclose(lagged, 0.5 * (now.T @ later + later.T @ now) / 896, atol=1e-8)
