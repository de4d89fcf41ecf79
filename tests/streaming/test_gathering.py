"""What makes a batch, decided step by step with a clock that the test turns."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from ldmaps.errors import SourceError, StreamStalledError
from ldmaps.streaming import Records, Rejected
from ldmaps.streaming.gathering import LOOK_UP, Batch, Gathering


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    turned = Clock()
    monkeypatch.setattr("ldmaps.door.monotonic", turned)
    return turned


def records(*numbers, at=100.0, width=3):
    return Records(np.zeros((len(numbers), width)), np.array(numbers), None, np.full(len(numbers), at))


def bad(number):
    return Records.none((Rejected(number, "bad"),))


def numbers(batch):
    assert isinstance(batch, Records)
    return batch.numbers.tolist()


def test_without_delay_a_batch_is_what_a_poll_gave(clock):
    gathering = Gathering("it", 10)
    assert gathering.step() == (10, LOOK_UP)
    assert gathering.receive(records(0, 1))
    assert numbers(gathering.step()) == [0, 1]
    assert gathering.step() == (10, LOOK_UP)
    assert not gathering.receive(Records.none())
    assert gathering.receive(None)
    assert gathering.step() is None


def test_company_is_waited_for_until_the_first_record_is_due(clock):
    gathering = Gathering("it", 10, max_delay=1.0)
    gathering.receive(records(0, at=99.9))
    assert gathering.step() == (9, LOOK_UP)
    clock.now = 100.88
    gathering.receive(records(1, at=100.88))
    most, wait = gathering.step()
    assert (most, wait) == (8, pytest.approx(0.02))
    clock.now = 100.9
    assert numbers(gathering.step()) == [0, 1]
    assert gathering.step() == (10, LOOK_UP)


def test_a_full_batch_does_not_wait_and_none_is_cut(clock):
    gathering = Gathering("it", 3, max_delay=1.0)
    gathering.receive(records(0, 1))
    gathering.receive(records(2, 3, 4, 5))
    assert numbers(gathering.step()) == [0, 1]
    assert numbers(gathering.step()) == [2, 3, 4, 5]
    assert gathering.step() == (3, LOOK_UP)


def test_points_of_another_shape_begin_a_batch_whatever_was_rejected_between(clock):
    gathering = Gathering("it", 10, max_delay=1.0)
    for part in (records(0), bad(1), records(2, width=2), bad(3), records(4, width=2)):
        gathering.receive(part)
    first = gathering.step()
    assert (numbers(first), [one.number for one in first.rejected]) == ([0], [1])
    gathering.receive(None)
    last = gathering.step()
    assert (numbers(last), [one.number for one in last.rejected]) == ([2, 4], [3])


def test_rejected_records_alone_wait_from_when_they_came(clock):
    gathering = Gathering("it", 10, max_delay=1.0)
    gathering.receive(bad(0))
    assert gathering.step() == (10, LOOK_UP)
    clock.now += 1.0
    assert [one.number for one in gathering.step().rejected] == [0]


@pytest.mark.parametrize("error", [OSError("cable"), SourceError("cut"), KeyboardInterrupt()])
def test_what_was_received_is_delivered_then_the_error(clock, error):
    gathering = Gathering("it", 3, max_delay=9.0)
    gathering.receive(records(0, 1))
    gathering.receive(records(2, 3))
    gathering.fail(error)
    assert numbers(gathering.step()) == [0, 1]
    assert numbers(gathering.step()) == [2, 3]
    expected = SourceError if isinstance(error, Exception) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        gathering.step()
    if isinstance(error, OSError):
        assert "it failed after 4 records (OSError: cable)" in str(caught.value)
        assert caught.value.__cause__ is error
    else:
        assert caught.value is error


@pytest.mark.parametrize("max_delay", [0.0, 60.0])
def test_a_stall_is_told_once_and_again_after_the_next_record(clock, caplog, max_delay):
    gathering = Gathering("it", 10, max_delay=max_delay, stall_after=0.1)
    assert gathering.step()[1] == pytest.approx(0.025)
    for expected in (1, 2):
        gathering.receive(records(0, at=clock.now))
        clock.now += 0.09
        gathering.receive(Records.none())
        assert gathering.stalls == expected - 1
        for _ in range(3):
            clock.now += 0.1
            gathering.receive(Records.none())
        assert gathering.stalls == expected
    assert [entry.levelno for entry in caplog.records] == [logging.WARNING] * 2
    assert "nothing came from it for 0.19 s (stall_after=0.1); still waiting" in caplog.text


def test_the_time_until_the_source_is_open_is_no_stall(clock):
    gathering = Gathering("it", 10, stall_after=0.1)
    clock.now += 60
    gathering.receive(Records.none())
    assert gathering.stalls == 0
    clock.now += 0.2
    gathering.receive(Records.none())
    assert gathering.stalls == 1


def test_a_stall_that_is_an_error_comes_after_the_records_that_wait(clock):
    gathering = Gathering("it", 10, max_delay=60.0, stall_after=0.1, on_stall="raise")
    gathering.receive(records(0))
    clock.now += 0.2
    gathering.receive(Records.none())
    assert numbers(gathering.step()) == [0]
    with pytest.raises(StreamStalledError, match=r"for 0\.2 s"):
        gathering.step()
    assert gathering.stalls == 1


def test_a_batch_says_whether_it_takes_records():
    batch = Batch(3)
    assert (len(batch), batch.room) == (0, 3)
    assert batch.add(bad(0))
    assert batch.add(records(1, 2))
    assert not batch.add(records(3, 4))
    assert not batch.add(records(3, width=2))
    assert batch.add(records(3))
    assert (len(batch), batch.room) == (3, 0)
    assert numbers(batch.joined()) == [1, 2, 3]
