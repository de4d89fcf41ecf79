"""Correlation times of series whose memory is known, and the yardstick for slow coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eig
from scipy.signal import lfilter

from ldmaps.correlation_times import (
    FEW_INDEPENDENT,
    autocorrelation,
    correlation_time,
    held_out_correlation,
    lagged_pairs,
    runs_of,
    slowest_combinations,
)


def remembering(n, tau, seed):
    a = np.exp(-1 / tau)
    noise = np.random.default_rng(seed).normal(size=n)
    noise[1:] *= np.sqrt(1 - a**2)
    return lfilter([1.0], [1.0, -a], noise)


def test_autocorrelation_is_the_sum_over_pairs_within_runs():
    values = np.random.default_rng(0).normal(size=90).cumsum()
    runs = [slice(0, 50), slice(50, 90)]
    rho = autocorrelation(values, runs)
    assert len(rho) == 26
    centred = values - values.mean()
    for lag in (0, 1, 7, 25):
        products = [centred[run][: len(centred[run]) - lag] * centred[run][lag:] for run in runs]
        expected = np.concatenate(products).mean() / np.mean(centred**2)
        assert rho[lag] == pytest.approx(expected)
    np.testing.assert_allclose(autocorrelation(values, runs, 4), rho[:5])
    assert (autocorrelation(np.ones(90), runs) == 0).all()


def test_runs_end_where_files_do():
    files = np.repeat([0, 4, 0], [3, 2, 5]).astype(np.int32)
    assert runs_of(10, files) == [slice(0, 3), slice(3, 5), slice(5, 10)]
    assert runs_of(10, None) == [slice(0, 10)]


@pytest.mark.parametrize("tau", [2.0, 20.0])
def test_the_correlation_time_of_an_exponential_memory_is_found_within_its_error(tau):
    a = np.exp(-1 / tau)
    truth = 0.5 + a / (1 - a)
    found = [correlation_time(remembering(20_000, tau, seed), [slice(0, 20_000)]) for seed in range(40)]
    times, errors = np.array([each.time for each in found]), np.array([each.error for each in found])
    assert times.mean() == pytest.approx(truth, rel=0.05)
    assert 0.9 < errors.mean() / times.std() < 1.6  # Wolff's is for long windows, and on the safe side
    sums = 0.5 + np.cumsum([0.0, *autocorrelation(remembering(20_000, tau, 0), [slice(0, 20_000)])[1:]])
    window = next(lag for lag, time in enumerate(sums) if lag >= 5 * time)
    assert found[0].time == pytest.approx(sums[window] * (1 + (2 * window + 1) / 20_000))
    assert errors[0] == pytest.approx(times[0] * np.sqrt(4 * (window + 0.5 - times[0]) / 20_000))
    assert found[0].n_independent == pytest.approx(20_000 / (2 * found[0].time))
    assert found[0].n_independent >= FEW_INDEPENDENT


def test_a_run_of_few_independent_points_does_not_know_its_time():
    assert correlation_time(remembering(300, 200.0, 1), [slice(0, 300)]).n_independent < FEW_INDEPENDENT
    alone = correlation_time(np.random.default_rng(0).normal(size=2000), [slice(0, 2000)])
    assert alone.time == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("tau", [2.5, 20.5])
def test_the_time_of_ten_independent_samples_is_not_underestimated_on_average(tau):
    n = int(20 * tau)
    found = [correlation_time(remembering(n, tau - 0.5, seed), [slice(0, n)]) for seed in range(300)]
    assert np.mean([each.time for each in found]) == pytest.approx(tau, rel=0.2)
    # Hardly any of them passes for twenty.
    assert np.mean([n / (2 * each.upper) >= FEW_INDEPENDENT for each in found]) < 0.15


@pytest.mark.parametrize("share", [-0.5, -0.9])
def test_values_that_alternate_are_worth_more_than_independent_ones(share):
    noise = np.random.default_rng(3).normal(size=20_000)
    values = lfilter([1.0], [1.0, -share], noise)
    found = correlation_time(values, [slice(0, 20_000)])
    assert found.time == pytest.approx(0.5 + share / (1 - share), abs=0.03)
    assert found.n_independent > 50_000
    always = correlation_time(np.tile([1.0, -1.0], 500), [slice(0, 1000)])
    assert 0 < always.time < 0.1


def test_slowest_combinations_solve_the_variational_problem():
    rng = np.random.default_rng(0)
    series = np.column_stack([remembering(5000, 30.0, 1), remembering(5000, 5.0, 2), rng.normal(size=5000)])
    mixed = series @ rng.normal(size=(3, 3)) + 4.0
    now, later = mixed[:-5], mixed[5:]
    values, combination, mean = slowest_combinations(now, later)
    both = np.concatenate([now, later]) - mean
    np.testing.assert_allclose(mean, 0.5 * (now.mean(axis=0) + later.mean(axis=0)))
    lagged = (now - mean).T @ (later - mean)
    expected = eig(0.5 * (lagged + lagged.T), 0.5 * both.T @ both)[0].real
    np.testing.assert_allclose(values, np.sort(expected)[::-1])
    assert values[0] == pytest.approx(np.exp(-5 / 30), abs=0.03)
    slowest = (mixed - mean) @ combination[:, 0]
    assert abs(np.corrcoef(slowest, series[:, 0])[0, 1]) > 0.99


def test_dependent_functions_do_no_harm():
    series = remembering(2000, 10.0, 0)[:, None]
    doubled = np.column_stack([series, series, np.ones(2000)])
    assert len(slowest_combinations(doubled[:-1], doubled[1:])[0]) == 1
    assert np.isnan(held_out_correlation(*np.ones((2, 60, 3)), np.arange(60) // 30))  # nothing moves


def test_noise_is_not_slow_on_pairs_it_was_not_fitted_to():
    noise = np.random.default_rng(0).normal(size=(601, 150))
    folds = np.arange(600) // 300
    fitted = slowest_combinations(noise[:-1], noise[1:])[0][0]
    held_out = held_out_correlation(noise[:-1], noise[1:], folds)
    assert fitted > 0.6
    assert abs(held_out) < 0.25


def test_pairs_are_a_lag_apart_within_their_file_and_fold():
    runs = [slice(0, 40), slice(40, 43), slice(43, 100)]
    firsts, folds = lagged_pairs(runs, 5, 1000)
    run_of = np.repeat([0, 1, 2], [40, 3, 57])
    assert (run_of[firsts] == run_of[firsts + 5]).all()
    points = [np.union1d(firsts[folds == fold], firsts[folds == fold] + 5) for fold in (0, 1)]
    assert min(len(part) for part in points) > 25
    assert not np.intersect1d(*points).size
    assert len(lagged_pairs(runs, 5, 20)[0]) <= 20
    assert not len(lagged_pairs([slice(0, 4)], 5, 20)[0])
