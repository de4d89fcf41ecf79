"""The longest edge of a minimum spanning tree, found by cells, is that of the tree; so are the points apart."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import DiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.diffusion import bottleneck
from ldmaps.diffusion.bottleneck import bottleneck_edges, cells_pay
from ldmaps.diffusion.walk import (
    OUTLIER_SHARE,
    RAISED,
    REACH,
    SpanningTree,
    Walk,
    connecting_tree,
    disconnected_tree,
    groups_in,
    minimum_spanning_tree,
)
from ldmaps.errors import OutlierWarning
from ldmaps.metrics import RMSD, Euclidean, Function, Periodic
from ldmaps.metrics.precomputed import StoredSquares

RNG = np.random.default_rng(0)
N = 900
PEPTIDE = alanine_dipeptide()
#: High dimensions, where no spatial tree pays; clusters, copies, uneven densities, paths.
SETS = {
    "gauss": (Euclidean(), RNG.normal(size=(N, 30))),
    "single": (Euclidean(), RNG.normal(size=(N, 30)).astype(np.float32)),
    "sheet": (Euclidean(), RNG.random((N, 2)) @ RNG.normal(size=(2, 30))),
    "heavy tails": (Euclidean(), RNG.standard_t(3, size=(N, 25))),
    "clusters": (Euclidean(), RNG.normal(size=(N, 25)) + 20.0 * RNG.integers(0, 2, (N, 1))),
    "copies": (Euclidean(), np.repeat(RNG.normal(size=(N // 20, 25)), 20, axis=0)),
    "half at one place": (Euclidean(), np.vstack([np.zeros((N // 2, 25)), RNG.normal(size=(N // 2, 25))])),
    "path": (Euclidean(), np.cumsum(RNG.normal(size=(N, 25)), axis=0)),
    "shaken copies": (
        Euclidean(),
        np.repeat(RNG.normal(size=(N // 5, 25)), 5, axis=0) + 0.01 * RNG.normal(size=(N, 25)),
    ),
    "angles": (Periodic(), RNG.uniform(-np.pi, np.pi, (N, 4)) ** 3 / 10),
    "peptide": (RMSD(weights=PEPTIDE.masses), PEPTIDE.frames[::20][:N]),
    "alkane": (RMSD(), c24h50().frames[:N]),
}


@pytest.fixture(autouse=True)
def cells_everywhere(monkeypatch):
    """Cells even for few points, and however many pairs they leave."""
    monkeypatch.setattr(bottleneck, "MIN_POINTS", 2)
    monkeypatch.setattr(bottleneck, "MAX_SHARE", 10.0)


def prepared(name):
    metric, X = SETS[name]
    return metric, metric.prepare(X)


@pytest.mark.parametrize("name", SETS)
def test_longest_edge_is_that_of_the_minimum_spanning_tree(name):
    metric, points = prepared(name)
    edges = bottleneck_edges(metric, points)
    exact = minimum_spanning_tree(metric, points)
    assert edges.squares.max() == pytest.approx(exact.connecting_epsilon, rel=1e-5)
    assert connecting_tree(metric, points).connecting_epsilon == pytest.approx(
        exact.connecting_epsilon, rel=1e-5
    )


@pytest.mark.parametrize("name", SETS)
def test_edges_are_a_spanning_tree_of_their_lengths(name):
    metric, points = prepared(name)
    edges = bottleneck_edges(metric, points)
    tree = SpanningTree(edges.ends, edges.squares)
    assert edges.ends.shape == (len(points) - 1, 2)
    assert len(tree.component_sizes(np.inf)) == 1
    for (i, j), squared in zip(edges.ends[::50], edges.squares[::50], strict=True):
        block = np.empty((1, 1), dtype=points.dtype)
        metric.squared_block(points, slice(i, i + 1), points, slice(j, j + 1), block)
        assert squared == pytest.approx(float(block[0, 0]), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("name", SETS)
def test_cells_tell_how_many_points_short_hops_leave_out(name):
    metric, points = prepared(name)
    cells = bottleneck._Cells(metric, points, 1)
    cells._left = np.inf
    tree = cells.spanning_tree()
    exact = minimum_spanning_tree(metric, points)
    lengths = np.sort(exact.squares)
    for squared in lengths[[N // 50, N // 4, N // 2, -N // 10, -5]] * 1.0001 + 1e-9:
        outside = len(points) - int(exact.component_sizes(squared)[0])
        for n_points in (outside - 1, outside, outside + 1):
            if n_points > 0:
                assert cells.falls_apart(tree, squared, n_points) == (outside > n_points)


@pytest.mark.parametrize(("n_broken", "away"), [(0, 0.0), (1, 1000.0), (5, 1000.0), (30, 1000.0), (9, 3.5)])
def test_outliers_are_told_as_by_the_whole_tree(n_broken, away):
    """Nine that are barely outliers are none to a tree whose shorter edges are longer than they could be."""
    metric = Euclidean()
    X = np.random.default_rng(1).normal(size=(N, 25))
    X[:n_broken] += away * (1 + np.arange(n_broken))[:, None]
    points = metric.prepare(X)
    tree, exact = connecting_tree(metric, points), minimum_spanning_tree(metric, points)
    most = max(1, int(OUTLIER_SHARE * N))
    joining = [RAISED * each.epsilon_joining(N - most) for each in (tree, exact)]
    hangs = exact.connecting_epsilon > joining[1]
    assert hangs == (0 < n_broken <= most)
    assert (tree.connecting_epsilon > joining[0]) == hangs
    if hangs:
        np.testing.assert_array_equal(
            tree.in_largest_component(joining[0]), exact.in_largest_component(joining[1])
        )


def test_broken_frames_are_named():
    frames = SETS["peptide"][1].copy()
    frames[123] *= 5.0
    with pytest.warns(OutlierWarning, match=r"times smaller, without point 123"):
        DiffusionMap(2, "connected", SETS["peptide"][0], solver="streamed").fit(frames)


def test_other_metrics_and_few_points_get_the_whole_tree(monkeypatch):
    monkeypatch.setattr(bottleneck, "MIN_POINTS", 2000)
    plain = Function(lambda x, y: float(np.abs(x - y).sum()))
    assert cells_pay(RMSD(), 2000)
    assert not cells_pay(RMSD(), 1999)
    assert not cells_pay(StoredSquares(), 10_000)
    assert not cells_pay(plain, 10_000)


def test_cells_that_rule_out_too_little_are_given_up(monkeypatch):
    monkeypatch.setattr(bottleneck, "MAX_SHARE", 0.02)
    metric, points = prepared("gauss")
    assert bottleneck_edges(metric, points) is None
    exact = minimum_spanning_tree(metric, points)
    np.testing.assert_array_equal(connecting_tree(metric, points).ends, exact.ends)


def test_most_pairs_of_frames_are_never_measured():
    class Counting(RMSD):
        n_pairs = 0

        def squared_block(self, a, rows, b, columns, out):
            Counting.n_pairs += out.size
            super().squared_block(a, rows, b, columns, out)

        def nearest_scan(self, a, b):
            return None

    metric = Counting(weights=PEPTIDE.masses)
    points = metric.prepare(PEPTIDE.frames[:8000])
    bottleneck_edges(metric, points, 1, outliers=(OUTLIER_SHARE, RAISED))
    assert Counting.n_pairs < 0.25 * 8000**2 / 2


def test_connectivity_at_a_given_bandwidth():
    metric = Euclidean()
    X = np.concatenate([swiss_roll(300).points, swiss_roll(200, random_state=1).points + 400.0])
    points = metric.prepare(X)
    joining = minimum_spanning_tree(metric, points).connecting_epsilon

    def walk(epsilon):
        return Walk(metric, points, np.ones(len(X)), epsilon)

    assert disconnected_tree(walk(joining / 25.0 * (1 + 1e-9)), None, REACH) is None
    epsilon = joining / 25.0 * (1 - 1e-6)
    tree = disconnected_tree(walk(epsilon), None, REACH)
    assert groups_in(tree, epsilon).sizes == (300, 200)


def test_a_bandwidth_that_is_plenty_takes_no_search(monkeypatch):
    monkeypatch.setattr(bottleneck._Cells, "ways_out", lambda *args: pytest.fail("nothing needs to be cut"))
    metric, points = prepared("gauss")
    assert disconnected_tree(Walk(metric, points, np.ones(len(points)), 1000.0), None, REACH) is None
