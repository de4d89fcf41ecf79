"""Frames that are written are the frames that were meant, to the atom, the box and the unit; mdtraj reads them back."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from written_trajectories import TOLERANCE, mdtraj_trajectory

import ldmaps
import ldmaps.inputs
from ldmaps.analysis import FramePicks, write_landmarks
from ldmaps.analysis.frames import picked, read_picks
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.inputs.frame_writer import open_frame_writer
from ldmaps.regions import Ball, Box, find_basins, representatives

mdtraj = pytest.importorskip("mdtraj", reason="mdtraj writes the trajectories")
STRIDE = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two halves of a trajectory in a box that changes, and a map of their heavy atoms."""
    folder = tmp_path_factory.mktemp("frames")
    whole = boxed()
    for name, part in (("a.trr", whole[:100]), ("b.trr", whole[100:])):
        part.save(str(folder / name))
    whole[0].save_pdb(str(folder / "top.pdb"))
    source = ldmaps.inputs.open_files(
        [folder / "a.trr", folder / "b.trr"], top=folder / "top.pdb", select="not element H"
    )
    model = ldmaps.LandmarkDiffusionMap(3, "connected", "rmsd", n_landmarks=60).fit(source)
    model.save(folder / "map.ldm")
    return folder


def boxed():
    trajectory = mdtraj_trajectory(STRIDE)
    lengths = 3.0 + 0.01 * np.arange(len(trajectory))[:, None] * [1.0, 0.5, 0.25]
    trajectory.unitcell_lengths = lengths.astype(np.float32)
    trajectory.unitcell_angles = np.tile(np.float32([90.0, 80.0, 70.0]), (len(trajectory), 1))
    return trajectory


@pytest.fixture(scope="module")
def model(folder):
    return ldmaps.load(folder / "map.ldm")


def run(folder, *arguments):
    here = os.getcwd()
    os.chdir(folder)
    try:
        return main(["frames", "map.ldm", *arguments])
    finally:
        os.chdir(here)


@pytest.mark.parametrize("suffix", ["xtc", "trr", "dcd", "pdb"])
def test_a_box_is_written_with_all_atoms_times_and_boxes(folder, model, suffix, capsys):
    border = float(np.median(model.embedding_[:, 0]))
    wanted = np.flatnonzero(model.embedding_[:, 0] >= border)
    out = folder / f"part.{suffix}"
    inputs = ["a.trr", "b.trr", "-t", "top.pdb", "-o", out.name]
    assert run(folder, *inputs, "--box", f"psi2={border!r}:") == 0
    said = capsys.readouterr().err
    assert f"part.{suffix}: {len(wanted)} frames" in said
    assert "of a.trr: " in said
    whole = boxed()
    written = mdtraj.load(str(out), **({} if suffix == "pdb" else {"top": str(folder / "top.pdb")}))
    assert written.n_atoms == 22
    np.testing.assert_allclose(written.xyz, whole.xyz[wanted], atol=TOLERANCE[suffix] + 1e-6)
    if suffix in ("xtc", "trr"):
        np.testing.assert_allclose(written.time, whole.time[wanted], rtol=1e-6)
    rows = [0] if suffix == "pdb" else slice(None)  # a PDB has room for one box
    np.testing.assert_allclose(
        written.unitcell_lengths[rows], whole.unitcell_lengths[wanted][rows], atol=2e-4
    )
    np.testing.assert_allclose(written.unitcell_angles[rows], whole.unitcell_angles[wanted][rows], atol=1e-2)
    if suffix == "pdb":
        remarks = [line for line in out.read_text().splitlines() if line.startswith("REMARK   6")]
        assert len(remarks) == len(wanted)
        file, number = ("a.trr", wanted[0]) if wanted[0] < 100 else ("b.trr", wanted[0] - 100)
        assert remarks[0] == f"REMARK   6 1: frame {number} of {file} ({whole.time[wanted[0]]:g} ps)"
    # An existing file stands unless --force.
    assert run(folder, *inputs, "--box", "psi2=:") == 1
    assert "exists already" in capsys.readouterr().err
    assert run(folder, *inputs, "--box", "psi2=:", "--force") == 0
    assert sorted(name for name in os.listdir(folder) if name.startswith(".")) == []


def test_nothing_is_left_where_writing_fails(folder, model):
    picks = picked([str(folder / "a.trr")], [0, 0], [5, 500])
    before = sorted(os.listdir(folder))
    with pytest.raises(
        InvalidInputError, match=r"frame 500 is out of range for .*a.trr \(100 frames, 0 to 99\)"
    ):
        picks.write(str(folder / "never.xtc"), folder / "top.pdb")
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("suffix", ["xtc", "trr", "dcd", "pdb"])
@pytest.mark.parametrize("room", [0.01, 0.5, 0.999])
def test_a_disk_that_becomes_full_is_an_error(tmp_path, suffix, room):
    """Some of mdtraj's writers say nothing, others raise whatever they meet."""
    resource = pytest.importorskip("resource", reason="a limit of POSIX stands for the disk")
    whole, path = boxed()[:60], tmp_path / f"full.{suffix}"

    def write():
        with open_frame_writer(str(path), whole.topology) as writer:
            for begin in (0, 30):
                rows = slice(begin, begin + 30)
                box = whole.unitcell_vectors[rows].astype(float)
                writer.write(block_of(whole.xyz[rows], whole.time[rows], box), np.arange(60)[rows])

    write()
    size = path.stat().st_size
    path.unlink()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(int(size * room), size - 1), hard))
    try:
        with pytest.raises(
            (InvalidInputError, OSError), match=rf"full.{suffix} could not be written \(.*free disk space"
        ):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []


def test_picks_of_a_table(folder, capsys):
    """Rows of embed, filtered by whoever; unsorted, repeated, of several files."""
    (folder / "picks.csv").write_text("file,frame,psi2\nb.trr,7,0\na.trr,3,0\nb.trr,0,0\na.trr,3,0\n")
    assert (
        run(folder, "--picks", "picks.csv", "-t", "top.pdb", "-o", "picks.trr", "--atoms", "name C", "--json")
        == 0
    )
    said = json.loads(capsys.readouterr().out)["frames"]
    assert [(row["file"], row["frame"]) for row in said] == [("a.trr", 3), ("b.trr", 0), ("b.trr", 7)]
    whole = boxed()
    carbons = whole.topology.select("name C")
    written = mdtraj.load(str(folder / "picks.trr"), top=whole.topology.subset(carbons))
    np.testing.assert_array_equal(written.xyz, whole.xyz[[3, 100, 107]][:, carbons])
    assert [row["time"] for row in said] == pytest.approx(whole.time[[3, 100, 107]])
    # One file needs no names; a wrong table is explained.
    (folder / "one.csv").write_text("frame\n4\n")
    np.testing.assert_array_equal(read_picks(str(folder / "one.csv"), ["x/a.trr"]).numbers, [4])
    (folder / "bad.csv").write_text("number\n4\n")
    assert run(folder, "--picks", "bad.csv", "-t", "top.pdb", "-o", "x.xtc") == 1
    assert "has no column frame; it has number" in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match="no column file, so its frames are those of one file, but 2"):
        read_picks(str(folder / "one.csv"), ["a.trr", "b.trr"])
    (folder / "half.csv").write_text("frame\n4.5\n")
    with pytest.raises(InvalidInputError, match="whole numbers from 0, got 4.5"):
        read_picks(str(folder / "half.csv"), ["a.trr"])


def test_landmarks_with_all_atoms_are_the_training_frames(folder, model, capsys):
    inputs = ["a.trr", "b.trr", "-t", "top.pdb"]
    assert run(folder, *inputs, "-o", "marks.trr", "--table", "marks.csv", "--landmarks") == 0
    whole = boxed()
    written = mdtraj.load(str(folder / "marks.trr"), top=whole.topology)
    np.testing.assert_array_equal(written.xyz, whole.xyz[np.sort(model.landmark_indices_)])
    rows = (folder / "marks.csv").read_text().splitlines()
    assert rows[0] == "number,file,frame,time,label"
    assert len(rows) == 61
    labels = {int(row.rpartition("landmark ")[2]) for row in rows[1:]}
    assert labels == set(range(60))
    for row in rows[1:5]:
        number, file, frame, _, label = row.split(",")
        index = int(frame) + (100 if file == "b.trr" else 0)
        assert model.landmark_indices_[int(label.split()[1])] == index
        np.testing.assert_array_equal(written.xyz[int(number) - 1], whole.xyz[index])
    with pytest.raises(InvalidInputError, match=r"landmarks are numbered 0 to 59 on this map, got 60"):
        FramePicks.of_landmarks(model, [60])


def test_landmarks_of_the_model_alone_have_its_atoms_and_shape(folder, model, capsys):
    """In nm to Å, weights undone: RMSD to the training frame is zero."""
    assert run(folder, "--landmarks", "3,17", "-o", "alone.pdb") == 0
    assert "2 landmarks as the model holds them (10 atoms each" in capsys.readouterr().err
    written = mdtraj.load(str(folder / "alone.pdb"))
    whole = boxed()
    heavy = whole.topology.select("not element H")
    assert [str(atom) for atom in written.topology.atoms] == [
        str(whole.topology.atom(index)) for index in heavy
    ]
    for row, landmark in enumerate((3, 17)):
        training = whole[int(model.landmark_indices_[landmark])].atom_slice(heavy)
        assert mdtraj.rmsd(written[row], training)[0] < 2e-4
    table = ldmaps.LandmarkDiffusionMap(2, n_landmarks=10).fit(np.random.default_rng(0).random((50, 3)))
    with pytest.raises(InvalidInputError, match="has no structures to write"):
        write_landmarks(table, str(folder / "x.pdb"))


def test_basins_and_their_representatives(folder, model, capsys):
    basins = find_basins(model, 2)
    inputs = ["a.trr", "b.trr", "-t", "top.pdb", "--n-basins", "2"]
    assert run(folder, *inputs, "--basin", "2", "-o", "basin.trr", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["frames"]
    members = [row["frame"] + (100 if row["file"] == "b.trr" else 0) for row in rows]
    chi = basins.memberships(model.embedding_)[:, 1]
    np.testing.assert_array_equal(members, np.flatnonzero(chi >= 0.7))
    assert run(folder, *inputs, "--basin", "3", "-o", "x.trr") == 1
    assert "there is no region '3'; there are basin 1, basin 2" in capsys.readouterr().err

    assert run(folder, *inputs, "--representatives", "-o", "middle.pdb") == 0
    middles = representatives(model, basins.regions)
    text = (folder / "middle.pdb").read_text()
    for name, landmark in middles.items():
        assert f"{name} (landmark {landmark})" in text
        # By brute force: nearest to the weighted mean of the core.
        psi, c = model.landmark_embedding_, model.multiplicities_
        core = [row for row in range(60) if basins.regions[name].membership(psi)[row] >= 0.7]
        mean = sum(c[row] * psi[row] for row in core) / sum(c[row] for row in core)
        assert landmark == min(core, key=lambda row: np.linalg.norm(psi[row] - mean))
    with pytest.raises(InvalidInputError, match="no landmark lies in the region 'far'"):
        representatives(model, {"far": Ball({"psi2": 1e3}, 1.0)})


def test_regions_files(folder, model, capsys):
    border = float(np.median(model.embedding_[:, 0]))
    (folder / "regions.toml").write_text(
        f'[regions.upper]\nkind = "box"\npsi2 = [{border!r}, inf]\nmargin = 9.0\n'
    )
    inputs = ["a.trr", "-t", "top.pdb", "-o", "upper.xtc", "--region", "upper"]
    assert run(folder, *inputs) == 1
    assert "name that with --regions FILE" in capsys.readouterr().err
    assert run(folder, *inputs, "--regions", "regions.toml") == 0
    written = mdtraj.load(str(folder / "upper.xtc"), top=str(folder / "top.pdb"))
    assert len(written) == np.sum(model.embedding_[:100, 0] >= border)  # the margin is for leaving


def test_mistakes_are_explained(folder, model, capsys):
    assert run(folder, "a.trr", "-t", "top.pdb", "--box", "psi2=1e6:", "-o", "x.xtc") == 1
    assert "none of the 100 frames of a.trr lies in Box(psi2=[1000000.0, None]" in capsys.readouterr().err
    assert run(folder, "a.trr", "-t", "top.pdb", "--box", "psi2=0", "-o", "x.xtc") == 2
    assert "bounds such as psi2=-0.1:0.2" in capsys.readouterr().err
    assert run(folder, "a.trr", "-t", "top.pdb", "--box", "psi9=0:", "-o", "x.xtc") == 1
    assert "psi9 is not a coordinate of this map" in capsys.readouterr().err
    assert run(folder, "--basin", "1", "-o", "x.xtc") == 1
    assert "holds no frames but its landmarks; name the trajectory" in capsys.readouterr().err
    assert run(folder, "a.trr", "-t", "top.pdb", "--basin", "1", "-o", "x.gro") == 1
    assert "must end in one of .xtc, .trr, .dcd, .pdb\n" in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match=r"c.trr is not among the inputs \(a.trr, b.trr\)"):
        read_picks(str(picks_of(folder, "c.trr")), ["a.trr", "b.trr"])
    arrays = ldmaps.LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=10).fit(boxed().xyz)
    with pytest.raises(InvalidInputError, match="does not remember which frames its landmarks are"):
        FramePicks.of_landmarks(arrays)


def picks_of(folder, name):
    path = folder / "named.csv"
    path.write_text(f"file,frame\n{name},1\n")
    return path


def test_formats_that_are_loaded_whole(folder, tmp_path):
    """A GRO and a PDB have no frames to seek."""
    whole = boxed()[:5]
    whole.save_gro(str(tmp_path / "run.gro"))
    whole.save_pdb(str(tmp_path / "run.pdb"))
    for name, tolerance in (("run.gro", 1e-3), ("run.pdb", 1e-4)):
        picks = picked([str(tmp_path / name)], [0, 0], [4, 1])
        assert picks.write(str(tmp_path / "out.dcd")) is None
        written = mdtraj.load(str(tmp_path / "out.dcd"), top=str(folder / "top.pdb"))
        np.testing.assert_allclose(written.xyz, whole.xyz[[1, 4]], atol=tolerance)
        # Without times, numbers of frames stand for them.
        picks.write(tmp_path / "out.xtc")
        written = mdtraj.load(str(tmp_path / "out.xtc"), top=str(folder / "top.pdb"))
        np.testing.assert_array_equal(written.time, [1, 4])


def test_frames_in_a_region_do_not_depend_on_chunks(folder, model):
    settings = {"top": folder / "top.pdb", "model_facts": model.source_}
    inputs = [folder / "a.trr", folder / "b.trr"]
    region = Box({"psi2": (0.0, None)})
    whole = FramePicks.in_region(model, ldmaps.inputs.open_files(inputs, **settings), region)
    parts = FramePicks.in_region(model, ldmaps.inputs.open_files(inputs, chunk=7, **settings), region)
    np.testing.assert_array_equal(whole.numbers, parts.numbers)
    np.testing.assert_array_equal(whole.file_of, parts.file_of)
    strided = FramePicks.in_region(model, ldmaps.inputs.open_files(inputs, stride=4, **settings), region)
    assert set(strided.numbers.tolist()) <= set(whole.numbers.tolist())
    assert (strided.numbers % 4 == 0).all()
