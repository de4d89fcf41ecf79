"""XTC files that the compiled loop unpacks, against mdtraj."""

from __future__ import annotations

import struct

import mdtraj
import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps import compiled
from ldmaps.errors import InvalidInputError
from ldmaps.inputs import xtc_frames
from ldmaps.inputs.xtc_frames import XtcFrames, is_worth_unpacking


@pytest.fixture(autouse=True)
def short_files_are_worth_it(monkeypatch):
    monkeypatch.setattr(xtc_frames, "_LONG_FILE", 0)


def written(path, xyz, box=None):
    """Write frames; return what mdtraj reads of them."""
    n = len(xyz)
    with mdtraj.formats.XTCTrajectoryFile(str(path), "w") as file:
        boxes = None if box is None else np.tile(np.asarray(box, np.float32), (n, 1, 1))
        file.write(xyz, time=np.arange(n) * 0.7, step=np.arange(n) * 3, box=boxes)
    with mdtraj.open(str(path)) as file:
        return file.read()


def water(rng, n_molecules=60, n_frames=7):
    """Molecules of three atoms, which are written as runs of small differences."""
    centres = rng.uniform(-2, 3, size=(n_frames, n_molecules, 1, 3))
    return (centres + rng.normal(size=(n_frames, n_molecules, 3, 3)) * 0.05).reshape(n_frames, -1, 3)


def systems():
    rng = np.random.default_rng(0)
    return {
        "peptide": mdtraj_trajectory(stride=5000).xyz,
        "water": water(rng),
        "gas": rng.uniform(-50, 50, size=(5, 40, 3)),
        "a chain": np.cumsum(rng.normal(size=(5, 300, 3)) * 0.1, axis=1),
        "ten atoms": rng.normal(size=(3, 10, 3)),
        "one place": np.full((3, 12, 3), 1.25),
        "a plane": rng.normal(size=(4, 30, 3)) * [1.0, 1.0, 0.0],
        "growing": rng.normal(size=(6, 50, 3)) * np.geomspace(0.01, 100, 50)[:, None],
    }


def all_frames(path, n_atoms, at_once, atoms=None):
    """Read a file to its end; return what was read, and whether the loop knew all of it."""
    with mdtraj.open(str(path)) as handle:
        frames = XtcFrames(handle, str(path), n_atoms)
        parts = []
        while len((part := frames.read(at_once, atoms))[0]):
            parts.append(part)
        frames.close()
    return [
        None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True)
    ], frames._is_known


@pytest.mark.parametrize("name", systems())
@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_frames_are_those_of_mdtraj(tmp_path, name, at_once):
    xyz = systems()[name].astype(np.float32)
    expected = written(tmp_path / "a.xtc", xyz, np.diag([3.0, 4.0, 5.0]))
    got, is_known = all_frames(tmp_path / "a.xtc", xyz.shape[1], at_once)
    assert is_known
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_some_atoms_and_no_box(tmp_path):
    xyz = water(np.random.default_rng(1)).astype(np.float32)
    expected = written(tmp_path / "a.xtc", xyz)[0]
    got, is_known = all_frames(tmp_path / "a.xtc", 180, 3, np.array([170, 2, 3]))
    assert is_known
    np.testing.assert_array_equal(got[0], expected[:, [170, 2, 3]])
    assert got[3] is None


def test_frames_longer_than_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(xtc_frames, "_PIECE", 50)
    xyz = water(np.random.default_rng(2)).astype(np.float32)
    expected = written(tmp_path / "a.xtc", xyz)[0]
    np.testing.assert_array_equal(all_frames(tmp_path / "a.xtc", 180, 4)[0][0], expected)


@pytest.mark.parametrize(
    "place", [[1e4, 1e4, 1e4], [2e4, 0.0, 0.0]], ids=["more than 64 bits", "beyond packing"]
)
def test_what_the_loop_does_not_know_is_read_by_mdtraj(tmp_path, place):
    """An atom far away makes sizes too large for numbers of 64 bits, or to be packed at all."""
    xyz = water(np.random.default_rng(3)).astype(np.float32)
    xyz[4, 90] = place
    expected = written(tmp_path / "a.xtc", xyz)
    for at_once in (3, 4, 100):
        got, is_known = all_frames(tmp_path / "a.xtc", 180, at_once)
        assert not is_known
        for ours, theirs in zip(got[:3], expected[:3], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def frame_starts(data):
    at, starts = 0, []
    while at < len(data):
        starts.append(at)
        at += 92 + (struct.unpack_from(">i", data, at + 88)[0] + 3) // 4 * 4
    return starts


@pytest.mark.parametrize("damage", ["cut", "cut header", "magic"])
@pytest.mark.parametrize("chunk", [2, 4, 100])
def test_damage_is_reported_as_by_mdtraj(tmp_path, monkeypatch, damage, chunk):
    trajectory = mdtraj_trajectory(stride=2500)
    trajectory.save_xtc(str(tmp_path / "a.xtc"))
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    data = bytearray((tmp_path / "a.xtc").read_bytes())
    starts = frame_starts(data)
    if damage == "magic":
        data[starts[5] + 3] ^= 1
    else:
        del data[starts[5] + (100 if damage == "cut" else 20) :]
    (tmp_path / "a.xtc").write_bytes(data)
    messages = []
    for longest in (0, 1 << 40):
        monkeypatch.setattr(xtc_frames, "_LONG_FILE", longest)
        source = ldmaps.inputs.open(tmp_path / "a.xtc", top=tmp_path / "top.pdb", chunk=chunk)
        with pytest.raises(InvalidInputError) as caught:
            source.read()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "frame 5 cannot be read" in messages[0]


def test_long_files_are_unpacked_here(tmp_path, monkeypatch):
    trajectory = mdtraj_trajectory(stride=1000)
    trajectory.save_xtc(str(tmp_path / "a.xtc"))
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    settings = {"top": tmp_path / "top.pdb", "chunk": 8, "stride": 2, "stop": 21, "select": "not element H"}
    opened = []
    monkeypatch.setattr(
        "ldmaps.inputs.trajectory_files.XtcFrames",
        lambda *arguments: opened.append(XtcFrames(*arguments)) or opened[-1],
    )
    here = ldmaps.inputs.open(tmp_path / "a.xtc", **settings).read()
    assert len(opened) == 1
    assert opened[0]._is_known
    assert opened[0]._file.closed
    ldmaps.inputs.open(tmp_path / "a.xtc", **settings, start=2).read()  # mdtraj knows where a frame begins
    monkeypatch.setattr(xtc_frames, "_LONG_FILE", 1 << 40)
    there = ldmaps.inputs.open(tmp_path / "a.xtc", **settings).read()
    assert len(opened) == 1
    np.testing.assert_array_equal(here.frames, there.frames)
    np.testing.assert_array_equal(here.times, there.times)
    np.testing.assert_array_equal(here.numbers, there.numbers)


def test_other_formats_are_left_to_mdtraj(tmp_path):
    trajectory = mdtraj_trajectory(stride=5000)
    trajectory.save_dcd(str(tmp_path / "a.dcd"))
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    frames = ldmaps.inputs.open(tmp_path / "a.dcd", top=tmp_path / "top.pdb").read().frames
    np.testing.assert_allclose(frames, trajectory.xyz, atol=1e-5)


def test_few_atoms_are_not_packed(tmp_path):
    xyz = np.random.default_rng(0).normal(size=(3, 9, 3)).astype(np.float32)
    written(tmp_path / "a.xtc", xyz)
    assert not is_worth_unpacking(str(tmp_path / "a.xtc"), 9)
    assert is_worth_unpacking(str(tmp_path / "a.xtc"), 10)


def unpack(data, n_atoms, n_frames=1):
    loops, heads = compiled.xtc, np.empty((n_frames, 12), np.uint32)
    frames, scratch = np.empty((n_frames, n_atoms, 3), np.float32), np.empty((n_atoms, 3), np.float32)
    return loops.unpack_frames(
        np.frombuffer(bytes(data), np.uint8), n_atoms, np.empty(0, np.int64), loops.SIZES, scratch, frames, heads,
        heads.view(np.float32),
    )  # fmt: skip


@pytest.mark.parametrize(
    "reach", [[8e3, 8e3, 8e3], [2e4, 1.0, 1.0]], ids=["more than 64 bits", "beyond packing"]
)
def test_sizes_that_do_not_fit_are_odd_whatever_the_bits(tmp_path, reach):
    xyz = np.random.default_rng(7).uniform(size=(200, 10, 3)) * reach
    xyz[:, 0], xyz[:, 1] = 0.0, reach
    written(tmp_path / "a.xtc", xyz.astype(np.float32))
    data = (tmp_path / "a.xtc").read_bytes()
    assert {unpack(data[start:], 10) for start in frame_starts(data)} == {(0, 0, True)}


@pytest.mark.parametrize(
    ("at", "value"),
    [(4, 11), (52, 11), (56, -1), (60, 2**31 - 1), (84, 8), (84, 64), (88, -4), (88, 8), (88, 1 << 30)],
    ids=[
        "atoms",
        "packed atoms",
        "precision",
        "bounds",
        "small size",
        "large size",
        "length",
        "too short",
        "too long",
    ],
)
def test_headers_that_cannot_be_are_odd(tmp_path, at, value):
    written(tmp_path / "a.xtc", water(np.random.default_rng(4)).astype(np.float32)[:1])
    data = bytearray((tmp_path / "a.xtc").read_bytes())
    assert unpack(data, 180) == (1, len(data), False)
    struct.pack_into(">i", data, at, value)
    assert unpack(data, 180) == (0, 0, True)


def test_any_bits_end_without_harm(tmp_path):
    """Damaged bits may give other numbers, but never a place outside the arrays."""
    written(tmp_path / "a.xtc", water(np.random.default_rng(5)).astype(np.float32)[:1])
    data = (tmp_path / "a.xtc").read_bytes()
    rng, odd = np.random.default_rng(6), 0
    for _ in range(300):
        damaged = np.frombuffer(data, np.uint8).copy()
        places = rng.integers(60, len(data), size=3)
        damaged[places] = rng.integers(0, 256, size=3)
        odd += unpack(damaged.tobytes(), 180)[2]
    assert odd > 20
