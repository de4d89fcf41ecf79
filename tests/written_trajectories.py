"""Trajectory files of the bundled alanine dipeptide, written by mdtraj."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ldmaps.datasets import alanine_dipeptide

FORMATS = ("xtc", "trr", "dcd", "h5", "pdb")
#: Steps between frames are those of the data set times this.
STRIDE = 250
#: xtc and pdb keep three decimals (of nm and of Å).
TOLERANCE = {"xtc": 6e-4, "trr": 1e-6, "dcd": 1e-6, "h5": 1e-6, "pdb": 6e-5}


def mdtraj_trajectory(stride: int = STRIDE, box: float | None = None):
    import mdtraj

    molecule = alanine_dipeptide(stride=stride)
    topology = mdtraj.Topology()
    chain = topology.add_chain()
    residues = {}
    for name, element, residue, number in zip(
        molecule.atom_names, molecule.elements, molecule.residue_names, molecule.residue_numbers, strict=True
    ):
        if number not in residues:
            residues[number] = topology.add_residue(residue, chain, resSeq=int(number))
        topology.add_atom(name, mdtraj.element.get_by_symbol(element), residues[number])
    atoms = list(topology.atoms)
    for left, right in molecule.bonds:
        topology.add_bond(atoms[left], atoms[right])
    trajectory = mdtraj.Trajectory(molecule.frames, topology, time=molecule.times)
    if box is not None:
        trajectory.unitcell_vectors = np.tile(box * np.eye(3), (len(trajectory), 1, 1))
    return trajectory


def write_all(folder: Path, stride: int = STRIDE) -> dict[str, Path]:
    """Write the trajectory in every format, and its topology as "top"."""
    trajectory = mdtraj_trajectory(stride)
    paths = {"top": folder / "top.pdb"}
    trajectory[0].save_pdb(str(paths["top"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for extension in FORMATS:
            paths[extension] = folder / f"traj.{extension}"
            trajectory.save(str(paths[extension]))
    return paths
