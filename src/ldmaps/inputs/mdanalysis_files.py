"""Files that MDAnalysis reads and mdtraj does not, behind the interface of mdtraj's own file objects."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, one_line
from ldmaps.inputs.formats import known_format
from ldmaps.inputs.frame_blocks import Block, block_of, import_mdtraj

#: Formats for which MDAnalysis needs another package.
_NEEDED = {"H5MD": "h5py", "TNG": "pytng"}


class MDAnalysisFile:
    """A trajectory file that is open: ``read``, ``seek``, ``len`` and ``close``, as of all files of frames."""

    def __init__(self, path: str, n_atoms: int) -> None:
        import_mdanalysis(path)
        needed = _NEEDED.get(known_format(path).name)
        if needed is not None and find_spec(needed) is None:
            remedy = f"pip install {needed}"
            raise InvalidInputError(f"{path} is read with {needed}, which is not installed; {remedy}")
        from MDAnalysis.coordinates.core import get_reader_for

        self._position = 0
        with _quietly():
            self._reader = get_reader_for(path)(path, n_atoms=n_atoms)

    def __len__(self) -> int:
        return len(self._reader)

    def seek(self, frame: int) -> None:
        """Go to a frame, counted from 0."""
        self._position = frame

    def read(self, n_frames: int, atoms: NDArray[np.intp] | None = None) -> Block:
        """Return the next frames."""
        chosen = slice(None) if atoms is None else atoms
        xyz, times, boxes = [], [], []
        for number in range(self._position, min(self._position + n_frames, len(self))):
            try:
                with _quietly():
                    step = self._reader[number]
            except Exception as error:  # readers raise errors of many kinds
                raise OSError(one_line(error)) from error
            xyz.append(step.positions[chosen].astype(np.float32))
            # Asked for its time, a step that knows none makes one up.
            times.append(step.data.get("time"))
            boxes.append(step.triclinic_dimensions)
        self._position += len(xyz)
        return block_of(xyz, None if None in times else times, boxes).in_nm()  # it counts in ångström

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


def mdanalysis_topology(path: str) -> Any:
    """Return the mdtraj topology of a file that MDAnalysis reads, so that selections mean the same everywhere."""
    mda = import_mdanalysis(path)
    md = import_mdtraj()
    with _quietly():
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
        topology.add_atom(str(name), _element(md, str(symbol)), made[atom.residue.ix])
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


def import_mdanalysis(path: str) -> ModuleType:
    """Return MDAnalysis, or raise with the command that installs it."""
    try:
        import MDAnalysis
    except ImportError as error:
        raise InvalidInputError(
            f"{path} is read with MDAnalysis, which cannot be imported ({error}); "
            "pip install MDAnalysis, or convert the file to xtc, dcd or pdb"
        ) from error
    return MDAnalysis  # type: ignore[no-any-return]


def _element(md: ModuleType, symbol: str) -> Any:
    try:
        return md.element.get_by_symbol(symbol.strip().capitalize())
    except KeyError:
        return md.element.virtual


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence MDAnalysis' remarks on what a file lacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
