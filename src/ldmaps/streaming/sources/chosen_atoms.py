"""Which atoms of streamed frames are the model's, and how their frames are made ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.frame_blocks import Block
from ldmaps.inputs.objects import select_group
from ldmaps.inputs.opening import is_atom_group
from ldmaps.inputs.selection import SelectedFrames, Selection, select_atoms
from ldmaps.inputs.source import FrameChunk, Reading
from ldmaps.inputs.topology import Atoms, load_topology
from ldmaps.point_faults import wrong_width
from ldmaps.streaming.records import Rejected


class ChosenAtoms(SelectedFrames):
    """The atoms of a stream that are to be embedded."""

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
        known = model_facts or {}
        facts = known if known.get("kind") == "frames" else None
        reading = Reading(select if select is not None else (facts or {}).get("select"), periodic=periodic)
        if top is not None:
            selection, self.n_stream_atoms = _selected(name, top, reading)
        else:
            self.n_stream_atoms = _untold(name, reading.select, known, n_atoms)
            every = np.arange(self.n_stream_atoms)
            selection = Selection(every, every, None, None, Atoms((), (), None))
        super().__init__(selection, reading)
        self.files = (name,)
        self.periodic = periodic
        self.can_repair = (
            selection.molecules is not None
        )  # whether molecules that the box has split are joined
        # Atoms to read of every frame, None for all, and how many these are.
        self.to_read, self.n_to_read = selection.read_or_none(self.n_stream_atoms), len(selection.read)
        self._any_good = False
        order = self.order_for(facts)
        if order is not None:
            super().__init__(selection.ordered(order), reading)
        width, frames = known.get("n_features"), bool(known.get("takes_frames"))
        fault = None if width is None else wrong_width((self.n_atoms, 3), width, takes_frames=frames)
        if fault is not None:
            raise InvalidInputError(
                f"{name} has {fault}; choose the atoms that the map was fitted on with ", Named("select")
            )

    def __iter__(self) -> Iterator[FrameChunk]:
        return iter(())

    def check_count(self, n_atoms: int) -> None:
        """Raise when the stream's frames have another number of atoms."""
        if n_atoms != self.n_stream_atoms:
            raise InvalidInputError(
                f"{self.describe()} has {n_atoms} atoms per frame, but {self.n_stream_atoms} were expected; give the "
                "topology that belongs to it with ",
                Named("top", "top.pdb"),
            )

    def take(
        self, block: Block, numbers: NDArray[np.int64]
    ) -> tuple[FrameChunk, NDArray[np.bool_], tuple[Rejected, ...]]:
        """Return the chosen atoms of frames, which these are, and the rest; raise if none was ever good."""
        good, rejected = np.ones(len(numbers), dtype=bool), list[Rejected]()
        try:
            chunk = self._selection.chunk(block, numbers, self.describe())
        except InvalidInputError:
            # One frame that cannot be made whole must not take its neighbours along.
            for row, number in enumerate(numbers.tolist()):
                part = slice(row, row + 1)
                try:
                    self._selection.chunk(block.take(part), numbers[part], self.describe())
                except InvalidInputError as error:
                    good[row] = False
                    rejected.append(Rejected(number, str(error)))
            if not good.any() and not self._any_good:
                raise
            chunk = self._selection.chunk(block.take(good), numbers[good], self.describe())
        self._any_good = self._any_good or bool(good.any())
        return chunk, good, tuple(rejected)


def _untold(name: str, select: str | None, facts: Mapping[str, Any], n_atoms: int | None) -> int:
    """Return how many atoms a stream without topology has."""
    if select not in (None, "all"):
        raise InvalidInputError(
            f"{name}: to choose the atoms {select!r} give a topology of the stream's atoms with ",
            Named("top", "top.pdb"),
            "; if the stream has just those atoms, pass ",
            Named("select", "all"),
        )
    count = n_atoms if n_atoms is not None else facts.get("n_atoms")
    if count is None and facts.get("takes_frames") and facts.get("n_features"):
        count = facts["n_features"] // 3
    if count is None:
        raise InvalidInputError(
            f"{name}: how many atoms a frame has is not known; give a topology with ", Named("top", "top.pdb")
        )
    return int(count)


def _selected(name: str, top: Any, reading: Reading) -> tuple[Selection, int]:
    """Return the selection and how many atoms the stream has."""
    if is_atom_group(top):
        group, selection = select_group(top.atoms, reading)
        return selection, len(group.universe.atoms)
    topology = load_topology(top, name)
    called = top if isinstance(top, str) else "the topology"
    return select_atoms(topology, reading, called), topology.n_atoms
