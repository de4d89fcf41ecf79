"""Atoms that are selected, and how molecules that a periodic box has split are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named, one_line
from ldmaps.inputs.frame_blocks import Block
from ldmaps.inputs.source import FrameChunk, FrameSource, Reading, default_chunk
from ldmaps.inputs.topology import Atoms, atoms_of, bonds_among

Frames = NDArray[np.float32]
Boxes = NDArray[np.float64]
Numbers = NDArray[np.int64]
KEEP_HINT = (
    "or use the coordinates as they are: open the trajectory with ",
    Named("periodic", "keep", "ldmaps.inputs.open_files"),
)
#: Two molecules whose centres are this far apart, in box lengths, could as well be shown in another image.
AMBIGUOUS = 0.45


def molecules_of(n_atoms: int, bonds: NDArray[np.intp]) -> tuple[int, NDArray[np.intp]]:
    """Return how many molecules atoms make up, and which one each belongs to, numbered by their first atoms."""
    # Without scipy.sparse, the import of which takes longer than reading many a file.
    own = np.arange(n_atoms)
    first, (left, right) = own.copy(), bonds.reshape(-1, 2).T
    while (first[left] != first[right]).any():
        ends = first[left], first[right]
        np.minimum.at(first, np.maximum(*ends), np.minimum(*ends))
        while (first[first] != first).any():
            first = first[first]
    is_first = first == own
    return int(is_first.sum()), (np.cumsum(is_first) - 1)[first]


def _levels(n_atoms: int, bonds: NDArray[np.intp], roots: list[int]) -> tuple[list[list[int]], list[int]]:
    """Return the atoms 1, 2, … bonds below roots, one list each, and the atom above each, −1 for roots."""
    bonded: list[list[int]] = [[] for _ in range(n_atoms)]
    for left, right in bonds.tolist():
        bonded[left].append(right)
        bonded[right].append(left)
    above, is_found, levels = [-1] * n_atoms, [False] * n_atoms, [roots]
    for root in roots:
        is_found[root] = True
    while levels[-1]:
        below = []
        for atom in levels[-1]:
            for other in bonded[atom]:
                if not is_found[other]:
                    is_found[other] = True
                    above[other] = atom
                    below.append(other)
        levels.append(below)
    return levels[1:-1], above


class Molecules:
    """Which atoms belong to one molecule; joins those that a periodic box has split."""

    # A bond is short, so the lattice shift of each is decided by itself from the coordinates as they stand; the sum
    # along a tree of bonds then moves every atom at once.

    def __init__(self, n_atoms: int, bonds: NDArray[np.intp], labels: Sequence[str]) -> None:
        self.labels = labels
        self.n_atoms = n_atoms
        self.n_molecules, self.component = molecules_of(n_atoms, bonds)
        roots = np.empty(self.n_molecules, dtype=np.intp)
        roots[self.component[::-1]] = np.arange(n_atoms)[::-1]  # the first atom of each comes last
        levels, above = _levels(n_atoms, bonds.reshape(-1, 2), roots.tolist())
        self._children = np.array([atom for level in levels for atom in level], dtype=np.intp)
        self._parents = np.array(above, dtype=np.intp)[self._children]
        # Bonds of one depth depend only on those before, so a depth is moved in one stroke.
        self._levels = np.cumsum([0, *map(len, levels)])
        in_tree = set(zip(*np.sort([self._parents, self._children], axis=0).tolist(), strict=True))
        rings = [pair for pair in bonds.tolist() if tuple(sorted(pair)) not in in_tree]
        self._rings = np.asarray(rings, dtype=np.intp).reshape(-1, 2)
        self._sizes = np.bincount(self.component, minlength=self.n_molecules)

    def make_whole(self, frames: Frames, box: Boxes, numbers: Numbers, file: str) -> Frames:
        """Return frames in which every molecule is in one piece, and all in one another's nearest image."""
        if self.n_atoms < 2:
            return frames
        periodic = np.abs(np.linalg.det(box)) > 0
        if not periodic.all():
            if periodic.any():
                frames = frames.copy()
                frames[periodic] = self.make_whole(frames[periodic], box[periodic], numbers[periodic], file)
            return frames
        if not len(self._children):
            self._refuse_if_cut(frames, box, numbers, file)
            return frames
        shortest = float(np.linalg.norm(box, axis=2).min(initial=np.inf))
        steps = frames[:, self._children] - frames[:, self._parents]
        # A cut bond spans a lattice vector less its own length, so none is cut where all are this short.
        broken = np.einsum("nbi,nbi->nb", steps, steps).max(axis=1) > (0.5 * shortest) ** 2
        if broken.any():
            frames = frames.copy()
            frames[broken] = self._joined(frames[broken], steps[broken], box[broken], numbers[broken], file)
        if self.n_molecules > 1:
            frames = self._gathered(frames, box, numbers, file)
        return frames

    def _joined(self, frames: Frames, steps: Frames, box: Boxes, numbers: Numbers, file: str) -> Frames:
        inverse = np.linalg.inv(box)
        turns = -np.rint(steps @ inverse)
        shifts = np.zeros(frames.shape)
        for begin, end in zip(self._levels[:-1], self._levels[1:], strict=True):
            shifts[:, self._children[begin:end]] = shifts[:, self._parents[begin:end]] + turns[:, begin:end]
        joined = frames + shifts @ box
        if len(self._rings):
            closing = (joined[:, self._rings[:, 0]] - joined[:, self._rings[:, 1]]) @ inverse
            if (np.abs(closing) > 0.5).any():
                bad = int(numbers[np.argmax((np.abs(closing) > 0.5).any(axis=(1, 2)))])
                raise InvalidInputError(
                    f"{file}: in frame {bad} a molecule is bonded to its own periodic image and cannot be made whole; "
                    f"choose other atoms, ",
                    *KEEP_HINT,
                )
        return np.asarray(joined, dtype=np.float32)

    def _gathered(self, frames: Frames, box: Boxes, numbers: Numbers, file: str) -> Frames:
        """Move every molecule to the image nearest to the largest one."""
        anchor = int(np.argmax(self._sizes))
        order = np.argsort(self.component, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        centres = np.add.reduceat(frames[:, order], starts, axis=1, dtype=np.float64) / self._sizes[:, None]
        apart = (centres - centres[:, [anchor]]) @ np.linalg.inv(box)
        turns = np.rint(apart)
        left = np.abs(apart - turns).max(axis=2)
        if (left > AMBIGUOUS).any():
            row, molecule = np.argwhere(left > AMBIGUOUS)[0]
            first = self.labels[int(np.argmax(self.component == molecule))]
            other = self.labels[int(np.argmax(self.component == anchor))]
            raise InvalidInputError(
                f"{file}: in frame {int(numbers[row])} the nearest periodic image is ambiguous for the molecules of "
                f"{first} and {other}, which are about half a box apart; select atoms of one molecule or of a bound "
                "complex, ",
                *KEEP_HINT,
            )
        moved = turns.any(axis=(1, 2))
        if moved.any():
            frames = frames.copy()
            frames[moved] -= (turns[moved] @ box[moved])[:, self.component].astype(np.float32)
        return frames

    def _refuse_if_cut(self, frames: Frames, box: Boxes, numbers: Numbers, file: str) -> None:
        """Without bonds nothing can be repaired; raise where the atoms spread over more than half the box."""
        fractions = frames @ np.linalg.inv(box)
        spread = np.ptp(fractions, axis=1).max(axis=1)
        if (spread > 0.5).any():
            raise InvalidInputError(
                f"{file}: in frame {int(numbers[np.argmax(spread > 0.5)])} the atoms spread over more than half of the "
                "periodic box, so molecules may be split, and the topology has no bonds to join them by; give a "
                "topology with bonds (PDB with CONECT, PSF, prmtop), make the molecules whole first "
                f"(gmx trjconv -pbc mol), ",
                *KEEP_HINT,
            )


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


def select_atoms(topology: Any, reading: Reading, name: str) -> Selection:
    """Choose atoms of an mdtraj topology in its selection language; ``name`` is what messages call it."""
    select, n_atoms = reading.select, topology.n_atoms
    try:
        chosen = np.arange(n_atoms) if select is None else np.asarray(topology.select(select), dtype=np.intp)
    except Exception as error:
        raise InvalidInputError(
            f"the selection {select!r} is not in mdtraj's selection language ({one_line(error, 120)}); "
            'write, for example, "protein and not element H" or "name CA and resid 10 to 60"'
        ) from error
    if select is not None and not len(chosen):
        residues = sorted({residue.name for residue in topology.residues})
        shown = ", ".join(residues[:8]) + (", ..." if len(residues) > 8 else "")
        raise InvalidInputError(
            f"the selection {select!r} matches none of the {n_atoms} atoms of {name} "
            f"(residues there: {shown}); choose other atoms"
        )
    return selection_of(topology, chosen, reading)


def selection_of(topology: Any, chosen: NDArray[np.intp], reading: Reading) -> Selection:
    """Return atoms of an mdtraj topology that are chosen by their indices."""
    bonds = bonds_of(topology)
    atoms = atoms_of(topology, chosen, bonds)
    return chosen_among(
        topology.n_atoms, bonds, chosen, atoms, lambda read: atoms_of(topology, read).labels, reading
    )


def bonds_of(topology: Any) -> NDArray[np.intp]:
    """Return the bonds of an mdtraj topology, (n, 2)."""
    pairs = [(left.index, right.index) for left, right in topology.bonds]
    return np.asarray(pairs, dtype=np.intp).reshape(-1, 2)


def chosen_among(
    n_atoms: int,
    bonds: NDArray[np.intp],
    chosen: NDArray[np.intp],
    atoms: Atoms,
    labels_of: Callable[[NDArray[np.intp]], Sequence[str]],
    reading: Reading,
) -> Selection:
    """Return atoms chosen of all, with the rest of their molecules where those are to be made whole."""
    is_chosen = np.zeros(n_atoms, dtype=bool)
    is_chosen[chosen] = True
    read, molecules = np.flatnonzero(is_chosen), None
    if reading.periodic == "whole":
        count, molecule = molecules_of(n_atoms, bonds)
        has_chosen = np.zeros(count, dtype=bool)
        has_chosen[molecule[chosen]] = True
        read = np.flatnonzero(has_chosen[molecule])
        molecules = Molecules(len(read), bonds_among(bonds, read, n_atoms), labels_of(read))
    places = None if np.array_equal(read, chosen) else np.searchsorted(read, chosen)
    return Selection(chosen, read, places, molecules, atoms)
