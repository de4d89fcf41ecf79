"""The stand-in for the exact map against a dense transcription, and the sampling error against its halves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import AccuracyWarning
from ldmaps.metrics import Euclidean
from ldmaps.quality.error_estimate import ErrorEstimator, Reference
from ldmaps.quality.fidelity import alignment

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


def naive_change(judged, X, weights, new, modes=None):
    """F = [1, f, modes], H y = μ G y, once more with PFy − μFy, and one Nyström step; operators are N×N arrays."""
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
    F = np.column_stack([F, P @ F @ mixtures - F @ mixtures * values])
    values, mixtures = pairs()
    psi = P @ F @ mixtures / values
    order, signs = alignment(f, psi)
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


def test_an_estimate_that_has_not_settled_says_so():
    """25 landmarks have few modes to tell errors of four coordinates by, a tenth of Nyström's after distilling."""
    u, v = np.random.default_rng(1).uniform(0, 2 * np.pi, (2, 1500))
    torus = np.column_stack([(3 + np.cos(v)) * np.cos(u), (3 + np.cos(v)) * np.sin(u), 1.5 * np.sin(v)])
    model = LandmarkDiffusionMap(4, n_landmarks=25, extension="distilled").fit(torus)
    with pytest.warns(AccuracyWarning, match=r"second step changed it by \d\d\d% of what it is"):
        model.error_estimate(torus[::10])


@quiet
def test_the_sampling_error_is_half_the_difference_of_two_halves(judged):
    """Scaled by the share of the training points that the sample lacks."""
    sample = ROLL[:200]
    points = METRIC.prepare(sample)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 200)
    found = ErrorEstimator(judged, Reference(points, weights, 400)).estimate(METRIC.prepare(NEW))
    cells = cdist(sample, ROLL[np.unique(judged_indices(judged))]).argmin(axis=1)
    changes = []
    for start in (0, 1):
        half = np.arange(start, 200, 2)
        scale = [
            weights[cells == cell].sum() / weights[half][cells[half] == cell].sum() for cell in cells[half]
        ]
        changes.append(naive_change(judged, sample[half], weights[half] * scale, NEW))
    expected = 0.5 * np.sqrt(0.5) * np.linalg.norm(changes[0] - changes[1], axis=1)
    np.testing.assert_allclose(found.sampling, expected, rtol=1e-4, atol=1e-7 * expected.max())


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
