import subprocess
import sys

import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block
from scipy.spatial.distance import cdist

from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Euclidean
from ldmaps.metrics.euclidean import CANCELLATION_SHARE, MAX_COLUMN_FEATURES, ColumnPoints, RowPoints

WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8, 11, MAX_COLUMN_FEATURES, MAX_COLUMN_FEATURES + 1, 60, 200]


class EuclideanContract(MetricContract):
    n_features = 3

    def make_metric(self):
        return Euclidean()

    def make_data(self, n, rng):
        return rng.normal(size=(n, self.n_features))


class TestOneFeature(EuclideanContract):
    n_features = 1

    def make_narrow(self, data):
        return np.hstack([data, data])


class TestTwoFeatures(EuclideanContract):
    n_features = 2


class TestThreeFeatures(EuclideanContract):
    n_features = 3


class TestSevenFeatures(EuclideanContract):
    n_features = 7


class TestThirtyTwoFeatures(EuclideanContract):
    n_features = 32


class TestManyFeatures(EuclideanContract):
    n_features = 70
    cut_epsilons = 500.0  # products and differences take turns with the height of the tile


def exact(x, y):
    """Return d² in extended precision by plain differences."""
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    return ((x[:, np.newaxis] - y[np.newaxis]) ** 2).sum(axis=2)


def error_bound(n_features, dtype):
    dtype = np.dtype(dtype)
    unit_roundoff = np.finfo(dtype).eps / 2
    share = 1.0 if n_features <= MAX_COLUMN_FEATURES else CANCELLATION_SHARE[dtype]
    return (n_features + 8) * unit_roundoff / share


@pytest.mark.parametrize("n_features", WIDTHS)
def test_agrees_with_scipy(n_features):
    rng = np.random.default_rng(n_features)
    x, y = rng.normal(size=(40, n_features)), rng.normal(size=(2100, n_features))  # more than one panel
    metric = Euclidean()
    a, b = metric.prepare(x), metric.prepare(y)
    np.testing.assert_allclose(squared_block(metric, a, b), cdist(x, y, "sqeuclidean"), rtol=1e-11)


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", WIDTHS)
def test_relative_error_stays_within_the_stated_bound(n_features, dtype, offset):
    # Clusters, near copies and equal points, far from the origin: where |x|² + |y|² − 2 x·y goes wrong.
    rng = np.random.default_rng(n_features)
    centres = rng.normal(size=(6, n_features))
    scale = 10.0 ** rng.uniform(-7, 0, size=(60, 1))
    x = (
        offset + 1000 * (centres[rng.integers(6, size=60)] + scale * rng.normal(size=(60, n_features)))
    ).astype(dtype)
    y = np.vstack([x[::2], x[1::2] * dtype(1 + 1e-6)])
    metric = Euclidean()
    a, b = metric.prepare(x), metric.prepare(y)
    for rows in (slice(0, 60), slice(11, 12)):
        wanted = exact(x, y)[rows]
        error = np.abs(squared_block(metric, a, b, rows) - wanted)
        assert (error <= error_bound(n_features, dtype) * wanted).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", WIDTHS)
def test_equal_points_are_exactly_at_zero_whatever_the_offset(n_features, dtype):
    rng = np.random.default_rng(3)
    x = (1e8 + rng.normal(size=(30, n_features))).astype(dtype)
    y = x[rng.permutation(30)][:20]  # another mean, so another shift
    metric = Euclidean()
    squared = squared_block(metric, metric.prepare(x), metric.prepare(y))
    equal = (x[:, np.newaxis] == y[np.newaxis]).all(axis=2)
    assert (squared[equal] == 0).all()
    assert (squared >= 0).all()


@pytest.mark.parametrize("n_features", [1, 3, 20, 50])
def test_all_zero_rows_and_duplicates(n_features):
    x = np.zeros((6, n_features))
    x[4:] = 1.0
    metric = Euclidean()
    points = metric.prepare(x)
    label = np.array([0, 0, 0, 0, 1, 1])
    wanted = n_features * (label[:, np.newaxis] != label)
    squared = squared_block(metric, points, points)
    np.testing.assert_allclose(squared, wanted, rtol=1e-14)  # and so exactly 0 where 0 is wanted


@pytest.mark.parametrize("n_features", [3, 50])
def test_one_point_against_one(n_features):
    metric = Euclidean()
    a, b = metric.prepare(np.zeros((1, n_features))), metric.prepare(np.full((1, n_features), 2.0))
    assert squared_block(metric, a, b) == 4 * n_features


def test_layout_follows_the_number_of_features():
    assert isinstance(Euclidean().prepare(np.ones((2, MAX_COLUMN_FEATURES))), ColumnPoints)
    assert isinstance(Euclidean().prepare(np.ones((2, MAX_COLUMN_FEATURES + 1))), RowPoints)


@pytest.mark.parametrize("n_features", [3, 50])
def test_values_are_the_points_as_rows(n_features):
    x = np.random.default_rng(0).normal(size=(9, n_features))
    np.testing.assert_array_equal(Euclidean().prepare(x).values, x)


@pytest.mark.parametrize(("dtype", "large"), [(np.float32, 1e19), (np.float64, 1e160)])
@pytest.mark.parametrize("n_features", [3, 50])
def test_refuses_values_whose_squares_overflow(n_features, dtype, large):
    with pytest.raises(InvalidInputError, match="rescale"):
        Euclidean().prepare(np.full((3, n_features), large, dtype=dtype))


def test_accepts_many_large_values_whose_squares_do_not_overflow():
    x = np.full((4000, 3), 1e18, dtype=np.float32)  # the sum over all points overflows, no distance does
    x[0] *= -1
    metric = Euclidean()
    points = metric.prepare(x)
    np.testing.assert_allclose(squared_block(metric, points, points, slice(0, 1))[0, 1:], 12e36, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [3, 50])
def test_squares_at_the_edge_of_the_range_stay_finite(n_features, dtype):
    largest = np.sqrt(np.finfo(dtype).max / n_features) / 4 * (1 - 1e-6)
    x = np.full((8, n_features), largest, dtype=dtype)
    x[::2] *= -1
    metric = Euclidean()
    for y in (x, x[:1]):
        squared = squared_block(metric, metric.prepare(x), metric.prepare(y))
        np.testing.assert_allclose(squared, cdist(x.astype(float), y.astype(float), "sqeuclidean"), rtol=1e-4)


def test_accepts_integers():
    metric = Euclidean()
    points = metric.prepare(np.array([[0, 0], [3, 4]], dtype=np.int8))
    np.testing.assert_array_equal(squared_block(metric, points, points), [[0, 25], [25, 0]])


def test_import_does_not_load_what_other_metrics_need():
    code = "import sys, ldmaps.metrics; sys.exit('ot' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
