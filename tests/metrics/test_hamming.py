import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block
from scipy.spatial.distance import cdist

from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Hamming


class TestHamming(MetricContract):
    def make_metric(self):
        return Hamming()

    def make_data(self, n, rng):
        return rng.integers(0, 3, size=(n, 9)).astype(float)


class TestOneFeature(TestHamming):
    def make_data(self, n, rng):
        return np.arange(n, dtype=float)[:, np.newaxis]

    def make_narrow(self, data):
        return np.hstack([data, data])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 5, 64, 257])
def test_agrees_with_scipy(n_features, dtype):
    rng = np.random.default_rng(n_features)
    x = rng.integers(-2, 3, size=(30, n_features)) / 2
    y = rng.integers(-2, 3, size=(2100, n_features)) / 2
    metric = Hamming()
    squared = squared_block(metric, metric.prepare(x, dtype), metric.prepare(y, dtype))
    np.testing.assert_allclose(np.sqrt(squared), cdist(x, y, "hamming"), rtol=4 * np.finfo(dtype).eps)


def test_reaches_one_exactly_when_everything_differs():
    metric = Hamming()
    for n_features in (3, 7, 49, 103):
        a, b = metric.prepare(np.zeros((1, n_features))), metric.prepare(np.ones((1, n_features)))
        assert squared_block(metric, a, b) == 1


def test_signed_zeros_are_equal_and_tiny_differences_are_not():
    metric = Hamming()
    a = metric.prepare([[0.0, 1.0, 1e8]])
    b = metric.prepare([[-0.0, np.nextafter(1.0, 2.0), 1e8]])
    np.testing.assert_allclose(squared_block(metric, a, b), 1 / 9)


def test_takes_bits():
    metric = Hamming()
    points = metric.prepare(np.array([[True, False], [True, True]]))
    np.testing.assert_array_equal(squared_block(metric, points, points), [[0, 0.25], [0.25, 0]])


@pytest.mark.parametrize(
    ("dtype", "large"), [(np.float32, 2**24 + 1), (np.float64, 2**53 + 1), (None, -(2**63))]
)
def test_refuses_integers_that_would_be_taken_for_equal(dtype, large):
    with pytest.raises(InvalidInputError, match="distinguished"):
        Hamming().prepare(np.array([[large, 0]]), dtype)
