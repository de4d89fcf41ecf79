"""What fits say of their sampling: landmark, distilled and exact maps, weights, orders, coordinates that stay."""

from __future__ import annotations

import numpy as np
import pytest

import ldmaps
from ldmaps.archive import read_archive, write_archive
from ldmaps.datasets import c24h50
from ldmaps.errors import InvalidInputError, ModelFileError
from ldmaps.fit import resample
from ldmaps.inputs import open_files
from ldmaps.validation.resampling import fitted_modes
from ldmaps.validation.sampling import Order, judge_sampling

CHAIN = c24h50().frames[:1500]


def plane(n=900, seed=0):
    """A rectangle, evenly filled."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, size=(n, 2)) * [5.0, 3.0]


@pytest.fixture(scope="module")
def frames_map():
    return ldmaps.LandmarkDiffusionMap("gap", metric="rmsd", n_landmarks=60).fit(CHAIN)


def test_a_fit_judges_its_own_landmarks_cells_and_spectrum(frames_map):
    found = frames_map.sampling_
    landmarks = frames_map.embedder_.landmarks
    distances = np.empty((60, 60), landmarks.dtype)
    frames_map.metric_.squared_block(landmarks, slice(0, 60), landmarks, slice(0, 60), distances)
    kernel = np.exp(-distances.astype(float) / (2 * frames_map.epsilon_))
    expected = judge_sampling(
        fitted_modes(kernel, frames_map.multiplicities_),
        frames_map.labels_,
        np.ones(1500),
        Order(True, unit="frames"),
    ).of_map(frames_map.eigenvalues_, frames_map.spectrum_)
    np.testing.assert_allclose(found.errors, expected.errors, rtol=1e-3)
    np.testing.assert_allclose(found.landmark_errors, expected.landmark_errors, rtol=0.02, atol=1e-4)
    np.testing.assert_allclose(
        np.sort(found.eigenvalues)[::-1], frames_map.spectrum_[: len(found.eigenvalues)]
    )
    np.testing.assert_allclose(
        found.eigenvalues[: frames_map.n_components_], frames_map.eigenvalues_, rtol=1e-6
    )
    assert found.unit == "frames"
    assert found.n_resamples == 50


def test_a_given_number_of_coordinates_is_judged_on_request_alone():
    model = ldmaps.LandmarkDiffusionMap(3, metric="rmsd", n_landmarks=40).fit(CHAIN)
    assert model.sampling_ is None
    found = model.resample(30, lag=4)
    assert model.sampling_ is found
    assert found.n_resamples == 30
    assert found.lag == 4
    assert model.n_components_ == 3


@pytest.mark.parametrize("most", [1000, 50])
def test_exact_and_distilled_maps_have_errors_around_their_own_eigenvalues(most, monkeypatch):
    """With and without landmarks that stand for all points; errors of the three kinds of maps agree."""
    monkeypatch.setattr(resample, "MOST_RESAMPLED", most)
    X = plane(500)
    exact = ldmaps.DiffusionMap(2, epsilon=2.0).fit(X)
    distilled = ldmaps.LandmarkDiffusionMap(2, epsilon=2.0, extension="distilled", n_landmarks=60).fit(X)
    plain = ldmaps.LandmarkDiffusionMap(2, epsilon=2.0, n_landmarks=200).fit(X)
    errors = []
    for model in (exact, distilled, plain):
        found = model.resample(60)
        np.testing.assert_allclose(found.eigenvalues[:2], model.eigenvalues_, rtol=1e-6)
        assert found.landmark_errors.shape[0] == len(model.multiplicities_)
        errors.append(found.errors[0])
    assert max(errors) < 1.5 * min(errors)


@pytest.mark.parametrize("settings", [{"tolerance": 10.0}, {"extension": "distilled", "n_landmarks": 12}])
def test_few_landmarks_have_the_errors_of_the_map_that_they_learned(settings):
    # At this ε a dozen landmarks hardly see each other: by themselves they would call any map certain.
    exact = ldmaps.DiffusionMap(epsilon=0.05).fit(plane(600))
    few = ldmaps.LandmarkDiffusionMap(epsilon=0.05, **settings).fit(plane(600))
    assert len(few.landmark_indices_) < 60
    np.testing.assert_allclose(few.sampling_.errors, exact.sampling_.errors, rtol=1e-3)
    np.testing.assert_allclose(few.sampling_.cosine, exact.sampling_.cosine, atol=1e-3)
    errors = exact.sampling_.landmark_errors[few.landmark_indices_]
    np.testing.assert_allclose(few.sampling_.landmark_errors, errors, rtol=0.01, atol=1e-6)
    again = few.resample(50)  # not taken from what the fit has kept
    np.testing.assert_allclose(again.landmark_errors, errors, rtol=0.01, atol=1e-6)


def test_points_of_weight_zero_take_no_part_in_resampling():
    X = plane(400)
    weights = np.ones(400)
    weights[300:] = 0.0
    model = ldmaps.LandmarkDiffusionMap(2, epsilon=2.0, n_landmarks=40).fit(X, sample_weight=weights)
    other = ldmaps.LandmarkDiffusionMap(2, epsilon=2.0, n_landmarks=40).fit(X[:300])
    np.testing.assert_allclose(model.resample(20).errors, other.resample(20).errors)


def test_sample_weights_are_drawn_with_their_points():
    X, weights = plane(600), np.exp(1.2 * np.random.default_rng(0).normal(size=600))
    settings = {"epsilon": 4.0, "landmarks": np.arange(60)}
    heavy = ldmaps.LandmarkDiffusionMap(2, **settings).fit(X, sample_weight=weights).resample(150)
    equal = ldmaps.LandmarkDiffusionMap(2, **settings).fit(X).resample(150)
    ratio = np.sqrt((weights**2).sum() * 600) / weights.sum()
    assert heavy.errors[0] / equal.errors[0] == pytest.approx(ratio, rel=0.3)


def test_rows_are_drawn_one_by_one_unless_they_are_said_to_follow_each_other():
    steps = np.random.default_rng(0).normal(size=(900, 2))
    X = np.empty((900, 2))
    X[0] = 0.0
    for i in range(1, 900):
        X[i] = 0.95 * X[i - 1] + steps[i]
    model = ldmaps.LandmarkDiffusionMap("gap", epsilon=6.0, n_landmarks=60).fit(X)
    assert model.sampling_.kind == "rows"
    alone = model.sampling_.errors[0]
    assert model.resample(100, blocks="time").errors[0] > 1.5 * alone
    assert model.sampling_.kind == "time"


def test_what_follows_or_is_noise_does_not_count_as_a_coordinate():
    """On a line, cosines of twice and thrice the phase are polynomials of the first."""
    line = np.random.default_rng(1).uniform(-6.0, 6.0, size=(800, 1))
    model = ldmaps.LandmarkDiffusionMap("gap", epsilon=2.0, n_landmarks=100).fit(line)
    assert model.n_components_ == 1
    assert model.sampling_.follows[1, 0]


def test_a_map_of_absorbed_points_or_from_a_file_cannot_be_resampled(frames_map, tmp_path):
    frames_map.save(tmp_path / "map.ldm")
    with pytest.raises(InvalidInputError, match="needs the training data of the fit"):
        ldmaps.load(tmp_path / "map.ldm").resample()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_resamples": 3}, "n_resamples"),
        ({"blocks": "days"}, 'blocks must be "auto", "time", "files" or "rows", got \'days\''),
        ({"lag": -1.0}, "lag must be a positive number, got -1.0"),
        ({"blocks": "files"}, "two files at least"),
    ],
)
def test_wrong_requests_are_refused(frames_map, settings, words):
    with pytest.raises(InvalidInputError, match=words):
        frames_map.resample(**settings)


def test_times_give_the_unit_and_files_the_replicas(tmp_path):
    md = pytest.importorskip("mdtraj")
    topology = md.Topology()
    residue = topology.add_residue("ALK", topology.add_chain())
    for _ in range(CHAIN.shape[1]):
        topology.add_atom("C", md.element.carbon, residue)
    for part in range(2):
        frames = CHAIN[750 * part : 750 * (part + 1)]
        md.Trajectory(frames, topology, time=np.arange(750) * 2.5).save(str(tmp_path / f"run{part}.xtc"))
    md.Trajectory(CHAIN[:1], topology).save(str(tmp_path / "top.pdb"))
    source = open_files([tmp_path / "run0.xtc", tmp_path / "run1.xtc"], top=tmp_path / "top.pdb")
    model = ldmaps.LandmarkDiffusionMap("gap", metric="rmsd", n_landmarks=50).fit(source)
    found = model.sampling_
    assert found.unit == "ps"
    assert found.times[0, 2] * 2 * found.times[0, 0] == pytest.approx(1500 * 2.5)
    assert found.replicas.shape[0] == 2
    assert model.resample(20, blocks="files").n_blocks == 2


def test_a_file_keeps_what_resampling_said(frames_map, tmp_path):
    frames_map.save(tmp_path / "map.ldm")
    again = ldmaps.load(tmp_path / "map.ldm").sampling_
    for name, value in vars(frames_map.sampling_).items():
        if name != "blocks":
            np.testing.assert_array_equal(getattr(again, name), value)
    assert again.reproducibility(0) == frames_map.sampling_.reproducibility(0)
    quiet = ldmaps.LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=20).fit(CHAIN[:200])
    quiet.save(tmp_path / "quiet.ldm")
    assert ldmaps.load(tmp_path / "quiet.ldm").sampling_ is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header, arrays: arrays.pop("sampling/errors"), "only a part of the resampling"),
        (lambda header, arrays: header.update(sampling=None), "only a part of the resampling"),
        (lambda header, arrays: header["sampling"].update(kind="days"), "how points were resampled"),
        (lambda header, arrays: header["sampling"].update(n_blocks=-1), "how points were resampled"),
        (lambda header, arrays: arrays["sampling/errors"].__setitem__(0, -1.0), "at least 0"),
        (lambda header, arrays: arrays.update({"sampling/follows": np.zeros((1, 1), np.int32)}), "has shape"),
    ],
)
def test_a_damaged_account_of_resampling_is_refused(frames_map, tmp_path, change, words):
    frames_map.save(tmp_path / "map.ldm")
    header, arrays = read_archive(tmp_path / "map.ldm")
    arrays = {name: array.copy() for name, array in arrays.items()}
    header.pop("members", None)
    change(header, arrays)
    write_archive(tmp_path / "bad.ldm", header, arrays)
    with pytest.raises(ModelFileError, match=words):
        ldmaps.load(tmp_path / "bad.ldm")


@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_maps_of_a_few_points_are_judged_without_complaint(n):
    X = np.random.default_rng(n).uniform(size=(n, 2))
    model = ldmaps.LandmarkDiffusionMap(epsilon=1.0).fit(X)
    assert model.n_components_ == min(n - 1, 2)
    # Of a dozen points in a square, the plane of the first two modes is the same in resamples; no axis in it is.
    assert model.sampling_.reproducibility(0) == ("mixes with psi3" if n == 12 else "noise")
    assert np.isfinite(model.sampling_.landmark_errors).all()
