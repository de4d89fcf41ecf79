"""Frames that mdtraj, MDAnalysis or a few lines read, behind one interface; of a PDB, one model in memory at a time."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps._lazy import needed
from ldmaps.errors import InvalidInputError, one_line
from ldmaps.inputs.formats import Format, known_format
from ldmaps.inputs.frame_blocks import Block, block_of, boxes_of

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
        with quietly():
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
                with quietly():
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


def import_mdanalysis(path: str) -> ModuleType:
    """Return MDAnalysis, or raise with the command that installs it."""
    remedy = "pip install MDAnalysis, or convert the file to xtc, dcd or pdb"
    return needed("MDAnalysis", f"{path} is read with MDAnalysis", remedy)


@contextmanager
def quietly() -> Iterator[None]:
    """Silence MDAnalysis' remarks on what a file lacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


#: Columns of the lengths and angles of a box.
_CRYST1 = ((6, 9), (15, 9), (24, 9), (33, 7), (40, 7), (47, 7))


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


class MdtrajFile:
    """A file that mdtraj has opened."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.seek, self.close = handle.seek, handle.close

    def __len__(self) -> int:
        return len(self._handle)

    def read(self, n_frames: int, atoms: NDArray[np.intp] | None = None) -> Block:
        """Return the next frames."""
        read = self._handle.read(n_frames=n_frames, atom_indices=atoms)
        if not len(read) or not len(read[0]):
            return block_of(np.empty((0, 1, 3)))
        times, lengths, angles = read[1:4]
        has_boxes = lengths is not None and angles is not None
        boxes = boxes_of(np.asarray(lengths), np.asarray(angles)) if has_boxes else None
        block = block_of(read[0], times, boxes)
        return block.in_nm() if self._handle.distance_unit == "angstroms" else block


@cache
def ascii_name(path: str, form: Format) -> str:
    """Return a name under which mdtraj can read a file: its reader of Desmond's takes ASCII names only."""
    if path.isascii() or form.name != "Desmond":
        return path
    # A link, which stays until the program ends: some readers open a file again.
    folder = tempfile.mkdtemp(prefix="ldmaps-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link = os.path.join(folder, "link" + form.suffixes[0])
    try:
        os.symlink(os.path.abspath(path), link)
    except OSError as error:
        raise InvalidInputError(
            f"mdtraj reads {form.name} files by ASCII names only, and {path} cannot be linked to one ({error}); rename "
            "the file or its folder"
        ) from error
    return link


def mol2_models(path: str) -> Iterator[NDArray[np.float32]]:
    """Yield coordinates in nm, (atoms, 3), of every molecule; raise where one has other atoms than the first."""
    first: list[str] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        sections = "\n".join(line.strip() for line in file).split("@<TRIPOS>")
    for number, atoms in enumerate(section for section in sections if section.startswith("ATOM\n")):
        rows = [line.split() for line in atoms.splitlines()[1:] if line and not line.startswith("#")]
        names = [row[1] for row in rows]
        first = first or names
        if names != first:
            raise InvalidInputError(
                f"molecule {number} of {path} (from 0) has other atoms than the first, {len(names)} and {len(first)}; "
                "frames are of one molecule: write a file for each kind"
            )
        yield np.array([row[2:5] for row in rows], dtype=np.float32) * np.float32(0.1)
