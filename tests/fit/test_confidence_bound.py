"""The bound of a mean of squared errors, as its formulas say and as often as its confidence says."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.integrate import quad

from ldmaps.fit.confidence_bound import seen_bound, unseen_tail, upper_bound


def test_without_skewness_the_bound_is_the_normal_one():
    """By the quantile of the confidence itself (one side), and the deviation of n − 1."""
    squares = 10.0 + np.array([-3.0, -2.0, -1.0, -1.0, 1.0, 1.0, 2.0, 3.0])
    for confidence in (0.8, 0.95, 0.999):
        normal = NormalDist().inv_cdf(confidence)
        error = np.sqrt(((squares - 10.0) ** 2).sum() / 7 / 8)
        assert seen_bound(squares, confidence) == pytest.approx(10.0 + normal * error, rel=1e-12)
    assert seen_bound(np.full(10, 4.0), 0.95) == 4.0


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.9875])
def test_with_skewness_halls_transformation_of_the_bound_is_the_normal_quantile(confidence):
    squares = np.random.default_rng(0).exponential(size=60) ** 1.5
    n, mean = len(squares), squares.mean()
    deviation = np.sqrt(((squares - mean) ** 2).sum() / (n - 1))
    skewness = np.mean((squares - mean) ** 3) / deviation**3
    assert skewness > 1
    t = (mean - seen_bound(squares, confidence)) * np.sqrt(n) / deviation
    a = skewness / (3 * np.sqrt(n))
    transformed = t + a * t**2 + a**2 * t**3 / 3 + skewness / (6 * np.sqrt(n))
    assert transformed == pytest.approx(-NormalDist().inv_cdf(confidence), rel=1e-9)


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
    assert upper_bound(np.full(40, 4.0), 0.95, 9.0) == pytest.approx(np.sqrt(4.0 + 4.0 / 40))


@pytest.mark.parametrize(
    ("name", "draw", "mean"),
    [
        ("exponential", lambda rng: rng.exponential(size=300), 1.0),
        ("cubed normal", lambda rng: np.abs(rng.normal(size=300)) ** 3, 2.0 * np.sqrt(2.0 / np.pi)),
        ("log-normal", lambda rng: np.exp(1.5 * rng.normal(size=300)), np.exp(1.125)),
        ("Pareto", lambda rng: rng.pareto(1.5, size=300), 2.0),
    ],
)
def test_the_bound_covers_the_mean_as_often_as_it_says(name, draw, mean):
    rng = np.random.default_rng(0)
    missed = sum(upper_bound(draw(rng), 0.95, 1e5) ** 2 < mean for _ in range(300))
    assert missed / 300 < 0.1, name


def test_points_that_belong_together_count_as_one():
    """300 squares that come in 30 blocks of ten alike tell no more than 30 do."""
    rng = np.random.default_rng(0)
    blocks = rng.exponential(size=30)
    squares = np.repeat(blocks, 10)
    together = upper_bound(squares, 0.95, 100.0, block=10)
    assert together == pytest.approx(np.sqrt(seen_bound(blocks, 0.95) + unseen_tail(blocks, 100.0)))
    assert together > 1.1 * upper_bound(squares, 0.95, 100.0)
    alone = rng.exponential(size=300)
    assert upper_bound(alone, 0.95, 100.0, block=10) >= upper_bound(alone, 0.95, 100.0)
