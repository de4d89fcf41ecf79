"""The map in River's pipelines: one record at a time, learning on in bounded memory."""

import importlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.streaming.river_adapter import RiverDiffusionMap

NAMES = ["x", "y", "z"]


def records(points):
    return [dict(zip(NAMES, row, strict=True)) for row in points.tolist()]


@pytest.fixture(scope="module")
def roll():
    return swiss_roll(1500)


@pytest.fixture(scope="module")
def fitted(roll):
    return LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=100).fit(roll.points[roll.position < 13])


def test_transform_one_equals_transform(fitted, roll):
    online = RiverDiffusionMap(fitted, features=NAMES)
    expected, coverage = fitted.transform(roll.points[:50]), fitted.coverage(roll.points[:50])
    for place, record in enumerate(records(roll.points[:50])):
        out = online.transform_one(record)
        assert list(out) == ["psi2", "psi3", "distance"]
        np.testing.assert_allclose([out["psi2"], out["psi3"]], expected[place], rtol=1e-12)
        assert out["distance"] == pytest.approx(float(coverage.distance[place]))
    assert "distance" not in RiverDiffusionMap(fitted, features=NAMES, with_distance=False).transform_one(
        record
    )


def test_learn_one_returns_none_and_changes_nothing_inside_the_domain(fitted, roll):
    online = RiverDiffusionMap(fitted, features=NAMES, absorb_every=1)
    inside = roll.points[fitted.coverage(roll.points).inside][:100]
    assert [online.learn_one(record) for record in records(inside)] == [None] * 100
    assert online.map_ is fitted
    assert online.n_absorbed_ == 0


def test_it_learns_what_it_did_not_cover_and_leaves_the_model_alone(fitted, roll):
    online = RiverDiffusionMap(fitted, features=NAMES, absorb_every=15)
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


def test_memory_is_bounded(fitted):
    rng = np.random.default_rng(0)
    online = RiverDiffusionMap(fitted, features=NAMES, absorb_every=20, max_landmarks=110, capacity=30)
    edge = np.array([0.0, 10.0, 15.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        for step in range(600):
            point = edge + np.array([0, 0, 0.1 * step]) + rng.normal(0, 0.5, 3)
            online.learn_one(records(point[None])[0])
            assert online.map_.embedder_.n_landmarks <= 110
            assert len(online._reservoir) <= 30
    assert online.map_.embedder_.n_landmarks == 110


def test_records_out_of_reach_wait_in_the_reservoir(fitted):
    online = RiverDiffusionMap(fitted, features=NAMES, absorb_every=5)
    for step in range(12):
        online.learn_one({"x": 500.0 + step, "y": 0.0, "z": 0.0})
    assert online.n_absorbed_ == 0
    assert len(online._reservoir) == 12


def test_it_starts_from_nothing(roll):
    model = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=80)
    online = RiverDiffusionMap(model, warm_up=700)
    assert online.transform_one({"x": 1.0, "y": 2.0, "z": 3.0}) == {"psi2": 0.0, "psi3": 0.0, "distance": 0.0}
    for record in records(roll.points[:700]):
        online.learn_one(record)
    assert not hasattr(model, "embedder_")
    expected = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=80).fit(roll.points[:700])
    out = online.transform_one(records(roll.points)[0])
    np.testing.assert_allclose([out["psi2"], out["psi3"]], expected.transform(roll.points[:1])[0], rtol=1e-12)


def test_in_a_river_pipeline_a_new_regime_scores_high_until_it_is_learned(roll):
    pytest.importorskip("river", reason="river is not installed (pip install river)")
    from river import anomaly, compose, preprocessing

    angle = np.random.default_rng(0).random(2000) * 2 * np.pi
    noise = np.random.default_rng(1).normal(0, 0.03, (2000, 3))
    cycle = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)]) + noise
    pipeline = (
        preprocessing.StandardScaler()
        | RiverDiffusionMap(
            LandmarkDiffusionMap(2, epsilon=0.1, n_landmarks=60), warm_up=400, absorb_every=30
        )
        | compose.Select("distance")
        | preprocessing.MinMaxScaler()
        | anomaly.HalfSpaceTrees(n_trees=10, height=5, window_size=100, seed=0)
    )
    scores = []
    for record in records(cycle):
        scores.append(pipeline.score_one(record))
        pipeline.learn_one(record)
    mapped = pipeline["RiverDiffusionMap"]
    assert mapped.map_ is not None
    assert np.isfinite(scores).all()
    # The cycle gets a branch: outside at first, part of the map after enough of it.
    branch = cycle[:200] * [1.6, 1.6, 1.0]

    def distances():
        scaler = pipeline["StandardScaler"]
        return [mapped.transform_one(scaler.transform_one(record))["distance"] for record in records(branch)]

    before = np.mean(np.array(distances()) > 1)
    assert before > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        for record in records(branch):
            pipeline.learn_one(record)
    assert mapped.n_absorbed_ >= 1
    assert np.mean(np.array(distances()) > 1) < 0.5 * before


def test_river_can_clone_it(fitted):
    pytest.importorskip("river", reason="river is not installed (pip install river)")
    online = RiverDiffusionMap(fitted, features=NAMES, absorb_every=7)
    online.learn_one({"x": 500.0, "y": 0.0, "z": 0.0})
    copy = online.clone()
    assert copy.absorb_every == 7
    assert len(copy._reservoir) == 0
    assert copy.transform_one({"x": 5, "y": 1, "z": 1}) == online.transform_one({"x": 5, "y": 1, "z": 1})


def test_it_works_without_river():
    """The two methods need nothing of River; only pipelines do."""
    code = (
        "import sys; sys.modules['river'] = None\n"
        "from ldmaps import LandmarkDiffusionMap\n"
        "from ldmaps.datasets import swiss_roll\n"
        "from ldmaps.streaming.river_adapter import RiverDiffusionMap\n"
        "model = LandmarkDiffusionMap(1, epsilon=9.0, n_landmarks=40).fit(swiss_roll(400).points)\n"
        "online = RiverDiffusionMap(model, features=['x', 'y', 'z'])\n"
        "record = {'x': 5.0, 'y': 1.0, 'z': 1.0}\n"
        "online.learn_one(record); print(sorted(online.transform_one(record)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "['distance', 'psi2']", done.stderr


def test_importing_the_package_does_not_import_river():
    importlib.import_module("ldmaps")
    code = "import sys, ldmaps, ldmaps.streaming; sys.exit('river' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_names_come_from_the_model_if_it_has_them(roll):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.DataFrame(roll.points, columns=NAMES)
    model = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=60).fit(table)
    online = RiverDiffusionMap(model)
    shuffled = {"z": roll.points[0, 2], "more": 1.0, "x": roll.points[0, 0], "y": roll.points[0, 1]}
    out = online.transform_one(shuffled)
    np.testing.assert_allclose([out["psi2"], out["psi3"]], model.transform(table[:1])[0], rtol=1e-12)


def test_what_is_refused(fitted):
    online = RiverDiffusionMap(fitted, features=NAMES)
    with pytest.raises(InvalidInputError, match="the record has no 'z'; the map needs x, y, z, got x, y"):
        online.transform_one({"x": 1.0, "y": 1.0})
    with pytest.raises(InvalidInputError, match="'y' is nan"):
        online.learn_one({"x": 1.0, "y": np.nan, "z": 0.0})
    with pytest.raises(InvalidInputError, match="must be numbers"):
        online.learn_one({"x": "warm", "y": 1.0, "z": 0.0})
    with pytest.raises(InvalidInputError, match="features must name the 3 columns"):
        RiverDiffusionMap(fitted)
    with pytest.raises(InvalidInputError, match="features must name the 3 columns"):
        RiverDiffusionMap(fitted, features=["a"])
    with pytest.raises(InvalidInputError, match="n_components"):
        RiverDiffusionMap(LandmarkDiffusionMap())
    with pytest.raises(InvalidInputError, match="distilled map cannot learn on"):
        RiverDiffusionMap(LandmarkDiffusionMap(2, tolerance=5.0))
    with pytest.raises(InvalidInputError, match="absorb_every must be"):
        RiverDiffusionMap(fitted, features=NAMES, absorb_every=0)
    with pytest.raises(InvalidInputError, match="must be a LandmarkDiffusionMap"):
        RiverDiffusionMap("map.ldm")
