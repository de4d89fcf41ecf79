"""Frames of XTC files, unpacked from bytes, against mdtraj; and any bytes at all."""

from __future__ import annotations

import struct
from pathlib import Path

import mdtraj
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_trajectories import mdtraj_trajectory

from ldmaps import kernels


def written(path, xyz, box=None):
    """Write frames; return what mdtraj reads of them."""
    n = len(xyz)
    with mdtraj.formats.XTCTrajectoryFile(str(path), "w") as file:
        boxes = None if box is None else np.tile(np.asarray(box, np.float32), (n, 1, 1))
        file.write(xyz.astype(np.float32), time=np.arange(n) * 0.7, step=np.arange(n) * 3, box=boxes)
    with mdtraj.open(str(path)) as file:
        return file.read()


def find(data, n_atoms, most=1000):
    starts = np.empty(most, np.intp)
    count, end, is_sound = kernels.find_xtc_frames(bytes(data), 0, n_atoms, starts)
    return starts[:count], end, is_sound


def unpack(data, n_atoms, atoms=()):
    """Return frames, times and boxes, as far as they are sound."""
    starts = find(data, n_atoms)[0]
    frames = np.empty((len(starts), len(atoms) or n_atoms, 3), np.float32)
    heads = np.empty((len(starts), 10), np.float32)
    chosen = np.array(atoms, np.intp)
    count = kernels.unpack_xtc_frames(bytes(data), starts, n_atoms, chosen, frames, heads)
    return frames[:count], heads[:count, 0], heads[:count, 1:].reshape(-1, 3, 3)


def water(rng, n_molecules=60, n_frames=7):
    """Molecules of three atoms, which are written as runs of small differences."""
    centres = rng.uniform(-2, 3, size=(n_frames, n_molecules, 1, 3))
    return (centres + rng.normal(size=(n_frames, n_molecules, 3, 3)) * 0.05).reshape(n_frames, -1, 3)


def systems():
    rng = np.random.default_rng(0)
    far = water(rng)
    far[3, 90] = [1e4, 1e4, 1e4]
    further = water(rng)
    further[2, 91] = [-2e4, 0.0, 9e5]
    return {
        "peptide": mdtraj_trajectory(stride=5000).xyz,
        "water": water(rng),
        "gas": rng.uniform(-50, 50, size=(5, 40, 3)),
        "thin gas": rng.uniform(-8e3, 8e3, size=(5, 40, 3)),
        "a chain": np.cumsum(rng.normal(size=(5, 300, 3)) * 0.1, axis=1),
        "ten atoms": rng.normal(size=(3, 10, 3)),
        "nine atoms": rng.normal(size=(3, 9, 3)),
        "one atom": rng.normal(size=(3, 1, 3)),
        "one place": np.full((3, 12, 3), 1.25),
        "a plane": rng.normal(size=(4, 30, 3)) * [1.0, 1.0, 0.0],
        "growing": rng.normal(size=(6, 50, 3)) * np.geomspace(0.01, 100, 50)[:, None],
        "more than 64 bits": far,
        "beyond packing": further,
        "large small differences": np.cumsum(rng.normal(size=(4, 60, 3)) * 2e3, axis=1),
    }


@pytest.mark.parametrize("name", systems())
def test_frames_are_those_of_mdtraj(tmp_path, name):
    xyz = systems()[name]
    expected, times, _, boxes = written(tmp_path / "a.xtc", xyz, [[3, 0, 0], [1, 4, 0], [0.5, 1, 5]])
    got = unpack((tmp_path / "a.xtc").read_bytes(), xyz.shape[1])
    for ours, theirs in zip(got, (expected, times, boxes), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_files_of_other_programs_are_read_as_by_mdtraj():
    tests = pytest.importorskip(
        "MDAnalysisTests", reason="files written by GROMACS (pip install MDAnalysisTests)"
    )
    paths = sorted(Path(tests.__file__).parent.glob("data/**/*.xtc"))
    assert len(paths) >= 6
    for path in paths:
        with mdtraj.open(str(path)) as file:
            expected, times, _, boxes = file.read()
        got = unpack(path.read_bytes(), expected.shape[1])
        np.testing.assert_array_equal(got[0], expected)
        np.testing.assert_array_equal(got[1], times)
        np.testing.assert_array_equal(got[2], 0 if boxes is None else boxes)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(-3, 3.3), st.booleans())
def test_any_coordinates_are_those_of_mdtraj(tmp_path_factory, seed, n_atoms, size, is_chain):
    """Up to thousands of nm: of much more, mdtraj writes files that end its own process."""
    path = tmp_path_factory.getbasetemp() / "any.xtc"
    xyz = np.random.default_rng(seed).normal(size=(2, n_atoms, 3)) * 10**size
    expected = written(path, np.cumsum(xyz, axis=1) if is_chain else xyz)[0]
    np.testing.assert_array_equal(unpack(path.read_bytes(), n_atoms)[0], expected)


def test_some_atoms_in_any_order(tmp_path):
    expected = written(tmp_path / "a.xtc", water(np.random.default_rng(1)))[0]
    got = unpack((tmp_path / "a.xtc").read_bytes(), 180, [170, 2, 3])[0]
    np.testing.assert_array_equal(got, expected[:, [170, 2, 3]])


@pytest.fixture
def data(tmp_path):
    """One frame of 180 atoms."""
    written(tmp_path / "a.xtc", water(np.random.default_rng(4))[:1])
    return bytearray((tmp_path / "a.xtc").read_bytes())


def test_frames_are_found_as_far_as_they_are_there(data):
    both = data + data
    for end in range(len(data)):
        starts, place, is_sound = find(both[: len(data) + end], 180)
        assert is_sound
        assert starts.tolist() == ([0] if end < 92 else [0, len(data)])
        assert place == len(data) * len(starts)
    assert find(both, 180, most=1) == (np.array([0]), len(data), True)
    assert not len(unpack(data[:-1], 180)[0])


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 1996), (4, 11), (52, 11), (12, 0x7F800000), (48, 0x7FC00000), (56, -1), (56, 0), (56, 0x7F800000),
     (60, 2**31 - 1), (84, 8), (84, 73), (88, -4), (88, 180 * 13 + 1)],
    ids=["magic", "atoms", "packed atoms", "time", "box", "precision", "no precision", "endless precision", "bounds",
         "small size", "large size", "length", "too long"],
)  # fmt: skip
def test_headers_that_cannot_be_are_no_frames(data, at, value):
    assert find(data, 180)[1:] == (len(data), True)
    struct.pack_into(">i", data, at, value)
    starts, end, is_sound = find(data, 180)
    assert (len(starts), end, is_sound) == (0, 0, False)


@pytest.mark.parametrize(
    ("low", "high"), [(5, 4), (-(2**31), 2**31 - 1)], ids=["no size", "too large a size"]
)
def test_bounds_that_leave_no_room_or_too_much_are_no_frames(data, low, high):
    struct.pack_into(">i", data, 64, low)
    struct.pack_into(">i", data, 76, high)
    assert find(data, 180)[1:] == (0, False)


def packed(numbers, sizes, n_bits):
    """Return three numbers as bits: one number in a mixed base, the lowest byte first."""
    (x, y, z), (_, size_y, size_z) = numbers, sizes
    number, bits = (x * size_y + y) * size_z + z, ""
    while n_bits > 0:
        width = min(8, n_bits)
        bits += f"{number % 256:0{width}b}"
        number, n_bits = number // 256, n_bits - width
    assert number == 0
    return bits


def frame_of(highest, small, bits):
    """Return a frame of ten atoms from 0 on, whose bits are written by hand."""
    body = int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")
    head = struct.pack(">3i10fi", 1995, 10, 0, *[0.0] * 10, 10)
    return head + struct.pack(">f8i", 1.0, 0, 0, 0, *highest, small, len(body)) + body + bytes(-len(body) % 4)


#: Bits of three small differences and how many values each has, the largest of all included.
SMALL = [(9, 8), (28, 645), (57, 524287), (63, 2097152), (64, 2642245), (69, 8388607), (72, 16777216)]


@pytest.mark.parametrize(("small", "size"), SMALL)
def test_small_differences_of_every_size(small, size):
    """A run of nine atoms behind the first one, which stands behind the second."""
    rng = np.random.default_rng(small)
    first, steps = [3, 5, 7], rng.integers(0, size, size=(9, 3)).tolist()
    steps[4] = [size - 1, 0, size - 1]
    bits = packed(first, (8, 8, 8), 10) + "1" + f"{9 * 3 + 1:05b}"
    frame = frame_of([7, 7, 7], small, bits + "".join(packed(step, (size,) * 3, small) for step in steps))
    places = np.cumsum([first, *np.array(steps) - size // 2], axis=0)
    np.testing.assert_array_equal(unpack(frame, 10)[0][0], places[[1, 0, *range(2, 10)]].astype(np.float32))


@pytest.mark.parametrize(("small", "size"), SMALL[1:2])
def test_numbers_beyond_their_sizes_are_damage(small, size):
    place, run = packed([3, 5, 7], (8, 8, 8), 10), "1" + f"{9 * 3 + 1:05b}"
    steps = packed([1, 2, 3], (size,) * 3, small) * 8
    sound = place + run + steps + packed([size - 1, 0, 0], (size,) * 3, small)
    assert len(unpack(frame_of([7, 7, 7], small, sound), 10)[0]) == 1
    beyond = packed([size, 0, 0], (size,) * 3, small)
    assert not len(unpack(frame_of([7, 7, 7], small, place + run + steps + beyond), 10)[0])
    beyond = packed([8, 0, 0], (8, 8, 8), 10)
    assert not len(unpack(frame_of([7, 7, 7], small, sound.replace(place, beyond, 1)), 10)[0])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_numbers_that_are_not_packed_lie_within_their_bounds_too(axis):
    """Beyond 2^24 values every axis has bits of its own."""
    highest = [(1 << 24) + 1, 9, 20]
    widths = [25, 4, 5]
    sound = "".join(f"{value:0{width}b}" for value, width in zip(highest, widths, strict=True)) + "0"
    np.testing.assert_array_equal(unpack(frame_of(highest, 9, 10 * sound), 10)[0][0, 9], np.float32(highest))
    beyond = [*highest]
    beyond[axis] += 1
    damaged = "".join(f"{value:0{width}b}" for value, width in zip(beyond, widths, strict=True)) + "0"
    assert not len(unpack(frame_of(highest, 9, 9 * sound + damaged), 10)[0])


@pytest.mark.parametrize("change", [-8, -4, 4, 8, 400])
def test_a_length_that_the_bits_do_not_need_is_damage(data, change):
    (length,) = struct.unpack_from(">i", data, 88)
    struct.pack_into(">i", data, 88, length + change)
    assert len(find(data + bytes(500), 180)[0])
    assert not len(unpack(data + bytes(500), 180)[0])


def test_bytes_that_fill_up_a_frame_may_be_counted(data):
    expected = unpack(data, 180)[0]
    (length,) = struct.unpack_from(">i", data, 88)
    struct.pack_into(">i", data, 88, (length + 3) // 4 * 4)
    np.testing.assert_array_equal(unpack(data, 180)[0], expected)


def test_any_bits_end_without_harm(data):
    """Damaged bits may give other numbers, but never a place outside the arrays."""
    rng, refused = np.random.default_rng(6), 0
    for _ in range(1000):
        damaged = np.frombuffer(bytes(data), np.uint8).copy()
        places = rng.integers(56, len(data), size=3)
        damaged[places] = rng.integers(0, 256, size=3)
        refused += not len(unpack(damaged.tobytes(), 180)[0])
    assert refused > 300


@settings(deadline=None, max_examples=300)
@given(
    st.binary(max_size=300),
    st.integers(1, 12),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=6, max_size=6),
    st.integers(0, 80),
)
def test_any_bytes_behind_any_header_end_without_harm(body, n_atoms, bounds, small):
    head = struct.pack(">3i10fi", 1995, n_atoms, 0, *[0.0] * 10, n_atoms)
    head += struct.pack(">f8i", 1000.0, *bounds, small, len(body))
    for frame in (head + body + bytes(3), head[:56] + body, body):
        assert len(unpack(frame, n_atoms)[0]) <= 3


def test_a_header_does_not_decide_how_much_memory_is_taken():
    """24 GB for a frame of 100 bytes, where one of its atoms is wanted."""
    n_atoms = 2**31 - 1
    frame = struct.pack(">3i10fi", 1995, n_atoms, 0, *[0.0] * 10, n_atoms)
    frame += struct.pack(">f8i", 1000.0, 0, 0, 0, 9, 9, 9, 20, 8) + bytes(8)
    assert find(frame, n_atoms)[0].tolist() == [0]
    assert len(unpack(frame, n_atoms, [0])[0]) == 0


def test_arguments_must_fit(data):
    frames, heads, none = (
        np.empty((1, 180, 3), np.float32),
        np.empty((1, 10), np.float32),
        np.empty(0, np.intp),
    )
    one = np.zeros(1, np.intp)
    with pytest.raises(ValueError, match=r"frames must have shape \(1, 180, 3\)"):
        kernels.unpack_xtc_frames(bytes(data), one, 180, none, frames[:, :9].copy(), heads)
    with pytest.raises(ValueError, match="atoms must lie within 0 and 179, got 180"):
        kernels.unpack_xtc_frames(bytes(data), one, 180, one + 180, frames[:, :1].copy(), heads)
    with pytest.raises(ValueError, match="starts must lie within"):
        kernels.unpack_xtc_frames(bytes(data), one - 1, 180, none, frames, heads)
    with pytest.raises(ValueError, match="begin must lie within"):
        kernels.find_xtc_frames(bytes(data), len(data) + 1, 180, one)
    with pytest.raises(ValueError, match="n_atoms must lie within"):
        kernels.find_xtc_frames(bytes(data), 0, 0, one)
