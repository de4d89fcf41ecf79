import numpy as np
import pytest
from landmarks.contract import SelectorContract, check_voronoi, run
from point_sets import euclidean_squares, sheet

from ldmaps.errors import InvalidInputError
from ldmaps.landmarks import FixedLandmarks


class TestGivenContract(SelectorContract):
    is_random = False

    def make(self, n_points):
        return FixedLandmarks(list(range(0, n_points, max(1, min(6, n_points - 1)))))

    def make_all(self, n_points):
        return FixedLandmarks(list(range(n_points)))


def test_order_is_the_users():
    X = sheet(60, 0)
    order = [40, 3, 59, 0, 17]
    landmarks = run(FixedLandmarks(order), X)
    assert landmarks.indices.tolist() == order
    check_voronoi(landmarks, euclidean_squares(X), np.ones(60))


@pytest.mark.parametrize(
    "indices",
    [(1, 5, 9), range(1, 10, 4), np.array([1, 5, 9], dtype=np.uint8), np.array([1, 5, 9], dtype=np.int16)],
    ids=lambda indices: type(indices).__name__,
)
def test_any_array_of_integers_will_do(indices):
    assert run(FixedLandmarks(indices), sheet(20, 0)).indices.tolist() == [1, 5, 9]


@pytest.mark.parametrize(
    ("indices", "text"),
    [
        ([], r"at least 2 integers, got shape \(0,\) of float64"),
        ([3], r"at least 2 integers, got shape \(1,\) of int64"),
        (3, r"one-dimensional array of at least 2 integers, got shape \(\) of int64"),
        ([[0, 1], [2, 3]], r"got shape \(2, 2\)"),
        ([0.0, 1.0], r"got shape \(2,\) of float64"),
        ([True, False, True], r"got shape \(3,\) of bool"),
        (["a", "b"], r"integers, got shape \(2,\) of <U1"),
        ([0, 20], r"must lie in 0 … 19, got values from 0 to 20"),
        ([-1, 4], r"must lie in 0 … 19, got values from -1 to 4"),
        ([2, 7, 3, 7], r"must be different, but 7 is listed twice"),
    ],
)
def test_indices_that_do_not_fit(indices, text):
    with pytest.raises(InvalidInputError, match=text):
        run(FixedLandmarks(indices), sheet(20, 0))
