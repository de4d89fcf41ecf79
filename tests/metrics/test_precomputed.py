import pickle

import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block
from scipy.spatial.distance import cdist

from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Precomputed


def distances(n, rng):
    x = rng.normal(size=(n, 3))
    return cdist(x, x)


class TestPrecomputed(MetricContract):
    takes_features = False
    single_tolerance = 1e-6

    def make_metric(self):
        return Precomputed()

    def make_data(self, n, rng):
        return distances(n, rng)

    def make_pair(self, n, m, rng, dtype=np.float64):
        metric = self.make_metric()
        points = metric.prepare(distances(n + m, rng), dtype)
        return metric, points.take(slice(0, n)), points.take(slice(n, n + m))

    def test_points_do_not_follow_later_changes_of_the_input(self, rng):
        pytest.skip("the matrix is large and documented not to be copied")


@pytest.fixture
def matrix():
    return distances(8, np.random.default_rng(1))


def test_looks_distances_up(matrix):
    metric = Precomputed()
    points = metric.prepare(matrix)
    metric.check_training(points)
    np.testing.assert_array_equal(squared_block(metric, points, points), matrix**2)


def test_new_points_against_training_points(matrix):
    metric = Precomputed()
    landmarks = metric.prepare(matrix).take(np.array([5, 0, 2]))
    new = np.arange(16.0).reshape(2, 8)
    points = metric.prepare(new)
    metric.check_compatible(points, landmarks)
    np.testing.assert_array_equal(squared_block(metric, points, landmarks), new[:, [5, 0, 2]] ** 2)
    np.testing.assert_array_equal(
        squared_block(metric, points, landmarks, slice(1, 2), slice(1, 3)), new[1:, [0, 2]] ** 2
    )


def test_new_points_against_landmarks_only(matrix):
    metric = Precomputed()
    landmarks = metric.prepare(matrix).take(np.array([5, 0, 2]))
    for n_new in (1, 2, 3):  # three of them are square, and still mean the landmarks
        new = np.arange(3.0 * n_new).reshape(n_new, 3)
        points = metric.prepare(new)
        metric.check_compatible(points, landmarks)
        np.testing.assert_array_equal(squared_block(metric, points, landmarks), new**2)
        np.testing.assert_array_equal(
            squared_block(metric, points, landmarks, slice(0, 1), slice(1, 3)), new[:1, 1:] ** 2
        )


def test_all_training_points_as_landmarks_in_another_order(matrix):
    metric = Precomputed()
    order = np.array([3, 1, 0, 2, 7, 6, 5, 4])
    landmarks = metric.prepare(matrix).take(order)
    new = np.arange(8.0)[np.newaxis]
    np.testing.assert_array_equal(squared_block(metric, metric.prepare(new), landmarks)[0], order**2.0)


def test_model_file_holds_ids_only(matrix):
    metric = Precomputed()
    arrays = metric.export_points(metric.prepare(matrix).take(np.array([5, 0, 2])))
    assert sum(array.size for array in arrays.values()) == 4
    landmarks = metric.import_points(arrays)
    new = metric.prepare(np.arange(8.0)[np.newaxis])
    metric.check_compatible(new, landmarks)
    np.testing.assert_array_equal(squared_block(metric, new, landmarks), [[25, 0, 4]])
    with pytest.raises(InvalidInputError, match="model file"):
        metric.check_compatible(landmarks, landmarks)
    with pytest.raises(InvalidInputError, match="square matrix"):
        metric.check_training(landmarks)


def test_refuses_ids_that_are_no_training_points(matrix):
    metric = Precomputed()
    arrays = metric.export_points(metric.prepare(matrix))
    with pytest.raises(InvalidInputError, match="below 8"):
        metric.import_points(arrays | {"ids": arrays["ids"] + 1})


def test_pickled_landmarks_leave_the_other_distances_behind():
    matrix = distances(300, np.random.default_rng(2))
    metric = Precomputed()
    landmarks = metric.prepare(matrix).take(np.array([250, 7]))
    data = pickle.dumps(landmarks)
    assert len(data) < matrix.nbytes / 50
    back = pickle.loads(data)
    np.testing.assert_array_equal(
        squared_block(metric, back, back), squared_block(metric, landmarks, landmarks)
    )


@pytest.mark.parametrize("n_columns", [2, 4, 7, 9])
def test_refuses_a_wrong_number_of_columns(matrix, n_columns):
    metric = Precomputed()
    landmarks = metric.prepare(matrix).take(np.array([5, 0, 2]))
    with pytest.raises(
        InvalidInputError, match=rf"8 training points, or only the 3 landmarks.*got {n_columns} col"
    ):
        metric.check_compatible(metric.prepare(np.ones((1, n_columns))), landmarks)


def test_refuses_new_points_on_the_right(matrix):
    metric = Precomputed()
    new = metric.prepare(np.ones((2, 8)))
    with pytest.raises(InvalidInputError, match="not known"):
        metric.check_compatible(metric.prepare(matrix), new)
    with pytest.raises(InvalidInputError, match="not training points"):
        metric.export_points(new)


def test_refuses_negative_and_overflowing_distances():
    with pytest.raises(InvalidInputError, match=r"\(0, 1\) is -2"):
        Precomputed().prepare([[0.0, -2.0], [-2.0, 0.0]])
    with pytest.raises(InvalidInputError, match="overflow float32"):
        Precomputed().prepare([[0.0, 1e25], [1e25, 0.0]], np.float32)


def test_check_training_wants_a_square(matrix):
    metric = Precomputed()
    with pytest.raises(InvalidInputError, match=r"got shape \(5, 8\)"):
        metric.check_training(metric.prepare(matrix[:5]))


@pytest.mark.parametrize("n", [8, 600])  # within one and across several strips of rows
def test_check_training_wants_symmetry(n):
    matrix = distances(n, np.random.default_rng(3))
    matrix[n - 2, 1] += 0.1
    with pytest.raises(InvalidInputError, match=rf"symmetric, but \(1, {n - 2}\)"):
        Precomputed().check_training(Precomputed().prepare(matrix))


def test_check_training_wants_a_zero_diagonal(matrix):
    similarity = np.exp(-(matrix**2))
    with pytest.raises(InvalidInputError, match="itself must be 0"):
        Precomputed().check_training(Precomputed().prepare(similarity))


def test_check_training_forgives_single_precision_noise(matrix):
    rng = np.random.default_rng(4)
    squared = matrix**2
    noisy = np.sqrt(np.abs(squared + 1e-7 * squared.max() * rng.normal(size=squared.shape)))
    Precomputed().check_training(Precomputed().prepare(noisy.astype(np.float32)))


def test_all_points_identical():
    metric = Precomputed()
    points = metric.prepare(np.zeros((3, 3)))
    metric.check_training(points)
    assert not squared_block(metric, points, points).any()


def test_is_not_copied(matrix):
    points = Precomputed().prepare(matrix)
    assert np.shares_memory(points.matrix, matrix)
    assert np.shares_memory(points.take(np.array([1, 2])).matrix, matrix)
