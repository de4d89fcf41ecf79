"""PDB files, one model in memory at a time: mdtraj parses all of them at once."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.frame_blocks import boxes_of, import_mdtraj

#: Columns of the lengths and angles of a box.
_CRYST1 = ((6, 9), (15, 9), (24, 9), (33, 7), (40, 7), (47, 7))


def pdb_topology(path: str) -> Any:
    """Return the mdtraj topology of the first model, with the bonds that stand behind the last one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "first.pdb"
        with copy.open("w") as out:
            within = True
            for line in _lines(path):
                if within or line.startswith("CONECT"):
                    out.write(line)
                within = within and not line.startswith("ENDMDL")
        with warnings.catch_warnings():
            # A cell that mdtraj finds unlikely, or an unknown element: it is only names and bonds that are wanted.
            warnings.simplefilter("ignore")
            return import_mdtraj().load_pdb(str(copy)).topology


def pdb_models(path: str, n_atoms: int) -> Iterator[NDArray[np.float32]]:
    """Yield the coordinates of each model in nm."""
    for number, atoms in enumerate(_models(path)):
        if len(atoms) != n_atoms:
            raise InvalidInputError(
                f"{path}: model {number} has {len(atoms)} atoms, but the topology has {n_atoms}; is the file cut off?"
            )
        try:
            values = np.asarray([(text[:8], text[8:16], text[16:24]) for text in atoms]).astype(np.float32)
        except ValueError as error:
            fault = f"{path}: model {number} has a coordinate that is not a number ({error})"
            raise InvalidInputError(fault) from error
        yield values * np.float32(0.1)


def pdb_atom_count(path: str) -> int:
    """Return the number of atoms of the first model."""
    return len(next(_models(path), ()))


def pdb_box(path: str) -> NDArray[np.float64] | None:
    """Return the lattice vectors (3, 3) in nm, or None where there is no box."""
    for line in _lines(path):
        if line.startswith("CRYST1"):
            try:
                values = [float(line[begin : begin + width]) for begin, width in _CRYST1]
            except ValueError:
                return None
            # 1 × 1 × 1 Å is how "no box" is written.
            if all(length <= 1.0 for length in values[:3]):
                return None
            return np.asarray(0.1 * boxes_of(np.asarray([values[:3]]), np.asarray([values[3:]]))[0])
        if line.startswith(("ATOM  ", "HETATM", "MODEL")):
            return None
    return None


def _models(path: str) -> Iterator[list[str]]:
    """Yield the texts that hold each model's coordinates."""
    atoms: list[str] = []
    for line in _lines(path):
        if line.startswith(("ATOM  ", "HETATM")):
            if line[16] in " A1":  # of alternative locations the first counts, as in mdtraj
                atoms.append(line[30:54])
        elif line.startswith("ENDMDL"):
            yield atoms
            atoms = []
    if atoms:
        yield atoms


def _lines(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8", errors="replace") as lines:
        yield from lines
