"""XTC: every frame begins with a header that holds its length, and is packed."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.inputs.frame_blocks import Block
from ldmaps.inputs.frame_bytes import Found, FrameFormat
from ldmaps.inputs.source import as_picoseconds

#: GROMACS 2023 and later, for more atoms than 32-bit lengths can hold.
_LARGE_MAGIC = 2023


class XtcFrames(FrameFormat):
    """Frames of XTC files."""

    def read_header(self, start: bytes) -> bool:
        """Take the number of atoms from the first frame."""
        if len(start) < 56:
            return False
        magic, n_atoms = struct.unpack_from(">2i", start)
        if magic == _LARGE_MAGIC:
            raise ValueError("XTC of the large variant (magic number 2023) is not known here; write TRR")
        if magic != kernels.XTC_MAGIC or _count_of(start) is None:
            raise ValueError(_fault(start, 0, n_atoms))
        self.n_atoms, self.mark = n_atoms, start[:8]
        return True

    def find(self, data: bytes, at: int, most: int, number: int = 1) -> Found:
        """Find frames by their headers."""
        starts = np.empty(min(most, (len(data) - at) // 56 + 1), np.intp)
        count, end, is_sound = kernels.find_xtc_frames(data, at, self.n_atoms, starts)
        return Found(starts[:count], end, None if is_sound else _fault(data, end, self.n_atoms))

    def decode(self, data: bytes, starts: NDArray[np.intp], atoms: NDArray[np.intp] | None) -> Block:
        """Unpack frames."""
        wanted = np.empty(0, np.intp) if atoms is None else np.ascontiguousarray(atoms, np.intp)
        frames = np.empty((len(starts), len(wanted) or self.n_atoms, 3), np.float32)
        heads = np.empty((len(starts), 10), np.float32)
        count = kernels.unpack_xtc_frames(data, starts, self.n_atoms, wanted, frames, heads)
        boxes = heads[:count, 1:].reshape(-1, 3, 3).astype(np.float64)
        # As mdtraj does: a box of zeros is none.
        return (
            frames[:count],
            as_picoseconds(heads[:count, 0]),
            boxes if (abs(boxes) >= 1e-10).any() else None,
        )

    def other_count(self, data: bytes) -> int | None:
        """Return the number of atoms that both places of a header say."""
        return _count_of(data)


def _count_of(data: bytes) -> int | None:
    if len(data) < 56:
        return None
    magic, n_atoms = struct.unpack_from(">2i", data)
    is_sound = magic == kernels.XTC_MAGIC and n_atoms > 0 and data[4:8] == data[52:56]
    return n_atoms if is_sound else None


def _fault(data: bytes, at: int, n_atoms: int) -> str:
    magic, count = struct.unpack_from(">2i", data, at)
    if magic != kernels.XTC_MAGIC:
        return f"no XTC frame begins there: expected {kernels.XTC_MAGIC}, found {magic}"
    if count != n_atoms:
        return f"no XTC frame begins there: expected {n_atoms} atoms, found {count}"
    return "the header of the frame is damaged"
