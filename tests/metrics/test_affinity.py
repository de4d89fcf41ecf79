import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block
from metrics.test_precomputed import distances

from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Affinity


def affinities(n, rng):
    return np.exp(-(distances(n, rng) ** 2) / 2)


class TestAffinity(MetricContract):
    takes_features = False
    zero_epsilons = 1.0
    single_tolerance = 1e-5

    def make_metric(self):
        return Affinity()

    def make_data(self, n, rng):
        return affinities(n, rng)

    def make_pair(self, n, m, rng, dtype=np.float64):
        metric = self.make_metric()
        points = metric.prepare(affinities(n + m, rng), dtype)
        return metric, points.take(slice(0, n)), points.take(slice(n, n + m))


@pytest.fixture
def matrix():
    return affinities(8, np.random.default_rng(1))


def test_the_kernel_at_1_is_the_affinity(matrix):
    metric = Affinity()
    points = metric.prepare(matrix)
    metric.check_training(points)
    np.testing.assert_allclose(np.exp(-squared_block(metric, points, points) / 2), matrix, rtol=1e-12)


def test_affinities_of_0_are_far_and_finite(matrix):
    matrix[0, 1] = matrix[1, 0] = 0.0
    squared = squared_block(Affinity(), *2 * [Affinity().prepare(matrix)])
    assert 100 < squared[0, 1] < 1000


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((2, 3), -0.1, r"from 0 to 1, but the one at \(2, 3\) is -0.1"),
        ((2, 3), 1.5, "from 0 to 1.*divide A_ij by sqrt"),
        ((4, 4), 0.5, r"to itself must be 1, but entry \(4, 4\) is 0.5"),
        ((2, 3), 0.9, r"must be symmetric, but \(2, 3\) is 0.9 and \(3, 2\) is"),
    ],
)
def test_what_is_no_affinity_is_refused(matrix, place, value, message):
    matrix[place] = value
    with pytest.raises(InvalidInputError, match=message):
        Affinity().check_training(Affinity().prepare(matrix))


def test_a_matrix_that_is_not_square_cannot_be_fitted(matrix):
    with pytest.raises(InvalidInputError, match="square matrix of affinities"):
        Affinity().check_training(Affinity().prepare(matrix[:3]))
