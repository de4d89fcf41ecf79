"""The PointSource seam: points in chunks, with their numbers, times and file. Only sources handle units and images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import AtomOrderWarning, InvalidInputError, Named
from ldmaps.files import shown_name
from ldmaps.inputs.topology import Atoms, atom_order
from ldmaps.point_faults import not_finite, wrong_width
from ldmaps.progress import is_shown, stage
from ldmaps.settings import check_whole
from ldmaps.user_warnings import warn

if TYPE_CHECKING:
    from ldmaps.inputs.weights import WeightTable

#: A chunk holds about this many bytes, and no more frames of a trajectory than MAX_CHUNK.
CHUNK_BYTES = 4 << 20
MAX_CHUNK = 4096


@dataclass(frozen=True)
class FrameChunk:
    """Consecutive points of one file, or all points of a source.

    Attributes
    ----------
    frames : ndarray of shape (n, atoms, 3) or (n, features)
        Coordinates in nm, float32; or rows of a table.
    numbers : ndarray of shape (n,)
        Which frames or rows of their file these are, counted from 0.
    times : ndarray of shape (n,) or None
        Where the file has them: simulated time in ps of frames, seconds of rows of a table, those of dates since 1970.
    file : str
        Name of the file; empty for data in memory, or for all points of several files.
    files : ndarray of int, shape (n,) or None
        Of all points of several files: which of the source's files each is from.
    weights : ndarray of shape (n,) or None
        Of all points of a source that was opened with weights: theirs.
    """

    frames: NDArray[Any]
    numbers: NDArray[np.int64]
    times: NDArray[np.float64] | None
    file: str
    files: NDArray[np.int32] | None = None
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.frames)

    def take(self, rows: slice | NDArray[Any]) -> FrameChunk:
        """Return some of the points: ``rows`` is a slice, or an array of int or bool."""
        parts = {name: part[rows] for name, part in vars(self).items() if isinstance(part, np.ndarray)}
        return replace(self, **parts)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Reading:
    """Which frames or rows to read, of which atoms; the arguments of :func:`ldmaps.inputs.open_files`."""

    select: str | None = None
    stride: int = 1
    start: int | None = None
    stop: int | None = None
    chunk: int | None = None
    periodic: str = "whole"

    def __post_init__(self) -> None:
        for name, lowest in (("stride", 1), ("start", 0), ("stop", 0), ("chunk", 1)):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), lowest)
        if self.stop is not None and self.stop <= self.first:
            both = Named("stop", self.stop), " leaves no frame after ", Named("start", self.first)
            raise InvalidInputError(*both, "; stop is the first frame not read")
        if self.periodic not in ("whole", "keep"):
            rule = (
                f' must be "whole" (join molecules that the box has split) or "keep", got {self.periodic!r}'
            )
            raise InvalidInputError(Named("periodic"), rule)

    @property
    def first(self) -> int:
        """The first frame of each file."""
        return int(self.start or 0)

    def of(self, length: int) -> range:
        """Return the numbers of the frames to read of a file of so many."""
        return range(length)[self.first : self.stop : self.stride]

    def among(self, begin: int, count: int) -> slice:
        """Return which of ``count`` frames from number ``begin`` on are to be read."""
        first = max(self.first - begin, (self.first - begin) % self.stride)
        stop = count if self.stop is None else min(count, max(0, self.stop - begin))
        return slice(first, stop, self.stride)


class PointSource(ABC):
    """Points in chunks; may be iterated again unless it is a live stream.

    ``files`` says where the points come from (every chunk's ``file`` is one of them), ``weights`` gives :meth:`read`
    the weights of the points.
    """

    units: ClassVar[str | None] = None  # of the coordinates, if it is known
    item: ClassVar[str] = "rows"  # what a point is called in messages
    reads_ahead: bool = False  # whether another thread may do the reading
    in_pieces: bool = True  # whether points can be read without those before them, as workers do

    files: tuple[str, ...] = ()
    time_column: str | None = None  # of a table, the one that holds the rows' times
    weights: WeightTable | None = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of a point: (features,) or (atoms, 3)."""

    @property
    def n_frames(self) -> int | None:
        """Number of points to come, or None if it is unknown before reading."""
        return None

    @abstractmethod
    def __iter__(self) -> Iterator[FrameChunk]:
        """Read the points from the beginning."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what a model remembers of the points it was fitted on: JSON values only."""

    def matched(self, facts: Mapping[str, Any] | None, *, match_atoms: bool = False) -> PointSource:
        """Return the source, or one that puts its atoms into a model's order; raise when they mean something else.

        ``facts`` is ``model.source_``, None checks nothing; ``match_atoms`` as in :func:`ldmaps.inputs.open_files`.
        """
        return self

    @property
    def remarks(self) -> list[str]:
        """What a user should know of how points were read: columns that were found out, rows that were left out."""
        return []

    def read(self) -> FrameChunk:
        """Read all points into memory; raise where one holds NaN or an infinite value."""
        parts: list[FrameChunk] = []
        with stage("reading", self.n_frames if is_shown() else None, self.item) as reading:
            for part in self:
                check_frames_finite(part)
                parts.append(part)
                reading.advance(len(part))
        if not parts:
            raise InvalidInputError(
                f"there are no frames in {self.describe()}; check start, stop and the files"
            )
        points = joined_chunks(parts)
        if len(self.files) > 1:
            places = [np.full(len(part), self.files.index(part.file), np.int32) for part in parts]
            points = replace(points, file="", files=_joined(places))
        return self._weighed(points)

    def _weighed(self, points: FrameChunk) -> FrameChunk:
        """Return all points of the source with their weights, if it was opened with some."""
        if self.weights is None:
            return points
        return replace(points, weights=self.weights.of(points, self.files))

    def describe(self) -> str:
        """Return a few words for messages."""
        if not self.files:
            return "the trajectory"
        return self.files[0] if len(self.files) == 1 else f"{self.files[0]} and {len(self.files) - 1} more"


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def joined_chunks(parts: Sequence[FrameChunk]) -> FrameChunk:
    """Return chunks as one, of the file that the first is of; times that not all have are dropped."""
    times = [part.times for part in parts if part.times is not None]
    return FrameChunk(
        _joined([part.frames for part in parts]),
        _joined([part.numbers for part in parts]),
        _joined(times) if len(times) == len(parts) else None,
        parts[0].file,
    )


class FrameSource(PointSource):
    """Frames of one molecular system: ``n_atoms`` in each after selection by ``select``, and what is known of them."""

    units: ClassVar[str | None] = "nm"
    item: ClassVar[str] = "frames"

    n_atoms: int
    atoms: Atoms | None = None
    select: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(atoms, 3)."""
        return self.n_atoms, 3

    def facts(self) -> dict[str, Any]:
        """Return what a model remembers of the frames it was fitted on."""
        known = self.atoms
        return {
            "kind": "frames",
            "units": self.units,
            "n_atoms": self.n_atoms,
            "atom_names": known and list(known.names),
            "atom_labels": known and list(known.labels),
            "elements": None if known is None or known.elements is None else list(known.elements),
            "bonds": None if known is None or known.bonds is None else known.bonds.tolist(),
            "select": self.select,
            "files": [shown_name(name) for name in self.files],
        }

    def matched(self, facts: Mapping[str, Any] | None, *, match_atoms: bool = False) -> FrameSource:
        """See :meth:`PointSource.matched`."""
        order = self.order_for(facts, match_atoms=match_atoms)
        return self if order is None else self.reordered(order)

    def reordered(self, order: NDArray[np.intp]) -> FrameSource:
        """Return the same frames with their atoms in another ``order``, which says where each stands now, or raise."""
        what = f"the atoms of {self.describe()}"
        raise InvalidInputError(f"{what} cannot be put into the model's order here; give them in that order")

    def order_for(
        self, facts: Mapping[str, Any] | None, *, match_atoms: bool = False
    ) -> NDArray[np.intp] | None:
        """Return where a model's atoms stand among these, with a warning; None in order; raise where they are others.

        ``facts`` and ``match_atoms`` are those of :meth:`matched`.
        """
        if not facts or facts.get("kind") != "frames":
            return None
        chosen = f" (selected by {facts['select']!r})" if facts.get("select") else ""
        fault = wrong_width((self.n_atoms, 3), 3 * facts["n_atoms"], takes_frames=True)
        if fault is not None:
            told = f"{self.describe()} has {fault}{chosen}; choose the same atoms with "
            raise InvalidInputError(told, Named("select"))
        if facts.get("atom_names") is None or self.atoms is None:
            return None
        order = atom_order(facts, self.atoms, self.describe(), match=match_atoms)
        if order is not None:
            moved = int(np.flatnonzero(order != np.arange(len(order)))[0])
            warn(
                AtomOrderWarning(
                    f"{self.describe()} has the model's atoms in another order (atom {moved} of the model, "
                    f"{facts['atom_labels'][moved]}, is atom {int(order[moved])} of the selection there); they are "
                    "matched by residue and name"
                )
            )
        return order


def check_frames_finite(chunk: FrameChunk) -> None:
    """Raise, naming file and frame, when a ``chunk`` that a source yields holds NaN or infinite values."""
    fault = not_finite(chunk.frames, "frame" if chunk.frames.ndim == 3 else "row", chunk.numbers)
    if fault is not None:
        remedy = ("",) if chunk.frames.ndim == 3 else (", or leave them out with ", Named("missing", "drop"))
        raise InvalidInputError(f"{chunk.file or 'the data'}: {fault}; remove or repair those", *remedy)


def default_chunk(n_atoms: int) -> int:
    """Return how many frames of so many atoms make a chunk."""
    return max(1, min(MAX_CHUNK, CHUNK_BYTES // (12 * max(1, n_atoms))))
