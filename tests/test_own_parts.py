"""What the page on users' own parts shows gives the maps that it promises."""

from __future__ import annotations

import numpy as np
import pytest
from page_examples import run_block
from point_sets import sheet

from ldmaps import DiffusionMap

PAGE = ("docs/guide/packages.md", "Parts of your own")


def test_landmarks_may_come_from_another_package():
    names = run_block(*PAGE, 0)
    assert 90 <= names["model"].embedder_.n_landmarks <= 100


@pytest.mark.parametrize("neighbourhood", [np.inf, 0.6])
def test_the_map_of_an_affinity_is_that_of_its_walk(neighbourhood):
    points = sheet(150, 1)
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    affinity = np.where(squared <= neighbourhood, np.exp(-squared / (2 * 0.1)), 0.0)
    found = run_block(*PAGE, 1)["map_of_affinity"](affinity, n_components=3)
    walk = affinity / affinity.sum(axis=1, keepdims=True)
    residuals = walk @ found.embedding_ - found.embedding_ * found.eigenvalues_
    assert np.abs(residuals).max() < 1e-6 * np.abs(found.embedding_).max()
    if neighbourhood == np.inf:
        exact = DiffusionMap(3, 0.1).fit(points)
        np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, atol=1e-6)
