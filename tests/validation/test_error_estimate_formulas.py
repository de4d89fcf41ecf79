"""The stand-in for the exact map against a dense transcription, and the sampling error against halves."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import AccuracyWarning
from ldmaps.metrics import Euclidean
from ldmaps.validation import error_estimate
from ldmaps.validation.error_estimate import ErrorEstimator, Reference
from ldmaps.validation.fidelity import column_matching, nrmse

EPSILON = 16.0
ROLL = swiss_roll(400, random_state=8).points
NEW = swiss_roll(60, random_state=9).points
METRIC = Euclidean()
quiet = pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")


@pytest.fixture(scope="module")
def judged():
    """A map without further modes, so that the residuals matter as much as they can."""
    model = LandmarkDiffusionMap(2, EPSILON, n_landmarks=40, extension="nystrom").fit(ROLL)
    return replace(model._judged(), landmark_spectrum=None)


def kernel(X, Y):
    return np.exp(-(cdist(X, Y) ** 2) / (2 * EPSILON))


def naive_steps(P, F, WD, f):
    """How many residuals it takes until one changes no more than a tenth of the distance to f, six at most."""
    f = f / np.linalg.norm(f, axis=0)
    previous = None
    for steps in range(7):  # noqa: B007
        values, mixtures = eigh(F.T @ WD @ P @ F, F.T @ WD @ F)
        values, mixtures = values[::-1][1:3], mixtures[:, ::-1][:, 1:3]
        psi = P @ F @ mixtures
        psi /= np.linalg.norm(psi, axis=0)
        order, signs = column_matching(f, psi)
        psi = psi[:, order] * signs
        if previous is not None:
            last, whole = (np.linalg.norm((psi - other) / np.ptp(psi, axis=0)) for other in (previous, f))
            if last <= 0.1 * whole:
                break
        previous = psi
        F = np.column_stack([F, P @ F @ mixtures - F @ mixtures * values])
    return steps


def naive_change(judged, X, weights, new, modes=None):
    """F = [1, f, modes], H y = μ G y, again with PFy − μFy until settled, one Nyström step; operators are N×N."""
    f = judged.embedder.extend(METRIC.prepare(X)).coordinates
    A = kernel(X, X) * weights
    D = A.sum(axis=1)
    P = A / D[:, None]
    F = np.column_stack([np.ones(len(X)), f] + ([] if modes is None else [modes]))
    WD = np.diag(weights * D)

    def pairs():
        values, mixtures = eigh(F.T @ WD @ P @ F, F.T @ WD @ F)
        return values[::-1][1:3], mixtures[:, ::-1][:, 1:3]

    values, mixtures = pairs()
    for _ in range(naive_steps(P, F, WD, f)):
        F = np.column_stack([F, P @ F @ mixtures - F @ mixtures * values])
        values, mixtures = pairs()
    psi = P @ F @ mixtures / values
    order, signs = column_matching(f, psi)
    lengths = np.sqrt(weights @ psi**2) * np.sqrt(judged.walk.weights.sum() / weights.sum())
    Q = kernel(new, X) * weights
    extended = (Q / Q.sum(axis=1, keepdims=True)) @ F @ mixtures / values
    better = extended[:, order] * signs / lengths[order]
    return judged.embedder.extend(METRIC.prepare(new)).coordinates - better


@quiet
def test_the_change_is_the_dense_one(judged):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(ROLL))
    reference = Reference(METRIC.prepare(ROLL), weights, len(ROLL))
    found = ErrorEstimator(judged, reference).estimate(METRIC.prepare(NEW))
    expected = naive_change(judged, ROLL, weights, NEW)
    np.testing.assert_allclose(found.change, expected, atol=1e-6 * np.abs(expected).max())
    assert (found.sampling == 0).all()


@quiet
def test_further_modes_are_trial_functions_and_their_residuals_too():
    model = LandmarkDiffusionMap(2, EPSILON, n_landmarks=40, extension="nystrom").fit(ROLL)
    judged = model._judged()
    spectrum = judged.landmark_spectrum
    keep = np.flatnonzero(spectrum.eigenvalues > 0.3 * spectrum.eigenvalues[1])[2:]
    shares = kernel(ROLL, ROLL[model.landmark_indices_]) * spectrum.source_weights
    modes = shares / shares.sum(axis=1, keepdims=True) @ spectrum.vectors[:, keep]
    found = model.error_estimate(NEW)
    expected = naive_change(judged, ROLL, np.ones(len(ROLL)), NEW, modes)
    np.testing.assert_allclose(found.change, expected, atol=1e-5 * np.abs(expected).max())
    without = naive_change(judged, ROLL, np.ones(len(ROLL)), NEW)
    assert np.abs(without - expected).max() > 0.01 * np.abs(expected).max()


def torus(n):
    u, v = np.random.default_rng(1).uniform(0, 2 * np.pi, (2, n))
    return np.column_stack([(3 + np.cos(v)) * np.cos(u), (3 + np.cos(v)) * np.sin(u), 1.5 * np.sin(v)])


def test_an_estimate_that_has_not_settled_says_so(monkeypatch):
    """25 landmarks have few modes to tell errors of four coordinates by, a tenth of Nyström's after distilling."""
    X = torus(1500)
    model = LandmarkDiffusionMap(4, n_landmarks=25, extension="distilled").fit(X)
    monkeypatch.setattr(error_estimate, "MAX_STEPS", 1)
    with pytest.warns(AccuracyWarning, match=r"last step changed it by \d+%, so it has not converged"):
        model.error_estimate(X[::10])


@quiet
def test_residuals_are_added_until_the_estimate_has_settled():
    X = torus(1800)
    train, new = X[:1500], X[1500:]
    exact = DiffusionMap(4).fit(train)
    model = LandmarkDiffusionMap(4, exact.epsilon_, n_landmarks=25, extension="distilled").fit(train)
    true = nrmse(exact.transform(new), model.transform(new), ranges=np.ptp(exact.embedding_, axis=0))
    assert model.error_estimate(new).nrmse == pytest.approx(true, rel=0.1)


@quiet
@pytest.mark.parametrize("n_training", [250, 400])
def test_the_sampling_error_is_how_far_halves_of_the_sample_are_from_it(judged, n_training):
    """Scaled by the share of the training points that the sample lacks; halves keep each cell's weight."""
    points, new = METRIC.prepare(ROLL[:200]), METRIC.prepare(NEW)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 200)
    reference = Reference(points, weights, n_training)
    found = ErrorEstimator(judged, reference).estimate(new)
    cells = cdist(ROLL[:200], ROLL[judged_indices(judged)]).argmin(axis=1)
    halves = error_estimate._halves(judged, reference)
    assert sum(len(half.points) for half in halves) == 200
    squares = 0.0
    for half in halves:
        values = METRIC.export_points(half.points)["values"]
        own = cdist(values, ROLL[:200]).argmin(axis=1)
        for cell in np.unique(cells[own]):
            assert half.weights[cells[own] == cell].sum() == pytest.approx(weights[cells == cell].sum())
        alone = ErrorEstimator(judged, replace(half, n_training=len(half.points))).estimate(new)
        squares = squares + ((alone.change - found.change) ** 2).sum(axis=1)
    np.testing.assert_allclose(found.sampling, np.sqrt((1 - 200 / n_training) * squares / 2), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("extension", ["nystrom", "distilled"])
def test_an_estimate_from_a_sample_is_near_or_says_that_it_may_not_be(extension):
    """Half of the points as reference; of the Swiss roll, whose slow modes a sample tells badly."""
    X = swiss_roll(1600, random_state=3).points
    train, new = X[:1300], X[1300:]
    exact = DiffusionMap(2, 4.0).fit(train)
    ranges = np.ptp(exact.embedding_, axis=0)
    ratios, told = [], []
    for seed in range(4):
        for m in (60, 120):
            model = LandmarkDiffusionMap(2, 4.0, n_landmarks=m, extension=extension, random_state=seed).fit(
                train
            )
            true = nrmse(exact.transform(new), model.transform(new), ranges=ranges)
            sample = train[np.random.default_rng(seed).permutation(1300)[:650]]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                estimate = model.error_estimate(new, reference=sample)
            ratios.append(estimate.nrmse / true)
            told.append(any("reference points are too few" in str(warning.message) for warning in caught))
    far = (np.array(ratios) < 0.5) | (np.array(ratios) > 2)
    assert np.array(told)[far].all()
    if extension == "distilled":
        assert far.sum() >= 4, "nothing was tested"
    else:
        assert not np.array(told).all()


def judged_indices(judged):
    """Return which points the landmarks are."""
    values = judged.embedder.metric.export_points(judged.embedder.landmarks)["values"]
    return cdist(ROLL, values).argmin(axis=0)


def test_a_point_beside_a_reference_point_is_inside_though_far_from_all_landmarks(judged):
    landmarks = ROLL[judged_indices(judged)]
    distances = cdist(ROLL, landmarks).min(axis=1) / np.sqrt(EPSILON)
    far = int(distances.argmax())
    assert distances[far] > 1
    reference = Reference(METRIC.prepare(ROLL), np.ones(400), 400)
    probe = np.array([ROLL[far] + 1e-3, landmarks[0], [0.0, 500.0, 0.0]])
    with pytest.warns(AccuracyWarning, match="1 of 3 points are farther"):
        found = ErrorEstimator(judged, reference).estimate(METRIC.prepare(probe))
    assert found.inside.tolist() == [True, True, False]
