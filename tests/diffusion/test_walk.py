import pickle

import numpy as np
import pytest
from point_sets import (
    angles,
    blobs,
    component_labels,
    euclidean_squares,
    is_one_component,
    periodic_squares,
    sheet,
    smallest_connecting_epsilon,
)
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.csgraph import minimum_spanning_tree as scipy_tree

from ldmaps.diffusion.solver_choice import sparse_squares
from ldmaps.diffusion.walk import (
    REACH,
    Walk,
    all_within_hops,
    groups_in,
    is_connected,
    landmark_groups,
    minimum_spanning_tree,
    stored_spanning_tree,
)
from ldmaps.landmarks import FarthestPoint, KMedoids, Uniform
from ldmaps.metrics import Euclidean, Periodic, Precomputed
from ldmaps.metrics.base import squared_matrix
from ldmaps.metrics.precomputed import StoredPoints, StoredSquares

METRICS = {
    "euclidean": (Euclidean(), sheet, euclidean_squares),
    "periodic": (Periodic(), angles, periodic_squares),
}


def tree_of(X, metric=None):
    metric = Euclidean() if metric is None else metric
    return minimum_spanning_tree(metric, metric.prepare(X))


# -- the tree -----------------------------------------------------------------------


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("n", [2, 3, 40, 300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tree_is_scipys(name, n, dtype):
    metric, make, oracle = METRICS[name]
    X = make(n, 1, dtype)
    tree = tree_of(X, metric)
    squares = oracle(X)
    expected = scipy_tree(np.sqrt(squares)).data
    rtol = 1e-9 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(np.sort(np.sqrt(tree.squares)), np.sort(expected), rtol=rtol, atol=rtol * 1e-2)
    assert np.sqrt(tree.squares).sum() == pytest.approx(expected.sum(), rel=rtol)
    assert tree.connecting_epsilon == pytest.approx(expected.max() ** 2, rel=rtol)
    # It is a tree over all points, and each edge is as long as its ends are apart.
    assert tree.ends.shape == (n - 1, 2)
    adjacency = np.full((n, n), np.inf)
    adjacency[tree.ends[:, 0], tree.ends[:, 1]] = 0.0
    assert is_one_component(adjacency, 1.0)
    np.testing.assert_allclose(tree.squares, squares[tree.ends[:, 0], tree.ends[:, 1]], rtol=1e-3, atol=1e-6)


def test_longest_edge_is_the_smallest_epsilon_that_connects():
    for seed in range(6):
        X = sheet(120, seed)
        squares = squared_matrix(Euclidean(), Euclidean().prepare(X))
        joining = tree_of(X).connecting_epsilon
        assert joining == pytest.approx(smallest_connecting_epsilon(euclidean_squares(X)), rel=1e-12)
        assert is_one_component(squares, joining)
        assert not is_one_component(squares, np.nextafter(joining, 0))


def test_joining_epsilon_allows_the_deciding_edge_in_both_directions():
    # Distances that round differently either way, as those of matrix products do.
    X = sheet(80, 3)
    distances = np.sqrt(euclidean_squares(X))
    distances *= 1 + 1e-7 * np.random.default_rng(0).standard_normal((80, 80))
    metric = Precomputed()
    tree = minimum_spanning_tree(metric, metric.prepare(distances))
    squares = distances**2
    assert is_one_component(np.maximum(squares, squares.T), tree.connecting_epsilon)


def test_points_that_coincide_have_edges_of_length_zero():
    X = np.repeat(sheet(10, 0), 12, axis=0)
    tree = tree_of(X)
    assert np.count_nonzero(tree.squares == 0) == 110
    assert tree_of(np.ones((70, 2))).connecting_epsilon == 0.0


def test_single_point_is_connected():
    tree = tree_of(np.zeros((1, 2)))
    assert tree.ends.shape == (0, 2)
    assert tree.connecting_epsilon == 0.0
    assert tree.component_sizes(1.0).tolist() == [1]


def test_tree_of_a_kept_matrix_is_that_of_the_points():
    X = sheet(150, 2)
    squares = squared_matrix(Euclidean(), Euclidean().prepare(X))
    kept = minimum_spanning_tree(StoredSquares(), StoredPoints(squares))
    np.testing.assert_array_equal(kept.ends, tree_of(X).ends)
    np.testing.assert_array_equal(kept.squares, tree_of(X).squares)


# -- components ------------------------------------------------------------------------


@pytest.mark.parametrize("name", METRICS)
def test_component_sizes_are_scipys_at_every_epsilon(name):
    metric, make, oracle = METRICS[name]
    X = make(150, 5)
    tree, squares = tree_of(X, metric), oracle(X)
    counts = set()
    for epsilon in np.geomspace(tree.squares.min() / 2, 2 * tree.connecting_epsilon, 40):
        sizes = tree.component_sizes(epsilon)
        expected = np.sort(np.bincount(component_labels(squares, epsilon)))[::-1]
        np.testing.assert_array_equal(sizes, expected)
        counts.add(len(sizes))
    assert {1, 150} < counts
    assert len(counts) > 10


@pytest.mark.parametrize("kind", ["dense", "sparse", "precise", "single"])
def test_is_connected_agrees_with_scipy_at_every_epsilon(kind):
    metric = Euclidean()
    X = sheet(120, 6, np.float32 if kind == "single" else np.float64)
    points = metric.prepare(X)
    connecting = tree_of(X).connecting_epsilon
    dense = squared_matrix(metric, points)
    squares = sparse_squares(metric, points, connecting) if kind in ("sparse", "single") else dense
    if kind == "precise":
        squares = csr_array(dense + 1.0)
        squares.data -= 1.0  # zeros stay stored
    answers = []
    for factor in (0.01, 0.3, 0.9, 0.999, 1.0, 1.001, 2.0, 20.0):
        answer = is_connected(squares, factor * connecting)
        assert answer == is_one_component(dense, factor * connecting)
        answers.append(answer)
    assert answers == [False] * 4 + [True] * 4


def test_is_connected_leaves_its_matrix_alone():
    points = Euclidean().prepare(sheet(60, 0))
    for squares in (squared_matrix(Euclidean(), points), sparse_squares(Euclidean(), points, 0.05)):
        kept = squares.copy()
        is_connected(squares, 0.01)
        assert abs(squares - kept).max() == 0


@pytest.mark.parametrize("seed", range(5))
def test_hops_are_longer_by_both_radii(seed):
    rng = np.random.default_rng(seed)
    squared = euclidean_squares(rng.uniform(size=(30, 2)))
    radii = rng.uniform(0, 0.05, 30)
    for cutoff in (0.0, 0.001, 0.004, 0.01, 0.04):
        near = np.sqrt(squared) <= np.sqrt(cutoff) + radii[:, None] + radii
        assert all_within_hops(squared, cutoff, radii) == (connected_components(csr_array(near))[0] == 1)


def test_points_exactly_root_epsilon_apart_are_joined():
    """Whole numbers, so that nothing is rounded: d² = ε counts as within, d² a little above it does not."""
    X = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0], [7.0, 0.0]])
    tree = tree_of(X)
    assert tree.component_sizes(4.0).tolist() == [3, 1]
    assert tree.component_sizes(9.0).tolist() == [4]
    assert tree.component_sizes(np.nextafter(4.0, 0.0)).tolist() == [1, 1, 1, 1]
    dense = euclidean_squares(X)
    stored = csr_array(dense + 1.0)
    stored.data -= 1.0
    for squares in (dense, dense.astype(np.float32), stored):
        assert is_connected(squares, 9.0)
        assert not is_connected(squares, np.nextafter(9.0, 0.0))
    assert groups_in(tree, 9.0, reach=1.0) is None
    assert groups_in(tree, np.nextafter(9.0, 0.0), reach=1.0) is not None


# -- errors -------------------------------------------------------------------------------


def test_check_passes_at_the_joining_epsilon_and_fails_below():
    X = blobs((30, 12, 5), gap=4.0, seed=0)
    tree = tree_of(X)
    assert groups_in(tree, tree.connecting_epsilon, reach=1.0) is None
    error = groups_in(tree, 0.5, reach=1.0).error()
    assert error.component_sizes == (30, 12, 5)
    assert error.epsilon == 0.5
    assert error.joining_epsilon == tree.connecting_epsilon
    assert str(error).startswith(
        "at epsilon = 0.5 the graph of points closer than sqrt(epsilon) falls into 3 components "
        "(sizes in points: 30, 12, 5)"
    )
    assert f"at {tree.connecting_epsilon:.9g} hops of sqrt(epsilon) join all points" in str(error)
    assert 'use epsilon="connected"' in str(error)
    assert 'epsilon="connected"' not in str(groups_in(tree, 0.5, reach=1.0).error("connected"))
    assert "landmarks" not in str(error)


def test_reach_lengthens_the_hops():
    tree = tree_of(blobs((30, 12, 5), gap=4.0, seed=0))
    lowest = tree.connecting_epsilon / REACH**2
    assert REACH > 1
    assert groups_in(tree, lowest * (1 + 1e-9)) is None
    error = groups_in(tree, lowest * (1 - 1e-9)).error()
    assert f"closer than {REACH:.2g}*sqrt(epsilon) falls into 2 comp" in str(error)
    assert sum(error.component_sizes) == 47
    assert error.joining_epsilon == tree.connecting_epsilon
    assert error.accepted_epsilon == pytest.approx(lowest)


def test_many_components_are_not_all_listed():
    error = groups_in(tree_of(np.arange(12.0)[:, None]), 0.1, reach=1.0).error()
    assert "12 components (sizes in points: 1, 1, 1, 1, 1, 1, 1, 1, ...)" in str(error)


def test_error_travels_between_processes():
    error = groups_in(tree_of(blobs((8, 4), gap=4.0, seed=0)), 0.001).error("connected")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.component_sizes == error.component_sizes
    assert again.joining_epsilon == error.joining_epsilon
    assert again.epsilon == error.epsilon


# -- landmarks standing in for the data ---------------------------------------------------------


def landmark_check(X, selector, epsilon, seed, metric=None):
    """Return the groups into which landmarks of the points fall, or None."""
    metric = Euclidean() if metric is None else metric
    points = metric.prepare(X)
    chosen = selector.select(Walk(metric, points, np.ones(len(X)), epsilon), np.random.default_rng(seed))
    squared = squared_matrix(metric, points.take(chosen.indices))
    return landmark_groups(squared, chosen.squared_radii, epsilon, obeys_triangle=metric.is_true_metric)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make_selector", [Uniform, KMedoids, FarthestPoint])
def test_connected_data_with_enough_landmarks_are_never_refused(make_selector, dtype):
    for seed in range(10):
        for metric, make, _ in METRICS.values():
            X = make(200, seed, dtype)
            epsilon = tree_of(X, metric).connecting_epsilon
            assert landmark_check(X, make_selector(40), epsilon, seed, metric) is None
            assert landmark_check(X, make_selector(200), epsilon, seed, metric) is None
            distances = metric.pairwise(X)
            assert landmark_check(distances, make_selector(40), epsilon, seed, Precomputed()) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_triangle_bound_itself_refuses_no_connected_data(dtype):
    # Cells a thousand hops wide on a chain: the gap between cells is one hop, left over from a long subtraction.
    X = (0.7 * np.arange(20_000))[:, None].astype(dtype)
    epsilon = tree_of(X).connecting_epsilon / REACH**2
    for seed in range(3):
        points = Euclidean().prepare(X)
        chosen = Uniform(15).select(
            Walk(Euclidean(), points, np.ones(len(X)), epsilon), np.random.default_rng(seed)
        )
        squared = squared_matrix(Euclidean(), points.take(chosen.indices))
        groups = landmark_groups(squared, chosen.squared_radii, epsilon, obeys_triangle=True)
        # In groups, because landmarks so far apart have no kernel between them; not because the data fall apart.
        assert groups.reach != REACH
        assert "use more landmarks" in str(groups.error())


@pytest.mark.parametrize("metric", [Euclidean(), Precomputed()], ids=["euclidean", "precomputed"])
@pytest.mark.parametrize("make_selector", [Uniform, KMedoids, FarthestPoint])
def test_far_blobs_are_refused(make_selector, metric):
    for seed in range(5):
        X = blobs((80, 60), gap=12.0, seed=seed)
        between = smallest_connecting_epsilon(euclidean_squares(X))
        data = X if metric.is_true_metric else np.sqrt(euclidean_squares(X))
        error = landmark_check(data, make_selector(30), 0.1, seed, metric).error()
        assert len(error.component_sizes) == 2
        assert sum(error.component_sizes) == 30
        assert error.counted == "landmarks"
        assert "sizes in landmarks: " in str(error)
        assert "use more landmarks" in str(error)
        # What it names as joining is the right size: blobs are one unit wide, landmarks lie inside them.
        assert error.joining_epsilon == pytest.approx(between, rel=0.3)
        assert landmark_check(data, make_selector(30), error.joining_epsilon, seed, metric) is None
        # And what it names as accepted is the smallest that is.
        assert landmark_check(data, make_selector(30), error.accepted_epsilon, seed, metric) is None
        assert (
            landmark_check(data, make_selector(30), 0.999 * error.accepted_epsilon, seed, metric) is not None
        )


def test_triangle_bound_tells_what_the_kernel_alone_cannot():
    # Two blobs 5.3 √ε apart: the kernel between them is above float32 rounding, yet no hop within reach joins them.
    X = np.concatenate([np.linspace(0, 1, 20), np.linspace(6.3, 7.3, 20)])[:, None]
    squares = euclidean_squares(X)
    assert landmark_groups(squares, np.zeros(40), 1.0, obeys_triangle=True) is not None
    assert landmark_groups(squares, np.zeros(40), 1.0, obeys_triangle=False) is None
    # With wide cells the data between the landmarks may join them.
    assert landmark_groups(squares, np.full(40, 0.3**2), 1.0, obeys_triangle=True) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_tree_of_stored_distances_is_the_minimum_spanning_tree(dtype):
    squares = euclidean_squares(blobs((40, 25, 10), gap=4.0, seed=1)).astype(dtype)
    tree = stored_spanning_tree(squares)
    expected = np.sort(scipy_tree(squares.astype(np.float64)).data)
    np.testing.assert_allclose(np.sort(tree.squares), expected, rtol=1e-6)
    np.testing.assert_array_equal(tree.squares, squares[tree.ends[:, 0], tree.ends[:, 1]])
