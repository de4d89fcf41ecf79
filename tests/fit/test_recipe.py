"""Which way a map is fitted: decided in one place, before anything is computed."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.errors import InvalidInputError
from ldmaps.fit import recipe as recipes
from ldmaps.fit.data import prepare_data
from ldmaps.fit.recipe import choose_recipe
from ldmaps.metrics import Euclidean

POINTS = np.random.default_rng(0).normal(size=(900, 2))


def recipe_of(model, points=POINTS):
    return choose_recipe(model._fit_settings(), prepare_data(model, Euclidean(), points, None))


@pytest.mark.parametrize(
    ("model", "kind", "reference_size", "holds_out"),
    [
        (DiffusionMap(), "exact", 0, "nothing"),
        (LandmarkDiffusionMap(), "landmark", 0, "calibration"),
        (LandmarkDiffusionMap(calibration=0), "landmark", 0, "nothing"),
        (LandmarkDiffusionMap(landmarks="pst"), "landmark", 0, "nothing"),
        (LandmarkDiffusionMap(landmarks="farthest", n_landmarks=50), "landmark", 0, "nothing"),
        (LandmarkDiffusionMap(landmarks=[1, 5, 9]), "landmark", 0, "nothing"),
        (LandmarkDiffusionMap(extension="distilled", n_landmarks=20), "distilled", 900, "nothing"),
        (LandmarkDiffusionMap(tolerance=1.0), "tolerance", 900, "certificate"),
        (LandmarkDiffusionMap(tolerance=1.0, extension="nystrom"), "tolerance", 900, "certificate"),
    ],
)
def test_settings_and_data_decide(model, kind, reference_size, holds_out):
    recipe = recipe_of(model)
    assert (recipe.kind, recipe.reference_size, recipe.holds_out) == (kind, reference_size, holds_out)
    assert recipe.is_taught == (reference_size > 0)
    assert recipe.leaves_out
    assert not recipe.brings_all_here


def test_small_data_hold_nothing_out():
    assert recipe_of(LandmarkDiffusionMap(), POINTS[:400]).holds_out == "nothing"


def test_only_the_rule_bulk_leaves_points_out():
    assert not recipe_of(LandmarkDiffusionMap(epsilon="connected")).leaves_out
    assert not recipe_of(DiffusionMap(epsilon=1.0)).leaves_out


def test_resampling_decides_the_number_of_coordinates_only_if_it_is_not_given():
    assert recipe_of(LandmarkDiffusionMap()).needs_resampling
    assert not recipe_of(LandmarkDiffusionMap(2)).needs_resampling


def test_data_in_blocks_are_brought_here_if_they_are_few_or_needed_at_once(monkeypatch):
    dask_array = pytest.importorskip("dask.array")
    from ldmaps.fit.blocks import prepare_blocked_data

    def blocked(model):
        blocks = dask_array.from_array(POINTS, chunks=(300, 2))
        return choose_recipe(model._fit_settings(), prepare_blocked_data(model, Euclidean(), blocks, None))

    assert not blocked(LandmarkDiffusionMap(n_landmarks=50)).brings_all_here
    assert blocked(LandmarkDiffusionMap(landmarks="farthest", n_landmarks=50)).brings_all_here
    assert blocked(LandmarkDiffusionMap(outliers=0.01)).brings_all_here
    assert blocked(LandmarkDiffusionMap(tolerance=1.0)).brings_all_here
    monkeypatch.setattr(recipes, "GATHERED", 500)
    monkeypatch.setattr(recipes, "MIN_REFERENCE", 100)
    with pytest.raises(InvalidInputError, match="outliers=0.01 needs a spanning tree"):
        blocked(LandmarkDiffusionMap(outliers=0.01))


def test_it_can_be_printed_and_is_logged(caplog):
    text = str(recipe_of(LandmarkDiffusionMap(tolerance=1.0)))
    assert "as few as the tolerance allows" in text
    assert "a map of 900 points" in text
    with caplog.at_level(logging.DEBUG, logger="ldmaps"):
        LandmarkDiffusionMap(2, 1.0, n_landmarks=30).fit(POINTS[:300])
    assert "30 of them" in caplog.text
