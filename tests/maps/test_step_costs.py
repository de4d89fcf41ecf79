"""What a step says it costs is what it does: work counted, and memory traced, in real steps.

A step whose cost forgets a term, or counts one twice, is found where that term dominates.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ldmaps import threads
from ldmaps.costs import Cost, DataSize
from ldmaps.datasets import swiss_roll
from ldmaps.diffusion import spectrum
from ldmaps.diffusion.bandwidth import bandwidth_cost, choose_bandwidth
from ldmaps.diffusion.connectivity import minimum_spanning_tree, spanning_tree_cost
from ldmaps.diffusion.pairwise import extend, extension_cost, squared_matrix, squared_matrix_cost
from ldmaps.diffusion.spectrum import solve_spectrum, spectrum_cost
from ldmaps.diffusion.walk import Walk
from ldmaps.extension import Distilled, Nystrom, distilled, least_squares, tuning
from ldmaps.landmarks import FarthestPoint, Given, KMedoids, PrunedSpanningTree, Uniform
from ldmaps.landmarks.base import assign
from ldmaps.landmarks.grouping import group_neighbours, grouping_cost
from ldmaps.maps.exact_map import Limits
from ldmaps.maps.reference_map import reference_cost
from ldmaps.maps.solved_map import solve, solve_cost
from ldmaps.maps.tolerance import numbers_tried
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.metrics.stored import StoredPoints, StoredSquares


class Counting(Euclidean):
    """Euclidean distances that all go through blocks, and are counted there."""

    is_euclidean = False

    def __init__(self):
        self.done = Counter()

    def squared_block(self, a, rows, b, cols, out):
        height, width = rows.stop - rows.start, cols.stop - cols.start
        if height == 1:
            self.done += Counter(rows=1, row_distances=width)
        else:
            self.done += Counter(distances=height * width)
        super().squared_block(a, rows, b, cols, out)

    def squares_gradient(self, landmarks):
        gradient = super().squares_gradient(landmarks)
        add_up = gradient.add_up

        def counted(X, squared, shares, out):
            self.done += Counter(distances=distilled.GRADIENT_DISTANCES * squared.size)
            add_up(X, squared, shares, out)

        gradient.add_up = counted
        return gradient

    def nearest_scan(self, a, b):
        return None

    def extension_scan(self, landmarks, rate):
        return None

    def group_distance_sums(self, points, bounds, weights, sums):
        self.done += Counter(distances=int((np.diff(bounds) ** 2).sum()))
        super(Euclidean, self).group_distance_sums(points, bounds, weights, sums)
        self.done -= Counter(distances=int((np.diff(bounds) ** 2).sum()))  # its blocks have been counted

    def total(self):
        return self.done["distances"] + self.done["row_distances"]


def size_of(points):
    """The size of points, read off their arrays."""
    if hasattr(points, "columns"):
        n_features, n_bytes = len(points.columns), points.columns.nbytes
    else:
        n_features, n_bytes = points.panels.shape[1], points.panels.nbytes + points.moments.nbytes
    return DataSize(len(points), n_features, n_bytes / len(points), 0.0, points.dtype.itemsize)


def total(cost):
    return cost.distances + cost.row_distances


ROLL = swiss_roll(4000, random_state=0).points


def select(selector, X, epsilon=4.0):
    metric = Counting()
    points = metric.prepare(X)
    walk = Walk(metric, points, np.ones(len(X)), epsilon, n_threads=1)
    landmarks = selector.select(walk, np.random.default_rng(0))
    return metric, selector.cost(size_of(points), len(landmarks.indices))


# -- work ------------------------------------------------------------------------


@pytest.mark.parametrize("m", [5, 200])
def test_landmarks_that_are_drawn_or_given_cost_their_assignment(m):
    for selector in (Uniform(m), Given(np.arange(m))):
        metric, cost = select(selector, ROLL)
        assert cost.distances == metric.total() == m * len(ROLL)
        assert cost.row_distances == cost.rows == 0


def test_farthest_points_cost_a_row_each():
    metric, cost = select(FarthestPoint(30), ROLL)
    assert cost.rows == metric.done["rows"] == 30
    assert cost.row_distances == metric.done["row_distances"]
    assert cost.distances == metric.done["distances"]


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_seeds_and_one_assignment(init):
    # Without an iteration nothing is left to guess. The last seeds are compared with no other.
    metric, cost = select(KMedoids(100, init=init, max_iter=0), ROLL)
    assert cost.distances == pytest.approx(metric.total(), rel=0.12)
    assert cost.distances > metric.total() - 1


@pytest.mark.parametrize("m", [4, 60, 300, 1500])
def test_iterations_of_medoids(m):
    # With few landmarks it is the cells that cost, with many the assignment.
    metric, cost = select(KMedoids(m), ROLL)
    assert metric.total() / 2 < cost.distances < 2 * metric.total()


def test_medoids_of_many_points_come_from_a_sample():
    X = np.random.default_rng(0).normal(size=(120_000, 5))
    metric, cost = select(KMedoids(20), X)
    assert metric.total() / 2 < cost.distances < 2 * metric.total()
    sampled = KMedoids(20).cost(size_of(Euclidean().prepare(X[:50_000])), 20)
    assert cost.distances == pytest.approx(sampled.distances + 120_000 * 20)


def test_spanning_trees_cost_the_rows_of_the_nodes_that_are_asked():
    metric, cost = select(PrunedSpanningTree(growth="literal"), ROLL[:1500], 9.0)
    assert cost.rows == pytest.approx(metric.done["rows"], rel=0.01)
    assert total(cost) == pytest.approx(metric.total(), rel=0.15)
    metric, cost = select(PrunedSpanningTree(), ROLL, 4.0)
    assert metric.done["rows"] / 2 < cost.rows < 2 * metric.done["rows"]
    assert metric.total() / 2.5 < total(cost) < 2.5 * metric.total()


def test_the_tree_that_connects_costs_a_row_a_point():
    metric = Counting()
    points = metric.prepare(ROLL)
    minimum_spanning_tree(metric, points)
    cost = spanning_tree_cost(metric, size_of(points))
    assert cost.rows == pytest.approx(metric.done["rows"], rel=0.01)
    assert cost.row_distances == pytest.approx(metric.done["row_distances"], rel=0.03)
    few = size_of(points).of(1500)
    assert bandwidth_cost("connected", metric, few) == spanning_tree_cost(metric, few)
    assert bandwidth_cost("connected", metric, size_of(points)).rows == 0


def test_a_spatial_tree_joins_every_point_once():
    roll = Euclidean().prepare(np.tile(ROLL, (2, 1)))
    assert spanning_tree_cost(Euclidean(), size_of(roll)).tree_points == 8000
    wide = DataSize(8000, 20, 80.0, 0.0, 4)
    assert spanning_tree_cost(Euclidean(), wide).row_distances > 3e7


def test_kept_distances_are_looked_up():
    data = DataSize(3000, 3, 8.0, 0.0, 4)
    cost = spanning_tree_cost(StoredSquares(), data)
    assert cost.row_distances == 0
    assert cost.kernel_bytes == 3 * data.matrix_bytes
    assert cost.rows == 3000


def test_the_log_log_rule_looks_at_a_sample():
    metric = Counting()
    X = np.random.default_rng(0).uniform(size=(5000, 2))
    points = metric.prepare(X)
    choose_bandwidth("coifman", metric, points, np.ones(5000), np.random.default_rng(0), 1)
    cost = bandwidth_cost("coifman", metric, size_of(points))
    assert cost.distances == pytest.approx(metric.total(), rel=0.05)
    assert cost.weights == 96 * 4000**2
    assert bandwidth_cost("coifman", metric, size_of(points).of(100)).distances == 100**2
    # Of few points the tree is made too.
    assert cost.rows == 0
    assert bandwidth_cost("coifman", metric, size_of(points).of(4000)).rows == 4000


def test_a_number_costs_nothing():
    assert bandwidth_cost(0.5, Euclidean(), DataSize(10**6, 3, 12.0, 0.0, 4)) == Cost()


def test_distances_among_points_are_measured_by_halves():
    metric = Counting()
    points = metric.prepare(ROLL)
    squared_matrix(metric, points, n_threads=1)
    assert squared_matrix_cost(size_of(points)).distances == pytest.approx(metric.total(), rel=0.05)
    metric.done.clear()
    walk = Walk(metric, points, np.ones(4000), 1.0, n_threads=1)
    landmarks = assign(walk, np.arange(0, 4000, 8))
    metric.done.clear()
    group_neighbours(landmarks, walk)
    assert grouping_cost(size_of(points), 500).distances == pytest.approx(metric.total(), rel=0.15)


def test_embedding_costs_every_landmark():
    metric = Counting()
    points = metric.prepare(ROLL)
    few = points.take(slice(0, 70))
    extend(metric, points, few, 1.0, np.ones(70), np.ones((2, 70)), 1)
    assert extension_cost(size_of(points), 70, 2).landmark_shares == metric.total()


def test_products_of_the_eigensolver(monkeypatch):
    read = []
    real = spectrum.symmetric_product
    monkeypatch.setattr(
        spectrum, "symmetric_product", lambda matrix, *rest: read.append(matrix.nbytes) or real(matrix, *rest)
    )
    kernel = np.exp(-euclidean_squares(ROLL[:1500]) / 8.0)
    solve_spectrum(kernel, np.ones(1500), 12)
    cost = spectrum_cost(DataSize(1500, 3, 24.0, 0.0, 8), 12)
    assert sum(read) / 3 < cost.kernel_bytes < 3 * sum(read)
    assert cost.multiplications == 0
    small = spectrum_cost(DataSize(300, 3, 24.0, 0.0, 8), 12)
    assert small.kernel_bytes == 0
    assert 300**3 < small.multiplications < 20 * 300**3


def euclidean_squares(X):
    return ((X[:, None] - X[None]) ** 2).sum(axis=2)


class Counted:
    """Weights and products of a distillation, counted."""

    def __init__(self, monkeypatch):
        self.done = Counter()
        weights, product = tuning.interpolation_weights, tuning.transposed_product
        gradient = tuning.weight_gradient

        def count_weights(squared, *rest):
            self.done["weights"] += squared.size
            return weights(squared, *rest)

        def count_product(left, right, *rest):
            self.done["multiplications"] += left.size * right.shape[1]
            return product(left, right, *rest)

        def count_gradient(own, *rest, **settings):
            self.done["weights"] += own.size
            return gradient(own, *rest, **settings)

        for module in (least_squares, tuning):
            monkeypatch.setattr(module, "interpolation_weights", count_weights)
            monkeypatch.setattr(module, "transposed_product", count_product)
        monkeypatch.setattr(tuning, "weight_gradient", count_gradient)


@pytest.fixture(scope="module")
def reference():
    metric = Counting()
    return solve(Walk(metric, metric.prepare(ROLL), np.ones(4000), 4.0, n_threads=1), 3)


@pytest.mark.parametrize("m", [30, 150, 700])
def test_a_distillation(reference, monkeypatch, m):
    # Few landmarks are tuned, step after step; many are only fitted.
    metric, points = reference.walk.metric, reference.points
    landmarks = assign(reference.walk, np.arange(m) * (4000 // m))
    metric.done.clear()
    counted = Counted(monkeypatch)
    Distilled().fit(reference, landmarks, np.arange(4000), np.random.default_rng(0))
    cost = Distilled().cost(size_of(points), m, 3, 4000)
    assert metric.total() / 2.5 < cost.distances < 2.5 * metric.total()
    assert counted.done["weights"] / 2.5 < cost.weights < 2.5 * counted.done["weights"]
    assert (
        counted.done["multiplications"] / 2.5 < cost.multiplications < 2.5 * counted.done["multiplications"]
    )
    assert cost.landmark_shares == 0


def test_nystrom_costs_nothing_beside_its_teacher():
    assert Nystrom().cost(DataSize(10**6, 3, 12.0, 0.0, 4), 500, 2, 0) == Cost()


def test_solving_costs_the_kernel_and_what_is_not_given():
    data = DataSize(3000, 3, 12.0, 7.0, 4)
    given, computed = (solve_cost(data, 6, has_squares=has_squares) for has_squares in (True, False))
    assert given.distances == 0
    assert computed.distances == 3000**2 / 2
    assert given.exponentials == computed.exponentials == 3000**2
    assert given.kernel_bytes == computed.kernel_bytes == spectrum_cost(data, 6).kernel_bytes
    assert given.memory == spectrum_cost(data, 6).memory
    assert computed.memory == given.memory + data.matrix_bytes + 3000 * 7


def test_rows_that_the_reference_does_not_hold_are_embedded_by_it():
    data = DataSize(100_000, 3, 12.0, 0.0, 4)
    assert Distilled().cost(data, 50, 2, 5000).landmark_shares == 10_000 * 5000
    assert Distilled().cost(data, 2000, 2, 5000).landmark_shares == 40_000 * 5000


def test_a_reference_over_medoids_costs_their_choice_and_their_kernel():
    data = DataSize(100_000, 3, 12.0, 0.0, 4)
    cost = reference_cost(data, 5000, 6)
    medoids = KMedoids(5000, max_iter=3).cost(data, 5000)
    rows = 2000 * 100_000  # which tell its error
    assert cost.distances == pytest.approx(medoids.distances + 5000**2 / 2 + rows)
    assert cost.exponentials == 5000**2 + rows
    assert cost.landmark_shares == 100_000 * 5000
    assert cost.kernel_bytes == spectrum_cost(data.of(5000), 6).kernel_bytes > 0
    exact = reference_cost(data.of(5000), 5000, 6)
    assert exact.distances == 0
    assert (exact.exponentials, exact.kernel_bytes) == (5000**2, cost.kernel_bytes)


def test_a_reference_in_passes_costs_all_pairs_each_time():
    data = DataSize(100_000, 3, 12.0, 0.0, 4)
    one, two, many = (
        reference_cost(data, 100_000, 6, Limits(4e9, passes), n_threads=2) for passes in (1, 2, 50)
    )
    pairs = 100_000**2 / 2
    for cost, count in ((one, 1), (two, 2), (many, 3)):
        assert cost.exponentials == count * pairs
        assert cost.multiplications == count * 2 * pairs * 16
    assert two.distances - one.distances == pytest.approx(pairs)
    # The start has two blocks of 16, and every pass adds one; five blocks of 32 and two more for a thread come on top.
    for cost, blocks in ((one, 3), (two, 4), (many, 5)):
        assert cost.memory == 8 * 100_000 * (3 * blocks * 16 + (5 + 2 * 2) * 32)


@pytest.mark.parametrize("limit", [2.1e9, 4e9, 64e9])
@pytest.mark.parametrize("n_threads", [1, 64])
def test_passes_keep_the_memory_limit(limit, n_threads):
    """A million points: the basis has as many vectors, and the solver as many threads, as there is room for."""
    data = DataSize(1_000_000, 3, 12.0, 0.0, 4)
    cost = reference_cost(data, 1_000_000, 6, Limits(limit, 3), n_threads=n_threads)
    assert cost.memory <= limit
    if limit == 64e9:
        assert cost.memory == 8e6 * (3 * 5 * 16 + (5 + 2 * n_threads) * 32)


def test_the_search_for_a_tolerance_is_the_search():
    tried = numbers_tried(45, fewest=8, most=500)
    assert tried[:4] == [8, 16, 32, 64]
    assert all(32 < count < 64 for count in tried[4:])
    assert min(count for count in tried if count >= 45) <= 1.1 * 45


# -- memory ----------------------------------------------------------------------


def traced(work):
    work()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def near(cost, measured, room=1.5):
    assert measured / room < cost.memory < room * measured, f"{cost.memory / 1e6} of {measured / 1e6} MB"


def frames(n, atoms):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(atoms, 3)) + 0.3 * rng.normal(size=(n, atoms, 3))).astype(np.float32)


SETS = {
    "small points": (Euclidean(), np.random.default_rng(0).uniform(size=(200_000, 2))),
    "large points": (RMSD(), frames(400, 2000)),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("selector", [KMedoids(20), Uniform(20), FarthestPoint(20)], ids=lambda s: s.name)
def test_memory_of_choosing_landmarks(selector, name):
    metric, X = SETS[name]
    points = metric.prepare(X)
    walk = Walk(metric, points, np.ones(len(X)), 1.0, n_threads=1)
    measured = traced(lambda: selector.select(walk, np.random.default_rng(0)))
    if measured > 3e6:
        near(selector.cost(size_of(points), 20), measured)
    else:  # next to nothing beside the points themselves
        assert selector.cost(size_of(points), 20).memory < 3e6


@pytest.mark.parametrize("name", SETS)
def test_memory_of_the_spanning_tree(name):
    metric, X = SETS[name]
    points = metric.prepare(X)
    near(spanning_tree_cost(metric, size_of(points)), traced(lambda: minimum_spanning_tree(metric, points)))


def test_memory_of_the_spanning_tree_of_kept_distances():
    squared = euclidean_squares(ROLL[:1500])
    points = StoredPoints(squared)
    measured = traced(lambda: minimum_spanning_tree(StoredSquares(), points))
    near(spanning_tree_cost(StoredSquares(), DataSize(1500, 3, 8.0, 0.0, 8)), measured)


def test_memory_of_the_log_log_rule():
    # A sample is a copy, all points are none; comparing them adds what comparing adds.
    large = DataSize(10_000, 300, 1200.0, 500.0, 4)
    assert bandwidth_cost("coifman", RMSD(), large).memory == 4000 * 1700
    few = large.of(3000)
    assert bandwidth_cost("coifman", RMSD(), replace(few, point_bytes=0.0)).memory == 3000 * 500
    assert bandwidth_cost("coifman", RMSD(), few).memory == spanning_tree_cost(RMSD(), few).memory


def test_memory_of_growing_a_tree_of_large_points():
    metric, X = SETS["large points"]
    points = metric.prepare(X)
    epsilon = 1.01 * minimum_spanning_tree(metric, points).connecting_epsilon
    walk = Walk(metric, points, np.ones(400), epsilon, n_threads=1)
    measured = traced(lambda: PrunedSpanningTree().select(walk, np.random.default_rng(0)))
    near(PrunedSpanningTree().cost(size_of(points), 20), measured, 2.0)


@pytest.mark.parametrize("n", [300, 2000])
def test_memory_of_distances_and_spectrum(n):
    metric = Counting()
    points = metric.prepare(ROLL[:n])
    near(squared_matrix_cost(size_of(points)), traced(lambda: squared_matrix(metric, points, n_threads=1)))
    kernel = np.exp(-squared_matrix(metric, points) / 8.0)
    measured = traced(lambda: solve_spectrum(kernel, np.ones(n), 12, n_threads=1))
    near(spectrum_cost(size_of(points), 12), measured)


def test_memory_of_embedding():
    metric, X = SETS["small points"]
    points = metric.prepare(X)
    few = points.take(slice(0, 40))
    measured = traced(lambda: extend(metric, points, few, 1.0, np.ones(40), np.ones((3, 40)), 1))
    near(extension_cost(size_of(points), 40, 3), measured)


@pytest.mark.parametrize("m", [30, 150, 1500])
def test_memory_of_a_distillation(reference, m):
    points = reference.points
    landmarks = assign(reference.walk, np.arange(m) * (4000 // m))
    measured = traced(
        lambda: Distilled().fit(reference, landmarks, np.arange(4000), np.random.default_rng(0))
    )
    near(Distilled().cost(size_of(points), m, 3, 4000), measured)


def test_memory_of_large_points_while_distilling():
    # The rows are taken, then split into those fitted to and those held out.
    data = DataSize(10_000, 6000, 24_000.0, 0.0, 4)
    assert Distilled().cost(data, 20, 2, 10_000).memory > 1.1 * data.points_bytes
    assert Distilled().cost(data.of(20_000), 20, 2, 20_000).memory > 2.1 * data.points_bytes


def test_memory_of_chunks_of_large_points_while_distilling():
    # 40,000 rows in chunks of 8388, taken and split; their weights, and three matrices of the normal equations.
    data = DataSize(40_000, 6000, 24_000.0, 0.0, 4)
    chunk = 8388 * (24_000 + 2000 * 12)
    assert Distilled().cost(data, 2000, 2, 40_000).memory == pytest.approx(
        data.points_bytes + chunk + 24 * 2000**2, rel=0.02
    )


def test_memory_of_seeds_alone():
    data = DataSize(9000, 6000, 24_000.0, 0.0, 4)
    assert KMedoids(10, max_iter=0).cost(data, 10).memory == 5000 * 24_000
    assert KMedoids(10, max_iter=0, init="random").cost(data, 10).memory < 1e6


def test_copies_that_comparing_adds_are_counted():
    plain, centred = DataSize(5000, 100, 400.0, 0.0, 4), DataSize(5000, 100, 400.0, 400.0, 4)
    added = 5000 * 400.0
    assert squared_matrix_cost(centred).memory == squared_matrix_cost(plain).memory + added
    assert KMedoids(10).cost(centred, 10).memory == KMedoids(10).cost(plain, 10).memory + added
    assert reference_cost(centred, 2000, 4).memory >= reference_cost(plain, 2000, 4).memory + 2000 * 400


def test_memory_of_a_reference_over_medoids():
    data = DataSize(10_000, 3, 12.0, 0.0, 4)
    kernel = data.of(4000).matrix_bytes
    assert kernel < reference_cost(data, 4000, 6).memory < 1.4 * kernel
    large = DataSize(10_000, 6000, 24_000.0, 0.0, 4)
    assert reference_cost(large, 4000, 6).memory > kernel + large.of(4000).points_bytes
    assert reference_cost(data.of(4000), 4000, 6).memory == spectrum_cost(data.of(4000), 6).memory


def test_a_few_rows_are_no_tile():
    """The counting of rows above rests on tiles having more than one."""
    assert threads.tile_rows(1500, 8, 4000) > 1
