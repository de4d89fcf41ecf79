"""Errors estimated without the exact map, held against the exact map."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.validation import error_estimate
from ldmaps.validation.fidelity import match_columns, nrmse

quiet = pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")


def _rms(values):
    return np.sqrt(np.mean(np.asarray(values) ** 2))


def _roll():
    return swiss_roll(1500).points, Euclidean(), 2


def _c24h50():
    return c24h50(stride=7).frames, RMSD(), 4


def _alanine():
    molecule = alanine_dipeptide(stride=16)
    return molecule.frames, RMSD(weights=molecule.masses), 2


@quiet
@pytest.mark.parametrize("data", [_roll, _c24h50, _alanine])
def test_estimates_meet_the_errors_of_new_points(data):
    X, metric, k = data()
    new, train = X[::6], np.delete(X, np.arange(0, len(X), 6), axis=0)
    exact = DiffusionMap(k, "connected", metric).fit(train)
    truth, ranges = exact.transform(new), np.ptp(exact.embedding_, axis=0)
    for m in (150, 500):
        model = LandmarkDiffusionMap(k, exact.epsilon_, metric, n_landmarks=m, extension="nystrom").fit(train)
        embedded = model.transform(new)
        measured = np.linalg.norm(match_columns(truth, embedded) - truth, axis=1)
        estimate = model.error_estimate(new)
        assert estimate.n_reference == len(train)
        assert 0.8 < _rms(estimate.sigma) / _rms(measured) < 1.25
        assert 0.8 < estimate.nrmse / nrmse(truth, embedded, ranges=ranges) < 1.25
        assert np.corrcoef(np.log(estimate.sigma), np.log(measured))[0, 1] > 0.9
        # Each point's own error, not its size alone: what is left after correcting is far smaller.
        assert nrmse(truth, embedded - estimate.change) < 0.3 * nrmse(truth, embedded)


@quiet
@pytest.mark.parametrize(("alpha", "t"), [(0.0, 1.0), (0.5, 0.0), (1.0, 2.0)])
def test_density_time_and_weights_are_those_of_the_map(alpha, t):
    X = swiss_roll(1000, random_state=5).points
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 1000)
    weights[::10] = 0.0
    exact = DiffusionMap(2, 9.0, alpha=alpha, diffusion_time=t).fit(X, sample_weight=weights)
    model = LandmarkDiffusionMap(
        2, 9.0, n_landmarks=250, extension="nystrom", alpha=alpha, diffusion_time=t
    ).fit(X, sample_weight=weights)
    estimate = model.error_estimate(X)
    change = match_columns(exact.embedding_, model.embedding_) - exact.embedding_
    assert 0.8 < _rms(estimate.sigma) / _rms(np.linalg.norm(change, axis=1)) < 1.25
    corrected = model.embedding_ - estimate.change
    assert nrmse(exact.embedding_, corrected) < 0.5 * nrmse(exact.embedding_, model.embedding_)


@quiet
@pytest.mark.parametrize("data", [_roll, _alanine])
def test_coordinates_from_elsewhere_are_judged_as_well(data):
    """Coefficients fitted to the exact map leave errors far smaller than Nyström's, which are seen all the same."""
    X, metric, k = data()
    new, train = X[::6], np.delete(X, np.arange(0, len(X), 6), axis=0)
    exact = DiffusionMap(k, "connected", metric).fit(train)
    model = LandmarkDiffusionMap(k, exact.epsilon_, metric, n_landmarks=250, extension="nystrom").fit(train)
    by_nystrom = model.error_estimate(new).sigma
    embedder = model.embedder_
    squared = metric.pairwise(train, train[model.landmark_indices_]).astype(float) ** 2
    weights = np.exp(-squared / (2 * exact.epsilon_)) * model.multiplicities_
    weights /= weights.sum(axis=1, keepdims=True)
    fitted = np.linalg.solve(
        weights.T @ weights + 1e-8 * np.eye(250),
        weights.T @ match_columns(model.embedding_, exact.embedding_),
    )
    model.embedder_ = replace(embedder, coefficients=np.ascontiguousarray(fitted.T, dtype=train.dtype))
    model._error_estimator = None
    truth, embedded = exact.transform(new), model.transform(new)
    measured = np.linalg.norm(match_columns(truth, embedded) - truth, axis=1)
    assert _rms(measured) < 0.2 * _rms(by_nystrom)
    assert 0.8 < _rms(model.error_estimate(new).sigma) / _rms(measured) < 1.25


def test_all_points_as_landmarks_have_no_error():
    X = swiss_roll(300).points
    model = LandmarkDiffusionMap(2, 20.0, n_landmarks=300, extension="nystrom").fit(X)
    assert model.error_estimate(X).sigma.max() < 1e-9


@quiet
def test_what_is_shown_is_a_summary():
    X = np.random.default_rng(5).uniform(size=(400, 2)) * [3, 1]
    model = LandmarkDiffusionMap(2, 0.3, landmarks=np.arange(100)).fit(X[:300])
    estimate, coverage = model.error_estimate(X[300:]), model.coverage(X[300:])
    inside, others = int(estimate.inside.sum()), int(coverage.inside.sum())
    shown = f"(Z of {estimate.nrmse:.2g} %, {inside} of 100 points inside, by 300 reference points)"
    assert repr(estimate) == "ErrorEstimate" + shown
    assert repr(coverage) == f"Coverage({others} of 100 points are inside the map)"


@quiet
def test_a_bounded_sample_of_the_training_points_will_do(monkeypatch):
    X, metric, k = _alanine()
    ratios = []
    for seed in range(5):  # a single draw of the sample may be lucky, or not
        model = LandmarkDiffusionMap(
            k, "connected", metric, n_landmarks=80, extension="nystrom", random_state=seed
        )
        whole = model.fit(X).error_estimate(X[::3])
        embedding = model.embedding_
        assert (whole.sampling == 0).all()
        with monkeypatch.context() as patch:
            patch.setattr(error_estimate, "MAX_REFERENCE_POINTS", 700)
            estimate = model.fit(X).error_estimate(X[::3])
        np.testing.assert_array_equal(model.embedding_, embedding)
        kept = model._fit_result.reference
        assert 700 <= len(kept.points) <= 780
        assert kept.weights.sum() == pytest.approx(len(X))
        assert estimate.n_reference == len(kept.points)
        ratios.append(estimate.nrmse / whole.nrmse)
    assert 0.7 < np.median(ratios) < 1.5


@quiet
def test_the_noise_of_a_sample_is_told(monkeypatch):
    X, metric, k = _alanine()
    told, made = [], []
    for seed in range(6):  # a single draw of the sample may be lucky
        model = LandmarkDiffusionMap(k, "connected", metric, n_landmarks=80, random_state=seed)
        whole = model.fit(X).error_estimate(X[::3])
        with monkeypatch.context() as patch:
            patch.setattr(error_estimate, "MAX_REFERENCE_POINTS", 700)
            sampled = model.fit(X).error_estimate(X[::3])
        told.append(_rms(sampled.sampling))
        made.append(_rms(np.linalg.norm(sampled.change - whole.change, axis=1)))
    assert 0.4 < _rms(np.array(told)) / _rms(np.array(made)) < 2.5


@quiet
def test_loaded_maps_take_their_reference_from_the_user(tmp_path):
    X = swiss_roll(800, random_state=3).points
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=200, extension="nystrom").fit(X)
    model.save(tmp_path / "map.ldm")
    loaded = load(tmp_path / "map.ldm")
    with pytest.raises(InvalidInputError, match="as reference="):
        loaded.error_estimate(X[:5])
    expected = model.error_estimate(X[:50]).sigma
    np.testing.assert_allclose(loaded.error_estimate(X[:50], reference=X).sigma, expected, atol=1e-8)
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(model)).error_estimate(X[:50]).sigma, expected, atol=1e-12
    )


@quiet
def test_precomputed_distances():
    X = swiss_roll(500, random_state=3).points
    distances = Euclidean().pairwise(X)
    model = LandmarkDiffusionMap(2, 12.0, n_landmarks=150, extension="nystrom").fit(X)
    stored = LandmarkDiffusionMap(
        2, 12.0, "precomputed", landmarks=model.landmark_indices_, extension="nystrom"
    ).fit(distances)
    np.testing.assert_allclose(
        stored.error_estimate(distances[:40]).sigma, model.error_estimate(X[:40]).sigma, atol=1e-8
    )
    with pytest.raises(InvalidInputError, match="one column for each of the 500 training points"):
        stored.error_estimate(distances[:40][:, model.landmark_indices_])


def test_warns_far_from_all_known_points():
    X = swiss_roll(500, random_state=3).points
    model = LandmarkDiffusionMap(2, 12.0, n_landmarks=150, extension="nystrom").fit(X)
    with pytest.warns(AccuracyWarning, match="1 of 2 points are farther"):
        estimate = model.error_estimate([X[0], [0.0, 300.0, 0.0]])
    assert estimate.inside.tolist() == [True, False]


def test_warns_of_a_reference_that_is_too_small():
    X, metric, k = _alanine()
    model = LandmarkDiffusionMap(k, "connected", metric, n_landmarks=400, extension="nystrom").fit(X)
    with pytest.warns(AccuracyWarning, match="500 reference points are too few"):
        model.error_estimate(X[::5], reference=X[::3][:500])


def test_warns_of_coordinates_that_are_lost():
    X = swiss_roll(1500, random_state=0).points
    model = LandmarkDiffusionMap(4, 4.5, landmarks="uniform", n_landmarks=60, extension="nystrom").fit(X)
    with pytest.warns(AccuracyWarning, match="less than half of psi"):
        model.error_estimate(X[:10])


def test_fitting_again_forgets_the_old_reference():
    first, second = swiss_roll(400, random_state=1).points, swiss_roll(400, random_state=2).points
    model = LandmarkDiffusionMap(2, 25.0, n_landmarks=200, extension="nystrom").fit(first)
    model.error_estimate(first)
    fresh = LandmarkDiffusionMap(2, 25.0, n_landmarks=200, extension="nystrom").fit(second)
    again = model.fit(second).error_estimate(second)
    np.testing.assert_array_equal(again.change, fresh.error_estimate(second).change)
