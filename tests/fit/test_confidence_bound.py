"""Bounds of the errors of new points, as their formulas say and as often as their confidence says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from ldmaps.fit.confidence_bound import (
    HeldOutErrors,
    bound_mean,
    bound_z,
    bound_z_of_all,
    bound_zeta,
    unseen_tail,
)

# -- the mean -----------------------------------------------------------------------


def test_without_skewness_the_bound_is_students():
    """By the quantile of the confidence itself (one side), and the deviation of n − 1."""
    squares = 10.0 + np.array([-3.0, -2.0, -1.0, -1.0, 1.0, 1.0, 2.0, 3.0])
    for confidence in (0.8, 0.95, 0.999):
        quantile = stats.t.ppf(confidence, 7)
        error = np.sqrt(((squares - 10.0) ** 2).sum() / 7 / 8)
        assert bound_mean(squares, confidence) == pytest.approx(10.0 + quantile * error, rel=1e-9)
    assert bound_mean(np.full(10, 4.0), 0.95) == 4.0
    assert bound_mean(np.full(1, 4.0), 0.95) == np.inf


def test_the_bound_that_another_number_of_points_would_have():
    squares = np.tile([9.0, 11.0], 50)
    deviation = squares.std(ddof=1)
    for n in (30, 100, 1000):
        expected = 10.0 + stats.t.ppf(0.95, n - 1) * deviation / np.sqrt(n)
        assert bound_mean(squares, 0.95, n) == pytest.approx(expected, rel=1e-9)
        in_twos = HeldOutErrors(np.repeat(squares, 2), np.ones(200), np.repeat(np.arange(100), 2))
        assert bound_z(in_twos, 0.99, 0.95, 2 * n) == pytest.approx(np.sqrt(expected), rel=1e-9)
    assert bound_mean(squares, 0.95, 100) == bound_mean(squares, 0.95)


def test_errors_of_two_groups_keep_their_blocks_and_weights():
    one = HeldOutErrors(np.arange(4.0), np.ones(4), np.array([0, 0, 1, 1]))
    other = HeldOutErrors(np.arange(3.0), np.full(3, 2.0), np.array([0, 0, 1]))
    both = one.and_those(other)
    assert both.n_blocks == 4
    assert both.blocks.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert both.mean(both.squares) == pytest.approx((6 + 2 * 3) / 10)


def test_fitted_errors_count_as_held_out_ones_allow():
    """Those of a fit that follows its points too closely are raised to what others show, less a standard error."""
    held_out = HeldOutErrors.independent(np.tile([9.0, 11.0], 50))
    error = np.tile([9.0, 11.0], 50).std(ddof=1) / 10.0
    fitted = HeldOutErrors.independent(np.tile([4.0, 6.0], 100))
    raised = held_out.raised(fitted, 0.99)
    np.testing.assert_allclose(raised.squares, fitted.squares * (10.0 - error) / 5.0)
    assert raised.blocks is fitted.blocks
    # As large ones, or larger ones, stay; and the worst hundredth of either does not matter.
    alike = HeldOutErrors.independent(np.tile([9.0, 10.9], 100))
    assert held_out.raised(alike, 0.99) is alike
    with_worst = HeldOutErrors.independent(np.append(np.tile([9.0, 11.0], 99), [1e4, 11.0]))
    np.testing.assert_allclose(with_worst.raised(fitted, 0.98).squares, raised.squares, rtol=0.01)
    assert HeldOutErrors.independent(np.full(1, 9.0)).raised(fitted, 0.99) is fitted


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.9875])
def test_with_skewness_halls_transformation_of_the_bound_is_students_quantile(confidence):
    squares = np.random.default_rng(0).exponential(size=60) ** 1.5
    n, mean = len(squares), squares.mean()
    deviation = np.sqrt(((squares - mean) ** 2).sum() / (n - 1))
    skewness = np.mean((squares - mean) ** 3) / deviation**3
    assert skewness > 1
    t = (mean - bound_mean(squares, confidence)) * np.sqrt(n) / deviation
    a = skewness / (3 * np.sqrt(n))
    transformed = t + a * t**2 + a**2 * t**3 / 3 + skewness / (6 * np.sqrt(n))
    assert transformed == pytest.approx(-stats.t.ppf(confidence, n - 1), rel=1e-9)


@pytest.mark.parametrize(("n", "k"), [(60, 15), (400, 20)])
@pytest.mark.parametrize("steepness", [0.5, 1.5, 4.0])
def test_the_unseen_tail_is_that_of_a_pareto_law_cut_at_the_largest_error(n, k, steepness):
    squares = np.random.default_rng(1).pareto(steepness, size=n)
    largest = 50.0 * squares.max()
    ordered = np.sort(squares)[::-1]
    index = np.mean(np.log(ordered[:k] / ordered[k])) * (1 + 1 / np.sqrt(k))
    beyond, _ = quad(lambda x: (x / ordered[0]) ** (-1 / index), ordered[0], largest, limit=500)
    assert unseen_tail(squares, largest) == pytest.approx((ordered[0] + beyond) / n, rel=1e-6)


def test_a_tail_that_falls_as_one_over_x_grows_with_the_logarithm():
    """The only place where the integral is no power."""
    index = 1 + 1 / math.sqrt(15)
    squares = np.concatenate([np.full(12, 1.0), np.full(15, math.exp(1 / index))])
    assert unseen_tail(squares, 100.0) == pytest.approx(
        squares.max() * (1 + math.log(100.0 / squares.max())) / 27, rel=1e-6
    )


def test_no_error_is_larger_than_the_largest():
    squares = np.linspace(1.0, 10.0, 30)
    assert unseen_tail(squares, 10.0) == 10.0 / 30
    assert unseen_tail(np.zeros(30), 10.0) == 0.0
    assert unseen_tail(np.append(np.zeros(29), 3.0), 10.0) == 10.0 / 30
    alike = HeldOutErrors.independent(np.full(40, 4.0))
    assert bound_z_of_all(alike, 0.95, 9.0) == pytest.approx(np.sqrt(4.0 + 4.0 / 40))


# -- promises about new points ----------------------------------------------------------

KINDS = {
    "exponential": lambda rng, n: rng.exponential(size=n),
    "cubed normal": lambda rng, n: np.abs(rng.normal(size=n)) ** 3,
    "log-normal": lambda rng, n: np.exp(1.5 * rng.normal(size=n)),
    "Pareto": lambda rng, n: rng.pareto(1.5, size=n),
    "Pareto without a mean": lambda rng, n: rng.pareto(0.8, size=n),
}


@pytest.mark.parametrize("kind", list(KINDS)[:4])
def test_the_bound_of_all_covers_the_mean_as_often_as_it_says(kind):
    rng = np.random.default_rng(0)
    mean = {
        "exponential": 1.0,
        "cubed normal": 2 * np.sqrt(2 / np.pi),
        "log-normal": np.exp(1.125),
        "Pareto": 2.0,
    }
    bounds = [bound_z_of_all(HeldOutErrors.independent(KINDS[kind](rng, 300)), 0.95, 1e5) for _ in range(300)]
    assert np.mean(np.square(bounds) < mean[kind]) < 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [300, 1200])
def test_bounds_of_a_share_hold_whatever_the_tail(kind, n):
    rng = np.random.default_rng(0)
    many = np.sort(KINDS[kind](rng, 200_000))
    z = np.sqrt(many[:198_000].mean())
    missed = sum(bound_z(HeldOutErrors.independent(KINDS[kind](rng, n)), 0.99, 0.95) < z for _ in range(200))
    assert missed / 200 < 0.08
    if n == 1200:
        bounds = [bound_zeta(HeldOutErrors.independent(KINDS[kind](rng, n)), 0.99, 0.95) for _ in range(200)]
        assert np.mean(np.square(bounds) < many[198_000]) < 0.08


def test_a_smaller_error_of_most_points_lowers_the_bound_though_the_worst_stay():
    """The bound of all hardly falls then; this is why a tolerance does not ask for it."""
    rng = np.random.default_rng(0)
    squares = rng.exponential(size=1000)
    worst = np.array([400.0, 300.0, 250.0])
    before, after = (
        HeldOutErrors.independent(np.concatenate([scale * squares, worst])) for scale in (1.0, 0.01)
    )
    assert bound_z(after, 0.99, 0.95) < 0.2 * bound_z(before, 0.99, 0.95)
    assert bound_z_of_all(after, 0.95, 1e4) > 0.8 * bound_z_of_all(before, 0.95, 1e4)


@pytest.mark.parametrize(
    ("n", "share", "confidence"), [(300, 0.99, 0.95), (1200, 0.99, 0.975), (500, 0.9, 0.95)]
)
def test_the_bound_of_zeta_is_the_order_statistic(n, share, confidence):
    squares = np.random.default_rng(2).exponential(size=n)
    # So many of n points are below the true quantile at most, with this confidence; the next one is above it.
    rank = int(stats.binom.ppf(confidence, n, share))
    assert bound_zeta(HeldOutErrors.independent(squares), share, confidence) == pytest.approx(
        np.sqrt(np.sort(squares)[rank])
    )


def test_too_few_points_bound_no_zeta():
    """0.99^n > 0.05 up to n = 298."""
    squares = np.random.default_rng(2).exponential(size=299)
    assert bound_zeta(HeldOutErrors.independent(squares[:298]), 0.99, 0.95) == np.inf
    assert bound_zeta(HeldOutErrors.independent(squares), 0.99, 0.95) == np.sqrt(squares.max())


# -- weights and blocks -------------------------------------------------------------------


def test_points_that_belong_together_count_as_one():
    """300 squares that come in 30 blocks of ten alike tell no more than 30 do."""
    rng = np.random.default_rng(0)
    ten_alike = rng.exponential(size=30)
    blocks, single = HeldOutErrors.independent(ten_alike), HeldOutErrors.independent(np.repeat(ten_alike, 10))
    together = HeldOutErrors(single.squares, single.weights, np.repeat(np.arange(30), 10))
    # By the points alone the worst 1 % begin at the second largest of the 300, which is as large.
    assert bound_z(together, 0.99, 0.95) == pytest.approx(bound_z(blocks, 0.99, 0.95))
    assert bound_z(together, 0.99, 0.95) > 1.1 * bound_z(single, 0.99, 0.95)
    seen = bound_mean(ten_alike, 0.95) + unseen_tail(ten_alike, 100.0)
    assert bound_z_of_all(together, 0.95, 100.0) == pytest.approx(np.sqrt(seen))
    is_large = together.squares >= np.sort(ten_alike)[-6]
    assert together.n_independent(is_large) == pytest.approx(30, rel=0.05)
    assert bound_zeta(together, 0.8, 0.95) == pytest.approx(bound_zeta(blocks, 0.8, 0.95), rel=0.2)
    assert bound_zeta(together, 0.8, 0.95) > bound_zeta(single, 0.8, 0.95)


def test_a_weight_counts_as_so_many_points():
    rng = np.random.default_rng(0)
    squares, weights = rng.exponential(size=200), rng.integers(1, 4, 200).astype(float)
    weighted = HeldOutErrors(squares, weights, np.arange(200))
    copies = np.repeat(np.arange(200), weights.astype(int))
    copied = HeldOutErrors(squares[copies], np.ones(len(copies)), copies)
    for share in (0.9, 0.99):
        assert weighted.threshold(share) == copied.threshold(share)
        assert bound_z(weighted, share, 0.95) == pytest.approx(bound_z(copied, share, 0.95))
    assert weighted.mean(squares) == pytest.approx(squares[copies].mean())
    scaled = HeldOutErrors(squares, 7.0 * weights, np.arange(200))
    for bound in (bound_z, bound_zeta):
        assert bound(scaled, 0.9, 0.95) == pytest.approx(bound(weighted, 0.9, 0.95))


def test_blocks_of_unequal_sizes_give_the_mean_of_all_points():
    rng = np.random.default_rng(0)
    errors = HeldOutErrors(rng.exponential(size=100), rng.uniform(0.5, 2, 100), rng.integers(3, 12, 100) ** 2)
    values = errors.block_values(errors.squares)
    assert len(values) == len(np.unique(errors.blocks)) == 9
    assert values.mean() == pytest.approx(np.average(errors.squares, weights=errors.weights))
