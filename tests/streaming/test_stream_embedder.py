"""The engine: any source, in order, bounded, and what it does when something goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
import time
from typing import ClassVar

import numpy as np
import pytest
from polling import PATIENCE

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import BadRecordError, InvalidInputError, SinkError, SourceError, StreamStalledError
from ldmaps.inputs import FrameChunk, FrameSource
from ldmaps.regions import Event
from ldmaps.streaming import (
    OutputFile,
    QuarantineFile,
    Records,
    Rejected,
    Sink,
    Source,
    StreamEmbedder,
    gathering,
    open_source,
)
from ldmaps.streaming.sources.tables import PipeSource
from ldmaps.streaming.summary import LatencyHistogram

POINTS = swiss_roll(400, random_state=0).points
FRAMES = alanine_dipeptide(stride=500).frames


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(POINTS[:300])


@pytest.fixture(scope="module")
def molecule():
    return LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=20).fit(FRAMES)


class Kept(Sink):
    """Keeps what it gets; may be slow, or fail."""

    def __init__(self, fails_at=None, slow=0.0):
        self.batches, self.flushed, self.closed = [], 0, False
        self._fails_at, self._slow = fails_at, slow

    def write(self, embedded):
        if self._fails_at is not None and len(self.batches) >= self._fails_at:
            raise RuntimeError("the disk is on fire")
        time.sleep(self._slow)
        self.batches.append(embedded)

    def flush(self):
        self.flushed += 1

    def close(self):
        self.closed = True

    def numbers(self):
        return [number for one in self.batches for number in one.numbers.tolist()]

    def coordinates(self):
        return np.concatenate([one.coordinates for one in self.batches])

    def rejected(self):
        return [one for batch in self.batches for one in batch.rejected]


class Scripted(Source):
    """Gives points, nothing, or an exception, as told."""

    name = "the script"

    def __init__(self, *script, rows=1):
        self._script, self._rows = list(script), rows
        self._number = 0
        self.polled = 0
        self.closed = 0
        self.threads = set()

    def open(self, position=None):
        pass

    def poll(self, most, wait):
        self.threads.add(threading.current_thread().name)
        if not self._script:
            return None
        what = self._script.pop(0)
        if isinstance(what, BaseException):
            raise what
        if what is None:
            time.sleep(min(wait, 0.01))
            return Records(np.empty((0, 3)), np.empty(0, int), None, np.empty(0))
        numbers = np.arange(self._number, self._number + self._rows)
        self._number += self._rows
        self.polled += self._rows
        points = POINTS[numbers % 400]
        return Records(points, numbers, None, np.full(self._rows, time.monotonic()))

    def close(self):
        self.closed += 1


def reader_threads():
    return [one for one in threading.enumerate() if one.name == "ldmaps-stream-reader"]


async def each(items):
    for item in items:
        await asyncio.sleep(0)
        yield item


SOURCES = {
    "array": lambda: POINTS,
    "list": lambda: POINTS.tolist(),
    "tuple of arrays": lambda: tuple(POINTS),
    "generator": lambda: (point for point in POINTS),
    "generator of arrays": lambda: (POINTS[begin : begin + 7] for begin in range(0, 400, 7)),
    "list of arrays": lambda: [POINTS[:100], POINTS[100], POINTS[101:]],
    "chunks": lambda: iter(
        [FrameChunk(POINTS[:9], np.arange(9), None, ""), FrameChunk(POINTS[9:], np.arange(391), None, "")]
    ),
    "async generator": lambda: each(POINTS),
    "async generator of arrays": lambda: each([POINTS[:100], POINTS[100], POINTS[101:]]),
}


@pytest.mark.parametrize("max_delay", [0.0, 0.01])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_gives_what_transform_gives(model, kind, max_delay):
    engine = StreamEmbedder(model, max_delay=max_delay, max_batch=64)
    kept = Kept()
    summary = engine.run(SOURCES[kind](), [kept])
    assert kept.numbers() == list(range(400))
    np.testing.assert_allclose(kept.coordinates(), model.transform(POINTS), rtol=1e-9, atol=1e-12)
    coverage = model.coverage(POINTS)
    np.testing.assert_array_equal(
        np.concatenate([one.coverage.inside for one in kept.batches]), coverage.inside
    )
    np.testing.assert_array_equal(
        np.concatenate([one.coverage.nearest for one in kept.batches]), coverage.nearest
    )
    assert (summary.records, summary.rejected, summary.ended) == (400, 0, "end")
    assert summary.inside == int(coverage.inside.sum())
    assert summary.latency.count == 400
    assert kept.closed
    assert reader_threads() == []
    pulled = np.concatenate([one.coordinates for one in engine.stream(SOURCES[kind]())])
    np.testing.assert_allclose(pulled, kept.coordinates(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", SOURCES)
def test_async_code(model, kind):
    async def gather():
        engine = StreamEmbedder(model, max_delay=0.001)
        return [one async for one in engine.astream(SOURCES[kind]())]

    parts = asyncio.run(gather())
    assert [number for one in parts for number in one.numbers.tolist()] == list(range(400))
    coordinates = np.concatenate([one.coordinates for one in parts])
    np.testing.assert_allclose(coordinates, model.transform(POINTS), rtol=1e-9, atol=1e-12)


def test_async_code_failures(model):
    async def broken():
        yield POINTS[0]
        raise ValueError("the sensor fell off")

    async def gather(source, **settings):
        return [len(one) async for one in StreamEmbedder(model, **settings).astream(source)]

    with pytest.raises(SourceError, match=r"after 1 records \(ValueError: the sensor fell off"):
        asyncio.run(gather(broken()))
    with pytest.raises(BadRecordError, match="record 1 "):
        asyncio.run(gather([POINTS[0], [1, 2]], bad_records="raise"))
    with pytest.raises(StreamStalledError):
        asyncio.run(gather(Scripted(1, *[None] * 1000), stall_after=0.02, on_stall="raise"))

    async def wrong():
        StreamEmbedder(model).run(each(POINTS))

    with pytest.raises(InvalidInputError, match="needs astream"):
        asyncio.run(wrong())


class Frames(FrameSource):
    n_atoms = 22

    def __iter__(self):
        frames = FRAMES
        for begin in range(0, len(frames), 5):
            part = frames[begin : begin + 5]
            yield FrameChunk(
                part, np.arange(begin, begin + len(part)), np.arange(begin, begin + len(part)) * 2.0, "f"
            )


@pytest.mark.parametrize("kind", ["array", "generator", "frame source", "flat"])
def test_frames(molecule, kind):
    frames = FRAMES
    source = {
        "array": frames,
        "generator": (frame for frame in frames),
        "frame source": Frames(),
        "flat": frames.reshape(len(frames), -1),
    }[kind]
    kept = Kept()
    StreamEmbedder(molecule, max_batch=3).run(source, [kept])
    np.testing.assert_allclose(kept.coordinates(), molecule.transform(frames), rtol=1e-4, atol=1e-5)
    if kind == "frame source":
        times = np.concatenate([one.times for one in kept.batches])
        np.testing.assert_array_equal(times, np.arange(len(frames)) * 2.0)


def test_frames_of_other_atoms_are_refused(molecule):
    known = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=20).fit(Frames())

    class Other(Frames):
        n_atoms = 21

    with pytest.raises(InvalidInputError, match="but the map takes 22"):
        StreamEmbedder(known).run(Other())


def test_batches_are_what_has_arrived_or_what_may_wait(model):
    """With max_delay the same single records come in fewer, larger batches."""
    single, together = Kept(), Kept()
    StreamEmbedder(model).run(Scripted(*range(100)), [single])
    StreamEmbedder(model, max_delay=30.0, max_batch=40).run(Scripted(*range(100)), [together])
    assert len(single.batches) == 100
    assert [len(one) for one in together.batches] == [40, 40, 20]
    assert together.numbers() == single.numbers() == list(range(100))


def test_nobody_waits_longer_than_max_delay(model):
    """Without more company a record is passed on, although the batch is not full and the source has not ended."""
    seen, release = threading.Event(), threading.Event()

    def points():
        yield POINTS[0]
        assert release.wait(PATIENCE)
        yield POINTS[1]

    def watch(embedded):
        seen.set()

    engine = StreamEmbedder(model, max_delay=0.02)
    thread = threading.Thread(target=engine.run, args=(points(), [watch]))
    thread.start()
    try:
        assert seen.wait(PATIENCE), "the first record was held back"
    finally:
        release.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def test_points_of_changing_shape_do_not_meet_in_a_batch(molecule):
    frames = FRAMES
    source = iter([frames[0], frames[1][:21], frames[2]])
    kept = Kept()
    summary = StreamEmbedder(molecule, max_delay=0.05).run(source, [kept])
    assert kept.numbers() == [0, 2]
    assert [(one.number, one.reason) for one in kept.rejected()] == [(1, "21 atoms, but the map takes 22")]
    assert summary.rejected == 1


# -- bad records ---------------------------------------------------------------


def spoiled():
    points = POINTS[:20].copy()
    points[3, 1] = np.nan
    points[11, 0] = np.inf
    return points


def test_nan_rows_are_put_apart(model):
    kept = Kept()
    summary = StreamEmbedder(model).run(spoiled(), [kept])
    good = [number for number in range(20) if number not in (3, 11)]
    assert kept.numbers() == good
    np.testing.assert_allclose(kept.coordinates(), model.transform(POINTS[good]), rtol=1e-9, atol=1e-12)
    assert [(one.number, one.reason) for one in kept.rejected()] == [
        (3, "nan at column 2 is not a finite number"),
        (11, "inf at column 1 is not a finite number"),
    ]
    assert (summary.records, summary.rejected) == (18, 2)


def test_a_frame_with_nan_names_the_atom(molecule):
    frames = FRAMES[:4].copy()
    frames[2, 7, 1] = np.nan
    kept = Kept()
    StreamEmbedder(molecule).run(frames, [kept])
    assert [(one.number, one.reason) for one in kept.rejected()] == [
        (2, "nan at atom 7 is not a finite number")
    ]


def test_items_that_are_no_points(model):
    source = iter(
        [POINTS[0], "text", [1, 2], None, [[1, 2, 3], [4, 5]], {"a": 1}, np.ones((2, 2, 2)), POINTS[1]]
    )
    kept = Kept()
    summary = StreamEmbedder(model).run(source, [kept])
    assert kept.numbers() == [0, 7]
    assert [one.number for one in kept.rejected()] == [1, 2, 3, 4, 5, 6]
    assert kept.rejected()[1].reason == "2 numbers, but the map takes 3"
    assert (summary.records, summary.rejected) == (2, 6)


def test_a_metric_with_rules_of_its_own():
    """Negative mass is finite and of the right shape, and only the metric knows that it is wrong."""
    rng = np.random.default_rng(0)
    points = rng.random((30, 4))
    fitted = LandmarkDiffusionMap(1, 5.0, metric="earth_mover", n_landmarks=10).fit(points)
    stream = points[:5].copy()
    stream[2, 0] = -1
    kept = Kept()
    StreamEmbedder(fitted).run(stream, [kept])
    assert kept.numbers() == [0, 1, 3, 4]
    assert [one.number for one in kept.rejected()] == [2]


def test_quarantine(model, tmp_path):
    engine = StreamEmbedder(model, bad_records="quarantine")
    with pytest.raises(InvalidInputError, match="needs a sink that keeps rejected records"):
        engine.run(spoiled(), [OutputFile(tmp_path / "psi.csv")])
    engine.run(spoiled(), [OutputFile(tmp_path / "psi.csv"), QuarantineFile(tmp_path / "bad.ndjson")])
    lines = [json.loads(line) for line in (tmp_path / "bad.ndjson").read_text().splitlines()]
    assert [line["number"] for line in lines] == [3, 11]
    assert lines[0]["raw"].split(", ")[1] == "nan"


@pytest.mark.parametrize("max_batch", [1, 4, 100])
def test_bad_records_may_be_fatal(model, max_batch):
    engine = StreamEmbedder(model, bad_records="raise", max_batch=max_batch)
    kept = Kept()
    with pytest.raises(BadRecordError, match="record 3 cannot be embedded: nan at column 2"):
        engine.run(spoiled(), [kept])
    assert kept.numbers() == [0, 1, 2]
    assert kept.flushed
    assert kept.closed
    pulled = []
    with pytest.raises(BadRecordError):
        pulled.extend(number for one in engine.stream(spoiled()) for number in one.numbers.tolist())
    assert pulled == [0, 1, 2]


# -- sources and sinks that fail -------------------------------------------------


@pytest.mark.parametrize("max_delay", [0.0, 0.01])
def test_a_source_that_dies(model, max_delay):
    source, kept = Scripted(*range(10), OSError("cable"), *range(5)), Kept()
    engine = StreamEmbedder(model, max_delay=max_delay)
    with pytest.raises(SourceError, match=r"the script failed after 10 records \(OSError: cable\)") as caught:
        engine.run(source, [kept])
    assert isinstance(caught.value.__cause__, OSError)
    assert kept.numbers() == list(range(10))
    assert kept.flushed
    assert kept.closed
    assert source.closed == 1
    assert engine.summary.ended == "failed"
    assert reader_threads() == []


def test_a_source_that_cannot_be_opened(model):
    class Shut(Scripted):
        def open(self, position=None):
            raise InvalidInputError("no such place")

    source = Shut(1)
    with pytest.raises(InvalidInputError, match="no such place"):
        StreamEmbedder(model).run(source)
    assert source.closed == 1


@pytest.mark.parametrize("max_delay", [0.0, 0.001])
def test_a_stall_is_told_once_and_counted(model, max_delay, caplog):
    source = Scripted(1, *[None] * 60, 2, *[None] * 60, 3)
    summary = StreamEmbedder(model, stall_after=0.15, max_delay=max_delay).run(source, [Kept()])
    assert summary.stalls == 2
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "nothing came from the script for" in caplog.text


def test_a_stall_may_be_fatal(model):
    kept = Kept()
    engine = StreamEmbedder(model, stall_after=0.05, on_stall="raise")
    with pytest.raises(StreamStalledError, match="stall_after=0.05"):
        engine.run(Scripted(1, 2, *[None] * 1000), [kept])
    assert kept.numbers() == [0, 1]
    assert kept.flushed
    assert engine.summary.stalls == 1


def test_an_iterator_that_stalls(model, monkeypatch):
    """It cannot be asked to hurry, so it is watched from another thread."""
    noticed = threading.Event()

    class Noticed(StreamStalledError):
        def __init__(self, *text):
            super().__init__(*text)
            noticed.set()

    def points():
        yield POINTS[0]
        noticed.wait(PATIENCE)

    kept = Kept()
    monkeypatch.setattr(gathering, "StreamStalledError", Noticed)
    with pytest.raises(StreamStalledError):
        StreamEmbedder(model, stall_after=0.05, on_stall="raise").run(points(), [kept])
    assert kept.numbers() == [0]


@pytest.mark.parametrize("max_delay", [0.0, 0.001])
def test_a_slow_sink_slows_the_source(model, max_delay):
    source = Scripted(*range(200), rows=10)
    ahead = []

    class Slow(Kept):
        def write(self, embedded):
            super().write(embedded)
            time.sleep(0.002)
            ahead.append(source.polled - len(self.numbers()))

    slow = Slow()
    summary = StreamEmbedder(model, max_delay=max_delay, max_batch=20).run(source, [slow])
    assert slow.numbers() == list(range(2000))
    # One batch that is gathered, two in the queue, and one that the reader holds in its hand.
    assert max(ahead) <= 80
    assert summary.peak_queue <= 40
    assert (summary.peak_queue > 0) == (max_delay > 0)


def test_a_sink_that_dies(model):
    before, dead, after = Kept(), Kept(fails_at=3), Kept()
    source = Scripted(*range(10))
    with pytest.raises(SinkError, match=r"sink failed \(RuntimeError: the disk is on fire\)") as caught:
        StreamEmbedder(model).run(source, [before, dead, after])
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert (before.numbers(), dead.numbers(), after.numbers()) == ([0, 1, 2, 3], [0, 1, 2], [0, 1, 2])
    assert before.flushed >= 2  # one is at the beginning
    assert after.flushed >= 2
    assert before.closed
    assert dead.closed
    assert after.closed
    assert source.closed == 1


def test_a_callback_that_raises(model):
    def grumble(embedded):
        raise ValueError("no")

    with pytest.raises(SinkError, match="the callback grumble failed"):
        StreamEmbedder(model).run(POINTS, [grumble])


# -- stopping ------------------------------------------------------------------


@pytest.mark.parametrize("max_delay", [0.0, 0.001])
def test_a_stop_event_ends_the_stream_and_loses_nothing(model, max_delay):
    stop, source = threading.Event(), Scripted(*range(100_000))

    class Until(Kept):
        def write(self, embedded):
            super().write(embedded)
            if len(self.numbers()) >= 50:
                stop.set()

    kept = Until()
    summary = StreamEmbedder(model, max_delay=max_delay, max_batch=8).run(source, [kept], stop=stop)
    assert summary.ended == "stopped"
    assert kept.numbers() == list(range(source.polled))
    assert 50 <= source.polled < 1000
    assert source.closed == 1
    assert reader_threads() == []


@pytest.mark.parametrize("max_delay", [0.0, 0.001])
def test_closing_the_generator_ends_the_thread(model, max_delay):
    source = Scripted(*range(1000))
    stream = StreamEmbedder(model, max_delay=max_delay).stream(source)
    next(stream)
    stream.close()
    assert source.closed == 1
    assert reader_threads() == []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
@pytest.mark.parametrize("max_delay", [0.0, 0.001])
@pytest.mark.parametrize("where", ["in a sink", "in the source"])
def test_ctrl_c_waits_for_the_records_under_way(model, max_delay, where):
    source = Scripted(*range(100_000))

    class Interrupted(Kept):
        def write(self, embedded):
            if where == "in a sink" and len(self.batches) == 5:
                os.kill(os.getpid(), signal.SIGINT)
            super().write(embedded)

    if where == "in the source":
        poll = source.poll

        def interrupted(most, wait):
            if source.polled == 5:
                os.kill(os.getpid(), signal.SIGINT)
            return poll(most, wait)

        source.poll = interrupted
    first, second = Interrupted(), Kept()
    engine = StreamEmbedder(model, max_delay=max_delay)
    with pytest.raises(KeyboardInterrupt):
        engine.run(source, [first, second])
    assert first.numbers() == second.numbers() == list(range(source.polled))
    assert source.polled >= 5
    assert first.flushed >= 2
    assert first.closed
    assert engine.summary.ended == "stopped"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert reader_threads() == []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
def test_ctrl_c_interrupts_an_iterator_that_waits(model):
    def points():
        yield POINTS[0]
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(PATIENCE)
        raise AssertionError("nobody interrupted this")

    kept = Kept()
    with pytest.raises(KeyboardInterrupt):
        StreamEmbedder(model).run(points(), [kept])
    assert kept.numbers() == [0]


@pytest.mark.parametrize("max_delay", [0.0, 0.01])
@pytest.mark.parametrize("limit", [0, 1, 33])
def test_max_records(model, limit, max_delay):
    kept = Kept()
    summary = StreamEmbedder(model, max_batch=10, max_delay=max_delay).run(POINTS, [kept], max_records=limit)
    assert kept.numbers() == list(range(limit))
    assert summary.ended == "limit"


@pytest.mark.parametrize("max_delay", [0.0, 0.001])
def test_memory_does_not_grow_with_the_stream(model, max_delay):
    """A run holds a few batches, whatever its length: here 36 kB each, of a stream of 36 MB."""
    import tracemalloc

    engine = StreamEmbedder(model, max_delay=max_delay, max_batch=1500, n_threads=1)
    block = np.tile(POINTS[:300], (5, 1))
    engine.run(block for _ in range(5))  # what is loaded or made once
    tracemalloc.start()
    try:
        summary = engine.run(block.copy() for _ in range(1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert summary.records == 1_500_000
    assert peak < 4_000_000


# -- the tracker ----------------------------------------------------------------


class Halves:
    """A tracker as the engine sees one."""

    names = ("low", "high")
    regions: ClassVar = {}

    def __init__(self):
        self.seen = 0

    def update(self, coordinates, coverage, numbers, times, explain):
        self.seen += len(coordinates)
        labels = (coordinates[:, 0] > 0).astype(np.intp)
        return labels, (Event("enter", self.names[labels[0]], int(numbers[0]), None, 0),)

    def state(self):
        return self.seen

    def restore(self, state):
        self.seen = state


def test_regions_and_events_reach_the_sinks(model):
    kept, tracker = Kept(), Halves()
    summary = StreamEmbedder(model, tracker=tracker, max_batch=100).run(POINTS, [kept])
    regions = np.concatenate([one.regions for one in kept.batches])
    np.testing.assert_array_equal(regions, kept.coordinates()[:, 0] > 0)
    assert [event.number for one in kept.batches for event in one.events] == [0, 100, 200, 300]
    assert sum(summary.events.values()) == 4
    assert set(summary.events) <= {"enter:low", "enter:high"}


def test_a_real_tracker_does_not_see_the_batches(model):
    from ldmaps.regions import Box, RegionTracker

    def events(**settings):
        kept = Kept()
        tracker = RegionTracker(
            {"right": Box({"psi2": (0.0, None)}, margin=0.001)}, enter_after=2, dwell_every=5
        )
        StreamEmbedder(model, tracker=tracker, **settings).run(POINTS, [kept])
        return [event for one in kept.batches for event in one.events]

    assert events(max_batch=1) == events(max_batch=37) == events(max_delay=0.01) != []


# -- pipes -----------------------------------------------------------------------


def test_a_pipe_gives_what_has_come_and_waits_for_the_rest(model):
    reading, writing = os.pipe()
    source = PipeSource(reading, facts={"n_features": 3})
    source.open()
    try:
        assert len(source.poll(10, 0.0)) == 0
        os.write(writing, b"1,2,3\n4,5")
        assert source.poll(10, 5.0).points.tolist() == [[1, 2, 3]]
        assert len(source.poll(10, 0.01)) == 0
        os.write(writing, b",6\n" + b"7,8,9\n" * 5)
        assert len(source.poll(2, 5.0)) == 2
        assert len(source.poll(10, 5.0)) == 4
        os.write(writing, b"7,8,9")
        os.close(writing)
        assert source.poll(10, 5.0).numbers.tolist() == [7]
        assert source.poll(10, 5.0) is None
    finally:
        os.close(reading)


@pytest.mark.parametrize("max_delay", [0.0, 0.005])
def test_a_pipe_that_trickles(model, max_delay):
    reading, writing = os.pipe()
    data = b"".join(b"%r,%r,%r\n" % tuple(row) for row in POINTS.tolist())

    def trickle():
        for begin in range(0, len(data), 1000):
            os.write(writing, data[begin : begin + 1000])
        os.close(writing)

    thread = threading.Thread(target=trickle)
    thread.start()
    kept = Kept()
    StreamEmbedder(model, max_delay=max_delay).run(PipeSource(reading, facts={"n_features": 3}), [kept])
    thread.join(PATIENCE)
    os.close(reading)
    np.testing.assert_allclose(kept.coordinates(), model.transform(POINTS), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "npy"])
def test_files_by_name(model, tmp_path, suffix):
    path = tmp_path / f"points.{suffix}"
    if suffix == "csv":
        np.savetxt(path, POINTS, delimiter=",", fmt="%.17g")
    elif suffix == "npy":
        np.save(path, POINTS)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in POINTS.tolist()))
    kept = Kept()
    StreamEmbedder(model).run(path, [kept])
    np.testing.assert_allclose(kept.coordinates(), model.transform(POINTS), rtol=1e-9, atol=1e-12)


def test_a_model_may_be_a_path(model, tmp_path):
    model.save(tmp_path / "map.ldm")
    parts = list(StreamEmbedder(tmp_path / "map.ldm").stream(POINTS[:5]))
    np.testing.assert_allclose(parts[0].coordinates, model.transform(POINTS[:5]), rtol=1e-9)


# -- settings --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_delay": -1}, "max_delay must be"),
        ({"max_delay": "soon"}, "max_delay must be"),
        ({"max_batch": 0}, "max_batch must be"),
        ({"bad_records": "ignore"}, "bad_records must be one of quarantine, count, raise"),
        ({"stall_after": 0}, "stall_after must be"),
        ({"on_stall": "cry"}, "on_stall must be"),
    ],
)
def test_settings_are_checked(model, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        StreamEmbedder(model, **settings)


def test_bad_arguments(model):
    engine = StreamEmbedder(model)
    with pytest.raises(InvalidInputError, match="a fitted map is needed"):
        StreamEmbedder(LandmarkDiffusionMap())
    with pytest.raises(InvalidInputError, match="int is not a source"):
        engine.run(3)
    with pytest.raises(InvalidInputError, match="max_records must be"):
        engine.run(POINTS, max_records=-1)
    with pytest.raises(InvalidInputError, match="cannot be read again"):
        engine.run(iter(POINTS), checkpoint="c")
    with pytest.raises(FileNotFoundError):
        engine.run(open_source("no/such/file.csv"))


def test_one_step(model):
    records = Records(POINTS[:2], np.array([5, 6]), None, np.zeros(2), (Rejected(4, "bad"),), {"at": 1})
    embedded = StreamEmbedder(model).embed(records)
    assert embedded.numbers.tolist() == [5, 6]
    assert embedded.position == {"at": 1}
    assert embedded.rejected == (Rejected(4, "bad"),)
    assert embedded.regions.tolist() == [-1, -1]
    nothing = StreamEmbedder(model).embed(Records(np.empty((0, 3)), np.empty(0, int), None, np.empty(0)))
    assert nothing.coordinates.shape == (0, 2)
    assert len(nothing) == 0


def test_percentiles_are_right_to_a_few_percent():
    values = np.random.default_rng(0).lognormal(-7, 1.5, 10_000)
    together, one_by_one = LatencyHistogram(), LatencyHistogram()
    together.add(values)
    for value in values:
        one_by_one.add(np.array([value]))
    np.testing.assert_array_equal(together.counts, one_by_one.counts)
    for percent in (1, 50, 99, 99.9):
        assert together.percentile(percent) == pytest.approx(np.percentile(values, percent), rel=0.05)
    assert together.longest == values.max()
    assert together.mean == pytest.approx(values.mean())
    assert LatencyHistogram().percentile(99) == 0
    extreme = LatencyHistogram()
    extreme.add(np.array([-1.0, 0.0, 1e9]))
    assert extreme.count == extreme.counts.sum() == 3


def test_some_of_the_embedded_records(model):
    points, numbers = POINTS[:4], np.array([5, 6, 8, 9])
    records = Records(points, numbers, numbers / 2, np.zeros(4), (Rejected(7, "bad"),), {"at": 1})
    embedded = StreamEmbedder(model).embed(records)
    embedded.events = tuple(Event("enter", "low", number, None, 0) for number in (5, 8))
    mask = np.array([False, True, True, False])
    some = embedded.take(mask)
    assert some.numbers.tolist() == [6, 8]
    assert some.times.tolist() == [3.0, 4.0]
    assert [event.number for event in some.events] == [8]
    assert some.rejected == ()
    assert some.position is None
    np.testing.assert_array_equal(some.points, points[1:3])
    np.testing.assert_array_equal(some.coordinates, embedded.coordinates[1:3])
    for part, whole in zip(some.coverage, embedded.coverage, strict=True):
        np.testing.assert_array_equal(part, None if whole is None else whole[1:3])
    assert len(some.arrived) == len(some.regions) == 2
