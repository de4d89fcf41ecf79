"""Atoms as topologies name them, and those of a model among them: in the same order, in another one, or others."""

from __future__ import annotations

import bz2
import gzip
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import dropwhile, groupby, islice, takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError, Named, one_line
from ldmaps.inputs.foreign_files import import_mdanalysis, quietly
from ldmaps.inputs.formats import format_of, is_mdanalysis_topology
from ldmaps.inputs.frame_blocks import import_mdtraj

#: Molecules of fewer atoms are not told apart by the names of residues.
FEW_ATOMS = 5
#: Hydrogens whose mass was raised for longer steps have up to 4 amu.
_HEAVIEST_HYDROGEN = 4.1
#: What unpacks a topology that neither mdtraj nor MDAnalysis reads packed.
_UNPACKERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
#: What sites that are no atoms are called, digits left out.
_VIRTUAL_SITES = {"M", "MW", "EP", "EPW", "LP", "OM", "VS", "MN", "MCH"}


@dataclass(frozen=True)
class Atoms:
    """What is known of the atoms of a source, in its order.

    Attributes
    ----------
    names : tuple of str
        As the topology spells them.
    labels : tuple of str
        Residue and atom, for messages: "ALA2-CB".
    masses : ndarray of shape (atoms,) or None
        In amu: of the file, else of the element; 0 for virtual sites, NaN for atoms of neither; None if none is known.
    elements : tuple of str or None
        Symbols ("C", "Cl"), empty for an atom that is of none; None where unknown.
    bonds : ndarray of shape (bonds, 2) or None
        Pairs of these atoms, by their places here; None where unknown.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    masses: NDArray[np.float64] | None
    elements: tuple[str, ...] | None = None
    bonds: NDArray[np.intp] | None = None

    def take(self, order: NDArray[np.intp]) -> Atoms:
        """Return these atoms, or some of them, in another ``order``, which says where each stands now."""
        return Atoms(
            tuple(self.names[place] for place in order),
            tuple(self.labels[place] for place in order),
            None if self.masses is None else self.masses[order],
            None if self.elements is None else tuple(self.elements[place] for place in order),
            None if self.bonds is None else bonds_among(self.bonds, order, len(self.names)),
        )


def bonds_among(bonds: NDArray[np.intp], chosen: NDArray[np.intp], n_atoms: int) -> NDArray[np.intp]:
    """Return the bonds between chosen atoms, by their places among the chosen."""
    place = np.full(n_atoms, -1, dtype=np.intp)
    place[chosen] = np.arange(len(chosen))
    pairs = place[bonds.reshape(-1, 2)]
    return np.asarray(pairs[(pairs >= 0).all(axis=1)])


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
        if form is None and path.lower().endswith(tuple(_UNPACKERS)):
            with _unpacked(path) as plain:
                return _parsed_topology(plain, md)
        return _parsed_topology(path, md)
    except InvalidInputError:
        raise
    except Exception as error:
        # mdtraj answers an unknown suffix with all those it knows, which is no message's length.
        why = "its name has no known suffix" if "filename extension" in str(error) else one_line(error, 160)
        raise InvalidInputError(
            f"{path} cannot be read as a topology ({why}); use PDB, GRO, PSF, prmtop, TPR or another that mdtraj or "
            "MDAnalysis knows, such as a PDB of the first frame"
        ) from error


def _parsed_topology(path: str, md: ModuleType) -> Any:
    """Return the topology in a file, by whichever package reads its format."""
    form = format_of(path)
    if is_mdanalysis_topology(path):
        return mdanalysis_topology(path)
    if form and form.reader == "models":
        return pdb_topology(path)
    if form and form.name == "HDF5":  # mdtraj knows only one of its suffixes here
        return md.load_frame(path, 0).topology
    topology = md.load_topology(path)
    topology.masses_of_file = _masses_in(path)
    return topology


@contextmanager
def _unpacked(path: str) -> Iterator[str]:
    """Unpack a topology that no package reads packed, such as .parm7.bz2, into a file that is gone afterwards."""
    plain, suffix = os.path.splitext(os.path.basename(path))
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, plain)
        with _UNPACKERS[suffix.lower()](path, "rb") as packed, open(copy, "wb") as out:
            shutil.copyfileobj(packed, out)
        yield copy


def pdb_topology(path: str) -> Any:
    """Return the mdtraj topology of the first model, with the bonds that stand behind the last one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "first.pdb"
        with open(path, encoding="utf-8", errors="replace") as lines, copy.open("w") as out:
            within = True
            for line in lines:
                if within or line.startswith("CONECT"):
                    out.write(line)
                within = within and not line.startswith("ENDMDL")
        with warnings.catch_warnings():
            # A cell that mdtraj finds unlikely, or an unknown element: it is only names and bonds that are wanted.
            warnings.simplefilter("ignore")
            return import_mdtraj().load_pdb(str(copy)).topology


def mdanalysis_topology(path: str) -> Any:
    """Return the mdtraj topology of a file that MDAnalysis reads, so that selections mean the same everywhere."""
    mda, md = import_mdanalysis(path), import_mdtraj()
    with quietly():
        universe = mda.Universe(path, to_guess=())  # whose masses are then those of the file
        masses = getattr(universe.atoms, "masses", None)
        if not hasattr(universe.atoms, "elements"):
            with suppress(Exception):  # a guess from names that mean nothing
                universe.guess_TopologyAttrs(to_guess=["elements"])
    topology = md.Topology()
    segments = {segment.ix: topology.add_chain() for segment in universe.segments}
    made = {}
    for residue in universe.residues:
        name = str(getattr(residue, "resname", "") or "UNK")
        made[residue.ix] = topology.add_residue(name, segments[residue.segment.ix], resSeq=int(residue.resid))
    symbols = getattr(universe.atoms, "elements", [""] * len(universe.atoms))
    names = getattr(universe.atoms, "names", getattr(universe.atoms, "types", symbols))
    for atom, name, symbol in zip(universe.atoms, names, symbols, strict=True):
        element = md.element.virtual
        with suppress(KeyError):
            element = md.element.get_by_symbol(str(symbol).strip().capitalize())
        topology.add_atom(str(name), element, made[atom.residue.ix])
    topology.masses_of_file = masses  # of which mdtraj knows nothing; see `atoms_of`
    if [atom.residue.resSeq for atom in topology.atoms] != universe.atoms.resids.tolist():
        # mdtraj counts atoms residue by residue; were those mixed, its order would not be that of the file.
        raise InvalidInputError(
            f"the atoms of a residue do not stand together in {path}; write the topology as PDB or GRO and use that"
        )
    bonds, atoms = universe.bonds.to_indices() if hasattr(universe, "bonds") else (), list(topology.atoms)
    for left, right in bonds:
        topology.add_bond(atoms[left], atoms[right])
    if not len(bonds):
        topology.create_standard_bonds()
    return topology


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
        behind = islice(begin, 2, None)  # its %FORMAT
        numbers = takewhile(lambda line: not line.startswith("%"), behind)
        return np.array([float(text) for line in numbers for text in line.split()])


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
    symbols = ("" if atom.element is None else atom.element.symbol for atom in atoms)
    elements = tuple(
        "" if symbol == "VS" else symbol for symbol in symbols
    )  # mdtraj's sites that are no atoms
    return Atoms(
        tuple(atom.name for atom in atoms),
        tuple(f"{atom.residue.name}{atom.residue.resSeq}-{atom.name}" for atom in atoms),
        masses,
        elements if any(elements) else None,
        # A topology without a single bond has forgotten them.
        None if bonds is None or not len(bonds) else bonds_among(bonds, indices, topology.n_atoms),
    )


def atom_indices(atoms: ArrayLike) -> NDArray[np.intp]:
    """Return indices that a user names atoms of a model by, in its order, or raise."""
    indices = np.asarray(atoms)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not len(indices) or indices.min() < 0:
        raise InvalidInputError(f"atoms must be indices from 0, one per atom of the model, got {atoms!r}")
    if len(np.unique(indices)) != len(indices):
        raise InvalidInputError("atoms holds an index twice; name each atom of the model once")
    return indices.astype(np.intp)


def atom_order(facts: Mapping[str, Any], atoms: Atoms, file: str, *, match: bool) -> NDArray[np.intp] | None:
    """Return where each atom of a model stands among others, None where they are in order already."""
    names = [name.upper() for name in facts["atom_names"]]
    labels = [label.upper() for label in facts.get("atom_labels") or ()]
    here, here_labels = [name.upper() for name in atoms.names], [label.upper() for label in atoms.labels]
    if labels == here_labels:
        return None
    # Labels ("ALA2-CB") that are the same, each once, give the order.
    if len(set(labels)) == len(labels) and set(labels) == set(here_labels):
        return _places(here_labels, labels)
    if names == here:  # a renumbered file
        _check_residues(facts, atoms, file)
        return None
    by_residue = _places_by_residue(labels, here_labels)
    if match and by_residue is not None:
        return by_residue
    place = next(place for place, (old, new) in enumerate(zip(names, here, strict=True)) if old != new)
    expected = (facts.get("atom_labels") or facts["atom_names"])[place]
    said = f"atom {place} of {file} is {atoms.labels[place]}, but {expected} in the frames the model was fitted on; "
    if by_residue is None:
        raise InvalidInputError(
            f"{said}choose the same atoms in the same order (if only the naming differs, pass the coordinates as an "
            "array, or --ignore-names)"
        )
    raise InvalidInputError(
        f"{said}the atoms of each residue are the same in another order: have them matched with ",
        Named("match_atoms", True),
    )


def _check_residues(facts: Mapping[str, Any], atoms: Atoms, file: str) -> None:
    """Raise where names agree, as those of Cα always do, but most residues are others: another protein."""
    ours, theirs = (
        [label.rpartition("-")[0].rstrip("0123456789").rstrip("-") for label in labels]
        for labels in (facts.get("atom_labels") or (), atoms.labels)
    )
    differing = [place for place, (old, new) in enumerate(zip(ours, theirs, strict=False)) if old != new]
    # A mutant is welcome, and so are other names for protonated residues or for a single molecule.
    if len(set(facts.get("atom_labels") or ())) < FEW_ATOMS or len(set(ours)) < 2:
        return
    if 2 * len(differing) > len(theirs):
        place = differing[0]
        raise InvalidInputError(
            f"{file} is of another molecule: {len(differing)} of its {len(theirs)} atoms are of other residues than in "
            f"the frames the model was fitted on (atom {place} is {atoms.labels[place]}, there "
            f"{facts['atom_labels'][place]}); if only the naming differs, pass the coordinates as an array, or "
            "--ignore-names"
        )


def _places(here: Sequence[str], wanted: Sequence[str]) -> NDArray[np.intp]:
    place = {label: number for number, label in enumerate(here)}
    return np.asarray([place[label] for label in wanted], dtype=np.intp)


def _places_by_residue(labels: Sequence[str], here: Sequence[str]) -> NDArray[np.intp] | None:
    """Match the first residue with the first and so on, atoms by name; None where that cannot be done."""
    ours, theirs = (
        # Cut where the residue changes, into atoms' names: [["N", "CA"], ["N"]].
        [[name for _, name in atoms] for _, atoms in groupby(cut, key=lambda pair: pair[0])]
        for cut in ([label.partition("-")[::2] for label in listed] for listed in (labels, here))
    )
    if len(ours) != len(theirs):
        return None
    order: list[NDArray[np.intp]] = []
    begin = 0
    for wanted, given in zip(ours, theirs, strict=True):
        if len(set(wanted)) < len(wanted) or sorted(wanted) != sorted(given):
            return None
        order.append(begin + _places(given, wanted))
        begin += len(given)
    return np.concatenate(order) if order else None
