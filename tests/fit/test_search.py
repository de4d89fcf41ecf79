"""A certificate rests on points that nothing saw, judged as the formulas say."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import ToleranceError
from ldmaps.extension import Distilled, Nystrom, OnlineStep
from ldmaps.fit import assemble, certify, decide
from ldmaps.fit.certify import Attempt, Certified, Refused, meet_tolerance
from ldmaps.fit.confidence_bound import HeldOutErrors, bound_z
from ldmaps.fit.hold_out import HeldOut
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.search import ToleranceSearch
from ldmaps.fit.solve import solve
from ldmaps.landmarks import Uniform
from ldmaps.landmarks.base import assign
from ldmaps.metrics import Euclidean
from ldmaps.validation.fidelity import point_errors

ROLL = swiss_roll(700, random_state=3).points
WEIGHTS = np.random.default_rng(1).uniform(0.3, 3.0, 700)
METRIC = Euclidean()


# -- nothing is fitted to what certifies -----------------------------------------------


@pytest.mark.parametrize("extension", [Distilled, Nystrom])
@pytest.mark.parametrize("landmarks", ["kmedoids", "uniform"])
def test_held_out_points_take_no_part_in_any_fit(monkeypatch, extension, landmarks):
    seen = {}
    real_draws, real_fit = decide.hold_out_draws, extension.fit

    def draws(*arguments):
        held = real_draws(*arguments)
        seen["held"] = held[0]  # which is certified
        return held

    def fit(self, teacher, chosen, usable, rng):
        seen.setdefault("landmarks", []).append(chosen.indices)
        seen.setdefault("usable", []).append(usable)
        return real_fit(self, teacher, chosen, usable, rng)

    monkeypatch.setattr(decide, "hold_out_draws", draws)
    monkeypatch.setattr(extension, "fit", fit)
    LandmarkDiffusionMap(2, 9.0, tolerance=30.0, landmarks=landmarks, extension=extension.name).fit(ROLL)
    kept_back = np.concatenate([seen["held"].search, seen["held"].certify])
    assert len(kept_back) == 350
    assert seen["landmarks"]
    for indices in (*seen["landmarks"], *seen["usable"]):
        assert not np.isin(indices, kept_back).any()


def test_a_missed_certificate_is_tried_with_other_held_out_points(monkeypatch):
    """Bad luck with the points that certify does not take more landmarks; doubt that was spent stays spent."""
    real_run, real_rows, runs, calibrating = ToleranceSearch.run, assemble.CalibrationRows, [], []

    def run(self, tolerance, n_tried=0, *, fewest=4, may_grow=True):
        runs.append((self.held, n_tried, fewest, may_grow))
        if len(runs) < 3:
            return Refused(tolerance, best_bound=2 * tolerance, n_landmarks=6, n_tried=n_tried + 1)
        return real_run(self, tolerance, n_tried, fewest=fewest, may_grow=may_grow)

    def rows(held, time):
        calibrating.append(np.flatnonzero(held))
        return real_rows(held, time)

    monkeypatch.setattr(ToleranceSearch, "run", run)
    monkeypatch.setattr(assemble, "CalibrationRows", rows)
    model = LandmarkDiffusionMap(2, 9.0, tolerance=30.0).fit(ROLL)
    draws, n_tried, fewest, may_grow = zip(*runs, strict=True)
    assert n_tried == (0, 1, 2)
    assert fewest == (4, 6, 6)
    assert may_grow == (False, False, True)
    assert len(model.landmark_indices_) >= 6
    # Half as many certify again, and they are others.
    assert [len(held.certify) for held in draws] == [210, 316, 316]
    assert all(np.setdiff1d(one.certify, other.certify).size > 80 for one, other in permutations(draws, 2))
    kept_back = np.union1d(draws[-1].search, draws[-1].certify)
    assert not np.isin(model.landmark_indices_, kept_back).any()
    np.testing.assert_array_equal(calibrating[-1], kept_back)


def test_a_search_that_tried_no_certificate_is_not_repeated(monkeypatch):
    runs = []
    monkeypatch.setattr(
        ToleranceSearch, "run", lambda self, tolerance, *_, **__: runs.append(1) or Refused(tolerance)
    )
    with pytest.raises(ToleranceError):
        LandmarkDiffusionMap(2, 9.0, tolerance=30.0).fit(ROLL)
    assert len(runs) == 1


def test_the_distilled_rows_are_only_usable_ones():
    """What an extension is not given it does not look at: the rest may be anything."""
    walk = Walk(METRIC, METRIC.prepare(ROLL), np.ones(700), 9.0)
    solved = solve(walk, 2)
    usable = np.setdiff1d(np.arange(700), np.arange(0, 700, 3))
    chosen = Uniform(40).select(walk.take(usable), np.random.default_rng(0))
    landmarks = assign(walk, usable[chosen.indices])

    class Spoiled:
        def __init__(self, junk):
            self.walk, self.spectrum, self.junk = walk, solved.spectrum, junk

        def coordinates(self, wanted):
            values = solved.coordinates(wanted)
            values[~np.isin(wanted, usable)] = self.junk
            return values

    one, other = (
        Distilled().fit(Spoiled(junk), landmarks, usable, np.random.default_rng(5)) for junk in (0.0, 1e3)
    )
    np.testing.assert_array_equal(one.coefficients, other.coefficients)
    assert one.moved is not None
    np.testing.assert_array_equal(one.moved.points.values, other.moved.points.values)
    assert np.isin(one.moved.representatives, usable).all()


# -- what a certificate measures ---------------------------------------------------------


@pytest.mark.parametrize("extension", [Distilled(), Nystrom()], ids=["distilled", "nystrom"])
def test_the_certified_z_is_the_weighted_one_against_the_reference(extension):
    walk = Walk(METRIC, METRIC.prepare(ROLL), WEIGHTS, 9.0)
    reference = solve(walk, 2)
    order = np.random.default_rng(0).permutation(700)
    held = HeldOut(np.sort(order[210:]), np.sort(order[:80]), np.sort(order[80:210]))
    search = ToleranceSearch(
        extension=extension,
        reference=reference,
        held=held,
        selector=Uniform(),
        n_eigenvalues=lambda count: 2,
        seed=7,
    )
    found = search.run(12.0)
    assert isinstance(found, Certified)
    fit, certificate = found.fit, found.certificate
    embedded = fit.embedder.extend(METRIC.prepare(ROLL[held.certify])).coordinates
    truth = reference.spectrum.vectors
    ranges = np.ptp(truth, axis=0)
    errors = point_errors(
        truth[held.certify], embedded, ranges=ranges, matched=isinstance(extension, Distilled)
    )
    weights = WEIGHTS[held.certify]
    assert certificate.held_out_z == pytest.approx(np.sqrt(weights @ errors**2 / weights.sum()), rel=1e-6)
    assert certificate.n_held_out == 130
    measured = HeldOutErrors(errors**2, weights, np.arange(130))
    assert certificate.upper_bound == pytest.approx(bound_z(measured, 0.99, 0.975), rel=1e-6)
    assert certificate.upper_bound_of_all > certificate.held_out_z


def test_states_that_few_points_visit_are_not_among_the_worst():
    """Where 2 % of the points carry a coordinate, the promise is about more than 99 %: it must not leave them out."""
    rng = np.random.default_rng(0)
    X = 0.3 * rng.normal(size=(4000, 2))
    X[:80] += [4.0, 0.0]
    X = rng.permutation(X)
    walk = Walk(METRIC, METRIC.prepare(X), np.ones(4000), 1.0)
    order = rng.permutation(4000)
    held = HeldOut(np.sort(order[:1200]), np.sort(order[1200:2000]), np.sort(order[2000:]))
    search = ToleranceSearch(Distilled(), solve(walk, 1), held, Uniform(), lambda count: 1, 0)
    found = search.run(5.0)
    assert isinstance(found, Certified)
    # Less than half of the 2 %.
    assert 0.99 < found.certificate.share == pytest.approx(1 - 0.4 * 0.02, abs=1e-3)
    rare = METRIC.prepare(np.array([[4.0, 0.0]]))
    error = abs(
        found.fit.embedder.extend(rare).coordinates - search.reference.embedder().extend(rare).coordinates
    )
    assert error < 0.2 * search._ranges


def test_the_search_takes_in_what_was_fitted_while_a_fit_follows_it_little():
    """M rows of B for each of two coordinates, and half of M weights and M places in space."""
    walk = Walk(METRIC, METRIC.prepare(ROLL), WEIGHTS, 9.0)
    reference = solve(walk, 2)
    order = np.random.default_rng(0).permutation(700)
    held = HeldOut(*(np.sort(part) for part in np.split(order, [400, 500])))
    search = ToleranceSearch(Distilled(), reference, held, Uniform(), lambda count: 2, 7)
    for count, n_seen in ((6, 500), (60, 100)):
        found = search._attempt(count, 0)
        assert found.fit.step.moved is not None
        embedded = found.fit.embedder.extend(walk.points).coordinates
        errors = point_errors(reference.spectrum.vectors, embedded, ranges=search._ranges, matched=True)
        expected = np.concatenate(
            [errors[held.search] ** 2, errors[held.fitted] ** 2 / (1 - 3 * count / 400) ** 2]
        )[:n_seen]
        np.testing.assert_allclose(found.search.squares, expected, rtol=1e-6)
        rows = np.concatenate([held.search, held.fitted])[:n_seen]
        np.testing.assert_array_equal(found.search.weights, WEIGHTS[rows])
        np.testing.assert_allclose(found.certify.squares, errors[held.certify] ** 2, rtol=1e-6)
        assert found.searched(0.99) == bound_z(found.search, 0.99, certify.SEARCH_CONFIDENCE, 200)


# -- the certificates that are tried ---------------------------------------------------------


def test_all_certificates_together_have_the_doubt_asked_for(monkeypatch):
    searched, certified = [], []

    def bound(errors, share, confidence, n_points=None):
        (searched if len(errors.squares) == 30 else certified).append((len(errors.squares), confidence))
        return bound_z(errors, share, confidence, n_points)

    monkeypatch.setattr(certify, "bound_z", bound)

    def attempt(count, draw):
        """Meets the tolerance in the search, the better the more landmarks, never where it would be certified."""
        parts = np.full(30, 4.0 / count), np.full(40, 9.0)
        return Attempt(count, *map(HeldOutErrors.independent, parts))

    def tried(n_tried):
        return meet_tolerance(
            attempt,
            lambda count: 1,
            1.0,
            "exact",
            fewest=8,
            most=8000,
            confidence=0.9,
            n_tried=n_tried,
        )

    assert isinstance(tried(0), Refused)
    # The search itself spends no doubt.
    assert set(searched) == {(30, certify.SEARCH_CONFIDENCE)}
    assert {size for size, _ in certified} == {40}
    doubts = [1 - confidence for _, confidence in certified]
    assert len(doubts) >= 2
    # A second search goes on where the first has ended.
    certified.clear()
    refused = tried(len(doubts))
    doubts += [1 - confidence for _, confidence in certified]
    assert refused.n_tried == len(doubts)
    np.testing.assert_allclose(doubts, 0.1 / 2.0 ** np.arange(1, len(doubts) + 1))


def test_no_error_exceeds_what_both_maps_can_reach():
    """Both average over their coefficients, so neither leaves the range of these."""
    walk = Walk(METRIC, METRIC.prepare(ROLL), WEIGHTS, 16.0)
    reference = solve(walk, 3)
    search = ToleranceSearch(
        Distilled(), reference, HeldOut(*np.split(np.arange(700), [400, 500])), None, None, 0
    )
    step = Distilled().fit(
        reference,
        Uniform(30).select(walk, np.random.default_rng(0)),
        np.arange(400),
        np.random.default_rng(0),
    )
    psi, values = reference.own_coordinates, reference.spectrum.eigenvalues
    expected = 0.0
    for number in range(3):
        reach = max(abs(psi[:, number] / values[number])) + max(abs(step.coefficients[:, number]))
        expected += (100.0 * reach / search._ranges[number]) ** 2
    assert search._largest_square(step) == pytest.approx(expected)


def test_as_many_new_points_are_inside_however_many_landmarks_there_are():
    """Cells of few points end before many new ones; the held-out points show how much farther they must reach."""
    X = np.random.default_rng(0).normal(size=(3000, 5))
    walk = Walk(METRIC, METRIC.prepare(X), np.ones(3000), 0.2)
    fitted, held = np.arange(0, 1000), np.arange(1000, 2000)
    new = METRIC.prepare(X[2000:])
    seen = walk.take(np.arange(2000))
    for count in (4, 200):
        chosen = Uniform(count).select(walk.take(fitted), np.random.default_rng(0))
        landmarks = assign(seen, chosen.indices)
        step = OnlineStep(
            coefficients=np.zeros((count, 1)), source_weights=landmarks.multiplicities, bandwidth=0.2
        )
        fit = LandmarkFit.of(seen, landmarks, step, None)
        grown = fit.with_domain_for(fitted, held).embedder
        assert (grown.squared_radii >= fit.embedder.squared_radii).all()
        assert grown.coverage_of(grown.extend(new)).inside.mean() > 0.985
        if count == 200:
            assert fit.embedder.coverage_of(fit.embedder.extend(new)).inside.mean() < 0.95
