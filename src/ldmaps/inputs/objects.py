"""mdtraj Trajectories and MDAnalysis Universes and AtomGroups as frame sources, without importing either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.source import (
    Atoms,
    FrameChunk,
    FrameSource,
    as_picoseconds,
    bonds_among,
    check_range,
    default_chunk,
)
from ldmaps.inputs.topology import Selection, check_periodic, select_atoms
from ldmaps.inputs.whole import Molecules

__all__ = ["AtomGroupFrames", "MDTrajObject", "as_source"]

#: MDAnalysis counts in ångström.
NM_PER_ANGSTROM = 0.1


def as_source(X: Any, **settings: Any) -> FrameSource | None:
    """Return ``X`` as a frame source, or None when it is none of the kinds known here.

    Parameters
    ----------
    X : object
        A FrameSource, mdtraj Trajectory, or MDAnalysis Universe or AtomGroup.
    **settings
        select, stride, start, stop, chunk and periodic of
        :func:`ldmaps.inputs.open`; not for what is a source already.
    """
    if isinstance(X, np.ndarray):
        return None
    if isinstance(X, FrameSource):
        if settings:
            raise InvalidInputError("this is a frame source already; give its settings where it is made")
        return X
    for kind in type(X).__mro__:
        package = kind.__module__.partition(".")[0]
        if package == "mdtraj" and kind.__name__ == "Trajectory":
            return MDTrajObject(X, **settings)
        if package == "MDAnalysis" and kind.__name__ in ("Universe", "AtomGroup"):
            return AtomGroupFrames(X.atoms, **settings)
    return None


class MDTrajObject(FrameSource):
    """The frames of an mdtraj Trajectory."""

    def __init__(
        self,
        trajectory: Any,
        *,
        select: str | None = None,
        stride: int = 1,
        start: int | None = None,
        stop: int | None = None,
        chunk: int | None = None,
        periodic: str = "whole",
    ) -> None:
        stride, first, last = check_range(stride, start, stop)
        self._rows = range(trajectory.n_frames)[first:last:stride]
        self._trajectory = trajectory
        self._selection: Selection = select_atoms(trajectory.topology, select, periodic, "the trajectory")
        self.select = select
        self.atoms: Atoms | None = self._selection.atoms
        self.n_atoms = len(self._selection.chosen)
        self._chunk = chunk or default_chunk(len(self._selection.read))

    @property
    def n_frames(self) -> int | None:
        """Number of frames."""
        return len(self._rows)

    def __iter__(self) -> Iterator[FrameChunk]:
        source, read = self._trajectory, self._selection.read
        boxes = source.unitcell_vectors
        for begin in range(0, len(self._rows), self._chunk):
            part = self._rows[begin : begin + self._chunk]
            rows = slice(part.start, part.stop, part.step)
            numbers = np.asarray(part, dtype=np.int64)
            xyz = np.asarray(source.xyz[rows], dtype=np.float32)
            if len(read) != xyz.shape[1]:
                xyz = xyz[:, read]
            box = None if boxes is None else np.asarray(boxes[rows], dtype=np.float64)
            frames = self._selection.take(xyz, box, numbers, "")
            yield FrameChunk(frames, numbers, as_picoseconds(source.time[rows]), "")


def selected_group(group: Any, select: str | None) -> Any:
    """Return the atoms of an MDAnalysis group that a selection in its language names, at least one."""
    if select is not None:
        try:
            group = group.select_atoms(select)
        except Exception as error:
            raise InvalidInputError(
                f"the selection {select!r} is not in MDAnalysis' selection language "
                f"({' '.join(str(error).split())[:120]})"
            ) from error
    if not len(group):
        raise InvalidInputError("the atom group is empty; choose other atoms")
    return group


class AtomGroupFrames(FrameSource):
    """The frames of an MDAnalysis AtomGroup, in nm."""

    def __init__(
        self,
        group: Any,
        *,
        select: str | None = None,
        stride: int = 1,
        start: int | None = None,
        stop: int | None = None,
        chunk: int | None = None,
        periodic: str = "whole",
    ) -> None:
        self._stride, self._start, self._stop = check_range(stride, start, stop)
        group = selected_group(group, select)
        self.select = select
        self.n_atoms = len(group)
        self.atoms: Atoms | None = _group_atoms(group)
        self._group, self._places, self._molecules = group, None, None
        if check_periodic(periodic) == "whole":
            self._group, self._places, self._molecules = _group_molecules(group)
        self._trajectory = group.universe.trajectory
        name = getattr(self._trajectory, "filename", None)
        self.files = (str(name),) if name else ()
        self._chunk = chunk or default_chunk(len(self._group))

    @property
    def n_frames(self) -> int | None:
        """Number of frames, or None for a live stream."""
        try:
            length = len(self._trajectory)
        except Exception:  # live readers raise errors of several kinds
            return None
        return len(range(length)[self._start : self._stop : self._stride])

    def __iter__(self) -> Iterator[FrameChunk]:
        present = self._trajectory.frame
        live = self.n_frames is None
        steps = self._trajectory if live else self._trajectory[self._start : self._stop : self._stride]
        rows: list[tuple[NDArray[Any], int, float, Any]] = []
        try:
            for step in steps:
                if live and (step.frame < self._start or (step.frame - self._start) % self._stride):
                    continue
                if live and self._stop is not None and step.frame >= self._stop:
                    break
                box = step.triclinic_dimensions
                positions = NM_PER_ANGSTROM * self._group.positions
                rows.append((positions, int(step.frame), float(step.time), box))
                if len(rows) == self._chunk:
                    yield self._packed(rows)
                    rows = []
            if rows:
                yield self._packed(rows)
        finally:
            if not live:
                self._trajectory[present]  # where its owner left it

    def _packed(self, rows: list[tuple[NDArray[Any], int, float, Any]]) -> FrameChunk:
        if len({len(row[0]) for row in rows}) > 1:
            raise InvalidInputError(
                "the atom group changes its number of atoms over time; use a selection that is not updating"
            )
        frames = np.stack([row[0] for row in rows]).astype(np.float32)
        numbers = np.asarray([row[1] for row in rows], dtype=np.int64)
        file = self.files[0] if self.files else ""
        if self._molecules is not None and all(row[3] is not None for row in rows):
            box = NM_PER_ANGSTROM * np.asarray([row[3] for row in rows], dtype=np.float64)
            frames = self._molecules.make_whole(frames, box, numbers, file or "the trajectory")
        if self._places is not None:
            frames = np.ascontiguousarray(frames[:, self._places])
        return FrameChunk(frames, numbers, as_picoseconds([row[2] for row in rows]), file)


def _group_atoms(group: Any) -> Atoms | None:
    names = _attribute(group, "names")
    if names is None:
        return None
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
        None if masses is None else np.asarray(masses, dtype=np.float64),
        elements if any(elements) else None,
        bonds_among(bonds, group.indices, len(group.universe.atoms)) if len(bonds) else None,
    )


def _group_bonds(universe: Any) -> NDArray[np.intp]:
    """Return all bonds of a universe, (0, 2) if it knows none."""
    bonds = _attribute(universe, "bonds")
    if bonds is None or not len(bonds):
        return np.empty((0, 2), dtype=np.intp)
    return np.asarray(bonds.to_indices(), dtype=np.intp)


def _group_molecules(group: Any) -> tuple[Any, NDArray[np.intp] | None, Molecules]:
    """Return the group with the rest of its molecules, where it stands in there, and the molecules."""
    fragments = _attribute(group, "fragments")
    whole = group if fragments is None else sum(fragments[1:], fragments[0])
    n_atoms = len(whole.universe.atoms)
    bonds = bonds_among(_group_bonds(whole.universe), whole.indices, n_atoms)
    atoms = _group_atoms(whole)
    labels = atoms.labels if atoms else tuple(f"atom {index}" for index in whole.indices)
    if len(whole) == len(group) and (whole.indices == group.indices).all():
        return whole, None, Molecules(len(whole), bonds, labels)
    places = np.full(n_atoms, -1, dtype=np.intp)
    places[whole.indices] = np.arange(len(whole))
    return whole, places[group.indices], Molecules(len(whole), bonds, labels)


def _attribute(group: Any, name: str) -> Any:
    try:
        return getattr(group, name)
    except Exception:  # NoDataError, of a package that must not be imported here
        return None
