"""Molecules cut apart by a periodic box are joined, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.selection import Molecules, molecules_of
from ldmaps.metrics import RMSD

CHAIN = np.array([(i, i + 1) for i in range(9)])
CUBIC = 2.0 * np.eye(3)
TRICLINIC = np.array([[2.0, 0, 0], [0.6, 1.9, 0], [-0.5, 0.4, 1.8]])


def chain(rng, n=6):
    """A random walk of ten atoms."""
    steps = rng.normal(size=(n, 10, 3))
    steps *= 0.15 / np.linalg.norm(steps, axis=2, keepdims=True)
    return np.cumsum(steps, axis=1).astype(np.float32)


def wrapped(frames, box):
    fractions = frames @ np.linalg.inv(box)
    return ((fractions - np.floor(fractions)) @ box).astype(np.float32)


def make_whole(frames, box, bonds=CHAIN):
    molecules = Molecules(frames.shape[1], bonds, [f"A{i}" for i in range(frames.shape[1])])
    boxes = np.broadcast_to(box, (len(frames), 3, 3))
    return molecules.make_whole(frames, boxes, np.arange(len(frames)), "traj.xtc")


@pytest.mark.parametrize("box", [CUBIC, TRICLINIC], ids=["cubic", "triclinic"])
def test_wrapped_chains_come_back_whole(box):
    frames = chain(np.random.default_rng(0))
    cut = wrapped(
        frames + np.random.default_rng(1).uniform(0, 2, (len(frames), 1, 3)).astype(np.float32), box
    )
    assert np.abs(np.diff(cut, axis=1)).max() > 1.0
    whole = make_whole(cut, box)
    np.testing.assert_allclose(np.diff(whole, axis=1), np.diff(frames, axis=1), atol=1e-5)


def test_whole_frames_are_not_touched():
    frames = chain(np.random.default_rng(0))
    assert make_whole(frames, CUBIC) is frames
    assert make_whole(frames, np.zeros((3, 3))) is frames


def test_the_input_is_left_alone():
    cut = wrapped(chain(np.random.default_rng(0)), CUBIC)
    before = cut.copy()
    make_whole(cut, CUBIC)
    np.testing.assert_array_equal(cut, before)


def test_two_molecules_are_put_into_one_anothers_nearest_image():
    rng = np.random.default_rng(2)
    first, second = chain(rng) * 0.3, chain(rng) * 0.3 + np.float32(0.3)
    pair = np.concatenate([first, second], axis=1)
    bonds = np.concatenate([CHAIN, CHAIN + 10])
    cut = wrapped(pair, CUBIC)
    whole = make_whole(cut, CUBIC, bonds)
    metric = RMSD()
    deviations = np.diag(metric.pairwise(whole, pair))
    np.testing.assert_allclose(deviations, 0, atol=5e-4)  # a rounding of coordinates, under a square root


def test_molecules_half_a_box_apart_are_refused():
    pair = np.concatenate([np.zeros((1, 2, 3)), np.full((1, 1, 3), 0.99)], axis=1).astype(np.float32)
    with pytest.raises(
        InvalidInputError,
        match=r"frame 0 the nearest periodic image is ambiguous for the molecules of A2 and A0",
    ):
        make_whole(pair, CUBIC, np.array([(0, 1)]))


def test_without_bonds_a_spread_is_refused_and_a_compact_one_taken():
    none = np.empty((0, 2), dtype=int)
    compact = (chain(np.random.default_rng(0)) * 0.1).astype(np.float32)
    assert make_whole(compact, CUBIC, none) is compact
    with pytest.raises(InvalidInputError, match=r'no bonds to join them by.*periodic="keep"'):
        make_whole(wrapped(compact, CUBIC), CUBIC, none)


def test_a_molecule_bonded_to_its_own_image_is_refused():
    ring = np.array([[[x, 0.0, 0.0] for x in (0.0, 0.5, 1.0, 1.5)]], dtype=np.float32)
    bonds = np.array([(0, 1), (1, 2), (2, 3), (3, 0)])
    with pytest.raises(InvalidInputError, match="bonded to its own periodic image"):
        make_whole(ring, CUBIC * 0.9, bonds)
    # The message names the first such frame, and not one that is only cut by the box.
    x = np.array([[0.9, 0.95, 0.05, 0.0], [0.0, 0.25, 0.5, 0.75]]) * CUBIC[0, 0]
    frames = np.stack([x, 0 * x, 0 * x], axis=2).astype(np.float32)
    with pytest.raises(InvalidInputError, match="in frame 1 a molecule is bonded to its own"):
        make_whole(frames, CUBIC, bonds)


def test_files_are_made_whole_even_through_a_selection_without_bonds(tmp_path):
    pytest.importorskip("mdtraj")
    from written_trajectories import mdtraj_trajectory

    import ldmaps.inputs

    trajectory = mdtraj_trajectory(stride=1000, box=2.5)
    whole = trajectory.xyz.copy()
    trajectory.xyz = wrapped(trajectory.xyz - trajectory.xyz[:, :1], 2.5 * np.eye(3))
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    trajectory.save_xtc(str(tmp_path / "cut.xtc"))
    carbons = [atom.index for atom in trajectory.topology.atoms if atom.element.symbol == "C"]
    settings = {"top": tmp_path / "top.pdb", "select": "element C"}
    joined = ldmaps.inputs.open_files(tmp_path / "cut.xtc", **settings).read().frames
    np.testing.assert_allclose(np.diag(RMSD().pairwise(joined, whole[:, carbons])), 0, atol=2e-3)
    kept = ldmaps.inputs.open_files(tmp_path / "cut.xtc", periodic="keep", **settings).read().frames
    assert np.diag(RMSD().pairwise(kept, whole[:, carbons])).max() > 0.5
    for source in (trajectory, ldmaps.inputs.open_files(trajectory)):
        frames = ldmaps.inputs.as_source(source).read().frames
        np.testing.assert_allclose(np.diag(RMSD().pairwise(frames, whole)), 0, atol=2e-3)


def test_the_setting_is_checked(tmp_path):
    pytest.importorskip("mdtraj")
    from written_trajectories import mdtraj_trajectory

    import ldmaps.inputs

    with pytest.raises(InvalidInputError, match='periodic must be "whole"'):
        ldmaps.inputs.open_files(mdtraj_trajectory(5000), periodic="wrap")


def test_every_frame_of_a_file_that_is_loaded_at_once_has_its_own_box(tmp_path):
    pytest.importorskip("mdtraj")
    from written_trajectories import mdtraj_trajectory

    import ldmaps.inputs

    trajectory = mdtraj_trajectory(stride=5000, box=2.5)
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    whole = trajectory.xyz.copy()
    boxes = np.linspace(2.5, 4.0, len(trajectory))[:, None, None] * np.eye(3)
    trajectory.xyz = np.concatenate(
        [wrapped(frame[None] - frame[:1], box) for frame, box in zip(whole, boxes, strict=True)]
    )
    trajectory.unitcell_vectors = boxes
    trajectory.save_gro(str(tmp_path / "cut.gro"))
    joined = ldmaps.inputs.open_files(tmp_path / "cut.gro", top=tmp_path / "top.pdb", chunk=2).read().frames
    np.testing.assert_allclose(np.diag(RMSD().pairwise(joined, whole)), 0, atol=2e-3)


def test_molecules_are_those_of_scipy():
    """Which takes so long to import that reading a trajectory does without it."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        n_atoms = int(rng.integers(1, 60))
        bonds = rng.integers(0, n_atoms, (int(rng.integers(0, 60)), 2))
        matrix = coo_matrix((np.ones(len(bonds)), (bonds[:, 0], bonds[:, 1])), shape=(n_atoms, n_atoms))
        wanted = connected_components(matrix, directed=False)
        found = molecules_of(n_atoms, bonds)
        assert found[0] == wanted[0]
        np.testing.assert_array_equal(found[1], wanted[1])
