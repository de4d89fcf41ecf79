"""What residuals say about Ritz pairs is true, and sharp."""

import numpy as np
import pytest

from ldmaps.diffusion.ritz_bounds import error_bounds, in_percent_of_range


def symmetric_matrix(eigenvalues, rng):
    n = len(eigenvalues)
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (vectors * eigenvalues) @ vectors.T, vectors


def ritz_pairs(matrix, subspace):
    basis = np.linalg.qr(subspace)[0]
    values, mixing = np.linalg.eigh(basis.T @ matrix @ basis)
    values, vectors = values[::-1], (basis @ mixing)[:, ::-1]
    return values, vectors, np.linalg.norm(matrix @ vectors - vectors * values, axis=0)


SPECTRA = {
    "gaps": [0.95, 0.8, 0.6, 0.5, 0.4, *np.linspace(0.2, 0.0, 55)],
    "crowd": [*np.linspace(0.999, 0.98, 8), *np.linspace(0.9, 0.0, 52)],
    "pairs": [*np.repeat([0.98, 0.9, 0.7], 2) + np.tile([1e-5, 0.0], 3), *np.linspace(0.3, 0.0, 54)],
}


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("seed", range(8))
def test_no_error_exceeds_its_bound(name, noise, seed):
    rng = np.random.default_rng(seed)
    eigenvalues = np.array(SPECTRA[name])
    matrix, exact = symmetric_matrix(eigenvalues, rng)
    count = 8
    values, vectors, residuals = ritz_pairs(
        matrix, exact[:, :count] + noise * rng.normal(size=(60, count)) / 8
    )
    value_errors, angles = error_bounds(values, residuals)
    images = matrix @ vectors
    images /= np.linalg.norm(images, axis=0)
    cosines = (images * exact[:, :count]).sum(axis=0)
    sines = np.linalg.norm(images - exact[:, :count] * cosines, axis=0)
    assert (sines <= angles + 1e-14).all()
    assert (np.abs(values - eigenvalues[:count]) <= value_errors + 1e-14).all()


def test_bounds_hold_where_all_residuals_point_the_same_way():
    """The worst case, which random matrices never meet: one hidden direction couples to every Ritz vector."""
    rng = np.random.default_rng(1)
    said = 0
    for _ in range(6000):
        third = rng.choice([0.01, 0.4])
        values = np.array([0.9, 0.9 - 10 ** rng.uniform(-3, -0.4), third])
        residuals = np.array([*10 ** rng.uniform(-4, -0.2, 2), 0.0])
        hidden = third + rng.choice([0.0, 0.9]) * (residuals @ residuals) / (0.9 - third)
        matrix = np.diag([*values, hidden])
        matrix[3, :3] = matrix[:3, 3] = residuals
        eigenvalues, exact = (part[..., ::-1] for part in np.linalg.eigh(matrix))
        if eigenvalues[2] > third + 1e-12 or eigenvalues[3] < -third:
            continue  # what the bounds take for granted is not so
        value_errors, angles = error_bounds(values, residuals)
        for i in np.flatnonzero(angles[:2] < 1):
            said += 1
            image = matrix[:, i] / np.linalg.norm(matrix[:, i])
            assert np.linalg.norm(image - exact[:, i] * (exact[:, i] @ image)) <= angles[i] + 1e-14
            assert abs(eigenvalues[i] - values[i]) <= value_errors[i] + 1e-14
    assert said > 2000


def test_bounds_are_sharp_where_the_error_is_beyond_the_block():
    rng = np.random.default_rng(0)
    eigenvalues = np.array([0.999, 0.998, 0.997, *np.linspace(0.3, 0.29, 37)])
    matrix, exact = symmetric_matrix(eigenvalues, rng)
    values, vectors, residuals = ritz_pairs(matrix, exact[:, :5] + 1e-4 * rng.normal(size=(40, 5)))
    images = matrix @ vectors / np.linalg.norm(matrix @ vectors, axis=0)
    sines = np.sqrt(1 - (images * exact[:, :5]).sum(axis=0)[:3] ** 2)
    angles = error_bounds(values, residuals)[1][:3]
    assert (angles < 3 * sines).all()
    assert (residuals[:3] / 0.001 > 100 * sines).all(), "r/gap says nothing here"


def test_eigenvalue_errors_are_of_second_order_but_never_above_the_residual():
    values, residuals = np.array([0.9, 0.5, 0.1]), np.array([1e-3, 1e-3, 1e-3])
    value_errors, _ = error_bounds(values, residuals)
    assert (value_errors[:2] < 1e-5).all()
    assert value_errors[2] == residuals[2]


def test_nothing_is_said_where_residuals_exceed_gaps():
    value_errors, angles = error_bounds(np.array([0.9, 0.89, 0.88]), np.array([0.1, 0.1, 0.1]))
    np.testing.assert_array_equal(angles, 1.0)
    np.testing.assert_array_equal(value_errors, 0.1)


def test_small_eigenvalues_are_bounded_as_large_ones_are():
    """Bounds are relative: a hundredth of the walk has a hundredth of the errors, at the same angles."""
    values, residuals = np.array([0.9, 0.6, 0.2]), np.full(3, 1e-3)
    errors, angles = error_bounds(values, residuals)
    small_errors, small_angles = error_bounds(0.01 * values, 0.01 * residuals)
    assert (angles[:2] < 0.1).all()
    np.testing.assert_allclose(small_errors, 0.01 * errors)
    np.testing.assert_allclose(small_angles, angles)


def test_nothing_is_said_of_a_single_pair():
    assert error_bounds(np.array([0.5]), np.array([1e-9]))[1] == [1.0]


def test_smaller_residuals_give_smaller_bounds():
    values = np.array([0.99, 0.97, 0.9, 0.5])
    wide = error_bounds(values, np.full(4, 1e-3))
    narrow = error_bounds(values, np.full(4, 1e-4))
    for before, after in zip(wide, narrow, strict=True):
        assert (after[:3] < before[:3]).all()


def test_arguments_are_left_alone():
    residuals = np.array([0.01, 0.02, 0.03])
    error_bounds(np.array([0.9, 0.5, 0.1]), residuals)
    np.testing.assert_array_equal(residuals, [0.01, 0.02, 0.03])


def test_errors_of_points_are_those_of_the_walk_where_degrees_are_equal():
    """With D = 2 and c = 1: a sine of 0.01 is 1 % of the root mean square of ψ = u/√2, beside its range."""
    u = np.random.default_rng(0).normal(size=(400, 2))
    psi = u / np.sqrt(2.0)
    ranges = np.ptp(psi, axis=0)
    found = in_percent_of_range(
        np.array([0.01, 1.0]), u, 0.1 * u[::-1], np.ones(400), np.full(400, 2.0), ranges
    )
    assert found[0] == pytest.approx(np.sqrt(np.mean(psi[:, 0] ** 2)) / ranges[0])
    assert found[1] == np.inf


def test_errors_of_points_are_counted_by_weight():
    """A point of weight 3 is three points."""
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 4, 200)
    psi, off, degrees = rng.normal(size=(200, 1)), rng.normal(size=(200, 1)), rng.uniform(1.0, 9.0, 200)
    angle, ranges = np.array([0.02]), np.ptp(psi, axis=0)
    root = np.sqrt(counts * degrees)[:, None]
    weighted = in_percent_of_range(angle, psi * root, off * root, counts.astype(float), degrees, ranges)
    copies = np.repeat(np.arange(200), counts)
    root = np.sqrt(degrees[copies])[:, None]
    repeated = in_percent_of_range(
        angle, psi[copies] * root, off[copies] * root, np.ones(len(copies)), degrees[copies], ranges
    )
    np.testing.assert_allclose(weighted, repeated)


def test_residuals_in_sparse_places_make_more_of_an_error():
    """Where D is a hundredth, the same error in the walk's measure is ten times as long over the points."""
    degrees = np.where(np.arange(100) < 50, 1.0, 0.01)
    u = np.where(np.arange(100) < 50, np.linspace(-1, 1, 100), 0.0)[:, None]
    there = np.where(np.arange(100) < 50, 0.0, 1.0)[:, None]
    settings = (np.ones(100), degrees, np.array([1.0]))
    dense, sparse = (in_percent_of_range(np.array([0.01]), u, r, *settings) for r in (u, there))
    assert sparse[0] == pytest.approx(10.0 * dense[0])
    nothing = in_percent_of_range(np.array([0.01]), u, 0.0 * u, *settings)
    assert nothing[0] == pytest.approx(dense[0])
