"""After a crash at any moment a restart neither loses nor repeats a record."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import (
    BadRecordError,
    CheckpointError,
    InvalidInputError,
    LdmapsError,
    SinkError,
    SourceError,
)
from ldmaps.regions import Box, RegionTracker
from ldmaps.streaming import EventsFile, OutputFile, QuarantineFile, Sink, StreamEmbedder
from ldmaps.streaming.checkpoint import Checkpoint
from ldmaps.streaming.records import Records
from ldmaps.streaming.reservoir import OutsideFile
from ldmaps.streaming.sources.tables import FileSource
from tools import kills

POINTS = swiss_roll(400, random_state=0).points
KILLS = 4
#: Each kind of source and of output once; make test-slow kills the others too.
QUICK = {"csv", "followed dcd", "to redis"}


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(POINTS[:300])


def lines(count, suffix):
    """Return records, some of which are bad."""
    rng = np.random.default_rng(1)
    found = []
    for number, row in enumerate(np.round(POINTS[rng.integers(0, 400, count)], 6).tolist()):
        text = json.dumps(row) if suffix == "ndjson" else ",".join(map(str, row))
        if number % 97 == 5:
            text = "nan,1,2" if suffix == "csv" else "[NaN,1,2]"
        elif number % 101 == 7:
            text = "rubbish" if suffix == "csv" else '{"x": [1, 2'
        found.append(text)
    return "\n".join(found) + "\n"


# -- kill -9 ---------------------------------------------------------------------


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the processes to be killed are forked, which needs POSIX"
)
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case.name in QUICK else pytest.mark.slow) for case in kills.CASES],
    ids=lambda case: case.name,
)
def test_killed_again_and_again(case):
    """What ``make kills`` does a thousand times: every source and form of output, at moments that nobody chose."""
    if case.missing:
        pytest.skip(f"{', '.join(case.missing)} is not installed")
    command = [sys.executable, kills.__file__, "--kills", str(KILLS), "--only", case.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    count = re.search(r"(\d+) kills, 0 of 1 cases failed", done.stdout)
    assert count is not None
    assert int(count[1]) >= KILLS


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL needs POSIX")
def test_the_command_line_killed(model, tmp_path):
    """The real command, stdin redirected from a file, killed while the output grows."""
    model.save(tmp_path / "map.ldm")
    source = tmp_path / "input.csv"
    source.write_text(lines(60_000, "csv"))
    output = tmp_path / "psi.csv"
    command = [sys.executable, "-m", "ldmaps", "stream", str(tmp_path / "map.ldm"), "-", "-o", str(output)]
    command += [
        "--checkpoint",
        str(tmp_path / "c"),
        "--checkpoint-every",
        "0.02",
        "--max-batch",
        "32",
        "--threads",
        "1",
        "--alarm-rate",
        "none",
    ]
    checkpoint = Checkpoint(tmp_path / "c")
    committed = 0
    for _ in range(3):
        before = committed
        with (
            open(source, "rb") as stdin,
            subprocess.Popen(command, stdin=stdin, stderr=subprocess.DEVNULL) as process,
        ):
            try:
                deadline = time.monotonic() + 300
                # A run killed by the clock may not have come to its first checkpoint.
                while committed == before and time.monotonic() < deadline and process.poll() is None:
                    time.sleep(0.001)
                    committed = (checkpoint.read() or {"counts": {"records": 0}})["counts"]["records"]
            finally:
                process.kill()
            process.wait(120)
    assert committed > 0
    with open(source, "rb") as stdin:
        done = subprocess.run(
            [*command, "--json"], stdin=stdin, capture_output=True, text=True, timeout=300, check=True
        )
    summary = json.loads(done.stdout)
    assert summary["resumed_from"] > 0
    assert not (tmp_path / "c.lock").exists()
    kept = OutputFile(tmp_path / "expected.csv")
    whole = StreamEmbedder(model, n_threads=1).run(FileSource(source), [kept])
    assert output.read_bytes() == (tmp_path / "expected.csv").read_bytes()
    assert summary["records"] == whole.records
    assert summary["rejected"] == whole.rejected


# -- stopping and going on ---------------------------------------------------------


class Failing(Sink):
    """Fails at a batch; durable ones beside it must not be committed past it."""

    def __init__(self, at):
        self.left = at

    def write(self, embedded):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("full")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "input.csv").write_text(lines(500, "csv"))
    return tmp_path


def run(model, place, *more, output="psi.csv", source=None, tracker=None, bad_records="count", **settings):
    engine = StreamEmbedder(model, max_batch=20, tracker=tracker, bad_records=bad_records)
    settings = {"checkpoint": place / "c", "checkpoint_every": 0.0, **settings}
    sinks = [OutputFile(place / output), *more]
    return engine.run(place / "input.csv" if source is None else source, sinks, **settings)


def expected(model, place):
    path = place / "expected.csv"
    StreamEmbedder(model).run(place / "input.csv", [OutputFile(path, overwrite=True)])
    return path.read_bytes()


def test_going_on_after_a_limit_and_after_a_stop(model, place):
    first = run(model, place, max_records=120)
    assert first.ended == "limit"
    assert first.records + first.rejected >= 120
    stop = threading.Event()
    second = run(model, place, lambda embedded: stop.set(), stop=stop)
    assert second.ended == "stopped"
    assert second.resumed_from == first.records
    last = run(model, place)
    assert last.ended == "end"
    assert (place / "psi.csv").read_bytes() == expected(model, place)
    again = run(model, place)
    assert again.records == last.records == again.resumed_from
    assert (place / "psi.csv").read_bytes() == expected(model, place)


def test_the_same_command_after_a_kill_reads_no_more_than_its_limit(model, place):
    def broken(embedded):
        if embedded.numbers[-1] >= 90:
            raise RuntimeError("killed")

    with pytest.raises(SinkError):
        run(model, place, broken, max_records=200, checkpoint_every=0.0)
    before = len((place / "psi.csv").read_text().splitlines())
    assert before < 200
    done = run(model, place, max_records=200)
    assert (done.ended, done.read) == ("limit", 200)
    assert done.resumed_from > 0
    lines = expected(model, place).splitlines(keepends=True)
    assert (place / "psi.csv").read_bytes() == b"".join(lines[: done.records + 1])
    again = run(model, place, max_records=200)
    assert (again.ended, again.read, again.records) == ("limit", 200, done.records)


@pytest.mark.parametrize("source", ["array", "list", "frames"])
def test_data_in_memory_can_be_gone_on_with(model, tmp_path, source):
    from ldmaps.inputs import FrameChunk, FrameSource

    class Rows(FrameSource):
        n_atoms = 1

        def __iter__(self):
            for begin in range(0, 400, 30):
                part = POINTS[begin : begin + 30]
                yield FrameChunk(part, np.arange(len(part)), None, "rows")

    data = {"array": POINTS, "list": POINTS.tolist(), "frames": Rows()}[source]
    engine = StreamEmbedder(model, max_batch=50)
    for most in (135, 270, None):
        engine.run(data, [OutputFile(tmp_path / "a.csv")], checkpoint=tmp_path / "c", max_records=most)
    engine.run(data, [OutputFile(tmp_path / "b.csv")])
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_dead_sink_keeps_the_checkpoint_where_it_was(model, place):
    with pytest.raises(SinkError, match="full"):
        run(model, place, Failing(at=7))
    saved = json.loads((place / "c").read_text())
    assert saved["counts"]["batches"] == 7
    assert (place / "psi.csv").stat().st_size > saved["sinks"][0]["mark"]["bytes"]
    run(model, place, Failing(at=10**9))
    assert (place / "psi.csv").read_bytes() == expected(model, place)


def test_a_dead_source_has_everything_before_committed(model, place):
    class Dying(FileSource):
        left = 5

        def poll(self, most, wait):
            self.left -= 1
            if self.left < 0:
                raise OSError("gone")
            return super().poll(most, wait)

    with pytest.raises(SourceError, match="gone"):
        run(model, place, source=Dying(place / "input.csv"), checkpoint_every=1000)
    saved = json.loads((place / "c").read_text())
    assert saved["counts"]["records"] + saved["counts"]["rejected"] == 100
    assert saved["sinks"][0]["mark"]["bytes"] == (place / "psi.csv").stat().st_size
    run(model, place)
    assert (place / "psi.csv").read_bytes() == expected(model, place)


def test_a_fatal_record_is_met_again(model, place):
    for _ in range(2):
        with pytest.raises(BadRecordError, match="record 5 "):
            run(model, place, bad_records="raise")
        assert len((place / "psi.csv").read_text().splitlines()) == 6
    run(model, place, bad_records="count")
    assert (place / "psi.csv").read_bytes() == expected(model, place)


def test_the_tracker_goes_on_too(model, place):
    def tracker():
        return RegionTracker({"right": Box({"psi2": (0.0, None)})}, enter_after=3, dwell_every=4)

    for most in (133, 266, 399, None):
        run(model, place, EventsFile(place / "e"), tracker=tracker(), max_records=most)
    once = StreamEmbedder(model, tracker=tracker())
    once.run(place / "input.csv", [EventsFile(place / "expected")])
    assert (place / "e").read_bytes() == (place / "expected").read_bytes()
    assert (place / "e").stat().st_size > 0


def test_checkpoints_are_written_while_nothing_comes(model, place):
    """Otherwise the last records before a pause would not be safe until it ends."""

    class Pausing(FileSource):
        reads_ahead = False
        polls = 0

        def poll(self, most, wait):
            self.polls += 1
            if self.polls == 1:
                return super().poll(20, wait)
            if self.polls < 5:
                time.sleep(0.03)
                return Records.none()
            calls.append("end")
            return None

    calls = []

    class Watching(Sink):
        def flush(self):
            calls.append("flush")

        def write(self, embedded):
            calls.append("write")

    run(model, place, Watching(), source=Pausing(place / "input.csv"), checkpoint_every=0.05)
    # At the beginning, and once in the pause, after which nothing is left to be made safe.
    assert calls == ["flush", "write", "flush", "end"]


def test_nothing_is_touched_by_a_run_that_is_refused(model, place):
    """Whatever is at fault: the checkpoint, an input, another output."""
    psi, outside, events = place / "psi.csv", place / "outside.npz", place / "events"

    def sinks():
        return [
            OutputFile(psi, overwrite=True),
            OutsideFile(outside, model, overwrite=True),
            EventsFile(events, overwrite=True),
        ]

    engine = StreamEmbedder(model)
    engine.run(place / "input.csv", sinks())
    events.write_bytes(b"kept")
    before = {path: path.read_bytes() for path in (psi, outside, events)}
    (place / "c").write_text("{")
    refusals = [
        (place / "input.csv", sinks(), {"checkpoint": place / "c"}),
        (place / "mistyped.csv", sinks(), {}),
        (place / "input.csv", [*sinks(), OutputFile(place / "nowhere" / "psi.csv")], {}),
        (place / "input.csv", [*sinks(), QuarantineFile(events)], {}),
        (place / "input.csv", [*sinks(), OutsideFile(place / "nowhere" / "o", model)], {}),
    ]
    for source, taken, settings in refusals:
        with pytest.raises((LdmapsError, OSError)):
            engine.run(source, taken, **settings)
        assert {path: path.read_bytes() for path in before} == before
        assert sorted(path.name for path in place.iterdir()) == sorted(
            ["c", "input.csv", *(path.name for path in before)]
        )


def test_a_refused_restart_cuts_nothing(model, place):
    run(model, place, EventsFile(place / "e"), max_records=50)
    with open(place / "psi.csv", "ab") as out:
        out.write(b"after the mark\n")
    before = (place / "psi.csv").read_bytes()
    (place / "input.csv").rename(place / "elsewhere.csv")
    with pytest.raises((LdmapsError, OSError)):
        run(model, place, EventsFile(place / "e"))
    (place / "elsewhere.csv").rename(place / "input.csv")
    (place / "e").unlink()
    refused("is missing", model, place, EventsFile(place / "e"))
    assert (place / "psi.csv").read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="open files cannot be removed elsewhere")
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("removed", "was removed or renamed"),
        ("replaced", "was replaced by another file"),
        ("cut", "bytes, but .* were written"),
        ("extended", "bytes, but .* were written"),
        ("written over", "was overwritten"),
    ],
)
def test_an_output_that_somebody_else_touches_is_an_error(model, place, how, message):
    path = place / "psi.csv"
    done = []

    def interfere(embedded):
        if len(done) == 3:
            if how in ("removed", "replaced"):
                path.unlink()
            if how == "replaced":
                path.write_bytes(b"")
            elif how == "cut":
                os.truncate(path, 100)
            elif how == "extended":
                with open(path, "ab") as out:
                    out.write(b"mine\n")
            elif how == "written over":
                with open(path, "r+b") as out:
                    out.seek(-20, 2)
                    out.write(b"#")
        done.append(len(embedded))

    engine = StreamEmbedder(model, max_batch=20)
    source = FileSource(place / "input.csv")
    settings = {} if how == "cut" else {"checkpoint": place / "c", "checkpoint_every": 0.0}
    with pytest.raises(SinkError, match=message):
        engine.run(source, [OutputFile(path), interfere], **settings)
    if path.exists():
        assert b"\0" not in path.read_bytes()


def test_a_byte_changed_anywhere_in_an_output_is_known_on_restart(model, place):
    run(model, place, max_records=400)
    data = bytearray((place / "psi.csv").read_bytes())
    assert len(data) > 20_000
    data[300] ^= 1
    (place / "psi.csv").write_bytes(data)
    refused("is not what the checkpoint was made for", model, place)
    assert (place / "psi.csv").read_bytes() == data


# -- refusals --------------------------------------------------------------------


def refused(match, *arguments, error=CheckpointError, **settings):
    with pytest.raises(error, match=match):
        run(*arguments, **settings)


def test_another_model_output_source_or_tracker_is_refused(model, place):
    run(model, place, max_records=50)
    before = (place / "psi.csv").read_bytes()
    other = LandmarkDiffusionMap(2, 9.0, n_landmarks=39).fit(POINTS[:300])
    refused("belongs to another model", other, place)
    refused("belongs to the outputs .*psi.csv, but .*other.csv are given", model, place, output="other.csv")
    refused("belongs to the outputs", model, place, QuarantineFile(place / "q"))
    (place / "input2.csv").write_text(lines(500, "csv"))
    refused(
        "belongs to the source .*input.csv, not to .*input2.csv", model, place, source=place / "input2.csv"
    )
    tracker = RegionTracker({"right": Box({"psi2": (0.0, None)})})
    refused("was begun without regions", model, place, tracker=tracker)
    assert (place / "psi.csv").read_bytes() == before
    assert not (place / "other.csv").exists()
    run(model, place)
    assert (place / "psi.csv").read_bytes() == expected(model, place)


def test_an_input_that_was_written_anew_is_refused(model, place):
    run(model, place, max_records=50)
    text = (place / "input.csv").read_text()
    (place / "input.csv").write_text(text[:100])
    refused("shrank: it has", model, place, error=SourceError)
    (place / "input.csv").write_text(text.replace("1", "2"))
    refused("is not the file that was read before", model, place, error=SourceError)
    (place / "input.csv").write_text(text)
    run(model, place)
    assert (place / "psi.csv").read_bytes() == expected(model, place)


def test_damaged_outputs_are_refused(model, place):
    run(model, place, max_records=50)
    good = (place / "psi.csv").read_bytes()
    (place / "psi.csv").write_bytes(good[:-1])
    refused("bytes, but the checkpoint says", model, place)
    (place / "psi.csv").write_bytes(good[:-2] + b"?\n")
    refused("is not what the checkpoint was made for", model, place)
    (place / "psi.csv").unlink()
    refused("is missing", model, place)
    (place / "psi.csv").write_bytes(good)
    run(model, place)
    assert (place / "psi.csv").read_bytes() == expected(model, place)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda text: text[: len(text) // 2], "is damaged .it is not JSON"),
        (lambda text: "", "is damaged"),
        (lambda text: "\x00" * len(text), "is damaged"),
        (lambda text: text.replace('"records": 5', '"records": 6'), "its checksum does not match"),
        (lambda text: '{"format": "something else"}', "is not an ldmaps checkpoint"),
        (lambda text: "[1]", "is not an ldmaps checkpoint"),
        (lambda text: text.replace('"version": 1,', '"version": 2,'), "has checkpoint version 2"),
    ],
)
def test_damaged_checkpoints_are_refused(model, place, spoil, match):
    source = place / "input.csv"
    source.write_text("\n".join(source.read_text().splitlines()[8:]))
    run(model, place, max_records=50)
    text = (place / "c").read_text()
    assert '"records": 5' in text
    (place / "c").write_text(spoil(text))
    refused(match, model, place)
    (place / "c").write_text(text)
    run(model, place)


def test_an_output_without_its_checkpoint_is_not_overwritten(model, place):
    (place / "psi.csv").write_text("precious")
    refused("exists already", model, place, error=InvalidInputError)
    assert (place / "psi.csv").read_text() == "precious"
    assert not (place / "c").exists()
    assert not (place / "c.lock").exists()


def test_a_second_stream_with_the_same_checkpoint_is_refused(model, place):
    pytest.importorskip("fcntl", reason="file locks need fcntl")
    seen = []

    def second(embedded):
        with pytest.raises(CheckpointError, match="another process is using the checkpoint"):
            run(model, place, output="other.csv")
        seen.append(True)

    run(model, place, second, max_records=5)
    assert seen
    assert not (place / "other.csv").exists()
    assert not (place / "c.lock").exists()


def test_a_lock_that_a_killed_process_left_is_no_obstacle(model, place):
    (place / "c.lock").touch()
    run(model, place, max_records=5)
    assert not (place / "c.lock").exists()


@pytest.mark.parametrize(("path", "match"), [("no/such/c", "no directory"), ("folder", "is a directory")])
def test_checkpoints_that_cannot_be(model, place, path, match):
    (place / "folder").mkdir()
    refused(match, model, place, checkpoint=place / path)
    with pytest.raises(InvalidInputError, match="checkpoint_every"):
        run(model, place, checkpoint_every=-1)


def test_a_checkpoint_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "c"
    facts = {"model": "m", "source": "s", "position": None, "sinks": [], "tracker": None, "counts": {}}
    with Checkpoint(path) as checkpoint:
        assert checkpoint.read() is None
        checkpoint.write(**facts)
        monkeypatch.setattr("ldmaps.door.replace", lambda *names: (_ for _ in ()).throw(OSError("power cut")))
        with pytest.raises(
            CheckpointError, match=r"could not write .* \(power cut\)\. The previous checkpoint is intact"
        ):
            checkpoint.write(**{**facts, "model": "other"})
        assert checkpoint.read()["model"] == "m"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c"]
    assert issubclass(CheckpointError, LdmapsError)
