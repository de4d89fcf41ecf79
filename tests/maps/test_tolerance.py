"""A tolerance in place of a number of landmarks: the promise, and how it is kept."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import InvalidInputError, ToleranceError
from ldmaps.landmarks import KMedoids
from ldmaps.maps.tolerance import Attempt, hold_out, meet_tolerance, upper_bound
from ldmaps.metrics import RMSD
from ldmaps.quality.fidelity import rms_error

ROLL = swiss_roll(1600, random_state=0).points


def torus(n, rng):
    u, v = rng.uniform(0, 2 * np.pi, (2, n))
    return np.column_stack([(3 + np.cos(v)) * np.cos(u), (3 + np.cos(v)) * np.sin(u), 1.5 * np.sin(v)])


def clouds(n, rng):
    """Two unequal basins and the way between them, in five dimensions."""
    centre = np.where(rng.random(n) < 0.7, -2.0, 2.0)
    centre[: n // 8] = rng.uniform(-2, 2, n // 8)
    X = 0.3 * rng.normal(size=(n, 5))
    X[:, 0] += centre
    return X


def frames(n, rng):
    data = alanine_dipeptide(stride=4)
    return data.frames[rng.permutation(len(data.frames))[:n]]


SOURCES = {
    "roll": (lambda n, rng: swiss_roll(n, random_state=rng).points, "euclidean", 9.0),
    "torus": (torus, "euclidean", 0.5),
    "clouds": (clouds, "euclidean", 0.4),
    "frames": (frames, RMSD(weights=alanine_dipeptide(stride=1000).masses), 5e-3),
}


@pytest.mark.parametrize("name", SOURCES)
def test_fresh_points_meet_the_promise(name):
    """Over seeds, Z of fresh points exceeds the certified bound at most about as often as the confidence allows."""
    draw, metric, epsilon = SOURCES[name]
    misses, seeds = 0, 8
    for seed in range(seeds):
        X = draw(1600, np.random.default_rng(seed))
        old, new = X[:700], X[700:]
        model = LandmarkDiffusionMap(2, epsilon, metric, tolerance=3.0, random_state=seed).fit(old)
        promise = model.certificate_
        assert promise.held_out_z < promise.upper_bound <= promise.tolerance == 3.0
        exact = DiffusionMap(2, epsilon, metric).fit(old)
        fresh = rms_error(
            exact.transform(new), model.transform(new), ranges=np.ptp(exact.embedding_, axis=0), aligned=True
        )
        misses += fresh > promise.tolerance
    assert misses <= 1


def test_the_bound_covers_the_mean_of_skewed_errors():
    """ζ² is skewed; of 400 bounds at 95 % no more than about 5 % may fail."""
    rng = np.random.default_rng(0)
    mean = 2.0 * np.sqrt(2.0 / np.pi)  # of |normal|³
    failures = sum(upper_bound(rng.chisquare(1, 200) ** 1.5, 0.95) ** 2 < mean for _ in range(400))
    assert failures / 400 < 0.09
    plain = rng.normal(5.0, 0.1, 1000)
    assert upper_bound(plain, 0.95) ** 2 == pytest.approx(
        plain.mean() + 1.645 * 0.1 / np.sqrt(1000), rel=1e-3
    )
    assert upper_bound(np.full(10, 4.0), 0.95) == 2.0


@pytest.mark.parametrize("extension", ["distilled", "nystrom"])
def test_a_stricter_tolerance_takes_more_landmarks(extension):
    X = alanine_dipeptide(stride=20)
    metric = RMSD(weights=X.masses)
    counts = []
    for tolerance in (8.0, 1.5):
        model = LandmarkDiffusionMap(2, "connected", metric, tolerance=tolerance, extension=extension).fit(
            X.frames
        )
        assert model.certificate_.upper_bound <= tolerance
        assert model.certificate_.n_landmarks == len(model.landmark_indices_) == len(model.multiplicities_)
        assert model.certificate_.reference == "exact"
        assert model.multiplicities_.sum() == len(X.frames)
        counts.append(len(model.landmark_indices_))
    assert counts[0] < counts[1]


def test_distilled_landmarks_are_fewer_than_nystroms():
    X = alanine_dipeptide(stride=20)
    ours, papers = (
        LandmarkDiffusionMap(2, "connected", RMSD(weights=X.masses), tolerance=3.0, extension=name)
        .fit(X.frames)
        .certificate_.n_landmarks
        for name in ("distilled", "nystrom")
    )
    assert ours < papers


def test_training_points_are_embedded_by_the_certified_map():
    model = LandmarkDiffusionMap(2, 9.0, tolerance=2.0).fit(ROLL)
    np.testing.assert_allclose(model.transform(ROLL), model.embedding_, atol=1e-14)
    again = LandmarkDiffusionMap(2, 9.0, tolerance=2.0, n_threads=1).fit(ROLL)
    assert again.certificate_ == model.certificate_
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


def test_two_levels_say_so():
    model = LandmarkDiffusionMap(2, 9.0, tolerance=3.0, memory_limit=8 * 600**2, max_passes=0).fit(ROLL)
    assert model.certificate_.reference == "landmarks"


def test_the_certificate_is_in_the_file(tmp_path):
    model = LandmarkDiffusionMap(2, 9.0, tolerance=3.0).fit(ROLL)
    model.save(tmp_path / "map.ldm")
    assert load(tmp_path / "map.ldm").certificate_ == model.certificate_
    plain = LandmarkDiffusionMap(2, 9.0, n_landmarks=30).fit(ROLL)
    assert plain.certificate_ is None
    plain.save(tmp_path / "plain.ldm")
    assert load(tmp_path / "plain.ldm").certificate_ is None


def test_what_cannot_be_reached_is_an_error_with_the_best_that_can():
    with pytest.raises(
        ToleranceError, match=r"tolerance=1e-06 percent .* best upper bound of Z was .* Raise"
    ) as caught:
        LandmarkDiffusionMap(2, 9.0, tolerance=1e-6).fit(ROLL[:500])
    assert 1e-6 < caught.value.best_bound < 5.0
    assert caught.value.n_landmarks <= 250


@pytest.mark.parametrize("tolerance", [0, -1.0, np.nan, np.inf, "1", True])
def test_bad_tolerances(tolerance):
    with pytest.raises(InvalidInputError, match="tolerance must be a positive number"):
        LandmarkDiffusionMap(2, 9.0, tolerance=tolerance).fit(ROLL[:300])


@pytest.mark.parametrize(
    "settings",
    [{"n_landmarks": 50}, {"landmarks": "pst"}, {"landmarks": KMedoids(50)}, {"landmarks": [1, 2, 3, 4]}],
)
def test_one_setting_decides_the_number_of_landmarks(settings):
    with pytest.raises(InvalidInputError, match=r"tolerance.*(leave one|leave tolerance)"):
        LandmarkDiffusionMap(2, 9.0, tolerance=1.0, **settings).fit(ROLL[:300])


def test_too_few_points_to_hold_any_out():
    with pytest.raises(InvalidInputError, match=r"needs at least \d+ points .* got 100"):
        LandmarkDiffusionMap(2, 16.0, tolerance=1.0).fit(ROLL[:100])


def test_held_out_points_are_disjoint():
    parts = hold_out(1000, np.random.default_rng(0))
    together = np.concatenate([parts.fitted, parts.search, parts.certify])
    np.testing.assert_array_equal(np.sort(together), np.arange(1000))


# -- the search alone ---------------------------------------------------------------


def pretend(error_of, *, spread=0.01, noise=None):
    """An attempt whose ζ has root mean square ``error_of(M)``."""
    asked = []

    def attempt(count):
        asked.append(count)
        rng = np.random.default_rng([count, 0])
        z = error_of(count) * (1 + spread * rng.normal(size=(2, 400)))
        return Attempt(count, z[0] ** 2, (z[1] if noise is None else noise(count) * z[1]) ** 2)

    return attempt, asked


def test_the_fewest_is_found_within_the_resolution():
    attempt, asked = pretend(lambda m: 300.0 / m)
    found, promise = meet_tolerance(attempt, 1.0, "exact", fewest=8, most=5000)
    assert 300 < found <= 1.12 * 301
    assert promise.n_landmarks == found
    assert len(asked) == len(set(asked)) <= 14


def test_the_fewest_allowed_may_do():
    attempt, asked = pretend(lambda m: 0.1)
    assert meet_tolerance(attempt, 1.0, "exact", fewest=8, most=5000)[0] == 8
    assert asked == [8]


def test_a_missed_certificate_asks_for_more_landmarks():
    attempt, _ = pretend(lambda m: 300.0 / m, noise=lambda m: 1.0 if m > 400 else 2.0)
    found, promise = meet_tolerance(attempt, 1.0, "exact", fewest=8, most=5000)
    assert found > 400
    assert promise.upper_bound <= 1.0
    with pytest.raises(ToleranceError):
        meet_tolerance(attempt, 1.0, "exact", fewest=8, most=350)


def test_numbers_that_make_no_map_are_passed_over():
    attempt, _ = pretend(lambda m: 300.0 / m)

    def picky(count):
        if count < 100:
            return Attempt(None, np.full(1, np.inf), np.full(1, np.inf))
        return attempt(count)

    assert meet_tolerance(picky, 5.0, "exact", fewest=8, most=5000)[0] >= 100
