"""A certificate rests on points that nothing saw, judged as the formulas say."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import ToleranceError
from ldmaps.extension import Distilled, Nystrom
from ldmaps.landmarks import Uniform
from ldmaps.maps import landmark_diffusion_map, tolerance, tolerance_search
from ldmaps.maps.solved_map import solve
from ldmaps.maps.tolerance import Attempt, HeldOut, meet_tolerance, upper_bound
from ldmaps.maps.tolerance_search import ToleranceSearch
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
    real_hold_out, real_fit = landmark_diffusion_map.hold_out, extension.fit

    def hold_out(*arguments):
        seen["held"] = real_hold_out(*arguments)
        return seen["held"]

    def fit(self, teacher, chosen, usable, rng):
        seen.setdefault("landmarks", []).append(chosen.indices)
        seen.setdefault("usable", []).append(usable)
        return real_fit(self, teacher, chosen, usable, rng)

    monkeypatch.setattr(landmark_diffusion_map, "hold_out", hold_out)
    monkeypatch.setattr(extension, "fit", fit)
    LandmarkDiffusionMap(2, 9.0, tolerance=20.0, landmarks=landmarks, extension=extension.name).fit(ROLL)
    kept_back = np.concatenate([seen["held"].search, seen["held"].certify])
    assert len(kept_back) == 210
    assert seen["landmarks"]
    for indices in (*seen["landmarks"], *seen["usable"]):
        assert not np.isin(indices, kept_back).any()


def test_the_distilled_rows_are_only_usable_ones():
    """What an extension is not given it does not look at: the rest may be anything."""
    walk = Walk(METRIC, METRIC.prepare(ROLL), np.ones(700), 9.0)
    solved = solve(walk, 2)
    usable = np.setdiff1d(np.arange(700), np.arange(0, 700, 3))
    chosen = Uniform(40).select(walk.take(usable), np.random.default_rng(0))
    landmarks = tolerance_search.assign(walk, usable[chosen.indices])

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


def naive_unseen(X, weights, epsilon, alpha, t, places, lam, psi):
    """Nyström at training points from all others: the sum without the point itself."""
    kernel = np.exp(-(cdist(X, X) ** 2) / (2 * epsilon))
    source = weights * (kernel @ weights) ** -alpha
    out = np.empty((len(places), len(lam)))
    for row, i in enumerate(places):
        share = kernel[i] * source
        share[i] = 0.0
        out[row] = (share @ psi) / share.sum() / lam * lam**t
    return out


@pytest.mark.parametrize(("alpha", "t"), [(0.0, 0.0), (1.0, 1.0)])
def test_coordinates_as_unseen_leave_one_out(alpha, t):
    walk = Walk(METRIC, METRIC.prepare(ROLL), WEIGHTS, 9.0, alpha, t)
    solved = solve(walk, 3)
    places = np.arange(5, 700, 9)
    expected = naive_unseen(
        ROLL, WEIGHTS, 9.0, alpha, t, places, solved.spectrum.eigenvalues, solved.spectrum.vectors
    )
    np.testing.assert_allclose(solved.coordinates_as_unseen(places), expected, rtol=1e-6, atol=1e-9)
    assert np.abs(solved.coordinates(places) - expected).max() > 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize("extension", [Distilled(), Nystrom()], ids=["distilled", "nystrom"])
def test_the_certified_z_is_the_weighted_one_against_points_as_unseen(extension):
    walk = Walk(METRIC, METRIC.prepare(ROLL), WEIGHTS, 9.0)
    reference = solve(walk, 2)
    order = np.random.default_rng(0).permutation(700)
    held = HeldOut(np.sort(order[210:]), np.sort(order[:80]), np.sort(order[80:210]))
    search = ToleranceSearch(
        extension=extension,
        reference=reference,
        held=held,
        select=lambda count, walk, rng: (Uniform(count).select(walk, rng), None),
        n_eigenvalues=lambda count: 2,
        seed=7,
    )
    fit, certificate = search.run(12.0)
    spectrum = reference.spectrum
    unseen = np.concatenate([held.search, held.certify])
    truth = naive_unseen(ROLL, WEIGHTS, 9.0, 0.0, 0.0, unseen, spectrum.eigenvalues, spectrum.vectors)
    embedded = fit.embedder.extend(METRIC.prepare(ROLL[unseen])).coordinates
    ranges = np.ptp(spectrum.vectors, axis=0)
    errors = zeta(truth, embedded, ranges=ranges, aligned=isinstance(extension, Distilled))
    squares = WEIGHTS[unseen] / WEIGHTS[unseen].mean() * errors**2
    assert certificate.held_out_z == pytest.approx(np.sqrt(squares[80:].mean()), rel=1e-6)
    assert certificate.n_held_out == 130


# -- the bound ------------------------------------------------------------------------------


def test_without_skewness_the_bound_is_the_normal_one():
    """By the quantile of the confidence itself (one side), and the deviation of n − 1."""
    squares = 10.0 + np.array([-3.0, -2.0, -1.0, -1.0, 1.0, 1.0, 2.0, 3.0])
    for confidence in (0.8, 0.95, 0.999):
        normal = NormalDist().inv_cdf(confidence)
        error = np.sqrt(((squares - 10.0) ** 2).sum() / 7 / 8)
        assert upper_bound(squares, confidence) ** 2 == pytest.approx(10.0 + normal * error, rel=1e-12)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.9875])
def test_with_skewness_halls_transformation_of_the_bound_is_the_normal_quantile(confidence):
    squares = np.random.default_rng(0).exponential(size=60) ** 1.5
    n, mean = len(squares), squares.mean()
    deviation = np.sqrt(((squares - mean) ** 2).sum() / (n - 1))
    skewness = np.mean((squares - mean) ** 3) / deviation**3
    assert skewness > 1
    t = (mean - upper_bound(squares, confidence) ** 2) * np.sqrt(n) / deviation
    a = skewness / (3 * np.sqrt(n))
    transformed = t + a * t**2 + a**2 * t**3 / 3 + skewness / (6 * np.sqrt(n))
    assert transformed == pytest.approx(-NormalDist().inv_cdf(confidence), rel=1e-9)


def test_all_certificates_together_have_the_doubt_asked_for(monkeypatch):
    asked = []
    real = tolerance.upper_bound

    def recorded(squares, confidence):
        asked.append((squares[0], confidence))
        return real(squares, confidence)

    monkeypatch.setattr(tolerance, "upper_bound", recorded)

    def attempt(count):
        """Meets the tolerance in the search, never where it would be certified."""
        return Attempt(count, np.full(40, 0.25), np.full(40, 9.0))

    with pytest.raises(ToleranceError):
        meet_tolerance(attempt, 1.0, "exact", fewest=8, most=30, confidence=0.9)
    assert {confidence for first, confidence in asked if first == 0.25} == {0.9}
    doubts = [1 - confidence for first, confidence in asked if first == 9.0]
    assert len(doubts) > 5
    np.testing.assert_allclose(doubts, 0.1 / 2.0 ** np.arange(1, len(doubts) + 1))
