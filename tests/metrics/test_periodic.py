import math

import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block
from scipy.spatial.distance import cdist

from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Periodic


class TestPeriodic(MetricContract):
    def make_metric(self):
        return Periodic()

    def make_data(self, n, rng):
        return rng.uniform(-4, 4, size=(n, 3))


class TestOnePeriodEach(MetricContract):
    def make_metric(self):
        return Periodic(period=[360.0, 1.0, 7.0, 2.5])

    def make_data(self, n, rng):
        return rng.uniform(-500, 500, size=(n, 4))

    def make_narrow(self, data):
        return None


def naive(x, y, period):
    """Return Σ of squared minimal images by trying the nearest shifts of every difference."""
    period = np.broadcast_to(period, x.shape[1])
    out = np.empty((len(x), len(y)))
    for i, u in enumerate(x):
        for j, v in enumerate(y):
            total = 0.0
            for s, t, p in zip(u, v, period, strict=True):
                nearest = round((s - t) / p)
                total += min(abs(s - t - p * k) for k in (nearest - 1, nearest, nearest + 1)) ** 2
            out[i, j] = total
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("period", [2 * math.pi, 360.0, np.array([1.0, 2.0, 3.0, 0.25, 7.0])])
@pytest.mark.parametrize("spread", [0.1, 3.0, 1e4])
def test_agrees_with_a_naive_loop(period, spread, dtype):
    rng = np.random.default_rng(1)
    x, y = (rng.uniform(-spread, spread, size=(n, 5)).astype(dtype) for n in (13, 17))
    metric = Periodic(period)
    squared = squared_block(metric, metric.prepare(x), metric.prepare(y))
    wanted = naive(x.astype(float), y.astype(float), period)
    np.testing.assert_allclose(squared, wanted, rtol=1e-9 if dtype == np.float64 else 2e-4, atol=1e-12)


def test_equals_euclidean_for_small_angles_to_the_last_digits():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1.5, 1.5, size=(20, 6)) * 10.0 ** rng.uniform(-9, 0, size=(20, 1))
    metric = Periodic()
    points = metric.prepare(x)
    np.testing.assert_allclose(squared_block(metric, points, points), cdist(x, x, "sqeuclidean"), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_full_turns_change_nothing(dtype):
    # A period that is a power of two, so that turns are exact in floating point.
    rng = np.random.default_rng(3)
    x = rng.integers(-512, 512, size=(10, 3)) / 256
    y = x + 4.0 * rng.integers(-1000, 1000, size=x.shape)
    metric = Periodic(period=4.0)
    a, b = metric.prepare(x.astype(dtype)), metric.prepare(y.astype(dtype))
    np.testing.assert_array_equal(squared_block(metric, a, b), squared_block(metric, a, a))
    assert (squared_block(metric, a, b).diagonal() == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_opposite_ends_of_the_range_are_neighbours(dtype):
    metric = Periodic()
    ends = np.array([[np.pi], [-np.pi], [3 * np.pi], [np.nextafter(np.pi, 0)]], dtype=dtype)
    points = metric.prepare(ends)
    assert squared_block(metric, points, points).max() <= (12 * np.finfo(dtype).eps) ** 2


def test_no_distance_exceeds_half_a_period():
    x = np.random.default_rng(4).uniform(-1e6, 1e6, size=(200, 1))
    metric = Periodic(period=10.0)
    points = metric.prepare(x)
    assert squared_block(metric, points, points).max() <= 25.0


def test_huge_offset_keeps_the_digits_the_data_have():
    x = 1e8 + np.array([[0.0], [0.25], [3.75]])
    metric = Periodic(period=4.0)
    points = metric.prepare(x)
    np.testing.assert_array_equal(
        squared_block(metric, points, points),
        np.array([[0, 0.25, 0.25], [0.25, 0, 0.5], [0.25, 0.5, 0]]) ** 2,
    )


@pytest.mark.parametrize(
    "period", [0.0, -1.0, np.inf, np.nan, [1.0, 2.0], [[1.0, 1.0, 1.0]], [1.0, 0.0, 1.0], "turn", None]
)
def test_refuses_a_bad_period(period):
    with pytest.raises(InvalidInputError, match="period"):
        Periodic(period).prepare(np.zeros((2, 3)))
