"""Observables on a map: how well they are learned, where they are not carried, and what is refused."""

import numpy as np
import pytest

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError


@pytest.fixture(scope="module")
def roll():
    return swiss_roll(3000).points


@pytest.fixture(scope="module")
def model(roll):
    return LandmarkDiffusionMap(n_components=2, epsilon=4.0, n_landmarks=200).fit(roll)


def test_a_function_of_the_points_is_learned(model, roll):
    values = np.sin(roll[:, 0] / 5) + 0.1 * roll[:, 1]
    found = model.function(roll[:2000], values[:2000], name="wave")
    assert found.coordinate_names_ == ["wave"]
    new = found.transform(roll[2000:])[:, 0]
    r2 = 1 - np.mean((new - values[2000:]) ** 2) / values[2000:].var()
    assert r2 > 0.95
    assert found.r2_ == pytest.approx(r2, abs=0.03)


def test_r2_is_that_of_frames_that_are_held_out(model, roll):
    rng = np.random.default_rng(0)
    values = roll[:, 1] + roll[:, 1].std() * rng.normal(size=len(roll))  # half of the variance is noise
    assert model.function(roll, values, name="noisy").r2_ == pytest.approx(0.5, abs=0.08)


def test_an_observable_that_the_map_does_not_carry_is_refused_by_its_number(model, roll):
    noise = np.random.default_rng(0).normal(size=len(roll))
    with pytest.raises(InvalidInputError, match=r"does not determine noise: it explains R² = -?0\.0"):
        model.function(roll, noise, name="noise")
    assert model.function(roll, noise, name="noise", least_r2=-1.0).r2_ < 0.1


def test_a_constant_is_added_exactly(model, roll):
    low = model.function(roll, roll[:, 1], name="height").transform(roll[:50])
    high = model.function(roll, roll[:, 1] + 1e4, name="height").transform(roll[:50])
    np.testing.assert_allclose(high - low, 1e4, rtol=1e-6)


def test_frames_where_it_is_unknown_are_left_out(model, roll):
    values = roll[:, 1].copy()
    values[::7] = np.nan
    found = model.function(roll, values, name="height")
    assert found.record_.facts["n_frames"] == np.isfinite(values).sum()
    assert found.r2_ > 0.95


def test_weights_count_as_copies(model, roll):
    weights = np.ones(len(roll))
    weights[::2] = 0.0
    weighed = model.function(roll, roll[:, 1], name="height", sample_weight=weights)
    values = np.where(weights > 0, roll[:, 1], np.nan)
    dropped = model.function(roll, values, name="height")
    np.testing.assert_allclose(weighed.transform(roll[:50]), dropped.transform(roll[:50]), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3000), "all the same"),
        (np.arange(2999.0), "2999 numbers for more frames"),
        (np.arange(3001.0), "3001 numbers for 3000 frames"),
        (np.full(3000, np.inf), "one finite number per frame"),
        (np.ones((3000, 2)), r"got shape \(3000, 2\)"),
        (np.full(3000, np.nan), "known at 0 frames, and 100 are needed"),
    ],
)
def test_what_cannot_be_learned_is_said(model, roll, values, message):
    with pytest.raises(InvalidInputError, match=message):
        model.function(roll, values, name="height")


def test_it_is_saved_and_loaded(model, roll, tmp_path):
    found = model.function(roll, roll[:, 1], name="height")
    found.save(tmp_path / "height.ldm")
    loaded = ldmaps.load(tmp_path / "height.ldm")
    assert loaded.record_ == found.record_
    assert loaded.r2_ == found.r2_
    np.testing.assert_array_equal(loaded.transform(roll[:20]), found.transform(roll[:20]))
