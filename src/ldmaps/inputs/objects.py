"""mdtraj Trajectories and MDAnalysis Universes and AtomGroups as frame sources, without importing either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, one_line
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.inputs.selection import SelectedFrames, Selection, chosen_among, select_atoms
from ldmaps.inputs.source import FrameChunk, PointSource, Reading
from ldmaps.inputs.topology import Atoms, bonds_among, known_masses


def as_source(X: Any, reading: Reading | None = None) -> PointSource | None:
    """Return ``X`` as a source, or None when its kind is not known.

    It may be a PointSource, mdtraj Trajectory or list of them, or MDAnalysis Universe or AtomGroup; ``reading`` says
    what to read of it, unless it is a source already.
    """
    if isinstance(X, np.ndarray):
        return None
    if isinstance(X, PointSource):
        if reading is not None:
            raise InvalidInputError("this is a frame source already; give its settings where it is made")
        return X
    if is_atom_group(X):
        return AtomGroupFrames(X.atoms, reading or Reading())
    if _is_of(X, "mdtraj", "Trajectory"):
        return MDTrajObject([X], reading or Reading())
    if _is_of(X, "MDAnalysis", "ProtoReader", "ReaderBase", "FrameIteratorBase"):
        raise InvalidInputError(
            f"got an MDAnalysis {type(X).__name__}, which knows no atoms and reads every frame into the same memory; "
            "pass the atoms instead, and every n-th frame by stride: "
            "ldmaps.inputs.open(u.select_atoms('protein'), stride=10)"
        )
    if isinstance(X, (list, tuple)) and X:
        return _listed(X, reading)
    return None


def _listed(entries: Sequence[Any], reading: Reading | None) -> PointSource | None:
    """Return a list of trajectories as one source, None for a list of points; raise for other lists."""
    if _is_of(entries[0], "mdtraj", "Trajectory"):
        for entry in entries:
            if not _is_of(entry, "mdtraj", "Trajectory"):
                raise InvalidInputError(
                    f"a list of mdtraj Trajectories also holds a {type(entry).__name__}; pass data of one kind"
                )
        return MDTrajObject(entries, reading or Reading())
    if is_atom_group(entries[0]):
        raise InvalidInputError(
            f"got a list of {len(entries)} MDAnalysis objects; load the files into one Universe, "
            "Universe(topology, [file, file]), or open them by name with ldmaps.inputs.open([file, file], top=...)"
        )
    if not isinstance(entries[0], np.ndarray):
        return None
    shapes = [np.shape(entry) for entry in entries]
    if any(len(shape) > 2 for shape in shapes) or len(set(shapes)) > 1:
        shown = ", ".join(map(str, shapes[:4])) + (", ..." if len(shapes) > 4 else "")
        raise InvalidInputError(
            f"got a list of {len(entries)} arrays of shapes {shown}; join them into one array first: "
            "numpy.concatenate(arrays)"
        )
    places = {entry.__array_interface__["data"][0] for entry in entries if isinstance(entry, np.ndarray)}
    if len(entries) > 1 and len(shapes[0]) == 2 and entries[0].size and len(places) == 1:
        raise InvalidInputError(
            f"all {len(entries)} frames of the list are the same memory, so they all hold the last one: MDAnalysis, "
            "for one, reads every frame into the same array; copy each frame, "
            "[ts.positions.copy() for ts in u.trajectory], or pass the atoms, u.atoms"
        )
    return None


def is_atom_group(X: Any) -> bool:
    """Say whether an object is an MDAnalysis Universe or AtomGroup."""
    return _is_of(X, "MDAnalysis", "Universe", "AtomGroup")


def _is_of(X: Any, package: str, *names: str) -> bool:
    return any(
        kind.__module__.partition(".")[0] == package and kind.__name__ in names for kind in type(X).__mro__
    )


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
    whole = group.universe.atoms

    def labels_of(read: NDArray[np.intp]) -> Sequence[str]:
        return _group_atoms(whole[read]).labels or [f"atom {index}" for index in read]

    bonds = _group_bonds(group.universe)
    return group, chosen_among(len(whole), bonds, chosen, _group_atoms(group), labels_of, reading)


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
