"""Transitions and dwell times, against a count record by record."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps.errors import InvalidInputError
from ldmaps.regions import Ball, Box, count_transitions, region_labels


def counted(labels, b, times, files):
    """Walk through the records with one state in hand."""
    counts, spent, longest = np.zeros((b, b), int), np.zeros(b), np.zeros(b)
    state = entered = None
    for row, label in enumerate(labels):
        if row and files[row] != files[row - 1]:
            if state is not None:
                longest[state] = max(longest[state], times[row - 1] - entered)
            state = None
        elif state is not None and row:
            spent[state] += times[row] - times[row - 1]
        if label >= 0 and label != state:
            if state is not None:
                counts[state, label] += 1
                longest[state] = max(longest[state], times[row] - entered)
            state, entered = label, times[row]
    if state is not None:
        longest[state] = max(longest[state], times[-1] - entered)
    return counts, spent, longest


@pytest.mark.parametrize("seed", range(8))
def test_like_a_count_record_by_record(seed):
    rng = np.random.default_rng(seed)
    b, n = int(rng.integers(1, 5)), 400
    labels = np.repeat(rng.integers(-1, b, 100), 4) if seed % 2 else rng.integers(-1, b, n)
    files = np.sort(rng.integers(0, 3, n))
    times = np.concatenate(
        [np.cumsum(rng.uniform(0.5, 2.0, np.sum(files == file))) for file in np.unique(files)]
    )
    found = count_transitions(labels, [str(place) for place in range(b)], times=times, files=files)
    counts, spent, longest = counted(labels, b, times, files)
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_allclose(found.time_in, spent)
    np.testing.assert_allclose(found.longest, longest)
    left = counts.sum(axis=1) > 0
    np.testing.assert_allclose(found.dwell[left], (spent / np.maximum(counts.sum(axis=1), 1))[left])
    np.testing.assert_allclose(found.error[left], (found.dwell / np.sqrt(counts.sum(axis=1).clip(1)))[left])
    assert np.isnan(found.dwell[~left]).all()
    assert found.unit == "ps"


def test_dwell_times_of_a_chain_whose_rates_are_known():
    """A two-state chain that leaves A with 0.01 and B with 0.03 per step."""
    rng = np.random.default_rng(0)
    state, states = 0, []
    for toss in rng.uniform(size=200_000):
        states.append(state)
        state = 1 - state if toss < (0.01, 0.03)[state] else state
    found = count_transitions(states, ["A", "B"])
    assert found.unit == "records"
    for place, rate in enumerate((0.01, 0.03)):
        assert abs(found.dwell[place] - 1 / rate) < 4 * found.error[place]
        assert found.error[place] == pytest.approx(1 / rate / np.sqrt(found.counts[place].sum()), rel=0.15)


def test_turning_back_on_the_way_is_no_transition():
    assert count_transitions([0, -1, 0, -1, -1, 0], ["A", "B"]).counts.sum() == 0
    assert count_transitions([-1, -1], ["A"]).time_in.tolist() == [0.0]
    assert count_transitions([], ["A"]).counts.tolist() == [[0]]


def test_the_first_region_that_holds_a_point_is_its_label():
    points = np.array([[0.0, 0.0], [0.5, 0.0], [2.0, 0.0], [9.0, 0.0]])
    regions = {"ball": Ball({"psi2": 0.0}, 0.6, margin=100.0), "box": Box({"psi2": (0.4, 3.0)})}
    np.testing.assert_array_equal(region_labels(points, regions), [0, 0, 1, -1])


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        ([0, 2], {}, "0 to 1 for 2 regions, got 0 to 2"),
        ([0, 1], {"times": [1.0]}, "one value per label"),
        ([0, 1], {"times": [1.0, 0.0]}, "times decrease within a trajectory"),
    ],
)
def test_mistakes_are_explained(labels, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        count_transitions(labels, ["A", "B"], **settings)
