"""A scan of ε gives what single fits with the same landmarks give."""

import json

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.bandwidth_scan import scan_bandwidth
from ldmaps.cli import main
from ldmaps.datasets import swiss_roll
from ldmaps.diffusion.spectrum import spectral_gap
from ldmaps.errors import InvalidInputError, ModelFileError
from ldmaps.fit import resample
from tests.archive_edits import edit_archive

ROLL = swiss_roll(900).points


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, n_landmarks=90, alpha=0.3).fit(ROLL)


@pytest.mark.parametrize("from_file", [False, True])
def test_a_scan_is_single_fits_with_the_same_landmarks(model, from_file, tmp_path):
    if from_file:
        model.save(tmp_path / "map.ldm")
    scan = scan_bandwidth(load(tmp_path / "map.ldm") if from_file else model)
    assert scan.epsilons[scan.own] == model.epsilon_
    np.testing.assert_allclose(scan.epsilons[1:] / scan.epsilons[:-1], 2.0)
    lengths = np.sqrt(model.multiplicities_)[:, None]
    for place in range(scan.own - 1, len(scan.epsilons)):
        naive = LandmarkDiffusionMap(
            5, float(scan.epsilons[place]), landmarks=model.landmark_indices_, alpha=0.3
        ).fit(ROLL)
        np.testing.assert_allclose(scan.eigenvalues[place, :5], naive.eigenvalues_, atol=1e-9)
        assert scan.n_components[place] == spectral_gap(scan.eigenvalues[place])
        assert scan.participation[place] == pytest.approx(naive.diagnosis_.participation[0], rel=1e-6)
        spans = lengths * naive.landmark_embedding_[:, :2], lengths * model.landmark_embedding_
        assert scan.similarity[place] == pytest.approx(np.cos(subspace_angles(*spans)[0]), abs=1e-6)
    assert scan.similarity[scan.own] == pytest.approx(1.0)
    assert scan.similarity[-1] < 0.97


def test_landmarks_that_fall_apart_have_no_map(model):
    scan = scan_bandwidth(model)
    assert scan.n_components[0] == 0
    assert np.isnan(scan.eigenvalues[0]).all()
    assert "are disconnected" in scan.lines()[1]
    assert [line.endswith("<- this map") for line in scan.lines()[1:]] == [
        place == scan.own for place in range(len(scan.epsilons))
    ]


def test_an_exact_map_is_scanned_through_its_medoids(monkeypatch):
    exact = DiffusionMap(2).fit(ROLL)
    whole = scan_bandwidth(exact)
    np.testing.assert_allclose(whole.eigenvalues[whole.own, :2], exact.eigenvalues_, rtol=1e-6)
    monkeypatch.setattr(resample, "MOST_RESAMPLED", 300)
    few = scan_bandwidth(exact)
    np.testing.assert_allclose(few.eigenvalues[few.own, :3], whole.eigenvalues[whole.own, :3], atol=0.02)


def test_a_map_of_few_landmarks_is_not_scanned():
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=20).fit(ROLL)
    with pytest.raises(
        InvalidInputError, match=r"at least 30 landmarks, or .* this one has 20\. .* with n_landmarks=400"
    ):
        scan_bandwidth(model)


def test_a_scan_needs_distances_between_landmarks(tmp_path):
    squared = ((ROLL[:, None] - ROLL) ** 2).sum(axis=2)
    model = LandmarkDiffusionMap(2, 9.0, "precomputed", n_landmarks=200).fit(np.sqrt(squared))
    model.save(tmp_path / "map.ldm")
    with pytest.raises(InvalidInputError, match="needs the distances between landmarks"):
        scan_bandwidth(load(tmp_path / "map.ldm"))


def test_info_prints_the_scan(model, tmp_path, capsys):
    model.save(tmp_path / "map.ldm")
    assert main(["info", str(tmp_path / "map.ldm"), "--scan"]) == 0
    assert "\n".join(scan_bandwidth(model).lines()) in capsys.readouterr().out
    assert main(["info", str(tmp_path / "map.ldm"), "--scan", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [row["epsilon"] for row in facts["scan"]] == pytest.approx(scan_bandwidth(model).epsilons)


def test_a_map_of_a_tolerance_is_scanned_by_medoids_of_its_points(tmp_path):
    roll = swiss_roll(1500).points
    model = LandmarkDiffusionMap(2, tolerance=5.0).fit(roll)
    model.save(tmp_path / "map.ldm")
    scan = scan_bandwidth(load(tmp_path / "map.ldm"))
    assert main(["info", str(tmp_path / "map.ldm"), "--scan"]) == 0
    for place in (scan.own, scan.own + 1, scan.own + 2):
        exact = DiffusionMap(3, float(scan.epsilons[place])).fit(roll)
        np.testing.assert_allclose(scan.eigenvalues[place, :2], exact.eigenvalues_[:2], atol=0.02)
    assert model.certificate_.n_landmarks < 30  # too few for a walk of their own


def test_kept_medoids_are_the_distances_between_points():
    # All of so few points are kept.
    few = ROLL[:150]
    medoids = LandmarkDiffusionMap(2, 30.0, n_landmarks=20, extension="distilled").fit(few).map_.medoids
    np.testing.assert_allclose(
        medoids.matrix(), ((few[:, None] - few) ** 2).sum(axis=2), rtol=1e-5, atol=1e-3
    )
    np.testing.assert_array_equal(medoids.weights, 1.0)


@pytest.mark.parametrize(
    "arrays",
    [
        {"medoids/weights": None},
        {"medoids/squared": None},
        {"medoids/squared": np.zeros(5, np.float32)},
        {"medoids/squared": np.full(6, -1, np.float32)},
        {"medoids/weights": np.zeros(4)},
    ],
)
def test_a_file_must_hold_a_distance_for_each_pair_of_medoids(model, arrays, tmp_path):
    path = tmp_path / "map.ldm"
    model.save(path)
    whole = {"medoids/squared": np.ones(6, np.float32), "medoids/weights": np.ones(4)}
    edit_archive(path, arrays=whole)
    assert len(load(path).map_.medoids.weights) == 4
    edit_archive(path, arrays=arrays)
    with pytest.raises(ModelFileError, match="medoids"):
        load(path)
