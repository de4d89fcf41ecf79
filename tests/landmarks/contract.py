"""The suite every landmark selector must pass.

Subclass :class:`SelectorContract` in a test file, say how the selector is made, and
pytest runs all of it. What is checked is what the rest of the library relies on, not
whether the landmarks are good ones: that is for each selector's own tests.
"""

import numpy as np
import pytest
from point_sets import angles, euclidean_squares, periodic_squares, sheet, smallest_connecting_epsilon

from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.landmarks import Landmarks
from ldmaps.metrics import Euclidean, Periodic

#: Far above the rounding of a few additions, far below any difference between points of the data sets.
ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}


def run(selector, X, *, metric=None, epsilon=None, weights=None, seed=0, n_threads=None, squares=None):
    """Select landmarks among raw points, at the connected ε unless told otherwise."""
    metric = Euclidean() if metric is None else metric
    points = metric.prepare(X)
    if epsilon is None:
        squares = euclidean_squares(X) if squares is None else squares
        # A little above, so that float32 rounding of d² cannot disconnect the data.
        epsilon = smallest_connecting_epsilon(squares) * (1 + 1e-5) + 1e-12
    weights = np.ones(len(X)) if weights is None else weights
    walk = Walk(metric, points, weights, epsilon, n_threads=n_threads)
    return selector.select(walk, np.random.default_rng(seed))


def check_voronoi(landmarks, squares, weights, rounding=1e-12):
    """Hold indices, cells and multiplicities against the naive definition (eqns clustering, ldmap_mult)."""
    assert isinstance(landmarks, Landmarks)
    n = len(squares)
    indices, assignment = landmarks.indices, landmarks.assignment
    count = len(indices)
    assert indices.dtype == assignment.dtype == np.intp
    assert indices.shape == landmarks.multiplicities.shape == (count,)
    assert assignment.shape == landmarks.squared_distances.shape == (n,)
    assert 2 <= count <= n
    assert len(set(indices.tolist())) == count
    assert indices.min() >= 0
    assert indices.max() < n
    assert assignment.min() >= 0
    assert assignment.max() < count

    np.testing.assert_array_equal(assignment[indices], np.arange(count), "a landmark is not in its own cell")
    assert (landmarks.squared_distances[indices] == 0).all()

    to_landmarks = squares[:, indices]
    room = rounding * squares.max()
    own = to_landmarks[np.arange(n), assignment]
    np.testing.assert_array_less(own, to_landmarks.min(axis=1) + room + 1e-300)
    np.testing.assert_allclose(landmarks.squared_distances, own, rtol=0, atol=room)
    for point in np.setdiff1d(np.arange(n), indices):
        # Of landmarks clearly as near as each other (coinciding ones in these data) the first has it.
        assert assignment[point] == np.flatnonzero(to_landmarks[point] <= own[point])[0]

    naive = [weights[[j for j in range(n) if assignment[j] == cell]].sum() for cell in range(count)]
    np.testing.assert_allclose(landmarks.multiplicities, naive, rtol=1e-12)
    assert (landmarks.multiplicities > 0).all()
    np.testing.assert_allclose(landmarks.multiplicities.sum(), weights.sum(), rtol=1e-12)
    radii = [landmarks.squared_distances[assignment == cell].max() for cell in range(count)]
    np.testing.assert_array_equal(landmarks.squared_radii, radii)


def same(first, second):
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("indices", "multiplicities", "assignment", "squared_distances")
    )


class SelectorContract:
    """Subclass, and override what differs."""

    #: Whether another seed may give other landmarks.
    is_random = True

    def make(self, n_points):
        """Return the selector for a data set of so many points, with far fewer landmarks where it can choose."""
        raise NotImplementedError

    def make_all(self, n_points):
        """Return the selector that takes every point, or None when it cannot be told to."""
        raise NotImplementedError

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("seed", range(3))
    def test_cells_are_voronoi_cells(self, seed, dtype):
        X = sheet(150, seed, dtype)
        landmarks = run(self.make(150), X, seed=seed)
        check_voronoi(landmarks, euclidean_squares(X), np.ones(150), ROUNDING[np.dtype(dtype)])

    def test_cells_are_voronoi_cells_of_another_metric(self):
        X = angles(120, 1)
        squares = periodic_squares(X)
        landmarks = run(self.make(120), X, metric=Periodic(), squares=squares)
        check_voronoi(landmarks, squares, np.ones(120))
        # The check would tell the metrics apart.
        assert not np.array_equal(
            landmarks.assignment, euclidean_squares(X)[:, landmarks.indices].argmin(axis=1)
        )

    def test_indices_are_sorted(self):
        landmarks = run(self.make(150), sheet(150, 4))
        assert (np.diff(landmarks.indices) > 0).all()

    def test_real_valued_weights_are_carried_to_the_multiplicities(self):
        X = sheet(120, 2)
        weights = np.random.default_rng(2).gamma(0.7, size=120) + 1e-3
        landmarks = run(self.make(120), X, weights=weights)
        check_voronoi(landmarks, euclidean_squares(X), weights)

    def test_scale_of_the_weights_scales_the_multiplicities_alone(self):
        X = sheet(120, 3)
        weights = np.random.default_rng(3).random(120) + 0.1
        once, often = (run(self.make(120), X, weights=factor * weights) for factor in (1.0, 1024.0))
        np.testing.assert_array_equal(often.indices, once.indices)
        np.testing.assert_allclose(often.multiplicities, 1024.0 * once.multiplicities, rtol=1e-13)

    @pytest.mark.parametrize("seed", range(3))
    def test_duplicated_points_leave_no_cell_empty(self, seed):
        rng = np.random.default_rng(seed)
        X = sheet(40, seed)[rng.integers(40, size=130)]
        landmarks = run(self.make(130), X, seed=seed)
        check_voronoi(landmarks, euclidean_squares(X), np.ones(130))

    def test_points_that_nearly_all_coincide(self):
        X = np.zeros((30, 2))
        X[7] = [1.0, 0.0]
        landmarks = run(self.make(30), X, epsilon=1.0)
        check_voronoi(landmarks, euclidean_squares(X), np.ones(30))

    def test_points_that_all_coincide(self):
        landmarks = run(self.make(20), np.ones((20, 2)), epsilon=1.0)
        check_voronoi(landmarks, np.zeros((20, 20)), np.ones(20))

    @pytest.mark.parametrize("seed", range(3))
    def test_ties_on_a_lattice_go_to_the_first_landmark(self, seed):
        X = np.stack(np.meshgrid(np.arange(11.0), np.arange(9.0)), axis=-1).reshape(-1, 2)
        landmarks = run(self.make(len(X)), X, epsilon=1.0, seed=seed)
        check_voronoi(landmarks, euclidean_squares(X), np.ones(len(X)))

    @pytest.mark.parametrize("n", [2, 3, 4])
    def test_smallest_data_sets(self, n):
        X = np.arange(float(n))[:, None]
        landmarks = run(self.make(n), X, epsilon=1.0)
        check_voronoi(landmarks, euclidean_squares(X), np.ones(n))

    def test_every_point_a_landmark(self):
        selector = self.make_all(50)
        if selector is None:
            pytest.skip("the selector fixes the number of landmarks itself")
        weights = np.random.default_rng(0).random(50) + 0.5
        landmarks = run(selector, sheet(50, 0), weights=weights)
        np.testing.assert_array_equal(landmarks.indices, np.arange(50))
        np.testing.assert_array_equal(landmarks.assignment, np.arange(50))
        np.testing.assert_array_equal(landmarks.multiplicities, weights)

    def test_same_seed_gives_the_same_landmarks(self):
        X = sheet(150, 5)
        assert same(run(self.make(150), X, seed=9), run(self.make(150), X, seed=9))

    def test_selector_may_be_used_again(self):
        X = sheet(150, 5)
        selector = self.make(150)
        settings = dict(vars(selector))
        assert same(run(selector, X, seed=9), run(selector, X, seed=9))
        assert vars(selector) == settings

    def test_seed_matters(self):
        X = sheet(150, 5)
        chosen = {tuple(run(self.make(150), X, seed=seed).indices) for seed in range(4)}
        assert len(chosen) == 4 if self.is_random else len(chosen) == 1

    @pytest.mark.parametrize("n_threads", [2, 5])
    def test_threads_do_not_matter(self, n_threads, monkeypatch):
        # Tiles of a few rows, so that there is work for every thread.
        monkeypatch.setattr("ldmaps.threads.MAX_TILE_ROWS", 7)
        X = sheet(150, 6)
        alone = run(self.make(150), X, seed=1, n_threads=1)
        assert same(alone, run(self.make(150), X, seed=1, n_threads=n_threads))

    def test_input_is_left_alone(self):
        X = sheet(100, 7)
        weights = np.random.default_rng(7).random(100) + 0.5
        kept_X, kept_weights = X.copy(), weights.copy()
        run(self.make(100), X, weights=weights)
        np.testing.assert_array_equal(X, kept_X)
        np.testing.assert_array_equal(weights, kept_weights)

    def test_shown_as_it_is_made(self):
        selector = self.make(50)
        shown = repr(selector)
        assert shown.startswith(type(selector).__name__ + "(")
        for setting, value in vars(selector).items():
            assert f"{setting}={value!r}" in shown


class CountedSelectorContract(SelectorContract):
    """For selectors whose number of landmarks is a setting."""

    def make_counted(self, n_landmarks):
        raise NotImplementedError

    def make(self, n_points):
        return self.make_counted(max(2, n_points // 6))

    def make_all(self, n_points):
        return self.make_counted(n_points)

    @pytest.mark.parametrize("count", [2, 3, 10, 49, 50])
    def test_as_many_as_asked(self, count):
        assert len(run(self.make_counted(count), sheet(50, 8)).indices) == count

    def test_whole_floats_and_numpy_integers_count(self):
        X = sheet(50, 8)
        expected = run(self.make_counted(10), X)
        for count in (10.0, np.int32(10), np.float64(10)):
            assert same(run(self.make_counted(count), X), expected)

    @pytest.mark.parametrize("count", [1, 0, -3, 2.5, True, float("nan"), float("inf"), "many", "10", [10]])
    def test_numbers_that_are_none(self, count):
        with pytest.raises(
            InvalidInputError, match=r"n_landmarks must be a whole number of at least 2, got "
        ) as caught:
            run(self.make_counted(count), sheet(50, 8))
        assert repr(count) in str(caught.value)

    def test_more_landmarks_than_points(self):
        with pytest.raises(
            InvalidInputError, match=r"n_landmarks=51 is more than the 50 points .*ask for at most 50"
        ):
            run(self.make_counted(51), sheet(50, 8))

    def test_number_left_open(self):
        with pytest.raises(InvalidInputError, match="n_landmarks is not set; say how many"):
            run(self.make_counted(None), sheet(50, 8))
