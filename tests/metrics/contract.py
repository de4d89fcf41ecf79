"""What every metric must satisfy; a metric's tests subclass :class:`MetricContract`.

The subclass says how to make the metric and points for it; everything else is
inherited. Not checked here: that the distance is the right one. That needs an
oracle from outside, which each metric's own tests bring.
"""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ldmaps.diffusion.pairwise import nearest
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Metric, Points


def squared_block(metric: Metric, a: Points, b: Points, rows: slice | None = None, cols: slice | None = None):
    """Return a block of d² (by default all of it) in a fresh array that was full of NaN."""
    rows = rows or slice(0, len(a))
    cols = cols or slice(0, len(b))
    out = np.full((rows.stop - rows.start, cols.stop - cols.start), np.nan, dtype=a.dtype)
    assert metric.squared_block(a, rows, b, cols, out) is None
    return out


class MetricContract:
    """Subclass, and override what does not fit."""

    #: Largest difference between two ways to compute the same block, in epsilons of the largest d².
    cut_epsilons = 0.0
    #: How far d² of identical points may be from 0, in epsilons of the largest d².
    zero_epsilons = 0.0
    #: Largest difference between float32 and float64, relative to the largest d².
    single_tolerance = 1e-5
    #: Whether points are rows of features, so that any second set of the same width can be compared.
    takes_features = True
    #: What the error about points of different widths says.
    width_error = "cannot be compared"

    def make_metric(self) -> Metric:
        raise NotImplementedError

    def make_data(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n different points in float64."""
        raise NotImplementedError

    def make_pair(self, n: int, m: int, rng: np.random.Generator, dtype: Any = np.float64):
        """Return a metric and prepared left- and right-hand points."""
        metric = self.make_metric()
        a = metric.prepare(self.make_data(n, rng), dtype)
        b = metric.prepare(self.make_data(m, rng), dtype)
        return metric, a, b

    def cut_tolerance(self, squared: np.ndarray) -> float:
        return self.cut_epsilons * float(np.finfo(squared.dtype).eps * squared.max())

    @pytest.fixture
    def rng(self):
        return np.random.default_rng(20)

    # -- a distance ------------------------------------------------------------
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_is_finite_non_negative_and_in_the_points_dtype(self, rng, dtype):
        metric, a, b = self.make_pair(7, 9, rng, dtype)
        assert a.dtype == b.dtype == dtype
        assert (len(a), len(b)) == (7, 9)
        squared = squared_block(metric, a, b)
        assert np.isfinite(squared).all()
        assert (squared >= 0).all()
        assert squared.any()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_is_symmetric(self, rng, dtype):
        metric = self.make_metric()
        points = metric.prepare(self.make_data(12, rng), dtype)
        squared = squared_block(metric, points, points)
        atol = max(self.cut_tolerance(squared), 8 * np.finfo(dtype).eps * squared.max())
        np.testing.assert_allclose(squared, squared.T, rtol=0, atol=atol)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("n", [1, 2, 12])
    def test_identical_points_are_at_distance_zero(self, rng, n, dtype):
        metric = self.make_metric()
        everyone = metric.prepare(self.make_data(12, rng), dtype)
        largest = squared_block(metric, everyone, everyone).max()
        points = everyone.take(slice(0, n))
        diagonal = squared_block(metric, points, points).diagonal()
        assert (diagonal <= self.zero_epsilons * np.finfo(dtype).eps * largest).all()

    def test_triangle_inequality_where_promised(self, rng):
        metric = self.make_metric()
        if not metric.is_true_metric:
            pytest.skip("makes no such promise")
        points = metric.prepare(self.make_data(25, rng))
        d = np.sqrt(squared_block(metric, points, points))
        shortest_detour = (d[:, :, np.newaxis] + d[np.newaxis]).min(axis=1)
        assert (d <= shortest_detour + 1e-7 * d.max()).all()

    # -- blocks ------------------------------------------------------------------
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_any_cut_gives_the_whole(self, rng, dtype):
        metric, a, b = self.make_pair(19, 37, rng, dtype)
        whole = squared_block(metric, a, b)
        tolerance = self.cut_tolerance(whole)
        # A metric that takes microseconds a pair is cut less often.
        row_cuts, col_cuts = ((5,), (1, 8)) if metric.is_slow else ((1, 2, 5, 16, 19), (1, 3, 8, 33, 37))
        for row_cut in row_cuts:
            for col_cut in col_cuts:
                for r0 in range(0, 19, row_cut):
                    rows = slice(r0, min(r0 + row_cut, 19))
                    for c0 in range(0, 37, col_cut):
                        cols = slice(c0, min(c0 + col_cut, 37))
                        block = squared_block(metric, a, b, rows, cols)
                        np.testing.assert_allclose(block, whole[rows, cols], rtol=0, atol=tolerance)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_sums_of_distances_within_groups(self, rng, dtype):
        metric, a, _ = self.make_pair(30, 3, rng, dtype)
        weights = rng.gamma(1.0, size=30)
        sums = np.full(30, -1.0)
        metric.group_distance_sums(a, np.array([2, 3, 3, 12, 29]), weights, sums)
        assert (sums[[0, 1, 29]] == -1.0).all()  # of no group
        for group in (slice(2, 3), slice(3, 12), slice(12, 29)):
            squared = squared_block(metric, a, a, group, group)
            expected = np.sqrt(squared.astype(np.float64)) @ weights[group]
            slack = np.sqrt(self.cut_tolerance(squared)) * weights.sum()
            np.testing.assert_allclose(sums[group], expected, rtol=1e-5, atol=slack)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_the_nearest_is_the_lowest_of_the_block(self, rng, dtype):
        metric, a, b = self.make_pair(19, 37, rng, dtype)
        index, squared = nearest(metric, a, b)
        block = squared_block(metric, a, b)
        tolerance = self.cut_tolerance(block)
        np.testing.assert_allclose(squared, block.min(axis=1), rtol=0, atol=tolerance)
        np.testing.assert_allclose(block[np.arange(19), index], block.min(axis=1), rtol=0, atol=tolerance)

    def test_one_point_alone_equals_the_point_among_others(self, rng):
        metric, a, b = self.make_pair(5, 8, rng)
        whole = squared_block(metric, a, b)
        for i in range(5):
            alone = squared_block(metric, a.take(slice(i, i + 1)), b)
            np.testing.assert_allclose(alone[0], whole[i], rtol=0, atol=self.cut_tolerance(whole))

    def test_threads_may_fill_blocks_at_once(self, rng):
        metric, a, b = self.make_pair(40, 31, rng)
        slices = [slice(start, start + 5) for start in range(0, 40, 5)]
        with ThreadPoolExecutor(4) as pool:
            blocks = list(pool.map(lambda rows: squared_block(metric, a, b, rows), slices))
        whole = squared_block(metric, a, b)
        np.testing.assert_allclose(np.vstack(blocks), whole, rtol=0, atol=self.cut_tolerance(whole))

    # -- points --------------------------------------------------------------------
    @pytest.mark.parametrize(
        "indices", [np.array([3]), np.array([4, 0, 0, 2]), np.arange(5)[::-1], slice(1, 4), slice(0, 5, 2)]
    )
    def test_take_picks_points_in_order_on_either_side(self, rng, indices):
        metric = self.make_metric()
        points = metric.prepare(self.make_data(5, rng))
        whole = squared_block(metric, points, points)
        taken = points.take(indices)
        assert type(taken) is type(points)
        assert taken.dtype == points.dtype
        assert len(taken) == len(np.arange(5)[indices])
        tolerance = self.cut_tolerance(whole)
        np.testing.assert_allclose(
            squared_block(metric, taken, points), whole[indices], rtol=0, atol=tolerance
        )
        np.testing.assert_allclose(
            squared_block(metric, points, taken), whole[:, indices], rtol=0, atol=tolerance
        )
        np.testing.assert_allclose(
            squared_block(metric, taken, taken), whole[indices][:, indices], rtol=0, atol=tolerance
        )

    def test_single_precision_agrees_with_double(self, rng):
        data = self.make_data(15, rng)
        metric = self.make_metric()
        double = metric.prepare(data)
        single = metric.prepare(data, np.float32)
        wanted = squared_block(metric, double, double)
        got = squared_block(metric, single, single)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=self.single_tolerance * wanted.max())

    def test_keeps_single_precision_and_makes_the_rest_double(self, rng):
        data = self.make_data(4, rng)
        metric = self.make_metric()
        assert metric.prepare(data.astype(np.float32)).dtype == np.float32
        assert metric.prepare(data.tolist()).dtype == np.float64
        assert metric.prepare(data.astype(np.float32), np.float64).dtype == np.float64

    def test_layout_of_the_input_does_not_matter(self, rng):
        data = self.make_data(6, rng)
        metric = self.make_metric()
        plain = metric.prepare(data)
        wanted = squared_block(metric, plain, plain)
        padded = np.full((*data.shape[:-1], 2 * data.shape[-1]), 7.5)
        padded[..., ::2] = data
        for other in (np.asfortranarray(data), padded[..., ::2], data.astype(">f8"), data.tolist()):
            points = metric.prepare(other)
            np.testing.assert_array_equal(squared_block(metric, points, points), wanted)

    def test_never_mutates_its_input(self, rng):
        data = self.make_data(6, rng)
        data.flags.writeable = False
        kept = data.copy()
        metric = self.make_metric()
        points = metric.prepare(data)
        squared_block(metric, points, points)
        squared_block(metric, points.take(np.array([1, 0])), points)
        metric.export_points(points)
        np.testing.assert_array_equal(data, kept)

    def test_points_do_not_follow_later_changes_of_the_input(self, rng):
        data = self.make_data(6, rng)
        metric = self.make_metric()
        points = metric.prepare(data)
        before = squared_block(metric, points, points)
        data[...] = 0.5
        np.testing.assert_array_equal(squared_block(metric, points, points), before)

    # -- files, copies -----------------------------------------------------------------
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_exported_points_come_back_as_the_right_hand_side(self, rng, dtype):
        metric = self.make_metric()
        points = metric.prepare(self.make_data(8, rng), dtype)
        chosen = points.take(np.array([6, 1, 3]))
        arrays = metric.export_points(chosen)
        assert all(isinstance(array, np.ndarray) and array.dtype.kind in "fiub" for array in arrays.values())
        back = metric.import_points({key: array.copy() for key, array in arrays.items()})
        assert back.dtype == dtype
        assert len(back) == 3
        metric.check_compatible(points, back)
        np.testing.assert_array_equal(
            squared_block(metric, points, back), squared_block(metric, points, chosen)
        )

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_joined_points_are_those_of_both(self, rng, dtype):
        metric = self.make_metric()
        points = metric.prepare(self.make_data(40, rng), dtype)
        order = rng.permutation(40)
        first, second = points.take(order[:19]), points.take(order[19:])
        both = metric.joined(first, second)
        assert type(both) is type(points)
        assert both.dtype == dtype
        assert len(both) == 40
        metric.check_compatible(points, both)
        np.testing.assert_array_equal(
            squared_block(metric, points, both), squared_block(metric, points, points.take(order))
        )

    def test_parameters_rebuild_the_metric(self, rng):
        metric = self.make_metric()
        again = type(metric).from_parameters(metric.parameters())
        assert type(again) is type(metric)
        data = self.make_data(6, rng)
        a, b = metric.prepare(data), again.prepare(data)
        np.testing.assert_array_equal(squared_block(again, b, b), squared_block(metric, a, a))

    def test_survives_copy_and_pickle(self, rng):
        metric = self.make_metric()
        points = metric.prepare(self.make_data(6, rng))
        wanted = squared_block(metric, points, points)
        for again, others in (copy.deepcopy((metric, points)), pickle.loads(pickle.dumps((metric, points)))):
            np.testing.assert_array_equal(squared_block(again, others, others), wanted)

    def test_has_a_name_and_a_repr(self):
        metric = self.make_metric()
        assert metric.name
        assert repr(metric).startswith(type(metric).__name__ + "(")

    def test_pairwise_returns_distances(self, rng):
        metric = self.make_metric()
        data = self.make_data(6, rng)
        points = metric.prepare(data)
        wanted = np.sqrt(squared_block(metric, points, points))
        atol = np.sqrt(self.cut_tolerance(wanted**2)) + 1e-12 * wanted.max()
        np.testing.assert_allclose(metric.pairwise(data), wanted, rtol=0, atol=atol)

    # -- errors ------------------------------------------------------------------------
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("dtype", [None, np.float32])
    def test_refuses_what_is_not_finite(self, rng, bad, dtype):
        data = self.make_data(4, rng)
        data[(2,) + (-1,) * (data.ndim - 1)] = bad
        with pytest.raises(InvalidInputError, match="finite"):
            self.make_metric().prepare(data, dtype)

    def test_refuses_text_and_complex_numbers(self, rng):
        data = self.make_data(4, rng)
        for other in (data.astype(str), data.astype(complex)):
            with pytest.raises(InvalidInputError, match="real numbers"):
                self.make_metric().prepare(other)
        ragged = data.astype(object)
        ragged[(0,) * data.ndim] = "carbon"
        with pytest.raises(InvalidInputError, match="real numbers"):
            self.make_metric().prepare(ragged)

    def test_refuses_no_points(self, rng):
        with pytest.raises(InvalidInputError, match="empty"):
            self.make_metric().prepare(self.make_data(4, rng)[:0])

    def test_refuses_a_wrong_rank(self, rng):
        data = self.make_data(4, rng)
        for wrong in (data[(0,) * (data.ndim - 1)], data[np.newaxis, np.newaxis], np.float64(1.0)):
            with pytest.raises(InvalidInputError, match="dimensional"):
                self.make_metric().prepare(wrong)

    def test_refuses_points_of_different_widths(self, rng):
        if not self.takes_features:
            pytest.skip("columns are not features")
        metric = self.make_metric()
        data = self.make_data(4, rng)
        a = metric.prepare(data)
        narrow = self.make_narrow(data)
        b = metric.prepare(narrow) if narrow is not None else None
        if b is None:
            with pytest.raises(InvalidInputError):
                metric.prepare(data[:, :-1])
            return
        metric.check_compatible(a, a)
        for left, right in ((a, b), (b, a)):
            with pytest.raises(InvalidInputError, match=self.width_error):
                metric.check_compatible(left, right)

    def make_narrow(self, data: np.ndarray) -> np.ndarray | None:
        """Return points that cannot be compared with ``data``; None if the metric accepts one width only."""
        return data[:, :-1]
