"""What a map remembers of its training points: complete, bounded, and unchanged by a model file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.datasets import swiss_roll
from ldmaps.fit.fitted_map import TrainingRecord, thinned_rows

ROLL = swiss_roll(400, random_state=0).points


def test_fit_remembers_coverage_of_the_training_points():
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=50, extension="nystrom").fit(ROLL)
    coverage = model.coverage(ROLL)
    np.testing.assert_array_equal(model.training_.rows, np.arange(400))
    np.testing.assert_allclose(model.training_.distance, coverage.distance, atol=1e-6)
    assert model.training_.weights is None
    assert model.training_.frames is None


def test_the_exact_map_remembers_weights():
    weights = np.linspace(0.5, 2.0, 400)
    model = DiffusionMap(2, 16.0).fit(ROLL, sample_weight=weights)
    np.testing.assert_allclose(model.training_.weights, weights, rtol=1e-6)


def test_a_model_file_keeps_it(tmp_path):
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=50, extension="nystrom").fit(ROLL)
    model.training_ = replace(model.training_, frames=np.arange(400) * 5, times=np.arange(400) * 0.5)
    model.save(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm").training_
    assert again.arrays().keys() == model.training_.arrays().keys()
    for name, array in model.training_.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])
        assert array.dtype == again.arrays()[name].dtype
    model.save(tmp_path / "small.ldm", include_embedding=False)
    assert load(tmp_path / "small.ldm").training_ is None


def test_what_is_known_is_kept_as_the_numbers_of_files():
    record = TrainingRecord.of(np.array([1, 3]), frames=np.array([5.0, 15.0]), files=np.array([0, 2]))
    assert (record.frames.tolist(), record.files.tolist(), record.times) == ([5, 15], [0, 2], None)
    assert (record.frames.dtype, record.files.dtype) == (np.int64, np.int32)


def test_many_points_are_thinned_and_landmarks_stay():
    landmarks = np.array([7, 123_457, 999_999])
    rows = thinned_rows(1_000_000, landmarks)
    assert len(rows) <= 100_000
    assert np.isin(landmarks, rows).all()
    assert (np.diff(rows) > 0).all()
    assert np.diff(rows).max() <= 12
