"""A damaged or foreign DCD header is never taken for frames."""

from __future__ import annotations

import struct

import pytest

from ldmaps.inputs.dcd_layout import dcd_layout

ATOMS = 7
#: Of a frame without a box: x, y and z as a record each.
FRAME = 3 * (4 * ATOMS + 8)


def record(data):
    return struct.pack("<i", len(data)) + data + struct.pack("<i", len(data))


def header(*, magic=b"CORD", announced=4, atoms=ATOMS, fixed=0):
    numbers = [announced] + [0] * 18 + [24]
    numbers[8] = fixed
    return (
        record(magic + struct.pack("<20i", *numbers))
        + record(struct.pack("<i", 1) + b" " * 80)
        + record(struct.pack("<i", atoms))
        + (record(bytes(4 * (atoms - fixed))) if fixed else b"")
    )


@pytest.fixture
def layout(tmp_path):
    def of(data):
        path = tmp_path / "some.dcd"
        path.write_bytes(data)
        return dcd_layout(path)

    return of


@pytest.mark.parametrize("there", [0, 1, FRAME - 1])
def test_less_than_a_frame_is_no_frame(layout, there):
    assert layout(header() + bytes(there)) == (0, there, 4)
    assert layout(header() + bytes(FRAME)) == (1, 0, 4)
    # Later frames are shorter where atoms are fixed: one of these is not the first one.
    assert layout(header(fixed=5) + bytes(there)) == (0, there, 4)
    assert layout(header(fixed=5) + bytes(FRAME)) == (1, 0, 4)


def test_velocities_are_no_coordinates(layout):
    frames = bytes(4 * FRAME)
    assert layout(header() + frames) == (4, 0, 4)
    assert layout(header(magic=b"VELD") + frames) is None


@pytest.mark.parametrize("atoms", [0, -1, -(2**31)])
def test_a_number_of_atoms_that_is_none(layout, atoms):
    assert layout(header(atoms=atoms) + bytes(4 * FRAME)) is None


@pytest.mark.parametrize("length", [-1, 2**31 - 1])
def test_a_record_longer_than_the_file_or_shorter_than_nothing(layout, length):
    damaged = bytearray(header() + bytes(4 * FRAME))
    titles = 84 + 8
    struct.pack_into("<i", damaged, titles, length)
    assert layout(bytes(damaged)) is None


def test_marks_around_a_record_must_agree(layout):
    damaged = bytearray(header() + bytes(4 * FRAME))
    struct.pack_into("<i", damaged, 84 + 4, 83)
    assert layout(bytes(damaged)) is None


def test_a_header_that_is_cut_off_anywhere(layout):
    whole = header()
    for end in range(len(whole)):
        assert layout(whole[:end]) is None
    assert layout(whole) == (0, 0, 4)
