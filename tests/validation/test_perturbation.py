"""The expansion of section meth_err: dense transcriptions, its order, its reach, and measured errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from ldmaps import DiffusionMap, LandmarkDiffusionMap, threads
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.validation.fidelity import column_matching, match_columns, nrmse
from ldmaps.validation.perturbation import CollapsedWalk, perturb, predict_errors

METRIC = Euclidean()


def dense_pairs(A, w):
    """All eigenpairs of D⁻¹AW, the trivial one first, ψᵀWψ = 1, in falling order of λ."""
    D = A @ w
    scale = np.sqrt(w / D)
    values, vectors = eigh(scale[:, None] * A * scale)
    psi = vectors[:, ::-1] / np.sqrt(w * D)[:, None]
    return values[::-1], psi / np.sqrt(w @ psi**2), D


class Naive:
    """Everything as N×N arrays, line by line as printed."""

    def __init__(self, X, Z, labels, w, epsilon):
        self.d, self.w, self.epsilon = cdist(X, X), w, epsilon
        self.A = np.exp(-(self.d**2) / (2 * epsilon))
        self.lam, self.psi, self.D = dense_pairs(self.A, w)
        self.moved = cdist(Z, Z)[np.ix_(labels, labels)]
        self.moved_columns = cdist(X, Z)[:, labels]

    def linear(self, moved):
        dA = -(self.d * (moved - self.d) / self.epsilon) * self.A
        dD = dA @ self.w
        return (dA / self.D[:, None] - (dD / self.D**2)[:, None] * self.A) * self.w

    def exact(self, moved):
        A = np.exp(-(moved**2) / (2 * self.epsilon)) * self.w
        return A / A.sum(axis=1, keepdims=True) - self.A * self.w / self.D[:, None]

    def displaced_pairs(self):
        return dense_pairs(np.exp(-(self.moved**2) / (2 * self.epsilon)), self.w)


@pytest.fixture
def small():
    """60 points with uneven weights, 25 landmarks."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3)) * [2.0, 1.0, 0.3]
    w = rng.uniform(0.5, 2.0, 60)
    indices = np.sort(rng.choice(60, 25, replace=False))
    labels = cdist(X, X[indices]).argmin(axis=1)
    return X, X[indices], labels, w, 1.5


def expand(X, Z, labels, w, epsilon, lam, psi, k, n_threads=None, **settings):
    walk = Walk(METRIC, METRIC.prepare(X), w, epsilon, n_threads=n_threads)
    return perturb(CollapsedWalk(walk, METRIC.prepare(Z), labels), lam, psi, k, **settings)


# -- against dense transcriptions ------------------------------------------------


@pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")
def test_the_papers_formula_is_the_one_printed(small):
    X, Z, labels, _, epsilon = small
    w = np.ones(len(X))
    naive = Naive(X, Z, labels, w, epsilon)
    k = 3
    lam, psi = naive.lam[1 : k + 1], naive.psi[:, 1 : k + 1]
    dM = naive.linear(naive.moved)
    found = expand(X, Z, labels, w, epsilon, lam, psi, k, method="paper")
    for i in range(k):
        assert found.eigenvalue_changes[i] == pytest.approx(psi[:, i] @ dM @ psi[:, i])
        alpha = np.zeros(k)
        for other in range(k):
            if other != i:
                alpha[other] = psi[:, other] @ dM @ psi[:, i] / (lam[i] - lam[other])
        total = (alpha**2).sum()
        assert found.square_sums[i] == pytest.approx(total)
        alpha[i] = -1 + np.sqrt(max(0.0, 1 - total))
        np.testing.assert_allclose(found.at_landmarks[:, i], psi @ alpha, atol=1e-12)


def test_second_order_with_every_mode_is_exact(small):
    """Nothing is left to close: the p×p problem is the landmark problem in another basis."""
    X, _, _, w, epsilon = small
    indices = np.setdiff1d(
        np.arange(60), [5, 17, 23, 31, 44, 52]
    )  # few points move, so no modes are confused
    Z, labels = X[indices], cdist(X, X[indices]).argmin(axis=1)
    naive = Naive(X, Z, labels, w, epsilon)
    values, vectors, _ = naive.displaced_pairs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        found = expand(X, Z, labels, w, epsilon, naive.lam[1:], naive.psi[:, 1:], 2)
    np.testing.assert_allclose(found.eigenvalues + found.eigenvalue_changes, values[1:3], atol=1e-9)
    predicted = naive.psi[:, 1:3] + found.at_landmarks
    np.testing.assert_allclose(match_columns(vectors[:, 1:3], predicted), vectors[:, 1:3], atol=1e-7)
    columns = np.exp(-(naive.moved_columns**2) / (2 * epsilon)) * w
    nystrom = columns @ vectors[:, 1:3] / columns.sum(axis=1, keepdims=True) / values[1:3]
    predicted = naive.psi[:, 1:3] + found.at_points
    np.testing.assert_allclose(match_columns(nystrom, predicted), nystrom, atol=1e-7)


# -- order ------------------------------------------------------------------------


def test_second_order_eigenvalues_leave_the_third():
    """With few modes, so that the folded term and not the small matrix alone carries the order."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3)) * [2.0, 1.0, 0.3]
    push, w, labels = rng.normal(size=X.shape), np.ones(50), np.arange(50)
    for step in (0.08, 0.04):
        naive = Naive(X, X + step * push, labels, w, 4.0)
        truth = naive.displaced_pairs()[0][1] - naive.lam[1]
        given = X, X + step * push, labels, w, 4.0, naive.lam[1:16], naive.psi[:, 1:16], 1
        phi = (w * naive.D) * naive.psi[:, 1]
        first = phi @ naive.exact(naive.moved) @ naive.psi[:, 1] / (phi @ naive.psi[:, 1])
        assert abs(expand(*given).eigenvalue_changes[0] - truth) < 0.05 * abs(first - truth)


@pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")
def test_second_order_eigenvalues_solve_the_folded_problem(small):
    """λ′ enters the matrix that it is an eigenvalue of: one round from λ does not get there."""
    X, Z, labels, w, _ = small
    epsilon, p = 3.0, 5  # wide enough for the rounds to close in on it
    naive = Naive(X, Z, labels, w, epsilon)
    lam, psi = naive.lam[:p], naive.psi[:, :p]
    phi = (w * naive.D)[:, None] * psi
    phi /= (phi * psi).sum(axis=0)
    displaced = naive.exact(naive.moved) + naive.A * w / naive.D[:, None]
    first = phi.T @ (displaced @ psi - psi * lam)
    second = phi.T @ displaced @ (displaced @ psi - psi * lam - psi @ first)
    rounds = [lam[1]]
    for _ in range(50):
        energies, modes = np.linalg.eig(np.diag(lam) + first + second / rounds[-1])
        rounds.append(energies[np.argmax(np.abs(modes[1]) / np.linalg.norm(modes, axis=0))].real)
    found = expand(X, Z, labels, w, epsilon, lam[1:], psi[:, 1:], 1)
    missed = abs(found.eigenvalues[0] + found.eigenvalue_changes[0] - rounds[-1])
    assert missed < 1e-3 * abs(rounds[1] - rounds[-1])


# -- how the work is cut -----------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")
@pytest.mark.parametrize("settings", [{}, {"method": "paper"}], ids=str)
def test_tiles_and_threads_do_not_matter(small, monkeypatch, settings):
    X, Z, labels, w, epsilon = small
    naive = Naive(X, Z, labels, w, epsilon)
    given = X, Z, labels, w, epsilon, naive.lam[1:9], naive.psi[:, 1:9], 2
    whole = expand(*given, n_threads=1, **settings)
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", 7)
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    monkeypatch.setattr(threads, "TILE_BYTES", 1 << 11)
    cut = expand(*given, n_threads=2, **settings)
    np.testing.assert_allclose(cut.at_landmarks, whole.at_landmarks, atol=1e-12)
    np.testing.assert_allclose(cut.at_points, whole.at_points, atol=1e-12)


def test_points_of_weight_zero_take_no_part():
    X = swiss_roll(400, random_state=1).points
    weights = np.where(np.arange(400) % 5 == 0, 0.0, 1.5)
    exact = DiffusionMap(20, 20.0).fit(X, sample_weight=weights)
    model = LandmarkDiffusionMap(2, 20.0, n_landmarks=200, extension="nystrom").fit(X, sample_weight=weights)
    used = weights > 0
    part_exact = DiffusionMap(20, 20.0).fit(X[used], sample_weight=weights[used])
    places = np.cumsum(used) - 1
    part = LandmarkDiffusionMap(2, 20.0, landmarks=places[model.landmark_indices_], extension="nystrom")
    part.fit(X[used], sample_weight=weights[used])
    found, expected = predict_errors(exact, model, X), predict_errors(part_exact, part, X[used])
    np.testing.assert_allclose(found.sigma, expected.sigma, atol=1e-9)


# -- against measured errors ---------------------------------------------------------


def _roll():
    return swiss_roll(1200).points, Euclidean(), 2


def _c24h50():
    return c24h50(stride=8).frames, RMSD(), 4


def _alanine():
    molecule = alanine_dipeptide(stride=20)
    return molecule.frames, RMSD(weights=molecule.masses), 2


@pytest.fixture(scope="module", params=[_roll, _c24h50, _alanine], ids=["roll", "c24h50", "alanine"])
def case(request):
    X, metric, k = request.param()
    return X, metric, k, DiffusionMap(60, "connected", metric).fit(X)


def _rms(values):
    return np.sqrt(np.mean(np.asarray(values) ** 2))


@pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")
def test_predictions_meet_measurements(case):
    X, metric, k, exact = case
    truth = exact.embedding_[:, :k]
    checked = 0
    for m in (150, 300, 700):
        model = LandmarkDiffusionMap(k, exact.epsilon_, metric, n_landmarks=m, extension="nystrom").fit(X)
        found = predict_errors(exact, model, X)
        if found.rms_distance >= 0.7:
            continue
        checked += 1
        embedded = match_columns(truth, model.embedding_)
        collapsed = match_columns(truth, model.landmark_embedding_[model.labels_])
        assert 0.8 < _rms(found.sigma) / _rms(np.linalg.norm(embedded - truth, axis=1)) < 1.25
        assert 0.8 < _rms(found.sigma_at_landmarks) / _rms(np.linalg.norm(collapsed - truth, axis=1)) < 1.25
        assert 0.8 < found.nrmse / nrmse(truth, embedded) < 1.25
        order, _ = column_matching(truth, model.embedding_)
        np.testing.assert_allclose(
            found.eigenvalue_changes, model.eigenvalues_[order] - exact.eigenvalues_[:k], rtol=0.3, atol=5e-3
        )
    assert checked >= 2


def test_the_papers_truncation_misses_what_lies_beyond_its_subspace():
    X, metric, k = _alanine()
    exact = DiffusionMap(k, "connected", metric).fit(X)
    model = LandmarkDiffusionMap(k, exact.epsilon_, metric, n_landmarks=700, extension="nystrom").fit(X)
    collapsed = match_columns(exact.embedding_, model.landmark_embedding_[model.labels_])
    measured = _rms(np.linalg.norm(collapsed - exact.embedding_, axis=1))
    assert _rms(predict_errors(exact, model, X, method="paper").sigma) < 0.1 * measured


# -- where it does not hold -----------------------------------------------------------


def test_warns_of_landmarks_out_of_reach():
    X = swiss_roll(500, random_state=2).points
    exact = DiffusionMap(10, 12.0).fit(X)
    near = LandmarkDiffusionMap(2, 12.0, n_landmarks=250, extension="nystrom").fit(X)
    assert predict_errors(exact, near, X).distance.max() <= 1
    far = LandmarkDiffusionMap(2, 12.0, n_landmarks=60, extension="nystrom").fit(X)
    with pytest.warns(AccuracyWarning, match=r"of 500 points are farther than sqrt\(epsilon\)"):
        found = predict_errors(exact, far, X)
    squared = METRIC.pairwise(X, X[far.landmark_indices_])[np.arange(500), far.labels_] ** 2
    np.testing.assert_allclose(found.distance, np.sqrt(squared / 12.0), atol=1e-12)


def test_warns_of_changes_as_large_as_the_vector(small):
    X, _, _, w, epsilon = small
    naive = Naive(X, X, np.arange(60), w, epsilon)
    # Eigenvalues that nearly coincide: any perturbation turns their vectors about one another.
    lam = naive.lam[1:6].copy()
    lam[1] = lam[0] - 1e-7
    push = 0.01 * np.random.default_rng(0).normal(size=X.shape)
    with pytest.warns(AccuracyWarning, match="squared change of coordinate 1"):
        expand(X, X + push, np.arange(60), w, epsilon, lam, naive.psi[:, 1:6], 2, method="paper")


def test_refuses_methods_that_do_not_exist(small):
    X, Z, labels, w, epsilon = small
    with pytest.raises(InvalidInputError, match='must be "biorthogonal" or "paper"'):
        expand(X, Z, labels, w, epsilon, np.array([0.5]), np.ones((60, 1)), 1, method="papers")


def test_refuses_maps_that_do_not_belong_together():
    X = swiss_roll(300).points
    exact = DiffusionMap(2, 20.0).fit(X)
    with pytest.raises(InvalidInputError, match=r"epsilon=exact\.epsilon_"):
        predict_errors(exact, LandmarkDiffusionMap(2, 21.0, n_landmarks=100, extension="nystrom").fit(X), X)
    with pytest.raises(InvalidInputError, match="modes of the expansion"):
        predict_errors(exact, LandmarkDiffusionMap(3, 20.0, n_landmarks=100, extension="nystrom").fit(X), X)
    with pytest.raises(InvalidInputError, match="300 training points"):
        predict_errors(
            exact, LandmarkDiffusionMap(2, 20.0, n_landmarks=100, extension="nystrom").fit(X), X[:50]
        )
    with pytest.raises(InvalidInputError, match="alpha = 0"):
        predict_errors(
            exact, LandmarkDiffusionMap(2, 20.0, n_landmarks=100, extension="nystrom", alpha=1.0).fit(X), X
        )


@pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")
def test_the_second_order_eigenvalue_solves_its_own_equation():
    """λ′ is an eigenvalue of Λ + ΦᵀδPΨ + ΦᵀP′R/λ′: the fixed point is reached, not only begun."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3)) * [2.0, 1.0, 0.3]
    Z, labels, w, epsilon = X + 0.15 * rng.normal(size=X.shape), np.arange(50), rng.uniform(0.5, 2.0, 50), 1.5
    naive = Naive(X, Z, labels, w, epsilon)
    p, k = 6, 2
    found = expand(X, Z, labels, w, epsilon, naive.lam[1:p], naive.psi[:, 1:p], k)
    lam, psi = naive.lam[:p], naive.psi[:, :p]
    phi = (w * naive.D)[:, None] * psi
    phi /= (phi * psi).sum(axis=0)
    change = naive.exact(naive.moved) @ psi
    first = phi.T @ change
    rest = change - psi @ first
    displaced = naive.exact(naive.moved) + naive.A * w / naive.D[:, None]
    second = phi.T @ displaced @ rest

    def miss(value):
        return np.abs(np.linalg.eigvals(np.diag(lam) + first + second / value) - value).min()

    for i in range(k):
        value = found.eigenvalues[i] + found.eigenvalue_changes[i]
        # From λ, where the rounds begin, the first leaves far more.
        assert miss(value) < 1e-6 * miss(lam[i + 1])
