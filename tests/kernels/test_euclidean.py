"""Squared Euclidean distances and the searches among them, against the formula and against themselves cut otherwise."""

import itertools

import numpy as np
import pytest

DTYPES = [np.float32, np.float64]
FEATURES = [1, 2, 3, 4, 5, 7, 8, 13, 32]


def tolerance(dtype):
    return 1e-5 if dtype == np.float32 else 1e-13


def squares(a, b):
    """d² of columns, in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return ((a[:, :, None] - b[:, None, :]) ** 2).sum(axis=0)


def columns(n_features, n, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=(n_features, n)).astype(dtype)


def measured(kernels, a, rows, b, cols):
    out = np.full((rows[1] - rows[0], cols[1] - cols[0]), np.nan, a.dtype)
    kernels.squared_euclidean(a, *rows, b, *cols, out)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", FEATURES)
def test_squares(kernels, n_features, dtype):
    a, b = columns(n_features, 9, dtype), columns(n_features, 41, dtype, 1)
    np.testing.assert_allclose(
        measured(kernels, a, (2, 9), b, (3, 40)), squares(a, b)[2:9, 3:40], rtol=tolerance(dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", FEATURES)
def test_squares_do_not_depend_on_the_cut(kernels, n_features, dtype):
    a, b = columns(n_features, 6, dtype), columns(n_features, 4200, dtype, 1)  # more than one panel
    whole = measured(kernels, a, (0, 6), b, (0, 4200))
    for rows in ((0, 1), (1, 4), (5, 6)):
        for cols in ((0, 1), (17, 2100), (2040, 2071), (4199, 4200)):
            np.testing.assert_array_equal(
                measured(kernels, a, rows, b, cols), whole[slice(*rows), slice(*cols)]
            )
    np.testing.assert_array_equal(
        measured(kernels, b, (0, 40), b, (0, 40)).T, measured(kernels, b, (0, 40), b, (0, 40))
    )


def test_squares_of_points_far_from_the_origin_do_not_cancel(kernels):
    a = np.array([[1e8], [1e8]])
    np.testing.assert_array_equal(measured(kernels, a, (0, 1), a + 0.5, (0, 1)), [[0.5]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 3, 5, 12])
def test_group_sums(kernels, n_features, dtype):
    points, weights = columns(n_features, 60, dtype), np.random.default_rng(1).uniform(size=60)
    bounds = np.array([1, 2, 2, 19, 22, 59])
    sums = np.full(60, -1.0)
    kernels.euclidean_group_sums(points, bounds, weights, sums)
    distances = np.sqrt(squares(points, points))
    for first, last in itertools.pairwise(bounds):
        expected = distances[first:last, first:last] @ weights[first:last]
        np.testing.assert_allclose(sums[first:last], expected, rtol=tolerance(dtype), atol=1e-7)
    np.testing.assert_array_equal(sums[[0, 59]], -1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("n_others", [1, 7, 8, 9, 50])
def test_nearest(kernels, n_others, n_features, dtype):
    n = 1500  # more than are searched together
    a, b = columns(n_features, n, dtype), columns(n_features, n_others, dtype, 1)
    index, lowest = np.empty(n - 5, np.intp), np.empty(n - 5, dtype)
    kernels.nearest_euclidean(a, 3, n - 2, b, index, lowest)
    block = measured(kernels, a, (3, n - 2), b, (0, n_others))
    np.testing.assert_array_equal(index, block.argmin(axis=1))
    np.testing.assert_array_equal(lowest, block.min(axis=1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_of_equally_near_points_is_nearest(kernels, dtype):
    b = np.tile(np.array([[5.0, 3.0, 3.0, 4.0, 3.0]]), 5).astype(dtype)
    index, lowest = np.empty(3, np.intp), np.empty(3, dtype)
    kernels.nearest_euclidean(np.array([[1.0, 4.2, 6.0]], dtype), 0, 3, b, index, lowest)
    assert index.tolist() == [1, 3, 0]


def boxed(b, block):
    starts = np.arange(0, b.shape[1], block)
    return np.minimum.reduceat(b, starts, axis=1), np.maximum.reduceat(b, starts, axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 3, 6])
def test_boxes_are_no_farther_than_the_points_in_them(kernels, n_features, dtype):
    a, b = columns(n_features, 20, dtype), columns(n_features, 130, dtype, 1)
    lower, upper = boxed(b, kernels.BLOCK)
    bounds = np.empty((20, 3), dtype)
    kernels.squares_to_boxes(a, lower, upper, bounds)
    outside = np.maximum(lower[:, None] - a[:, :, None], a[:, :, None] - upper[:, None]).clip(0)
    np.testing.assert_allclose(bounds, (outside.astype(np.float64) ** 2).sum(axis=0), rtol=1e-5)
    block = measured(kernels, a, (0, 20), b, (0, 130))
    assert (bounds <= np.minimum.reduceat(block, [0, 64, 128], axis=1)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 2, 3, 5])
@pytest.mark.parametrize("rate", [0.5, 50.0, 5000.0])
def test_pruned_extension_is_extension_to_the_bit(kernels, rate, n_features, dtype):
    n, n_landmarks = 40, 300
    b = np.sort(columns(n_features, n_landmarks, dtype, 1), axis=1)
    a = (b[:, 7:47] + dtype(0.01)).astype(dtype)
    weights = np.random.default_rng(2).uniform(0.1, 1.0, n_landmarks).astype(dtype)
    coefficients = columns(2, n_landmarks, dtype, 3)
    found = np.empty((n - 4, 2), dtype), np.empty(n - 4, np.intp), np.empty(n - 4, dtype)
    kernels.extend_euclidean(
        a, 1, n - 3, b, *boxed(b, kernels.BLOCK), dtype(rate), weights, coefficients, *found
    )
    expected = np.empty((n - 4, 2), dtype), np.empty(n - 4, np.intp), np.empty(n - 4, dtype)
    block = measured(kernels, a, (1, n - 3), b, (0, n_landmarks))
    kernels.extend(block, dtype(rate), weights, coefficients, *expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 7, 8, 33, 40, 100])
def test_rows(kernels, n_features, dtype):
    a, b = columns(9, n_features, dtype), columns(12, n_features, dtype, 1)
    out = np.empty((3, 10), dtype)
    kernels.squared_euclidean_rows(a, 2, 5, b, 1, 11, out)
    np.testing.assert_allclose(out, squares(a.T, b.T)[2:5, 1:11], rtol=tolerance(dtype))
    turned = np.empty((10, 3), dtype)
    kernels.squared_euclidean_rows(b, 1, 11, a, 2, 5, turned)
    np.testing.assert_array_equal(turned.T, out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 40])
def test_centred_rows(kernels, n_features, dtype):
    values = columns(9, n_features, dtype) + dtype(100)
    origin = values.mean(axis=0, dtype=np.float64) + 1e-4
    centred, norms = np.empty((5, n_features), dtype), np.empty(5, dtype)
    kernels.centre_rows(values, 3, 8, origin, centred, norms)
    np.testing.assert_array_equal(centred, (values[3:8] - origin).astype(dtype))
    np.testing.assert_allclose(norms, (centred.astype(np.float64) ** 2).sum(axis=1), rtol=tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_become_squares_and_pairs_that_cancel_are_measured_again(kernels, dtype):
    a, b = columns(6, 40, dtype), columns(30, 40, dtype, 1)
    b[20] = a[3]
    b[21] = a[3] + dtype(1e-3)
    left, right = a[2:6], b[5:30]
    norms = [(side.astype(np.float64) ** 2).sum(axis=1).astype(dtype) for side in (left, right)]
    gram = left @ right.T
    gram[0, 0] += dtype(1e-2)  # what the product says is believed where nothing cancels
    gram[1, 15] += dtype(1e-2)
    kernels.finish_gram(gram, *norms, dtype(2.0**-4), a, 2, b, 5)
    expected = squares(left.T, right.T)
    expected[0, 0] -= 2e-2
    np.testing.assert_allclose(gram, expected, rtol=1e-4 if dtype == np.float32 else 1e-11)
    assert gram[1, 15] == 0.0


def test_limits_are_those_of_the_weights(kernels):
    assert np.exp(-kernels.NEGLIGIBLE32) * 1e6 < np.finfo(np.float32).eps
    assert np.exp(-kernels.NEGLIGIBLE64) * 1e6 < np.finfo(np.float64).eps


def test_arguments_that_do_not_fit_are_refused(kernels):
    a, b, out = np.ones((2, 5)), np.ones((2, 7)), np.empty((5, 7))
    index, lowest = np.empty(5, np.intp), np.empty(5)
    wrong = np.ones((3, 7))
    cases = {
        r"b must have shape \(2, 7\), got \(3, 7\)": lambda: kernels.squared_euclidean(
            a, 0, 5, wrong, 0, 7, out
        ),
        "r1 must lie within 0 and 5, got 6": lambda: kernels.squared_euclidean(a, 0, 6, b, 0, 7, out),
        "c0 must lie within 0 and 7, got -1": lambda: kernels.squared_euclidean(a, 0, 5, b, -1, 6, out),
        r"out must have shape \(4, 7\)": lambda: kernels.squared_euclidean(a, 0, 4, b, 0, 7, out),
        "the size of a along axis 0 must be at least 1, got 0": lambda: kernels.squared_euclidean(
            a[:0], 0, 5, b[:0], 0, 7, out
        ),
        "the size of a along axis 0 must lie within 1 and 3, got 4": lambda: kernels.nearest_euclidean(
            np.ones((4, 5)), 0, 5, np.ones((4, 7)), index, lowest
        ),
        "the size of b along axis 1 must be at least 1": lambda: kernels.nearest_euclidean(
            a, 0, 5, b[:, :0].copy(), index, lowest
        ),
        r"index must have shape \(4\)": lambda: kernels.nearest_euclidean(a, 0, 4, b, index, lowest),
        "bounds must lie within 0 and 5, got 6 at place 1": lambda: kernels.euclidean_group_sums(
            a, np.array([0, 6]), np.ones(5), np.ones(5)
        ),
        r"weights must have shape \(5\)": lambda: kernels.euclidean_group_sums(
            a, np.array([0, 5]), np.ones(4), np.ones(5)
        ),
        r"upper must have shape \(2, 1\)": lambda: kernels.squares_to_boxes(
            a, np.ones((2, 1)), np.ones((2, 2)), np.ones((5, 1))
        ),
        r"lower must have shape \(2, 1\)": lambda: kernels.extend_euclidean(
            a,
            0,
            5,
            b,
            np.ones((2, 2)),
            np.ones((2, 2)),
            1.0,
            np.ones(7),
            np.ones((1, 7)),
            np.ones((5, 1)),
            index,
            lowest,
        ),
        r"b must have shape \(7, 2\)": lambda: kernels.squared_euclidean_rows(
            np.ones((5, 2)), 0, 5, np.ones((7, 3)), 0, 7, out
        ),
        r"origin must have shape \(5\)": lambda: kernels.centre_rows(
            a, 0, 2, np.ones(4), np.ones((2, 5)), np.ones(2)
        ),
        "c0 must be 0, got 1": lambda: kernels.finish_gram(
            out, np.ones(5), np.ones(7), 0.1, np.ones((5, 2)), 0, np.ones((7, 2)), 1
        ),
        "r0 must lie within 0 and -3, got 1": lambda: kernels.finish_gram(
            out, np.ones(5), np.ones(7), 0.1, a, 1, np.ones((7, 5)), 0
        ),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="b must be a C-contiguous array of float64"):
        kernels.squared_euclidean(a, 0, 5, b.astype(np.float32), 0, 7, out)
