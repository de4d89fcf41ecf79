"""Which atoms of streamed frames are the model's, and how their frames are made ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.source import Atoms, FrameChunk, FrameSource, check_same_atoms
from ldmaps.inputs.topology import Selection, check_periodic, select_atoms
from ldmaps.streaming.records import Rejected

__all__ = ["ChosenAtoms"]


class ChosenAtoms(FrameSource):
    """The atoms of a stream that are to be embedded; holds no frames itself.

    Parameters
    ----------
    name : str
        Of the stream, for messages.
    top : path, mdtraj Topology, MDAnalysis Universe or AtomGroup, or None
        Names the atoms of the stream. Without it all of them are taken as they stand.
    select : str, optional
        In mdtraj's language (MDAnalysis' for its objects); the model's own by default.
    model_facts : mapping, optional
        ``model.source_``: its selection is used, and its atoms are compared. Models that
        were fitted on arrays know no more than ``"n_features"``.
    periodic : {"whole", "keep"}
        As in :func:`ldmaps.inputs.open`.
    n_atoms : int, optional
        Atoms of the stream, where there is no topology; the model's by default.
    """

    def __init__(
        self,
        name: str,
        *,
        top: Any = None,
        select: str | None = None,
        model_facts: Mapping[str, Any] | None = None,
        periodic: str = "whole",
        n_atoms: int | None = None,
    ) -> None:
        facts = model_facts if model_facts and model_facts.get("kind") == "frames" else None
        self.files = (name,)
        self.periodic = check_periodic(periodic)
        self.select = select if select is not None else (facts or {}).get("select")
        self._selection: Selection | None = None
        self._any_good = False
        if top is not None:
            self._selection, self.n_stream_atoms = _selected(name, top, self.select, periodic)
            self.atoms: Atoms | None = self._selection.atoms if self._selection.atoms.names else None
            self.n_atoms = len(self._selection.chosen)
        else:
            self.n_stream_atoms = self.n_atoms = self._untold(name, model_facts or {}, n_atoms)
        check_same_atoms(facts, self)
        width = (model_facts or {}).get("n_features")
        if width is not None and width != 3 * self.n_atoms:
            raise InvalidInputError(
                f"the map takes points of {width} numbers, but {name} gives {self.n_atoms} atoms; choose the atoms "
                "that the map was fitted on with select"
            )

    def _untold(self, name: str, facts: Mapping[str, Any], n_atoms: int | None) -> int:
        if self.select not in (None, "all"):
            raise InvalidInputError(
                f"{name}: to choose the atoms {self.select!r} give a topology of the stream's atoms with top=... "
                "(-t top.pdb); if the stream has just those atoms, pass select='all'"
            )
        count = n_atoms if n_atoms is not None else facts.get("n_atoms")
        if count is None and facts.get("takes_frames") and facts.get("n_features"):
            count = facts["n_features"] // 3
        if count is None:
            raise InvalidInputError(
                f"{name}: how many atoms a frame has is not known; give a topology with top=... (-t top.pdb)"
            )
        return int(count)

    def __iter__(self) -> Iterator[FrameChunk]:
        return iter(())

    @property
    def can_repair(self) -> bool:
        """Whether molecules that the box cut apart are joined."""
        return self._selection is not None and self._selection.molecules is not None

    @property
    def to_read(self) -> NDArray[np.intp] | None:
        """Atoms to read of every frame; None for all."""
        return None if self._selection is None else self._selection.read_or_none(self.n_stream_atoms)

    @property
    def n_to_read(self) -> int:
        """How many atoms these are."""
        return self.n_stream_atoms if self._selection is None else len(self._selection.read)

    def check_count(self, n_atoms: int) -> None:
        """Raise when the stream's frames have another number of atoms."""
        if n_atoms != self.n_stream_atoms:
            raise InvalidInputError(
                f"{self.describe()} has {n_atoms} atoms a frame, but {self.n_stream_atoms} were expected; give the "
                "topology that belongs to it with top=... (-t top.pdb)"
            )

    def take(
        self, xyz: NDArray[np.float32], box: NDArray[np.float64] | None, numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], tuple[Rejected, ...]]:
        """Return the chosen atoms of frames of those to read, which frames these are, and the others.

        Raises when not one frame of the stream could be used so far: then it is the
        settings that are wrong.
        """
        frames, good, rejected = self._taken(xyz, box, numbers)
        if rejected and not good.any() and not self._any_good:
            raise InvalidInputError(rejected[0].reason)
        self._any_good = self._any_good or bool(good.any())
        return frames, good, rejected

    def _taken(
        self, xyz: NDArray[np.float32], box: NDArray[np.float64] | None, numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], tuple[Rejected, ...]]:
        good = np.ones(len(xyz), dtype=bool)
        if self._selection is None:
            return xyz, good, ()
        name = self.describe()
        try:
            return self._selection.take(xyz, box, numbers, name), good, ()
        except InvalidInputError as error:
            # One frame that cannot be made whole must not take its neighbours along.
            if len(xyz) == 1:
                good[0] = False
                return _none(self.n_atoms), good, (Rejected(int(numbers[0]), str(error)),)
        parts = [
            self._taken(
                xyz[row : row + 1], None if box is None else box[row : row + 1], numbers[row : row + 1]
            )
            for row in range(len(xyz))
        ]
        return (
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
            tuple(rejected for part in parts for rejected in part[2]),
        )


def _none(n_atoms: int) -> NDArray[np.float32]:
    return np.empty((0, n_atoms, 3), dtype=np.float32)


def _selected(name: str, top: Any, select: str | None, periodic: str) -> tuple[Selection, int]:
    if any(kind.__module__.partition(".")[0] == "MDAnalysis" for kind in type(top).__mro__):
        return _of_group(top.atoms, select, periodic)
    from ldmaps.inputs.mdtraj_files import _load_topology, import_mdtraj

    topology = _load_topology(import_mdtraj(), top, name)
    told = str(top) if isinstance(top, str) else "the topology"
    return select_atoms(topology, select, periodic, told), topology.n_atoms


def _of_group(group: Any, select: str | None, periodic: str) -> tuple[Selection, int]:
    from ldmaps.inputs.objects import _group_atoms, _group_molecules, selected_group

    total = len(group.universe.atoms)
    group = selected_group(group, select)
    chosen = np.asarray(group.indices, dtype=np.intp)
    atoms = _group_atoms(group) or Atoms((), (), None)
    if periodic == "keep":
        return Selection(chosen, chosen, np.arange(len(chosen)), None, atoms), total
    whole, places, molecules = _group_molecules(group)
    if places is None:
        places = np.arange(len(chosen))
    return Selection(chosen, np.asarray(whole.indices, dtype=np.intp), places, molecules, atoms), total
