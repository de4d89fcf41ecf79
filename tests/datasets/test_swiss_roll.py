import numpy as np
import pytest

from ldmaps.datasets import SwissRoll, swiss_roll
from ldmaps.errors import InvalidInputError


def test_default_is_the_isomap_set():
    roll = swiss_roll()
    assert isinstance(roll, SwissRoll)
    assert len(roll) == 20_000
    assert roll.points.shape == (20_000, 3)
    assert roll.points.dtype == roll.position.dtype == roll.height.dtype == np.float64
    # 20,000 uniform draws leave gaps of about 1/20,000 at the ends of their interval.
    for values, low, high in ((roll.position, 1.5 * np.pi, 4.5 * np.pi), (roll.height, 0.0, 21.0)):
        assert low <= values.min() < low + 1e-3 * (high - low)
        assert high - 1e-3 * (high - low) < values.max() < high


def test_points_lie_on_the_roll():
    roll = swiss_roll(500)
    x, h, y = roll.points.T
    np.testing.assert_allclose(np.hypot(x, y), roll.position, rtol=1e-13)
    np.testing.assert_allclose(np.cos(roll.position) * np.hypot(x, y), x, atol=1e-12)
    np.testing.assert_array_equal(h, roll.height)


def test_position_and_height_are_uniform_and_independent():
    roll = swiss_roll(20_000)
    u = (roll.position / (1.5 * np.pi) - 1) / 2
    v = roll.height / 21
    counts, *_ = np.histogram2d(u, v, bins=10, range=[[0, 1], [0, 1]])
    # 100 cells of 200 points: chi-squared with 99 degrees of freedom, mean 99, deviation 14.
    assert ((counts - 200) ** 2 / 200).sum() < 99 + 4 * 14


def test_seed_decides_the_points():
    np.testing.assert_array_equal(
        swiss_roll(50, random_state=3).points, swiss_roll(50, random_state=3).points
    )
    assert not np.array_equal(swiss_roll(50, random_state=3).points, swiss_roll(50, random_state=4).points)
    assert not np.array_equal(
        swiss_roll(50, random_state=None).points, swiss_roll(50, random_state=None).points
    )


def test_generator_is_drawn_from():
    rng = np.random.default_rng(3)
    first, second = swiss_roll(50, random_state=rng), swiss_roll(50, random_state=rng)
    np.testing.assert_array_equal(first.points, swiss_roll(50, random_state=3).points)
    assert not np.array_equal(first.points, second.points)


def test_global_seed_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    swiss_roll(10, noise=0.1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_smaller_set_begins_a_larger_one():
    np.testing.assert_array_equal(swiss_roll(100).points, swiss_roll(1000).points[:100])


def test_noise_has_the_asked_for_deviation_and_keeps_the_coordinates():
    clean, noisy = swiss_roll(5000), swiss_roll(5000, noise=0.2)
    np.testing.assert_array_equal(clean.position, noisy.position)
    np.testing.assert_array_equal(clean.height, noisy.height)
    np.testing.assert_allclose((noisy.points - clean.points).std(axis=0), 0.2, rtol=0.05)


def test_arc_length_is_the_length_of_the_spiral():
    roll = swiss_roll(200)
    t = np.linspace(1.5 * np.pi, 4.5 * np.pi, 200_001)
    steps = np.hypot(np.diff(t * np.cos(t)), np.diff(t * np.sin(t)))
    walked = np.concatenate([[0], np.cumsum(steps)])
    np.testing.assert_allclose(roll.arc_length, np.interp(roll.position, t, walked), atol=1e-6)


def test_unrolling_keeps_short_distances():
    roll = swiss_roll(20_000)
    order = np.argsort(roll.position)
    flat = np.linalg.norm(np.diff(roll.unrolled[order], axis=0), axis=1)
    rolled = np.linalg.norm(np.diff(roll.points[order], axis=0), axis=1)
    np.testing.assert_allclose(rolled, flat, rtol=1e-5)


@pytest.mark.parametrize("n_points", [0, -1, 2.5, True, "many", None])
def test_number_of_points_is_checked(n_points):
    with pytest.raises(InvalidInputError, match="n_points must be a whole number of at least 1"):
        swiss_roll(n_points)


@pytest.mark.parametrize("noise", [-0.1, np.nan, np.inf, "loud", None])
def test_noise_is_checked(noise):
    with pytest.raises(InvalidInputError, match="noise must be a finite number that is not negative"):
        swiss_roll(10, noise=noise)


def test_fields_cannot_be_reassigned():
    with pytest.raises(AttributeError):
        swiss_roll(3).points = np.zeros((3, 3))
