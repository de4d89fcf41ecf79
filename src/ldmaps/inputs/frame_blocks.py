"""What mdtraj's readers return, in one form: coordinates in nm, times in ps, lattice vectors."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import Format
from ldmaps.inputs.source import as_picoseconds

#: Coordinates (n, atoms, 3), times (n,) and lattice vectors (n, 3, 3), the latter two where they are known.
Block = tuple[NDArray[np.float32], NDArray[np.float64] | None, NDArray[np.float64] | None]


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


def mdtraj_path(path: str, form: Format) -> str:
    """Return the name under which mdtraj can read a file: its C readers take ASCII names only."""
    if path.isascii() or form.name != "Desmond":
        return path
    try:
        return _ascii_link(os.path.abspath(path), form.suffixes[0])
    except OSError as error:
        raise InvalidInputError(
            f"mdtraj reads {form.name} files by ASCII names only, and {path} cannot be linked to one ({error}); rename "
            "the file or its folder"
        ) from error


@cache
def _ascii_link(path: str, suffix: str) -> str:
    """Return a link to a file. It stays until the program ends: some readers open a file again."""
    folder = tempfile.mkdtemp(prefix="ldmaps-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link = os.path.join(folder, "link" + suffix)
    os.symlink(path, link)
    return link


def unpacked(handle: Any, read: Any) -> Block:
    """Return what a file of mdtraj's kind read: coordinates, times, lengths and angles of boxes."""
    xyz = read[0] if len(read) else ()
    if len(xyz) == 0:
        return np.empty((0, 1, 3), dtype=np.float32), None, None
    times, lengths, angles = read[1:4]
    has_boxes = lengths is not None and angles is not None
    vectors = boxes_of(np.asarray(lengths), np.asarray(angles)) if has_boxes else None
    frames = np.asarray(xyz, dtype=np.float32)
    if handle.distance_unit == "angstroms":
        frames = frames * np.float32(0.1)
        vectors = None if vectors is None else 0.1 * vectors
    return (
        frames,
        None if times is None else as_picoseconds(times),
        None if vectors is None else np.asarray(vectors, dtype=np.float64),
    )


def boxes_of(lengths: NDArray[Any], angles: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return lattice vectors, zeros for frames that have no box; None where none has one."""
    present = (lengths > 0).all(axis=1)
    if not present.any():
        return None
    vectors = np.zeros((len(lengths), 3, 3))
    vectors[present] = box_vectors(lengths[present], angles[present])
    return vectors


def box_vectors(lengths: Any, angles: Any) -> NDArray[np.float64]:
    """Return lattice vectors (n, 3, 3) from lengths and angles in degrees, (n, 3) each."""
    import_mdtraj()
    from mdtraj.utils import lengths_and_angles_to_box_vectors

    columns = (*np.asarray(lengths, dtype=np.float64).T, *np.asarray(angles, dtype=np.float64).T)
    return np.stack(lengths_and_angles_to_box_vectors(*columns), axis=1)


def sliced(block: Block, rows: slice | NDArray[np.intp]) -> Block:
    """Return some frames of a block."""
    xyz, times, box = block
    return xyz[rows], None if times is None else times[rows], None if box is None else box[rows]


def joined(blocks: Sequence[Block]) -> Block:
    """Return blocks as one; times that not all have are dropped, frames without a box have one of zeros."""
    if len(blocks) == 1:
        return blocks[0]
    frames, times, boxes = zip(*blocks, strict=True)
    filled = [
        np.zeros((len(xyz), 3, 3)) if box is None else box for xyz, box in zip(frames, boxes, strict=True)
    ]
    return (
        np.concatenate(frames),
        None if any(part is None for part in times) else np.concatenate(times),
        None if all(box is None for box in boxes) else np.concatenate(filled),
    )


def stacked_boxes(boxes: Sequence[NDArray[Any] | None]) -> NDArray[np.float64] | None:
    """Return one box (3, 3) per frame as an array, zeros where a frame has none; None where no frame has one."""
    if all(box is None for box in boxes):
        return None
    return np.asarray([np.zeros((3, 3)) if box is None else box for box in boxes], dtype=np.float64)
