"""The FrameSource seam: molecular frames in chunks, in nanometres, with numbers, times and file names.

    files (mdtraj) ─┐
    mdtraj object  ─┼─► FrameSource ──iterate──► FrameChunk ──► fit, transform, the command line
    MDAnalysis     ─┘

Units and periodic images are dealt with in a source and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.progress import stage
from ldmaps.settings import is_whole_number

__all__ = ["Atoms", "FrameChunk", "FrameSource", "check_frames_finite", "check_same_atoms"]

#: A chunk holds about this many bytes of coordinates, and no more frames than MAX_CHUNK.
CHUNK_BYTES = 4 << 20
MAX_CHUNK = 4096


@dataclass(frozen=True)
class FrameChunk:
    """Consecutive frames of one file.

    Attributes
    ----------
    frames : ndarray of shape (n, atoms, 3), float32
        Coordinates in nm (for tables of numbers, points of shape (n, features)).
    numbers : ndarray of shape (n,)
        Which frames of the file these are, counted from 0.
    times : ndarray of shape (n,) or None
        Simulated time in ps, where the file tells.
    file : str
        Name of the file; empty for data in memory.
    """

    frames: NDArray[Any]
    numbers: NDArray[np.int64]
    times: NDArray[np.float64] | None
    file: str

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True)
class Atoms:
    """What is known of the atoms of a source, in its order.

    Attributes
    ----------
    names : tuple of str
        As the topology spells them.
    labels : tuple of str
        Residue and atom, for people: "ALA2-CB".
    masses : ndarray of shape (atoms,) or None
        In amu; 0 for virtual sites.
    elements : tuple of str or None
        Symbols ("C", "Cl"), empty for an atom that is of none; None where nobody told.
    bonds : ndarray of shape (bonds, 2) or None
        Pairs of these atoms, by their places here; None where nobody told.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    masses: NDArray[np.float64] | None
    elements: tuple[str, ...] | None = None
    bonds: NDArray[np.intp] | None = None


class FrameSource(ABC):
    """Frames of one molecular system, in chunks; may be iterated again unless it is a live stream.

    Attributes
    ----------
    n_atoms : int
        Atoms in every frame, after selection.
    atoms : Atoms or None
        Their names, if anybody told.
    select : str or None
        The selection that chose them.
    files : tuple of str
        Where the frames come from.
    """

    #: Unit of the coordinates of every source.
    units: ClassVar[str] = "nm"
    #: Whether another thread may do the reading.
    reads_ahead: ClassVar[bool] = False

    n_atoms: int
    atoms: Atoms | None = None
    select: str | None = None
    files: tuple[str, ...] = ()

    @property
    def n_frames(self) -> int | None:
        """Number of frames to come, or None if only reading will tell."""
        return None

    @abstractmethod
    def __iter__(self) -> Iterator[FrameChunk]:
        """Read the frames from the beginning."""

    def read(self) -> FrameChunk:
        """Read all frames into memory; numbers and times are those within each file."""
        parts = []
        with stage("reading", unit="frames") as reading:
            for part in self:
                parts.append(part)
                reading.advance(len(part))
        if not parts:
            raise InvalidInputError(
                f"there are no frames in {self.describe()}; check start, stop and the files"
            )
        times = [part.times for part in parts]
        known = [part for part in times if part is not None]
        return FrameChunk(
            np.concatenate([part.frames for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            np.concatenate(known) if len(known) == len(times) else None,
            self.files[0] if len(self.files) == 1 else "",
        )

    def describe(self) -> str:
        """Return a few words for messages."""
        if not self.files:
            return "the trajectory"
        return self.files[0] if len(self.files) == 1 else f"{self.files[0]} and {len(self.files) - 1} more"

    def facts(self) -> dict[str, Any]:
        """Return what a model remembers of the frames it was fitted on: JSON values only."""
        elements = None if self.atoms is None else self.atoms.elements
        bonds = None if self.atoms is None else self.atoms.bonds
        return {
            "kind": "frames",
            "units": self.units,
            "n_atoms": self.n_atoms,
            "atom_names": None if self.atoms is None else list(self.atoms.names),
            "atom_labels": None if self.atoms is None else list(self.atoms.labels),
            "elements": None if elements is None else list(elements),
            "bonds": None if bonds is None else bonds.tolist(),
            "select": self.select,
            "files": list(self.files),
        }


def bonds_among(bonds: NDArray[np.intp], chosen: NDArray[np.intp], n_atoms: int) -> NDArray[np.intp]:
    """Return the bonds between chosen atoms, by their places among the chosen.

    >>> bonds_among(np.array([[0, 1], [1, 2], [2, 4]]), np.array([4, 2, 1]), 5).tolist()
    [[2, 1], [1, 0]]
    """
    place = np.full(n_atoms, -1, dtype=np.intp)
    place[chosen] = np.arange(len(chosen))
    pairs = place[bonds.reshape(-1, 2)]
    return np.asarray(pairs[(pairs >= 0).all(axis=1)])


def check_same_atoms(facts: Mapping[str, Any] | None, source: FrameSource) -> None:
    """Raise when a source's atoms are not those that a model was fitted on.

    Parameters
    ----------
    facts : mapping or None
        ``model.source_``; None checks nothing.
    """
    if not facts or facts.get("kind") != "frames":
        return
    wanted = facts["n_atoms"]
    chosen = f" (selected by {facts['select']!r})" if facts.get("select") else ""
    if source.n_atoms != wanted:
        raise InvalidInputError(
            f"the model was fitted on {wanted} atoms{chosen}, but {source.describe()} gives {source.n_atoms}; "
            "choose the same atoms with select"
        )
    names = facts.get("atom_names")
    if names is None or source.atoms is None:
        return
    for place, (old, new) in enumerate(zip(names, source.atoms.names, strict=True)):
        if old.upper() != new.upper():
            labels = facts.get("atom_labels") or names
            raise InvalidInputError(
                f"atom {place} of {source.describe()} is {source.atoms.labels[place]}, but {labels[place]} in the "
                "frames the model was fitted on; choose the same atoms in the same order "
                "(if only the naming differs, pass the coordinates as an array, or --ignore-names)"
            )


def check_frames_finite(chunk: FrameChunk) -> None:
    """Raise, naming file and frame, when a chunk holds NaN or infinite values."""
    finite = np.isfinite(chunk.frames)
    if finite.all():
        return
    bad = np.argwhere(~finite)
    row, *place = (int(index) for index in bad[0])
    if chunk.frames.ndim == 3:
        where = f"frame {int(chunk.numbers[row])} (atom {place[0]})"
    else:
        where = f"row {int(chunk.numbers[row])} (column {place[0] + 1})"
    count = int(np.count_nonzero(~finite.reshape(len(finite), -1).all(axis=1)))
    raise InvalidInputError(
        f"{chunk.file or 'the data'}: {where} holds NaN or an infinite value "
        f"({count} of {len(chunk)} here do); remove or repair those"
    )


def as_picoseconds(times: ArrayLike) -> NDArray[np.float64]:
    """Return a file's times rounded to 1 fs: files keep them in float32, where 100 is read as 100.0000076."""
    rounded: NDArray[np.float64] = np.asarray(times, dtype=np.float64).round(3)
    return rounded


def default_chunk(n_atoms: int) -> int:
    """Return how many frames of so many atoms make a chunk."""
    return max(1, min(MAX_CHUNK, CHUNK_BYTES // (12 * max(1, n_atoms))))


def check_range(stride: int, start: int | None, stop: int | None) -> tuple[int, int, int | None]:
    """Return stride, start and stop as plain numbers, or raise."""
    for name, value, lowest in (("stride", stride, 1), ("start", start, 0), ("stop", stop, 0)):
        if value is not None and not (is_whole_number(value) and value >= lowest):
            raise InvalidInputError(f"{name} must be a whole number of at least {lowest}, got {value!r}")
    first = 0 if start is None else int(start)
    if stop is not None and stop <= first:
        raise InvalidInputError(
            f"stop={stop} leaves no frame after start={first}; stop is the first frame not read"
        )
    return int(stride), first, None if stop is None else int(stop)
