"""A tolerance for many points is searched with a sample of them; the map is of all."""

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits, load
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.fit import recipe
from ldmaps.fit.recipe import searched_points
from ldmaps.metrics import RMSD
from ldmaps.validation.fidelity import point_errors

ROLL = swiss_roll(3000).points


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(recipe, "GATHERED", 1250)


def test_the_map_is_of_all_points(few, tmp_path):
    model = LandmarkDiffusionMap(2, tolerance=5.0).fit(ROLL)
    assert model.certificate_.n_searched == 1000
    assert "relative to the map of a sample of 1,000 of the points" in str(model.certificate_)
    assert len(model.embedding_) == 3000
    assert model.multiplicities_.sum() == 3000
    exact = DiffusionMap(2, model.epsilon_).fit(ROLL)
    errors = point_errors(exact.embedding_, model.embedding_, ranges=np.ptp(exact.embedding_, axis=0))
    # Lengths too are those of a map of all; the sample's own error adds to the tolerance.
    assert np.sqrt((np.sort(errors)[:-30] ** 2).mean()) < 10.0
    model.save(tmp_path / "map.ldm")
    assert load(tmp_path / "map.ldm").certificate_ == model.certificate_


def test_alarms_are_calibrated_by_rows_that_no_landmark_is_chosen_from(few):
    model = LandmarkDiffusionMap(2, tolerance=5.0).fit(ROLL)
    new = swiss_roll(3000, random_state=7).points
    p_values = np.sort(model.coverage(new).p_value)
    # Those of new points are uniform: Kolmogorov and Smirnov's distance, of 3,000 and of the calibrating points.
    distance = np.abs(p_values - (np.arange(3000) + 0.5) / 3000).max()
    assert model.embedder_.calibration.n_points > 1000  # rows between those of the sample count too
    assert distance < 0.07


def test_time_scales_are_those_of_all_frames(few):
    data = alanine_dipeptide()
    frames, metric = data.frames[:20_000:8], RMSD(weights=data.masses)
    thinned = LandmarkDiffusionMap(2, metric=metric, tolerance=3.0).fit(frames)
    whole = LandmarkDiffusionMap(2, metric=metric, n_landmarks=200, epsilon=thinned.epsilon_).fit(frames)
    assert thinned.certificate_.n_searched == 1250
    times = [model.resample(20).times[0, 0] for model in (thinned, whole)]
    assert times[0] == pytest.approx(times[1], rel=0.3)


def test_points_have_bandwidths_of_their_own(few):
    model = LandmarkDiffusionMap(2, "local", tolerance=10.0).fit(ROLL)
    assert model.certificate_.n_searched == 1000
    np.testing.assert_allclose(
        model.transform(ROLL[:50]), model.embedding_[:50], atol=0.1 * np.ptp(model.embedding_)
    )


def test_points_of_weight_0_are_not_searched_with(few):
    weights = np.ones(3000)
    weights[::2] = 0.0
    model = LandmarkDiffusionMap(2, tolerance=8.0).fit(ROLL, sample_weight=weights)
    assert model.certificate_.n_searched == 750
    assert model.multiplicities_.sum() == 1500
    assert not (model.landmark_indices_ % 2 == 0).any()


def test_asking_for_passes_searches_with_all_points():
    assert searched_points(60_000, 1.0, Limits()) == 30_000
    assert searched_points(200_000, 1.0, Limits()) == 50_000
    assert searched_points(200_000, None, Limits()) == 200_000
    assert searched_points(200_000, 1.0, Limits(max_passes=4)) == 200_000
    assert searched_points(200_000, 1.0, Limits(resume="state.npz")) == 200_000
