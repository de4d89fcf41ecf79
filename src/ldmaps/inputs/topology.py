"""Which atoms of a topology are meant, and which must be read along to make their molecules whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.source import Atoms, bonds_among
from ldmaps.inputs.whole import Molecules

__all__ = ["Selection", "atoms_of", "check_periodic", "select_atoms"]


class Selection(NamedTuple):
    """Atoms chosen from a topology.

    Attributes
    ----------
    chosen : ndarray of int
        The selected atoms.
    read : ndarray of int
        They and the rest of their molecules, sorted.
    places : ndarray of int
        Where the selected ones stand among those read.
    molecules : Molecules or None
        Of the atoms read; None takes coordinates as they stand.
    atoms : Atoms
        Of those chosen.
    """

    chosen: NDArray[np.intp]
    read: NDArray[np.intp]
    places: NDArray[np.intp]
    molecules: Molecules | None
    atoms: Atoms

    def read_or_none(self, n_atoms: int) -> NDArray[np.intp] | None:
        """Return the atoms to read, or None for all: readers are faster without indices."""
        return None if len(self.read) == n_atoms else self.read

    def take(
        self, xyz: NDArray[np.float32], box: NDArray[np.float64] | None, numbers: NDArray[np.int64], file: str
    ) -> NDArray[np.float32]:
        """Make molecules whole in frames of the atoms read, and return the chosen ones."""
        if self.molecules is not None and box is not None:
            xyz = self.molecules.make_whole(xyz, box, numbers, file or "the trajectory")
        if len(self.places) == xyz.shape[1]:
            return xyz
        return np.ascontiguousarray(xyz[:, self.places])


def check_periodic(periodic: str) -> str:
    """Return the setting, or raise."""
    if periodic not in ("whole", "keep"):
        raise InvalidInputError(
            f'periodic must be "whole" (join molecules that the box cut apart) or "keep", got {periodic!r}'
        )
    return periodic


def select_atoms(topology: Any, select: str | None, periodic: str, told: str) -> Selection:
    """Choose atoms of an mdtraj topology in its selection language.

    Parameters
    ----------
    told : str
        What to call the topology in messages.
    """
    check_periodic(periodic)
    n_atoms = topology.n_atoms
    if select is None:
        chosen = np.arange(n_atoms)
    else:
        try:
            chosen = np.asarray(topology.select(select), dtype=np.intp)
        except Exception as error:
            text = " ".join(str(error).split())[:120]
            raise InvalidInputError(
                f"the selection {select!r} is not in mdtraj's selection language ({text}); "
                'write, for example, "protein and not element H" or "name CA and resid 10 to 60"'
            ) from error
        if not len(chosen):
            residues = sorted({residue.name for residue in topology.residues})
            shown = ", ".join(residues[:8]) + (", ..." if len(residues) > 8 else "")
            raise InvalidInputError(
                f"the selection {select!r} matches none of the {n_atoms} atoms of {told} "
                f"(residues there: {shown}); choose other atoms"
            )
    bonds = np.asarray([(left.index, right.index) for left, right in topology.bonds], dtype=np.intp).reshape(
        -1, 2
    )
    atoms = atoms_of(topology, chosen, bonds)
    if periodic == "keep":
        return Selection(chosen, chosen, np.arange(len(chosen)), None, atoms)
    read = _with_molecules(n_atoms, bonds, chosen)
    places = np.searchsorted(read, chosen)
    labels = atoms_of(topology, read).labels
    return Selection(
        chosen, read, places, Molecules(len(read), bonds_among(bonds, read, n_atoms), labels), atoms
    )


def _with_molecules(n_atoms: int, bonds: NDArray[np.intp], chosen: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the chosen atoms and all that hang on them, sorted."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(bonds)), (bonds[:, 0], bonds[:, 1])), shape=(n_atoms, n_atoms))
    component = connected_components(graph, directed=False)[1]
    return np.flatnonzero(np.isin(component, component[chosen]))


def atoms_of(topology: Any, indices: NDArray[np.intp], bonds: NDArray[np.intp] | None = None) -> Atoms:
    """Return what an mdtraj topology tells of some atoms; ``bonds`` are those of the whole topology."""
    atoms = [topology.atom(int(index)) for index in indices]
    masses = [None if atom.element is None else atom.element.mass for atom in atoms]
    known = not any(mass is None for mass in masses)
    symbols = tuple("" if atom.element is None else atom.element.symbol for atom in atoms)
    # mdtraj calls a site that is no atom "VS".
    elements = tuple("" if symbol == "VS" else symbol for symbol in symbols)
    return Atoms(
        tuple(atom.name for atom in atoms),
        tuple(f"{atom.residue.name}{atom.residue.resSeq}-{atom.name}" for atom in atoms),
        np.asarray(masses, dtype=np.float64) if known else None,
        elements if any(elements) else None,
        # A topology without a single bond has forgotten them.
        None if bonds is None or not len(bonds) else bonds_among(bonds, indices, topology.n_atoms),
    )
