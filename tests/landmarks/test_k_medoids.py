from itertools import combinations

import numpy as np
import pytest
from landmarks.contract import CountedSelectorContract, check_voronoi, run, same
from point_sets import angles, euclidean_squares, never_rises, periodic_squares, sheet
from scipy.stats import chisquare

from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError
from ldmaps.landmarks import KMedoids, k_medoids
from ldmaps.landmarks.base import assign
from ldmaps.metrics import Euclidean, Periodic

INITS = ("k-means++", "random")


class TestSpreadSeedsContract(CountedSelectorContract):
    def make_counted(self, n_landmarks):
        return KMedoids(n_landmarks)


class TestRandomSeedsContract(CountedSelectorContract):
    def make_counted(self, n_landmarks):
        return KMedoids(n_landmarks, init="random")


class TestUnmovedSeedsContract(CountedSelectorContract):
    def make_counted(self, n_landmarks):
        return KMedoids(n_landmarks, max_iter=0)


@pytest.mark.parametrize("n_moved", [1, 5, 20, 27, 28, 29, 39, 40])
@pytest.mark.parametrize("on_a_lattice", [False, True], ids=["scattered", "lattice"])
@pytest.mark.parametrize("seed", range(3))
def test_cells_of_landmarks_that_moved_are_those_made_anew(n_moved, on_a_lattice, seed):
    rng = np.random.default_rng(seed)
    X = sheet(400, seed)
    if on_a_lattice:  # many points equally near to several landmarks, and many that coincide
        X = np.round(4 * X)
    metric = Euclidean()
    walk = Walk(metric, metric.prepare(X), rng.gamma(1.0, size=400), 1.0, n_threads=2)
    indices = rng.choice(400, 40, replace=False)
    before = assign(walk, np.sort(indices))
    moved = before.indices.copy()
    free = np.setdiff1d(np.arange(400), moved)
    moved[rng.choice(40, n_moved, replace=False)] = rng.choice(free, n_moved, replace=False)
    order = np.argsort(moved)
    found = k_medoids._reassign(walk, before.in_order(order), moved[order])
    expected = assign(walk, moved[order])
    for name in ("indices", "assignment", "squared_distances", "multiplicities"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def loss(distances, indices, weights):
    return float(weights @ distances[:, indices].min(axis=1))


def naive_cost(distances, members, weights):
    """Σ_j w_j d(m, x_j) over a cell for each of its members m."""
    return {m: sum(weights[j] * distances[m, j] for j in members) for m in members}


def check_each_is_its_cells_medoid(landmarks, distances, weights):
    for cell, index in enumerate(landmarks.indices.tolist()):
        costs = naive_cost(distances, np.flatnonzero(landmarks.assignment == cell).tolist(), weights)
        assert costs[index] <= min(costs.values()) * (1 + 1e-5)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_loss_never_rises_and_falls_at_first(init, weighted):
    for seed in range(4):
        X = sheet(160, seed)
        weights = np.random.default_rng(seed).gamma(0.5, size=160) + 1e-3 if weighted else np.ones(160)
        distances = np.sqrt(euclidean_squares(X))
        # The same seed walks the same way, so runs that stop earlier are the later ones' history.
        history = [
            loss(
                distances,
                run(KMedoids(15, init=init, max_iter=k), X, weights=weights, seed=seed).indices,
                weights,
            )
            for k in range(9)
        ]
        assert never_rises(history, slack=1e-12)
        assert history[1] < history[0]


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("seed", range(4))
def test_every_landmark_is_the_medoid_of_its_cell(init, seed):
    X = sheet(160, seed)
    distances = np.sqrt(euclidean_squares(X))
    landmarks = run(KMedoids(15, init=init), X, seed=seed)
    check_each_is_its_cells_medoid(landmarks, distances, np.ones(160))
    # Stopped because nothing moved, not because it ran out of turns.
    assert same(landmarks, run(KMedoids(15, init=init, max_iter=101), X, seed=seed))


@pytest.mark.parametrize("seed", range(6))
def test_every_landmark_is_the_weighted_medoid_of_its_cell(seed):
    # A third as many landmarks as points leaves many cells of two, whose medoid is the heavier point.
    X = sheet(60, seed)
    weights = np.random.default_rng(seed).gamma(0.5, size=60) + 1e-3
    landmarks = run(KMedoids(20), X, weights=weights, seed=seed)
    assert 2 in np.bincount(landmarks.assignment)
    check_each_is_its_cells_medoid(landmarks, np.sqrt(euclidean_squares(X)), weights)


def test_every_landmark_is_the_medoid_of_its_cell_in_another_metric():
    X = angles(150, 4)
    distances = np.sqrt(periodic_squares(X))
    landmarks = run(KMedoids(12), X, metric=Periodic(), epsilon=1.0)
    check_each_is_its_cells_medoid(landmarks, distances, np.ones(150))


def test_medoid_is_not_the_point_nearest_to_the_mean():
    # Of 0, 1, 2, 3 and 1000 the medoid is 2; the mean is nearest to 3.
    X = np.array([[0.0], [1.0], [2.0], [3.0], [1000.0], [1e6], [1e6 + 1], [1e6 + 2]])
    for seed in range(5):
        assert run(KMedoids(2), X, epsilon=1.0, seed=seed).indices.tolist() == [2, 6]


@pytest.mark.parametrize("init", INITS)
def test_one_iteration_is_one_voronoi_step(init):
    X = sheet(120, 6)
    distances = np.sqrt(euclidean_squares(X))
    for seed in range(3):
        seeds = run(KMedoids(10, init=init, max_iter=0), X, seed=seed)
        expected = []
        for cell in range(10):
            costs = naive_cost(distances, np.flatnonzero(seeds.assignment == cell).tolist(), np.ones(120))
            expected.append(min(costs, key=costs.__getitem__))
        once = run(KMedoids(10, init=init, max_iter=1), X, seed=seed)
        np.testing.assert_array_equal(once.indices, sorted(expected))
        check_voronoi(once, distances**2, np.ones(120))
        assert not np.array_equal(once.indices, seeds.indices)


@pytest.mark.parametrize("init", INITS)
def test_integer_weights_are_repetition(init):
    X = sheet(70, 8)
    repeats = np.random.default_rng(8).integers(1, 6, size=70)
    origin = np.repeat(np.arange(70), repeats)
    landmarks = run(KMedoids(9, init=init), X, weights=repeats.astype(float))
    distances = np.sqrt(euclidean_squares(X))
    repeated = distances[np.ix_(origin, np.arange(70))]
    assert loss(distances, landmarks.indices, repeats.astype(float)) == pytest.approx(
        loss(repeated, landmarks.indices, np.ones(len(origin))), rel=1e-13
    )
    # In the repeated data set the same landmarks own the same cells and are their medoids.
    first_copy = np.searchsorted(origin, landmarks.indices)
    full = np.sqrt(euclidean_squares(X[origin]))
    assignment = full[:, first_copy].argmin(axis=1)
    np.testing.assert_array_equal(np.bincount(assignment), landmarks.multiplicities)
    for cell, index in enumerate(first_copy):
        members = np.flatnonzero(assignment == cell)
        sums = full[np.ix_(members, members)].sum(axis=1)
        assert full[index, members].sum() <= sums.min() * (1 + 1e-5)


def pair_counts(init, X, weights, draws):
    counts = dict.fromkeys(combinations(range(len(X)), 2), 0)
    for seed in range(draws):
        chosen = run(KMedoids(2, init=init, max_iter=0), X, epsilon=1.0, weights=weights, seed=seed)
        counts[tuple(chosen.indices.tolist())] += 1
    return np.array(list(counts.values()))


def test_spread_seeds_are_drawn_by_weighted_squared_distance():
    X = np.array([[0.0], [1.0], [3.0], [4.5]])
    weights = np.array([1.0, 2.0, 1.5, 0.5])
    squares = euclidean_squares(X)
    first = weights / weights.sum()
    second = squares * weights
    second /= second.sum(axis=1, keepdims=True)
    ordered = first[:, None] * second
    expected = np.array([ordered[i, j] + ordered[j, i] for i, j in combinations(range(4), 2)])
    counts = pair_counts("k-means++", X, weights, 2500)
    assert chisquare(counts, 2500 * expected).pvalue > 0.01
    # And the check can tell: the same without weights is refused.
    assert chisquare(pair_counts("k-means++", X, np.ones(4), 2500), 2500 * expected).pvalue < 1e-6


def test_random_seeds_are_drawn_uniformly():
    X = np.array([[0.0], [1.0], [3.0], [4.5]])
    counts = pair_counts("random", X, np.ones(4), 1500)
    assert chisquare(counts).pvalue > 0.01


def test_spread_seeds_start_closer_than_random_ones():
    X = np.concatenate([sheet(300, 1), sheet(20, 2) + 10.0])
    distances = np.sqrt(euclidean_squares(X))

    def start(init):
        return np.mean(
            [
                loss(
                    distances,
                    run(KMedoids(12, init=init, max_iter=0), X, epsilon=1.0, seed=seed).indices,
                    np.ones(320),
                )
                for seed in range(20)
            ]
        )

    assert start("k-means++") < 0.9 * start("random")


def test_seeds_find_every_one_of_well_separated_groups():
    X = np.concatenate([sheet(30, place) * 1e-3 + 10.0 * place for place in range(6)])
    for seed in range(10):
        landmarks = run(KMedoids(6), X, epsilon=1.0, seed=seed)
        np.testing.assert_array_equal(landmarks.indices // 30, np.arange(6))
        np.testing.assert_array_equal(landmarks.multiplicities, np.full(6, 30.0))


def test_more_landmarks_than_different_points():
    X = np.repeat(np.arange(4.0), 8)[:, None]
    for init in INITS:
        landmarks = run(KMedoids(10, init=init), X, epsilon=1.0)
        assert len(landmarks.indices) == 10
        check_voronoi(landmarks, euclidean_squares(X), np.ones(32))
    # Spread seeds take every different point before any of them twice.
    spread = run(KMedoids(4, max_iter=0), X, epsilon=1.0)
    assert sorted(X[spread.indices, 0]) == [0.0, 1.0, 2.0, 3.0]


def test_large_data_are_iterated_on_a_sample_and_counted_in_full(monkeypatch):
    X = sheet(400, 3)
    squares, weights = euclidean_squares(X), np.random.default_rng(3).random(400) + 0.1
    whole = run(KMedoids(10), X, weights=weights)
    monkeypatch.setattr(k_medoids, "MIN_SAMPLE", 50)
    monkeypatch.setattr(k_medoids, "SAMPLE_PER_LANDMARK", 12)
    for seed in range(3):
        sampled = run(KMedoids(10), X, weights=weights, seed=seed)
        check_voronoi(sampled, squares, weights)
        assert (np.diff(sampled.indices) > 0).all()
        distances = np.sqrt(squares)
        assert loss(distances, sampled.indices, weights) < 1.25 * loss(distances, whole.indices, weights)
    # Medoids of the sample, not of everything.
    with pytest.raises(AssertionError):
        check_each_is_its_cells_medoid(sampled, distances, weights)


@pytest.mark.parametrize("max_iter", [-1, 1.5, True, float("inf"), float("nan"), "ten", None])
def test_iterations_that_are_no_number(max_iter):
    with pytest.raises(
        InvalidInputError, match="max_iter must be a whole number of at least 0, got "
    ) as caught:
        run(KMedoids(5, max_iter=max_iter), sheet(30, 0))
    assert repr(max_iter) in str(caught.value)


@pytest.mark.parametrize("init", ["kmeans++", "", None, 3])
@pytest.mark.parametrize("count", [5, 30])
def test_unknown_seeding(init, count):
    with pytest.raises(InvalidInputError, match=r'init must be "k-means\+\+" or "random", got ') as caught:
        run(KMedoids(count, init=init), sheet(30, 0))
    assert repr(init) in str(caught.value)
