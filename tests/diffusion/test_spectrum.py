import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from point_sets import euclidean_squares, sheet
from scipy.sparse import csr_array, issparse
from threadpoolctl import threadpool_info

from ldmaps import DiffusionMap
from ldmaps.diffusion import spectrum
from ldmaps.diffusion.spectrum import (
    Spectrum,
    check_extensible,
    fix_signs,
    solve_spectrum,
    spectral_gap,
)
from ldmaps.errors import InvalidInputError, LdmapsError, LdmapsWarning, SpectrumWarning
from ldmaps.extension.nystrom import nystrom_coefficients

ALPHAS = (0.0, 0.5, 1.0)
PATHS = ("dense", "lanczos", "sparse")


def kernel_of(X, epsilon=0.1):
    return np.exp(-euclidean_squares(X) / (2 * epsilon))


def random_weights(n, seed):
    return np.random.default_rng(seed).gamma(0.7, size=n) + 0.05


def naive_walk(kernel, weights, alpha):
    """P = D⁻¹ a C with every matrix written out."""
    C = np.diag(weights)
    q = kernel @ weights
    a = kernel / np.outer(q, q) ** alpha
    D = np.diag((a @ C).sum(axis=1))
    return np.linalg.inv(D) @ a @ C, D


def residuals(kernel, weights, found):
    """‖Pψ − λψ‖/‖ψ‖ of each eigenpair: the check that what is returned are eigenvectors."""
    walk = (kernel.todense() if issparse(kernel) else kernel).astype(np.float64) * found.source_weights
    walk = np.asarray(walk / walk.sum(axis=1, keepdims=True))
    defect = walk @ found.vectors - found.vectors * found.eigenvalues
    return np.linalg.norm(defect, axis=0) / np.linalg.norm(found.vectors, axis=0)


@pytest.fixture(params=PATHS)
def solve(request, monkeypatch):
    """solve_spectrum over one of its ways of solving."""

    def run(kernel, weights, count, **settings):
        monkeypatch.setattr(spectrum, "DENSE_SIZE", 10**9 if request.param == "dense" else 0)
        return solve_spectrum(
            csr_array(kernel) if request.param == "sparse" else kernel, weights, count, **settings
        )

    return run


# -- the eigenproblem -----------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("seed", range(2))
def test_pairs_are_those_of_the_walk_written_out(solve, alpha, seed):
    X, weights = sheet(90, seed), random_weights(90, seed)
    kernel = kernel_of(X)
    found = solve(kernel, weights, 6, alpha=alpha)
    P, D = naive_walk(kernel, weights, alpha)
    values, vectors = np.linalg.eig(P)
    order = np.argsort(values.real)[::-1]
    values, vectors = values.real[order], vectors.real[:, order]
    assert values[0] == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(found.eigenvalues, values[1:7], rtol=1e-9, atol=1e-11)
    assert np.abs(np.diff(values[:8])).min() > 1e-3, "the vectors of a degenerate pair could not be compared"
    for place in range(6):
        expected = vectors[:, place + 1] / np.sqrt(weights @ vectors[:, place + 1] ** 2)
        expected *= np.sign(expected[np.argmax(np.abs(expected))])
        np.testing.assert_allclose(
            found.vectors[:, place], expected, rtol=0, atol=1e-7 * np.abs(expected).max()
        )
    np.testing.assert_allclose(found.degrees, D.diagonal(), rtol=1e-12)
    np.testing.assert_allclose(found.source_weights, weights * (kernel @ weights) ** -alpha, rtol=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_residuals_are_at_rounding(solve, alpha):
    X, weights = sheet(150, 3), random_weights(150, 3)
    kernel = kernel_of(X, 0.03)
    found = solve(kernel, weights, 8, alpha=alpha)
    P, _ = naive_walk(kernel, weights, alpha)
    naive = np.linalg.norm(P @ found.vectors - found.vectors * found.eigenvalues, axis=0)
    assert (naive < 1e-11 * np.linalg.norm(found.vectors, axis=0)).all()
    assert (residuals(kernel, weights, found) < 1e-11).all()
    assert (residuals(csr_array(kernel), weights, found) < 1e-11).all()


def test_residuals_expose_what_is_no_eigenvector(solve):
    kernel, weights = kernel_of(sheet(60, 0)), random_weights(60, 0)
    found = solve(kernel, weights, 3)
    rows_sorted = Spectrum(found.eigenvalues, found.vectors[::-1], found.source_weights, found.degrees)
    assert (residuals(kernel, weights, rows_sorted) > 1e-2).all()
    off = Spectrum(found.eigenvalues * 1.001, found.vectors, found.source_weights, found.degrees)
    np.testing.assert_allclose(residuals(kernel, weights, off), 0.001 * found.eigenvalues, rtol=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_vectors_are_normalised_by_weight_and_orthogonal_in_the_walks_measure(solve, alpha):
    X, weights = sheet(120, 4), random_weights(120, 4)
    found = solve(kernel_of(X), weights, 7, alpha=alpha)
    psi = found.vectors
    np.testing.assert_allclose(weights @ psi**2, np.ones(7), rtol=1e-12)
    measure = weights * found.degrees
    gram = psi.T @ (measure[:, None] * psi)
    lengths = np.sqrt(gram.diagonal())
    np.testing.assert_allclose(gram / np.outer(lengths, lengths), np.eye(7), atol=1e-9)
    # And to the trivial vector of ones.
    assert np.abs(measure @ psi / (lengths * np.sqrt(measure.sum()))).max() < 1e-9
    assert (
        np.abs(gram / np.outer(lengths, lengths) - psi.T @ psi / np.outer(*2 * [np.linalg.norm(psi, axis=0)]))
    ).max() > 1e-3


def test_eigenvalues_descend_within_the_unit_interval(solve):
    for epsilon in (0.02, 0.1, 1.0, 100.0):
        found = solve(kernel_of(sheet(80, 5), epsilon), np.ones(80), 12)
        assert (np.diff(found.eigenvalues) <= 0).all()
        assert (np.abs(found.eigenvalues) <= 1 + 1e-12).all()


def test_kernel_with_negative_eigenvalues(solve):
    # Two groups that hop only to each other: the walk alternates, and -1 is an eigenvalue, as small as can be.
    kernel = np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones((3, 3))) + 1e-3 * np.eye(6)
    found = solve(kernel, np.ones(6), 5)
    expected = np.sort(np.linalg.eigvals(kernel / kernel.sum(axis=1, keepdims=True)).real)[::-1][1:]
    np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-12)
    assert found.eigenvalues[-1] < -0.99


@pytest.mark.parametrize("n", [2, 3, 30])
def test_all_pairs_but_the_trivial_one(solve, n):
    kernel, weights = kernel_of(sheet(n, 6), 0.02), random_weights(n, 6)
    found = solve(kernel, weights, n - 1)
    expected = np.sort(np.linalg.eigvals(naive_walk(kernel, weights, 0.0)[0]).real)[::-1][1:]
    np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-11)
    assert found.vectors.shape == (n, n - 1)


def test_all_pairs_of_a_kernel_too_large_for_the_small_solver(monkeypatch):
    monkeypatch.setattr(spectrum, "DENSE_SIZE", 100)
    n = 120
    kernel = kernel_of(sheet(n, 6), 1e-3)
    found = solve_spectrum(kernel, np.ones(n), n - 1)
    assert (residuals(kernel, np.ones(n), found) < 1e-9).all()
    assert found.eigenvalues.sum() + 1 == pytest.approx(
        (kernel.diagonal() / kernel.sum(axis=1)).sum(), rel=1e-9
    )


def test_degenerate_pairs_are_all_found(solve):
    # On a ring every eigenvalue but the ends of the spectrum comes twice.
    angle = 2 * np.pi * np.arange(60) / 60
    kernel = kernel_of(np.column_stack([np.cos(angle), np.sin(angle)]), 0.05)
    found = solve(kernel, np.ones(60), 6)
    transform = np.fft.fft(kernel[0]).real
    expected = np.sort(transform / transform[0])[::-1][1:7]
    np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-12)
    assert expected[0] == pytest.approx(expected[1])
    assert np.linalg.matrix_rank(found.vectors, tol=1e-6) == 6
    assert (residuals(kernel, np.ones(60), found) < 1e-10).all()


def weakly_joined_chain(n):
    """A chain whose links are so weak that its eigenvalues crowd below 1."""
    return kernel_of(np.arange(float(n))[:, None], 1 / 25)


def test_crowded_eigenvalues_of_a_dense_kernel_are_found_all_the_same(monkeypatch):
    kernel = weakly_joined_chain(400)
    expected = solve_spectrum(kernel, np.ones(400), 8)
    assert 1 - expected.eigenvalues[-1] < 1e-6
    monkeypatch.setattr(spectrum, "DENSE_SIZE", 0)
    monkeypatch.setattr(spectrum, "DENSE_RESTARTS", 1)
    np.testing.assert_array_equal(solve_spectrum(kernel, np.ones(400), 8).vectors, expected.vectors)


def test_crowded_eigenvalues_of_a_sparse_kernel_are_a_clear_error(monkeypatch):
    monkeypatch.setattr(spectrum, "SPARSE_RESTARTS", 1)
    with pytest.raises(
        LdmapsError, match=r"the 8 leading eigenvalues lie too close together .*use a larger epsilon or fewer"
    ):
        solve_spectrum(csr_array(weakly_joined_chain(400)), np.ones(400), 8)


# -- weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
def test_integer_weights_are_repetition(solve, alpha):
    X = sheet(60, 7)
    repeats = np.random.default_rng(7).integers(1, 6, size=60)
    origin = np.repeat(np.arange(60), repeats)
    kernel = kernel_of(X)
    weighted = solve(kernel, repeats.astype(float), 5, alpha=alpha)
    repeated = solve(kernel[np.ix_(origin, origin)], np.ones(len(origin)), 5, alpha=alpha)
    np.testing.assert_allclose(repeated.eigenvalues, weighted.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(repeated.vectors, weighted.vectors[origin], rtol=0, atol=1e-8)
    # The check can fail: without the weights the map is another.
    plain = solve(kernel, np.ones(60), 5, alpha=alpha)
    assert np.abs(plain.eigenvalues - weighted.eigenvalues).max() > 1e-3


def test_scale_of_the_weights_scales_the_vectors_alone(solve):
    kernel, weights = kernel_of(sheet(70, 8)), random_weights(70, 8)
    for alpha in ALPHAS:
        once, often = (solve(kernel, factor * weights, 4, alpha=alpha) for factor in (1.0, 100.0))
        np.testing.assert_allclose(often.eigenvalues, once.eigenvalues, rtol=1e-10)
        np.testing.assert_allclose(often.vectors, once.vectors / 10.0, rtol=0, atol=1e-9)


def test_full_density_normalisation_forgets_the_density():
    # On a line of unit length the slowest mode is cos(πx). With α = 1 it is found however the line is sampled.
    x = np.linspace(0, 1, 250) ** 2
    cosine = np.cos(np.pi * x)
    errors = {}
    for alpha in ALPHAS:
        mode = solve_spectrum(kernel_of(x[:, None], 5e-4), np.ones(250), 1, alpha=alpha).vectors[:, 0]
        slope = cosine @ mode / (mode @ mode)
        errors[alpha] = np.abs(slope * mode - cosine).max()
    assert errors[1.0] < 0.05
    assert errors[0.0] > 2 * errors[0.5] > 4 * errors[1.0]


# -- precision, threads, and what is left alone ---------------------------------------------


def test_single_precision_kernels_give_the_same_map(solve):
    kernel, weights = kernel_of(sheet(130, 9)), random_weights(130, 9)
    double, single = solve(kernel, weights, 5), solve(kernel.astype(np.float32), weights, 5)
    assert single.vectors.dtype == single.eigenvalues.dtype == np.float64
    np.testing.assert_allclose(single.eigenvalues, double.eigenvalues, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        single.vectors, double.vectors, rtol=0, atol=1e-4 * np.abs(double.vectors).max()
    )
    # Solved in double precision whatever the kernel is stored in.
    assert (residuals(kernel.astype(np.float32), weights, single) < 1e-11).all()


def test_ways_of_solving_agree(monkeypatch):
    kernel, weights = kernel_of(sheet(200, 10)), random_weights(200, 10)
    dense = solve_spectrum(kernel, weights, 6)
    sparse = solve_spectrum(csr_array(kernel), weights, 6)
    monkeypatch.setattr(spectrum, "DENSE_SIZE", 0)
    lanczos = solve_spectrum(kernel, weights, 6)
    for other in (sparse, lanczos):
        np.testing.assert_allclose(other.eigenvalues, dense.eigenvalues, rtol=0, atol=1e-12)
        np.testing.assert_allclose(other.vectors, dense.vectors, rtol=0, atol=1e-9)


def test_threads_change_no_bit():
    kernel, weights = kernel_of(sheet(1200, 11), 0.05), random_weights(1200, 11)
    alone, together = (solve_spectrum(kernel, weights, 3, n_threads=n) for n in (1, 5))
    np.testing.assert_array_equal(alone.eigenvalues, together.eigenvalues)
    np.testing.assert_array_equal(alone.vectors, together.vectors)
    assert (residuals(kernel, weights, alone) < 1e-11).all()


def test_lanczos_wakes_no_threads_of_blas(monkeypatch):
    # They would go on spinning, for tens of milliseconds, on the cores that the next step needs.
    seen = []
    solver = scipy.sparse.linalg.eigsh

    def watched(*args, **settings):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return solver(*args, **settings)

    monkeypatch.setattr(scipy.sparse.linalg, "eigsh", watched)
    monkeypatch.setattr(spectrum, "DENSE_SIZE", 10)
    solve_spectrum(kernel_of(sheet(60, 0)), np.ones(60), 3)
    assert seen
    assert set(seen) == {1}


def test_solving_again_gives_the_same_bits(solve):
    kernel, weights = kernel_of(sheet(100, 12)), random_weights(100, 12)
    np.testing.assert_array_equal(solve(kernel, weights, 4).vectors, solve(kernel, weights, 4).vectors)


def test_arguments_are_left_alone(solve):
    kernel, weights = kernel_of(sheet(80, 13)), random_weights(80, 13)
    kept = kernel.copy(), weights.copy()
    solve(kernel, weights, 3, alpha=0.5)
    np.testing.assert_array_equal(kernel, kept[0])
    np.testing.assert_array_equal(weights, kept[1])


def test_leading_pairs_are_the_first_ones(solve):
    found = solve(kernel_of(sheet(80, 14)), np.ones(80), 6)
    leading = found.taking(np.arange(2))
    np.testing.assert_array_equal(leading.eigenvalues, found.eigenvalues[:2])
    np.testing.assert_array_equal(leading.vectors, found.vectors[:, :2])
    np.testing.assert_array_equal(leading.source_weights, found.source_weights)
    np.testing.assert_array_equal(leading.degrees, found.degrees)


# -- signs -------------------------------------------------------------------------------


def test_entry_of_largest_magnitude_is_positive(solve):
    psi = solve(kernel_of(sheet(100, 15)), np.ones(100), 8).vectors
    assert (psi[np.abs(psi).argmax(axis=0), np.arange(8)] > 0).all()


def test_signs_are_turned_column_by_column():
    vectors = np.array([[1.0, 2.0, -3.0, 0.0], [-2.0, -2.0, 1.0, 0.0], [0.5, 1.0, 3.0, 0.0]])
    turned = fix_signs(vectors)
    # Of two equal magnitudes the first decides; a column of zeros stays.
    np.testing.assert_array_equal(turned, vectors * [-1, 1, -1, 1])
    np.testing.assert_array_equal(fix_signs(turned), turned)
    np.testing.assert_array_equal(fix_signs(-vectors), turned)


# -- how many coordinates ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eigenvalues", "k"),
    [
        ([0.99, 0.97, 0.5, 0.45], 2),
        ([0.9, 0.2, 0.1], 2),
        ([0.9, 0.8, 0.7, 0.1], 3),
        ([0.9, 0.5, 0.1], 2),
        ([0.9, 0.8, 0.4, 0.0], 2),
        ([0.5, 0.0, -0.5], 1),
        ([0.5, 1e-9, 0.0], 1),
        ([0.7], 1),
        ([], 0),
    ],
)
def test_gap_is_the_first_largest_drop_but_two_coordinates_at_least(eigenvalues, k):
    assert spectral_gap(np.array(eigenvalues)) == k


def test_gap_of_well_separated_clusters_counts_them():
    # Four clusters that hardly talk: three slow modes between them, and all else fast.
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [rng.standard_normal((40, 2)) * 0.3 + centre for centre in ([0, 0], [4, 0], [0, 4], [4, 4.0])]
    )
    found = solve_spectrum(kernel_of(X, 0.5), np.ones(160), 10)
    assert spectral_gap(found.eigenvalues) == 3


# -- division by the eigenvalue -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ordinary_eigenvalues_are_extensible(dtype):
    check_extensible(np.array([0.9, 0.5, 0.01]), np.dtype(dtype))


@pytest.mark.parametrize("last", [0.0, -0.2, 1e-15])
def test_eigenvalue_of_zero_is_refused(last):
    with pytest.raises(InvalidInputError, match="at most n_components=2, or a smaller epsilon") as caught:
        check_extensible(np.array([0.9, 0.5, last]), np.dtype(np.float64))
    assert f"coordinate 3 has eigenvalue {last:.3g}, which is zero to rounding" in str(caught.value)


def test_what_is_zero_depends_on_the_precision():
    eigenvalues = np.array([0.9, 5e-6])
    with pytest.raises(InvalidInputError, match="at most n_components=1"):
        check_extensible(eigenvalues, np.dtype(np.float32))
    check_extensible(eigenvalues, np.dtype(np.float64))


def test_no_eigenvalue_above_rounding():
    with pytest.raises(
        InvalidInputError,
        match=r"all non-trivial eigenvalues vanish .*\(the largest is 1e-17\).*use a smaller one",
    ):
        check_extensible(np.array([1e-17, -1e-3]), np.dtype(np.float64))


def test_small_eigenvalue_is_warned_of():
    with pytest.warns(
        SpectrumWarning,
        match="eigenvalue 2 is 1e-13: the Nyström extension divides by it, which amplifies rounding",
    ):
        check_extensible(np.array([0.9, 1e-13]), np.dtype(np.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_extensible(np.array([0.9, 1e-9]), np.dtype(np.float64))


@pytest.mark.parametrize("path", ["dense", "lanczos"])
def test_kernel_without_numbers_is_refused(path, monkeypatch):
    monkeypatch.setattr(spectrum, "DENSE_SIZE", 10**9 if path == "dense" else 0)
    kernel = kernel_of(sheet(40, 0))
    kernel[3, 4] = kernel[4, 3] = np.nan
    with pytest.raises(LdmapsError, match="not finite; epsilon may be far too small or too large"):
        solve_spectrum(kernel, np.ones(40), 3)


# -- the extension reproduces the vectors --------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("time", [0.0, 1.0, 2.5])
def test_extension_of_the_points_themselves_is_their_embedding(solve, alpha, time):
    X, weights = sheet(90, 16), random_weights(90, 16)
    kernel = kernel_of(X)
    found = solve(kernel, weights, 4, alpha=alpha)
    walk = kernel * found.source_weights
    walk /= walk.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        walk @ nystrom_coefficients(found, time), found.vectors * found.eigenvalues**time, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("n", [12, 30])
def test_points_that_are_all_equally_far_from_each_other_have_a_spectrum(n):
    # All non-trivial eigenvalues are the same: LAPACK's solver for some of them fails ("Internal Error").
    apart = np.exp(-0.5 * (1 - np.eye(n)))
    found = solve_spectrum(apart, np.ones(n), 5)
    walk = apart / apart.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        found.eigenvalues, np.sort(np.linalg.eigvals(walk).real)[::-1][1:6], atol=1e-12
    )
    np.testing.assert_allclose(walk @ found.vectors, found.vectors * found.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(5), atol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)  # such a map shows single points
        model = DiffusionMap(epsilon=1.0).fit(np.eye(n))
    assert np.isfinite(model.embedding_).all()


def test_the_full_solver_steps_in_where_the_other_fails(monkeypatch):
    solve, drivers = scipy.linalg.eigh, []

    def failing(matrix, driver="evr", **settings):
        drivers.append(driver)
        if driver == "evr":
            raise scipy.linalg.LinAlgError("Internal Error")
        return solve(matrix, driver=driver, **settings)

    monkeypatch.setattr(scipy.linalg, "eigh", failing)
    values, vectors = spectrum.largest_eigenpairs(np.diag([3.0, 1.0, 2.0, 0.0]), 2)
    assert drivers == ["evr", "evd"]
    np.testing.assert_allclose(values, [2.0, 3.0])
    np.testing.assert_allclose(np.abs(vectors), [[0, 1], [0, 0], [1, 0], [0, 0]], atol=1e-15)
