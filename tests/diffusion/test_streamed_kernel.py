"""Products with a kernel that is never stored are those with the stored one."""

import pickle
import tracemalloc

import numpy as np
import pytest
from point_sets import angles, sheet

from ldmaps.diffusion import streamed_kernel
from ldmaps.diffusion.pairwise import gaussian_kernel
from ldmaps.diffusion.streamed_kernel import PartialProduct, StreamedKernel
from ldmaps.metrics import RMSD, Euclidean, Periodic
from ldmaps.metrics.base import squared_matrix


def molecules(n, seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(7, 3)) + 0.4 * rng.normal(size=(n, 7, 3))).astype(dtype)


def wide(n, seed, dtype=np.float64):
    """More features than are compared column by column, so that distances come from products."""
    return (sheet(n, seed) @ np.random.default_rng(9).normal(size=(3, 40))).astype(dtype)


CASES = {
    "euclidean": (Euclidean(), sheet, 0.1),
    "wide": (Euclidean(), wide, 3.0),
    "rmsd": (RMSD(), molecules, 0.1),
    "weighted rmsd": (RMSD(weights=np.arange(7)), molecules, 0.1),
    "aligned rmsd": (RMSD(superpose_on=[0, 1, 2, 3]), molecules, 0.2),
    "periodic": (Periodic(), angles, 0.3),
}


def kernel_of(name, n, dtype=np.float64, seed=0):
    metric, make, epsilon = CASES[name]
    return StreamedKernel(metric, metric.prepare(make(n, seed, dtype)), epsilon)


def stored(kernel):
    return gaussian_kernel(squared_matrix(kernel.metric, kernel.points), kernel.epsilon)


@pytest.fixture
def small_cuts(monkeypatch):
    """Tiles and bands so small that a few hundred points fall into many."""
    monkeypatch.setattr(streamed_kernel, "TILE_ROWS", 24)
    monkeypatch.setattr(streamed_kernel, "TILE_COLUMNS", 40)
    monkeypatch.setattr(streamed_kernel, "MIN_BAND_ROWS", 16)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [name for name in CASES if name != "wide"])
def test_entries_are_those_of_the_stored_kernel_to_the_bit(name, dtype, small_cuts):
    kernel = kernel_of(name, 150, dtype)
    np.testing.assert_array_equal(kernel.product(np.eye(150)), stored(kernel))


@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 511, 512, 513, 1025, 1400])
def test_sizes_beside_and_at_the_cuts(n):
    kernel = kernel_of("euclidean", n)
    vectors = np.random.default_rng(n).normal(size=(n, 3))
    np.testing.assert_allclose(kernel.product(vectors), stored(kernel) @ vectors, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "slack"), [(np.float64, 1e-13), (np.float32, 1e-6)])
def test_products_are_those_of_the_stored_kernel(name, dtype, slack, small_cuts):
    kernel = kernel_of(name, 331, dtype)
    vectors = np.random.default_rng(1).normal(size=(331, 5))
    matrix = stored(kernel).astype(np.float64)
    np.testing.assert_allclose(
        kernel.product(vectors), matrix @ vectors, rtol=0, atol=slack * (matrix @ np.abs(vectors)).max()
    )


def test_single_precision_rounds_tiles_but_not_their_sums():
    """The worst case: all terms alike, so that roundings have one sign. Summed in single it would be 1e-4."""
    points = Euclidean().prepare(np.zeros((4000, 2), np.float32))
    product = StreamedKernel(Euclidean(), points, 1.0).product(np.full((4000, 1), 1 + 2.0**-20))
    np.testing.assert_allclose(product, 4000 * (1 + 2.0**-20), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-60, 1e-30, 1e30, 1e60])
def test_range_of_single_precision_limits_no_vector(scale, small_cuts):
    kernel = kernel_of("rmsd", 90, np.float32)
    vectors = np.random.default_rng(2).normal(size=(90, 2)) * [1.0, scale]
    expected = stored(kernel).astype(np.float64) @ vectors
    np.testing.assert_allclose(kernel.product(vectors) / [1, scale], expected / [1, scale], rtol=0, atol=1e-5)


def test_zeros_give_zeros():
    np.testing.assert_array_equal(kernel_of("euclidean", 40).product(np.zeros((40, 2))), 0.0)


# -- bands ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5, 300, 2000, 30_000, 1_000_000])
def test_bands_hold_every_row_once_and_equal_shares_of_the_pairs(n):
    class Counted:
        def __len__(self):
            return n

    bands = StreamedKernel(None, Counted(), 1.0).bands()
    assert [band.start for band in bands] == [0, *(band.stop for band in bands[:-1])]
    assert bands[-1].stop == n
    assert len(bands) <= streamed_kernel.MAX_BANDS
    pairs = [sum(n - row for row in (band.start, band.stop)) * (band.stop - band.start) / 2 for band in bands]
    assert max(pairs) <= 1.1 * n * n / 2 / len(bands)
    assert len(bands) == 1 or min(band.stop - band.start for band in bands) >= streamed_kernel.MIN_BAND_ROWS


@pytest.mark.parametrize("n_threads", [2, 3])
@pytest.mark.parametrize("name", ["rmsd", "wide"])
def test_threads_change_no_bit(name, n_threads, small_cuts):
    kernel = kernel_of(name, 400, np.float32)
    vectors = np.random.default_rng(3).normal(size=(400, 6))
    assert len(kernel.bands()) > 6
    np.testing.assert_array_equal(kernel.product(vectors, n_threads), kernel.product(vectors, 1))


def test_bands_done_elsewhere_add_up_to_the_whole(small_cuts):
    kernel = kernel_of("rmsd", 300)
    vectors = np.random.default_rng(4).normal(size=(300, 4))
    sent = pickle.loads(pickle.dumps(kernel))  # as to a worker
    parts = {band.start: sent.band_product(band, vectors) for band in reversed(kernel.bands())}
    whole = np.zeros((300, 4))
    for start in sorted(parts):
        assert parts[start].shape == (300 - start, 4)
        whole[start:] += parts[start]
    np.testing.assert_array_equal(whole, kernel.product(vectors))


def test_a_product_goes_on_where_it_was_left(small_cuts, monkeypatch):
    kernel = kernel_of("euclidean", 300)
    vectors = np.random.default_rng(5).normal(size=(300, 2))
    states = []
    whole = kernel.product(
        vectors, on_band=lambda so_far: states.append(PartialProduct(so_far.sums.copy(), so_far.n_bands))
    )
    assert [state.n_bands for state in states] == list(range(1, len(kernel.bands()) + 1))
    done = []
    original = StreamedKernel.band_product
    monkeypatch.setattr(
        StreamedKernel, "band_product", lambda *arguments: done.append(1) or original(*arguments)
    )
    for state in states:
        done.clear()
        ahead = len(kernel.bands()) - state.n_bands
        np.testing.assert_array_equal(kernel.product(vectors, 2, partial=state), whole)
        assert len(done) == ahead


def test_error_of_a_metric_is_raised(small_cuts):
    class Failing(Euclidean):
        def squared_block(self, a, rows, b, cols, out):
            if rows.start >= 60:
                raise RuntimeError("no distance")
            super().squared_block(a, rows, b, cols, out)

    kernel = StreamedKernel(Failing(), Euclidean().prepare(sheet(200, 0)), 0.1)
    with pytest.raises(RuntimeError, match="no distance"):
        kernel.product(np.ones((200, 1)), 2)


def test_memory_is_that_of_vectors_and_tiles():
    kernel = kernel_of("euclidean", 6000, np.float32)
    vectors = np.ones((6000, 4))
    kernel.product(vectors[:, :1], 1)
    tracemalloc.start()
    kernel.product(vectors, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * vectors.nbytes + 4 * 4 * streamed_kernel.TILE_ROWS * streamed_kernel.TILE_COLUMNS
    assert peak < 6000**2 * 4 / 20


def test_arguments_are_left_alone(small_cuts):
    kernel = kernel_of("euclidean", 100)
    vectors = np.random.default_rng(6).normal(size=(100, 2))
    before = vectors.copy()
    kernel.product(vectors)
    np.testing.assert_array_equal(vectors, before)
