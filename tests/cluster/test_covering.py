"""Landmarks that must cover all points, where these are in blocks and more than are brought together."""

from __future__ import annotations

from itertools import combinations

import dask.array as da
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ldmaps import LandmarkDiffusionMap
from ldmaps.cluster.points import BlockedPoints, Blocks
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.fit import recipe
from ldmaps.landmarks import FarthestPoint, LandmarkSelector, PrunedSpanningTree, blocks
from ldmaps.landmarks.base import assign
from ldmaps.metrics import RMSD, Euclidean

ROLL = swiss_roll(3000).points


@pytest.fixture(autouse=True)
def few_points_are_many(monkeypatch):
    monkeypatch.setattr(recipe, "GATHERED", 100)
    monkeypatch.setattr(blocks, "SAMPLE", 300)
    monkeypatch.setattr(blocks, "BROUGHT", 40)


def walk_over(points, chunk, epsilon=4.0, weights=None, metric=None):
    blocks = Blocks.of_array(da.from_array(points, chunks=(chunk, *points.shape[1:])))
    metric = metric or Euclidean()
    blocked = BlockedPoints(metric, blocks, weights)
    return Walk(metric, blocked, np.ones(len(blocked)), epsilon)


def selected(selector, points, chunk, seed=0, **settings):
    found = selector.select(walk_over(points, chunk, **settings), np.random.default_rng(seed))
    return found.indices


def radius(points, landmarks):
    return cdist(points, points[landmarks]).min(axis=1).max()


@pytest.mark.parametrize("seed", range(8))
def test_farthest_points_are_within_the_promised_factor_of_the_best(monkeypatch, seed):
    monkeypatch.setattr(blocks, "SAMPLE", 6)
    monkeypatch.setattr(blocks, "BROUGHT", 3)
    rng = np.random.default_rng(seed)
    points = rng.standard_cauchy(size=(40, 2))
    best = min(radius(points, list(pair)) for pair in combinations(range(40), 2))
    assert radius(points, selected(FarthestPoint(2), points, 11, seed)) <= 2.2 * best * (1 + 1e-12)


def test_farthest_points_reach_what_the_sample_missed():
    points = ROLL.copy()
    points[1234] = [500.0, 0.0, 0.0]
    points[77] = [0.0, 400.0, 0.0]
    found = selected(FarthestPoint(25), points, 700)
    assert {77, 1234} <= set(found)
    every = FarthestPoint(25).select(
        Walk(Euclidean(), Euclidean().prepare(points), np.ones(3000), 4.0), np.random.default_rng(0)
    )
    assert radius(points, found) <= 2.2 * radius(points, every.indices)


@pytest.mark.parametrize("selector", [FarthestPoint(25), PrunedSpanningTree()], ids=["farthest", "pst"])
def test_the_same_landmarks_whatever_the_chunks(selector):
    expected = selected(selector, ROLL, 3000)
    for chunk in (150, 700, 1501):
        np.testing.assert_array_equal(selected(selector, ROLL, chunk), expected)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("epsilon", [4.0, 9.0])
def test_a_pruned_tree_covers_all_points_within_the_hop(seed, epsilon):
    landmarks = selected(PrunedSpanningTree(), ROLL, 700, seed, epsilon=epsilon)
    assert radius(ROLL, landmarks) <= np.sqrt(epsilon) * (1 + 1e-12)
    assert len(np.unique(landmarks)) == len(landmarks) < 1500


def test_landmarks_of_a_pruned_tree_hang_together():
    from scipy.sparse.csgraph import connected_components

    epsilon = 9.0  # hops of 3 join the roll
    assert connected_components(cdist(ROLL, ROLL) <= 3.0)[0] == 1
    landmarks = selected(PrunedSpanningTree(), ROLL, 700, epsilon=epsilon)
    assert connected_components(cdist(ROLL[landmarks], ROLL[landmarks]) <= 9.0)[0] == 1


def test_points_that_stand_alone_are_covered(monkeypatch):
    points = np.concatenate([ROLL[:500], 1000.0 * np.arange(1, 60)[:, None] * np.ones(3)])
    monkeypatch.setattr(blocks, "SAMPLE", 200)
    landmarks = selected(PrunedSpanningTree(), points, 90, epsilon=9.0)
    assert set(range(500, 559)) <= set(landmarks)
    assert radius(points, landmarks) <= 3.0


def test_a_sample_of_separate_points_keeps_one_for_each_part():
    """Three parts: a row of four, a pair, and one alone. Nothing is left for the cover to add."""
    from ldmaps.landmarks import spanning_tree

    line = np.array([0.0, 1.0, 2.0, 3.0, 100.0, 101.0, 200.0])[:, None]
    for seed in range(6):
        walk = Walk(Euclidean(), Euclidean().prepare(line), np.ones(7), 1.5)
        kept = spanning_tree._sampled_tree(walk, np.random.default_rng(seed))
        assert radius(line, kept) <= np.sqrt(1.5)
        assert [np.isin(kept, part).any() for part in ([0, 1, 2, 3], [4, 5], [6])] == [True] * 3
        assert np.isin(kept, [4, 5]).sum() == np.isin(kept, [6]).sum() == 1


def test_points_of_weight_zero_are_neither_landmarks_nor_covered():
    points = ROLL.copy()
    points[:40] += 1e4
    weights = np.ones(3000)
    weights[:40] = 0.0
    for selector in (FarthestPoint(25), PrunedSpanningTree()):
        found = selected(selector, points, 700, epsilon=9.0, weights=weights)
        # Landmarks are counted among the points of positive weight.
        assert radius(points[40:], found) < 50.0


@pytest.mark.parametrize("landmarks", ["farthest", "pst"])
def test_a_fit_in_blocks_covers_its_points(landmarks):
    settings = {"n_landmarks": 60} if landmarks == "farthest" else {}
    model = LandmarkDiffusionMap(2, 9.0, landmarks=landmarks, **settings).fit(
        da.from_array(ROLL, chunks=(800, 3))
    )
    assert model.multiplicities_.sum() == 3000
    assert model.coverage(ROLL).inside.all()
    nearest = cdist(ROLL, ROLL[model.landmark_indices_]).argmin(axis=1)
    np.testing.assert_array_equal(model.labels_, nearest)


def test_frames_are_covered_too():
    frames = alanine_dipeptide().frames[:1500]
    metric = RMSD()
    found = selected(PrunedSpanningTree(), frames, 400, epsilon=0.004, metric=metric)
    prepared = metric.prepare(frames)
    walk = Walk(metric, prepared, np.ones(1500), 0.004)
    assert assign(walk, found).squared_distances.max() <= 0.004 * (1 + 1e-4)


def test_an_epsilon_that_is_too_small_is_explained(monkeypatch):
    monkeypatch.setattr(blocks, "PASSES", 2)
    with pytest.raises(InvalidInputError, match=r"farther than sqrt\(epsilon\) = 0.001 .* make it larger"):
        selected(PrunedSpanningTree(), ROLL, 700, epsilon=1e-6)


def test_too_few_passes_for_farthest_points_are_explained(monkeypatch):
    monkeypatch.setattr(blocks, "PASSES", 1)
    monkeypatch.setattr(blocks, "SAMPLE", 10)
    points = ROLL.copy()
    points[5] = 1e6
    with pytest.raises(InvalidInputError, match="times too far away after 1 passes over 3,000 points"):
        selected(FarthestPoint(4), points, 700)


class NeedsAll(LandmarkSelector):
    name = "all"
    is_automatic = True

    def select(self, walk, rng):
        return assign(walk, np.arange(10))


def test_what_cannot_be_done_in_blocks_names_the_remedy():
    X = da.from_array(ROLL, chunks=(800, 3))
    with pytest.raises(InvalidInputError, match='literal.*3,000 in blocks are too many.*use landmarks="pst"'):
        LandmarkDiffusionMap(2, 9.0, landmarks=PrunedSpanningTree(growth="literal")).fit(X)
    with pytest.raises(InvalidInputError, match='must see all points at once.*use landmarks="kmedoids"'):
        LandmarkDiffusionMap(2, 9.0, landmarks=NeedsAll()).fit(X)


def test_outliers_of_many_points_by_the_remedy_that_the_error_names(monkeypatch):
    points = ROLL.copy()
    points[[100, 2000, 2999]] += 1e3
    X = da.from_array(points, chunks=(800, 3))
    with pytest.raises(InvalidInputError, match="outliers=0.01 needs a spanning tree.*sample_weight=few"):
        LandmarkDiffusionMap(2, 9.0, outliers=0.01).fit(X)
    monkeypatch.setattr(recipe, "GATHERED", 1500)
    few = LandmarkDiffusionMap(2, 9.0, outliers=0.01, n_landmarks=300).fit(X[::2])
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=300).fit(X, sample_weight=few.coverage(X).distance <= 5)
    np.testing.assert_array_equal(np.flatnonzero(model.training_.weights == 0), [100, 2000, 2999])
