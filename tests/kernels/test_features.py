"""Distances that are sums over features, against the formulas."""

import numpy as np
import pytest

DTYPES = [np.float32, np.float64]
FEATURES = [1, 3, 4, 7, 8, 21]


def hamming(a, b):
    return (a[:, :, None] != b[:, None, :]).mean(axis=0) ** 2


def cityblock(a, b):
    return np.abs(a[:, :, None].astype(np.float64) - b[:, None, :]).sum(axis=0) ** 2


def periodic(a, b, period):
    difference = np.abs(a[:, :, None].astype(np.float64) - b[:, None, :])
    return (np.minimum(difference, period[:, None, None] - difference) ** 2).sum(axis=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", FEATURES)
def test_blocks(kernels, n_features, dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 3, (n_features, n)).astype(dtype) for n in (9, 2300))
    out = np.empty((6, 2290), dtype)
    within = 2, 8, b, 3, 2293
    where = slice(2, 8), slice(3, 2293)
    close = {"rtol": 2e-6 if dtype == np.float32 else 1e-13}
    kernels.squared_hamming(a, *within, out)
    np.testing.assert_allclose(out, hamming(a, b)[where], **close)
    period = rng.uniform(5.0, 7.0, n_features).astype(dtype)
    a, b = (rng.uniform(-2.5, 2.5, (n_features, n)).astype(dtype) for n in (9, 2300))
    within = 2, 8, b, 3, 2293
    kernels.squared_cityblock(a, *within, out)
    np.testing.assert_allclose(out, cityblock(a, b)[where], **close)
    kernels.squared_periodic(a, *within, period, out)
    np.testing.assert_allclose(out, periodic(a, b, period)[where], atol=1e-6, **close)


@pytest.mark.parametrize("name", ["squared_hamming", "squared_cityblock", "squared_periodic"])
def test_a_pair_does_not_depend_on_the_cut(kernels, name):
    rng = np.random.default_rng(1)
    a = rng.uniform(-3, 3, (11, 40)).round(1)
    settings = [np.full(11, 6.5)] if name == "squared_periodic" else []
    whole, part = np.empty((40, 40)), np.empty((1, 5))
    getattr(kernels, name)(a, 0, 40, a, 0, 40, *settings, whole)
    np.testing.assert_array_equal(whole, whole.T)
    for row, start in ((0, 0), (13, 31), (39, 35)):
        getattr(kernels, name)(a, row, row + 1, a, start, start + 5, *settings, part)
        np.testing.assert_array_equal(part[0], whole[row, start : start + 5])


@pytest.mark.parametrize("dtype", DTYPES)
def test_wrapped_values_are_within_half_a_period_and_whole_periods_away(kernels, dtype):
    period = np.array([2 * np.pi, 360.0, 1.0])
    values = (np.random.default_rng(2).uniform(-4, 4, (200, 3)) * period).astype(dtype)
    values[0] = period / 2
    values[1] = -period / 2
    columns = np.empty((3, 200), dtype)
    kernels.wrap_to_columns(values, period, columns)
    assert (np.abs(columns.T) <= (period / 2).astype(dtype)).all()
    turns = (values.astype(np.float64) - columns.T) / period
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-6 if dtype == np.float32 else 1e-14)
    inside = np.abs(values) <= period / 2
    np.testing.assert_array_equal(columns.T[inside], values[inside])


def test_arguments_that_do_not_fit_are_refused(kernels):
    a, out = np.ones((2, 5)), np.empty((5, 5))
    with pytest.raises(ValueError, match=r"period must have shape \(2\), got \(3\)"):
        kernels.squared_periodic(a, 0, 5, a, 0, 5, np.ones(3), out)
    for name in ("squared_hamming", "squared_cityblock"):
        with pytest.raises(ValueError, match="r1 must lie within 3 and 5, got 2"):
            getattr(kernels, name)(a, 3, 2, a, 0, 5, out)
    with pytest.raises(ValueError, match=r"columns must have shape \(5, 2\)"):
        kernels.wrap_to_columns(a, np.ones(5), np.empty((2, 5)))
