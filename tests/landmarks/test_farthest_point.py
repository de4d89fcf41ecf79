from itertools import combinations

import numpy as np
import pytest
from landmarks.contract import CountedSelectorContract, run
from point_sets import angles, euclidean_squares, periodic_squares, sheet

from ldmaps.landmarks import FarthestPoint
from ldmaps.metrics import Euclidean, Periodic


class TestFarthestPointContract(CountedSelectorContract):
    def make_counted(self, n_landmarks):
        return FarthestPoint(n_landmarks)


def naive_traversal(squares, start, count):
    chosen = [start]
    while len(chosen) < count:
        chosen.append(int(np.argmax(squares[:, chosen].min(axis=1))))
    return sorted(chosen)


@pytest.mark.parametrize(
    ("metric", "make", "oracle"),
    [(Euclidean(), sheet, euclidean_squares), (Periodic(), angles, periodic_squares)],
    ids=["euclidean", "periodic"],
)
@pytest.mark.parametrize("seed", range(4))
def test_landmarks_are_a_farthest_point_traversal(metric, make, oracle, seed):
    X = make(90, seed)
    squares = oracle(X)
    chosen = run(FarthestPoint(12), X, metric=metric, epsilon=1.0, seed=seed).indices.tolist()
    assert any(naive_traversal(squares, start, 12) == chosen for start in chosen)


@pytest.mark.parametrize("seed", range(4))
def test_covering_radius_is_within_twice_the_best(seed):
    X = sheet(16, seed)
    distances = np.sqrt(euclidean_squares(X))
    best = min(distances[:, list(subset)].min(axis=1).max() for subset in combinations(range(16), 4))
    landmarks = run(FarthestPoint(4), X, epsilon=1.0, seed=seed)
    radius = np.sqrt(landmarks.squared_radii.max())
    assert best <= radius * (1 + 1e-12)
    assert radius <= 2 * best


def test_landmarks_are_farther_apart_than_any_point_is_from_them():
    X = sheet(200, 3)
    landmarks = run(FarthestPoint(20), X)
    between = euclidean_squares(X[landmarks.indices])
    assert between[~np.eye(20, dtype=bool)].min() >= landmarks.squared_radii.max() * (1 - 1e-12)


def test_duplicates_come_last():
    X = sheet(15, 0)[np.random.default_rng(0).integers(15, size=80)]
    distinct = len(np.unique(X, axis=0))
    chosen = run(FarthestPoint(distinct), X, epsilon=1.0).indices
    assert len(np.unique(X[chosen], axis=0)) == distinct


def test_first_landmark_is_drawn_at_random():
    # On a line of three, the middle is a landmark of two only when it was the start.
    X = np.array([[0.0], [1.0], [2.2]])
    started_in_the_middle = sum(
        1 in run(FarthestPoint(2), X, epsilon=1.0, seed=seed).indices for seed in range(600)
    )
    assert abs(started_in_the_middle - 200) < 4 * np.sqrt(600 * 2 / 9)
