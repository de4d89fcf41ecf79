"""XTC files, short and long, against mdtraj; and damaged ones, with the frame and the byte."""

from __future__ import annotations

import struct
import tracemalloc

import mdtraj
import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps.errors import InvalidInputError
from ldmaps.inputs import frame_blocks
from ldmaps.inputs.frame_blocks import FrameFile
from ldmaps.inputs.frame_formats import XtcFrames

N_FRAMES = 11


@pytest.fixture
def files(tmp_path):
    """A trajectory of a peptide and its topology; times are not those of frames counted."""
    trajectory = mdtraj_trajectory(stride=2500)
    assert len(trajectory) == N_FRAMES
    trajectory.time = 5.0 + 0.7 * np.arange(N_FRAMES)
    trajectory.save_xtc(str(tmp_path / "a.xtc"))
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    return tmp_path


@pytest.fixture
def expected(files):
    with mdtraj.open(str(files / "a.xtc")) as file:
        return file.read()


def frame_starts(data):
    at, starts = 0, []
    while at < len(data):
        starts.append(at)
        at += 92 + (struct.unpack_from(">i", data, at + 88)[0] + 3) // 4 * 4
    return starts


@pytest.mark.parametrize("piece", [50, 1000, 1 << 18])
@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_a_file_is_read_however_it_is_cut(files, expected, monkeypatch, piece, at_once):
    monkeypatch.setattr(frame_blocks, "_PIECE", piece)
    file, parts = FrameFile(str(files / "a.xtc"), XtcFrames()), []
    while len((part := file.read(at_once))[0]):
        parts.append(part)
    assert {len(part[0]) for part in parts[:-1]} <= {at_once}
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), expected[0])
    np.testing.assert_allclose(np.concatenate([part[1] for part in parts]), expected[1], rtol=1e-6)
    assert not any(part.boxes.any() for part in parts)
    file.close()


@pytest.mark.parametrize("far", [0, 1 << 14], ids=["headers alone", "pieces"])
@pytest.mark.parametrize("piece", [100, 1 << 18])
def test_any_frame_can_be_gone_to(files, expected, monkeypatch, piece, far):
    monkeypatch.setattr(frame_blocks, "_PIECE", piece)
    monkeypatch.setattr(frame_blocks, "_FAR", far)
    file = FrameFile(str(files / "a.xtc"), XtcFrames())
    file.read(2)
    assert len(file) == N_FRAMES
    np.testing.assert_array_equal(file.read(1)[0], expected[0][2:3])  # counting does not move
    for frame in (7, 0, N_FRAMES - 1):
        file.seek(frame)
        np.testing.assert_array_equal(file.read(2)[0], expected[0][frame : frame + 2])
    file.seek(N_FRAMES)
    assert len(file.read(1)[0]) == 0
    file.check_end()
    file.close()


@pytest.mark.parametrize(
    "reading",
    [{}, {"start": 3}, {"stride": 2, "stop": 9}, {"stride": 9}, {"stride": 8, "start": 2, "stop": 11}],
    ids=str,
)
def test_sources_give_the_frames_of_mdtraj(files, expected, reading):
    source = ldmaps.inputs.open_files(
        files / "a.xtc", top=files / "top.pdb", chunk=4, select="not element H", **reading
    )
    read = source.read()
    wanted = range(N_FRAMES)[reading.get("start", 0) : reading.get("stop") : reading.get("stride", 1)]
    heavy = mdtraj.load_topology(str(files / "top.pdb")).select("not element H")
    np.testing.assert_array_equal(read.frames, expected[0][wanted][:, heavy])
    np.testing.assert_array_equal(read.numbers, wanted)
    np.testing.assert_allclose(read.times, expected[1][wanted], rtol=1e-6)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("cut", "only 100 bytes of it are there"),
        ("cut header", "only 20 bytes of it are there"),
        ("magic", "no XTC frame begins there: expected 1995, found 1994"),
        ("atoms", "no XTC frame begins there: expected 22 atoms, found 23"),
        ("length", "its coordinates cannot be unpacked"),
        ("box", "the header of the frame is damaged"),
    ],
)
@pytest.mark.parametrize(("chunk", "stride"), [(2, 1), (4, 1), (100, 1), (100, 9)])
def test_damage_is_told_with_frame_and_byte(files, damage, why, chunk, stride):
    data = bytearray((files / "a.xtc").read_bytes())
    start = frame_starts(data)[9]
    if damage.startswith("cut"):
        del data[start + (100 if damage == "cut" else 20) :]
    else:
        place, bit = {"magic": (3, 1), "atoms": (7, 1), "length": (91, 8), "box": (16, 0x7F)}[damage]
        data[start + place] ^= bit
        if damage == "box":
            data[start + place + 1] |= 0x80
    (files / "a.xtc").write_bytes(data)
    source = ldmaps.inputs.open_files(files / "a.xtc", top=files / "top.pdb", chunk=chunk, stride=stride)
    with pytest.raises(InvalidInputError) as caught:
        source.read()
    assert f"a.xtc is cut off or damaged: frame 9 cannot be read ({why}" in str(caught.value)
    assert f", at byte {start}), the 9 before it can" in str(caught.value)
    kept = ldmaps.inputs.open_files(
        files / "a.xtc", top=files / "top.pdb", chunk=chunk, stride=stride, stop=9
    ).read()
    np.testing.assert_array_equal(kept.numbers, np.arange(0, 9, stride))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it has only 0 bytes"),
        (struct.pack(">2i", 1995, 22), "it has only 8 bytes"),
        (b"this is no trajectory" * 9, "no XTC frame begins there: expected 1995"),
        (struct.pack(">2i", 2023, 22) + bytes(88), "large variant"),
    ],
    ids=["nothing", "short", "text", "large"],
)
def test_files_without_a_frame(files, data, message):
    (files / "b.xtc").write_bytes(data)
    with pytest.raises(InvalidInputError, match=message):
        ldmaps.inputs.open_files(files / "b.xtc", top=files / "top.pdb")


def test_a_header_that_claims_more_than_there_is_takes_no_memory(files):
    """500 million atoms in a file of a kilobyte."""
    head = struct.pack(">3i10fi", 1995, 5 * 10**8, 0, *[0.0] * 10, 5 * 10**8)
    head += struct.pack(">f8i", 1000.0, 0, 0, 0, 9, 9, 9, 20, 2**31 - 1)
    (files / "b.xtc").write_bytes(head + bytes(1000))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError, match="has no readable frame"):
            ldmaps.inputs.open_files(files / "b.xtc", top=files / "top.pdb")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 << 20


def test_boxes_are_those_of_mdtraj(tmp_path):
    boxes = np.tile(np.diag([3.0, 4.0, 5.0]), (4, 1, 1)).astype(np.float32)
    boxes[2] = 0.0
    xyz = np.random.default_rng(0).normal(size=(4, 12, 3)).astype(np.float32)
    with mdtraj.formats.XTCTrajectoryFile(str(tmp_path / "a.xtc"), "w") as out:
        out.write(xyz, box=boxes)
    file = FrameFile(str(tmp_path / "a.xtc"), XtcFrames())
    np.testing.assert_array_equal(file.read(4)[2], boxes)
    file.close()


def test_names_in_any_alphabet_need_no_link(files, expected):
    (files / "été.xtc").write_bytes((files / "a.xtc").read_bytes())
    read = ldmaps.inputs.open_files(files / "été.xtc", top=files / "top.pdb").read()
    np.testing.assert_array_equal(read.frames, expected[0])
