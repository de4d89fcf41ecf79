"""DCD files of every dialect are read as mdtraj reads them; a damaged or foreign header is never taken for frames."""

from __future__ import annotations

import struct

import mdtraj
import numpy as np
import pytest
from polling import drain, joined

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.frame_blocks import FrameFile
from ldmaps.inputs.frame_formats import DcdFrames
from ldmaps.streaming.sources import growing_trajectory
from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory

ATOMS = 7
#: Of a frame without a box: x, y and z as a record each.
FRAME = 3 * (4 * ATOMS + 8)


def record(data, mark="<i"):
    return struct.pack(mark, len(data)) + data + struct.pack(mark, len(data))


def header(
    *, magic=b"CORD", announced=4, atoms=ATOMS, fixed=0, box=0, fourth=0, charmm=24, mark="<i", titles=1
):
    numbers = [announced] + [0] * 19
    numbers[8], numbers[10], numbers[11], numbers[19] = fixed, box, fourth, charmm
    order = mark[0]
    data = record(magic + struct.pack(f"{order}20i", *numbers), mark)
    data += record(struct.pack(f"{order}i", titles) + b" " * 80 * titles, mark)
    data += record(struct.pack(f"{order}i", atoms), mark)
    if fixed:
        data += record(struct.pack(f"{order}{atoms - fixed}i", *range(1 + fixed, atoms + 1)), mark)
    return data


def coordinates(count=4, fixed=0):
    """Return random coordinates in Å; the first atoms may be fixed."""
    xyz = np.random.default_rng(0).normal(size=(count, ATOMS, 3)).astype(np.float32)
    xyz[1:, :fixed] = xyz[0, :fixed]
    return xyz


def frames(count=4, *, fixed=0, box=0, fourth=0, charmm=24, mark="<i"):
    """Return these as frames: fixed atoms stand in the first one alone."""
    order, data = mark[0], b""
    for number, xyz in enumerate(coordinates(count, fixed)):
        data += (
            record(struct.pack(f"{order}6d", 20, 90, 30, 90, 80, 40 + number), mark)
            if box and charmm
            else b""
        )
        moving = xyz[fixed if number else 0 :].astype(f"{order}f4")
        data += b"".join(record(axis.tobytes(), mark) for axis in moving.T)
        data += record(bytes(4 * ATOMS), mark) if fourth and charmm else b""
    return data


@pytest.fixture
def opened(tmp_path):
    files = []

    def of(data):
        path = tmp_path / "some.dcd"
        path.write_bytes(data)
        files.append(FrameFile(str(path), DcdFrames()))
        return files[-1]

    yield of
    for file in files:
        file.close()


@pytest.mark.parametrize("mark", ["<i", ">i", "<q", ">q"])
@pytest.mark.parametrize("charmm", [24, 0], ids=["charmm", "xplor"])
@pytest.mark.parametrize(("fixed", "box", "fourth"), [(0, 0, 0), (0, 1, 0), (2, 0, 0), (2, 1, 0), (0, 1, 1)])
def test_every_dialect_is_read_as_by_mdtraj(opened, tmp_path, mark, charmm, fixed, box, fourth):
    """Both byte orders, both lengths of record marks, fixed atoms and a fourth dimension, written by hand."""
    dialect = {"fixed": fixed, "box": box, "fourth": fourth, "charmm": charmm, "mark": mark}
    data = header(**dialect) + frames(**dialect)
    file = opened(data)
    xyz, times, boxes = file.read(100)
    np.testing.assert_array_equal(xyz, coordinates(fixed=fixed) * np.float32(0.1))
    assert times is None
    assert boxes.any() == bool(box and charmm)
    with mdtraj.open(str(tmp_path / "some.dcd")) as other:
        expected, lengths, _ = other.read()
    # It stops early, without a word, at some dialects of other machines.
    n = len(expected)
    assert n == 4 or mark != "<i"
    np.testing.assert_array_equal(xyz[:n], expected * np.float32(0.1))
    if n and boxes.any():
        np.testing.assert_allclose(np.linalg.norm(boxes[:n], axis=2), 0.1 * lengths, rtol=1e-6)
    # One by one, from behind, and some atoms.
    assert len(file) == 4
    for frame in (3, 0, 2):
        file.seek(frame)
        np.testing.assert_array_equal(file.read(1, np.array([5, 1]))[0], xyz[[frame]][:, [5, 1]])
    cut = opened(data[:-5])
    assert len(cut) == 3
    assert len(cut.read(100)[0]) == 3
    with pytest.raises(
        InvalidInputError, match=r"frame 3 cannot be read \(only \d+ bytes of it are there, at byte"
    ):
        cut.read(100)


@pytest.mark.parametrize("there", [0, 1, FRAME - 1])
def test_less_than_a_frame_is_no_frame(opened, there):
    file = opened(header() + bytes(there))
    assert len(file) == 0
    assert file.announced == 4
    if there:
        with pytest.raises(InvalidInputError, match="has no readable frame"):
            file.read(1)
    else:
        assert len(file.read(1)[0]) == 0
    assert len(opened(header() + frames(1))) == 1


def test_titles_that_their_marks_do_not_count(opened):
    """As MDAnalysis has written them: three, with marks that say two."""
    titles = header(titles=3)[92:]
    marks = struct.pack("<i", 164)
    assert (
        len(opened(header()[:92] + marks + titles[4:248] + marks + titles[252:] + frames()).read(9)[0]) == 4
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header(magic=b"VELD") + frames(), "not that of a DCD file with coordinates"),
        (header(atoms=0) + frames(), "the DCD header gives 0 atoms"),
        (header(atoms=-1) + frames(), "the DCD header gives -1 atoms"),
        (header(fixed=ATOMS) + frames(), "7 of them fixed"),
        (b"no trajectory at all", "the file does not begin with a DCD header"),
    ],
)
def test_headers_of_other_files(opened, data, reason):
    with pytest.raises(ValueError, match=reason):
        opened(data)


@pytest.mark.parametrize("length", [-1, 2**31 - 1])
def test_a_record_longer_than_any_or_shorter_than_nothing(opened, length):
    damaged = bytearray(header() + frames())
    struct.pack_into("<i", damaged, 84 + 8, length)
    with pytest.raises(ValueError, match=f"an invalid length of {length} bytes"):
        opened(bytes(damaged))


def test_marks_around_a_record_must_agree(opened):
    damaged = bytearray(header() + frames())
    struct.pack_into("<i", damaged, 84 + 4, 83)
    with pytest.raises(ValueError, match="marks that differ|an invalid length of"):
        opened(bytes(damaged))


def test_moving_atoms_must_be_atoms(opened):
    damaged = bytearray(header(fixed=2) + frames(fixed=2))
    struct.pack_into("<i", damaged, len(header(fixed=2)) - 8, ATOMS + 1)
    with pytest.raises(ValueError, match="invalid list of free atoms"):
        opened(bytes(damaged))


@pytest.mark.parametrize("fixed", [0, 2])
def test_a_header_that_is_cut_off_anywhere(opened, fixed):
    whole = header(fixed=fixed)
    for end in range(len(whole)):
        assert not DcdFrames().read_header(whole[:end])
        with pytest.raises(ValueError, match=f"it has only {end} bytes"):
            opened(whole[:end])


def test_damaged_marks_end_a_file_and_are_passed_by_in_a_stream():
    data = bytearray(header() + frames(4))
    struct.pack_into("<i", data, len(header()) + FRAME + 4 + 4 * ATOMS, 17)
    form = DcdFrames()
    assert form.read_header(bytes(data))
    found = form.find(bytes(data), form.begin, 9, 0)
    assert found.starts.tolist() == [form.begin]
    assert "record marks" in found.fault
    assert found.end == form.begin + FRAME
    assert form.next_start(bytes(data[found.end :])) == FRAME


def test_a_growing_file_may_have_fixed_atoms(tmp_path, monkeypatch):
    """They stand in the first frame alone, which a restart has to read again, however long it is."""
    monkeypatch.setattr(growing_trajectory, "READ_BYTES", 100)
    topology = mdtraj.Topology()
    residue = topology.add_residue("ARG", topology.add_chain())
    for _ in range(ATOMS):
        topology.add_atom("Ar", mdtraj.element.argon, residue)
    path = tmp_path / "run.dcd"
    path.write_bytes(header(fixed=2) + frames(fixed=2))
    parts = drain(GrowingTrajectory(path, top=topology, idle_end=0.0), most=1)
    np.testing.assert_array_equal(joined(parts)[0], coordinates(fixed=2) * np.float32(0.1))
    rest = drain(GrowingTrajectory(path, top=topology, idle_end=0.0), position=parts[1].position)
    np.testing.assert_array_equal(joined(rest)[0], coordinates(fixed=2)[2:] * np.float32(0.1))
