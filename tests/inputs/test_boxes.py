"""Boxes of every format are in nm, of their own frame, and only where a frame has one."""

from __future__ import annotations

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps.metrics import RMSD

md = pytest.importorskip("mdtraj", reason="mdtraj is not installed")

BOX = 2.5


def cut_by(frames, box):
    """Move every atom into the box, with the first one in its corner."""
    frames = frames - frames[:, :1]
    return (frames - BOX * np.floor(frames / box)).astype(np.float32)


@pytest.fixture
def cut(tmp_path):
    """A trajectory that its box cuts apart, and its coordinates in one piece."""
    trajectory = mdtraj_trajectory(stride=2500, box=BOX)
    whole = trajectory.xyz.copy()
    trajectory.xyz = cut_by(whole, BOX)
    mdtraj_trajectory(stride=2500)[0].save_pdb(str(tmp_path / "top.pdb"))
    return trajectory, whole


def is_whole(frames, whole):
    """Say of each frame whether it has the shape it had before it was cut."""
    return np.diag(RMSD().pairwise(frames, whole)) < 5e-3


@pytest.mark.parametrize("extension", ["dcd", "xtc", "trr", "h5", "nc", "pdb", "gro"])
@pytest.mark.filterwarnings("ignore:.*'netCDF4' Python package is not installed")
def test_boxes_of_every_format_join_what_they_cut(tmp_path, cut, extension):
    """Of these dcd, nc and pdb are in Å."""
    trajectory, whole = cut
    path = tmp_path / f"cut.{extension}"
    trajectory.save(str(path))
    settings = {"top": tmp_path / "top.pdb"}
    assert is_whole(ldmaps.inputs.open_files(path, **settings).read().frames, whole).all()
    kept = ldmaps.inputs.open_files(path, periodic="keep", **settings).read().frames
    assert not is_whole(kept, whole).any()
    np.testing.assert_allclose(kept, trajectory.xyz, atol=2e-3)


def partly_boxed(cut):
    """Take its box from every other frame, and stretch such frames so that any box would cut them."""
    trajectory, whole = cut
    lengths = np.full((len(whole), 3), BOX)
    lengths[1::2] = 0.0
    boxed = lengths[:, :1, None] > 0
    expected = np.where(boxed, whole, 20 * whole).astype(np.float32)
    return np.where(boxed, trajectory.xyz, expected), lengths, expected


@pytest.mark.parametrize("stride", [1, 3, 8])
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_frames_without_a_box_are_left_alone_and_the_others_are_not(tmp_path, cut, chunk, stride):
    frames, lengths, whole = partly_boxed(cut)
    with md.formats.DCDTrajectoryFile(str(tmp_path / "cut.dcd"), "w") as file:
        file.write(10 * frames, cell_lengths=10 * lengths, cell_angles=np.full(lengths.shape, 90.0))
    source = ldmaps.inputs.open_files(
        tmp_path / "cut.dcd", top=tmp_path / "top.pdb", chunk=chunk, stride=stride
    )
    found = source.read().frames
    assert is_whole(found, whole[::stride]).all()
    alone = np.flatnonzero(lengths[::stride, 0] == 0)
    np.testing.assert_allclose(found[alone], whole[::stride][alone], rtol=1e-5)


# -- MDAnalysis -----------------------------------------------------------------------


def universe(trajectory, frames, dimensions):
    mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    from MDAnalysis.coordinates.memory import MemoryReader

    made = mda.Universe.empty(trajectory.n_atoms, trajectory=False)
    made.add_TopologyAttr("names", [atom.name for atom in trajectory.topology.atoms])
    made.add_TopologyAttr("bonds", [(left.index, right.index) for left, right in trajectory.topology.bonds])
    made.trajectory = MemoryReader(10 * frames, dimensions=dimensions)
    return made


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_boxes_of_mdanalysis_are_in_angstrom(cut, chunk):
    frames, lengths, whole = partly_boxed(cut)
    dimensions = np.column_stack([10 * lengths, np.where(lengths > 0, 90.0, 0.0)])
    group = universe(cut[0], frames, dimensions).atoms
    assert is_whole(ldmaps.inputs.open_files(group, chunk=chunk).read().frames, whole).all()


def test_a_live_reader_is_read_from_start_to_stop_by_stride(cut, monkeypatch):
    """It does not know its length and cannot be sliced."""
    trajectory, whole = cut
    made = universe(trajectory, whole, np.tile([25.0, 25.0, 25.0, 90.0, 90.0, 90.0], (len(whole), 1)))
    kind = type(made.trajectory)

    def unknown(self, *_):
        raise RuntimeError("a stream has no length")

    monkeypatch.setattr(kind, "__len__", unknown)
    monkeypatch.setattr(kind, "__getitem__", unknown)
    n = len(whole)
    for start, stop, stride in (
        (0, None, 1),
        (2, None, 1),
        (0, None, 3),
        (2, None, 2),
        (1, n - 1, 2),
        (0, 3, 1),
    ):
        source = ldmaps.inputs.open_files(made.atoms, start=start, stop=stop, stride=stride, chunk=2)
        assert source.n_frames is None
        numbers = np.concatenate([chunk.numbers for chunk in source])
        np.testing.assert_array_equal(numbers, np.arange(n)[start:stop:stride])
        frames = np.concatenate([chunk.frames for chunk in source])
        np.testing.assert_allclose(frames, whole[start:stop:stride], atol=1e-5)
