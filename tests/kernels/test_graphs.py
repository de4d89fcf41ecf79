"""Spanning trees, against scipy and against plain loops."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

DTYPES = [np.float32, np.float64]


def scattered(n, dtype, seed=0):
    points = np.random.default_rng(seed).uniform(size=(n, 2))
    return ((points[:, None] - points[None]) ** 2).sum(axis=2).astype(dtype)


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


def test_arguments_that_do_not_fit_are_refused(kernels):
    square, four = np.ones((4, 4)), np.ones(4)
    places, reached = np.zeros(4, np.intp), np.zeros(4, bool)
    cases = {
        r"squared must have shape \(4, 4\), got \(4, 3\)": lambda: kernels.block_tree(
            square[:, :3].copy(), places, four
        ),
        "the size of squared along axis 0 must be at least 1": lambda: kernels.block_tree(
            square[:0, :0].copy(), places[:0], four[:0]
        ),
        r"parents must have shape \(4\)": lambda: kernels.block_tree(square, places[:3], four),
        r"reached must have shape \(4\)": lambda: kernels.attach_nearest(
            four, 0, four.copy(), places, reached[:3]
        ),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()
