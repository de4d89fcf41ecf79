"""Fits and embeddings of dask arrays, on Dask's threads, against those of the same numbers in memory."""

from __future__ import annotations

import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest

import ldmaps
from ldmaps import LandmarkDiffusionMap, Limits
from ldmaps.cluster import bracket
from ldmaps.cluster.points import BlockedPoints, Blocks
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion.walk import minimum_spanning_tree
from ldmaps.errors import InvalidInputError
from ldmaps.fit import blocks, coordinates, recipe
from ldmaps.inputs.opening import is_blocked, is_dask_array
from ldmaps.metrics import RMSD, Euclidean

ROLL = swiss_roll(3000).points
CHUNKS = {"even": (500, 3), "one": (3000, 3), "uneven": ((1, 1799, 0, 1200), 3), "columns": (700, (2, 1))}


SAME = {"n_components": 2}


def roll_map(**settings):
    return LandmarkDiffusionMap(**{**SAME, "epsilon": 4.0, "n_landmarks": 150, **settings})


def assert_same_fit(one, other, tolerance=1e-12):
    np.testing.assert_array_equal(one.landmark_indices_, other.landmark_indices_)
    np.testing.assert_array_equal(np.asarray(one.labels_), np.asarray(other.labels_))
    np.testing.assert_allclose(one.multiplicities_, other.multiplicities_, rtol=1e-13)
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=tolerance)
    scale = np.ptp(np.asarray(one.embedding_), axis=0).max()
    np.testing.assert_allclose(
        np.asarray(one.embedding_), np.asarray(other.embedding_), atol=tolerance * scale
    )
    np.testing.assert_array_equal(one.embedder_.squared_radii, other.embedder_.squared_radii)
    for name, values in one.training_.arrays().items():
        np.testing.assert_array_equal(values, other.training_.arrays()[name], err_msg=name)
    assert_same_calibration(one, other)


def assert_same_calibration(one, other):
    known, found = one.embedder_.calibration, other.embedder_.calibration
    assert (known is None) == (found is None)
    if known is not None:
        np.testing.assert_array_equal(known.scores, found.scores)
        assert known.header() == found.header()


@pytest.fixture(scope="module")
def in_memory():
    return roll_map().fit(ROLL)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_a_fit_does_not_depend_on_chunks(in_memory, chunks):
    assert_same_fit(in_memory, roll_map().fit(da.from_array(ROLL, chunks=chunks)))


def test_a_fit_in_one_thread_is_the_same(in_memory):
    with dask.config.set(scheduler="synchronous"):
        assert_same_fit(in_memory, roll_map().fit(da.from_array(ROLL, chunks=(800, 3))))


def test_the_default_is_the_map_of_the_same_points_in_memory(monkeypatch):
    """Held-out points, coordinates that resamples confirm, and the order of frames in files and time."""
    plain, blocked = (
        LandmarkDiffusionMap().fit(ROLL),
        LandmarkDiffusionMap().fit(da.from_array(ROLL, chunks=700)),
    )
    assert plain.embedder_.calibration.n_points == 600
    assert_same_fit(plain, blocked)
    assert repr(plain) == repr(blocked)
    np.testing.assert_array_equal(plain.resample(20).errors, blocked.resample(20).errors)
    for module in (recipe, coordinates):
        monkeypatch.setattr(module, "MOST_BLOCKED", 2000)
    many = LandmarkDiffusionMap(2).fit(da.from_array(ROLL, chunks=700))
    assert many.embedder_.calibration is None
    with pytest.raises(InvalidInputError, match="needs the training data"):
        many.resample()


def test_all_points_as_landmarks_are_compared_with_each_other():
    X = da.from_array(ROLL[:300], chunks=100)
    plain, blocked = LandmarkDiffusionMap(2, 50.0).fit(ROLL[:300]), LandmarkDiffusionMap(2, 50.0).fit(X)
    assert plain.embedder_.calibration.n_points == 300
    assert_same_fit(plain, blocked)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_transform_is_lazy_and_keeps_its_chunks(in_memory, chunks):
    asked = []
    X = da.from_array(ROLL, chunks=chunks).map_blocks(
        lambda block: asked.append(1) or block, dtype=float, meta=ROLL[:0]
    )
    embedded = in_memory.transform(X)
    assert is_dask_array(embedded)
    assert asked == []
    assert embedded.chunks == (X.chunks[0], (2,))
    assert embedded.name.startswith("ldmaps: embed")
    np.testing.assert_array_equal(embedded.compute(), in_memory.transform(ROLL))
    assert asked


def test_coverage_of_a_dask_array():
    calibrated = roll_map(calibration=0.2).fit(ROLL)
    points = np.concatenate([ROLL[:20], ROLL[:5] + 100.0])
    expected = calibrated.coverage(points)
    for part, whole in zip(calibrated.coverage(da.from_array(points, chunks=(7, 3))), expected, strict=True):
        assert is_dask_array(part)
        assert part.dtype == whole.dtype
        np.testing.assert_array_equal(part.compute(), whole)


def test_frames_in_three_dimensions():
    frames = alanine_dipeptide().frames[:1200]
    settings = {**SAME, "metric": "rmsd", "epsilon": 0.003, "n_landmarks": 60}
    plain = LandmarkDiffusionMap(**settings).fit(frames)
    X = da.from_array(frames, chunks=(350, 22, 3))
    assert_same_fit(plain, LandmarkDiffusionMap(**settings).fit(X), 1e-6)
    np.testing.assert_array_equal(plain.transform(X).compute(), plain.transform(frames))


def test_weights_count_and_points_of_weight_zero_are_only_embedded():
    weights = np.random.default_rng(3).choice([0.0, 1.0, 2.5], len(ROLL))
    plain = roll_map().fit(ROLL, sample_weight=weights)
    blocked = roll_map().fit(da.from_array(ROLL, chunks=(800, 3)), sample_weight=weights)
    assert_same_fit(plain, blocked)
    np.testing.assert_array_equal(plain.diagnosis_.left_out, blocked.diagnosis_.left_out)


def test_given_landmarks_and_uniform_ones():
    X = da.from_array(ROLL, chunks=(800, 3))
    for landmarks in ("uniform", np.arange(0, 3000, 20)):
        settings = {"landmarks": landmarks, "n_landmarks": 150 if isinstance(landmarks, str) else None}
        assert_same_fit(roll_map(**settings).fit(ROLL), roll_map(**settings).fit(X))


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": "connected"},
        {"epsilon": "coifman"},
        {"extension": "distilled"},
        {"landmarks": "farthest"},
        {"outliers": 0.01, "epsilon": "connected"},
    ],
    ids=str,
)
def test_what_needs_all_points_is_done_here_while_they_are_few(settings):
    few = ROLL[:1000]
    X = da.from_array(few, chunks=(300, 3))
    assert_same_fit(roll_map(**settings).fit(few), roll_map(**settings).fit(X))


def test_large_results_stay_in_blocks(monkeypatch, in_memory, tmp_path):
    monkeypatch.setattr(blocks, "MAX_RECORDED", 1000)
    blocked = roll_map().fit(da.from_array(ROLL, chunks=(800, 3)))
    assert is_dask_array(blocked.embedding_)
    assert is_dask_array(blocked.labels_)
    assert blocked.labels_.dtype == in_memory.labels_.dtype
    assert_same_fit(in_memory, blocked)
    blocked.save(tmp_path / "map.ldm")
    np.testing.assert_array_equal(ldmaps.load(tmp_path / "map.ldm").embedding_, in_memory.embedding_)


@pytest.mark.slow
def test_a_saved_map_loads_without_dask(tmp_path):
    roll_map().fit(da.from_array(ROLL, chunks=(800, 3))).save(tmp_path / "map.ldm")
    code = (
        "import sys; sys.modules['dask'] = sys.modules['distributed'] = None; import ldmaps;"
        f"print(ldmaps.load({str(tmp_path / 'map.ldm')!r}).transform([[1.0, 2.0, 3.0]]).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1, 2)"


@pytest.mark.slow
def test_error_estimates_of_a_blocked_fit(in_memory):
    blocked = roll_map().fit(da.from_array(ROLL, chunks=(800, 3)))
    expected = in_memory.error_estimate(ROLL[:50])
    np.testing.assert_allclose(blocked.error_estimate(ROLL[:50]).sigma, expected.sigma, rtol=1e-9)


def test_a_reference_that_is_a_sample_has_the_same_weights(monkeypatch):
    from ldmaps.validation import error_estimate

    monkeypatch.setattr(error_estimate, "MAX_REFERENCE_POINTS", 500)
    weights = np.random.default_rng(3).choice([0.0, 1.0, 2.5], len(ROLL))
    expected = roll_map().fit(ROLL, sample_weight=weights)._fit_result.reference
    found = roll_map().fit(da.from_array(ROLL, chunks=(800, 3)), sample_weight=weights)._fit_result.reference
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-12)
    np.testing.assert_array_equal(found.points.values, expected.points.values)


def test_a_reference_that_is_a_sample_comes_with_the_first_gather(monkeypatch):
    from ldmaps.validation import error_estimate

    monkeypatch.setattr(error_estimate, "MAX_REFERENCE_POINTS", 500)
    gathers = []
    gather = Blocks.gather
    monkeypatch.setattr(Blocks, "gather", lambda self, rows: gathers.append(len(rows)) or gather(self, rows))
    settings = {"landmarks": np.arange(0, 3000, 20), "n_landmarks": None, "calibration": 0}
    found = roll_map(**settings).fit(da.from_array(ROLL, chunks=(800, 3)))
    assert len(gathers) == 1
    assert 500 < gathers[0] <= 650
    expected = roll_map(**settings).fit(ROLL)._fit_result.reference
    np.testing.assert_array_equal(found._fit_result.reference.points.values, expected.points.values)


def test_a_tolerance_is_searched_for_in_a_sample(monkeypatch):
    monkeypatch.setattr(recipe, "GATHERED", 2000)
    X = da.from_array(ROLL, chunks=(800, 3))
    model = LandmarkDiffusionMap(2, 4.0, tolerance=20.0, limits=Limits(8 * 1500**2)).fit(X)
    assert model.certificate_.upper_bound <= 20.0
    assert model.multiplicities_.sum() == 3000
    assert model.coverage(ROLL).inside.all()
    assert model.map_.representatives is not None  # landmarks were moved
    counted = np.bincount(model.coverage(ROLL).nearest, minlength=model.embedder_.n_landmarks)
    assert np.abs(model.multiplicities_ - counted).sum() <= 2 * model.embedder_.n_landmarks
    np.testing.assert_array_equal(model.map_.representatives.values, ROLL[model.landmark_indices_])
    np.testing.assert_array_equal(model.landmark_embedding_.shape, (model.embedder_.n_landmarks, 2))
    np.testing.assert_array_equal(
        model.transform(ROLL[model.landmark_indices_]), model.embedding_[model.landmark_indices_]
    )


def test_an_infinite_value_is_reported_with_its_rows():
    points = ROLL.copy()
    points[2500, 1] = np.inf
    with pytest.raises(
        InvalidInputError, match=r"rows 2400 to 2999: points must be finite, but point 100 \(column 2\)"
    ):
        roll_map(landmarks=np.arange(100), n_landmarks=None).fit(da.from_array(points, chunks=(800, 3)))


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (da.ones((10, 4, 2)), "shape \\(n, features\\) or \\(n, atoms, 3\\), got"),
        (da.ones(10), "got \\(10,\\)"),
        (da.ones((10, 4)), "the dask array has 4 numbers, but the map takes 3"),
        (da.ones((10, 3), dtype=complex), "real numbers, got a dask array of complex128"),
        (da.ones((10, 1, 3)), "takes points of shape"),
    ],
    ids=["last axis", "vector", "width", "complex", "frames"],
)
def test_arrays_that_hold_no_points_are_refused_at_once(in_memory, X, text):
    with pytest.raises(InvalidInputError, match=text):
        in_memory.transform(X)


def test_unknown_chunks_are_counted(in_memory):
    X = da.from_array(ROLL, chunks=(800, 3))
    unknown = X[X[:, 0] > -np.inf]
    assert np.isnan(unknown.chunks[0]).all()
    assert_same_fit(in_memory, roll_map().fit(unknown))


def test_other_things_are_not_in_blocks():
    assert not is_blocked(ROLL)
    assert not is_blocked(ROLL.tolist())


# -- the bracket of the connected epsilon ------------------------------------------------


def blocked(metric, points, chunk, weights=None):
    return BlockedPoints(
        metric, Blocks.of_array(da.from_array(points, chunks=(chunk, *points.shape[1:]))), weights
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", ["normal", "uniform"])
def test_the_bracket_holds_the_exact_epsilon(monkeypatch, seed, spread):
    monkeypatch.setattr(bracket, "FIRST", 100)
    monkeypatch.setattr(bracket, "FARTHEST", 20)
    points = getattr(np.random.default_rng(seed), spread)(size=(4000, 2))
    exact = minimum_spanning_tree(Euclidean(), Euclidean().prepare(points)).connecting_epsilon
    found = bracket.connected_bracket(blocked(Euclidean(), points, 900))
    assert found.rule == "connected"
    assert found.lower_bound * (1 - 1e-12) <= exact <= found.epsilon * (1 + 1e-12)
    # Whatever the chunks.
    again = bracket.connected_bracket(blocked(Euclidean(), points, 4000))
    assert (again.epsilon, again.lower_bound) == (found.epsilon, found.lower_bound)


def test_the_bracket_is_tight_where_a_few_points_decide(monkeypatch):
    monkeypatch.setattr(bracket, "FIRST", 200)
    monkeypatch.setattr(bracket, "FARTHEST", 20)
    points = np.random.default_rng(0).uniform(size=(4000, 2))
    points[:3] = [[3.0, 3.0], [3.1, 3.0], [-2.0, 0.0]]
    exact = minimum_spanning_tree(Euclidean(), Euclidean().prepare(points)).connecting_epsilon
    found = bracket.connected_bracket(blocked(Euclidean(), points, 900))
    assert found.epsilon <= 1.05 * found.lower_bound or found.epsilon == pytest.approx(exact, rel=0.05)


def test_one_pass_of_the_bracket_on_a_few_points(monkeypatch):
    """S = {(0, 0), (15, 0)} takes in (35, 0), the farthest, and (25, 0), a nearest neighbour; (0, 19) stays out."""
    monkeypatch.setattr(bracket, "FIRST", 2)
    monkeypatch.setattr(bracket, "FARTHEST", 1)
    monkeypatch.setattr(bracket, "PASSES", 1)
    first = np.sort(np.random.default_rng(0).choice(5, 2, replace=False))
    points = np.empty((5, 2))
    points[first] = [[0.0, 0.0], [15.0, 0.0]]
    points[np.setdiff1d(np.arange(5), first)] = [[35.0, 0.0], [25.0, 0.0], [0.0, 19.0]]
    found = bracket.connected_bracket(blocked(Euclidean(), points, 2))
    # The tree of S has edges of 15, 10 and 10, which do not reach (0, 19).
    assert found.epsilon == 19.0**2
    assert found.lower_bound == 15.0**2


def test_the_bracket_of_frames_and_without_points_of_weight_zero(monkeypatch):
    monkeypatch.setattr(bracket, "FIRST", 100)
    monkeypatch.setattr(bracket, "FARTHEST", 20)
    frames = alanine_dipeptide().frames[:1000]
    frames = np.concatenate([frames, frames[:3] * 4.0])
    weights = np.ones(len(frames))
    weights[-3:] = 0.0
    metric = RMSD()
    exact = minimum_spanning_tree(metric, metric.prepare(frames[:-3])).connecting_epsilon
    found = bracket.connected_bracket(blocked(metric, frames, 300, weights))
    assert found.lower_bound * (1 - 1e-5) <= exact <= found.epsilon * (1 + 1e-5)


def test_a_fit_of_many_points_uses_the_bracket(monkeypatch):
    monkeypatch.setattr(recipe, "GATHERED", 1000)
    points = np.random.default_rng(0).normal(size=(3000, 2))
    model = LandmarkDiffusionMap(2, "connected", n_landmarks=100).fit(da.from_array(points, chunks=(800, 2)))
    assert 0 < model.bandwidth_.lower_bound <= model.epsilon_ == model.bandwidth_.epsilon


def test_points_that_coincide_have_no_bracket():
    with pytest.raises(InvalidInputError, match="all 50 points coincide"):
        bracket.connected_bracket(blocked(Euclidean(), np.ones((50, 2)), 20))


def test_coinciding_landmarks_keep_themselves_in_blocks():
    points = np.repeat(ROLL[:300], 2, axis=0)
    landmarks = np.arange(0, 400)  # every one stands there twice
    settings = {"landmarks": landmarks, "n_landmarks": None, "epsilon": 25.0}
    plain = roll_map(**settings).fit(points)
    blocked_fit = roll_map(**settings).fit(da.from_array(points, chunks=(130, 3)))
    np.testing.assert_array_equal(blocked_fit.labels_[landmarks], np.arange(400))
    assert_same_fit(plain, blocked_fit)
