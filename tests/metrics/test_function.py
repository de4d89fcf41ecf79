import functools

import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block
from scipy.spatial.distance import cdist, cityblock
from sklearn.base import BaseEstimator, clone

from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Euclidean, Function


class TestFunction(MetricContract):
    def make_metric(self):
        return Function(cityblock)

    def make_data(self, n, rng):
        return rng.normal(size=(n, 4))

    def test_parameters_rebuild_the_metric(self, rng):
        metric = self.make_metric()
        assert metric.parameters() == {"reference": "scipy.spatial.distance:cityblock"}
        with pytest.raises(InvalidInputError, match=r"cityblock.*ldmaps\.load\(path, metric=function\)"):
            Function.from_parameters(metric.parameters())


@pytest.mark.parametrize("name", ["cityblock", "canberra", "chebyshev", "cosine"])
def test_agrees_with_scipy(name):
    from scipy.spatial import distance

    rng = np.random.default_rng(1)
    x, y = rng.uniform(size=(6, 3)), rng.uniform(size=(7, 3))
    metric = Function(getattr(distance, name))
    squared = squared_block(metric, metric.prepare(x), metric.prepare(y))
    np.testing.assert_allclose(squared, cdist(x, y, name) ** 2, rtol=1e-12)


def test_gets_the_rows_themselves():
    seen = []

    def first(x, y):
        seen.append((x.copy(), y.copy()))
        return 1

    metric = Function(first)
    points = metric.prepare([[1.0, 2.0], [3.0, 4.0]], np.float32)
    squared_block(metric, points, points, slice(1, 2), slice(0, 1))
    ((x, y),) = seen
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x, [3, 4])
    np.testing.assert_array_equal(y, [1, 2])


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1j, None, "near", [1.0, 2.0], 1e200])
def test_refuses_what_is_no_distance(value):
    metric = Function(lambda x, y: value if x[0] == 5 and y[0] == 2 else 1.0)
    points = metric.prepare(np.arange(6.0)[:, np.newaxis])
    with pytest.raises(InvalidInputError, match=r"points 5 and 2 .* returned") as caught:
        squared_block(metric, points, points, slice(4, 6), slice(1, 3))
    assert repr(value) in str(caught.value)


def test_a_function_cannot_change_the_points():
    def careless(x, y):
        x -= y
        return np.abs(x).sum()

    metric = Function(careless)
    points = metric.prepare([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ValueError, match="read-only"):
        squared_block(metric, points, points)


def test_errors_of_the_function_come_through():
    def broken(x, y):
        raise ZeroDivisionError("mine")

    metric = Function(broken)
    points = metric.prepare([[1.0]])
    with pytest.raises(ZeroDivisionError, match="mine"):
        squared_block(metric, points, points)


def test_refuses_what_cannot_be_called():
    with pytest.raises(InvalidInputError, match="callable"):
        Function("cityblock").prepare([[1.0]])


@pytest.mark.parametrize("make", [lambda: functools.partial(cityblock), lambda: lambda x, y: 0.0])
def test_names_any_callable(make):
    reference = Function(make()).parameters()["reference"]
    assert ":" in reference
    assert reference in repr(Function(make()))


def test_estimators_that_hold_it_can_be_cloned():
    class Estimator(BaseEstimator):
        def __init__(self, metric=None):
            self.metric = metric

    copied = clone(Estimator(Function(cityblock)))
    assert copied.metric.function is cityblock


def test_is_slow():
    assert Function(max).is_slow
    assert not Euclidean().is_slow
