"""Bookkeeping of cells, against numpy."""

import numpy as np
import pytest


@pytest.mark.parametrize("seed", range(3))
def test_members_stand_cell_after_cell(kernels, seed):
    rng = np.random.default_rng(seed)
    assignment = rng.integers(12, size=300)
    cells = rng.choice(12, 7, replace=False)
    order, bounds = np.empty(300, np.intp), np.empty(8, np.intp)
    kernels.members_by_cell(assignment, cells, 12, order, bounds)
    for place, cell in enumerate(cells):
        np.testing.assert_array_equal(
            order[bounds[place] : bounds[place + 1]], np.flatnonzero(assignment == cell)
        )
    assert bounds[0] == 0
    np.testing.assert_array_equal(order[bounds[-1] :], np.flatnonzero(~np.isin(assignment, cells)))


def test_a_landmark_stays_unless_another_is_better_by_more_than_rounding(kernels):
    order, bounds = np.arange(6), np.array([0, 3, 6])
    sums = np.array([3.0, 2.0, 2.0, 5.0, 5.0 * (1 - 1e-9), 7.0])
    best = np.array([0, 3])
    kernels.best_of_cells(order, bounds, sums, 1.0 - 1e-6, best)
    assert best.tolist() == [1, 3]  # the first of two equals; and no move for the sake of rounding


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_cells_are_counted_and_widened(kernels, is_weighted, dtype):
    rng = np.random.default_rng(1)
    assignment, squared = rng.integers(5, size=200), rng.uniform(size=200).astype(dtype)
    weights = rng.uniform(size=200) * rng.integers(0, 2, 200) if is_weighted else np.empty(0)
    multiplicities, radii = np.ones(6), np.full(6, 0.01)
    kernels.count_cells(assignment, squared, weights, multiplicities, radii)
    each = weights if is_weighted else np.ones(200)
    np.testing.assert_allclose(multiplicities, 1.0 + np.bincount(assignment, each, 6))
    for cell in range(6):
        assert radii[cell] == max(squared[(assignment == cell) & (each > 0)], default=0.01)


def test_arguments_that_do_not_fit_are_refused(kernels):
    places, numbers = np.zeros(4, np.intp), np.ones(4)
    cases = {
        r"order must have shape \(4\)": lambda: kernels.members_by_cell(
            places, places[:1], 1, places[:3].copy(), places[:2].copy()
        ),
        r"bounds must have shape \(2\)": lambda: kernels.members_by_cell(
            places, places[:1], 1, places.copy(), places[:1].copy()
        ),
        r"sums must have shape \(4\)": lambda: kernels.best_of_cells(
            places, places[:2], numbers[:3], 1.0, places[:1].copy()
        ),
        "bounds must lie within 0 and 4": lambda: kernels.best_of_cells(
            places, np.array([0, 5]), numbers, 1.0, places[:1].copy()
        ),
        r"squared must have shape \(4\)": lambda: kernels.count_cells(
            places, numbers[:3], numbers, np.ones(1), np.ones(1)
        ),
        r"weights must have shape \(4\)": lambda: kernels.count_cells(
            places, numbers, numbers[:3], np.ones(1), np.ones(1)
        ),
        r"radii must have shape \(1\)": lambda: kernels.count_cells(
            places, numbers, numbers, np.ones(1), np.ones(2)
        ),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()
