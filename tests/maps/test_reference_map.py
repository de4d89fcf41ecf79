"""What landmarks are distilled from and judged against."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import DiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.diffusion.pairwise import squared_matrix
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import DisconnectedError
from ldmaps.maps.reference_map import reference_size, solve_reference
from ldmaps.metrics import Euclidean, Function
from ldmaps.quality.fidelity import align, rms_error

ROLL = swiss_roll(700, random_state=1).points


def solved(X, *, weights=None, alpha=0.0, time=0.0, epsilon=16.0, size=None):
    metric = Euclidean()
    points = metric.prepare(X)
    weights = np.ones(len(X)) if weights is None else weights
    return solve_reference(
        Walk(metric, points, weights, epsilon, alpha, time),
        3,
        len(X) if size is None else size,
        np.random.default_rng(0),
        squared=squared_matrix(metric, points) if size is None else None,
        is_known_connected=False,
    ).leading(2)


@pytest.mark.parametrize(("alpha", "time"), [(0.0, 0.0), (0.5, 1.0), (1.0, 2.0)])
def test_of_all_points_is_the_exact_map(alpha, time):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(ROLL))
    reference = solved(ROLL, weights=weights, alpha=alpha, time=time)
    exact = DiffusionMap(2, 16.0, alpha=alpha, t=time).fit(ROLL, sample_weight=weights)
    wanted = np.array([5, 0, 699, 31])
    np.testing.assert_allclose(reference.coordinates(wanted), exact.embedding_[wanted], atol=1e-12)
    new = reference.walk.metric.prepare(ROLL[:20] + 0.5)
    np.testing.assert_allclose(
        reference.embedder().extend(new).coordinates, exact.transform(ROLL[:20] + 0.5), atol=1e-12
    )


def test_of_medoids_is_close_to_the_exact_map():
    reference = solved(ROLL, size=350)
    exact = DiffusionMap(2, 16.0).fit(ROLL)
    everything = np.arange(len(ROLL))
    found = reference.coordinates(everything)
    assert rms_error(exact.embedding_, found) < 6.0
    # Those it is made of are taken from the eigenvectors, the rest extended; no seam between them.
    extended = reference.embedder().extend(reference.walk.points).coordinates
    np.testing.assert_allclose(align(found, extended), found, atol=1e-10)


def test_data_in_pieces_is_an_error():
    X = np.concatenate([ROLL[:200], ROLL[:200] + 1000.0])
    with pytest.raises(DisconnectedError):
        solved(X)


@pytest.mark.parametrize(
    ("n", "m", "itemsize", "limit", "expected"),
    [
        (20_000, 400, 8, 4e9, 20_000),
        (31_000, 400, 4, 4e9, 31_000),
        (40_000, 400, 4, 4e9, 5000),
        (40_000, 1000, 4, 4e9, 10_000),
        (40_000, 1000, 8, 8 * 6000**2, 6000),
    ],
)
def test_size(n, m, itemsize, limit, expected):
    assert reference_size(Euclidean(), n, m, itemsize, limit) == expected


def test_slow_metrics_are_asked_for_fewer_pairs():
    metric = Function(lambda x, y: float(np.abs(x - y).sum()))
    assert reference_size(metric, 1000, 100, 8, 4e9) == 1000
    assert reference_size(metric, 30_000, 100, 8, 4e9) == 2000
