from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from landmarks.contract import SelectorContract, check_voronoi, run
from point_sets import (
    angles,
    blobs,
    component_labels,
    euclidean_squares,
    is_one_component,
    periodic_squares,
    sheet,
)
from scipy.stats import chisquare, ttest_ind

from ldmaps.diffusion.bandwidth import choose_bandwidth
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import DisconnectedError, InvalidInputError
from ldmaps.landmarks import PrunedSpanningTree, spanning_tree
from ldmaps.landmarks.spanning_tree import _grow_adopting, _grow_literal
from ldmaps.metrics import Euclidean, Periodic, Precomputed

GROWTHS = ("adopting", "literal")


class TestAdoptingContract(SelectorContract):
    def make(self, n_points):
        return PrunedSpanningTree()

    def make_all(self, n_points):
        return None


class TestLiteralContract(TestAdoptingContract):
    def make(self, n_points):
        return PrunedSpanningTree(growth="literal")


# -- eqns covering and connectivity --------------------------------------------


def connected_epsilon(metric, X):
    points = metric.prepare(X)
    return choose_bandwidth("connected", metric, points, np.ones(len(X)), np.random.default_rng(0)).epsilon


def check_covers_and_connects(landmarks, squares, epsilon):
    room = epsilon * (1 + 1e-6)
    assert (squares[:, landmarks.indices].min(axis=1) <= room).all()
    assert is_one_component(squares[np.ix_(landmarks.indices, landmarks.indices)], room)


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize(
    ("metric", "make", "oracle"),
    [(Euclidean(), sheet, euclidean_squares), (Periodic(), angles, periodic_squares)],
    ids=["euclidean", "periodic"],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_landmarks_cover_and_connect_at_the_connected_epsilon(growth, metric, make, oracle, dtype):
    for seed in range(12):
        X = make(140, seed, dtype)
        epsilon = connected_epsilon(metric, X)
        landmarks = run(PrunedSpanningTree(growth=growth), X, metric=metric, epsilon=epsilon, seed=seed)
        check_covers_and_connects(landmarks, oracle(X), epsilon)
        assert 2 <= len(landmarks.indices) < 140


@pytest.mark.parametrize("growth", GROWTHS)
def test_landmarks_cover_and_connect_with_many_features(growth):
    # Above 32 features blocks of distances come from matrix products, and single rows do not.
    for seed in range(4):
        X = np.random.default_rng(seed).standard_normal((120, 60)) + 100.0
        epsilon = connected_epsilon(Euclidean(), X)
        landmarks = run(PrunedSpanningTree(growth=growth), X, epsilon=epsilon, seed=seed)
        check_covers_and_connects(landmarks, euclidean_squares(X), epsilon)


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("factor", [2.0, 10.0, 1e6])
def test_landmarks_cover_and_connect_at_larger_epsilon(growth, factor):
    X = sheet(140, 1)
    epsilon = factor * connected_epsilon(Euclidean(), X)
    landmarks = run(PrunedSpanningTree(growth=growth), X, epsilon=epsilon)
    check_covers_and_connects(landmarks, euclidean_squares(X), epsilon)


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("seed", range(5))
def test_chain_keeps_all_but_its_ends(growth, seed):
    # A chain has one spanning tree, whose leaves are the two ends.
    order = np.random.default_rng(seed).permutation(90)
    landmarks = run(PrunedSpanningTree(growth=growth), order[:, None].astype(float), epsilon=1.0, seed=seed)
    np.testing.assert_array_equal(landmarks.indices, np.flatnonzero((order > 0) & (order < 89)))


def graph_distances(n, edges):
    distances = np.full((n, n), 2.0)
    np.fill_diagonal(distances, 0.0)
    for i, j in edges:
        distances[i, j] = distances[j, i] = 1.0
    return distances


@pytest.mark.parametrize("growth", GROWTHS)
def test_star_keeps_its_hub_and_one_leaf(growth):
    distances = graph_distances(6, [(4, leaf) for leaf in (0, 1, 2, 3, 5)])
    for seed in range(8):
        landmarks = run(
            PrunedSpanningTree(growth=growth), distances, metric=Precomputed(), epsilon=1.0, seed=seed
        )
        assert 4 in landmarks.indices
        assert len(landmarks.indices) == 2
        check_voronoi(landmarks, distances**2, np.ones(6))


# -- Algorithm 1 to the letter ---------------------------------------------------


def exact_literal_trees(n, edges):
    """Probability of every spanning tree under Algorithm 1, by following all of its choices."""
    probabilities = Counter()

    def grow(nodes, tree, probability):
        if len(nodes) == n:
            probabilities[tree] += probability
            return
        frontier = [edge for edge in edges if (edge[0] in nodes) != (edge[1] in nodes)]
        for edge in frontier:
            grow(nodes | set(edge), tree | {edge}, probability / len(frontier))

    for root in range(n):
        grow(frozenset([root]), frozenset(), Fraction(1, n))
    return probabilities


def exact_adopting_trees(n, edges):
    """Probability of every spanning tree when a random node of the rim adopts all neighbours outside."""
    neighbours = {i: {a + b - i for a, b in edges if i in (a, b)} for i in range(n)}
    probabilities = Counter()

    def grow(nodes, rim, tree, probability):
        if len(nodes) == n:
            probabilities[tree] += probability
            return
        for node in rim:
            children = neighbours[node] - nodes
            branches = {(min(node, child), max(node, child)) for child in children}
            grow(nodes | children, (rim - {node}) | children, tree | branches, probability / len(rim))

    for root in range(n):
        grow(frozenset([root]), frozenset([root]), frozenset(), Fraction(1, n))
    return probabilities


@pytest.mark.parametrize(
    ("grow", "exact"),
    [(_grow_literal, exact_literal_trees), (_grow_adopting, exact_adopting_trees)],
    ids=GROWTHS[::-1],
)
def test_trees_come_as_often_as_the_algorithm_says(grow, exact):
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4)]
    probabilities = exact(5, edges)
    assert sum(probabilities.values()) == 1
    metric = Precomputed()
    walk = Walk(metric, metric.prepare(graph_distances(5, edges)), np.ones(5), 1.0)
    rng = np.random.default_rng(12)
    draws = 4000
    counts = Counter()
    for _ in range(draws):
        parent = grow(walk, rng)
        counts[frozenset((min(i, p), max(i, p)) for i, p in enumerate(parent.tolist()) if p >= 0)] += 1
    assert set(counts) <= set(probabilities)
    trees = list(probabilities)
    expected = [float(probabilities[tree]) * draws for tree in trees]
    assert min(expected) > 5
    assert chisquare([counts[tree] for tree in trees], expected).pvalue > 0.01


def naive_algorithm_1(adjacent, rng):
    """Algorithm 1 of the paper with every set written out; returns the landmarks."""
    n = len(adjacent)
    nodes = {int(rng.integers(n))}
    degree = np.zeros(n, dtype=int)
    while len(nodes) < n:
        edges = [(u, v) for u in nodes for v in np.flatnonzero(adjacent[u]).tolist() if v not in nodes]
        m, new = edges[int(rng.integers(len(edges)))]
        nodes.add(new)
        degree[[m, new]] += 1
    return np.flatnonzero(degree > 1)


def test_literal_growth_gives_as_many_landmarks_as_algorithm_1():
    X = sheet(45, 3)
    squares = euclidean_squares(X)
    epsilon = 2.0 * connected_epsilon(Euclidean(), X)
    adjacent = (squares <= epsilon) & ~np.eye(45, dtype=bool)
    rng = np.random.default_rng(0)
    naive = [naive_algorithm_1(adjacent, rng) for _ in range(150)]
    ours = [
        run(PrunedSpanningTree(growth="literal"), X, epsilon=epsilon, seed=seed).indices
        for seed in range(150)
    ]
    counts = [[len(indices) for indices in runs] for runs in (naive, ours)]
    assert ttest_ind(*counts).pvalue > 0.01
    # How often each point is a landmark, too: central points far more often than those at the rim.
    often = [np.bincount(np.concatenate(runs), minlength=45) / 150 for runs in (naive, ours)]
    assert np.abs(often[0] - often[1]).max() < 5 * np.sqrt(0.5 / 150)
    assert np.corrcoef(*often)[0, 1] > 0.9
    assert np.ptp(often[0]) > 0.5


@pytest.mark.parametrize("factor", [1.0, 4.0, 16.0])
def test_literal_growth_leaves_about_half_whatever_the_density(factor):
    X = sheet(900, 0)
    epsilon = factor * connected_epsilon(Euclidean(), X)
    landmarks = run(PrunedSpanningTree(growth="literal"), X, epsilon=epsilon)
    assert 0.4 < len(landmarks.indices) / 900 < 0.6


def test_adopting_growth_has_far_fewer_and_fewer_still_as_epsilon_grows():
    X = sheet(900, 0)
    connecting = connected_epsilon(Euclidean(), X)
    adopting, literal = (
        [
            len(run(PrunedSpanningTree(growth=growth), X, epsilon=factor * connecting).indices)
            for factor in (1.0, 4.0, 16.0)
        ]
        for growth in GROWTHS
    )
    assert adopting[0] < 0.7 * literal[0]
    assert adopting[1] < literal[1] / 4
    assert adopting[2] < literal[2] / 10
    assert adopting[1] < 0.5 * adopting[0]
    assert adopting[2] < 0.5 * adopting[1]


# -- graphs that fall apart --------------------------------------------------------


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("seed", range(3))
def test_disconnected_data_say_how_they_fall_apart_and_what_joins_them(growth, seed):
    X = blobs((40, 25, 10), gap=5.0, seed=seed)
    squares = euclidean_squares(X)
    selector = PrunedSpanningTree(growth=growth)
    with pytest.raises(DisconnectedError) as caught:
        run(selector, X, epsilon=1.0, seed=seed)
    error = caught.value
    assert error.component_sizes == (40, 25, 10)
    assert np.bincount(component_labels(squares, 1.0)).max() == 40
    assert error.epsilon == 1.0
    assert "falls into 3 components (sizes in points: 40, 25, 10)" in str(error)
    assert f"at {error.joining_epsilon:.9g} hops of sqrt(epsilon) join all points" in str(error)

    joined = run(selector, X, epsilon=error.joining_epsilon, seed=seed)
    check_covers_and_connects(joined, squares, error.joining_epsilon)
    with pytest.raises(DisconnectedError) as caught:
        run(selector, X, epsilon=error.joining_epsilon * (1 - 1e-9), seed=seed)
    assert len(caught.value.component_sizes) == 2
    assert caught.value.joining_epsilon == error.joining_epsilon


@pytest.mark.parametrize("growth", ["Adopting", "random", None, 1])
def test_unknown_growth(growth):
    with pytest.raises(InvalidInputError, match='growth must be "adopting" or "literal", got ') as caught:
        run(PrunedSpanningTree(growth=growth), sheet(20, 0))
    assert repr(growth) in str(caught.value)


@pytest.mark.parametrize("parent", [[-1, 0, 1, 2, 3], [1, 2, -1, 2, 3, 0], [-1, 0, 0, 0, 1, 4]])
def test_nodes_with_two_neighbours_stay_whichever_is_the_root(parent, monkeypatch):
    edges = [(child, above) for child, above in enumerate(parent) if above != -1]
    degree = Counter(node for edge in edges for node in edge)
    inner = [node for node in range(len(parent)) if degree[node] > 1]
    assert spanning_tree._prune(np.array(parent)).tolist() == inner
    monkeypatch.setattr(spanning_tree, "_grow_adopting", lambda *_, **__: np.array(parent))
    assert spanning_tree._sampled_tree(None, None).tolist() == inner
