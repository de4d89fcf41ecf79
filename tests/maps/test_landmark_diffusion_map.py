"""The landmark map: equal to the replicated and to the exact map, and convergent in M."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import DisconnectedError, InvalidInputError
from ldmaps.landmarks import FarthestPoint, KMedoids, PrunedSpanningTree, Uniform
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.validation.fidelity import match_columns, nrmse


@pytest.fixture(scope="module")
def roll() -> np.ndarray:
    return swiss_roll(1500, random_state=4).points


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("landmarks", ["kmedoids", "pst", "uniform", "farthest"])
def test_equals_the_exact_map_of_the_replicated_data(roll, landmarks, alpha):
    """Landmark j standing c_j times: eqns block_eig, nystrom_block."""
    count = None if landmarks == "pst" else 120
    model = LandmarkDiffusionMap(
        3, 9.0, landmarks=landmarks, n_landmarks=count, alpha=alpha, extension="nystrom"
    ).fit(roll)
    copies = model.multiplicities_.astype(int)
    assert copies.sum() == len(roll)
    replicated = np.repeat(roll[model.landmark_indices_], copies, axis=0)
    exact = DiffusionMap(3, 9.0, alpha=alpha).fit(replicated)
    first = np.concatenate([[0], np.cumsum(copies)[:-1]])
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(
        match_columns(model.landmark_embedding_, exact.embedding_[first]),
        model.landmark_embedding_,
        atol=1e-8,
    )
    new = roll[:50] + 0.1
    np.testing.assert_allclose(
        match_columns(model.transform(new), exact.transform(new)), model.transform(new), atol=1e-8
    )


@pytest.mark.parametrize(("alpha", "t"), [(0.0, 0.0), (0.5, 1.0), (1.0, 2.0)])
@pytest.mark.parametrize("landmarks", ["kmedoids", "uniform", "farthest", "all"])
def test_all_points_as_landmarks_is_the_exact_map(roll, landmarks, alpha, t):
    X = roll[:300]
    chosen = np.arange(300) if landmarks == "all" else landmarks
    count = None if landmarks == "all" else 300
    weights = np.random.default_rng(0).uniform(0.1, 3.0, 300)
    model = LandmarkDiffusionMap(
        2, "connected", landmarks=chosen, n_landmarks=count, alpha=alpha, diffusion_time=t
    )
    model.fit(X, sample_weight=weights)
    exact = DiffusionMap(2, "connected", alpha=alpha, diffusion_time=t).fit(X, sample_weight=weights)
    assert model.epsilon_ == exact.epsilon_
    np.testing.assert_allclose(model.multiplicities_, weights)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=1e-11)
    np.testing.assert_allclose(match_columns(exact.embedding_, model.embedding_), exact.embedding_, atol=1e-8)
    np.testing.assert_allclose(
        match_columns(exact.embedding_, model.transform(X)), exact.transform(X), atol=1e-8
    )


def test_training_points_are_embedded_by_the_same_extension(roll):
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=150).fit(roll)
    np.testing.assert_allclose(model.transform(roll), model.embedding_, atol=1e-14)
    np.testing.assert_allclose(
        model.embedding_[model.landmark_indices_], model.landmark_embedding_, atol=1e-10
    )


def test_error_falls_with_the_number_of_landmarks(roll):
    exact = DiffusionMap(2, 9.0).fit(roll)
    errors = [
        np.mean(
            [
                nrmse(
                    exact.embedding_,
                    LandmarkDiffusionMap(2, 9.0, n_landmarks=m, extension="nystrom", random_state=s)
                    .fit(roll)
                    .embedding_,
                )
                for s in range(3)
            ]
        )
        for m in (50, 150, 450, 1350)
    ]
    assert all(after < 0.6 * before for before, after in pairwise(errors))
    assert errors[-1] < 0.5


def test_one_point_at_a_time_equals_the_batch(roll):
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=100).fit(roll)
    one_by_one = np.array([model.embedder_.embed_one(x) for x in roll[:40]])
    np.testing.assert_allclose(one_by_one, model.transform(roll[:40]), rtol=1e-12)


def test_coverage_tells_inside_from_outside(roll):
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=100).fit(roll)
    training = model.coverage(roll)
    assert training.inside.all()
    landmark = model.coverage(roll[model.landmark_indices_])
    np.testing.assert_array_equal(landmark.nearest, np.arange(100))
    np.testing.assert_allclose(landmark.distance, 0.0, atol=1e-12)
    distances = Euclidean().pairwise(roll, roll[model.landmark_indices_])
    np.testing.assert_allclose(training.distance, distances.min(axis=1) / 3.0, atol=1e-12)
    away = model.coverage(roll[:5] + np.array([0.0, 1000.0, 0.0]))
    assert not away.inside.any()
    assert (away.distance > 300).all()
    assert np.isfinite(model.transform(roll[:5] + np.array([0.0, 1e6, 0.0]))).all()


def test_tree_landmarks_leave_every_training_point_within_one_bandwidth(roll):
    model = LandmarkDiffusionMap(2, "connected", landmarks=PrunedSpanningTree()).fit(roll)
    assert model.coverage(roll).distance.max() <= 1.0 + 1e-9


@pytest.mark.parametrize(
    "selector", [KMedoids(80), KMedoids(80, init="random"), Uniform(80), FarthestPoint(80)]
)
def test_selectors_may_be_given_with_their_settings(roll, selector):
    model = LandmarkDiffusionMap(2, 16.0, landmarks=selector).fit(roll)
    assert len(np.unique(model.landmark_indices_)) == 80
    assert selector.n_landmarks == 80


def test_weights_that_do_not_vary_change_nothing_but_the_scale(roll):
    plain, doubled = (
        LandmarkDiffusionMap(2, 9.0, n_landmarks=90, extension="nystrom").fit(roll, sample_weight=weights)
        for weights in (None, np.full(len(roll), 2.0))
    )
    np.testing.assert_array_equal(plain.landmark_indices_, doubled.landmark_indices_)
    np.testing.assert_allclose(plain.embedding_, doubled.embedding_ * np.sqrt(2.0), rtol=1e-10)


def test_points_of_zero_weight_cannot_be_landmarks(roll):
    weights = np.ones(len(roll))
    weights[:700] = 0.0
    model = LandmarkDiffusionMap(2, 16.0, n_landmarks=60).fit(roll, sample_weight=weights)
    assert model.landmark_indices_.min() >= 700
    assert model.embedding_.shape == (len(roll), 2)
    assert model.multiplicities_.sum() == 800
    given = LandmarkDiffusionMap(2, 16.0, landmarks=np.arange(700, 1400)).fit(roll, sample_weight=weights)
    np.testing.assert_array_equal(given.landmark_indices_, np.arange(700, 1400))
    with pytest.raises(InvalidInputError, match="landmark 5 has sample_weight 0"):
        LandmarkDiffusionMap(2, 16.0, landmarks=np.arange(5, 1400)).fit(roll, sample_weight=weights)


def test_reweighting_undoes_a_biased_sample():
    """Points drawn twice as often on one side, weighted down again: nearer to the unbiased map than unweighted."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 2)) * [6.0, 1.0]
    bias = np.where(X[:, 0] > 3.0, 1.0, 0.25)
    kept = rng.uniform(size=3000) < bias
    truth = LandmarkDiffusionMap(2, 0.1, n_landmarks=300).fit(X)
    probe = rng.uniform(size=(200, 2)) * [6.0, 1.0]
    errors = []
    for weights in (1.0 / bias[kept], None):
        model = LandmarkDiffusionMap(2, 0.1, n_landmarks=300).fit(X[kept], sample_weight=weights)
        scale = np.sqrt(np.sum(weights) if weights is not None else kept.sum())
        errors.append(nrmse(truth.transform(probe) * np.sqrt(3000), model.transform(probe) * scale))
    assert errors[0] < 0.5 * errors[1]


def test_two_blobs_far_apart_are_an_error():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)), rng.normal(size=(200, 2)) + 60.0])
    with pytest.raises(DisconnectedError, match="2 components") as caught:
        LandmarkDiffusionMap(2, 1.0, n_landmarks=50).fit(X)
    assert caught.value.joining_epsilon > 1.0
    LandmarkDiffusionMap(2, "connected", n_landmarks=50).fit(X)


def test_alanine_dipeptide_is_reproduced_by_a_few_per_cent_of_its_frames():
    data = alanine_dipeptide(stride=10)
    metric = RMSD(weights=data.masses)
    exact = DiffusionMap(2, "connected", metric=metric).fit(data.frames)
    model = LandmarkDiffusionMap(2, exact.epsilon_, metric=metric, n_landmarks=250).fit(data.frames)
    assert nrmse(exact.embedding_, model.embedding_) < 2.0
    assert abs(model.eigenvalues_ - exact.eigenvalues_).max() < 0.02


def test_float32_and_float64_agree(roll):
    single, double = (
        LandmarkDiffusionMap(2, 9.0, landmarks=np.arange(0, 1500, 10)).fit(roll.astype(dtype))
        for dtype in (np.float32, np.float64)
    )
    assert single.embedding_.dtype == np.float32
    assert nrmse(double.embedding_, single.embedding_) < 1e-2


@pytest.mark.parametrize("landmarks", ["kmedoids", "pst"])
def test_same_seed_same_map_whatever_the_threads(roll, landmarks):
    one, two = (
        LandmarkDiffusionMap(2, 9.0, landmarks=landmarks, random_state=7, n_threads=n).fit(roll)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.embedding_, two.embedding_)
    other = LandmarkDiffusionMap(2, 9.0, landmarks=landmarks, random_state=8).fit(roll)
    assert not np.array_equal(one.landmark_indices_, other.landmark_indices_)
