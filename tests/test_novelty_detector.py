"""The detector keeps scikit-learn's and PyOD's rules, and the rate of alarms that it is given."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from page_examples import run_block
from sklearn.utils.estimator_checks import estimator_checks_generator

from ldmaps import DiffusionMap, LandmarkDiffusionMap, NoveltyDetector
from ldmaps.errors import InvalidInputError

PAGE = ("docs/guide/packages.md", "Outlier detectors: scikit-learn and PyOD")


def all_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for subject, check in estimator_checks_generator(NoveltyDetector()):
            yield pytest.param(subject, check, id=getattr(check, "func", check).__name__)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::ldmaps.errors.BandwidthWarning")  # blobs that no hop joins
@pytest.mark.parametrize(("estimator", "check"), list(all_checks()))
def test_check_estimator(estimator, check):
    check(estimator)


def normal_points(count, seed):
    return np.random.default_rng(seed).normal(size=(count, 4))


@pytest.fixture(scope="module")
def training():
    return normal_points(1500, 0)


@pytest.fixture(scope="module")
def detector(training):
    return NoveltyDetector().fit(training)


def test_the_example_of_the_page_finds_the_outliers():
    names = run_block(*PAGE, 0)
    assert set(range(100, 105)) <= set(names["outliers"])
    assert len(names["outliers"]) < 10
    assert (names["p"][100:] <= 0.01).all()


def test_scores_are_the_distances_of_the_map(detector):
    new = normal_points(50, 1)
    coverage = detector.map_.coverage(new)
    np.testing.assert_allclose(-detector.score_samples(new), coverage.distance, rtol=1e-12)
    np.testing.assert_array_equal(detector.p_values(new), coverage.p_value)
    np.testing.assert_allclose(detector.decision_function(new), detector.threshold_ - coverage.distance)


@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_points_like_the_training_data_are_called_outliers_at_the_given_rate(training, rate):
    new = normal_points(20_000, 2)
    found = NoveltyDetector(alarm_rate=rate).fit(training)
    p = found.p_values(new)
    np.testing.assert_array_equal(found.predict(new) == -1, p <= rate)
    # 300 calibration points: the rate itself varies by about sqrt(rate / 300) between training sets.
    assert abs(np.mean(p <= rate) - rate) < 4 * np.sqrt(rate / 300)


def test_the_default_is_one_in_twenty(detector):
    p = detector.p_values(new := normal_points(500, 3))
    np.testing.assert_array_equal(detector.predict(new) == -1, p <= 0.05)


def test_contamination_is_the_share_of_training_points_beyond_the_threshold(training):
    found = NoveltyDetector(contamination=0.1).fit(training)
    assert found.labels_.sum() == 150
    np.testing.assert_array_equal(found.labels_ == 1, found.predict(training) == -1)
    np.testing.assert_array_equal(found.labels_ == 1, found.decision_scores_ > found.threshold_)


def test_scores_with_contamination_are_distances_to_that_share_of_the_points():
    points = normal_points(300, 7)
    exact = NoveltyDetector(DiffusionMap(2, 2.0), contamination=0.05).fit(points)
    new = normal_points(20, 8)
    distances = np.sort(np.linalg.norm(new[:, None] - points, axis=2), axis=1)
    np.testing.assert_allclose(-exact.score_samples(new), distances[:, 14] / np.sqrt(2.0), rtol=1e-6)
    # Each landmark counts as often as it stands for points.
    coarse = NoveltyDetector(LandmarkDiffusionMap(2, n_landmarks=40), contamination=0.05).fit(points)
    model = coarse.map_
    repeated = np.repeat(points[model.landmark_indices_], model.multiplicities_.round().astype(int), axis=0)
    distances = np.sort(np.linalg.norm(new[:, None] - repeated, axis=2), axis=1)[:, 14]
    np.testing.assert_allclose(-coarse.score_samples(new), distances / np.sqrt(model.epsilon_), rtol=1e-6)


def test_outliers_that_are_all_alike_are_found_with_contamination(training):
    alike = 6.0 + 0.1 * normal_points(100, 9)
    points = np.concatenate([training, alike])
    found = NoveltyDetector(contamination=0.1).fit(points)
    assert found.labels_[-100:].all()
    assert (found.predict(6.0 + 0.1 * normal_points(20, 10)) == -1).all()
    assert NoveltyDetector().fit(points).labels_[-100:].mean() < 0.5  # landmarks are among them


def groups_of_two_densities(count, seed):
    """Points in a dense group and, 30 %, in one that is ten times as wide and far from it."""
    rng = np.random.default_rng(seed)
    points, is_sparse = rng.normal(size=(count, 3)), rng.random(count) < 0.3
    points[~is_sparse] *= 0.3
    points[is_sparse] = 40.0 + 3.0 * points[is_sparse]
    return points


@pytest.mark.parametrize("seed", range(3))
def test_far_from_groups_of_unlike_density_distances_are_plain(seed):
    """A map of such groups has local scales, by which what is far from the sparse one seems near."""
    training, new = groups_of_two_densities(1000, seed), groups_of_two_densities(400, seed + 50)
    found = NoveltyDetector().fit(training)
    assert not found.map_.metric_.has_local_scales
    landmarks = training[found.map_.landmark_indices_]
    nearest = np.linalg.norm(new[:, None] - landmarks, axis=2).min(axis=1)
    np.testing.assert_allclose(-found.score_samples(new), nearest / np.sqrt(found.map_.epsilon_), rtol=1e-5)
    assert np.mean(found.predict(new) == -1) < 0.12
    directions = normal_points(50, seed)[:, :3]
    away = 40.0 + 20.0 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    assert (found.predict(away) == -1).mean() > 0.95


def test_scores_with_contamination_are_plain_distances_in_maps_with_local_scales():
    points, new = groups_of_two_densities(300, 0), groups_of_two_densities(20, 1)
    found = NoveltyDetector(DiffusionMap(2, "local"), contamination=0.05).fit(points)
    assert found.map_.metric_.has_local_scales
    distances = np.sort(np.linalg.norm(new[:, None] - points, axis=2), axis=1)[:, 14]
    np.testing.assert_allclose(-found.score_samples(new), distances / np.sqrt(found.map_.epsilon_), rtol=1e-6)


def test_frames_of_a_trajectory_are_scored_in_chunks():
    mdtraj = pytest.importorskip("mdtraj")
    rng = np.random.default_rng(0)
    frames = (rng.normal(size=(5, 3)) + 0.1 * rng.normal(size=(400, 5, 3))).astype(np.float32)
    topology = mdtraj.Topology()
    residue = topology.add_residue("ALA", topology.add_chain())
    for place in range(5):
        topology.add_atom(f"C{place}", mdtraj.element.carbon, residue)
    trajectory = mdtraj.Trajectory(frames, topology)
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=50)
    found = NoveltyDetector(model, contamination=0.1).fit(trajectory)
    np.testing.assert_allclose(found.decision_scores_, -found.score_samples(trajectory.xyz), atol=1e-4)


@pytest.mark.parametrize(("n_points", "is_calibrated"), [(60, False), (199, False), (200, True), (501, True)])
def test_small_data_sets_are_calibrated_from_200_points_on(n_points, is_calibrated):
    found = NoveltyDetector().fit(normal_points(n_points, 4))
    assert found.labels_.any()
    if is_calibrated:
        assert found.p_values(normal_points(3, 5)).shape == (3,)
    else:
        with pytest.raises(InvalidInputError, match="not calibrated.*at least 200 points"):
            found.p_values(normal_points(3, 5))


def test_an_alarm_rate_needs_a_calibrated_map():
    with pytest.raises(InvalidInputError, match="not calibrated.*contamination="):
        NoveltyDetector(alarm_rate=0.1).fit(normal_points(60, 4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"contamination": 0.1, "alarm_rate": 0.1}, "two thresholds"),
        ({"contamination": 0.6}, "at most 0.5, got 0.6"),
        ({"contamination": 0}, "above 0"),
        ({"contamination": True}, "got True"),
        ({"contamination": "auto"}, "got 'auto'"),
        ({"alarm_rate": 1.5}, "alarm_rate must be a fraction"),
        ({"alarm_rate": "1/day"}, "fitted to points without times"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message, training):
    with pytest.raises(InvalidInputError, match=message):
        NoveltyDetector(**settings).fit(training)


def test_frames_are_detected_with_a_map_of_frames():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(5, 3))
    frames = base + 0.1 * rng.normal(size=(300, 5, 3))
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=60)
    found = NoveltyDetector(model, contamination=0.05).fit(frames)
    assert not hasattr(model, "map_")  # a clone of it was fitted
    stretched = 2.0 * frames[:5]
    np.testing.assert_array_equal(
        found.predict(np.concatenate([frames[:1] + 7.0, stretched])), [1] + 5 * [-1]
    )


def test_names_of_columns_are_those_of_the_last_fit(training):
    pandas = pytest.importorskip("pandas")
    found = NoveltyDetector(LandmarkDiffusionMap(2, n_landmarks=50))
    found.fit(pandas.DataFrame(training, columns=list("abcd")))
    assert list(found.feature_names_in_) == list("abcd")
    assert not hasattr(found.fit(training), "feature_names_in_")


def test_pseudo_probabilities_range_over_the_training_scores(detector, training):
    shares = detector.predict_proba(training)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares[:, 1].min(), shares[:, 1].max()) == (0.0, 1.0)
    np.testing.assert_array_equal(detector.predict_proba(np.full((1, 4), 50.0)), [[0.0, 1.0]])


# -- PyOD and aeon, where they are installed ----------------------------------------------------------


def test_attributes_are_those_of_a_detector_of_pyod(training):
    pytest.importorskip("pyod")
    theirs = run_block(*PAGE, 1)["LandmarkDetector"](contamination=0.1).fit(training)
    ours = theirs.detector_
    new = normal_points(100, 6)
    assert theirs.threshold_ == pytest.approx(ours.threshold_, rel=1e-12)
    np.testing.assert_array_equal(theirs.labels_, ours.labels_)
    np.testing.assert_allclose(theirs.predict_proba(new), ours.predict_proba(new), atol=1e-12)
    np.testing.assert_array_equal(theirs.predict(new) == 1, ours.predict(new) == -1)


@pytest.mark.filterwarnings("ignore")  # of aeon's imports
def test_the_detector_runs_in_aeon():
    pytest.importorskip("pyod")
    adapters = pytest.importorskip("aeon.anomaly_detection.series")
    make = run_block(*PAGE, 1)["LandmarkDetector"]
    rng = np.random.default_rng(0)
    series = np.sin(np.arange(1200) / 8) + 0.05 * rng.normal(size=1200)
    series[800:810] = 0.0
    scores = adapters.PyODAdapter(make(), window_size=16).fit(series[:600]).predict(series)
    assert 780 < np.argmax(scores) < 830
