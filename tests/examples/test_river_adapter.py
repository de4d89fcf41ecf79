"""The map in River's pipelines: one record at a time, learning on in bounded memory."""

import warnings

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import AccuracyWarning, InvalidInputError

#: Small made-up data, on which the diagnosis of a fit is right and beside the point.
pytestmark = pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning")

pytest.importorskip("river", reason="river is not installed (pip install river)")

EXAMPLE = "river_adapter"
NAMES = ["x", "y", "z"]


def records(points):
    return [dict(zip(NAMES, row, strict=True)) for row in points.tolist()]


@pytest.fixture(scope="module")
def roll():
    return swiss_roll(1500)


@pytest.fixture(scope="module")
def fitted(roll):
    return LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=100).fit(roll.points[roll.position < 13])


def test_it_runs_and_what_is_new_is_learned(example, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        outcome = example.main([])
    assert outcome.cycle < 0.02
    assert outcome.first_of_branch > 0.8
    assert outcome.last_of_branch < 0.5
    assert outcome.online.n_absorbed_ >= 1
    assert "2000 records of a cycle, then 200 of a branch" in capsys.readouterr().out


def test_transform_one_equals_transform(example, fitted, roll):
    online = example.RiverDiffusionMap(fitted, features=NAMES)
    expected, coverage = fitted.transform(roll.points[:50]), fitted.coverage(roll.points[:50])
    for place, record in enumerate(records(roll.points[:50])):
        out = online.transform_one(record)
        assert list(out) == ["psi2", "psi3", "distance"]
        np.testing.assert_allclose([out["psi2"], out["psi3"]], expected[place], rtol=1e-12)
        assert out["distance"] == pytest.approx(float(coverage.distance[place]))


def test_learn_one_changes_nothing_inside_the_domain(example, fitted, roll):
    online = example.RiverDiffusionMap(fitted, features=NAMES, absorb_every=1)
    inside = roll.points[fitted.coverage(roll.points).inside][:100]
    assert [online.learn_one(record) for record in records(inside)] == [None] * 100
    assert online.map_ is fitted
    assert online.n_absorbed_ == 0


def test_it_learns_what_it_did_not_cover_and_leaves_the_model_alone(example, fitted, roll):
    online = example.RiverDiffusionMap(fitted, features=NAMES, absorb_every=15)
    before = fitted.transform(roll.points)
    outside = roll.points[~fitted.coverage(roll.points).inside]
    assert len(outside) > 80
    for record in records(roll.points):
        online.learn_one(record)
    assert online.n_absorbed_ >= 1
    assert online.map_.coverage(outside).inside.mean() > 0.9
    np.testing.assert_array_equal(fitted.transform(roll.points), before)
    # All records but those still waiting are in the map's mass or in the reservoir.
    waiting = online._reservoir.seen + online._reservoir.counts.sum()
    total = fitted.multiplicities_.sum() + len(roll)
    assert online.map_.multiplicities_.sum() + waiting == pytest.approx(total)


def test_memory_is_bounded(example, fitted):
    rng = np.random.default_rng(0)
    online = example.RiverDiffusionMap(
        fitted, features=NAMES, absorb_every=20, max_landmarks=110, capacity=30
    )
    edge = np.array([0.0, 10.0, 15.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        for step in range(600):
            point = edge + np.array([0, 0, 0.1 * step]) + rng.normal(0, 0.5, 3)
            online.learn_one(records(point[None])[0])
            assert len(online.map_.multiplicities_) <= 110
            assert len(online._reservoir) <= 30
    assert len(online.map_.multiplicities_) == 110


def test_records_out_of_reach_wait_in_the_reservoir(example, fitted):
    online = example.RiverDiffusionMap(fitted, features=NAMES, absorb_every=5)
    for step in range(12):
        online.learn_one({"x": 500.0 + step, "y": 0.0, "z": 0.0})
    assert online.n_absorbed_ == 0
    assert len(online._reservoir) == 12


def test_it_starts_from_nothing(example, roll):
    model = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=80)
    online = example.RiverDiffusionMap(model, warm_up=700)
    assert online.transform_one({"x": 1.0, "y": 2.0, "z": 3.0}) == {"psi2": 0.0, "psi3": 0.0, "distance": 0.0}
    for record in records(roll.points[:700]):
        online.learn_one(record)
    assert not hasattr(model, "embedder_")
    expected = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=80).fit(roll.points[:700])
    out = online.transform_one(records(roll.points)[0])
    np.testing.assert_allclose([out["psi2"], out["psi3"]], expected.transform(roll.points[:1])[0], rtol=1e-12)


def test_river_can_clone_it(example, fitted):
    online = example.RiverDiffusionMap(fitted, features=NAMES, absorb_every=7)
    online.learn_one({"x": 500.0, "y": 0.0, "z": 0.0})
    copy = online.clone()
    assert copy.absorb_every == 7
    assert len(copy._reservoir) == 0
    assert copy.transform_one({"x": 5, "y": 1, "z": 1}) == online.transform_one({"x": 5, "y": 1, "z": 1})


def test_names_come_from_the_model_if_it_has_them(example, roll):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.DataFrame(roll.points, columns=NAMES)
    model = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=60).fit(table)
    online = example.RiverDiffusionMap(model)
    shuffled = {"z": roll.points[0, 2], "more": 1.0, "x": roll.points[0, 0], "y": roll.points[0, 1]}
    out = online.transform_one(shuffled)
    np.testing.assert_allclose([out["psi2"], out["psi3"]], model.transform(table[:1])[0], rtol=1e-12)


def test_a_record_without_a_value_is_refused(example, fitted):
    online = example.RiverDiffusionMap(fitted, features=NAMES)
    with pytest.raises(InvalidInputError, match="the record has no 'z'; the map needs x, y, z, got x, y"):
        online.transform_one({"x": 1.0, "y": 1.0})
