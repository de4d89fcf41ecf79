"""What reaches the disk, and in which order: recorded from the calls, since no crash of a process can show it."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, door
from ldmaps.datasets import swiss_roll
from ldmaps.files import written_whole
from ldmaps.streaming import OutputFile, StreamEmbedder
from ldmaps.streaming.checkpoint import Checkpoint

POINTS = swiss_roll(300, random_state=0).points
pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptors are told by their inodes")


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(POINTS)


@pytest.fixture
def calls(monkeypatch):
    """Every fsync, rename and write, with what it was done to: ("sync", name, size), ("rename", name) …"""
    recorded = []
    names = {}
    fsync, rename, write = os.fsync, os.replace, os.write

    def named(descriptor):
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return "folder", 0
        return names.get(status.st_ino, os.readlink(f"/proc/self/fd/{descriptor}")), status.st_size

    def record_fsync(descriptor):
        fsync(descriptor)
        recorded.append(("sync", *named(descriptor)))

    def record_replace(old, new):
        recorded.append(("rename", os.fspath(old), os.fspath(new), os.path.getsize(old)))
        rename(old, new)

    def record_write(descriptor, data):
        recorded.append(("write", named(descriptor)[0]))
        return write(descriptor, data)

    monkeypatch.setattr(door, "fsync", record_fsync)
    monkeypatch.setattr(door, "replace", record_replace)
    monkeypatch.setattr(door, "write", record_write)
    return recorded


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="names of descriptors need /proc")


@needs_proc
def test_a_file_is_on_disk_before_it_gets_its_name(tmp_path, calls):
    """Without this a power cut may leave the new name with nothing in it."""
    path = tmp_path / "map.ldm"
    with written_whole(path) as stream:
        stream.write(b"x" * 1000)
    (rename,) = [call for call in calls if call[0] == "rename"]
    place = calls.index(rename)
    assert rename[2:] == (str(path), 1000)
    assert ("sync", rename[1], 1000) in calls[:place]


def test_a_long_file_reaches_the_disk_as_it_grows(tmp_path, monkeypatch):
    """Otherwise all of it is waited for at the end."""
    settled = []
    monkeypatch.setattr(door, "fdatasync", lambda descriptor: settled.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr("ldmaps.files._SETTLED_BYTES", 100_000)
    path = tmp_path / "psi.npy"
    with written_whole(path) as stream:
        for _ in range(30):
            stream.write(b"x" * 10_000)
    assert 2 <= len(settled) <= 3
    assert all(
        95_000 <= after - before <= 125_000 for before, after in zip([0, *settled], settled, strict=False)
    )
    assert path.read_bytes() == b"x" * 300_000


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system cannot be told")
def test_the_disk_begins_long_before_it_is_waited_for(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(door, "fdatasync", lambda descriptor: told.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr(door, "send_to_disk", lambda _, *part: told.append(part) or True)
    monkeypatch.setattr("ldmaps.files._SENT_BYTES", 50_000)
    monkeypatch.setattr("ldmaps.files._SETTLED_BYTES", 200_000)
    with written_whole(tmp_path / "psi.npy") as stream:
        for _ in range(10):
            stream.write(b"x" * 30_000)
            stream.flush()
    # One piece follows the other without a gap, also behind what was waited for.
    sent = [(begin, 60_000) for begin in (0, 60_000, 120_000)]
    assert told == [*sent, 210_000, (210_000, 60_000)]


@needs_proc
def test_the_name_is_on_disk_too(tmp_path, calls):
    """A rename lives in the folder, which is synchronised after it."""
    with written_whole(tmp_path / "map.ldm") as stream:
        stream.write(b"x")
    kinds = [call[:2] for call in calls]
    assert kinds.index(("sync", "folder")) > [call[0] for call in calls].index("rename")


@needs_proc
def test_a_new_output_is_in_its_folder_before_anything_is_promised(tmp_path, calls):
    output = OutputFile(tmp_path / "psi.csv")
    output.flush()
    output.close()
    assert ("sync", "folder", 0) in calls
    assert any(call[:2] == ("sync", str(tmp_path / "psi.csv")) for call in calls)


@needs_proc
def test_every_checkpoint_comes_after_the_outputs_it_speaks_of(tmp_path, calls, model):
    np.savetxt(tmp_path / "input.csv", POINTS[:200], delimiter=",")
    output = tmp_path / "psi.csv"
    StreamEmbedder(model, max_batch=20).run(
        tmp_path / "input.csv", [OutputFile(output)], checkpoint=tmp_path / "c", checkpoint_every=0.0
    )
    renames = [place for place, call in enumerate(calls) if call[0] == "rename"]
    assert len(renames) > 5
    for begin, end in zip([0, *renames[:-1]], renames, strict=True):
        between = calls[begin:end]
        writes = [place for place, call in enumerate(between) if call == ("write", str(output))]
        syncs = [place for place, call in enumerate(between) if call[:2] == ("sync", str(output))]
        assert syncs, "a checkpoint without the output's fsync before it"
        assert not writes or syncs[-1] > writes[-1], (
            "the checkpoint speaks of what was written after the fsync"
        )
    # Each checkpoint names exactly as many bytes as were safe by then.
    assert output.stat().st_size == [call[2] for call in calls if call[:2] == ("sync", str(output))][-1]


@needs_proc
def test_the_checkpoint_that_a_run_goes_on_with_is_safe_before_anything_is_written(tmp_path, calls, model):
    """The run before may have been killed between renaming it and the fsync of its folder."""
    np.savetxt(tmp_path / "input.csv", POINTS[:200], delimiter=",")
    settings = {"checkpoint": tmp_path / "c", "checkpoint_every": 1e9}
    for limit in (40, 80):
        calls.clear()
        output = OutputFile(tmp_path / "psi.csv")
        StreamEmbedder(model, max_batch=20).run(
            tmp_path / "input.csv", [output], max_records=limit, **settings
        )
    kinds = [call[:2] for call in calls]
    assert ("sync", "folder") in kinds[: kinds.index(("write", str(tmp_path / "psi.csv")))]


def test_a_checkpoint_promises_no_more_than_the_sinks_have_flushed(tmp_path, model, monkeypatch):
    order = []
    real_write, real_flush = Checkpoint.write, OutputFile.flush

    def flush(self):
        mark = real_flush(self)
        order.append(("flush", mark["bytes"]))
        return mark

    def write(self, **content):
        order.append(("checkpoint", content["sinks"][0]["mark"]["bytes"]))
        return real_write(self, **content)

    monkeypatch.setattr(OutputFile, "flush", flush)
    monkeypatch.setattr(Checkpoint, "write", write)
    np.savetxt(tmp_path / "input.csv", POINTS[:100], delimiter=",")
    StreamEmbedder(model, max_batch=10).run(
        tmp_path / "input.csv",
        [OutputFile(tmp_path / "o.csv")],
        checkpoint=tmp_path / "c",
        checkpoint_every=0.0,
    )
    written = [place for place, (kind, _) in enumerate(order) if kind == "checkpoint"]
    assert len(written) > 5
    for place in written:
        assert order[place - 1] == ("flush", order[place][1])
