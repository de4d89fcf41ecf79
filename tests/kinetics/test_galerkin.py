"""What solves for committors and passage times: the equation, the loss, and the choice of functions."""

from types import SimpleNamespace

import numpy as np
import pytest

from ldmaps.errors import AccuracyWarning
from ldmaps.kinetics.blocks import total
from ldmaps.kinetics.galerkin import FEW_PASSAGES, choose, warn_of_few_passages
from ldmaps.kinetics.stopped_sums import StoppedPairs


@pytest.fixture(scope="module")
def walk():
    """Return places of a random walk between 0 and 1, which are sets, with walls behind them."""
    rng, place = np.random.default_rng(0), 0.5
    places = []
    for kick in 0.05 * rng.normal(size=6000):
        place = abs(place + kick)
        place = 2 - place if place > 1 else place
        places.append(place)
    return np.array(places)


def sums_of(functions, places, lag=1):
    pairs = StoppedPairs(lag)
    pairs.add(functions, (places < 0.1) | (places > 0.9), places > 0.9, None, begins_run=True)
    return list(pairs.blocks)


def powers(places, count):
    return places[:, None] ** np.arange(count)


def test_a_ridge_is_added_to_the_equation(walk):
    sums = total(sums_of(powers(walk, 4), walk))
    assert np.linalg.cond(sums.gram) < 1e8  # all directions are independent, and none is left out
    for ridge in (0.0, 0.1):
        damping = ridge * np.trace(sums.gram) / 4 * np.eye(4)
        truth = np.linalg.solve(sums.change - damping, -sums.arrivals)
        np.testing.assert_allclose(sums.solve(sums.arrivals, ridge), truth, rtol=1e-6)


def test_the_chances_to_reach_either_set_add_up_to_one(walk):
    functions, pairs = powers(walk, 4), StoppedPairs(1)
    pairs.add(functions, (walk < 0.1) | (walk > 0.9), walk < 0.1, None, begins_run=True)
    there, back = total(sums_of(functions, walk)), total(list(pairs.blocks))
    either = sum(functions @ sums.solve(sums.arrivals, 0.0) for sums in (there, back))
    np.testing.assert_allclose(either, 1.0, atol=1e-8)


def test_functions_that_depend_on_each_other_share_what_one_would_have(walk):
    sums = total(sums_of(powers(walk, 4), walk))
    twice = total(sums_of(np.tile(powers(walk, 4), 2), walk))
    found = twice.solve(twice.arrivals, 0.0)
    np.testing.assert_allclose(found[:4] + found[4:], sums.solve(sums.arrivals, 0.0), rtol=1e-4)


def test_the_loss_is_least_at_the_solution_of_a_reversible_walk(walk):
    both = np.concatenate([walk, walk[::-1]])  # steps both ways
    sums = total(sums_of(powers(both, 4), both))
    np.testing.assert_allclose(sums.change, sums.change.T, atol=0.01 * np.abs(sums.change).max())
    best = sums.solve(sums.arrivals, 0.0)
    least = sums.loss(best, sums.arrivals)
    rng = np.random.default_rng(0)
    for _ in range(20):
        away = 0.1 * rng.normal(size=4)
        more = -away @ sums.change @ away / sums.gram[0, 0]
        assert more > 0
        assert sums.loss(best + away, sums.arrivals) - least == pytest.approx(more, rel=0.1)


def test_more_functions_of_noise_are_not_chosen(walk):
    noise = np.random.default_rng(1).normal(size=(len(walk), 72))
    functions = np.concatenate([powers(walk, 3), noise], axis=1)
    choice = choose(sums_of(functions, walk), lambda sums: sums.arrivals)
    assert choice.n_combined <= 5


def test_functions_that_matter_are_chosen(walk):
    noise = np.random.default_rng(1).normal(size=(len(walk), 10))
    functions = np.concatenate([np.ones((len(walk), 1)), noise, walk[:, None]], axis=1)
    choice = choose(sums_of(functions, walk), lambda sums: sums.arrivals)
    assert choice.n_combined == 12
    assert choice.losses.shape == (5,)


@pytest.mark.parametrize(("passages", "name"), [((3, 50), "right"), ((50, 3), "left"), ((4, 3), "left")])
def test_the_set_that_is_reached_too_seldom_is_named(passages, name):
    left, right = SimpleNamespace(name="left"), SimpleNamespace(name="right")
    followed = SimpleNamespace(passages=passages)  # of the target first
    with pytest.warns(AccuracyWarning, match=f"{name} is reached 3 times, and {FEW_PASSAGES} are needed"):
        warn_of_few_passages(followed, [left, right], right)
    warn_of_few_passages(SimpleNamespace(passages=(FEW_PASSAGES, 50)), [left, right], right)
    warn_of_few_passages(
        SimpleNamespace(passages=(FEW_PASSAGES, 0)), [right], right
    )  # asked of the target alone
