"""Which atoms of a topology are meant, and which must be read along to make their molecules whole."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from copy import copy
from itertools import dropwhile, islice, takewhile
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named, one_line
from ldmaps.inputs.atom_order import Atoms, bonds_among
from ldmaps.inputs.formats import format_of, is_mdanalysis_topology
from ldmaps.inputs.frame_blocks import Block, import_mdtraj
from ldmaps.inputs.mdanalysis_files import mdanalysis_topology
from ldmaps.inputs.pdb_models import pdb_topology
from ldmaps.inputs.source import FrameChunk, FrameSource, Reading, default_chunk
from ldmaps.inputs.whole import Molecules, molecules_of

#: Hydrogens whose mass was raised for longer steps have up to 4 amu.
_HEAVIEST_HYDROGEN = 4.1
#: What sites that are no atoms are called, digits left out.
_VIRTUAL_SITES = {"M", "MW", "EP", "EPW", "LP", "OM", "VS", "MN", "MCH"}


class Selection(NamedTuple):
    """Atoms chosen from a topology."""

    chosen: NDArray[np.intp]  # the selected atoms
    read: NDArray[np.intp]  # they and the rest of their molecules, sorted
    #: Where the selected ones stand among those read; None where these are the same in the same order
    places: NDArray[np.intp] | None
    molecules: Molecules | None  # of the atoms read; None takes coordinates as they are
    atoms: Atoms  # of those chosen

    def ordered(self, order: NDArray[np.intp]) -> Selection:
        """Return the same atoms in another order."""
        places = np.arange(len(self.chosen)) if self.places is None else self.places
        return self._replace(chosen=self.chosen[order], places=places[order], atoms=self.atoms.take(order))

    def read_or_none(self, n_atoms: int) -> NDArray[np.intp] | None:
        """Return the atoms to read, or None for all: readers are faster without indices."""
        return None if len(self.read) == n_atoms else self.read

    def chunk(self, block: Block, numbers: NDArray[np.int64], file: str) -> FrameChunk:
        """Make molecules whole in frames of the atoms read, and return the chosen ones."""
        xyz, times, boxes = block
        if self.molecules is not None:
            xyz = self.molecules.make_whole(xyz, boxes, numbers, file or "the trajectory")
        chosen = xyz if self.places is None else np.ascontiguousarray(xyz[:, self.places])
        return FrameChunk(chosen, numbers, times, file)


class SelectedFrames(FrameSource):
    """Frames of selected atoms, in chunks."""

    def __init__(self, selection: Selection, reading: Reading) -> None:
        self._selection, self._reading = selection, reading
        self.select = reading.select
        self.atoms: Atoms | None = selection.atoms if selection.atoms.names else None
        self.n_atoms = len(selection.chosen)
        self._chunk = int(reading.chunk or default_chunk(len(selection.read)))

    def facts(self) -> dict[str, Any]:
        """Return what a model remembers, with the atoms' places in the whole topology."""
        return {**super().facts(), "atom_indices": self._selection.chosen.tolist()}

    def reordered(self, order: NDArray[np.intp]) -> SelectedFrames:
        """Return the same frames with their atoms in another order."""
        ordered = copy(self)
        ordered._selection = self._selection.ordered(order)
        ordered.atoms = ordered._selection.atoms
        return ordered


def load_topology(top: Any, first_file: str) -> Any:
    """Return an mdtraj topology; in those that are read, selections by element find the hydrogens."""
    md = import_mdtraj()
    if isinstance(top, md.Topology):
        return top
    if isinstance(top, md.Trajectory):
        return top.topology
    topology = _read_topology(top, first_file, md)
    masses = getattr(topology, "masses_of_file", None)
    for atom in topology.atoms:
        if atom.element in (None, md.element.virtual):
            # Ligands' files often name no elements. Only hydrogens are told by a mass or a name: beads are no atoms.
            is_light = atom.name.lstrip("0123456789")[:1].upper() == "H"
            if masses is not None:
                is_light = 0 < masses[atom.index] < _HEAVIEST_HYDROGEN
            atom.element = md.element.hydrogen if is_light else md.element.virtual
    return topology


def _read_topology(top: Any, first_file: str, md: ModuleType) -> Any:
    path = first_file if top is None else os.fspath(top)
    form = format_of(path)
    if top is None and not (form and form.has_topology):
        raise InvalidInputError(
            f"{first_file} holds coordinates only, without atom names: give a topology of the same atoms with ",
            Named("top", "top.pdb"),
        )
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no topology file {path!r}; check the path")
    try:
        if is_mdanalysis_topology(path):
            return mdanalysis_topology(path)
        if form and form.reader == "models":
            return pdb_topology(path)
        if form and form.name == "HDF5":  # mdtraj knows only one of its suffixes here
            return md.load_frame(path, 0).topology
        topology = md.load_topology(path)
        topology.masses_of_file = _masses_in(path)
        return topology
    except InvalidInputError:
        raise
    except Exception as error:
        # mdtraj answers an unknown suffix with all those it knows, which is no message's length.
        why = "its name has no known suffix" if "filename extension" in str(error) else one_line(error, 160)
        raise InvalidInputError(
            f"{path} cannot be read as a topology ({why}); use PDB, GRO, PSF, prmtop, TPR or another that mdtraj or "
            "MDAnalysis knows, such as a PDB of the first frame"
        ) from error


def _masses_in(path: str) -> NDArray[np.float64] | None:
    """Return the masses in a PSF or prmtop, of which mdtraj takes none; None for other files."""
    lower = path.lower()
    if not lower.endswith((".psf", ".prmtop", ".parm7", ".prm7")):
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = iter(file)
        if lower.endswith(".psf"):
            n_atoms = next(int(line.split()[0]) for line in lines if "!NATOM" in line)
            return np.array([float(line.split()[7]) for line in islice(lines, n_atoms)])
        begin = dropwhile(lambda line: not line.startswith("%FLAG MASS"), lines)
        numbers = takewhile(
            lambda line: not line.startswith("%"), islice(begin, 2, None)
        )  # behind its %FORMAT
        return np.array([float(text) for line in numbers for text in line.split()])


def select_atoms(topology: Any, reading: Reading, name: str) -> Selection:
    """Choose atoms of an mdtraj topology in its selection language; ``name`` is what messages call it."""
    select = reading.select
    n_atoms = topology.n_atoms
    if select is None:
        chosen = np.arange(n_atoms)
    else:
        try:
            chosen = np.asarray(topology.select(select), dtype=np.intp)
        except Exception as error:
            raise InvalidInputError(
                f"the selection {select!r} is not in mdtraj's selection language ({one_line(error, 120)}); "
                'write, for example, "protein and not element H" or "name CA and resid 10 to 60"'
            ) from error
        if not len(chosen):
            residues = sorted({residue.name for residue in topology.residues})
            shown = ", ".join(residues[:8]) + (", ..." if len(residues) > 8 else "")
            raise InvalidInputError(
                f"the selection {select!r} matches none of the {n_atoms} atoms of {name} "
                f"(residues there: {shown}); choose other atoms"
            )
    bonds = np.asarray([(left.index, right.index) for left, right in topology.bonds], dtype=np.intp).reshape(
        -1, 2
    )
    atoms = atoms_of(topology, chosen, bonds)
    return chosen_among(n_atoms, bonds, chosen, atoms, lambda read: atoms_of(topology, read).labels, reading)


def chosen_among(
    n_atoms: int,
    bonds: NDArray[np.intp],
    chosen: NDArray[np.intp],
    atoms: Atoms,
    labels_of: Callable[[NDArray[np.intp]], Sequence[str]],
    reading: Reading,
) -> Selection:
    """Return atoms chosen of all, with the rest of their molecules where those are to be made whole."""
    read, molecules = np.unique(chosen), None
    if reading.periodic == "whole":
        molecule = molecules_of(n_atoms, bonds)[1]
        read = np.flatnonzero(np.isin(molecule, molecule[chosen]))
        molecules = Molecules(len(read), bonds_among(bonds, read, n_atoms), labels_of(read))
    places = None if np.array_equal(read, chosen) else np.searchsorted(read, chosen)
    return Selection(chosen, read, places, molecules, atoms)


def known_masses(
    names: Sequence[str],
    by_element: Sequence[float] | NDArray[Any],
    of_file: NDArray[np.float64] | None = None,
    places: NDArray[np.intp] | None = None,
) -> NDArray[np.float64] | None:
    """Return masses of the file, else of elements, NaN for atoms with neither; None where none is known."""
    masses = np.array(by_element if of_file is None else of_file[places], dtype=np.float64)
    # Without an element mdtraj, MDAnalysis and others say 0, which only sites without a mass have.
    for place in np.flatnonzero(~(masses > 0)).tolist():
        is_site = names[place].upper().lstrip("0123456789").rstrip("0123456789") in _VIRTUAL_SITES
        masses[place] = 0.0 if is_site else by_element[place] if by_element[place] > 0 else math.nan
    return None if np.isnan(masses).all() else masses


def atoms_of(topology: Any, indices: NDArray[np.intp], bonds: NDArray[np.intp] | None = None) -> Atoms:
    """Return what an mdtraj topology knows about some atoms; ``bonds`` are those of the whole topology."""
    atoms = [topology.atom(int(index)) for index in indices]
    masses = known_masses(
        [atom.name for atom in atoms],
        [math.nan if atom.element is None else atom.element.mass for atom in atoms],
        getattr(topology, "masses_of_file", None),
        indices,
    )
    symbols = tuple("" if atom.element is None else atom.element.symbol for atom in atoms)
    # mdtraj calls a site that is no atom "VS".
    elements = tuple("" if symbol == "VS" else symbol for symbol in symbols)
    return Atoms(
        tuple(atom.name for atom in atoms),
        tuple(f"{atom.residue.name}{atom.residue.resSeq}-{atom.name}" for atom in atoms),
        masses,
        elements if any(elements) else None,
        # A topology without a single bond has forgotten them.
        None if bonds is None or not len(bonds) else bonds_among(bonds, indices, topology.n_atoms),
    )
