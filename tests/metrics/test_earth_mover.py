import sys

import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from ldmaps.errors import InvalidInputError, LdmapsError
from ldmaps.metrics import EarthMover
from ldmaps.metrics import earth_mover as module


class TestOnALine(MetricContract):
    def make_metric(self):
        return EarthMover()

    def make_data(self, n, rng):
        return rng.uniform(size=(n, 11))


class TestWithPositions(TestOnALine):
    def make_metric(self):
        return EarthMover(positions=np.arange(11) ** 1.5)

    def make_narrow(self, data):
        return None


class TestWithGroundDistance(MetricContract):
    cut_epsilons = 100.0

    def make_metric(self):
        pytest.importorskip("ot")
        places = np.random.default_rng(0).normal(size=(5, 2))
        return EarthMover(ground_distance=cdist(places, places))

    def make_data(self, n, rng):
        return rng.uniform(0.1, 1, size=(n, 5))

    def make_narrow(self, data):
        return None


def distances(metric, x, y, dtype=np.float64):
    return np.sqrt(squared_block(metric, metric.prepare(x, dtype), metric.prepare(y, dtype)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [2, 3, 4, 5, 6, 30])
def test_agrees_with_scipy(bins, dtype):
    rng = np.random.default_rng(bins)
    x, y = rng.poisson(2.0, size=(12, bins)) + 0.0, rng.poisson(2.0, size=(15, bins)) + 0.0
    x[:, 0] += 1  # no empty histogram
    y[:, -1] += 1
    positions = np.cumsum(rng.uniform(0.1, 2, size=bins)) - 3
    for given, used in ((None, np.arange(bins)), (positions, positions)):
        wanted = [[wasserstein_distance(used, used, u, v) for v in y] for u in x]
        atol = 1e-12 if dtype == np.float64 else 1e-5 * bins
        np.testing.assert_allclose(distances(EarthMover(given), x, y, dtype), wanted, rtol=0, atol=atol)


def test_transport_agrees_with_the_closed_form_on_a_line():
    pytest.importorskip("ot")
    rng = np.random.default_rng(5)
    positions = np.sort(rng.normal(size=8))
    x, y = rng.uniform(size=(6, 8)), rng.uniform(size=(7, 8))
    x[0, 3:] = 0
    ground = np.abs(positions[:, np.newaxis] - positions)
    np.testing.assert_allclose(
        distances(EarthMover(ground_distance=ground), x, y),
        distances(EarthMover(positions), x, y),
        atol=1e-12,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transport_agrees_with_pot(dtype):
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(6)
    places = rng.normal(size=(9, 3))
    ground = cdist(places, places)
    x, y = rng.dirichlet(np.ones(9), size=5), rng.dirichlet(np.ones(9), size=4)
    wanted = [[ot.emd2(u, v, ground) for v in y] for u in x]
    atol = 1e-12 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(distances(EarthMover(ground_distance=ground), x, y, dtype), wanted, atol=atol)


def test_only_shares_matter():
    rng = np.random.default_rng(7)
    x, y = rng.uniform(size=(5, 6)), rng.uniform(size=(5, 6))
    np.testing.assert_allclose(
        distances(EarthMover(), x * 1e8, y * 1e-8), distances(EarthMover(), x, y), rtol=1e-12, atol=1e-14
    )


def test_one_bin_leaves_nothing_to_move():
    assert distances(EarthMover(), [[2.0]], [[3.0]]) == 0


def test_unit_masses_are_as_far_apart_as_their_bins():
    positions = np.array([-1e8, 0.0, 0.5, 1e8])
    np.testing.assert_allclose(
        distances(EarthMover(positions), np.eye(4), np.eye(4)), np.abs(positions[:, np.newaxis] - positions)
    )


def test_triangle_inequality_is_promised_on_a_line_only():
    assert EarthMover().is_true_metric
    assert not EarthMover(ground_distance=np.zeros((2, 2))).is_true_metric


def test_only_transport_problems_are_slow():
    assert not EarthMover().is_slow
    assert not EarthMover(positions=[0.0, 1.0]).is_slow
    assert EarthMover(ground_distance=np.zeros((2, 2))).is_slow


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([[0.0, 2.0], [1.0, -2.0]], "bin 1 of row 1 holds -2"),
        ([[1.0, 2.0], [0.0, 0.0]], "row 1 sums to 0"),
        ([[1e308, 1e308]], "row 0 sums to inf"),
    ],
)
def test_refuses_what_is_no_histogram(data, message):
    with np.errstate(over="ignore"), pytest.raises(InvalidInputError, match=message):
        EarthMover().prepare(data)


@pytest.mark.parametrize("positions", [[0, 1], [0, 2, 1], [0, 1, 1], [0, 1, np.inf], [[0, 1, 2]], "abc"])
def test_refuses_bad_positions(positions):
    with pytest.raises(InvalidInputError, match="positions"):
        EarthMover(positions).prepare(np.ones((2, 3)))


@pytest.mark.parametrize(
    "ground",
    [
        np.zeros((3, 3)),
        np.zeros(2),
        [[0, -1], [-1, 0]],
        [[0, np.nan], [np.nan, 0]],
        [[0, 1], [2, 0]],
        [[1, 1], [1, 1]],
        "abc",
    ],
)
def test_refuses_a_bad_ground_distance(ground):
    with pytest.raises(InvalidInputError, match="ground_distance"):
        EarthMover(ground_distance=ground).prepare(np.ones((2, 2)))


def test_refuses_positions_and_ground_distance_at_once():
    with pytest.raises(InvalidInputError, match="not both"):
        EarthMover(positions=[0, 1], ground_distance=np.zeros((2, 2))).prepare(np.ones((2, 2)))


def test_says_what_to_install_when_the_solver_is_missing(monkeypatch):
    metric = EarthMover(ground_distance=np.array([[0.0, 1.0], [1.0, 0.0]]))
    points = metric.prepare(np.eye(2))
    module._transport_solver.cache_clear()
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(LdmapsError, match=r"pip install POT"):
        squared_block(metric, points, points)
