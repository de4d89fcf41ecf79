"""A tolerance in place of a number of landmarks: the promise, and how it is kept."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits, load
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import AccuracyWarning, InvalidInputError, LdmapsWarning, ToleranceError
from ldmaps.fit.certify import Attempt, Certified, Refused, meet_tolerance
from ldmaps.fit.confidence_bound import HeldOutErrors
from ldmaps.fit.fitted_map import Solution
from ldmaps.fit.hold_out import HeldOut, Memory, TooFewIndependent, hold_out, independent_block
from ldmaps.fit.search import ToleranceSearch
from ldmaps.landmarks import KMedoids
from ldmaps.metrics import RMSD, Features, Periodic
from ldmaps.validation.fidelity import point_errors

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
    """Over data and seeds, Z of 99 % of fresh points exceeds a certified bound as rarely as the confidence says.

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
            assert promise.upper_bound <= promise.tolerance == 3.0
            assert promise.reference_error == 0.0
            exact = DiffusionMap(n_components, epsilon, metric).fit(old)
            ranges = np.ptp(exact.embedding_, axis=0)
            errors = np.sort(
                point_errors(exact.transform(new), model.transform(new), ranges=ranges, matched=True)
            )
            fresh = np.sqrt(np.mean(errors[: int(promise.share * len(errors))] ** 2))
            given += 1
            exceeded += fresh > promise.upper_bound
            broken += fresh > promise.tolerance
    assert given >= 16
    assert exceeded <= 3
    assert broken <= 1


def test_what_few_points_carry_is_not_certified():
    """A coordinate that hangs on a few points is hardly seen by those that certify, however small their errors."""
    X = np.random.default_rng(0).normal(size=(600, 2)) * 0.5
    X[50::150] += [6.0, 0.0]
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
    monkeypatch.setattr(Solution, "taking", lambda self, modes: replace(self, error_bound=bound))


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
    with pytest.raises(ToleranceError, match="only known to be within 3 percent of the exact map"):
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
        ToleranceError,
        match=r"tolerance=1e-06 percent .* lowest upper bound of the error Z of 99 % .* was .* Raise",
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
    parts = hold_out(n_points, Memory(), np.random.default_rng(0))
    together = np.concatenate([parts.fitted, parts.search, parts.certify])
    np.testing.assert_array_equal(np.sort(together), np.arange(n_points))
    assert parts.block == block
    assert len(parts.search) + len(parts.certify) == n_held_out
    assert len(parts.search) == pytest.approx(0.4 * n_held_out, abs=block)
    for part in (parts.search, parts.certify):
        blocks = part.reshape(-1, block)
        np.testing.assert_array_equal(blocks, blocks[:, :1] + np.arange(block))
        assert np.ptp(blocks[:, 0]) > 0.9 * n_points


@pytest.mark.parametrize(("time", "gap"), [(5.0, 0), (5.0, 4), (0.6, 3)])
def test_rows_with_memory_are_held_out_in_long_blocks_apart_from_fitted_ones(time, gap):
    parts = hold_out(6000, Memory(time, gap), np.random.default_rng(0))
    assert isinstance(parts, HeldOut)
    assert parts.block + 2 * gap >= (4 * time if time > 1 else 6 * gap)
    for part in (parts.search, parts.certify):
        blocks = part.reshape(-1, parts.block)
        np.testing.assert_array_equal(blocks, blocks[:, :1] + np.arange(parts.block))
        assert np.abs(blocks[:, :, None] - parts.fitted).min() > gap
    assert not np.isin(parts.search, parts.certify).any()
    assert len(parts.fitted) == pytest.approx(3000, abs=parts.block + 2 * gap)


def test_rows_that_remember_too_long_are_refused_with_what_they_are_worth():
    found = hold_out(1500, Memory(54.0, 0), np.random.default_rng(0))
    assert isinstance(found, TooFewIndependent)
    assert "1,500 rows may contain only 14 independent samples" in str(found.error(1.0))
    assert isinstance(hold_out(1500, Memory(0.6, 100), np.random.default_rng(0)), TooFewIndependent)
    walk = np.cumsum(np.random.default_rng(0).normal(size=(600, 2)), axis=0)
    with pytest.raises(ToleranceError, match=r"600 rows may contain only \d+ independent .* Simulate longer"):
        LandmarkDiffusionMap(2, "connected", tolerance=5.0).fit(walk)


def test_errors_that_stay_alike_are_averaged_until_their_means_are_independent():
    rng = np.random.default_rng(0)
    alone = rng.exponential(size=600)
    assert independent_block(alone, 5) == 5  # as many together as were held out together
    assert independent_block(np.repeat(rng.exponential(size=100), 6), 2) >= 4
    assert independent_block(np.repeat(rng.exponential(size=10), 60), 2) is None


def test_a_certificate_names_the_share_of_points_that_it_does_not_cover():
    X = np.random.default_rng(0).normal(size=(600, 2))
    X[:6] = 30.0 * np.random.default_rng(1).normal(size=(6, 2)) + 100.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)  # of points that are left out, and of a larger ε
        model = LandmarkDiffusionMap(1, tolerance=20.0, outliers=0.01)
        model.fit(X[np.random.default_rng(2).permutation(600)])
    assert len(model.diagnosis_.left_out) >= 6
    assert model.certificate_.covered == pytest.approx(1 - 6 / 600)
    assert "points like the" in str(model.certificate_)


def test_points_that_the_rule_left_out_judge_with_those_held_out_around_them():
    """Promises are about new points, and as many of these lie where the walk has none."""
    rng = np.random.default_rng(0)
    noise, X = rng.normal(size=(1200, 2)), np.zeros((1200, 2))
    for row in range(1, 1200):
        X[row] = 0.6 * X[row - 1] + 0.8 * noise[row]
    astray = np.arange(7, 1200, 40)  # 2.5 %, in directions of their own
    X[astray] *= (4.0 + 40.0 * rng.random(len(astray)) ** 2)[:, None] / np.linalg.norm(X[astray], axis=1)[
        :, None
    ]
    seen = []
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", LdmapsWarning)
        real = ToleranceSearch._attempt
        patch.setattr(
            ToleranceSearch, "_attempt", lambda *given: seen.append((given[0], real(*given))) or seen[-1][1]
        )
        model = LandmarkDiffusionMap(2, "bulk", tolerance=30.0, random_state=0).fit(X)
    left_out = model.diagnosis_.left_out
    assert len(left_out) >= 20
    search, attempt = seen[0]
    took_part = np.setdiff1d(np.arange(1200), left_out)
    for held, errors in ((search.held.search, attempt.search), (search.held.certify, attempt.certify)):
        before = took_part[np.maximum(np.searchsorted(took_part, left_out) - 1, 0)]
        rows = np.union1d(took_part[held], left_out[np.isin(before, took_part[held])])
        assert len(rows) > len(held)
        exact = search.reference.embedder().extend(search.reference.walk.metric.prepare(X[rows])).coordinates
        own = attempt.fit.embedder.extend(search.reference.walk.metric.prepare(X[rows])).coordinates
        expected = point_errors(exact, own, ranges=search._ranges, matched=True) ** 2
        # The search's are followed by those of fitted points.
        np.testing.assert_allclose(errors.squares[: len(rows)], expected, rtol=1e-4, atol=1e-6)
    assert len(attempt.certify.squares) == len(rows)
    assert model.certificate_.covered == 1.0
    assert model.certificate_.n_held_out > len(search.held.certify)


# -- the search alone ---------------------------------------------------------------


def attempt_of(count, search, certify, **known):
    return Attempt(count, HeldOutErrors.independent(search), HeldOutErrors.independent(certify), **known)


def pretend(error_of, *, spread=0.01, noise=None):
    """An attempt whose ζ has root mean square ``error_of(M)``, or ``error_of(M, draw)``."""
    asked = []

    def attempt(count, draw):
        asked.append((count, draw))
        rng = np.random.default_rng([count, draw])
        z = error_of(count) * (1 + spread * rng.normal(size=(2, 400)))
        return attempt_of((count, draw), z[0] ** 2, (z[1] if noise is None else noise(count) * z[1]) ** 2)

    return attempt, asked


def search(attempt, tolerance, *, most=5000, n_draws=1):
    return meet_tolerance(attempt, lambda count: n_draws, tolerance, "exact", fewest=8, most=most)


def certified(attempt, tolerance, **settings):
    """Return the number of landmarks that was found, and its certificate."""
    found = search(attempt, tolerance, **settings)
    assert isinstance(found, Certified)
    assert found.fit[0] == found.certificate.n_landmarks
    return found.fit[0], found.certificate


def test_the_fewest_is_found_within_a_step():
    attempt, asked = pretend(lambda m: 300.0 / m)
    found, _ = certified(attempt, 1.0)
    assert 300 < found <= 1.21 * 301
    assert len(asked) == len(set(asked)) <= 12


def test_the_fewest_allowed_may_do():
    attempt, asked = pretend(lambda m: 0.1)
    assert certified(attempt, 1.0)[0] == 8
    assert asked == [(8, 0)]


def test_landmarks_are_drawn_again_before_more_are_tried():
    """A near miss deserves another draw; the best of all draws, by the points of the search, is certified."""
    draws_of_16 = {0: 1.2, 1: 0.9, 2: 0.8}
    attempt, asked = pretend(lambda m: 30.0 / m)

    def lucky(count, draw):
        made = attempt(count, draw)
        return attempt_of(made.fit, *np.full((2, 400), draws_of_16[draw] ** 2)) if count == 17 else made

    found = search(lucky, 1.0, n_draws=3)
    assert isinstance(found, Certified)
    assert found.fit == (17, 2)
    assert found.certificate.upper_bound == pytest.approx(0.8)
    # A miss by far does not.
    assert [draw for count, draw in asked if count == 8] == [0]


def test_fewer_landmarks_that_halving_passed_over_are_found():
    """60 meet the tolerance and 50 do not, but 42 lie well."""
    attempt, asked = pretend(lambda m: 0.9 if m == 42 else 55.0 / m)
    assert certified(attempt, 1.0)[0] == 42
    assert {50, 60} <= {count for count, _ in asked}


def test_more_landmarks_are_only_tried_after_a_missed_certificate_if_they_may():
    attempt, asked = pretend(lambda m: 30.0 / m, noise=lambda m: 2.0)
    settings = {"fewest": 8, "most": 5000}
    refused = meet_tolerance(attempt, lambda count: 1, 1.0, "exact", **settings, may_grow=False)
    assert isinstance(refused, Refused)
    assert refused.n_tried == 1
    assert refused.n_landmarks == 35
    assert max(count for count, _ in asked) <= 72


def test_a_missed_certificate_asks_for_more_landmarks():
    attempt, _ = pretend(lambda m: 300.0 / m, noise=lambda m: 1.0 if m > 400 else 2.0)
    found, promise = certified(attempt, 1.0)
    assert found > 400
    assert promise.upper_bound <= 1.0
    refused = search(attempt, 1.0, most=350)
    assert isinstance(refused, Refused)
    # The bound that was missed is told, not that of the search, which was met.
    assert 1.0 < refused.best_bound == pytest.approx(2 * 300 / refused.n_landmarks, rel=0.01)


def test_landmarks_that_lower_no_bound_are_not_tried():
    """If errors stay the same however many landmarks there are, the search ends long before the most allowed."""
    attempt, asked = pretend(lambda m: max(2.0, 30.0 / m))
    assert isinstance(search(attempt, 1.0), Refused)
    assert max(count for count, _ in asked) < 500
    # Nor after a certificate was missed.
    attempt, asked = pretend(lambda m: max(0.9, 30.0 / m), noise=lambda m: 2.0)
    refused = search(attempt, 1.0)
    assert refused.n_tried == 1
    assert max(count for count, _ in asked) < 3.1 * refused.n_landmarks


def test_a_refusal_tells_that_few_points_are_to_blame():
    squares = np.full(300, 0.01)
    squares[:5] = 200.0, 100.0, 300.0, 200.0, 250.0
    error = search(
        lambda count, draw: attempt_of(count, squares, squares, largest=1e4), 1.0, most=100
    ).error()
    assert "; half of the squared error comes from 3 of them, too few" in str(error)
    assert pickle.loads(pickle.dumps(error)).reason == error.reason != ""
    assert pickle.loads(pickle.dumps(error)).share == error.share == 0.99


def test_numbers_that_make_no_map_are_passed_over():
    attempt, _ = pretend(lambda m: 300.0 / m)

    def picky(count, draw):
        if count < 100:
            return attempt_of(None, np.full(1, np.inf), np.full(1, np.inf))
        return attempt(count, draw)

    assert certified(picky, 5.0)[0] >= 100


def test_a_certificate_says_what_it_promises_of_which_points():
    rng = np.random.default_rng(0)
    squares = 0.01 * rng.exponential(size=(2, 1000))
    squares[:, :3] = 400.0  # the worst, which the tolerance is not about
    found = search(lambda count, draw: attempt_of(count, *squares, largest=1e4), 1.0)
    promise = found.certificate
    assert promise.share == 0.99
    assert promise.upper_bound < 0.2 < promise.zeta_bound < 0.5
    assert promise.held_out_z == pytest.approx(np.sqrt(squares[1].mean()))
    assert promise.upper_bound_of_all > promise.held_out_z > 1.0
    assert str(promise).startswith(
        f"Z of 99 % of new points is below {promise.upper_bound:.3g} %, their largest error below "
    )
    few = search(lambda count, draw: attempt_of(count, *squares[:, 900:], largest=1e4), 1.0).certificate
    assert few.zeta_bound is None
    assert "largest error" not in str(few)
