"""The distilled extension: nearer to the exact map than Nyström, and as tame outside the data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from extension.contract import ExtensionContract

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits, load
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import InvalidInputError
from ldmaps.extension import Distilled, distilled, least_squares
from ldmaps.metrics import RMSD
from ldmaps.validation.fidelity import nrmse

ROLL = swiss_roll(1400, random_state=4).points
TRAIN, TEST = ROLL[:1000], ROLL[1000:]
ALANINE = alanine_dipeptide(stride=20)
MASSES = RMSD(weights=ALANINE.masses)
FRAMES, NEW_FRAMES = ALANINE.frames[:1000], ALANINE.frames[1000:]


class TestDistilledContract(ExtensionContract):
    def make(self):
        return Distilled()


def distilled_map(*args, **settings):
    return LandmarkDiffusionMap(*args, **{"extension": "distilled", **settings})


def held_out_z(exact, model, new):
    return nrmse(exact.transform(new), model.transform(new), ranges=np.ptp(exact.embedding_, axis=0))


@pytest.fixture(scope="module")
def exact():
    return DiffusionMap(2, 9.0).fit(TRAIN)


@pytest.fixture(scope="module")
def model():
    return distilled_map(2, 9.0, n_landmarks=120).fit(TRAIN)


def test_is_what_a_tolerance_takes_and_what_a_number_of_landmarks_does_not():
    by_number = LandmarkDiffusionMap(2, 9.0, n_landmarks=60).fit(TRAIN)
    nystrom = LandmarkDiffusionMap(2, 9.0, n_landmarks=60, extension="nystrom").fit(TRAIN)
    np.testing.assert_array_equal(by_number.embedding_, nystrom.embedding_)
    assert not hasattr(by_number, "distillation_") or by_number.distillation_ is None
    by_tolerance = LandmarkDiffusionMap(2, 9.0, tolerance=5.0).fit(TRAIN)
    assert by_tolerance.distillation_ is not None


def test_training_points_come_out_where_the_fit_put_them(model):
    np.testing.assert_allclose(model.transform(TRAIN), model.embedding_, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        model.embedding_[model.landmark_indices_], model.landmark_embedding_, rtol=0, atol=1e-14
    )


def test_a_batch_equals_its_points_one_by_one(model):
    one_by_one = np.array([model.embedder_.embed_one(x) for x in TEST[:40]])
    np.testing.assert_allclose(one_by_one, model.transform(TEST[:40]), rtol=1e-10, atol=1e-15)


def test_eigenvalues_are_those_of_the_exact_map(exact, model):
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=1e-10)
    assert len(model.spectrum_) > 2


def test_signs_and_scale_are_those_of_the_exact_map(exact, model):
    for column, truth in zip(model.embedding_.T, exact.embedding_.T, strict=True):
        assert column @ truth == pytest.approx(1.0, abs=1e-3)


def test_held_out_error_is_a_tenth_of_nystroms(exact, model):
    paper = LandmarkDiffusionMap(2, 9.0, n_landmarks=120, extension="nystrom").fit(TRAIN)
    assert held_out_z(exact, model, TEST) < 0.1 * held_out_z(exact, paper, TEST)


@pytest.mark.parametrize("m", [10, 40, 160, 500])
def test_never_worse_than_nystrom_on_frames(m):
    truth = DiffusionMap(2, "connected", MASSES).fit(FRAMES)
    errors = [
        held_out_z(
            truth,
            LandmarkDiffusionMap(2, "connected", MASSES, n_landmarks=m, extension=name).fit(FRAMES),
            NEW_FRAMES,
        )
        for name in ("distilled", "nystrom")
    ]
    assert errors[0] < errors[1]


@pytest.mark.parametrize(("alpha", "t"), [(0.0, 0.0), (0.5, 1.0), (1.0, 2.0)])
def test_all_points_as_landmarks_is_the_exact_map(alpha, t):
    weights = np.random.default_rng(0).uniform(0.1, 3.0, 300)
    model = distilled_map(2, "connected", n_landmarks=300, alpha=alpha, diffusion_time=t).fit(
        TRAIN[:300], sample_weight=weights
    )
    exact = DiffusionMap(2, "connected", alpha=alpha, diffusion_time=t).fit(
        TRAIN[:300], sample_weight=weights
    )
    np.testing.assert_allclose(model.embedding_, exact.embedding_, atol=1e-8)
    np.testing.assert_allclose(model.transform(TEST), exact.transform(TEST), atol=1e-8)


@pytest.mark.parametrize(("alpha", "t"), [(0.5, 1.0), (1.0, 2.0)])
def test_density_normalisation_and_time_are_the_references(alpha, t):
    model = distilled_map(2, 9.0, n_landmarks=120, alpha=alpha, diffusion_time=t).fit(TRAIN)
    exact = DiffusionMap(2, 9.0, alpha=alpha, diffusion_time=t).fit(TRAIN)
    assert held_out_z(exact, model, TEST) < 0.5


def test_error_falls_with_the_number_of_landmarks(exact):
    def typical(m, n_seeds=3):
        fits = (distilled_map(2, 9.0, n_landmarks=m, random_state=seed).fit(TRAIN) for seed in range(n_seeds))
        return np.median([held_out_z(exact, fit, TEST) for fit in fits])

    errors = [*(typical(m) for m in (15, 45, 135)), typical(405, n_seeds=1)]
    # Until it is negligible.
    assert all(after < max(0.5 * before, 0.01) for before, after in itertools.pairwise(errors))
    assert errors[-1] < 0.05


def test_the_held_out_error_it_reports_is_what_new_points_meet(exact, model):
    assert held_out_z(exact, model, TEST) == pytest.approx(model.distillation_.held_out_z, rel=0.5)


def test_weights_are_counted():
    """Points of weight 0 are only embedded, and the error is small where the weight is."""
    weights = np.where(TRAIN[:, 1] > 10.0, 1.0, 1e-3)
    exact = DiffusionMap(2, 9.0).fit(TRAIN, sample_weight=weights)
    model = distilled_map(2, 9.0, n_landmarks=60).fit(TRAIN, sample_weight=weights)
    assert nrmse(exact.embedding_[weights == 1], model.embedding_[weights == 1]) < 1.0
    left_out = np.where(np.arange(len(TRAIN)) < 300, 0.0, 1.0)
    model = distilled_map(2, 9.0, n_landmarks=60).fit(TRAIN, sample_weight=left_out)
    alone = distilled_map(2, 9.0, n_landmarks=60).fit(TRAIN[300:])
    np.testing.assert_array_equal(model.embedding_[300:], alone.embedding_)
    assert model.landmark_indices_.min() >= 300


def test_a_common_factor_of_the_weights_only_scales():
    plain, doubled = (
        distilled_map(2, 9.0, n_landmarks=60).fit(TRAIN, sample_weight=np.full(len(TRAIN), factor))
        for factor in (1.0, 4.0)  # a power of 4, so that its root rounds nothing
    )
    assert nrmse(plain.embedding_, doubled.embedding_ * 2.0) < 0.02


def test_a_reference_too_large_for_memory_is_a_landmark_map(exact):
    """Two levels: 500 medoids stand in for the 1,500 points."""
    model = distilled_map(2, 9.0, n_landmarks=100, limits=Limits(8 * 500**2, max_passes=0)).fit(TRAIN)
    assert held_out_z(exact, model, TEST) < 2.0
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=2e-3)


@pytest.mark.parametrize("reach", [1.0, 5.0, 50.0])
@pytest.mark.filterwarnings("ignore::ldmaps.errors.OutsideDomainWarning")
def test_points_outside_stay_in_the_hull(model, reach):
    far = TEST + reach * 3.0 * np.random.default_rng(0).normal(size=TEST.shape)
    coefficients = model.embedder_.coefficients
    found = model.transform(far)
    assert (found >= coefficients.min(axis=1) - 1e-12).all()
    assert (found <= coefficients.max(axis=1) + 1e-12).all()


@pytest.mark.filterwarnings("ignore::ldmaps.errors.OutsideDomainWarning")
def test_points_outside_are_no_wilder_than_nystroms(exact, model):
    paper = LandmarkDiffusionMap(2, 9.0, n_landmarks=120, extension="nystrom").fit(TRAIN)
    far = TEST + np.array([0.0, 30.0, 0.0])
    span = np.ptp(exact.embedding_, axis=0)
    ours, theirs = (np.abs(m.transform(far) / span).max() for m in (model, paper))
    assert ours < 1.5 * theirs


def test_threads_do_not_matter():
    one, two = (distilled_map(2, 9.0, n_landmarks=80, n_threads=n).fit(TRAIN) for n in (1, 2))
    np.testing.assert_array_equal(one.embedding_, two.embedding_)
    np.testing.assert_array_equal(one.embedder_.coefficients, two.embedder_.coefficients)


def test_the_same_seed_gives_the_same_map_and_another_does_not():
    one, again, other = (distilled_map(2, 9.0, n_landmarks=80, random_state=s).fit(TRAIN) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.embedding_, again.embedding_)
    assert not np.array_equal(one.landmark_indices_, other.landmark_indices_)


def test_float32_and_float64_agree(exact):
    single, double = (
        distilled_map(2, 9.0, landmarks=np.arange(0, 1000, 10)).fit(TRAIN.astype(kind))
        for kind in (np.float32, np.float64)
    )
    assert single.embedding_.dtype == np.float32
    errors = [held_out_z(exact, m, TEST.astype(m.embedding_.dtype)) for m in (single, double)]
    assert errors[0] == pytest.approx(errors[1], rel=0.25)
    assert nrmse(double.embedding_, single.embedding_) < 0.1


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_saved_and_loaded(tmp_path, kind):
    model = distilled_map(2, 9.0, n_landmarks=60).fit(TRAIN.astype(kind))
    assert model.embedder_.bandwidth != model.epsilon_
    model.save(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm")
    np.testing.assert_array_equal(again.transform(TEST.astype(kind)), model.transform(TEST.astype(kind)))
    assert again.embedder_.bandwidth == model.embedder_.bandwidth
    assert again.epsilon_ == 9.0
    np.testing.assert_array_equal(again.coverage(TEST).distance, model.coverage(TEST).distance)


def test_coverage_is_in_units_of_the_maps_own_bandwidth():
    model, paper = (
        LandmarkDiffusionMap(2, 9.0, landmarks=np.arange(0, 1000, 12), extension=name).fit(TRAIN)
        for name in ("distilled", "nystrom")
    )
    np.testing.assert_array_equal(model.coverage(TEST).distance, paper.coverage(TEST).distance)


def test_duplicates_are_harmless():
    X = np.concatenate([TRAIN[:300], TRAIN[:300], TRAIN[:100]])
    model = distilled_map(2, 16.0, n_landmarks=50).fit(X)
    assert np.isfinite(model.embedding_).all()
    assert nrmse(DiffusionMap(2, 16.0).fit(X).embedding_, model.embedding_) < 2.0


@pytest.mark.parametrize("n", [3, 5, 12])
def test_tiny_data(n):
    X = np.random.default_rng(n).normal(size=(n, 2))
    model = distilled_map(1, "connected", n_landmarks=min(n, 4)).fit(X)
    assert np.isfinite(model.transform(X + 0.1)).all()


@pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning")
@pytest.mark.parametrize("seed", [10, 14, 22])
def test_very_uneven_density_is_no_overflow(seed):
    """Tuning walks off to ever wider weights there."""
    X = np.random.default_rng(seed).standard_cauchy((400, 2))
    model = distilled_map(1, "connected", n_landmarks=10, random_state=seed).fit(X)
    assert np.isfinite(model.embedding_).all()
    assert model.embedder_.bandwidth < 1e5 * model.epsilon_


def test_more_coordinates_than_landmarks_is_an_error():
    with pytest.raises(InvalidInputError, match="needs at least 9 landmarks"):
        distilled_map(8, 9.0, n_landmarks=8).fit(TRAIN)


# -- the pieces ---------------------------------------------------------------------


def test_sampled_rows_hardly_change_the_error(exact, monkeypatch):
    everything = distilled_map(2, 9.0, n_landmarks=40).fit(TRAIN)
    monkeypatch.setattr(distilled, "MIN_ROWS", 800)
    sampled = distilled_map(2, 9.0, n_landmarks=40).fit(TRAIN)
    assert held_out_z(exact, sampled, TEST) < 1.3 * held_out_z(exact, everything, TEST)


def test_rows_may_come_in_pieces(monkeypatch):
    whole = distilled_map(2, 9.0, n_landmarks=40).fit(TRAIN)
    monkeypatch.setattr(least_squares, "CHUNK_BYTES", 1)
    pieces = distilled_map(2, 9.0, n_landmarks=40).fit(TRAIN)
    assert nrmse(whole.embedding_, pieces.embedding_) < 0.05


def test_without_tuning_the_bandwidth_is_one_of_a_few(exact, monkeypatch):
    monkeypatch.setattr(distilled, "TUNED_LANDMARKS", 0)
    plain = distilled_map(2, 9.0, n_landmarks=120).fit(TRAIN)
    assert not plain.distillation_.is_tuned
    assert plain.distillation_.bandwidth / 9.0 in distilled.WIDTHS
    np.testing.assert_allclose(plain.distillation_.source_weights, plain.multiplicities_, rtol=1e-12)
    assert held_out_z(exact, plain, TEST) < 1.0
