"""Growing files: whatever the pieces, all records come once, in order; a restart gives the rest."""

from __future__ import annotations

import itertools
import os
import struct
import time
import tracemalloc

import numpy as np
import pytest
from polling import drain, in_background, joined
from written_trajectories import mdtraj_trajectory, write_all

import ldmaps.inputs
from ldmaps.errors import InvalidInputError, SourceError
from ldmaps.inputs.frame_formats import DcdFrames
from ldmaps.streaming.sources import growing_trajectory
from ldmaps.streaming.sources.growing_trajectory import GrowingTrajectory

mdtraj = pytest.importorskip("mdtraj", reason="mdtraj reads topologies")

FORMATS = ("xtc", "trr", "dcd")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("trajectories"), stride=1000)


def pieces_of(data: bytes, seed: int, longest: int) -> list[bytes]:
    cuts = np.random.default_rng(seed).integers(1, longest, size=len(data))
    ends = np.cumsum(cuts)
    ends = [0, *ends[ends < len(data)].tolist(), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(ends)]


def append(path, pieces, pause=0.0):
    with open(path, "ab", buffering=0) as out:
        for piece in pieces:
            out.write(piece)
            if pause:
                time.sleep(pause)


def finished(files, extension, **settings):
    return ldmaps.inputs.open_files(files[extension], files["top"], **settings).read()


@pytest.mark.parametrize("extension", FORMATS)
def test_all_frames_of_a_file_written_in_arbitrary_pieces(files, tmp_path, extension):
    path = tmp_path / f"run.{extension}"
    path.touch()
    pieces = pieces_of(files[extension].read_bytes(), seed=1, longest=60)
    assert len(pieces) > 100
    expected = finished(files, extension)
    with in_background(lambda: append(path, pieces, 1e-3)):
        parts = drain(GrowingTrajectory(path, top=files["top"]), enough=len(expected))
    frames, numbers, times = joined(parts)
    np.testing.assert_array_equal(frames, expected.frames)
    np.testing.assert_array_equal(numbers, np.arange(len(expected)))
    assert not any(part.rejected for part in parts)
    if expected.times is None:
        assert times is None
    else:
        np.testing.assert_array_equal(times, expected.times)


@pytest.mark.parametrize("extension", FORMATS)
def test_a_half_written_frame_waits(files, tmp_path, extension):
    path = tmp_path / f"run.{extension}"
    data = files[extension].read_bytes()
    path.write_bytes(data[:-5])
    total = len(finished(files, extension))
    source = GrowingTrajectory(path, top=files["top"])
    source.open()
    try:
        got = 0
        while len(part := source.poll(1000, 0.0)):
            got += len(part)
        assert got == total - 1
        append(path, [data[-5:-1]])
        assert len(source.poll(1000, 0.0)) == 0
        append(path, [data[-1:]])
        last = source.poll(1000, 0.0)
    finally:
        source.close()
    assert last.numbers.tolist() == [total - 1]


def test_frames_before_one_of_other_atoms_are_delivered(files, tmp_path):
    path, fewer = tmp_path / "run.trr", tmp_path / "fewer.trr"
    trajectory = mdtraj_trajectory(stride=1000)
    trajectory.atom_slice(range(12)).save(str(fewer))
    path.write_bytes(files["trr"].read_bytes() + fewer.read_bytes())
    source = GrowingTrajectory(path, top=files["top"], idle_end=0.0)
    source.open()
    try:
        assert len(source.poll(1000, 0.0)) == len(finished(files, "trr"))
        with pytest.raises(InvalidInputError, match="has 12 atoms per frame, but 22 were expected"):
            source.poll(1000, 0.0)
    finally:
        source.close()


@pytest.mark.parametrize("extension", FORMATS)
def test_going_on_from_every_position(files, extension):
    expected = finished(files, extension)
    parts = drain(GrowingTrajectory(files[extension], top=files["top"], idle_end=0.0), most=1)
    assert len(parts) == len(expected)
    for part in parts[:: max(1, len(parts) // 8)]:
        rest = drain(
            GrowingTrajectory(files[extension], top=files["top"], idle_end=0.0),
            position=part.position,
            most=9,
        )
        done = int(part.numbers[-1]) + 1
        np.testing.assert_array_equal(joined(rest)[0], expected.frames[done:])
        assert joined(rest)[1][0] == done


@pytest.mark.parametrize("extension", FORMATS)
def test_frames_longer_than_what_is_read_at_once(files, extension, monkeypatch):
    monkeypatch.setattr(growing_trajectory, "READ_BYTES", 300)
    frames = joined(drain(GrowingTrajectory(files[extension], top=files["top"], idle_end=0.0)))[0]
    np.testing.assert_array_equal(frames, finished(files, extension).frames)


def test_memory_does_not_depend_on_the_length(files, tmp_path):
    path = tmp_path / "run.dcd"
    data = files["dcd"].read_bytes()
    header = len(data) - len(finished(files, "dcd")) * 3 * (22 * 4 + 8)
    path.write_bytes(data[:header] + 1000 * data[header:])
    assert path.stat().st_size > 7e6
    source, count = GrowingTrajectory(path, top=files["top"], idle_end=0.0), 0
    tracemalloc.start()
    try:
        source.open()
        while (part := source.poll(500, 0.0)) is not None:
            count += len(part)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        source.close()
    assert count == 1000 * len(finished(files, "dcd"))
    assert peak < 4e6


@pytest.mark.parametrize("extension", FORMATS)
def test_atoms_and_images_are_treated_as_in_a_finished_file(tmp_path, extension):
    trajectory = mdtraj_trajectory(stride=2500, box=2.5)
    # Cut by the box in every frame.
    trajectory.xyz = np.mod(trajectory.xyz - trajectory.xyz.mean(axis=1, keepdims=True), 2.5)
    trajectory.save(str(tmp_path / f"run.{extension}"))
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    here = {extension: tmp_path / f"run.{extension}", "top": tmp_path / "top.pdb"}
    facts = ldmaps.inputs.open_files(here[extension], here["top"], select="not element H").facts()
    source = GrowingTrajectory(here[extension], top=here["top"], model_facts=facts, idle_end=0.0)
    frames = joined(drain(source))[0]
    np.testing.assert_array_equal(frames, finished(here, extension, select="not element H").frames)
    assert source.facts["atom_names"] == facts["atom_names"]
    cut = finished(here, extension, select="not element H", periodic="keep").frames
    assert np.abs(frames - cut).max() > 1.0


def test_other_atoms_than_the_models_are_refused(files):
    facts = ldmaps.inputs.open_files(files["xtc"], files["top"], select="not element H").facts()
    with pytest.raises(InvalidInputError, match="22 atoms, but the map takes 10"):
        GrowingTrajectory(files["xtc"], top=files["top"], select="all", model_facts=facts)
    with pytest.raises(InvalidInputError, match="give a topology"):
        GrowingTrajectory(files["xtc"], model_facts=facts)


def test_a_topology_of_other_size_is_refused(files, tmp_path):
    mdtraj_trajectory(stride=2500).atom_slice(range(12))[0].save_pdb(str(tmp_path / "small.pdb"))
    with pytest.raises(InvalidInputError, match="has 22 atoms per frame, but 12 were expected"):
        drain(GrowingTrajectory(files["xtc"], top=tmp_path / "small.pdb", idle_end=0.0))


@pytest.mark.parametrize("extension", ["h5", "pdb"])
def test_formats_without_known_frame_lengths_are_refused(files, extension):
    with pytest.raises(InvalidInputError, match="cannot be followed while it grows"):
        GrowingTrajectory(files[extension], top=files["top"])


def test_a_file_that_shrinks_is_an_error(files, tmp_path):
    path = tmp_path / "run.xtc"
    path.write_bytes(files["xtc"].read_bytes())
    source = GrowingTrajectory(path, top=files["top"])
    source.open()
    try:
        while len(last := source.poll(1000, 0.0)):
            position = last.position
        os.truncate(path, 1000)
        with pytest.raises(SourceError, match="shrank"):
            source.poll(1, 0.0)
    finally:
        source.close()
    with pytest.raises(SourceError, match="shrank"):
        drain(GrowingTrajectory(path, top=files["top"]), position=position)


def test_a_file_that_is_replaced_is_an_error_and_its_old_frames_are_not_lost(files, tmp_path):
    path = tmp_path / "run.xtc"
    path.write_bytes(files["xtc"].read_bytes())
    source = GrowingTrajectory(path, top=files["top"])
    source.open()
    try:
        path.rename(tmp_path / "run.1.xtc")
        path.write_bytes(b"")
        total = len(finished(files, "xtc"))
        assert sum(len(source.poll(1, 0.0)) for _ in range(total)) == total
        with pytest.raises(SourceError, match="replaced by another file"):
            source.poll(1, 0.0)
        path.unlink()
        with pytest.raises(SourceError, match="removed"):
            source.poll(1, 0.0)
    finally:
        source.close()


@pytest.mark.parametrize("extension", ["xtc", "dcd"])
def test_frames_that_are_written_over_are_an_error(files, tmp_path, extension):
    data = bytearray(files[extension].read_bytes())
    path = tmp_path / f"run.{extension}"
    path.write_bytes(data)
    source = GrowingTrajectory(path, top=files["top"])
    source.open()
    try:
        for _ in range(200):
            if source.poll(100, 0.0).empty:
                break
        if extension == "dcd":  # engines count the frames in the header as they go
            with open(path, "r+b") as out:
                out.seek(8)
                out.write(b"\x07")
            assert source.poll(100, 0.0).empty
        data[-9] ^= 1
        path.write_bytes(data)
        with pytest.raises(SourceError, match="was overwritten"):
            source.poll(100, 0.0)
    finally:
        source.close()


def test_a_header_that_counts_frames_may_change_before_a_restart(files, tmp_path):
    path = tmp_path / "run.dcd"
    path.write_bytes(files["dcd"].read_bytes())
    position = drain(GrowingTrajectory(path, top=files["top"]), most=3, enough=3)[-1].position
    with open(path, "r+b") as out:
        out.seek(8)
        out.write(b"\x07")
    assert len(drain(GrowingTrajectory(path, top=files["top"]), position=position, most=3, enough=3)) > 0


def test_another_file_under_the_same_name_is_known_on_restart(files, tmp_path):
    path = tmp_path / "run.xtc"
    path.write_bytes(files["xtc"].read_bytes())
    position = drain(GrowingTrajectory(path, top=files["top"]), enough=7)[-1].position
    mdtraj_trajectory(stride=500)[7:].save(str(path))
    with pytest.raises(SourceError, match="not the file that was read before"):
        drain(GrowingTrajectory(path, top=files["top"]), position=position)


def frame_starts(data, extension, n_frames):
    """Return where frames begin."""
    if extension == "xtc":
        starts = [0]
        while len(starts) < n_frames:
            starts.append(starts[-1] + 92 + (struct.unpack_from(">i", data, starts[-1] + 88)[0] + 3) // 4 * 4)
        return starts
    length = 3 * (22 * 4 + 8) if extension == "dcd" else len(data) // n_frames
    return [len(data) - (n_frames - number) * length for number in range(n_frames)]


#: What is damaged: the first bytes of a frame, an atom count, a length, a box, bounds, the bits, or bytes are missing.
DAMAGE = {
    "xtc": {
        "magic": 3,
        "atoms": 6,
        "more atoms": 55,
        "length": 90,
        "shorter": 91,
        "time": 12,
        "bounds": 72,
        "size": 87,
    },
    "trr": {"magic": 3, "atoms": 67, "length": 55},
    "dcd": {"mark": 0, "end mark": 4 + 88, "middle mark": 96},
}


@pytest.mark.parametrize(
    ("extension", "damage"), [(extension, name) for extension, names in DAMAGE.items() for name in names]
)
@pytest.mark.parametrize("frame", [0, 3])
@pytest.mark.parametrize("most", [1, 1000])
def test_a_damaged_frame_is_rejected_and_those_behind_it_are_not_lost(
    files, tmp_path, extension, damage, frame, most
):
    expected, data = finished(files, extension), bytearray(files[extension].read_bytes())
    start = frame_starts(data, extension, len(expected))[frame]
    place = start + DAMAGE[extension][damage]
    data[place] ^= {"length": 2, "shorter": 64, "time": 0x7F ^ data[place], "bounds": 0x80}.get(damage, 16)
    if damage == "time":
        data[place + 1] = 0x80
    path = tmp_path / f"run.{extension}"
    path.write_bytes(data)
    source = GrowingTrajectory(path, top=files["top"], idle_end=0.0)
    if frame == 0 and (extension == "trr" or damage in ("magic", "atoms", "more atoms")):
        with pytest.raises((SourceError, InvalidInputError)):  # no file of that kind, or of other atoms
            drain(source)
        return
    parts = drain(source, most=most)
    (rejected,) = [one for part in parts for one in part.rejected]
    assert rejected.number == frame
    assert rejected.reason.endswith(f", at byte {start}")
    frames, numbers, _ = joined(parts)
    sound = np.arange(len(expected)) != frame
    np.testing.assert_array_equal(frames, expected.frames[sound])
    np.testing.assert_array_equal(numbers, np.flatnonzero(sound))
    # From wherever a run goes on, also in the middle of the search, the rest comes once.
    for place, part in enumerate(parts):
        rest = drain(
            GrowingTrajectory(path, top=files["top"], idle_end=0.0), position=part.position, most=most
        )
        again = [one.numbers for one in [*parts[: place + 1], *rest]]
        np.testing.assert_array_equal(np.concatenate(again), np.flatnonzero(sound))
        assert sum(len(one.rejected) for one in [*parts[: place + 1], *rest]) == 1
        if most == 1 and place > 6:
            break


def test_bytes_that_are_missing_or_too_many_cost_one_frame(files, tmp_path):
    expected, data = finished(files, "xtc"), files["xtc"].read_bytes()
    starts = frame_starts(data, "xtc", len(expected))
    path = tmp_path / "run.xtc"
    for changed in (
        data[: starts[4] + 30] + data[starts[4] + 33 :],
        data[: starts[4] + 100] + b"rubbish" + data[starts[4] + 100 :],
        data[: starts[4]] + bytes(5000) + data[starts[5] :],
    ):
        path.write_bytes(changed)
        parts = drain(GrowingTrajectory(path, top=files["top"], idle_end=0.0))
        assert [one.number for part in parts for one in part.rejected] == [4]
        frames, numbers, _ = joined(parts)
        np.testing.assert_array_equal(frames, np.delete(expected.frames, 4, axis=0))
        np.testing.assert_array_equal(numbers, np.delete(np.arange(len(expected)), 4))


def test_damage_in_the_last_frame_hides_none_before_it(files, tmp_path):
    """A length that is too large makes the frame wait for bytes that never come."""
    expected, data = finished(files, "xtc"), bytearray(files["xtc"].read_bytes())
    start = frame_starts(data, "xtc", len(expected))[-2]
    struct.pack_into(">i", data, start + 88, 22 * 13)
    path = tmp_path / "run.xtc"
    path.write_bytes(data)
    parts = drain(GrowingTrajectory(path, top=files["top"], idle_end=0.0))
    assert [one.number for part in parts for one in part.rejected] == [len(expected) - 2]
    assert joined(parts)[1][-1] == len(expected) - 1


def test_a_search_ends_with_a_frame_that_comes_later(files, tmp_path):
    data = files["xtc"].read_bytes()
    starts = frame_starts(data, "xtc", 6)
    path = tmp_path / "run.xtc"
    path.write_bytes(data[: starts[2]] + bytes(3000))
    source = GrowingTrajectory(path, top=files["top"])
    source.open()
    try:
        assert len(source.poll(100, 0.0)) == 2
        assert [one.number for one in source.poll(100, 0.0).rejected] == [2]
        for begin in range(starts[3], starts[5], 10):
            append(path, [data[begin : min(begin + 10, starts[5])]])
            last = source.poll(100, 0.0)
            assert not last.rejected
    finally:
        source.close()
    assert last.numbers.tolist() == [4]


def test_a_frame_that_is_never_finished_is_reported_at_the_end(files, tmp_path):
    path = tmp_path / "run.dcd"
    data = files["dcd"].read_bytes()
    path.write_bytes(data[:-7])
    parts = drain(GrowingTrajectory(path, top=files["top"], idle_end=0.0))
    (rejected,) = parts[-1].rejected
    total = len(finished(files, "dcd"))
    assert rejected.number == total - 1
    assert "not finished" in rejected.reason
    # The rest may still come: then the frame is delivered in full.
    append(path, [data[-7:]])
    rest = drain(GrowingTrajectory(path, top=files["top"], idle_end=0.0), position=parts[-1].position)
    assert joined(rest)[1].tolist() == [total - 1]


def test_frames_with_velocities_alone_are_rejected_and_keep_their_number(files, tmp_path):
    data = files["trr"].read_bytes()
    frame = len(data) // len(finished(files, "trr"))
    header = bytearray(data[:frame])
    assert struct.unpack_from(">i", header, 24 + 7 * 4)[0] == 22 * 12
    header[24 + 7 * 4 : 24 + 9 * 4] = header[24 + 8 * 4 : 24 + 9 * 4] + header[24 + 7 * 4 : 24 + 8 * 4]
    path = tmp_path / "run.trr"
    path.write_bytes(data[:frame] + header + data[frame : 3 * frame])
    parts = drain(GrowingTrajectory(path, top=files["top"], idle_end=0.0))
    assert joined(parts)[1].tolist() == [0, 2, 3]
    assert [one.number for part in parts for one in part.rejected] == [1]


def test_double_precision(files, tmp_path):
    data = files["trr"].read_bytes()
    expected = finished(files, "trr")
    frame = len(data) // len(expected)
    doubled = b""
    for begin in range(0, len(data), frame):
        head = bytearray(data[begin : begin + 24 + 52])
        for place in (2, 7):  # the sizes of the box and of the coordinates
            (size,) = struct.unpack_from(">i", head, 24 + 4 * place)
            struct.pack_into(">i", head, 24 + 4 * place, 2 * size)
        doubled += head + np.frombuffer(data[begin + 76 : begin + frame], ">f4").astype(">f8").tobytes()
    path = tmp_path / "run.trr"
    path.write_bytes(doubled)
    frames, _, times = joined(drain(GrowingTrajectory(path, top=files["top"], idle_end=0.0)))
    np.testing.assert_array_equal(frames, expected.frames)
    np.testing.assert_array_equal(times, expected.times)


@pytest.mark.parametrize("written", ["degrees", "cosines"])
def test_oblique_boxes_of_dcd(tmp_path, written):
    from mdtraj.formats import DCDTrajectoryFile

    path = tmp_path / "run.dcd"
    angles = np.array([[70.0, 80.0, 100.0]])
    with DCDTrajectoryFile(str(path), "w") as out:
        out.write(np.zeros((1, 4, 3), dtype=np.float32), np.array([[20.0, 30.0, 40.0]]), angles)
    data = bytearray(path.read_bytes())
    form = DcdFrames()
    assert form.read_header(bytes(data))
    begin = form.begin
    alpha, beta, gamma = angles[0] if written == "degrees" else np.cos(np.deg2rad(angles[0]))
    data[begin + 4 : begin + 52] = struct.pack("<6d", 20.0, gamma, 30.0, beta, alpha, 40.0)
    _, _, box = form.decode(bytes(data), np.array([begin]), None)
    path.write_bytes(data)
    with DCDTrajectoryFile(str(path)) as handle:
        _, lengths, degrees = handle.read()
    np.testing.assert_allclose(10 * np.linalg.norm(box[0], axis=1), lengths[0], rtol=1e-5)
    found = [np.rad2deg(_angle(box[0][i], box[0][j])) for i, j in ((1, 2), (0, 2), (0, 1))]
    np.testing.assert_allclose(found, degrees[0], atol=1e-3)
    np.testing.assert_allclose(found, angles[0], atol=1e-3)


def _angle(left, right):
    return np.arccos(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


@pytest.mark.parametrize("extension", ["dcd", "xtc"])
def test_frames_as_openmm_writes_them(tmp_path, extension):
    openmm = pytest.importorskip("openmm", reason="OpenMM is the engine that writes (pip install openmm)")
    from openmm import app, unit

    n_atoms = 12
    topology = app.Topology()
    residue = topology.addResidue("ARG", topology.addChain())
    system, force = openmm.System(), openmm.CustomExternalForce("100*(x*x+y*y+z*z)")
    for _ in range(n_atoms):
        topology.addAtom("Ar", app.Element.getBySymbol("Ar"), residue)
        system.addParticle(40.0)
        force.addParticle(system.getNumParticles() - 1, [])
    system.addForce(force)
    start = np.random.default_rng(0).normal(scale=0.2, size=(n_atoms, 3))
    integrator = openmm.LangevinIntegrator(300 * unit.kelvin, 1 / unit.picosecond, 2 * unit.femtosecond)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(start)
    path = tmp_path / f"run.{extension}"
    reporter = app.DCDReporter if extension == "dcd" else app.XTCReporter
    simulation.reporters.append(reporter(str(path), 5))
    path.touch()
    source = GrowingTrajectory(path, top=mdtraj.Topology.from_openmm(topology))
    source.open()
    try:
        for number in range(6):
            simulation.step(5)
            now = simulation.context.getState(getPositions=True).getPositions(asNumpy=True)
            part = source.poll(10, 5.0)
            assert part.numbers.tolist() == [number]
            np.testing.assert_allclose(part.points[0], now.value_in_unit(unit.nanometer), atol=6e-4)
    finally:
        source.close()


def test_a_missing_file_is_told_at_once(files, tmp_path):
    with pytest.raises(FileNotFoundError):
        drain(GrowingTrajectory(tmp_path / "none.xtc", top=files["top"]))
