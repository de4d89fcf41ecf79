"""Points at given coordinates: they embed there, are the conditional mean, and maps that cannot have them say so."""

from __future__ import annotations

import numpy as np
import pytest

import ldmaps
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.maps.inverse import Inverse, _local_fit
from ldmaps.metrics import Features, Periodic


def errors_of(model, points, coordinates):
    """Return how far points are from their coordinates, in percent of the range, the largest of each."""
    there = model.transform(points)
    return 100 * np.abs((there - coordinates) / np.ptp(model.landmark_embedding_, axis=0)).max(axis=1)


@pytest.mark.filterwarnings("ignore:.*of coordinates no point was found:ldmaps.errors.AccuracyWarning")
@pytest.mark.parametrize("metric", ["euclidean", "standardized"])
@pytest.mark.parametrize("k", [2, 4])
def test_points_come_back_within_one_percent(metric, k):
    roll = swiss_roll(4000).points
    epsilon = 4.0 if metric == "euclidean" else 0.1
    model = ldmaps.LandmarkDiffusionMap(k, epsilon, metric=metric, n_landmarks=200).fit(roll[:3000])
    new = roll[3000:][model.coverage(roll[3000:]).inside]
    wanted = model.transform(new)
    found = model.inverse_transform(wanted)
    assert np.isfinite(found).all(axis=1).mean() > 0.98
    kept = np.isfinite(found[:, 0])
    assert np.quantile(errors_of(model, found[kept], wanted[kept]), 0.95) < 1.0
    if k == 4:  # psi2 to psi5 determine where on the roll a point is
        assert np.sqrt(((found - new)[kept] ** 2).mean()) < 0.05 * np.ptp(new)


def test_mean_and_spread_are_those_of_the_data():
    """On a strip with noise across, of a width that changes along it, y says where along, and nothing of across."""
    rng = np.random.default_rng(0)
    along = rng.uniform(0, 12, 4000)
    width = 0.1 + 0.03 * along
    points = np.column_stack([along, width * rng.normal(size=4000), 3.0 + 0.5 * along])
    model = ldmaps.LandmarkDiffusionMap(1, 0.3, n_landmarks=300).fit(points)
    ends = np.abs(along - 6) < 4
    wanted = model.transform(points[ends])
    found, spread = model.inverse_transform(wanted, X=points, return_spread=True)
    assert np.abs(found[:, 1]).mean() < 0.15  # across: the mean, not the point's own
    np.testing.assert_allclose(found[:, 2], 3.0 + 0.5 * found[:, 0], atol=0.1)
    assert np.abs(found[:, 0] - along[ends]).mean() < 0.2
    ratio = spread[:, 1] / width[ends]
    assert 0.8 < np.median(ratio) < 1.2
    # By landmarks alone, of which there are fewer.
    few = model.inverse_transform(wanted, return_spread=True)[1][:, 1] / width[ends]
    assert 0.5 < np.median(few) < 2.0


def test_points_count_as_often_as_they_stand_for():
    along = np.repeat(np.linspace(0, 1, 50), 2)
    across, counts = np.tile([0.0, 1.0], 50), np.tile([9.0, 1.0], 50)

    def forward(points):
        return points[:, :1], np.tile([[[1.0, 0.0]]], (len(points), 1, 1))

    inverse = Inverse(np.column_stack([along, across]), along[:, None], counts, forward, np.full(2, np.inf))
    found = inverse.find(np.array([[0.3], [0.505]]))
    np.testing.assert_allclose(found.points, [[0.3, 0.1], [0.505, 0.1]], atol=0.01)


def test_the_spread_of_few_points_is_as_wide_as_that_of_many():
    """What a fit to few points takes out of their variance is put back."""
    rng = np.random.default_rng(0)
    places = (
        3.0 * rng.normal(size=(4000, 12, 1)) + 2.0
    )  # of one feature, at 12 points near each of many coordinates
    offsets, weights = rng.uniform(-1, 1, size=(4000, 12, 1)), rng.uniform(0.2, 1, size=(4000, 12))
    weights /= weights.sum(axis=1, keepdims=True)
    mean, spread = _local_fit(offsets, weights, places + 5.0 * offsets)
    assert np.sqrt((spread**2).mean()) == pytest.approx(3.0, rel=0.02)
    assert mean.mean() == pytest.approx(2.0, abs=0.05)


def test_a_circle_is_gone_round_the_shorter_way():
    angle = np.random.default_rng(0).uniform(-np.pi, np.pi, 2000)
    model = ldmaps.LandmarkDiffusionMap(2, 0.05, metric=Periodic(), n_landmarks=80).fit(angle[:, None])
    wanted = model.transform(angle[:200, None])
    found = model.inverse_transform(wanted)[:, 0]
    apart = np.abs((found - angle[:200] + np.pi) % (2 * np.pi) - np.pi)
    assert apart.max() < 0.05
    assert np.abs(found).max() <= np.pi + 1e-9


@pytest.mark.filterwarnings("ignore:.*of coordinates no point was found:ldmaps.errors.AccuracyWarning")
def test_internal_coordinates_come_back_as_values():
    molecule = alanine_dipeptide(stride=10)
    metric = Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]], distances=[[0, 18]])
    model = ldmaps.LandmarkDiffusionMap(4, "connected", metric, n_landmarks=300).fit(molecule.frames)
    wanted = model.transform(molecule.frames[::20])
    found = model.inverse_transform(wanted)
    values = metric.values(molecule.frames[::20])
    kept = np.isfinite(found[:, 0])
    assert kept.mean() > 0.9
    apart = found - values
    apart[:, :2] -= 2 * np.pi * np.rint(apart[:, :2] / (2 * np.pi))
    assert np.median(np.abs(apart[kept]), axis=0).max() < 0.3


def test_functions_have_an_inverse_and_files_the_same(tmp_path):
    roll = swiss_roll(3000).points
    model = ldmaps.LandmarkDiffusionMap(2, 4.0, n_landmarks=200).fit(roll)
    height = model.function(roll, roll[:, 1], name="height")
    wanted = np.linspace(4, 18, 12)[:, None]
    found, spread = height.inverse_transform(wanted, return_spread=True)
    np.testing.assert_allclose(height.transform(found), wanted, atol=0.01 * np.ptp(roll[:, 1]))
    assert (spread[:, [0, 2]] > spread[:, [1]]).all()  # it says how high, and not where along the roll
    height.save(tmp_path / "height.ldm")
    again = ldmaps.load(tmp_path / "height.ldm").inverse_transform(wanted)
    np.testing.assert_allclose(again, found, rtol=1e-6, atol=1e-6)


def test_coordinates_that_no_point_has_are_nan():
    roll = swiss_roll(3000).points
    model = ldmaps.LandmarkDiffusionMap(2, 4.0, n_landmarks=200).fit(roll)
    wanted = np.array([model.landmark_embedding_[0], 10 * model.landmark_embedding_.max(axis=0)])
    with pytest.warns(AccuracyWarning, match="for 1 of 2 rows of coordinates no point was found"):
        found = model.inverse_transform(wanted)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()


@pytest.mark.filterwarnings("ignore:.*of coordinates no point was found:ldmaps.errors.AccuracyWarning")
def test_maps_without_an_inverse_say_so():
    molecule = alanine_dipeptide(stride=100)
    frames = ldmaps.LandmarkDiffusionMap(2, "connected", "rmsd", n_landmarks=60).fit(molecule.frames)
    with pytest.raises(
        InvalidInputError, match=r"mean of superposed structures .* frames MAP TRAJ --along psi2"
    ):
        frames.inverse_transform(frames.embedding_[:3])
    rng = np.random.default_rng(0)
    model = ldmaps.LandmarkDiffusionMap(2, 4.0, n_landmarks=10).fit(rng.normal(size=(500, 3)))
    with pytest.raises(InvalidInputError, match="10 landmarks are too few"):
        model.inverse_transform(model.embedding_[:3])
    with pytest.raises(InvalidInputError, match=r"Y must have 2 finite coordinates per row \(psi2, psi3\)"):
        model.inverse_transform(model.embedding_[:, :1])
    bits = ldmaps.LandmarkDiffusionMap(2, 3.0, metric="hamming", n_landmarks=40)
    with pytest.raises(InvalidInputError, match="no mean that could be moved"):
        bits.fit(rng.integers(0, 2, size=(300, 20)).astype(float)).inverse_transform([[0.0, 0.0]])


def test_a_map_that_cannot_be_inverted_is_refused_with_the_number():
    places = np.random.default_rng(0).normal(size=(60, 2))
    flat = Inverse(
        places,
        places[:, :1],
        np.ones(60),
        lambda points: (np.zeros((len(points), 1)), np.zeros((len(points), 1, 2))),
        np.full(2, np.inf),
    )
    with pytest.raises(
        InvalidInputError, match=r"95 % of them come back within \d+ % of the coordinates' range"
    ):
        flat.check("landmarks")
