"""The algebra of costs: work adds up, memory is the highest, and every kind of work has its price."""

from __future__ import annotations

import pytest

from ldmaps.costs import KINDS_OF_WORK, Cost, DataSize


def all_kinds(first):
    return Cost(**{kind: float(first + place) for place, kind in enumerate(KINDS_OF_WORK)}, memory=first)


def test_steps_one_after_the_other():
    both = all_kinds(1) + all_kinds(100)
    assert [getattr(both, kind) for kind in KINDS_OF_WORK] == [
        101.0 + 2 * place for place in range(len(KINDS_OF_WORK))
    ]
    assert both.memory == 100
    assert (all_kinds(100) + all_kinds(1)) == both


def test_a_step_several_times():
    often = all_kinds(5).times(3)
    assert often == Cost(
        **{kind: 3.0 * getattr(all_kinds(5), kind) for kind in KINDS_OF_WORK}, memory=all_kinds(5).memory
    )


def test_a_step_while_something_is_held():
    assert all_kinds(5).holding(7.0) == Cost(
        **{kind: getattr(all_kinds(5), kind) for kind in KINDS_OF_WORK}, memory=12.0
    )


@pytest.mark.parametrize("kind", KINDS_OF_WORK)
def test_every_kind_of_work_takes_its_time(kind):
    speeds = dict.fromkeys(KINDS_OF_WORK, 0.0) | {kind: 0.5}
    assert all_kinds(10).seconds(speeds) == 0.5 * getattr(all_kinds(10), kind)
    with pytest.raises(KeyError, match=kind):
        all_kinds(10).seconds({other: 1.0 for other in KINDS_OF_WORK if other != kind})


def test_sizes():
    size = DataSize(n_points=1000, n_features=3, point_bytes=12.0, block_bytes=5.0, itemsize=4)
    assert size.points_bytes == 12_000
    assert size.compared_bytes == 17_000
    assert size.matrix_bytes == 4e6
    assert size.of(10) == DataSize(10, 3, 12.0, 5.0, 4)
