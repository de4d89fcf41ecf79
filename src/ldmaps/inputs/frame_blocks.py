"""Frames as readers return them, in one form: coordinates in nm, times in ps, lattice vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.source import as_picoseconds


class Block(NamedTuple):
    """Frames of one file."""

    frames: NDArray[np.float32]  # (n, atoms, 3)
    times: NDArray[np.float64] | None  # (n,), where they are known
    boxes: NDArray[np.float64]  # (n, 3, 3); one of zeros is none

    def take(self, rows: slice | NDArray[np.intp]) -> Block:
        """Return some of the frames."""
        return Block(self.frames[rows], None if self.times is None else self.times[rows], self.boxes[rows])

    def in_nm(self) -> Block:
        """Return frames that are in Å."""
        with np.errstate(invalid="ignore"):  # damaged numbers are not finite, which others judge
            return Block(self.frames * np.float32(0.1), self.times, 0.1 * self.boxes)


def block_of(
    frames: ArrayLike, times: ArrayLike | None = None, boxes: Iterable[NDArray[Any] | None] | None = None
) -> Block:
    """Return frames as a block; None, for all or for one, is no box."""
    xyz = np.asarray(frames, dtype=np.float32)
    known = zip(xyz, repeat(None) if boxes is None else boxes, strict=False)
    return Block(
        xyz,
        None if times is None else as_picoseconds(times),
        np.asarray([np.zeros((3, 3)) if box is None else box for _, box in known], np.float64).reshape(
            -1, 3, 3
        ),
    )


def joined(blocks: Sequence[Block]) -> Block:
    """Return blocks as one; times that not all have are dropped."""
    if len(blocks) == 1:
        return blocks[0]
    frames, times, boxes = zip(*blocks, strict=True)
    return Block(
        np.concatenate(frames),
        None if any(part is None for part in times) else np.concatenate(times),
        np.concatenate(boxes),
    )


def boxes_of(lengths: NDArray[Any], angles: NDArray[Any]) -> NDArray[np.float64]:
    """Return lattice vectors (n, 3, 3) from lengths and angles in degrees, (n, 3) each; zeros for frames without."""
    vectors = np.zeros((len(lengths), 3, 3))
    present = (lengths > 0).all(axis=1)
    if present.any():
        import_mdtraj()
        from mdtraj.utils import lengths_and_angles_to_box_vectors

        columns = (*lengths[present].astype(np.float64).T, *angles[present].astype(np.float64).T)
        vectors[present] = np.stack(lengths_and_angles_to_box_vectors(*columns), axis=1)
    return vectors


def import_mdtraj() -> ModuleType:
    """Return mdtraj, or raise with the command that installs it."""
    try:
        import mdtraj
    except ImportError as error:
        raise InvalidInputError(
            f"trajectory files are read with mdtraj, which cannot be imported ({error}); "
            "pip install mdtraj tables"
        ) from error
    return mdtraj  # type: ignore[no-any-return]
