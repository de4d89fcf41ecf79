"""Fits by the rule "bulk": what lies apart is left out and said, and large groups are joined."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.cluster import is_dask_array
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.errors import BandwidthWarning, DisconnectedError, OutlierWarning, ToleranceError
from ldmaps.maps.bulk_fit import fit_bulk
from ldmaps.maps.training import prepare_training
from ldmaps.metrics import resolve_metric

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


@pytest.mark.parametrize("fit", FITS)
def test_points_that_lie_apart_are_left_out_and_named(fit):
    with pytest.warns(
        OutlierWarning, match=r"6 of 1,206 points \(0.5 %\) lie apart .*: point 0, point 1, .* 1 more"
    ):
        model = FITS[fit]().fit(SPOILT)
    assert model.diagnosis_.left_out.tolist() == [0, 1, 2, 3, 4, 5]
    assert model.embedding_.shape == (1206, 3)
    assert not model.coverage(APART).inside.any()
    # ε hardly knows of them.
    clean = FITS[fit]().fit(ROLL)
    assert len(clean.diagnosis_.left_out) == 0
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
def test_groups_that_are_large_raise_epsilon(fit):
    groups = np.concatenate([ROLL[:600], ROLL[600:] + 500.0])
    with pytest.warns(BandwidthWarning, match="the data fall into groups that no hop joins"):
        model = FITS[fit]().fit(groups)
    assert len(model.diagnosis_.left_out) == 0
    sides = np.sign(model.embedding_[:, 0])
    assert abs(sides[:600].sum()) == 600
    assert (sides[:600] == -sides[600:]).all()


def test_a_group_of_one_in_fifty_is_no_outlier():
    apart = np.concatenate([ROLL, ROLL[:24] * 0.1 + 500.0])
    with pytest.warns(BandwidthWarning, match="the data fall into groups that no hop joins"):
        model = FITS["exact"]().fit(apart)
    assert len(model.diagnosis_.left_out) == 0


def test_many_small_groups_raise_epsilon():
    rng = np.random.default_rng(0)
    scattered = np.concatenate([rng.random((340, 2)), 1000.0 * rng.random((60, 2))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutlierWarning)
        with pytest.warns(BandwidthWarning):
            model = FITS["exact"]().fit(scattered)
    assert len(model.diagnosis_.left_out) <= 20


def test_one_of_twenty_points_may_be_left_out_and_none_of_fewer():
    line = np.arange(19.0)[:, None]
    with pytest.warns(OutlierWarning, match="1 of 20 points"):
        model = DiffusionMap(2, "bulk").fit(np.concatenate([line, [[1000.0]]]))
    assert model.diagnosis_.left_out.tolist() == [19]
    with pytest.warns((BandwidthWarning, OutlierWarning)) as told:
        DiffusionMap(2, "bulk").fit(np.concatenate([line[:18], [[1000.0]]]))
    assert any(item.category is BandwidthWarning for item in told)


@pytest.mark.parametrize("needed", [4.5, 5.3, 9.0, 31.0])
def test_a_raised_epsilon_is_hardly_larger_than_the_smallest_that_does(needed):
    tried = []

    def fit(part):
        tried.append(part.bandwidth.epsilon if part.bandwidth else 4.0)
        if tried[-1] < needed:
            error = DisconnectedError([1100, 100], tried[-1], 1000.0)
            error.outside = np.arange(100)  # small groups, but more than may be left out
            raise error
        return tried[-1]

    training = prepare_training(DiffusionMap(), resolve_metric("euclidean"), ROLL, None)
    with pytest.warns(BandwidthWarning):
        taken = fit_bulk(fit, lambda rule, _: Bandwidth(4.0, rule), training)
    assert needed <= taken <= 1.1 * needed
    assert taken == min(epsilon for epsilon in tried if epsilon >= needed)
    assert len(tried) < 14


# -- a tolerance that few points miss --------------------------------------------------------


def fitted_by_turns(outcomes, wide):
    """Return what a fit that raises or returns these one after the other ends with, and what it was given."""
    given, turns = [], iter(outcomes)

    def fit(part):
        given.append((part.bandwidth and part.bandwidth.epsilon, part.n_tried))
        outcome = next(turns)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    training = prepare_training(DiffusionMap(), resolve_metric("euclidean"), ROLL, None)
    epsilons = {"bulk": 4.0, "connected": wide}
    return fit_bulk(fit, lambda rule, _: Bandwidth(epsilons[rule], rule), training), given


def refusal(bound, n_tried=3):
    return ToleranceError(1.0, bound, 8, 40, n_tried=n_tried)


def test_a_tolerance_that_is_missed_is_tried_at_the_connecting_epsilon():
    with pytest.warns(
        BandwidthWarning, match=r"epsilon = 4, .* 1,200 points .* tolerance of 1 percent; 9 is taken"
    ):
        made, given = fitted_by_turns([refusal(2.0), "map"], wide=9.0)
    assert made == "map"
    # The certificates tried at the first ε count.
    assert given == [(None, 0), (9.0, 3)]


@pytest.mark.parametrize(("bounds", "lowest"), [((2.0, 1.5), 1.5), ((2.0, 3.0), 2.0)])
def test_what_neither_epsilon_certifies_is_an_error_with_the_lower_bound(bounds, lowest):
    with pytest.raises(ToleranceError) as error:
        fitted_by_turns([refusal(bound) for bound in bounds], wide=9.0)
    assert error.value.best_bound == lowest


def test_a_connecting_epsilon_that_is_smaller_is_not_tried():
    with pytest.raises(ToleranceError):
        fitted_by_turns([refusal(2.0), "map"], wide=3.0)


@pytest.mark.slow
def test_few_frames_of_a_molecule_are_certified():
    molecule = alanine_dipeptide(stride=12)
    frames = molecule.frames[:, np.array(molecule.elements) != "H"]
    with pytest.warns(BandwidthWarning, match="too few to certify"):
        model = LandmarkDiffusionMap(metric="rmsd", tolerance=1.0, random_state=1).fit(frames[:2000])
    joining = DiffusionMap(2, "connected", metric="rmsd").fit(
        np.delete(frames[:2000], model.diagnosis_.left_out, 0)
    )
    assert model.epsilon_ == pytest.approx(joining.epsilon_, rel=1e-5)
    assert model.certificate_.upper_bound <= 1.0
