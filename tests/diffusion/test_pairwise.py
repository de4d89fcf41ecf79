import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from point_sets import angles, euclidean_squares, periodic_squares, sheet
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info, threadpool_limits

from ldmaps import threads
from ldmaps.diffusion import pairwise
from ldmaps.diffusion.solver_choice import sparse_squares
from ldmaps.diffusion.spectrum import multiply
from ldmaps.landmarks.base import neighbour_order
from ldmaps.metrics import Euclidean, Function, Periodic, Precomputed
from ldmaps.metrics.base import squared_matrix

N, M, K = 160, 37, 3
THREADS = (1, 2, 5)
#: (bytes a tile, most rows a tile): one row a tile, uneven tiles, and one tile for all.
CUTS = ((1, 256), (1 << 19, 7), (1 << 19, 64), (1 << 30, 1 << 20))
DTYPES = (np.float64, np.float32)
METRICS = {
    "euclidean": (Euclidean(), sheet, euclidean_squares),
    "periodic": (Periodic(), angles, periodic_squares),
}
#: Relative to the largest d², the error that a few roundings of the coordinates' differences may leave.
ROUNDING = {np.float64: 1e-14, np.float32: 5e-6}


class Case:
    """Points, landmarks and weights in one precision, with their naive distances."""

    def __init__(self, name="euclidean", dtype=np.float64, seed=0):
        self.metric, make, self.oracle = METRICS[name]
        rng = np.random.default_rng(seed)
        self.X, self.Z = make(N, seed, dtype), make(N, seed, dtype)[::4][:M]
        self.points, self.landmarks = self.metric.prepare(self.X), self.metric.prepare(self.Z)
        self.weights = rng.random(N) + 0.1
        self.sources = (rng.random(M) + 0.1).astype(dtype)
        self.coefficients = rng.standard_normal((K, M)).astype(dtype)
        self.epsilons = np.geomspace(0.01, 10.0, 7)

    def walks(self, n_threads=None):
        """The result of every walk, as a list of arrays."""
        metric, points, landmarks = self.metric, self.points, self.landmarks
        squared = squared_matrix(metric, points, n_threads=n_threads)
        extended = pairwise.extend(metric, points, landmarks, 0.2, self.sources, self.coefficients, n_threads)
        return {
            "squared": [squared.copy()],
            "rectangular": [squared_matrix(metric, points, landmarks, n_threads)],
            "nearest": [*pairwise.nearest(metric, points, landmarks, n_threads)],
            "near_pairs": [*pairwise.near_pairs(metric, points, 0.3, n_threads)],
            "distance_sums": [pairwise.distance_sums(metric, points, self.weights, n_threads)],
            "extend": [extended.coordinates, extended.nearest, extended.squared_distance],
            "multiply": [multiply(csr_array(squared), self.weights, n_threads or 2)],
            "kernel": [pairwise.gaussian_kernel(squared, 0.2, n_threads)],
            "kernel_curve": [*pairwise.kernel_curve(metric, points, self.weights, self.epsilons, n_threads)],
        }


def assert_identical(first, second, names=None):
    for name in names or first:
        for a, b in zip(first[name], second[name], strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=name, strict=True)


# -- against the definition ----------------------------------------------------------


@pytest.fixture(
    params=[(name, dtype) for name in METRICS for dtype in DTYPES], ids=lambda p: f"{p[0]}-{p[1].__name__}"
)
def case(request):
    return Case(*request.param)


def test_matrices_hold_the_distances(case):
    walks = case.walks()
    squares, to_landmarks = case.oracle(case.X), case.oracle(case.X, case.Z)
    room = ROUNDING[case.X.dtype.type] * squares.max()
    np.testing.assert_allclose(walks["squared"][0], squares, rtol=0, atol=room)
    np.testing.assert_allclose(walks["rectangular"][0], to_landmarks, rtol=0, atol=room)
    distances = case.metric.pairwise(case.X, case.Z)
    np.testing.assert_allclose(distances**2, to_landmarks, rtol=0, atol=2 * room)
    assert walks["squared"][0].dtype == distances.dtype == case.X.dtype


def test_square_matrix_is_symmetric_to_the_last_bit_and_zero_on_its_diagonal():
    # Sixty features take the way of matrix products, which does not round (i, j) as (j, i).
    X = np.random.default_rng(0).standard_normal((300, 60)).astype(np.float32) + 3.0
    squared = squared_matrix(Euclidean(), Euclidean().prepare(X))
    np.testing.assert_array_equal(squared, squared.T)
    assert (squared.diagonal() == 0).all()
    np.testing.assert_allclose(squared, euclidean_squares(X), rtol=1e-4)


def test_nearest_is_the_first_of_the_smallest(case):
    index, lowest = case.walks()["nearest"]
    squares = case.oracle(case.X, case.Z)
    np.testing.assert_array_equal(index, squares.argmin(axis=1))
    np.testing.assert_allclose(
        lowest, squares.min(axis=1), rtol=0, atol=ROUNDING[case.X.dtype.type] * squares.max()
    )
    twice = case.metric.prepare(np.concatenate([case.Z, case.Z]))
    np.testing.assert_array_equal(pairwise.nearest(case.metric, case.points, twice)[0], index)


def test_near_pairs_are_all_pairs_within_the_cutoff(case):
    starts, columns, squares = case.walks()["near_pairs"]
    naive = case.oracle(case.X)
    assert starts[0] == 0
    assert starts[-1] == len(columns) == len(squares) == np.count_nonzero(naive <= 0.3)
    for i in range(N):
        own = slice(starts[i], starts[i + 1])
        np.testing.assert_array_equal(columns[own], np.flatnonzero(naive[i] <= 0.3))
        np.testing.assert_allclose(squares[own], naive[i, columns[own]], rtol=1e-4, atol=1e-5)
    assert 0.01 < len(columns) / N**2 < 0.99


@pytest.mark.parametrize("cutoff", [0.0, 1e9])
def test_near_pairs_of_nothing_and_of_everything(cutoff):
    case = Case()
    starts, columns, squares = pairwise.near_pairs(case.metric, case.points, cutoff)
    if cutoff:
        np.testing.assert_array_equal(columns.reshape(N, N), np.tile(np.arange(N), (N, 1)))
    else:
        np.testing.assert_array_equal(columns, np.arange(N))
        assert not squares.any()
    np.testing.assert_array_equal(starts, np.arange(N + 1) * (N if cutoff else 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_squares_hold_every_pair_whose_kernel_is_above_rounding(dtype):
    case = Case(dtype=dtype)
    sparse = sparse_squares(case.metric, case.points, 0.01)
    naive = case.oracle(case.X)
    kernel = np.exp(-naive / 0.02)
    held = np.zeros((N, N), dtype=bool)
    held[np.repeat(np.arange(N), np.diff(sparse.indptr)), sparse.indices] = True
    rounding = np.finfo(dtype).eps
    assert held[kernel > rounding * 1.001].all()
    assert not held[kernel < rounding * 0.999].any()
    assert held.diagonal().all()
    assert 0.05 < held.mean() < 0.95
    np.testing.assert_allclose(sparse.toarray()[held], naive[held], rtol=1e-4, atol=1e-5)


def test_distance_sums_are_weighted_sums_of_distances(case):
    naive = np.sqrt(case.oracle(case.X)) @ case.weights
    rtol = 1e-12 if case.X.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(case.walks()["distance_sums"][0], naive, rtol=rtol)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("sizes", [[400], [1, 2, 300, 5, 0, 40, 52], [8] * 50, [300, 100], [100, 300]])
def test_distance_sums_within_groups(sizes, n_threads, monkeypatch):
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 200)
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(400, 3)), rng.random(400)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    metric = Euclidean()
    found = pairwise.distance_sums(metric, metric.prepare(X), weights, n_threads, bounds)
    distances = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    label = np.repeat(np.arange(len(sizes)), sizes)
    np.testing.assert_allclose(found, (distances * (label[:, None] == label)) @ weights, rtol=1e-12)


def test_kernel_curve_is_the_sum_of_the_kernel_and_its_slope(case):
    sums, slopes = case.walks()["kernel_curve"]
    squares = case.oracle(case.X)
    pairs = np.outer(case.weights, case.weights)
    rtol = 1e-11 if case.X.dtype == np.float64 else 1e-4
    for place, epsilon in enumerate(case.epsilons):
        kernel = pairs * np.exp(-squares / (2 * epsilon))
        assert sums[place] == pytest.approx(kernel.sum(), rel=rtol)
        assert slopes[place] == pytest.approx(
            (kernel * squares / (2 * epsilon)).sum() / kernel.sum(), rel=rtol
        )


def test_kernel_curve_has_no_trouble_with_bandwidths_of_any_size():
    case = Case()
    sums, slopes = pairwise.kernel_curve(case.metric, case.points, np.ones(N), np.array([1e-200, 1e200]))
    np.testing.assert_allclose(sums, [N, N**2], rtol=1e-12)
    np.testing.assert_allclose(slopes, [0.0, 0.0], atol=1e-100)


# -- the kernel ------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "lowest"), [(np.float64, -708.0), (np.float32, -87.0)])
def test_kernel_is_exp_to_the_last_places(dtype, lowest):
    rng = np.random.default_rng(0)
    exponents = np.concatenate(
        [
            np.linspace(0.0, -lowest * 0.999, 40_000),
            rng.random(20_000) * 1e-3,
            np.geomspace(np.finfo(dtype).tiny, 1.0, 2_000),
            np.arange(100) * np.log(2) / 2,
        ]
    )
    exponents = exponents[exponents < -lowest].astype(dtype)
    kernel = pairwise.gaussian_kernel(exponents[:, None].copy(), 0.5)[:, 0]  # rate 1
    assert kernel.dtype == dtype
    exact = np.exp(-exponents.astype(np.longdouble))
    ulps = np.abs(kernel - exact) / np.spacing(exact.astype(dtype))
    assert ulps.max() <= 1.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernel_at_its_ends(dtype):
    squared = np.array([[0.0, 1e3, 1e30, np.finfo(dtype).max]], dtype=dtype)
    kernel = pairwise.gaussian_kernel(squared, 0.5)
    assert kernel is squared
    np.testing.assert_array_equal(kernel, [[1.0, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("epsilon", [1e-6, 0.37, 1e6])
def test_kernel_takes_twice_epsilon(dtype, epsilon):
    squared = (np.random.default_rng(0).random((50, 40)) * 8 * epsilon).astype(dtype)
    expected = np.exp(-squared.astype(np.float64) / (2 * epsilon))
    rtol = 4e-15 if dtype == np.float64 else 2e-6
    np.testing.assert_allclose(pairwise.gaussian_kernel(squared.copy(), epsilon), expected, rtol=rtol)


# -- the extension -----------------------------------------------------------------------


def naive_extension(squares, epsilon, sources, coefficients):
    """Eqn nystrom_block, term by term, with B for C ψ / λ."""
    kernel = np.exp(-squares / (2 * epsilon))
    walk = kernel * sources / (kernel * sources).sum(axis=1, keepdims=True)
    return np.array([[sum(walk[i] * column) for column in coefficients] for i in range(len(squares))])


def test_extension_is_the_normalised_kernel_times_the_coefficients(case):
    coordinates, nearest, squared = case.walks()["extend"]
    squares = case.oracle(case.X, case.Z)
    expected = naive_extension(squares, 0.2, case.sources.astype(float), case.coefficients.astype(float))
    room = 1e-12 if case.X.dtype == np.float64 else 2e-4
    np.testing.assert_allclose(coordinates, expected, rtol=0, atol=room)
    np.testing.assert_array_equal(nearest, squares.argmin(axis=1))
    np.testing.assert_allclose(
        squared, squares.min(axis=1), rtol=0, atol=ROUNDING[case.X.dtype.type] * squares.max()
    )
    assert coordinates.dtype == squared.dtype == case.X.dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_points_far_from_all_landmarks_take_the_nearest_ones_value(dtype):
    case = Case(dtype=dtype)
    # So far that every kernel entry is zero by itself, and all but the nearest landmark's are beside it.
    far = case.Z[[3, 8]].astype(np.float64)
    far += 200.0 * (far - case.Z.mean(axis=0))
    squares = euclidean_squares(far.astype(dtype), case.Z)
    assert (np.exp(-squares / 2e-3) == 0).all()
    extended = pairwise.extend(
        case.metric,
        case.metric.prepare(far.astype(dtype)),
        case.landmarks,
        1e-3,
        case.sources,
        case.coefficients,
    )
    np.testing.assert_array_equal(extended.nearest, squares.argmin(axis=1))
    np.testing.assert_allclose(extended.coordinates, case.coefficients[:, extended.nearest].T, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_extension_keeps_constants_and_the_range_of_the_coefficients(dtype):
    case = Case(dtype=dtype)
    constant = np.full((1, M), 2.5, dtype=dtype)
    coefficients = np.ascontiguousarray(np.concatenate([constant, case.coefficients]))
    for epsilon in (1e-6, 0.1, 1e6):
        coordinates = pairwise.extend(
            case.metric, case.points, case.landmarks, epsilon, case.sources, coefficients
        ).coordinates
        np.testing.assert_allclose(coordinates[:, 0], 2.5, rtol=1e-6)
        slack = 1e-5
        assert (coordinates <= coefficients.max(axis=1) + slack).all()
        assert (coordinates >= coefficients.min(axis=1) - slack).all()


def test_scale_of_the_source_weights_cancels():
    case = Case()
    once, often = (
        pairwise.extend(
            case.metric, case.points, case.landmarks, 0.1, factor * case.sources, case.coefficients
        )
        for factor in (1.0, 1e-3)
    )
    np.testing.assert_allclose(often.coordinates, once.coordinates, rtol=1e-12, atol=1e-14)


# -- how the work is cut -------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", THREADS[1:])
def test_threads_change_no_bit(case, n_threads, monkeypatch):
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", 9)
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    assert_identical(case.walks(1), case.walks(n_threads))


@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("cut", CUTS, ids=["single rows", "seven", "sixty-four", "whole"])
def test_cuts_change_no_bit(case, cut, n_threads, monkeypatch):
    whole = case.walks(1)
    monkeypatch.setattr(threads, "TILE_BYTES", cut[0])
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", cut[1])
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    cut_up = case.walks(n_threads)
    # The curve is a sum over tiles, so there the cut may move the last digits.
    assert_identical(whole, cut_up, [name for name in whole if name != "kernel_curve"])
    for a, b in zip(whole["kernel_curve"], cut_up["kernel_curve"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_one_point_at_a_time_is_the_whole_batch(case):
    batch = case.walks()["extend"][0]
    for i in range(0, N, 13):
        alone = pairwise.extend(
            case.metric, case.points.take(np.array([i])), case.landmarks, 0.2, case.sources, case.coefficients
        )
        np.testing.assert_array_equal(alone.coordinates[0], batch[i])


def test_more_rows_than_a_mirrored_block():
    X = sheet(700, 0)
    squared = squared_matrix(Euclidean(), Euclidean().prepare(X), n_threads=2)
    np.testing.assert_allclose(squared, euclidean_squares(X), rtol=0, atol=1e-14 * 16)
    np.testing.assert_array_equal(squared, squared.T)


@pytest.mark.usefixtures("two_blas_threads")
def test_several_python_threads_may_walk_at_once(monkeypatch):
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", 5)
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    cases = [Case(seed=seed) for seed in range(4)]
    expected = [case.walks(1) for case in cases]
    together = threading.Barrier(8)

    def walk(place):
        together.wait()
        return [cases[place % 4].walks(n_threads) for n_threads in (2, 5, 1)]

    with ThreadPoolExecutor(8) as pool:
        for place, results in enumerate(pool.map(walk, range(8))):
            for result in results:
                assert_identical(expected[place % 4], result)
    assert set(blas_threads()) == {2}


def test_tiles_of_threads_do_not_share_their_scratch():
    scratch = pairwise._Scratch(4, 3, np.float64)
    mine = scratch.rows(4)
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(scratch.rows, 4).result()
    assert not np.shares_memory(mine, theirs)
    assert np.shares_memory(mine, scratch.rows(2))
    assert scratch.rows(2).shape == (2, 3)


def test_metric_may_walk_inside_a_walk(monkeypatch):
    # A distance between sets of points: each call measures distances with as many threads as the walk it is part of.
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", 3)
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    sets = np.random.default_rng(0).random((8, 5 * 2))

    def hausdorff(x, y):
        a, b = (Euclidean().prepare(points.reshape(5, 2)) for points in (x, y))
        between = np.sqrt(squared_matrix(Euclidean(), a, b, 2))
        return max(between.min(axis=0).max(), between.min(axis=1).max())

    metric = Function(hausdorff)
    points = metric.prepare(sets)
    serial = pairwise.nearest(metric, points, points, 1)[1]
    done = []
    worker = threading.Thread(
        target=lambda: done.append(squared_matrix(metric, points, metric.prepare(sets), 2)),
        daemon=True,
    )
    worker.start()
    worker.join(120)
    assert done, "walks inside a walk wait for each other"
    np.testing.assert_array_equal(done[0].diagonal(), serial)
    naive = max(
        np.sqrt(euclidean_squares(sets[0].reshape(5, 2), sets[1].reshape(5, 2))).min(axis=axis).max()
        for axis in (0, 1)
    )
    assert done[0][0, 1] == pytest.approx(naive**2, rel=1e-12)


def forked_walk(queue):
    case = Case()
    queue.put(squared_matrix(case.metric, case.points, case.landmarks, 2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_forked_child_makes_its_own_threads(monkeypatch):
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", 9)
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    case = Case()
    expected = squared_matrix(case.metric, case.points, case.landmarks, 2)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=forked_walk, args=(queue,))
    child.start()
    child.join(120)
    alive = child.is_alive()
    child.kill()
    assert not alive
    assert child.exitcode == 0
    np.testing.assert_array_equal(queue.get(), expected)


# -- errors, and what is left behind ---------------------------------------------------------


class TrapError(Exception):
    pass


def failing_at(index, calls):
    def distance(x, y):
        calls.append(int(x[0]))
        if int(x[0]) == index:
            raise TrapError(f"point {index}")
        return abs(float(x[0] - y[0]))

    return Function(distance)


@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("index", [0, 20, 59])
@pytest.mark.usefixtures("two_blas_threads")
def test_error_in_a_worker_reaches_the_caller_and_the_pool_survives(index, n_threads, monkeypatch):
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", 4)
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    X = np.arange(60.0)[:, None]
    metric = failing_at(index, [])
    with pytest.raises(TrapError, match=f"^point {index}$"):
        pairwise.nearest(metric, metric.prepare(X), metric.prepare(X[:3]), n_threads)
    assert set(blas_threads()) == {2}
    case = Case()
    assert_identical(case.walks(1), case.walks(n_threads))


def test_nothing_is_begun_after_an_error(monkeypatch):
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", 1)
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    rows_in_work = []
    failed = threading.Event()

    def distance(x, y):
        row = int(x[0])
        rows_in_work.append(row)
        if row == 1:
            failed.set()
            raise TrapError
        # The other rows begun beside the failing one go on only once it has failed and had time to say so.
        failed.wait(60)
        threading.Event().wait(0.5)
        return 0.0

    metric = Function(distance)
    X = np.arange(200.0)[:, None]
    with pytest.raises(TrapError):
        pairwise.nearest(metric, metric.prepare(X), metric.prepare(X[:1]), 2)
    begun = len(rows_in_work)
    assert begun <= 4
    threading.Event().wait(0.1)
    assert len(rows_in_work) == begun, "work goes on behind the caller's back"


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def set_blas_threads(count):
    # In a thread that ends at once: threadpoolctl leaves the say over BLAS to the thread that last set it.
    setter = threading.Thread(target=threadpool_limits, args=(count,), kwargs={"user_api": "blas"})
    setter.start()
    setter.join()


@pytest.fixture
def two_blas_threads():
    before = blas_threads()
    set_blas_threads(2)
    assert set(blas_threads()) == {2}
    yield
    set_blas_threads(before[0])


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_during_a_walk_and_its_own_number_after(n_threads, monkeypatch):
    monkeypatch.setattr(threads, "MAX_TILE_ROWS", 4)
    monkeypatch.setattr(threads, "MIN_TILE_ENTRIES", 1)
    seen = []

    def distance(x, y):
        seen.append(blas_threads())
        return 1.0

    metric = Function(distance)
    points = metric.prepare(np.arange(12.0)[:, None])
    pairwise.nearest(metric, points, points.take(slice(0, 1)), n_threads)
    assert set(blas_threads()) == {2}
    assert {count for counts in seen for count in counts} == {1}


def test_precomputed_distances_walk_like_any_other():
    case = Case()
    distances = np.sqrt(case.oracle(case.X))
    metric = Precomputed()
    points = metric.prepare(distances)
    landmarks = points.take(np.arange(0, N, 5))
    index, lowest = pairwise.nearest(metric, points, landmarks, 2)
    np.testing.assert_array_equal(index, distances[:, ::5].argmin(axis=1))
    np.testing.assert_allclose(lowest, (distances[:, ::5] ** 2).min(axis=1), rtol=1e-15)


# -- passing over what cannot matter -------------------------------------------------------


class PlainEuclidean(Euclidean):
    """Measures every landmark."""

    def extension_scan(self, landmarks, rate):
        return None

    def nearest_scan(self, a, b):
        return None


def scattered(n, features, dtype, seed=0):
    """Points of many small clusters, neighbours together."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=20.0, size=(40, features))
    points = centres[rng.integers(40, size=n)] + rng.normal(size=(n, features))
    return points[neighbour_order(euclidean_squares(points), 64)].astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", [1, 2, 3, 4, 7, 32])
@pytest.mark.parametrize("n_landmarks", [900, 2100])
def test_passing_over_far_landmarks_changes_no_bit(dtype, features, n_landmarks):
    metric, plain = Euclidean(), PlainEuclidean()
    landmarks = metric.prepare(scattered(n_landmarks, features, dtype))
    far = np.full((1, features), 500.0)
    points = metric.prepare(
        np.vstack([scattered(700, features, dtype, 1), landmarks.values[:50], far]), dtype
    )
    epsilon = 0.05 if features < 3 else 0.4
    rng = np.random.default_rng(2)
    weights = rng.gamma(1.0, size=n_landmarks).astype(dtype)
    coefficients = rng.normal(size=(3, n_landmarks)).astype(dtype)
    assert metric.extension_scan(landmarks, dtype(0.5 / epsilon)) is not None
    for batch in (points, points.take(slice(3, 4))):
        for n_threads in (1, 2):
            found = pairwise.extend(metric, batch, landmarks, epsilon, weights, coefficients, n_threads)
            expected = pairwise.extend(plain, batch, landmarks, epsilon, weights, coefficients, 1)
            for name in pairwise.Extended.__slots__:
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_landmarks_are_all_measured_where_most_are_near():
    metric = Euclidean()
    landmarks = metric.prepare(scattered(900, 3, np.float64))
    assert metric.extension_scan(landmarks, np.float64(0.5 / 0.4)) is not None
    assert metric.extension_scan(landmarks, np.float64(0.5 / 400.0)) is None
    shuffled = landmarks.take(np.random.default_rng(0).permutation(900))
    assert metric.extension_scan(shuffled, np.float64(0.5 / 0.4)) is None
    assert metric.extension_scan(metric.prepare(np.zeros((10, 40))), np.float64(1.0)) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 3), (700, 8), (513, 17), (3000, 1001)])
def test_the_nearest_of_few_features_is_the_first_among_equals(dtype, features, n, m):
    rng = np.random.default_rng(3)
    # A coarse lattice, so that many landmarks are equally near and many coincide.
    metric = Euclidean()
    a, b = (metric.prepare(rng.integers(0, 6, size=(size, features)).astype(dtype)) for size in (n, m))
    for n_threads in (1, 2):
        index, squared = pairwise.nearest(metric, a, b, n_threads)
        expected_index, expected = pairwise.nearest(PlainEuclidean(), a, b)
        np.testing.assert_array_equal(index, expected_index)
        np.testing.assert_array_equal(squared, expected)
    every = ((a.values[:, None].astype(float) - b.values[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(index, every.argmin(axis=1))
