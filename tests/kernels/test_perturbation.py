"""Kernels and their first-order changes, against the formulas."""

import numpy as np
import pytest

RATE = 0.4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 7, 300])
def test_kernels_and_changes(kernels, n, dtype):
    rng = np.random.default_rng(0)
    squared, moved = rng.uniform(0, 20, (5, n)).astype(dtype), rng.uniform(0, 20, (5, 4)).astype(dtype)
    labels, weights, vectors = rng.integers(4, size=n), rng.uniform(size=n), rng.normal(size=(3, n))
    kernel, degrees = np.empty((5, n)), np.empty(5)
    kernels.kernel_rows(squared, RATE, weights, kernel, degrees)
    before = squared.astype(np.float64)
    expected = np.exp(-RATE * before) * weights
    np.testing.assert_allclose(kernel, expected, rtol=1e-13)
    np.testing.assert_allclose(degrees, expected.sum(axis=1), rtol=1e-13)
    # With rate 1/(2 epsilon), the derivative of exp(-rate d²) by d, times the change of d.
    distance, after = np.sqrt(before), np.sqrt(moved.astype(np.float64))[:, labels]
    change = -2.0 * RATE * distance * (after - distance) * expected
    again, changes, sums = np.empty(5), np.empty(5), np.empty((5, 3))
    kernels.first_order_rows(squared, moved, labels, RATE, weights, vectors, again, changes, sums)
    np.testing.assert_array_equal(again, degrees)
    np.testing.assert_allclose(changes, change.sum(axis=1), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(sums, change @ vectors.T, rtol=1e-10, atol=1e-13)


def test_arguments_that_do_not_fit_are_refused(kernels):
    squared, five = np.ones((2, 5)), np.ones(5)
    with pytest.raises(ValueError, match=r"weights must have shape \(5\), got \(4\)"):
        kernels.kernel_rows(squared, RATE, np.ones(4), np.ones((2, 5)), np.ones(2))
    with pytest.raises(ValueError, match=r"kernel must have shape \(2, 5\), got \(1, 5\)"):
        kernels.kernel_rows(squared, RATE, five, np.ones((1, 5)), np.ones(2))
    rest = np.ones((3, 5)), np.ones(2), np.ones(2), np.ones((2, 3))
    for message, moved, labels in (
        (r"moved must have shape \(2, 4\)", np.ones((1, 4)), np.zeros(5, np.intp)),
        (r"labels must have shape \(5\)", np.ones((2, 4)), np.zeros(4, np.intp)),
    ):
        with pytest.raises(ValueError, match=message):
            kernels.first_order_rows(squared, moved, labels, RATE, five, *rest)
