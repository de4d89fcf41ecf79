"""A tolerance in place of a number of landmarks: the promise, and how it is kept."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits, load
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import AccuracyWarning, InvalidInputError, ToleranceError
from ldmaps.fit.certify import Attempt, Certified, Refused, hold_out, meet_tolerance
from ldmaps.fit.fitted_map import Solution
from ldmaps.landmarks import KMedoids
from ldmaps.metrics import RMSD, Features, Periodic
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


def backbone(n, rng):
    """φ and ψ of alanine dipeptide: few frames on the ways between basins have most of the error."""
    drawn = frames(n, rng)
    return Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]]).values(drawn)


SOURCES = {
    "roll": (lambda n, rng: swiss_roll(n, random_state=rng).points, "euclidean", 9.0, 2),
    "torus": (torus, "euclidean", 0.5, 2),
    "clouds": (clouds, "euclidean", 0.4, 1),
    "frames": (frames, RMSD(weights=alanine_dipeptide(stride=1000).masses), 5e-3, 2),
    "backbone": (backbone, Periodic(), "connected", 2),
}


@pytest.mark.slow
def test_fresh_points_meet_the_promise():
    """Over data and seeds, Z of fresh points exceeds a certified bound about as rarely as the confidence says.

    A reduced version of benchmarks/certificates.py.
    """
    given = exceeded = broken = 0
    for draw, metric, epsilon, n_components in SOURCES.values():
        for seed in range(4):
            X = draw(2000, np.random.default_rng(seed))
            old, new = X[:700], X[700:]
            try:
                model = LandmarkDiffusionMap(
                    n_components, epsilon, metric, tolerance=3.0, random_state=seed
                ).fit(old)
            except ToleranceError:
                continue
            promise = model.certificate_
            assert promise.held_out_z < promise.upper_bound <= promise.tolerance == 3.0
            assert promise.reference_error == 0.0
            exact = DiffusionMap(n_components, epsilon, metric).fit(old)
            ranges = np.ptp(exact.embedding_, axis=0)
            fresh = rms_error(exact.transform(new), model.transform(new), ranges=ranges, aligned=True)
            given += 1
            exceeded += fresh > promise.upper_bound
            broken += fresh > promise.tolerance
    assert given >= 16
    assert exceeded <= 3
    assert broken <= 1


def test_what_few_points_carry_is_not_certified():
    """A coordinate that hangs on a few points is hardly seen by those that certify, however small their errors."""
    X = np.random.default_rng(0).normal(size=(600, 2)) * 0.5
    X[:4] += [6.0, 0.0]
    with pytest.raises(
        ToleranceError, match=r"psi2 is supported by only 4\.\d of 600 .* about 1\.\d of the 180"
    ) as caught:
        LandmarkDiffusionMap(2, 1.0, tolerance=3.0).fit(X)
    assert caught.value.n_landmarks == 0
    assert caught.value.best_bound == np.inf


@pytest.mark.parametrize("extension", ["distilled", "nystrom"])
def test_a_stricter_tolerance_takes_more_landmarks(extension):
    X = alanine_dipeptide(stride=20)
    metric = RMSD(weights=X.masses)
    counts = []
    for tolerance in (8.0, 2.0) if extension == "nystrom" else (2.0, 0.2):
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
    model = LandmarkDiffusionMap(2, 9.0, tolerance=3.0, limits=Limits(8 * 600**2, max_passes=0)).fit(ROLL)
    assert model.certificate_.reference == "landmarks"


def with_error_bound(monkeypatch, bound):
    """Let the reference be known to be within so many percent, or None, of the exact map."""
    monkeypatch.setattr(Solution, "leading", lambda self, count: replace(self, error_bound=bound))


def test_a_reference_whose_error_is_not_known_certifies_nothing(monkeypatch):
    with_error_bound(monkeypatch, None)
    with pytest.warns(
        AccuracyWarning, match=r"tolerance=3 was not certified: \d+ landmarks .* not known; allow"
    ):
        model = LandmarkDiffusionMap(2, 9.0, tolerance=3.0).fit(ROLL)
    assert model.certificate_ is None


def test_the_bound_includes_the_references_error(monkeypatch):
    """Z is a distance: that of the map from the reference and that of the reference from the exact map add up."""
    plain = LandmarkDiffusionMap(2, 9.0, tolerance=3.0).fit(ROLL).certificate_
    error = 3.0 - plain.upper_bound - 1e-3
    with_error_bound(monkeypatch, np.array([0.6 * error, 0.8 * error]))
    model = LandmarkDiffusionMap(2, 9.0, tolerance=3.0).fit(ROLL).certificate_
    assert model.reference_error == pytest.approx(error)
    if model.n_landmarks == plain.n_landmarks:
        assert model.upper_bound == pytest.approx(plain.upper_bound + error)
    assert model.upper_bound > model.held_out_z + error
    with_error_bound(monkeypatch, np.array([3.0, 0.1]))
    with pytest.raises(ToleranceError, match="is itself only known to 3 percent"):
        LandmarkDiffusionMap(2, 9.0, tolerance=3.0).fit(ROLL)


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
        ToleranceError, match=r"tolerance=1e-06 percent .* lowest upper bound of the error Z was .* Raise"
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
    with pytest.raises(InvalidInputError, match=r"needs at least 101 points .* got 97"):
        LandmarkDiffusionMap(2, 16.0, tolerance=1.0).fit(ROLL[:97])


@pytest.mark.parametrize(
    ("n_points", "block", "n_held_out"),
    [(101, 1, 50), (1003, 2, 500), (30_000, 75, 15_000), (10**6, 100, 20_000)],
)
def test_points_are_held_out_in_blocks_of_consecutive_ones(n_points, block, n_held_out):
    parts = hold_out(n_points, np.random.default_rng(0))
    together = np.concatenate([parts.fitted, parts.search, parts.certify])
    np.testing.assert_array_equal(np.sort(together), np.arange(n_points))
    assert parts.block == block
    assert len(parts.search) + len(parts.certify) == n_held_out
    assert len(parts.search) == pytest.approx(0.4 * n_held_out, abs=block)
    for part in (parts.search, parts.certify):
        blocks = part.reshape(-1, block)
        np.testing.assert_array_equal(blocks, blocks[:, :1] + np.arange(block))
        assert np.ptp(blocks[:, 0]) > 0.9 * n_points


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


def certified(attempt, tolerance):
    """Return the number of landmarks that was found, and its certificate."""
    found = meet_tolerance(attempt, tolerance, "exact", fewest=8, most=5000)
    assert isinstance(found, Certified)
    return found.fit, found.certificate


def test_the_fewest_is_found_within_the_resolution():
    attempt, asked = pretend(lambda m: 300.0 / m)
    found, promise = certified(attempt, 1.0)
    assert 300 < found <= 1.12 * 301
    assert promise.n_landmarks == found
    assert len(asked) == len(set(asked)) <= 14


def test_the_fewest_allowed_may_do():
    attempt, asked = pretend(lambda m: 0.1)
    assert certified(attempt, 1.0)[0] == 8
    assert asked == [8]


def test_a_missed_certificate_asks_for_more_landmarks():
    attempt, _ = pretend(lambda m: 300.0 / m, noise=lambda m: 1.0 if m > 400 else 2.0)
    found, promise = certified(attempt, 1.0)
    assert found > 400
    assert promise.upper_bound <= 1.0
    refused = meet_tolerance(attempt, 1.0, "exact", fewest=8, most=350)
    assert isinstance(refused, Refused)
    # The bound that was missed is told, not that of the search, which was met.
    assert 1.0 < refused.best_bound == pytest.approx(2 * 300 / refused.n_landmarks, rel=0.01)


def test_a_refusal_tells_that_few_points_are_to_blame():
    def attempt(count):
        squares = np.full(300, 0.01)
        squares[:2] = 200.0, 100.0
        return Attempt(count, squares, squares, largest=1e4)

    error = meet_tolerance(attempt, 1.0, "exact", fewest=8, most=100).error()
    assert "; half of the squared error comes from 1 of them, too few" in str(error)
    assert pickle.loads(pickle.dumps(error)).reason == error.reason != ""


def test_numbers_that_make_no_map_are_passed_over():
    attempt, _ = pretend(lambda m: 300.0 / m)

    def picky(count):
        if count < 100:
            return Attempt(None, np.full(1, np.inf), np.full(1, np.inf))
        return attempt(count)

    assert certified(picky, 5.0)[0] >= 100
