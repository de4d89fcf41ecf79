"""Frames of mdtraj Trajectories and of MDAnalysis AtomGroups, without importing either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, one_line
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.inputs.selection import SelectedFrames, Selection, chosen_among, select_atoms
from ldmaps.inputs.source import FrameChunk, FrameSource, Reading
from ldmaps.inputs.topology import Atoms, bonds_among, known_masses


class MDTrajObject(SelectedFrames):
    """The frames of one mdtraj Trajectory, or of several of the same atoms."""

    def __init__(self, trajectories: Sequence[Any], reading: Reading) -> None:
        first = trajectories[0]
        super().__init__(select_atoms(first.topology, reading, "the trajectory"), reading)
        names = [atom.name for atom in first.topology.atoms]
        for number, other in enumerate(trajectories):
            if other is not first and [atom.name for atom in other.topology.atoms] != names:
                raise InvalidInputError(
                    f"trajectory {number} of the list has {other.n_atoms} atoms, and they are not those of the first "
                    f"({first.n_atoms}) in the same order; choose the same atoms with atom_slice"
                )
        self._trajectories = tuple(trajectories)
        if len(self._trajectories) > 1:
            self.files = tuple(f"trajectory {number}" for number in range(len(self._trajectories)))

    @property
    def n_frames(self) -> int | None:
        """Number of frames."""
        return sum(len(self._reading.of(one.n_frames)) for one in self._trajectories)

    def __iter__(self) -> Iterator[FrameChunk]:
        for source, file in zip(self._trajectories, self.files or ("",), strict=True):
            wanted = np.asarray(self._reading.of(source.n_frames), dtype=np.int64)
            read, boxes = self._selection.read_or_none(source.n_atoms), source.unitcell_vectors
            for begin in range(0, len(wanted), self._chunk):
                rows = wanted[begin : begin + self._chunk]
                xyz = source.xyz[rows] if read is None else source.xyz[rows][:, read]
                block = block_of(xyz, source.time[rows], None if boxes is None else boxes[rows])
                yield self._selection.chunk(block, rows, file)


class AtomGroupFrames(SelectedFrames):
    """The frames of an MDAnalysis AtomGroup, in nm."""

    def __init__(self, group: Any, reading: Reading) -> None:
        self._group, selection = select_group(group, reading)
        super().__init__(selection, reading)
        self._read = self._group.universe.atoms[selection.read]
        self._trajectory = self._group.universe.trajectory
        name = getattr(self._trajectory, "filename", None)
        self.files = (str(name),) if name else ()

    @property
    def n_frames(self) -> int | None:
        """Number of frames, or None for a live stream."""
        try:
            length = len(self._trajectory)
        except Exception:  # live readers raise errors of several kinds
            return None
        return len(self._reading.of(length))

    def __iter__(self) -> Iterator[FrameChunk]:
        present, live = self._trajectory.frame, self.n_frames is None
        wanted = self._reading.first, self._reading.stop, self._reading.stride
        rows: list[tuple[NDArray[Any], int, float, Any]] = []
        try:
            for step in islice(self._trajectory, *wanted) if live else self._trajectory[slice(*wanted)]:
                if len(self._group) != self.n_atoms:
                    raise InvalidInputError(
                        "the atom group changes its number of atoms over time; use a selection that is not updating"
                    )
                at = int(step.frame), float(step.time)
                rows.append((self._read.positions, *at, step.triclinic_dimensions))
                if len(rows) == self._chunk:
                    yield self._packed(rows)
                    rows = []
            if rows:
                yield self._packed(rows)
        finally:
            if not live:
                self._trajectory[present]  # where its owner left it

    def _packed(self, rows: list[tuple[NDArray[Any], int, float, Any]]) -> FrameChunk:
        positions, steps, times, boxes = zip(*rows, strict=True)
        block = block_of(positions, times, boxes).in_nm()  # MDAnalysis counts in ångström
        return self._selection.chunk(block, np.asarray(steps, dtype=np.int64), "".join(self.files))


class SeveralGroups(FrameSource):
    """The frames of several MDAnalysis AtomGroups of the same atoms, one group after another, in nm."""

    def __init__(self, groups: Sequence[FrameSource]) -> None:
        first = groups[0]
        self.n_atoms, self.atoms, self.select = first.n_atoms, first.atoms, first.select
        self.files = tuple(file for group in groups for file in group.files)
        self._groups = tuple(groups)

    @classmethod
    def of(cls, entries: Sequence[Any], reading: Reading) -> SeveralGroups:
        """Open universes or groups; atoms of each are put into the order of the first one's by residue and name."""
        groups = [AtomGroupFrames(entry.atoms, reading) for entry in entries]
        for number, group in enumerate(groups):
            group.files = (f"atom group {number}",)  # those of one universe are of the same file
        return cls([groups[0], *(group.matched(groups[0].facts()) for group in groups[1:])])

    @property
    def n_frames(self) -> int | None:
        """Number of frames, or None where a group's is unknown."""
        counts = [group.n_frames for group in self._groups]
        return None if None in counts else sum(filter(None, counts))

    def matched(self, facts: Mapping[str, Any] | None, *, match_atoms: bool = False) -> SeveralGroups:
        """See :meth:`PointSource.matched`."""
        return SeveralGroups([group.matched(facts, match_atoms=match_atoms) for group in self._groups])

    def __iter__(self) -> Iterator[FrameChunk]:
        for group in self._groups:
            yield from group


def select_group(group: Any, reading: Reading) -> tuple[Any, Selection]:
    """Choose atoms of an MDAnalysis group in its selection language; return the group of them, too."""
    # The names of the selection's atoms are empty where the universe knows none.
    if reading.select is not None:
        try:
            group = group.select_atoms(reading.select)
        except Exception as error:
            fault = f"the selection {reading.select!r} is not in MDAnalysis' selection language"
            raise InvalidInputError(f"{fault} ({one_line(error, 120)})") from error
    if not len(group):
        raise InvalidInputError("the atom group is empty; choose other atoms")
    chosen = np.asarray(group.indices, dtype=np.intp)
    all_atoms = group.universe.atoms

    def labels_of(read: NDArray[np.intp]) -> Sequence[str]:
        return _group_atoms(all_atoms[read]).labels or [f"atom {index}" for index in read]

    bonds = _group_bonds(group.universe)
    return group, chosen_among(len(all_atoms), bonds, chosen, _group_atoms(group), labels_of, reading)


def _group_atoms(group: Any) -> Atoms:
    names = _attribute(group, "names")
    if names is None:
        return Atoms((), (), None)
    residues, numbers = _attribute(group, "resnames"), _attribute(group, "resids")
    if residues is None or numbers is None:
        labels = tuple(map(str, names))
    else:
        labels = tuple(f"{r}{n}-{name}" for r, n, name in zip(residues, numbers, names, strict=True))
    masses, symbols = _attribute(group, "masses"), _attribute(group, "elements")
    elements = () if symbols is None else tuple(str(symbol).strip().capitalize() for symbol in symbols)
    bonds = _group_bonds(group.universe)
    return Atoms(
        tuple(map(str, names)),
        labels,
        None if masses is None else known_masses(names, np.asarray(masses, dtype=np.float64)),
        elements if any(elements) else None,
        bonds_among(bonds, group.indices, len(group.universe.atoms)) if len(bonds) else None,
    )


def _group_bonds(universe: Any) -> NDArray[np.intp]:
    """Return all bonds of a universe, (0, 2) if it knows none."""
    bonds = _attribute(universe, "bonds")
    if bonds is None or not len(bonds):
        return np.empty((0, 2), dtype=np.intp)
    return np.asarray(bonds.to_indices(), dtype=np.intp)


def _attribute(group: Any, name: str) -> Any:
    try:
        return getattr(group, name)
    except Exception:  # NoDataError, of a package that must not be imported here
        return None
