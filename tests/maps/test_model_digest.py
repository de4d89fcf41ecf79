"""The text that says which map it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.datasets import swiss_roll
from ldmaps.maps.model_digest import model_digest
from ldmaps.metrics import RMSD

POINTS = swiss_roll(300, random_state=0).points


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(POINTS)


def test_models_are_told_apart(model, tmp_path):
    model.save(tmp_path / "map.ldm")
    assert model_digest(load(tmp_path / "map.ldm")) == model_digest(model)
    frames = np.random.default_rng(0).normal(size=(40, 4, 3))
    digests = {
        model_digest(LandmarkDiffusionMap(1, 5.0, metric=RMSD(weights), n_landmarks=20).fit(frames))
        for weights in (None, [1, 1, 1, 2.0], [1, 1, 1, 3.0])
    }
    assert len(digests) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda embedder: {"coefficients": -embedder.coefficients},
        lambda embedder: {"source_weights": embedder.source_weights**2},
        lambda embedder: {"epsilon": 1.5 * embedder.epsilon},
        lambda embedder: {"bandwidth": 1.5 * embedder.bandwidth},
        lambda embedder: {"landmarks": embedder.prepare(POINTS[40:80])},
    ],
    ids=["coefficients", "weights", "epsilon", "bandwidth", "landmarks"],
)
def test_a_model_that_embeds_otherwise_has_another_digest(model, change):
    class Changed:
        embedder_ = replace(model.embedder_, **change(model.embedder_))

    assert model_digest(Changed) != model_digest(model)
    probe = model.embedder_.prepare(POINTS[:20])
    before, after = (
        made.coverage_of(made.extend(probe)).distance.tolist() + made.extend(probe).coordinates.tolist()
        for made in (model.embedder_, Changed.embedder_)
    )
    assert before != after
