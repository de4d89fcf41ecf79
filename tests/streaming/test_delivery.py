"""What was received is delivered, then the error: in threads and in async code alike."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
import threading
import time

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, door
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError, SourceError, StreamStalledError
from ldmaps.streaming import Records, Source, StreamEmbedder
from ldmaps.streaming.sources.tables import PipeSource

POINTS = swiss_roll(400, random_state=0).points


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(POINTS[:300])


class Polled(Source):
    """Gives one record a poll, then raises or, for ever, nothing."""

    name = "the script"

    def __init__(self, count, error=None):
        self._count, self._error, self._number = count, error, 0

    def open(self, position=None):
        pass

    def poll(self, most, wait):
        if self._number < self._count:
            self._number += 1
            number = np.array([self._number - 1])
            return Records(POINTS[number], number, None, np.array([time.monotonic()]))
        if self._error is not None:
            raise self._error
        time.sleep(wait)
        return Records(np.empty((0, 3)), np.empty(0, int), None, np.empty(0))


def broken(items, error):
    yield from items
    raise error


async def async_broken(items, error):
    for item in items:
        yield item
    raise error


def delivered(model, source, how, **settings):
    """Return the numbers of the records that came, those of the rejected ones, and the error."""
    engine = StreamEmbedder(model, **settings)
    got, rejected = [], []

    def take(one):
        got.extend(one.numbers.tolist())
        rejected.extend(bad.number for bad in one.rejected)

    async def iterate():
        async for one in engine.astream(source):
            take(one)

    try:
        if how == "astream":
            asyncio.run(iterate())
        elif how == "stream":
            for one in engine.stream(source):
                take(one)
        else:
            engine.run(source, [take])
    except Exception as error:
        return got, rejected, error
    return got, rejected, None


HOW = ["run", "stream", "astream"]
SOURCES = {
    "polled": lambda: Polled(3, OSError("cable")),
    "generator": lambda: broken(POINTS[:3], OSError("cable")),
    "async generator": lambda: async_broken(POINTS[:3], OSError("cable")),
}


@pytest.mark.parametrize("max_delay", [0.0, 0.2])
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("how", HOW)
def test_what_came_before_a_failure_is_delivered(model, how, kind, max_delay):
    got, _, error = delivered(model, SOURCES[kind](), how, max_delay=max_delay)
    assert got == [0, 1, 2]
    assert isinstance(error, SourceError)
    assert "failed after 3 records (OSError: cable)" in str(error)
    assert isinstance(error.__cause__, OSError)


@pytest.mark.parametrize("settings", [{}, {"max_delay": 0.2}, {"stall_after": 30.0}])
@pytest.mark.parametrize("how", HOW)
def test_a_bad_item_costs_its_neighbours_nothing(model, how, settings):
    """A rejected item has no shape: the next one must be held against the last point that has."""
    items = [POINTS[0], "text", [1.0, 2.0], None, POINTS[1], [10**400, 1, 2], POINTS[2]]
    got, rejected, error = delivered(model, iter(items), how, **settings)
    assert (got, sorted(rejected), error) == ([0, 4, 6], [1, 2, 3, 5], None)


@pytest.mark.parametrize("how", HOW)
def test_a_stall_is_noticed_while_records_wait_for_company(model, how):
    settings = {"max_delay": 60.0, "stall_after": 0.05, "on_stall": "raise"}
    got, _, error = delivered(model, Polled(2), how, **settings)
    assert got == [0, 1]
    assert isinstance(error, StreamStalledError)
    assert float(re.search(r"for (\S+) s ", str(error))[1]) < 30


def test_async_code_is_not_held_up_while_the_compiled_loops_load(model, monkeypatch):
    """The event loop goes round while the engine warms up, however long that takes."""
    engine = StreamEmbedder(model)
    turned, waited = threading.Event(), []
    monkeypatch.setattr(engine, "warm_up", lambda: waited.append(turned.wait(60)))

    async def main():
        asyncio.get_running_loop().call_soon(turned.set)
        return [one async for one in engine.astream(POINTS[:2])]

    assert sum(map(len, asyncio.run(main()))) == 2
    assert waited == [True]


class Watched(Polled):
    """Notes what is done to it while a poll is under way, or after its end."""

    def __init__(self):
        super().__init__(1)
        self.polling = threading.Event()
        self.closed_while_polling = []

    def open(self, position=None):
        self.opened_by = threading.current_thread()

    def poll(self, most, wait):
        if not self._number:
            return super().poll(most, wait)
        self.polling.set()
        time.sleep(0.1)
        self.polling.clear()
        return super().poll(most, 0.0)

    def close(self):
        self.closed_while_polling.append(self.polling.is_set())


@pytest.mark.parametrize("max_delay", [0.0, 0.01])
def test_a_cancelled_stream_closes_its_source_once_the_poll_is_back(model, max_delay):
    source = Watched()

    async def main():
        async for _ in StreamEmbedder(model, max_delay=max_delay).astream(source):
            pass

    async def cancelled():
        task = asyncio.create_task(main())
        while not source.polling.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.closed_while_polling == [False]

    asyncio.run(cancelled())
    assert source.opened_by is not threading.main_thread()


def test_a_cancellation_does_not_wait_for_records_to_be_delivered(model):
    """Whoever cancels has stopped listening: the records that wait for others are not forced on the consumer."""
    source, got = Watched(), []

    async def main():
        async for one in StreamEmbedder(model, max_delay=600.0).astream(source):
            got.append(one)

    async def cancelled():
        task = asyncio.create_task(main())
        while not source.polling.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert got == []


def test_async_code_closes_a_source_that_cannot_be_opened(model):
    class Shut(Watched):
        def open(self, position=None):
            raise InvalidInputError("no such place")

    source = Shut()
    _, _, error = delivered(model, source, "astream")
    assert "no such place" in str(error)
    assert source.closed_while_polling == [False]


def test_an_npy_stream_that_breaks_off_gives_its_rows_first(model, tmp_path):
    path = tmp_path / "points.npy"
    np.save(path, POINTS)
    with path.open("ab") as file:
        file.write(b"what is this, and why is it here?")
    got, _, error = delivered(model, path, "stream")
    assert got == list(range(400))
    assert "should begin a message" in str(error)
    assert isinstance(error, SourceError)
    assert isinstance(error.__cause__, InvalidInputError)


@pytest.mark.skipif(os.name != "posix", reason="a reset as POSIX systems tell it")
def test_lines_before_a_reset_are_delivered(model, monkeypatch):
    """A peer that resets its connection loses nothing of what it had sent."""
    server = socket.create_server(("127.0.0.1", 0))
    peer = socket.create_connection(server.getsockname())
    ours, _ = server.accept()
    try:
        text = "".join(f"{x},{y},{z}\n" for x, y, z in POINTS[:300].tolist())
        peer.sendall(text.encode())
        source = PipeSource(ours.fileno(), facts={"n_features": 3})

        is_readable = door.is_readable

        def resetting(descriptor, wait):
            ready = is_readable(descriptor, wait)
            if source._decoder.ready >= 300:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
                return is_readable(descriptor, 5.0)
            return ready

        monkeypatch.setattr(door, "is_readable", resetting)
        got, _, error = delivered(model, source, "stream")
        assert got == list(range(300))
        assert isinstance(error, SourceError)
        assert isinstance(error.__cause__, ConnectionResetError)
    finally:
        ours.close()
        server.close()
        peer.close()
