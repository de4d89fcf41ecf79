import numpy as np
import pytest
from point_sets import (
    angles,
    euclidean_squares,
    is_one_component,
    periodic_squares,
    sheet,
    smallest_connecting_epsilon,
)

from ldmaps.diffusion import bandwidth
from ldmaps.diffusion.bandwidth import choose_bandwidth
from ldmaps.diffusion.pairwise import kernel_curve
from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Euclidean, Periodic


def choose(rule, X, metric=None, weights=None, seed=0, n_threads=None):
    metric = Euclidean() if metric is None else metric
    weights = np.ones(len(X)) if weights is None else weights
    return choose_bandwidth(rule, metric, metric.prepare(X), weights, np.random.default_rng(seed), n_threads)


# -- connected ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "make", "oracle"),
    [(Euclidean(), sheet, euclidean_squares), (Periodic(), angles, periodic_squares)],
    ids=["euclidean", "periodic"],
)
@pytest.mark.parametrize("seed", range(4))
def test_connected_epsilon_is_the_smallest(metric, make, oracle, seed):
    X = make(150, seed)
    chosen = choose("connected", X, metric)
    squares = oracle(X)
    assert chosen.rule == "connected"
    assert chosen.dimension is None
    assert chosen.epsilon == pytest.approx(smallest_connecting_epsilon(squares), rel=1e-12)
    assert is_one_component(squares, chosen.epsilon * (1 + 1e-12))
    assert not is_one_component(squares, chosen.epsilon * (1 - 1e-12))
    assert chosen.tree.connecting_epsilon == chosen.epsilon


def test_connected_epsilon_of_a_chain_is_its_longest_step():
    steps = np.array([1.0, 3.0, 0.5, 2.0])
    X = np.concatenate([[0.0], np.cumsum(steps)])[:, None]
    assert choose("connected", X[[3, 0, 4, 1, 2]]).epsilon == 9.0


def test_all_points_the_same_leave_nothing_to_set_epsilon_by():
    with pytest.raises(InvalidInputError, match="all 7 points coincide, so epsilon cannot be chosen"):
        choose("connected", np.ones((7, 3)))


# -- the bulk ---------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "neighbours"), [(2, 1.0), (12, 5.5), (300, 20.0), (4000, 20.0)])
def test_the_bulk_reaches_half_a_percent_from_a_typical_point(n, neighbours):
    """By sorting all distances; 1,000 rows of 4,000 points are drawn at random."""
    X = sheet(n, 0)
    squares = np.sort(euclidean_squares(X), axis=1)
    below = int(neighbours)
    above = min(below + 1, n - 1)
    typical = squares[:, below] + (neighbours - below) * (squares[:, above] - squares[:, below])
    chosen = choose("bulk", X)
    assert chosen.rule == "bulk"
    assert chosen.epsilon == pytest.approx(np.median(typical), rel=1e-9 if n <= 1000 else 0.03)


@pytest.mark.parametrize("make", [sheet, lambda n, seed: np.random.default_rng(seed).standard_t(2, (n, 3))])
def test_disjoint_subsets_and_any_number_of_points_give_one_bulk(make):
    X = make(24_000, 3)
    found = [choose("bulk", part).epsilon for part in np.array_split(X, 4)]
    found += [choose("bulk", X[:count]).epsilon for count in (5000, 24_000)]
    assert max(found) < 1.2 * min(found)


@pytest.mark.parametrize("seed", range(3))
def test_halves_of_a_dense_and_a_sparse_cloud_have_one_unit_of_local_scales(seed):
    """Their median is that of the one or of the other, a thousand times apart."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(4000) < 0.5, 0.1, 3.0)[:, None] * rng.normal(size=(4000, 3))
    found = [choose("local", X[part::2]).epsilon for part in (0, 1)]
    assert max(found) < 1.6 * min(found)
    assert 0.1 * 0.1 < choose("local", X).epsilon < 0.5


def test_a_weight_is_so_many_copies_to_the_bulk():
    X = np.random.default_rng(5).normal(size=(6000, 3))
    weights = np.where(X[:, 0] > 0, 4.0, 1.0)
    copies = np.repeat(X, weights.astype(int), axis=0)
    weighted, repeated = choose("bulk", X, weights=weights).epsilon, choose("bulk", copies).epsilon
    assert weighted == pytest.approx(repeated, rel=0.08)
    assert choose("bulk", X).epsilon > 1.15 * weighted
    few = np.random.default_rng(6).integers(1, 5, size=300).astype(float)
    repeated = choose("bulk", np.repeat(X[:300], few.astype(int), axis=0)).epsilon
    assert choose("bulk", X[:300], weights=few).epsilon == pytest.approx(repeated, rel=1e-12)
    assert choose("bulk", X, weights=np.full(6000, 3.7)).epsilon == choose("bulk", X).epsilon


def test_the_bulk_takes_no_more_distances_of_more_points():
    class Counting(Euclidean):
        n_pairs = 0

        def squared_block(self, rows, chosen, columns, others, out):
            Counting.n_pairs += out.size
            super().squared_block(rows, chosen, columns, others, out)

    for n_points in (20_000, 400_000):
        Counting.n_pairs = 0
        choose("bulk", np.random.default_rng(0).normal(size=(n_points, 2)), Counting())
        assert 0 < Counting.n_pairs <= 4_000_000


def test_the_bulk_depends_on_no_seed_and_no_threads():
    X = sheet(5000, 1)
    assert choose("bulk", X, seed=1, n_threads=1).epsilon == choose("bulk", X, seed=2, n_threads=2).epsilon


def test_copies_do_not_make_the_bulk_a_point():
    X = np.repeat(np.arange(10.0), 50)[:, None]
    assert choose("bulk", X).epsilon == 1.0
    with pytest.raises(InvalidInputError, match="all 7 points coincide"):
        choose("bulk", np.ones((7, 3)))


# -- the log-log rule -------------------------------------------------------------------


def line(n, seed):
    t = np.random.default_rng(seed).random(n)
    return np.column_stack([t, 0.5 * t, -t])


def plane(n, seed):
    u, v = np.random.default_rng(seed).random((2, n))
    return np.column_stack([u + v, u - v, 0.3 * v, u])


def ball(n, seed):
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((n, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * rng.random((n, 1)) ** (1 / 3)


@pytest.mark.parametrize(
    ("make", "dimension"), [(line, 1), (plane, 2), (ball, 3)], ids=["line", "plane", "ball"]
)
def test_coifman_rule_finds_the_dimension(make, dimension):
    chosen = choose("coifman", make(800, dimension))
    assert chosen.rule == "coifman"
    assert chosen.dimension == pytest.approx(dimension, rel=0.2)
    assert chosen.dimension == 2 * chosen.curve_slopes.max()


def test_coifman_epsilon_is_where_the_curve_is_steepest():
    chosen = choose("coifman", plane(300, 0))
    grid, slopes = chosen.curve_epsilons, chosen.curve_slopes
    assert grid[0] < chosen.epsilon < grid[-1]
    step = np.log(grid[1] / grid[0])
    assert abs(np.log(chosen.epsilon / grid[slopes.argmax()])) <= 0.5 * step * (1 + 1e-9)
    # On a grid a hundred times finer, nowhere is it steeper than at the vertex, to the parabola's accuracy.
    points = Euclidean().prepare(plane(300, 0))
    fine = chosen.epsilon * np.exp(np.linspace(-1, 1, 101) * step)
    _, steepness = kernel_curve(Euclidean(), points, np.ones(300), fine)
    assert abs(np.log(fine[steepness.argmax()] / chosen.epsilon)) < 0.15 * step


def test_curve_runs_from_one_point_each_to_all_alike():
    weights = np.random.default_rng(1).random(300) + 0.2
    chosen = choose("coifman", plane(300, 1), weights=weights)
    share = weights / weights.sum()
    assert (np.diff(chosen.curve_sums) > 0).all()
    assert chosen.curve_sums[0] == pytest.approx((share**2).sum(), rel=0.2)
    assert chosen.curve_sums[-1] == pytest.approx(1.0, rel=0.1)
    assert len(chosen.curve_epsilons) == len(chosen.curve_sums) == len(chosen.curve_slopes)


def test_slope_is_the_derivative_of_the_curve():
    X = plane(250, 2)
    points, weights = Euclidean().prepare(X), np.random.default_rng(2).random(250) + 0.1
    epsilons = np.geomspace(1e-4, 10.0, 9)
    step = 1e-4
    _, slopes = kernel_curve(Euclidean(), points, weights, epsilons)
    above, _ = kernel_curve(Euclidean(), points, weights, epsilons * np.exp(step))
    below, _ = kernel_curve(Euclidean(), points, weights, epsilons * np.exp(-step))
    np.testing.assert_allclose(slopes, (np.log(above) - np.log(below)) / (2 * step), rtol=1e-6, atol=1e-10)
    assert np.ptp(slopes) > 0.5


@pytest.mark.parametrize("rule", ["connected", "coifman"])
@pytest.mark.parametrize("scale", [1e-3, 7.0, 1e4])
def test_epsilon_is_a_squared_length(rule, scale):
    X = sheet(200, 3)
    once, scaled = choose(rule, X), choose(rule, scale * X)
    assert scaled.epsilon == pytest.approx(scale**2 * once.epsilon, rel=1e-9)
    if rule == "coifman":
        assert scaled.dimension == pytest.approx(once.dimension, rel=1e-9)


def test_coifman_weights_are_repetition():
    X = plane(120, 4)
    repeats = np.random.default_rng(4).integers(1, 5, size=120)
    # The repeated set's grid is set by its own first rows, so the curves are compared through what they lead to.
    weighted, repeated = (
        choose("coifman", X, weights=repeats.astype(float)),
        choose("coifman", np.repeat(X, repeats, axis=0)),
    )
    assert weighted.epsilon == pytest.approx(repeated.epsilon, rel=1e-2)
    assert weighted.dimension == pytest.approx(repeated.dimension, rel=1e-3)
    assert abs(weighted.epsilon / choose("coifman", X).epsilon - 1) > 1e-3


def test_coifman_rule_looks_at_a_sample_of_large_data(monkeypatch):
    X = plane(800, 5)
    whole = choose("coifman", X)
    monkeypatch.setattr(bandwidth, "SAMPLED_POINTS", 300)
    first, same, other = (choose("coifman", X, seed=seed) for seed in (1, 1, 2))
    assert first.epsilon == same.epsilon != other.epsilon
    # Fewer points see a coarser picture, so ε may only be of the same order.
    assert 0.5 < first.epsilon / whole.epsilon < 5
    assert first.dimension == pytest.approx(whole.dimension, rel=0.2)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr("ldmaps.threads.MAX_TILE_ROWS", 11)
    X = sheet(200, 1)
    for rule in ("connected", "coifman"):
        alone, together = choose(rule, X, n_threads=1), choose(rule, X, n_threads=5)
        assert alone.epsilon == together.epsilon
        np.testing.assert_array_equal(alone.curve_sums, together.curve_sums)


def test_coifman_rule_with_duplicates():
    X = np.repeat(plane(80, 6), 3, axis=0)
    assert choose("coifman", X).epsilon > 0
    assert np.isfinite(choose("coifman", X).curve_slopes).all()


def test_coifman_rule_without_any_scale():
    with pytest.raises(
        InvalidInputError, match="the 9 sampled points all coincide, .*pass epsilon as a number"
    ):
        choose("coifman", np.ones((9, 2)))


# -- numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2.5, 3, np.float32(0.5), np.int64(4), 1e-300])
def test_number_is_taken_as_it_is(number):
    chosen = choose(number, sheet(10, 0))
    assert chosen.epsilon == number
    assert type(chosen.epsilon) is float
    assert chosen.rule == "given"
    assert chosen.tree is None


@pytest.mark.parametrize(
    "rule",
    [0, -1.0, float("nan"), float("inf"), True, None, "Connected", "", "1.0", [1.0], 1j, np.array([1.0])],
    ids=repr,
)
def test_neither_rule_nor_positive_number(rule):
    with pytest.raises(
        InvalidInputError,
        match='epsilon must be "bulk", "local", "connected", "coifman" or a positive number, got ',
    ) as caught:
        choose(rule, sheet(10, 0))
    assert repr(rule) in str(caught.value)
