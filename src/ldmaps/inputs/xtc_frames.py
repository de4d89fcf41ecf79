"""Long XTC files, unpacked by a compiled loop where mdtraj would hold up all other threads.

mdtraj keeps the interpreter's lock while it reads a block, so that nothing embeds or writes
meanwhile, and takes longer. Whatever the loop does not know, mdtraj reads.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import compiled

__all__ = ["XtcFrames", "is_worth_unpacking"]

#: Bytes of a file from which on the loop saves time, though the first time it has to be compiled.
_LONG_FILE = 32 << 20
#: Bytes to read at once: frames of a few pieces stay in cache while they are unpacked.
_PIECE = 1 << 18
#: Frames that mdtraj reads at once on its way to one that the loop does not know.
_CAUGHT_UP = 4096
#: So few atoms are not packed.
_UNPACKED_ATOMS = 9

#: Coordinates, times, steps and boxes, as mdtraj's reader returns them.
_Read = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32], NDArray[np.float32] | None]


def is_worth_unpacking(path: str, n_atoms: int) -> bool:
    """Say whether a file has so many frames, of enough atoms, that the loop pays."""
    return n_atoms > _UNPACKED_ATOMS and os.path.getsize(path) >= _LONG_FILE


class XtcFrames:
    """Reads a file from its beginning, as mdtraj's file object does.

    Parameters
    ----------
    handle : mdtraj.formats.XTCTrajectoryFile
        The same file; it goes on from the first frame that the loop does not know.
    path : str
    n_atoms : int
        Of every frame.
    """

    distance_unit = "nanometers"

    def __init__(self, handle: Any, path: str, n_atoms: int) -> None:
        self._handle = handle
        self._file: Any = open(path, "rb", buffering=0)  # noqa: SIM115  # closed by close
        self._n_atoms = n_atoms
        self._left = b""  # read, but not unpacked
        self._frame = 0
        self._is_known = True

    def read(self, n_frames: int, atom_indices: NDArray[np.intp] | None = None) -> _Read:
        """Return the next frames, fewer at the end of the file."""
        if not self._is_known:
            return self._handle.read(n_frames=n_frames, atom_indices=atom_indices)  # type: ignore[no-any-return]
        atoms = np.empty(0, np.int64) if atom_indices is None else np.asarray(atom_indices, np.int64)
        frames = np.empty((n_frames, len(atoms) or self._n_atoms, 3), np.float32)
        heads = np.empty((n_frames, 12), np.uint32)
        count, self._is_known = self._unpack(atoms, frames, heads)
        self._frame += count
        if not self._is_known:
            self._catch_up()
            if not count:
                return self.read(n_frames, atom_indices)
        values = heads[:count].view(np.float32)
        boxes = values[:, 2:11].reshape(-1, 3, 3)
        # As mdtraj does: a box of zeros is none.
        return (
            frames[:count],
            values[:, 1],
            heads[:count, 0].view(np.int32),
            boxes if (np.abs(boxes) >= 1e-10).any() else None,
        )

    def close(self) -> None:
        """Close the file; mdtraj's is its owner's."""
        self._file.close()

    def _catch_up(self) -> None:
        """Let mdtraj read up to here: to seek, it would look through the rest of a file that may be damaged."""
        first_atom = np.zeros(1, np.intp)
        for begin in range(0, self._frame, _CAUGHT_UP):
            self._handle.read(n_frames=min(_CAUGHT_UP, self._frame - begin), atom_indices=first_atom)

    def _unpack(
        self, atoms: NDArray[np.int64], frames: NDArray[np.float32], heads: NDArray[np.uint32]
    ) -> tuple[int, bool]:
        """Fill frames as far as there are any; return how many, and whether the loop knows what follows."""
        loops, scratch = compiled.xtc, np.empty((self._n_atoms, 3), np.float32)
        values, count = heads.view(np.float32), 0
        while True:
            data = np.frombuffer(self._left, np.uint8)
            found, at, odd = loops.unpack_frames(
                data,
                self._n_atoms,
                atoms,
                loops.SIZES,
                scratch,
                frames[count:],
                heads[count:],
                values[count:],
            )
            count += int(found)
            self._left = self._left[at:]
            if odd or count == len(frames):
                return count, not odd
            piece = self._file.read(max(_PIECE, len(self._left)))
            if not piece:
                return count, not self._left  # mdtraj has something to say about half a frame
            self._left += piece
