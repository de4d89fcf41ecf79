"""A certificate rests on points that nothing saw, judged as the formulas say."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.extension import Distilled, Nystrom
from ldmaps.fit import certify, decide
from ldmaps.fit.certify import Attempt, Certified, HeldOut, Refused, meet_tolerance
from ldmaps.fit.search import ToleranceSearch
from ldmaps.fit.solve import solve
from ldmaps.landmarks import Uniform
from ldmaps.landmarks.base import assign
from ldmaps.metrics import Euclidean
from ldmaps.quality.fidelity import zeta

ROLL = swiss_roll(700, random_state=3).points
WEIGHTS = np.random.default_rng(1).uniform(0.3, 3.0, 700)
METRIC = Euclidean()


# -- nothing is fitted to what certifies -----------------------------------------------


@pytest.mark.parametrize("extension", [Distilled, Nystrom])
@pytest.mark.parametrize("landmarks", ["kmedoids", "uniform"])
def test_held_out_points_take_no_part_in_any_fit(monkeypatch, extension, landmarks):
    seen = {}
    real_hold_out, real_fit = decide.hold_out, extension.fit

    def hold_out(*arguments):
        seen["held"] = real_hold_out(*arguments)
        return seen["held"]

    def fit(self, teacher, chosen, usable, rng):
        seen.setdefault("landmarks", []).append(chosen.indices)
        seen.setdefault("usable", []).append(usable)
        return real_fit(self, teacher, chosen, usable, rng)

    monkeypatch.setattr(decide, "hold_out", hold_out)
    monkeypatch.setattr(extension, "fit", fit)
    LandmarkDiffusionMap(2, 9.0, tolerance=30.0, landmarks=landmarks, extension=extension.name).fit(ROLL)
    kept_back = np.concatenate([seen["held"].search, seen["held"].certify])
    assert len(kept_back) == 350
    assert seen["landmarks"]
    for indices in (*seen["landmarks"], *seen["usable"]):
        assert not np.isin(indices, kept_back).any()


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


def test_the_best_of_several_draws_is_kept(monkeypatch):
    """The best by the points held out within the fit, not by those that certify."""
    drawn = []
    real = Distilled.fit

    def fit(self, *arguments):
        drawn.append(real(self, *arguments))
        return drawn[-1]

    monkeypatch.setattr(Distilled, "fit", fit)
    model = LandmarkDiffusionMap(2, 9.0, tolerance=60.0).fit(ROLL)
    assert len(drawn) == Distilled().draws(len(model.multiplicities_)) == 3
    assert len({step.held_out_z for step in drawn}) == 3
    assert model.distillation_ is min(drawn, key=lambda step: step.held_out_z)


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
    errors = zeta(truth[held.certify], embedded, ranges=ranges, aligned=isinstance(extension, Distilled))
    weights = WEIGHTS[held.certify]
    assert certificate.held_out_z == pytest.approx(np.sqrt(weights @ errors**2 / weights.sum()), rel=1e-6)
    assert certificate.n_held_out == 130


# -- the certificates that are tried ---------------------------------------------------------


def test_all_certificates_together_have_the_doubt_asked_for(monkeypatch):
    searched, certified = [], []
    real_search, real_bound = certify.seen_bound, certify.upper_bound

    def search(squares, confidence):
        searched.append((squares[0], confidence))
        return real_search(squares, confidence)

    def bound(squares, confidence, *others):
        certified.append((squares[0], confidence))
        return real_bound(squares, confidence, *others)

    monkeypatch.setattr(certify, "seen_bound", search)
    monkeypatch.setattr(certify, "upper_bound", bound)

    def attempt(count):
        """Meets the tolerance in the search, never where it would be certified."""
        return Attempt(count, np.full(40, 0.25), np.full(40, 9.0))

    refused = meet_tolerance(attempt, 1.0, "exact", fewest=8, most=8000, confidence=0.9)
    assert isinstance(refused, Refused)
    # A certificate bounds its own points the same way, so those are seen here too.
    assert {each for each in searched if each[0] == 0.25} == {(0.25, 0.9)}
    assert {first for first, _ in certified} == {9.0}
    doubts = [1 - confidence for _, confidence in certified]
    assert len(doubts) > 5
    # A second search goes on where the first has ended.
    certified.clear()
    refused = meet_tolerance(attempt, 1.0, "exact", fewest=8, most=8000, confidence=0.9, n_tried=len(doubts))
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
