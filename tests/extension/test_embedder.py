"""How far a map's domain reaches."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.extension import Embedder, OnlineStep
from ldmaps.metrics import Euclidean

METRIC = Euclidean()
EPSILON = 4.0


def embedder(cell_squared_radii, dtype=np.float64):
    step = OnlineStep(coefficients=np.eye(2), source_weights=np.ones(2), bandwidth=EPSILON)
    landmarks = METRIC.prepare(np.array([[0.0, 0.0], [1000.0, 0.0]], dtype=dtype))
    return Embedder.build(METRIC, landmarks, EPSILON, step, np.asarray(cell_squared_radii))


def inside(built, distances):
    points = METRIC.prepare(np.array([[0.0, distance] for distance in distances], built.coefficients.dtype))
    return built.coverage_of(built.extend(points)).inside.tolist()


def test_the_domain_of_a_landmark_that_stands_for_itself_reaches_to_root_epsilon():
    assert inside(embedder([0.0, 0.0]), [0.0, 1.0, 1.999, 2.0, 2.001, 2.5]) == [True] * 4 + [False] * 2


def test_the_domain_of_a_wide_cell_reaches_to_its_farthest_point():
    assert inside(embedder([25.0, 0.0]), [2.5, 4.999, 5.0, 5.002, 6.0]) == [True] * 3 + [False] * 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_there_is_room_for_rounding_and_for_no_more(dtype):
    """d² may be above the radius by 1e-4 of it: distances are rounded by how they are batched."""
    distances = 5.0 * np.sqrt(1.0 + np.array([0.0, 2e-5, 8e-5, 1.2e-4, 1e-3]))
    assert inside(embedder([25.0, 0.0], dtype), distances) == [True] * 3 + [False] * 2


def test_distances_are_told_in_units_of_root_epsilon():
    built = embedder([25.0, 0.0])
    points = METRIC.prepare(np.array([[0.0, 3.0], [1000.0, 5.0]]))
    coverage = built.coverage_of(built.extend(points))
    np.testing.assert_allclose(coverage.distance, [1.5, 2.5])
    assert coverage.nearest.tolist() == [0, 1]
