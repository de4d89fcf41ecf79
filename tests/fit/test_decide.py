"""What is settled before a map is solved: points that lie apart are left out, and large groups are joined."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.walk import Groups
from ldmaps.errors import (
    BandwidthWarning,
    DisconnectedError,
    DisconnectedWarning,
    LdmapsWarning,
    OutlierWarning,
    ToleranceError,
)
from ldmaps.fit import assemble as assemble_module
from ldmaps.fit import decide, ground, online
from ldmaps.fit import fit_map as fit_module
from ldmaps.fit.certify import Refused
from ldmaps.fit.data import prepare_data
from ldmaps.fit.decide import Chosen, TooManyApart, decide_walk
from ldmaps.fit.fit_map import fit_map
from ldmaps.fit.online import Online
from ldmaps.fit.recipe import choose_recipe
from ldmaps.fit.settings import Seeds
from ldmaps.inputs.opening import is_dask_array
from ldmaps.metrics import Euclidean

ROLL = swiss_roll(1200).points
#: Points apart by more than hops of √ε can reach: alone, and four together.
APART = np.concatenate([ROLL[:2] * 50, ROLL[2:3] + 300 + np.linspace(0, 1, 4)[:, None]])
SPOILT = np.concatenate([APART, ROLL])

FITS = {
    "exact": lambda **other: DiffusionMap(3, "bulk", **other),
    "sparse": lambda **other: DiffusionMap(3, "bulk", solver="sparse", **other),
    "streamed": lambda **other: DiffusionMap(3, "bulk", solver="streamed", **other),
    "kmedoids": lambda **other: LandmarkDiffusionMap(3, "bulk", n_landmarks=150, **other),
    "pst": lambda **other: LandmarkDiffusionMap(3, "bulk", landmarks="pst", **other),
    "farthest": lambda **other: LandmarkDiffusionMap(
        3, "bulk", landmarks="farthest", n_landmarks=150, **other
    ),
    "distilled": lambda **other: LandmarkDiffusionMap(
        3, "bulk", extension="distilled", n_landmarks=40, **other
    ),
}


@pytest.fixture(scope="module")
def clean():
    model = FITS["kmedoids"]().fit(ROLL)
    assert len(model.diagnosis_.left_out) == 0
    return model


@pytest.mark.parametrize("fit", FITS)
def test_points_that_lie_apart_are_left_out_and_named(fit, clean):
    with pytest.warns(
        OutlierWarning, match=r"6 of 1,206 points \(0.5 %\) are isolated .*: point 0, point 1, .* 1 more"
    ):
        model = FITS[fit]().fit(SPOILT)
    assert model.diagnosis_.left_out.tolist() == [0, 1, 2, 3, 4, 5]
    assert model.embedding_.shape == (1206, 3)
    assert not model.coverage(APART).inside.any()
    # ε hardly knows of them.
    assert model.epsilon_ == pytest.approx(clean.epsilon_, rel=0.05)


@pytest.mark.parametrize("fit", ["exact", "kmedoids"])
def test_the_map_is_that_of_the_other_points(fit):
    with pytest.warns(OutlierWarning):
        model = FITS[fit]().fit(SPOILT)
    weights = np.r_[np.zeros(6), np.ones(1200)]
    same = FITS[fit]().set_params(epsilon=model.epsilon_).fit(SPOILT, sample_weight=weights)
    assert np.allclose(model.eigenvalues_, same.eigenvalues_, rtol=0.02)


def test_a_fit_of_points_in_blocks_leaves_out_the_same():
    dask_array = pytest.importorskip("dask.array")
    X = dask_array.from_array(SPOILT, chunks=(400, 3))
    assert is_dask_array(X)
    with pytest.warns(OutlierWarning, match="6 of 1,206"):
        model = FITS["kmedoids"]().fit(X)
    with pytest.warns(OutlierWarning, match="6 of 1,206"):
        here = FITS["kmedoids"]().fit(SPOILT)
    assert model.diagnosis_.left_out.tolist() == here.diagnosis_.left_out.tolist()
    assert model.epsilon_ == here.epsilon_


@pytest.mark.parametrize("in_blocks", [False, True])
def test_points_that_no_landmark_stands_for_are_left_out(in_blocks):
    X = np.concatenate([ROLL, ROLL[:3] + np.diag([200.0, 300.0, 400.0])])
    if in_blocks:
        X = pytest.importorskip("dask.array").from_array(X, chunks=(400, 3))
    with pytest.warns(OutlierWarning, match="3 of 1,203 points"):
        model = LandmarkDiffusionMap(2, landmarks=np.arange(0, 1200, 6)).fit(X)
    assert model.diagnosis_.left_out.tolist() == [1200, 1201, 1202]
    assert model.multiplicities_.sum() == 1200


def test_a_tolerance_is_met_without_what_lies_apart():
    with pytest.warns(OutlierWarning, match="6 of 1,206"):
        model = LandmarkDiffusionMap(2, "bulk", tolerance=8).fit(SPOILT)
    assert len(model.diagnosis_.left_out) == 6
    assert model.certificate_ is not None


@pytest.mark.parametrize("fit", ["exact", "kmedoids"])
def test_groups_that_are_large_are_kept_at_the_same_epsilon(fit):
    groups = np.concatenate([ROLL[:600], ROLL[600:] + 500.0])
    with pytest.warns(
        DisconnectedWarning, match="2 groups without a transition between them: 600 and 600 points"
    ):
        model = FITS[fit]().fit(groups)
    assert len(model.diagnosis_.left_out) == 0
    assert model.epsilon_ < 2 * FITS[fit]().fit(ROLL[:600]).epsilon_
    sides = np.sign(model.embedding_[:, 0])
    assert abs(sides[:600].sum()) == 600
    assert (sides[:600] == -sides[600:]).all()


def test_a_group_of_one_in_fifty_is_no_outlier():
    apart = np.concatenate([ROLL, ROLL[:24] * 0.1 + 500.0])
    with pytest.warns(DisconnectedWarning, match="1,200 and 24 points"):
        model = FITS["exact"]().fit(apart)
    assert len(model.diagnosis_.left_out) == 0


def test_many_small_groups_raise_epsilon_where_points_have_no_bandwidth_of_their_own():
    rng = np.random.default_rng(0)
    scattered = np.concatenate([rng.random((340, 2)), 1000.0 * rng.random((60, 2))])

    def distance(a, b):
        return np.linalg.norm(a - b)

    with pytest.warns((BandwidthWarning, OutlierWarning)) as told:
        raised = FITS["exact"](metric=distance).fit(scattered)
    assert any(item.category is BandwidthWarning for item in told)
    assert len(raised.diagnosis_.left_out) <= 20
    with pytest.warns((DisconnectedWarning, OutlierWarning)) as told:
        kept = FITS["exact"]().fit(scattered)
    assert any("340 and 60 points" in str(item.message) for item in told)
    assert kept.epsilon_ < raised.epsilon_


def test_one_of_twenty_points_may_be_left_out_and_none_of_fewer():
    line = np.arange(19.0)[:, None]
    with pytest.warns(OutlierWarning, match="1 of 20 points"):
        model = DiffusionMap(2, "bulk").fit(np.concatenate([line, [[1000.0]]]))
    assert model.diagnosis_.left_out.tolist() == [19]
    with pytest.warns((BandwidthWarning, OutlierWarning)) as told:
        DiffusionMap(2, "bulk").fit(np.concatenate([line[:18], [[1000.0]]]))
    assert any(item.category is BandwidthWarning for item in told)


def ground_of(points, epsilon="bulk", **other):
    """Return data, the recipe of a default landmark map, and seeds."""
    model = LandmarkDiffusionMap(2, epsilon, **other)
    data = prepare_data(model, Euclidean(), points, None)
    return choose_recipe(model._fit_settings(), data), data, Seeds.spawn(0)


@pytest.mark.parametrize("needed", [4.5, 5.3, 9.0, 31.0])
def test_a_raised_epsilon_is_hardly_larger_than_the_smallest_that_does(monkeypatch, needed):
    tried = []

    def settle(ground, bandwidth, seeds):
        tried.append(bandwidth.epsilon)
        if bandwidth.epsilon < needed:
            return TooManyApart(bandwidth.epsilon)
        return Chosen(ground.data, bandwidth, ground.walk(bandwidth.epsilon), "stored")

    monkeypatch.setattr(decide, "settle", settle)
    recipe, data, seeds = ground_of(ROLL)
    chosen = decide_walk(recipe, data, Bandwidth(4.0, "bulk"), None, seeds)
    assert needed <= chosen.bandwidth.epsilon <= 1.1 * needed
    assert chosen.bandwidth.epsilon == min(epsilon for epsilon in tried if epsilon >= needed)
    assert chosen.rule_epsilon == 4.0
    assert len(tried) < 14


def test_large_groups_are_joined_at_once(monkeypatch):
    """The ε that joins groups is known from their tree, so it is not felt for."""
    tried = []

    def settle(ground, bandwidth, seeds):
        tried.append(bandwidth.epsilon)
        if bandwidth.epsilon < 100.0:
            return Groups((600, 600), bandwidth.epsilon, 5.0, 900.0, 36.0)
        return Chosen(ground.data, bandwidth, ground.walk(bandwidth.epsilon), "stored")

    monkeypatch.setattr(decide, "settle", settle)
    recipe, data, seeds = ground_of(ROLL)
    chosen = decide_walk(recipe, data, Bandwidth(4.0, "bulk"), None, seeds)
    assert chosen.bandwidth.epsilon == 100.0
    assert tried == [4.0, 4.0, 100.0]  # the second time with states kept


# -- one fit ----------------------------------------------------------------------------------


def counted(monkeypatch, module, name):
    """Count the calls of a function where a module calls it."""
    calls, real = [], getattr(module, name)

    def counting(*arguments, **settings):
        calls.append(name)
        return real(*arguments, **settings)

    monkeypatch.setattr(module, name, counting)
    return calls


@pytest.mark.parametrize("noise", ["t(1.5)", "Cauchy"])
@pytest.mark.parametrize("seed", range(2))
def test_heavy_tails_are_fitted_once(monkeypatch, noise, seed):
    """What lies apart is found by examining walks: coordinates are chosen and points embedded once."""
    rng = np.random.default_rng(seed)
    points = rng.standard_t(1.5, (800, 3)) if noise == "t(1.5)" else rng.standard_cauchy((800, 2))
    calls = {
        name: counted(monkeypatch, module, name)
        for module, name in (
            (fit_module, "online_step"),
            (fit_module, "assemble"),
            (fit_module, "judge_walk"),
            (assemble_module, "sample_reference"),
        )
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        model = LandmarkDiffusionMap().fit(points)
    assert {name: len(made) for name, made in calls.items()} == dict.fromkeys(calls, 1)
    assert len(model.diagnosis_.left_out) <= 0.05 * len(points)


@pytest.mark.parametrize("model", [LandmarkDiffusionMap(2, n_landmarks=200), DiffusionMap(2)], ids=repr)
def test_no_handful_of_points_carries_the_first_coordinate(model):
    """Points that hops reach, but hardly: of heavy tails there are always some."""
    points = np.random.default_rng(0).standard_t(2.5, (800, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        model.fit(points)
    assert 0 not in model.diagnosis_.carriers


def test_walks_whose_calibration_is_worth_little_are_fitted_once(monkeypatch):
    """Consecutive points are worth few independent ones, which is known before anything is solved."""
    walk = np.cumsum(np.random.default_rng(2).normal(size=(600, 3)), axis=0)
    calls = counted(monkeypatch, fit_module, "solve_walk")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        models = [LandmarkDiffusionMap(random_state=seed).fit(walk) for seed in range(4)]
    assert len(calls) == len(models)
    assert any(model.embedder_.calibration is None for model in models)


def test_points_that_carry_a_coordinate_at_any_epsilon_end_the_search():
    """Outliers each ten times as far as the one before: no ε makes a map that none of them carries."""
    line = np.random.default_rng(0).normal(size=(400, 1))
    far = 10.0 ** np.arange(1, 40)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        model = LandmarkDiffusionMap(1, "bulk").fit(np.concatenate([line, far]))
    assert np.isfinite(model.embedding_).all()


def test_a_refit_is_a_fit():
    """Of the same data, by the same rule: points are left out alike, and the constructor's argument stays."""
    with pytest.warns(OutlierWarning):
        fitted = DiffusionMap(3, "bulk").fit(SPOILT)
    with pytest.warns(OutlierWarning, match="is supported by only"):
        kept = DiffusionMap(3, 3e4, keep_distances=True).fit(SPOILT)
    with pytest.warns(OutlierWarning, match="6 of 1,206"):
        kept.refit("bulk")
    assert kept.epsilon == 3e4
    assert kept.epsilon_ == pytest.approx(fitted.epsilon_, rel=1e-12)
    np.testing.assert_array_equal(kept.diagnosis_.left_out, fitted.diagnosis_.left_out)
    np.testing.assert_allclose(kept.eigenvalues_, fitted.eigenvalues_, rtol=1e-10)


@pytest.mark.parametrize("fit", ["exact", "sparse", "streamed", "kmedoids", "pst"])
def test_the_epsilon_that_an_error_names_is_the_smallest_that_is_accepted(fit):
    def fitted(epsilon):
        return FITS[fit]().set_params(epsilon=epsilon).fit(ROLL)

    with pytest.raises(DisconnectedError) as error:
        fitted(0.05)
    named = error.value.accepted_epsilon
    assert f"the smallest that is accepted is {named:.9g};" in str(error.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        fitted(float(f"{named:.9g}") * (1 + 1e-8))
        with pytest.raises(DisconnectedError):
            fitted(0.99 * named)


def test_the_rule_that_failed_is_not_the_remedy():
    """Ten landmarks lie too far apart for the ε that connects all points."""
    with pytest.raises(DisconnectedError, match="use more landmarks") as error:
        LandmarkDiffusionMap(2, "connected", n_landmarks=10, calibration=0).fit(
            np.linspace(0, 1, 2000)[:, None]
        )
    assert 'epsilon="connected"' not in str(error.value)


# -- a tolerance that few points miss --------------------------------------------------------


def fitted_by_turns(monkeypatch, outcomes, wide):
    """Return what a fit ends with whose online steps have these outcomes, and at which ε each was asked for."""
    asked, turns = [], iter(outcomes)

    def within_tolerance(recipe, chosen, left_out, kept, n_tried, seeds):
        asked.append((chosen.bandwidth.epsilon, n_tried))
        outcome = next(turns)
        return replace(outcome, epsilon=chosen.rule_epsilon) if isinstance(outcome, Refused) else outcome

    def find_bandwidth(rule, *_):
        return Bandwidth({"bulk": 40.0, "connected": wide}[rule], rule)

    monkeypatch.setattr(online, "_within_tolerance", within_tolerance)
    monkeypatch.setattr(fit_module, "assemble", lambda recipe, everything, whole, chosen, *_: chosen)
    for module in (decide, ground):
        monkeypatch.setattr(module, "find_bandwidth", find_bandwidth)
    model = LandmarkDiffusionMap(2, "bulk", tolerance=1.0)
    data = prepare_data(model, Euclidean(), ROLL, None)
    return fit_map(data, model._fit_settings()), asked


def refusal(bound, n_tried=3):
    return Refused(1.0, bound, 8, 40, n_tried=n_tried)


def test_a_tolerance_that_is_missed_is_tried_at_the_connecting_epsilon(monkeypatch):
    with pytest.warns(
        BandwidthWarning, match=r"epsilon = 40\) 1,200 points .* tolerance of 1 percent; using epsilon = 90"
    ):
        chosen, asked = fitted_by_turns(monkeypatch, [refusal(2.0), Online(None)], wide=90.0)
    assert chosen.bandwidth.epsilon == 90.0
    # The certificates tried at the first ε count.
    assert asked == [(40.0, 0), (90.0, 3)]


@pytest.mark.parametrize(("bounds", "lowest"), [((2.0, 1.5), 1.5), ((2.0, 3.0), 2.0)])
def test_what_neither_epsilon_certifies_is_an_error_with_the_lower_bound(monkeypatch, bounds, lowest):
    with pytest.raises(ToleranceError) as error:
        fitted_by_turns(monkeypatch, [refusal(bound) for bound in bounds], wide=90.0)
    assert error.value.best_bound == lowest


def test_a_connecting_epsilon_that_is_smaller_is_not_tried(monkeypatch):
    with pytest.raises(ToleranceError):
        fitted_by_turns(monkeypatch, [refusal(2.0), Online(None)], wide=30.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_few_frames_of_a_molecule_are_certified(seed):
    """At the ε of "bulk", or at the smallest that joins all frames which take part."""
    molecule = alanine_dipeptide(stride=12)
    frames = molecule.frames[:2000, np.array(molecule.elements) != "H"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = LandmarkDiffusionMap(metric="rmsd", tolerance=1.0, random_state=seed).fit(frames)
    assert model.certificate_.upper_bound <= 1.0
    if model.bandwidth_.rule == "connected":
        assert any("too few to certify" in str(item.message) for item in told)
        joining = DiffusionMap(2, "connected", metric="rmsd").fit(
            np.delete(frames, model.diagnosis_.left_out, 0)
        )
        assert model.epsilon_ == pytest.approx(joining.epsilon_, rel=1e-5)
