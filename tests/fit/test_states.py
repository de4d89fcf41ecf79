"""States that no transition joins are kept, whatever their density; single points far from everything are not."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import ldmaps
from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.absorbing import absorb
from ldmaps.errors import (
    BandwidthWarning,
    DisconnectedWarning,
    InvalidInputError,
    LdmapsWarning,
    OutlierWarning,
)
from ldmaps.export import export_map
from ldmaps.fit.states import (
    StateSize,
    connected,
    holds_state,
    is_state,
    neighbour_squares,
    own_bandwidths,
)

FITS = {
    "exact": lambda **other: DiffusionMap(3, **other),
    "sparse": lambda **other: DiffusionMap(3, solver="sparse", **other),
    "landmarks": lambda **other: LandmarkDiffusionMap(3, n_landmarks=150, **other),
    "pst": lambda **other: LandmarkDiffusionMap(3, landmarks="pst", **other),
    "distilled": lambda **other: LandmarkDiffusionMap(3, extension="distilled", n_landmarks=40, **other),
}


def wells(n_points=1500, n_third=30, seed=0, width=0.3, away=6.0):
    """Two wells that transitions join, and a third, sparser one away from them; and which well each point is in."""
    rng = np.random.default_rng(seed)
    well = np.where(rng.random(n_points) < 0.4, 1, 0)
    well[rng.choice(n_points, n_third, replace=False)] = 2
    centres = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, away]])
    widths = np.array([0.5, 0.5, width])
    return centres[well] + widths[well][:, None] * rng.normal(size=(n_points, 2)), well


def separates(coordinate, members):
    """Say whether a coordinate has one sign at the members and the other elsewhere, or is far smaller there."""
    inside, outside = coordinate[members], coordinate[~members]
    return inside.min() > 10 * np.abs(outside).max() or inside.max() < -10 * np.abs(outside).max()


@pytest.mark.parametrize("fit", FITS)
def test_a_rare_state_is_kept_and_separated_by_the_first_coordinate(fit):
    X, well = wells()
    with warnings.catch_warnings(record=True) as told:  # a few points at the rim may be left out
        warnings.simplefilter("always")
        model = FITS[fit]().fit(X)
        plain = FITS[fit]().fit(X[well < 2])
    groups = [str(item.message) for item in told if item.category is DisconnectedWarning]
    assert len(groups) == 1
    assert re.match(r"2 groups without a transition between them: 1,4\d\d and 30 points\. ", groups[0])
    assert not np.isin(np.flatnonzero(well == 2), model.diagnosis_.left_out).any()
    assert model.eigenvalues_[0] == pytest.approx(1.0, abs=1e-5)
    assert separates(model.embedding_[:, 0], well == 2)
    taken = model.groups_ >= 0
    np.testing.assert_array_equal(model.groups_[taken] == 1, (well == 2)[taken])
    # ε of the rest, and what the rest looks like, hardly know of it.
    assert model.epsilon_ == pytest.approx(plain.epsilon_, rel=0.05)
    assert plain.groups_ is None
    rest = well < 2
    corner = np.corrcoef(model.embedding_[rest, 1], plain.embedding_[:, 0])[0, 1]
    assert abs(corner) > 0.97


@pytest.mark.parametrize("fit", ["exact", "landmarks"])
@pytest.mark.parametrize("away", [6.0, 60.0])
def test_a_state_of_twenty_frames_is_kept(fit, away):
    X, well = wells(n_third=20, seed=1, away=away)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        model = FITS[fit]().fit(X)
    assert np.bincount(model.groups_[model.groups_ >= 0]).tolist()[1:] == [20]
    assert not np.isin(np.flatnonzero(well == 2), model.diagnosis_.left_out).any()


@pytest.mark.parametrize("fit", ["exact", "landmarks"])
def test_states_of_all_densities_are_kept_at_one_epsilon(fit):
    """Three curves with 85, 12 and 3 % of the points: halves of the data have the same ε and the same groups."""
    rng = np.random.default_rng(0)
    curve = rng.choice(3, 2400, p=[0.85, 0.12, 0.03])
    place = rng.random(2400)
    X = np.column_stack([3 * place, np.sin(4 * place) + 5 * curve]) + 0.03 * rng.normal(size=(2400, 2))
    epsilons = []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        with pytest.warns(DisconnectedWarning, match="3 groups"):
            model = FITS[fit]().fit(X[half])
        np.testing.assert_array_equal(model.groups_, curve[half])
        np.testing.assert_allclose(model.eigenvalues_[:2], 1.0, atol=1e-5)
        epsilons.append(model.epsilon_)
    assert max(epsilons) < 1.2 * min(epsilons)


def test_scattered_points_are_no_state():
    """Thirty points far from everything and from each other are outliers, and named."""
    rng = np.random.default_rng(0)
    line = np.column_stack([rng.uniform(0, 10, 1500), 0.1 * rng.normal(size=1500)])
    angles = rng.uniform(0, 2 * np.pi, 30)
    far = rng.uniform(20, 60, 30)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    with pytest.warns(OutlierWarning, match=r"point 1500, point 1501"):
        model = LandmarkDiffusionMap(2, n_landmarks=150).fit(np.concatenate([line, far]))
    assert model.diagnosis_.left_out.tolist() == list(range(1500, 1530))
    assert model.groups_ is None
    assert not model.metric_.has_local_scales


@pytest.mark.parametrize("noise", ["t", "Cauchy", "log-normal"])
def test_heavy_tails_keep_epsilon_and_their_points(noise):
    rng = np.random.default_rng(0)
    draw = {
        "t": lambda: rng.standard_t(2, (1600, 3)),
        "Cauchy": lambda: rng.standard_cauchy((1600, 2)),
        "log-normal": lambda: np.exp(rng.normal(size=(1600, 3))),
    }[noise]
    X = draw()
    epsilons = []
    for half in (X[:800], X[800:]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutlierWarning)
            model = LandmarkDiffusionMap(2, n_landmarks=200).fit(half)
        assert len(model.diagnosis_.left_out) <= 40
        assert 0 not in model.diagnosis_.carriers
        epsilons.append(model.epsilon_)
    assert max(epsilons) < 1.3 * min(epsilons)


@pytest.mark.parametrize("epsilon", ["bulk", "local"])
def test_new_points_and_files_know_the_bandwidth_of_each_place(tmp_path, epsilon):
    X, well = wells()
    with pytest.warns(DisconnectedWarning):
        model = LandmarkDiffusionMap(2, epsilon, n_landmarks=150).fit(X)
    assert model.metric_.has_local_scales
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=1e-9)
    new = X + 0.02
    assert separates(model.transform(new)[:, 0], well == 2)
    assert model.coverage(new[well == 2]).inside.mean() > 0.5
    model.save(tmp_path / "map.ldmap")
    np.testing.assert_array_equal(ldmaps.load(tmp_path / "map.ldmap").transform(new), model.transform(new))
    gradient, step = model.gradient(new[:40]), 1e-5
    for axis, unit in enumerate(np.eye(2)):
        slopes = model.transform(new[:40] + step * unit) - model.transform(new[:40] - step * unit)
        np.testing.assert_allclose(gradient[:, :, axis], slopes / (2 * step), rtol=1e-3, atol=1e-5)


def test_training_points_are_embedded_as_when_they_come_again():
    """A few landmarks know less of the bandwidths than the fit did, which must not make training points better."""
    X, _ = wells()
    model = LandmarkDiffusionMap(2, "local", extension="distilled", n_landmarks=12)
    with pytest.warns(DisconnectedWarning):
        model.fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=1e-9)


def test_what_needs_one_bandwidth_says_so(tmp_path):
    X, _ = wells()
    model = LandmarkDiffusionMap(2, "local", n_landmarks=150)
    with pytest.warns(DisconnectedWarning):
        model.fit(X)
    with pytest.raises(InvalidInputError, match="bandwidth for each point"):
        absorb(model, X[:50] + 3.0)
    with pytest.raises(InvalidInputError, match="bandwidth for each point"):
        export_map(model, tmp_path, to="plumed")


@pytest.mark.parametrize("fit", FITS)
def test_the_rule_local_is_the_formula_of_local_scales(fit):
    """exp(−d²/(2σ_i σ_j)), σ being the distance to the k-th neighbour: nothing but that where all points are asked."""
    X = np.random.default_rng(0).normal(size=(400, 2))
    if fit == "exact":
        model = DiffusionMap(3, "local").fit(X)
        squared = cdist(X, X, "sqeuclidean")
        reached = np.sort(squared, axis=1)[:, 20]
        kernel = np.exp(-squared / (2 * np.sqrt(np.outer(reached, reached))))
        walk = kernel / kernel.sum(axis=1, keepdims=True)
        own = model.embedding_
        np.testing.assert_allclose(walk @ own, own * model.eigenvalues_, atol=1e-6)
        assert model.epsilon_ == pytest.approx(np.exp(np.log(reached).mean()))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LdmapsWarning)
            model = FITS[fit](epsilon="local").fit(X)
    assert model.bandwidth_.rule == "local"
    assert np.isfinite(model.transform(X)).all()


def test_the_rule_local_needs_points_in_this_process():
    dask_array = pytest.importorskip("dask.array")
    X = dask_array.from_array(np.random.default_rng(0).normal(size=(400, 2)), chunks=(100, 2))
    with pytest.raises(InvalidInputError, match='epsilon="local" needs all points in this process'):
        LandmarkDiffusionMap(2, "local", n_landmarks=50).fit(X)


def test_weights_of_copies_and_copies_give_the_same_states():
    X, well = wells(n_points=900, n_third=24)
    copies = np.concatenate([X, X])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        weighed = DiffusionMap(2).fit(X, sample_weight=np.full(900, 2.0))
        copied = DiffusionMap(2).fit(copies)
    np.testing.assert_array_equal(weighed.groups_ == 1, well == 2)
    np.testing.assert_array_equal(copied.groups_[:900] == 1, well == 2)


# -- the parts ---------------------------------------------------------------------------------


def test_a_state_is_twenty_points_or_two_in_a_thousand_but_more_than_a_handful():
    assert StateSize.of(1000, 1000.0) == (11, 10)
    assert StateSize.of(8000, 8000.0) == (16, 10)
    assert StateSize.of(8000, 4000.0) == (8, 5)
    assert StateSize.of(100_000, 100_000.0) == (20, 10)


def test_neighbours_are_counted_by_mass():
    squared = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 9.0], [4.0, 9.0, 0.0]])
    assert neighbour_squares(squared, np.ones(3), 1.0).tolist() == [1.0, 1.0, 4.0]
    assert neighbour_squares(squared, np.array([5.0, 1.0, 1.0]), 1.0).tolist() == [0.0, 1.0, 4.0]
    assert neighbour_squares(squared, np.ones(3), 100.0).tolist() == [4.0, 9.0, 9.0]


def test_hops_depend_on_the_bandwidths_of_both_ends():
    squared = cdist([[0.0], [3.0], [9.0]], [[0.0], [3.0], [9.0]], "sqeuclidean")
    assert connected(squared, np.ones(3), 2.0).tolist() == [0, 1, 2]
    assert connected(squared, np.array([6.0, 1.0, 1.0]), 2.0).tolist() == [0, 0, 1]


def test_a_state_is_close_to_itself_and_far_from_others():
    rng = np.random.default_rng(0)
    members = np.arange(130) >= 100
    for width, expected in ((1.0, True), (30.0, False)):
        X = np.concatenate([rng.normal(size=(100, 2)), width * rng.normal(size=(30, 2)) + 20.0])
        squared = cdist(X, X, "sqeuclidean")
        assert is_state(squared, np.ones(130), members, ~members, StateSize(20.0, 10.0)) is expected
        assert not is_state(squared, np.ones(130), members, ~members, StateSize(31.0, 15.5))
        to_others = squared[100:, :100].min(axis=1)
        assert holds_state(squared[100:, 100:], np.ones(30), to_others, StateSize(20.0, 10.0)) is expected


def test_the_largest_group_keeps_its_bandwidth():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)), 3.0 * rng.normal(size=(40, 2)) + 60.0, [[0.0, 500.0]]])
    found = own_bandwidths(
        cdist(X, X, "sqeuclidean"), np.ones(341), np.zeros(341), 0.3, StateSize(20.0, 10.0)
    )
    core = np.linalg.norm(X, axis=1) < 2
    assert (found[core] == 0.3).all()
    assert (found[300:340] > 0.3).all()
    assert found[340] == 0.3  # a single point stays as isolated as it was


@pytest.mark.parametrize("fit", ["exact", "landmarks"])
def test_wide_bandwidths_at_the_rims_of_two_groups_do_not_join_these(fit):
    rng = np.random.default_rng(4)
    blob = np.repeat(np.arange(4), 300)
    X = 10.0 * np.column_stack([blob % 2, blob // 2]) + rng.normal(size=(1200, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        model = FITS[fit]().fit(X)
    taken = model.groups_ >= 0
    assert taken.mean() > 0.98
    pairs = set(zip(model.groups_[taken].tolist(), blob[taken].tolist(), strict=True))
    assert len(pairs) == 4


def test_a_state_of_twenty_frames_is_kept_among_many():
    X, well = wells(n_points=12_000, n_third=20, seed=3)
    with pytest.warns(DisconnectedWarning, match="and 20 points"):
        model = LandmarkDiffusionMap(2, n_landmarks=150).fit(X)
    assert not np.isin(np.flatnonzero(well == 2), model.diagnosis_.left_out).any()


def test_no_bandwidth_is_raised():
    X, _ = wells()
    with warnings.catch_warnings():
        warnings.simplefilter("error", BandwidthWarning)
        warnings.simplefilter("ignore", DisconnectedWarning)
        LandmarkDiffusionMap(2, n_landmarks=150).fit(X)
