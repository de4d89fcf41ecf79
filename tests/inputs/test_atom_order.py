"""Atoms of a file are a model's by label, by name place by place, by residue when asked, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap
from ldmaps.cli import main
from ldmaps.errors import AtomOrderWarning, InvalidInputError
from ldmaps.inputs import Atoms
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.inputs.topology import atom_order, bonds_among

LABELS = ["ALA1-N", "ALA1-CA", "ALA1-CB", "GLY2-N", "GLY2-CA"]


def names(labels):
    return [label.partition("-")[2] for label in labels]


def shuffled(trajectory, order):
    """Put atoms into another order, residues staying in one piece: mdtraj's atom_slice leaves the names behind."""
    import mdtraj

    topology = mdtraj.Topology()
    chain, residues, atoms = topology.add_chain(), {}, {}
    for atom in (trajectory.topology.atom(int(place)) for place in order):
        residue = atom.residue
        if residue.index not in residues:
            residues[residue.index] = topology.add_residue(residue.name, chain, resSeq=residue.resSeq)
        atoms[atom.index] = topology.add_atom(atom.name, atom.element, residues[residue.index])
    for left, right in trajectory.topology.bonds:
        topology.add_bond(atoms[left.index], atoms[right.index])
    return mdtraj.Trajectory(trajectory.xyz[:, order], topology, time=trajectory.time)


def order_of(model, file, match=False):
    facts = {"atom_names": names(model), "atom_labels": list(model)}
    return atom_order(facts, Atoms(tuple(names(file)), tuple(file), None), "run.xtc", match=match)


@pytest.mark.parametrize("seed", range(5))
def test_labels_decide_whatever_the_order(seed):
    shuffle = np.random.default_rng(seed).permutation(5)
    file = [LABELS[place] for place in shuffle]
    order = order_of(LABELS, file)
    assert [file[place] for place in order] == LABELS


def test_the_same_order_is_left_alone():
    assert order_of(LABELS, LABELS) is None
    assert order_of(LABELS, [label.lower() for label in LABELS]) is None
    # Numbered anew: names agree place by place.
    assert order_of(LABELS, ["ALA11-N", "ALA11-CA", "ALA11-CB", "GLY12-N", "GLY12-CA"]) is None


def test_alpha_carbons_of_swapped_chains_are_not_taken_for_each_other():
    """By name alone all of them are CA."""
    np.testing.assert_array_equal(order_of(["ALA1-CA", "GLY2-CA"], ["GLY2-CA", "ALA1-CA"]), [1, 0])


def test_residues_of_other_names_are_matched_only_when_asked():
    file = ["ALA11-CB", "ALA11-N", "ALA11-CA", "GLY12-CA", "GLY12-N"]
    with pytest.raises(InvalidInputError, match=r"is ALA11-CB, but ALA1-N .* match_atoms=True"):
        order_of(LABELS, file)
    np.testing.assert_array_equal(order_of(LABELS, file, match=True), [1, 2, 0, 4, 3])


def test_two_chains_of_the_same_labels_are_matched_residue_by_residue():
    chain = LABELS[:3]
    file = ["ALA1-CA", "ALA1-N", "ALA1-CB", "ALA1-N", "ALA1-CB", "ALA1-CA"]
    with pytest.raises(InvalidInputError):
        order_of(chain * 2, file)
    # Nothing tells where the first chain's residue ends.
    with pytest.raises(InvalidInputError):
        order_of(chain * 2, file, match=True)


@pytest.mark.parametrize(
    "file",
    [
        ["ALA1-N", "ALA1-CA", "ALA1-CG", "GLY2-N", "GLY2-CA"],  # another atom
        ["ALA1-N", "ALA1-CA", "GLY2-N", "GLY2-CB", "GLY2-CA"],  # in another residue
        ["ALA1-CA", "ALA1-CA", "ALA1-CB", "GLY2-N", "GLY2-CA"],  # twice
    ],
)
@pytest.mark.parametrize("match", [False, True])
def test_other_atoms_are_refused(file, match):
    with pytest.raises(InvalidInputError, match="--ignore-names"):
        order_of(LABELS, file, match=match)


@pytest.mark.filterwarnings("default::ldmaps.errors.AtomOrderWarning")
def test_a_file_of_another_order_embeds_alike(files, tmp_path, capsys):
    """From the command line, with molecules read along and renumbered residues."""
    trajectory = mdtraj_trajectory()
    shuffle = np.concatenate(
        [np.arange(6)[::-1], 6 + np.random.default_rng(0).permutation(10), np.arange(16, 22)]
    )
    moved = shuffled(trajectory, shuffle)
    moved.save_dcd(str(tmp_path / "moved.dcd"))
    moved[0].save_pdb(str(tmp_path / "moved.pdb"))
    for residue in moved.topology.residues:
        residue.resSeq += 10
    moved[0].save_pdb(str(tmp_path / "renumbered.pdb"))
    source = ldmaps.inputs.open_files(files["dcd"], top=files["top"], select="not element H")
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=40).fit(source)
    model.save(tmp_path / "map.ldm")
    with pytest.warns(AtomOrderWarning):
        opened = ldmaps.inputs.open_files(
            tmp_path / "moved.dcd", top=tmp_path / "moved.pdb", model_facts=model.source_
        )
    assert opened.atoms.labels == source.atoms.labels
    assert opened.atoms.elements == source.atoms.elements
    assert {frozenset(bond) for bond in opened.atoms.bonds.tolist()} == {
        frozenset(bond) for bond in source.atoms.bonds.tolist()
    }
    np.testing.assert_array_equal(opened.read().frames, source.read().frames)

    embed = [
        "embed",
        str(tmp_path / "map.ldm"),
        str(tmp_path / "moved.dcd"),
        "-o",
        str(tmp_path / "psi.npy"),
        "-f",
    ]
    renumbered = ["-t", str(tmp_path / "renumbered.pdb")]
    assert main([*embed, *renumbered]) == 1
    assert "matched with --match-atoms" in capsys.readouterr().err
    assert main([*embed, *renumbered, "--match-atoms"]) == 0
    assert "another order" in capsys.readouterr().err
    rows = np.load(tmp_path / "psi.npy")
    np.testing.assert_allclose(np.column_stack([rows["psi2"], rows["psi3"]]), model.embedding_, atol=1e-6)


def test_streams_match_atoms_too(files):
    from ldmaps.streaming.sources.chosen_atoms import ChosenAtoms

    facts = ldmaps.inputs.open_files(files["dcd"], top=files["top"]).facts()
    moved = shuffled(mdtraj_trajectory(), np.arange(22)[::-1])
    with pytest.warns(AtomOrderWarning):
        chosen = ChosenAtoms("the stream", top=moved.topology, model_facts=facts)
    taken, _, _ = chosen.take(block_of(moved.xyz), np.arange(len(moved)))
    np.testing.assert_array_equal(taken.frames, moved.xyz[:, ::-1])


def test_bonds_of_chosen_atoms_are_by_their_places_among_them():
    bonds = np.array([[0, 1], [1, 2], [2, 4]])
    assert bonds_among(bonds, np.array([4, 2, 1]), 5).tolist() == [[2, 1], [1, 0]]
