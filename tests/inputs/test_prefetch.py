"""Reading ahead changes nothing but time."""

from __future__ import annotations

import threading
import time

import pytest

from ldmaps.inputs.prefetch import prefetch


def test_order_and_errors_are_kept():
    def items():
        yield from range(5)
        raise ValueError("the sixth")

    ahead = prefetch(items())
    assert [next(ahead) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="the sixth"):
        next(ahead)


def test_a_caller_that_stops_ends_the_thread():
    def endless():
        while True:
            yield 0

    ahead = prefetch(endless(), depth=2)
    assert next(ahead) == 0
    ahead.close()
    deadline = time.monotonic() + 60  # for the item that it is at, on a busy machine
    while readers := [thread for thread in threading.enumerate() if thread.name == "ldmaps-reader"]:
        assert time.monotonic() < deadline, readers
        time.sleep(0.01)


def test_no_more_is_read_than_the_depth_allows():
    taken = []

    def items():
        for item in range(100):
            taken.append(item)
            yield item

    ahead = prefetch(items(), depth=2)
    next(ahead)
    time.sleep(0.2)
    assert len(taken) <= 5
    ahead.close()


def test_a_caller_that_stops_ends_what_reads_ahead_inside():
    closed = []

    def endless():
        try:
            while True:
                yield 0
        finally:
            closed.append(threading.current_thread().name)

    inner = endless()
    ahead = prefetch((item for item in prefetch(inner, depth=2)), depth=2)
    assert next(ahead) == 0
    ahead.close()
    assert closed == ["ldmaps-reader"]
    assert inner.gi_frame is None
    assert not [thread for thread in threading.enumerate() if thread.name == "ldmaps-reader"]
