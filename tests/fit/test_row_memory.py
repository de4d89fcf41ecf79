"""How far apart rows resemble each other no more than any two do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from ldmaps.fit.row_memory import row_memory
from ldmaps.metrics import Euclidean

METRIC = Euclidean()


def memory(points, seed=0):
    return row_memory(METRIC, METRIC.prepare(points), np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(3))
def test_independent_rows_remember_nothing(seed):
    rng = np.random.default_rng(seed)
    for points in (
        rng.normal(size=(800, 2)),
        rng.standard_t(2, (500, 3)),
        rng.integers(0, 4, (600, 2)) * 1.0,
    ):
        assert memory(points) == 0


def test_a_diffusing_trajectory_remembers_for_about_its_correlation_time():
    a = np.exp(-1 / 50)
    noise = np.random.default_rng(0).normal(size=(2000, 3))
    noise[1:] *= np.sqrt(1 - a**2)
    found = memory(lfilter([1.0], [1.0, -a], noise, axis=0))
    assert 5 <= found <= 150
    assert memory(lfilter([1.0], [1.0, -a], noise, axis=0)[np.random.default_rng(1).permutation(2000)]) == 0


def test_a_state_that_was_visited_often_is_not_remembered_and_one_visited_once_is():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2000, 2))
    often = points.copy()
    often[:, 0] += 50.0 * (np.arange(2000) // 40 % 2)  # fifty visits of forty independent rows
    assert memory(often) == 0
    once = points.copy()
    once[1000:1100, 0] += 50.0
    assert memory(once) >= 50


def test_too_few_rows_are_taken_as_independent():
    assert memory(np.arange(15.0)[:, None]) == 0
