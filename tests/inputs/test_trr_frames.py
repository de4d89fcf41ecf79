"""TRR files against mdtraj; what it crashes at, or reads without a word, is refused."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path

import mdtraj
import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.frame_blocks import FrameFile
from ldmaps.inputs.frame_formats import TrrFrames

N_FRAMES = 11
#: Where the sizes stand in a header, and the size of coordinates among them.
SIZES, COORDINATES = 24, 24 + 7 * 4


@pytest.fixture
def files(tmp_path):
    trajectory = mdtraj_trajectory(stride=2500, box=3.0)
    trajectory.save_trr(str(tmp_path / "a.trr"))
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    return tmp_path


def opened(path):
    return FrameFile(str(path), TrrFrames())


def without_box(frame):
    """Return a frame of another layout."""
    (size,) = struct.unpack_from(">i", frame, SIZES + 8)
    head = frame[: SIZES + 8] + bytes(4) + frame[SIZES + 12 : SIZES + 60]
    return head + frame[SIZES + 60 + size :]


def test_frames_are_those_of_mdtraj(files):
    with mdtraj.open(str(files / "a.trr")) as file:
        expected, times, _, boxes, *_ = file.read()
    for at_once in (1, 4, 100):
        file = opened(files / "a.trr")
        parts = []
        while len((part := file.read(at_once))[0]):
            parts.append(part)
        np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), expected)
        np.testing.assert_allclose(np.concatenate([part[1] for part in parts]), times, rtol=1e-6)
        np.testing.assert_array_equal(np.concatenate([part[2] for part in parts]), boxes)
        file.seek(5)
        np.testing.assert_array_equal(file.read(2, np.array([4, 2]))[0], expected[5:7, [4, 2]])
        file.close()


def test_files_of_other_programs_are_read_as_by_mdtraj():
    tests = pytest.importorskip(
        "MDAnalysisTests", reason="files written by GROMACS (pip install MDAnalysisTests)"
    )
    paths = sorted(Path(tests.__file__).parent.glob("data/**/*.trr"))
    assert len(paths) >= 4
    for path in paths:
        with mdtraj.open(str(path)) as file:
            expected = file.read()[0]
        file = opened(path)
        np.testing.assert_array_equal(file.read(1000)[0], expected)
        assert len(file) == len(expected)
        file.close()


def test_frames_of_several_layouts(files):
    data = (files / "a.trr").read_bytes()
    length = len(data) // N_FRAMES
    frames = [data[begin : begin + length] for begin in range(0, len(data), length)]
    mixed = b"".join(
        without_box(frame) if number in (2, 3, 7) else frame for number, frame in enumerate(frames)
    )
    (files / "b.trr").write_bytes(mixed)
    with closing(opened(files / "a.trr")) as plain, closing(opened(files / "b.trr")) as file:
        expected, (xyz, times, boxes) = plain.read(100), file.read(100)
        assert len(file) == N_FRAMES
    np.testing.assert_array_equal(xyz, expected[0])
    np.testing.assert_array_equal(times, expected[1])
    assert [bool(box.any()) for box in boxes] == [number not in (2, 3, 7) for number in range(N_FRAMES)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda head: struct.pack_into(">2i", head, COORDINATES, 0, 22 * 12), "the frame has no coordinates"),
        (lambda head: struct.pack_into(">i", head, SIZES, 1 << 30), "the header of the frame is damaged"),
        (lambda head: struct.pack_into(">i", head, SIZES + 40, 0), "the header of the frame is damaged"),
        (lambda head: struct.pack_into(">i", head, COORDINATES, 7), "the header of the frame is damaged"),
        (
            lambda head: struct.pack_into(">i", head, 0, 1995),
            "no TRR frame begins there: expected 1993, found 1995",
        ),
    ],
    ids=["velocities", "too long", "no atoms", "odd size", "magic"],
)
@pytest.mark.parametrize("stride", [1, 9])
def test_damage_is_told_with_frame_and_byte(files, change, why, stride):
    data = bytearray((files / "a.trr").read_bytes())
    start = 9 * (len(data) // N_FRAMES)
    head = data[start : start + 84]
    change(head)
    data[start : start + 84] = head
    (files / "a.trr").write_bytes(data)
    source = ldmaps.inputs.open_files(files / "a.trr", top=files / "top.pdb", stride=stride)
    with pytest.raises(InvalidInputError) as caught:
        source.read()
    assert f"frame 9 cannot be read ({why}, at byte {start})" in str(caught.value)
