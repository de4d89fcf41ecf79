"""Every formula of distilling against a naive transcription, and weights against repeated points."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest
import scipy.optimize
from scipy.spatial.distance import cdist

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.extension import distilled, least_squares
from ldmaps.extension.least_squares import Problem, Rows, Setting
from ldmaps.metrics import Euclidean

ROLL = swiss_roll(500, random_state=6).points
EPSILON = 12.0
INDICES = np.arange(0, 500, 12)
WEIGHTS = np.random.default_rng(2).integers(1, 6, 500).astype(float)
METRIC = Euclidean()


def naive_weights(X, Z, width, source):
    kernel = np.exp(-(cdist(X, Z) ** 2) / (2 * width)) * source
    return kernel / kernel.sum(axis=1, keepdims=True)


def naive_coefficients(w, v, y, start, ridge):
    """Minimise Σ v |y − w·B|² + ρ |B − B₀|² with ρ in units of the mean diagonal of Σ v w wᵀ."""
    gram = (w * v[:, None]).T @ w
    rho = ridge * np.mean(np.diag(gram))
    return np.linalg.solve(gram + rho * np.eye(len(gram)), (w * v[:, None]).T @ y + rho * start)


def naive_loss(w, v, y, start):
    """Return log of min_B (Σ v |y − w·B|² + ρ |B − B₀|²)/n with the tuning's ridge."""
    B = naive_coefficients(w, v, y, start, least_squares.TUNING_RIDGE)
    rho = least_squares.TUNING_RIDGE * np.mean(v @ w**2)
    return np.log(((v @ (y - w @ B) ** 2).sum() + rho * ((B - start) ** 2).sum()) / len(y))


def fitted(X, weights, landmarks, **settings):
    model = LandmarkDiffusionMap(2, EPSILON, landmarks=landmarks, extension="distilled", **settings)
    return model.fit(X, sample_weight=weights)


@pytest.mark.parametrize("is_tuned", [False, True])
@pytest.mark.parametrize("enough_held_out", [False, True])
def test_coefficients_are_the_least_squares_of_all_points(monkeypatch, is_tuned, enough_held_out):
    """Also of those that were held out while choosing, each by its weight."""
    monkeypatch.setattr(distilled, "TUNED_LANDMARKS", 600 if is_tuned else 0)
    if not enough_held_out:
        monkeypatch.setattr(distilled, "MIN_HELD_OUT", 10**9)
    model = fitted(ROLL, WEIGHTS, INDICES)
    found = model.distillation_
    assert found.is_tuned == (is_tuned and enough_held_out)
    assert 0 < found.ridge < math.inf
    exact = DiffusionMap(2, EPSILON).fit(ROLL, sample_weight=WEIGHTS)
    y = exact.embedding_
    w = naive_weights(ROLL, ROLL[INDICES], found.bandwidth, found.source_weights)
    start = y[INDICES] / exact.eigenvalues_
    expected = naive_coefficients(w, WEIGHTS, y, start, found.ridge)
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


def test_a_weight_counts_like_repeated_points(monkeypatch):
    monkeypatch.setattr(distilled, "MIN_HELD_OUT", 10**9)  # so that no draw decides anything
    weighted = fitted(ROLL, WEIGHTS, INDICES)
    repeats = WEIGHTS.astype(int)
    first = np.cumsum(repeats) - repeats
    repeated = LandmarkDiffusionMap(2, EPSILON, landmarks=first[INDICES], extension="distilled").fit(
        np.repeat(ROLL, repeats, axis=0)
    )
    # Cells of coinciding points, hence the same source weights and the same map.
    np.testing.assert_allclose(repeated.multiplicities_, weighted.multiplicities_)
    np.testing.assert_allclose(repeated.embedding_[first], weighted.embedding_, atol=1e-9)


def problem_and_rows(weights):
    rng = np.random.default_rng(0)
    problem = Problem(METRIC, METRIC.prepare(ROLL[INDICES]), rng.normal(size=(len(INDICES), 2)), 1)
    rows = Rows(METRIC.prepare(ROLL), rng.normal(size=(500, 2)), weights, np.arange(500))
    setting = Setting(1.7 * EPSILON, rng.uniform(-2, 0, len(INDICES)))
    return problem, rows, setting


def test_errors_are_z_in_percent_by_weight():
    problem, rows, setting = problem_and_rows(WEIGHTS)
    solutions = [np.random.default_rng(seed).normal(size=problem.baseline.shape) for seed in (4, 5)]
    w = naive_weights(ROLL, ROLL[INDICES], setting.bandwidth, np.exp(setting.log_weights))
    expected = [
        100 * np.sqrt(np.mean(np.repeat(((w @ B - rows.targets) ** 2).sum(axis=1), WEIGHTS.astype(int))))
        for B in solutions
    ]
    np.testing.assert_allclose(problem.errors(rows, setting, solutions), expected, rtol=1e-9)


def test_the_held_out_error_is_that_of_the_held_out_rows(monkeypatch):
    """Before B is solved for once more, by weight, and no landmark among them."""
    monkeypatch.setattr(distilled, "TUNED_LANDMARKS", 0)
    seen = {}
    real = distilled._distil

    def recorded(problem, data, held, *rest, **settings):
        seen["held"] = held
        return real(problem, data, held, *rest, **settings)

    monkeypatch.setattr(distilled, "_distil", recorded)
    found = fitted(ROLL, WEIGHTS, INDICES).distillation_
    held = seen["held"]
    assert len(held) == len(set(held)) == 100
    assert not np.isin(held, INDICES).any()
    kept = np.setdiff1d(np.arange(500), held)
    exact = DiffusionMap(2, EPSILON).fit(ROLL, sample_weight=WEIGHTS)
    y = exact.embedding_
    w = naive_weights(ROLL, ROLL[INDICES], found.bandwidth, found.source_weights)
    start = y[INDICES] / exact.eigenvalues_
    B = naive_coefficients(w[kept], WEIGHTS[kept], y[kept], start, found.ridge)
    zeta = ((w[held] @ B - y[held]) / np.ptp(y, axis=0)) ** 2
    expected = 100 * np.sqrt(np.average(zeta.sum(axis=1), weights=WEIGHTS[held]))
    assert found.held_out_z == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("weights", [np.ones(500), WEIGHTS / WEIGHTS.mean()], ids=["plain", "weighted"])
def test_the_tuning_gradient_is_the_slope_of_its_loss(monkeypatch, weights):
    problem, rows, setting = problem_and_rows(weights)
    seen = {}

    def record(loss, start, **_):
        seen.update(loss=loss, start=start)
        return types.SimpleNamespace(x=start)

    monkeypatch.setattr(scipy.optimize, "minimize", record)
    least_squares.tune(problem, rows, setting)
    start = seen["start"].copy()
    start[-1] += 0.4  # the logarithm of the rate, which is 1 where the search begins
    value, gradient = seen["loss"](start)
    # The loss: log of what B minimises, the weighted mean square with the tuning's ridge.
    w = naive_weights(ROLL, ROLL[INDICES], setting.bandwidth / np.exp(0.4), np.exp(setting.log_weights))
    assert value == pytest.approx(naive_loss(w, weights, rows.targets, problem.baseline), abs=1e-9)
    steps = 1e-4 * np.random.default_rng(3).normal(size=(12, len(start)))
    slopes = [seen["loss"](start + step)[0] - seen["loss"](start - step)[0] for step in steps]
    np.testing.assert_allclose(slopes, 2 * steps @ gradient, atol=1e-6 * np.abs(slopes).max())


class Told:
    """A problem whose errors are told by ridge or width, and that counts what it is asked."""

    baseline = np.zeros((1, 1))

    def __init__(self, errors):
        self.told, self.asked = errors, []

    def equations(self, rows, setting):
        self.asked.append(setting.bandwidth)
        return self

    def solve(self, baseline, ridge):
        return ridge

    def errors(self, rows, setting, solutions):
        if len(solutions) == 1:
            return np.array([self.told[setting.bandwidth]])
        return np.array([self.told[ridge] for ridge in solutions])


def test_the_strongest_ridge_within_the_slack_is_taken():
    errors = dict(zip(distilled.RIDGES, (9.0, 5.0, 2.0, 1.04, 1.0, 1.02, 1.2, 1.5), strict=True))
    told = Told(errors)
    assert distilled._strongest_ridge(told, None, None, told) == (1e-3, 1.04)
    errors[1e-3] = 1.06
    assert distilled._strongest_ridge(told, None, None, told) == (1e-4, 1.0)


def test_a_negligible_error_is_as_good_as_the_best():
    errors = dict(zip(distilled.RIDGES, (9.0, 0.009, 1e-5, 1e-6, 0, 0, 0, 0), strict=True))
    told = Told(errors)
    assert distilled._strongest_ridge(told, None, None, told) == (1e-1, 0.009)


@pytest.mark.parametrize(
    ("errors", "best", "asked"),
    [
        ((5.0, 4.0, 3.0, 3.5, 1.0), 2.0, 4),  # no further than where it first rises
        ((5.0, 4.0, 3.0, 2.0, 1.0), 4.5, 5),
        ((5.0, 0.005, 0.004, 0.003, 0.002), 1.5, 2),  # negligible already
        ((5.0, 6.0, 0.1, 0.1, 0.1), 1.0, 2),
    ],
)
def test_the_width_of_lowest_error_is_taken(errors, best, asked):
    told = Told(dict(zip(distilled.WIDTHS, errors, strict=True)))
    setting, _ = distilled._widest_worth(told, None, None, Setting(1.0, np.zeros(1)))
    assert setting.bandwidth == best
    assert len(told.asked) == asked


def test_a_landmark_that_tuning_gives_no_weight_still_embeds_points_beside_it(monkeypatch):
    """In single precision too: exp of its logarithm would be 0, and the coordinates of such a point 0/0."""
    problem = Problem(
        METRIC, METRIC.prepare(ROLL[INDICES].astype(np.float32)), np.zeros((len(INDICES), 2)), None
    )
    rows = Rows(problem.landmarks, np.zeros((len(INDICES), 2)), np.ones(len(INDICES)), INDICES)
    start = Setting(EPSILON, np.zeros(len(INDICES)))
    driven_away = np.append(np.where(np.arange(len(INDICES)) == 3, -900.0, 0.0), 0.0)
    monkeypatch.setattr(least_squares, "_lowest", lambda loss, start, bounds=None: driven_away)
    weights = np.exp(least_squares.tune(problem, rows, start).log_weights).astype(np.float32)
    assert weights.max() == 1.0
    assert 0.0 < weights[3] < 1e-25
    assert weights[3] > 1e10 * np.finfo(np.float32).tiny
