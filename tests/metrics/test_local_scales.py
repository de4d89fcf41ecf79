"""Distances in units of how far apart points lie locally."""

from __future__ import annotations

import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block
from scipy.spatial.distance import cdist

from ldmaps.diffusion.pairwise import local_factors
from ldmaps.errors import InvalidInputError
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.metrics.local_scales import LocalPoints, LocalScales, interpolated


class TestLocalScales(MetricContract):
    def make_metric(self):
        return LocalScales(Euclidean())

    def make_data(self, n, rng):
        return rng.normal(size=(n, 3))

    def make_narrow(self, data):
        return data[:, :-1]


class TestLocalFrames(MetricContract):
    cut_epsilons = 100.0
    zero_epsilons = 100.0

    def make_metric(self):
        return LocalScales(RMSD())

    def make_data(self, n, rng):
        return rng.normal(size=(n, 6, 3))

    def make_narrow(self, data):
        return data[:, :-1]


@pytest.fixture
def scaled():
    """Landmarks with factors, and their rows."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    return rows, LocalPoints(Euclidean().prepare(rows), np.exp(rng.normal(size=40)))


def test_distances_of_training_points_are_those_of_the_formula(scaled):
    rows, points = scaled
    wanted = cdist(rows, rows, "sqeuclidean") * np.sqrt(np.outer(points.factors, points.factors)) ** 2
    squared = squared_block(LocalScales(Euclidean()), points, points)
    np.testing.assert_allclose(squared, wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(squared, squared.T)


def test_a_new_point_at_a_landmark_has_its_factor(scaled):
    rows, points = scaled
    metric = LocalScales(Euclidean())
    np.testing.assert_allclose(
        squared_block(metric, metric.prepare(rows), points),
        squared_block(metric, points, points),
        rtol=1e-12,
        atol=1e-14,
    )


def test_a_new_point_takes_its_factor_from_the_landmarks_around_it(scaled):
    rows, points = scaled
    metric, new = LocalScales(Euclidean()), np.random.default_rng(1).normal(size=(9, 3))
    squared = cdist(new, rows, "sqeuclidean")
    weights = squared**-4.0
    own = np.exp(weights @ np.log(points.factors) / weights.sum(axis=1))
    np.testing.assert_allclose(
        squared_block(metric, metric.prepare(new), points),
        squared * np.outer(own, points.factors),
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        local_factors(Euclidean(), Euclidean().prepare(new), points.plain, points.factors), own, rtol=1e-10
    )


@pytest.mark.parametrize("part", [slice(0, 40), slice(3, 11)])
def test_factors_do_not_depend_on_which_landmarks_are_asked_for(scaled, part):
    _, points = scaled
    metric = LocalScales(Euclidean())
    new = metric.prepare(np.random.default_rng(1).normal(size=(9, 3)))
    whole = squared_block(metric, new, points)
    np.testing.assert_array_equal(squared_block(metric, new, points, None, part), whole[:, part])
    np.testing.assert_allclose(squared_block(metric, points, new, part, None), whole[:, part].T, rtol=1e-12)


def test_points_as_new_ones_have_no_factors(scaled):
    _, points = scaled
    metric = LocalScales(Euclidean())
    assert metric.as_new(points).factors is None
    plain = Euclidean().prepare(np.ones((2, 2)))
    assert Euclidean().as_new(plain) is plain


@pytest.mark.parametrize("at_landmark", [False, True])
def test_the_gradient_is_that_of_finite_differences(scaled, at_landmark):
    rows, points = scaled
    metric, rng = LocalScales(Euclidean()), np.random.default_rng(2)
    X = rows[:4].copy() if at_landmark else rng.normal(size=(4, 3))
    shares = rng.normal(size=(4, 2, 40))

    def summed(at):
        return np.einsum("ncj,nj->nc", shares, squared_block(metric, metric.prepare(at), points))

    gradient = np.empty((4, 2, 3))
    squared = squared_block(metric, metric.prepare(X), points)
    metric.squares_gradient(points)(X, squared, shares, gradient)
    step = 1e-5
    wanted = [(summed(X + step * unit) - summed(X - step * unit)) / (2 * step) for unit in np.eye(3)]
    np.testing.assert_allclose(gradient, np.stack(wanted, axis=-1), rtol=1e-5, atol=1e-5)


def test_factors_go_into_files_and_come_back(scaled):
    _, points = scaled
    metric = LocalScales(Euclidean())
    arrays = metric.export_points(points)
    back = metric.import_points(arrays)
    np.testing.assert_array_equal(back.factors, points.factors)
    for wrong in (points.factors[1:], -points.factors, np.full(40, np.nan)):
        with pytest.raises(InvalidInputError):
            metric.import_points(arrays | {"factors": wrong})


def test_what_the_other_metric_knows_is_known():
    metric = LocalScales(RMSD())
    assert metric.takes_frames
    assert metric.has_structures
    assert not metric.is_true_metric
    assert "RMSD" in repr(metric)
    assert "rmsd" in metric.describe()
    with pytest.raises(InvalidInputError, match="another metric to scale"):
        LocalScales(metric)


def test_far_landmarks_hardly_count():
    """A hundred landmarks three times as far as the nearest."""
    squared = np.append(1.0, np.full(100, 9.0))[None]
    assert interpolated(squared, np.append(1.0, np.full(100, 0.1)))[0] == pytest.approx(1.0, rel=0.05)
