"""Which points are held out, that no landmark has seen them, and what p-values they give."""

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.archive import read_archive
from ldmaps.errors import InvalidInputError, ModelFileError, OutlierWarning
from ldmaps.extension import calibration
from ldmaps.extension.calibration import KEPT, Calibration, calibrate, held_out_rows, memory_of, scored_rows
from ldmaps.metrics import resolve_metric
from ldmaps.metrics.base import squared_matrix
from tests.maps.test_model_file import edit_archive, edit_header

# A few points of a normal distribution carry a coordinate of their own, which is not what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning")


def normal(n, seed, width=3):
    return np.random.default_rng(seed).normal(size=(n, width))


def series(n, seed, memory=0.95):
    """AR(1) in two dimensions: correlation time (1 + φ)/(1 − φ)/2."""
    noise, out = np.random.default_rng(seed).normal(size=(n, 2)), np.zeros((n, 2))
    for i in range(1, n):
        out[i] = memory * out[i - 1] + noise[i]
    return out


def by_definition(scores, s):
    return (1 + np.count_nonzero(np.asarray(scores) >= s)) / (len(scores) + 1)


def test_p_values_are_those_of_the_definition():
    scores = np.round(np.random.default_rng(0).exponential(size=900), 2)  # many are equal
    known = Calibration.of(scores, 900.0)
    for s in [0.0, *np.unique(scores), *(np.unique(scores) + 0.005), 99.0]:
        assert known.p_values(np.array([s]))[0] == pytest.approx(by_definition(scores, s))


def test_thinned_scores_give_p_that_is_never_too_small_and_hardly_too_large():
    scores = np.random.default_rng(0).exponential(size=50_000)
    known = Calibration.of(scores, 50_000.0)
    assert KEPT < len(known.scores) <= 2 * KEPT
    wanted = np.quantile(scores, np.linspace(0.001, 0.99999, 300))
    exact = np.array([by_definition(scores, s) for s in wanted])
    p = known.p_values(wanted)
    assert (p >= exact * (1 - 1e-12)).all()
    assert (p <= 1.006 * exact).all()


def test_dependent_scores_count_as_the_independent_ones_they_are_worth():
    scores = np.arange(1000.0)
    known = Calibration.of(scores, 50.0)
    assert known.least_rate == pytest.approx(1 / 51)
    assert known.p_values(np.array([500.0]))[0] == pytest.approx((1 + 50 * 0.5) / 51)


def test_a_threshold_is_where_p_falls_to_the_rate():
    known = Calibration.of(np.random.default_rng(1).exponential(size=999), 999.0)
    for rate in (0.001, 0.0101, 0.5):
        at = known.threshold(rate)
        assert known.p_values(np.array([np.nextafter(at, 99)]))[0] <= rate < known.p_values(np.array([at]))[0]


def test_the_text_gives_the_lowest_rate_and_independent_points_only_if_they_are_fewer():
    scores = np.arange(1000.0)
    plain, dependent = (str(Calibration.of(scores, n_independent)) for n_independent in (1000.0, 50.0))
    assert plain == "false-alarm rates down to 1 in 1,001 can be guaranteed (1,000 calibration points)"
    assert dependent == (
        "false-alarm rates down to 1 in 51 can be guaranteed (1,000 calibration points, about 50 independent)"
    )


def test_a_rate_that_cannot_be_promised_says_which_can_and_what_it_takes():
    known = Calibration.of(np.arange(99.0), 99.0)
    with pytest.raises(
        InvalidInputError, match=r"1 in 100 records .*\. Use alarm_rate=0\.01 .* 10 times as many"
    ):
        known.threshold(0.001)
    assert known.rate_of(None) == 0.01


@pytest.mark.parametrize(
    ("text", "frames", "rate"),
    [
        (0.25, False, 0.25),
        ("1e-2", True, 0.01),
        ("3/day", False, 3 * 60 / 86400),
        ("0.5 / h", False, 0.5 / 60),
    ],
)
def test_rates_are_shares_or_numbers_per_time(text, frames, rate):
    known = Calibration.of(np.arange(99.0), 99.0, 60.0)
    assert known.rate_of(text, frames=frames) == pytest.approx(rate)


def test_rates_per_time_of_frames_are_in_picoseconds():
    assert Calibration.of(np.arange(99.0), 99.0, 5.0).rate_of("2/ns", frames=True) == pytest.approx(0.01)


@pytest.mark.parametrize("text", ["0", "1", "-1", "nan", "often", "1/fortnight", "1000000/day"])
def test_other_rates_are_refused(text):
    with pytest.raises(InvalidInputError, match="alarm_rate must be a fraction of the records"):
        Calibration.of(np.arange(99.0), 99.0, 60.0).rate_of(text)


def test_a_rate_per_time_needs_times():
    with pytest.raises(InvalidInputError, match="but the map was fitted to points without times"):
        Calibration.of(np.arange(99.0), 99.0).rate_of("1/day")


# -- which points ----------------------------------------------------------------


def test_memory_is_the_correlation_time():
    metric = resolve_metric("euclidean")
    rng = np.random.default_rng(0)
    assert memory_of(metric, metric.prepare(normal(4000, 0)), None, rng) < 1
    # Distances from far points forget as the coordinates do, (1 + φ)/(1 − φ)/2 = 19.5; from near ones twice as fast.
    slow = memory_of(metric, metric.prepare(series(20_000, 0)), None, rng)
    assert 10 < slow < 35


def test_blocks_are_several_correlation_times_long_and_spread_over_the_rows():
    held = held_out_rows(10_000, 0.2, 10.0, np.random.default_rng(0))
    lengths = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], held, [0]]))))[::2]
    assert lengths.min() >= 80
    assert 0.17 < held.mean() < 0.23
    for part in np.split(held, 10):
        assert 0.05 < part.mean() < 0.4


def test_independent_rows_are_held_out_one_by_one():
    held = held_out_rows(1000, 0.2, 0.5, np.random.default_rng(0))
    assert held.sum() == 200
    assert held.reshape(200, 5).sum(axis=1).tolist() == [1] * 200


def test_rows_beside_fitted_ones_have_no_score():
    place = np.arange(1000) % 100
    held = (place >= 40) & (place < 60)
    distance = np.where((place >= 43) & (place < 57), 1.0, 7.0)  # the edges of each block stand out
    rows = scored_rows(held, 3.0)
    known = calibrate(rows, distance[rows], 3.0, np.empty(0))
    assert set(known.scores.tolist()) == {1.0}
    assert known.n_points == 10 * 14


def test_no_landmark_is_a_held_out_point_and_none_would_be_another_if_these_moved():
    X = normal(1500, 0)
    model = LandmarkDiffusionMap(2, 1.0, n_landmarks=60).fit(X)
    held = held_rows(model, X)
    assert not np.isin(model.landmark_indices_, held).any()
    moved = X.copy()
    moved[held] *= 3.0  # ε is given: nothing else may depend on where these points are
    again = LandmarkDiffusionMap(2, 1.0, n_landmarks=60).fit(moved)
    assert np.array_equal(held_rows(again, moved), held)
    assert np.array_equal(np.sort(again.landmark_indices_), np.sort(model.landmark_indices_))
    assert again.multiplicities_.sum() == 1500  # they count all the same


def held_rows(model, X):
    """Return which rows the scores of a calibration are of."""
    assert model.embedder_.calibration.n_points == 300
    distance = model.coverage(X).distance
    return np.flatnonzero(np.isin(distance, model.embedder_.calibration.scores))


def test_the_tolerance_calibrates_by_the_points_it_holds_out():
    X = np.random.default_rng(0).uniform(size=(1200, 2))
    model = LandmarkDiffusionMap(2, 0.05, tolerance=8.0).fit(X)
    assert model.embedder_.calibration.n_points == 600
    distances = model.coverage(X).distance
    held = np.isin(distances, model.embedder_.calibration.scores)
    assert held.sum() == 600
    assert not held[model.landmark_indices_].any()


@pytest.mark.parametrize(
    "settings",
    [
        {"calibration": 0, "n_landmarks": 50},
        {"landmarks": "pst"},
        {"landmarks": "farthest", "n_landmarks": 50},
        {"extension": "distilled", "n_landmarks": 50},
        {"landmarks": np.arange(50)},
    ],
)
def test_other_maps_have_no_p_and_say_so(settings):
    from ldmaps.regions import Alarm

    X = np.random.default_rng(0).uniform(size=(600, 2))
    model = LandmarkDiffusionMap(2, 0.1, **settings).fit(X)
    assert np.isnan(model.coverage(X[:3]).p_value).all()
    with pytest.raises(InvalidInputError, match="not calibrated.*fit it again"):
        Alarm.of(model)


# -- the promise -----------------------------------------------------------------


def shares_below(p, levels):
    return np.array([(p <= level).mean() for level in levels])


LEVELS = np.array([0.02, 0.1, 0.3, 0.6])


@pytest.mark.parametrize("kind", ["landmarks", "all points"])
def test_p_is_uniform_on_new_points(kind):
    found = []
    for seed in range(12):
        X, new = normal(500, seed), normal(2000, 1000 + seed)
        if kind == "landmarks":
            model = LandmarkDiffusionMap(2, 1.0, n_landmarks=200).fit(X)
        else:
            model = DiffusionMap(2, 1.0).fit(X[:200])
        found.append(shares_below(model.coverage(new).p_value, LEVELS))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(12)
    assert (np.abs(mean - LEVELS) < 4 * error + 0.01).all()


def test_points_that_lie_apart_do_not_cost_the_calibration():
    far = np.array([[60.0, 0.0, 0.0], [0.0, 70.0, 0.0]])
    model = LandmarkDiffusionMap(2, n_landmarks=100).fit(np.concatenate([normal(2000, 0), far]))
    assert {2000, 2001} <= set(model.diagnosis_.left_out.tolist())
    p = model.coverage(normal(5000, 1)).p_value
    assert (p <= 0.1).mean() == pytest.approx(0.1, abs=0.03)


def test_a_promise_of_frequent_alarms_is_not_worth_landmarks():
    slow = series(700, 0, memory=0.995)
    calibrations = [
        LandmarkDiffusionMap(2, "connected", n_landmarks=100, random_state=seed)
        .fit(slow)
        .embedder_.calibration
        for seed in range(5)
    ]
    # How long scores stay high is itself estimated from few of them, so not every draw shows it.
    assert sum(calibration is None for calibration in calibrations) >= 2


def test_points_that_were_seen_would_promise_too_much():
    # What a broken split does: with 200 landmarks of 500 points, those that landmarks were chosen from are nearer.
    X, new = normal(500, 0), normal(4000, 1)
    honest = LandmarkDiffusionMap(2, 1.0, n_landmarks=200).fit(X)
    seen = LandmarkDiffusionMap(2, 1.0, n_landmarks=200, calibration=0).fit(X)
    others = np.setdiff1d(np.arange(500), seen.landmark_indices_)
    broken = Calibration.of(seen.coverage(X[others]).distance, len(others))
    false_alarms = (broken.p_values(seen.coverage(new).distance) <= 0.05).mean()
    assert false_alarms > 0.08
    assert (honest.coverage(new).p_value <= 0.05).mean() < 0.08


def test_rows_at_random_of_a_series_would_promise_too_much():
    X, new = series(2000, 0, 0.99), series(60_000, 1, 0.99)
    model = LandmarkDiffusionMap(2, 4.0, n_landmarks=200).fit(X)
    known = model.embedder_.calibration
    assert known.n_independent < 0.5 * known.n_points
    at_random = held_out_rows(2000, 0.2, 0.5, np.random.default_rng(0))
    rows = scored_rows(at_random, 0.5)
    broken = calibrate(rows, model.coverage(X).distance[rows], 0.5, np.empty(0))
    distance = model.coverage(new).distance
    assert (known.p_values(distance) <= 0.1).mean() < (broken.p_values(distance) <= 0.1).mean()


# -- model files -----------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    model = LandmarkDiffusionMap(2, 1.0, n_landmarks=50).fit(normal(600, 0))
    model.save(tmp_path / "map.ldm")
    return tmp_path / "map.ldm"


def test_a_small_fit_that_left_points_out_is_calibrated_by_the_others():
    """All that take part are landmarks, so none was held out, and the text does not claim that."""
    rng, far = np.random.default_rng(0), [[30.0, 30.0]]
    X = np.concatenate([rng.uniform(size=(250, 2)), far])
    with pytest.warns(OutlierWarning, match="1 of 251 points"):
        model = LandmarkDiffusionMap(2).fit(X)
    assert model.embedder_.n_landmarks == model.embedder_.calibration.n_points == 250
    found = shares_below(model.coverage(rng.uniform(size=(2000, 2))).p_value, LEVELS)
    np.testing.assert_array_less(found, np.asarray(LEVELS) + 0.05)
    assert model.coverage(far).p_value == pytest.approx(1 / 251)
    with pytest.raises(
        InvalidInputError, match=r"training points that calibrate it .* \(250 calibration points\)"
    ):
        model.embedder_.calibration.threshold(1e-6)


def test_a_file_keeps_the_calibration(saved):
    model = LandmarkDiffusionMap(2, 1.0, n_landmarks=50).fit(normal(600, 0))
    new = normal(100, 1)
    assert np.array_equal(load(saved).coverage(new).p_value, model.coverage(new).p_value)


def test_files_without_a_calibration_are_read(saved):
    edit_archive(saved, arrays={"calibration/scores": None})
    with pytest.raises(ModelFileError, match="lacks a part of its calibration"):
        load(saved)
    edit_header(saved, calibration=None)
    assert np.isnan(load(saved).coverage(normal(3, 1)).p_value).all()


@pytest.mark.parametrize(
    "change",
    [
        {"n_points": 0},
        {"n_points": 3},
        {"n_points": 1.5},
        {"n_independent": 0},
        {"n_independent": 121},
        {"n_independent": "many"},
        {"interval": 0},
        {"interval": "a day"},
        {"more": 1},
    ],
)
def test_a_header_must_tell_of_a_calibration(saved, change):
    from ldmaps.maps.model_file import read_header

    edit_header(saved, calibration={**read_header(saved)["calibration"], **change})
    with pytest.raises(ModelFileError, match="calibrat"):
        load(saved)


@pytest.mark.parametrize("how", [np.flip, lambda array: array - 1, lambda array: array[1:]])
def test_scores_must_be_in_order(saved, how):
    array = read_archive(saved)[1]["calibration/scores"]
    edit_archive(saved, arrays={"calibration/scores": how(array)})
    with pytest.raises(ModelFileError, match=r"calibration"):
        load(saved)


def test_an_exact_map_is_calibrated_on_as_many_threads_as_were_asked_for(monkeypatch):
    asked = set()

    def watched(metric, a, b=None, n_threads=None):
        asked.add(n_threads)
        return squared_matrix(metric, a, b, n_threads)

    monkeypatch.setattr(calibration, "squared_matrix", watched)
    assert DiffusionMap(2, 8.0, n_threads=1).fit(normal(600, 0)).embedder_.calibration is not None
    assert asked == {1}
