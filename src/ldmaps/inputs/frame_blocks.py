"""What mdtraj's readers return, in one form: coordinates in nm, times in ps, lattice vectors."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import Format
from ldmaps.inputs.source import as_picoseconds

__all__ = ["Block", "box_vectors", "import_mdtraj", "joined", "one_line", "sliced", "unpacked"]

#: Coordinates (n, atoms, 3), times (n,) and lattice vectors (n, 3, 3), the latter two where they are known.
Block = tuple[NDArray[np.float32], NDArray[np.float64] | None, NDArray[np.float64] | None]


def import_mdtraj() -> ModuleType:
    """Return mdtraj, or raise with the command that installs it."""
    try:
        import mdtraj
    except ImportError as error:
        raise InvalidInputError(
            f"trajectory files are read with mdtraj, which cannot be imported ({error}); "
            'pip install "ldmaps[trajectory]"'
        ) from error
    return mdtraj  # type: ignore[no-any-return]


def one_line(error: BaseException) -> str:
    """Return what another package's error says, short enough to stand within a message."""
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:157] + "..."


def unpacked(form: Format, handle: Any, read: Any) -> Block:
    """Return what an open file of a format read."""
    xyz = read[0] if len(read) else ()
    if len(xyz) == 0:
        return np.empty((0, 1, 3), dtype=np.float32), None, None
    times = vectors = None
    if form.name in ("XTC", "TRR"):
        times, vectors = read[1], read[3]
    else:
        *rest, lengths, angles = read[1:3] if form.name == "DCD" else read[1:4]
        times = rest[0] if rest else None
        if lengths is not None and angles is not None and np.all(lengths > 0):
            vectors = box_vectors(lengths, angles)
    frames = np.asarray(xyz, dtype=np.float32)
    if handle.distance_unit == "angstroms":
        frames = frames * np.float32(0.1)
        vectors = None if vectors is None else 0.1 * vectors
    return (
        frames,
        None if times is None else as_picoseconds(times),
        None if vectors is None else np.asarray(vectors, dtype=np.float64),
    )


def box_vectors(lengths: Any, angles: Any) -> NDArray[np.float64]:
    """Return lattice vectors (n, 3, 3) from lengths and angles in degrees, (n, 3) each."""
    import_mdtraj()
    from mdtraj.utils import lengths_and_angles_to_box_vectors

    columns = (*np.asarray(lengths, dtype=np.float64).T, *np.asarray(angles, dtype=np.float64).T)
    return np.stack(lengths_and_angles_to_box_vectors(*columns), axis=1)


def sliced(block: Block, rows: slice) -> Block:
    """Return some frames of a block."""
    xyz, times, box = block
    return xyz[rows], None if times is None else times[rows], None if box is None else box[rows]


def joined(blocks: Sequence[Block]) -> Block:
    """Return blocks as one; times and boxes that not all have are dropped."""

    def join(parts: Sequence[Any]) -> Any:
        return None if any(part is None for part in parts) else np.concatenate(parts)

    xyz, times, box = map(join, zip(*blocks, strict=True))
    return xyz, times, box
