"""Connectivity and spanning trees, against scipy and against plain loops."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

DTYPES = [np.float32, np.float64]


def scattered(n, dtype, seed=0):
    points = np.random.default_rng(seed).uniform(size=(n, 2))
    return ((points[:, None] - points[None]) ** 2).sum(axis=2).astype(dtype)


def joining(squared):
    """d² of the longest edge of the minimum spanning tree."""
    return float(minimum_spanning_tree(squared.astype(np.float64)).toarray().max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 30])
def test_hops_reach_all_from_the_longest_edge_on(kernels, n, dtype):
    squared = scattered(n, dtype)
    longest = joining(squared) if n > 1 else 0.0
    assert kernels.all_within_hops(squared, longest, np.zeros(n))
    if n > 1:
        assert not kernels.all_within_hops(squared, np.nextafter(longest, 0.0), np.zeros(n))


@pytest.mark.parametrize("seed", range(5))
def test_hops_are_longer_by_both_radii(kernels, seed):
    squared = scattered(30, np.float64, seed)
    radii = np.random.default_rng(seed).uniform(0, 0.05, 30)
    for cutoff in (0.0, 0.001, 0.004, 0.01, 0.04):
        near = np.sqrt(squared) <= np.sqrt(cutoff) + radii[:, None] + radii
        assert kernels.all_within_hops(squared, cutoff, radii) == (
            connected_components(csr_array(near))[0] == 1
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_sparse_hops(kernels, integer, dtype):
    squared = scattered(40, dtype)
    longest = joining(squared)
    graph = csr_array(np.where(squared <= 2 * longest, squared, 0))
    arrays = graph.indptr.astype(integer), graph.indices.astype(integer), graph.data
    assert kernels.reaches_all(*arrays, longest)
    assert not kernels.reaches_all(*arrays, np.nextafter(longest, 0.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 50])
def test_block_tree(kernels, n, dtype):
    squared = scattered(n, dtype)
    parents, lengths = np.empty(n, np.intp), np.empty(n, dtype)
    kernels.block_tree(squared, parents, lengths)
    np.testing.assert_array_equal(lengths[1:], squared[np.arange(1, n), parents[1:]])
    expected = minimum_spanning_tree(squared.astype(np.float64)).data
    np.testing.assert_allclose(np.sort(lengths[1:]), np.sort(expected), rtol=1e-6)
    tree = csr_array((np.ones(n - 1), (np.arange(1, n), parents[1:])), shape=(n, n))
    assert connected_components(tree)[0] == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_prim_step_by_step(kernels, dtype):
    squared = scattered(50, dtype)
    best, parent, reached = np.full(50, np.inf, dtype), np.zeros(50, np.intp), np.zeros(50, bool)
    reached[0], newest, total = True, 0, []
    for _ in range(49):
        newest_before, newest = newest, kernels.attach_nearest(squared[newest], newest, best, parent, reached)
        assert not reached[newest]
        assert best[newest] == squared[parent[newest], newest]
        assert reached[parent[newest]]
        assert reached[newest_before]
        reached[newest] = True
        total.append(best[newest])
    np.testing.assert_allclose(sum(total), minimum_spanning_tree(squared.astype(np.float64)).sum(), rtol=1e-5)
    assert kernels.attach_nearest(squared[newest], newest, best, parent, reached) == -1


def test_the_first_of_equally_near_points_is_attached(kernels):
    best, parent = np.array([9.0, 2.0, 2.0, 9.0]), np.zeros(4, np.intp)
    row = np.array([5.0, 2.0, 3.0, 2.0])
    assert kernels.attach_nearest(row, 7, best, parent, np.array([False, True, False, False])) == 2
    assert best.tolist() == [5.0, 2.0, 2.0, 2.0]
    assert parent.tolist() == [7, 0, 0, 7]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("radius", [0.0, 0.01, 0.5, 2.0])
def test_edges_are_counted_and_one_of_them_is_kept(kernels, radius, dtype):
    rng = np.random.default_rng(0)
    row, draws = rng.uniform(size=200).astype(dtype), rng.random(200)
    row[7] = radius
    degree, parent = rng.integers(0, 4, 200), rng.integers(0, 9, 200)
    expected = degree.copy(), parent.copy()
    for j in range(200):
        if row[j] <= dtype(radius):
            expected[0][j] += 1
            if draws[j] * expected[0][j] < 1.0:
                expected[1][j] = 99
    kernels.count_edges(row, 99, dtype(radius), degree, parent, draws)
    np.testing.assert_array_equal(degree, expected[0])
    np.testing.assert_array_equal(parent, expected[1])


def test_picks_are_in_proportion_to_degrees(kernels):
    degree = np.array([0, 2, 0, 1, 3])
    assert [kernels.pick_by_degree(degree, target) for target in range(6)] == [1, 1, 3, 4, 4, 4]


def test_arguments_that_do_not_fit_are_refused(kernels):
    square, four = np.ones((4, 4)), np.ones(4)
    places, reached = np.zeros(4, np.intp), np.zeros(4, bool)
    cases = {
        r"squared must have shape \(4, 4\), got \(4, 3\)": lambda: kernels.all_within_hops(
            square[:, :3].copy(), 1.0, four
        ),
        r"radii must have shape \(4\)": lambda: kernels.all_within_hops(square, 1.0, four[:3]),
        "squared must have a row": lambda: kernels.all_within_hops(square[:0, :0].copy(), 1.0, four[:0]),
        "starts must have two entries": lambda: kernels.reaches_all(
            np.zeros(1, np.int32), np.zeros(4, np.int32), four, 1.0
        ),
        "starts must lie within 0 and 4": lambda: kernels.reaches_all(
            np.array([0, 5, 5], np.int32), np.zeros(4, np.int32), four, 0.5
        ),
        r"parents must have shape \(4\)": lambda: kernels.block_tree(square, places[:3], four),
        r"reached must have shape \(4\)": lambda: kernels.attach_nearest(
            four, 0, four.copy(), places, reached[:3]
        ),
        r"draws must have shape \(4\)": lambda: kernels.count_edges(
            four, 0, 1.0, places, places.copy(), np.ones(3)
        ),
        "degree must have an entry": lambda: kernels.pick_by_degree(places[:0], 0),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()
