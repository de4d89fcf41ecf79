"""Trajectory formats as bytes: where frames begin and end, and what is in them.

    XTC, TRR   every frame begins with a header that holds its length
    DCD        a header for the file, then frames of one length

TRR and DCD are plain numbers and are read here; XTC is unpacked by mdtraj.
"""

from __future__ import annotations

import struct
import tempfile
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, SourceError
from ldmaps.inputs.formats import FORMATS, format_of
from ldmaps.inputs.frame_blocks import Block, box_vectors, import_mdtraj
from ldmaps.inputs.source import as_picoseconds

__all__ = ["FrameBytes", "FrameFormat", "format_of_frames"]

_XTC_MAGIC = 1995
_XTC_LARGE_MAGIC = 2023  # GROMACS 2023 and later, for more atoms than 32-bit lengths can hold
_TRR_MAGIC = 1993


class FrameBytes(NamedTuple):
    """A frame in a file.

    Attributes
    ----------
    length : int
        In bytes.
    n_atoms : int
        0 where the frame has no coordinates (TRR may hold velocities alone).
    """

    length: int
    n_atoms: int


class FrameFormat(ABC):
    """Finds and decodes frames of one format.

    Attributes
    ----------
    header : bytes or None
        What stands before the first frame; None until enough of the file is there.
    """

    header: bytes | None = b""

    def read_header(self, start: bytes) -> bool:
        """Take the beginning of the file; return whether it was long enough."""
        return True

    @abstractmethod
    def frame(self, data: memoryview) -> FrameBytes | None:
        """Return the frame that begins with ``data``, or None where the data end too early."""

    @abstractmethod
    def decode(self, frames: list[bytes], atoms: NDArray[np.intp] | None) -> Block:
        """Return coordinates (of some atoms) in nm, times and boxes; raise ValueError for damaged frames."""

    def close(self) -> None:
        """Remove what was needed for decoding."""
        return


def format_of_frames(path: str) -> FrameFormat:
    """Return the format of a file, by its ending."""
    form = format_of(path)
    decoder = None if form is None else form.decoder
    if decoder == "xtc":
        return _XTC()
    if decoder == "trr":
        return _TRR()
    if decoder == "dcd":
        return _DCD(path)
    able = [one.suffixes[0] for one in FORMATS if one.kind == "trajectory" and one.decoder]
    raise InvalidInputError(
        f"{path} cannot be followed while it grows: only {', '.join(able)} can; write one of those, "
        "or embed the finished file"
    )


class _XTC(FrameFormat):
    def __init__(self) -> None:
        self._reader: Any = None
        self._copy: Any = None

    def frame(self, data: memoryview) -> FrameBytes | None:
        if len(data) < 8:
            return None
        magic, n_atoms = struct.unpack_from(">2i", data)
        if magic == _XTC_LARGE_MAGIC:
            raise SourceError(
                "XTC of the large variant (magic number 2023) cannot be read by mdtraj; write TRR"
            )
        if magic != _XTC_MAGIC or n_atoms < 0:
            raise _no_frame("XTC", _XTC_MAGIC, magic)
        if n_atoms <= 9:  # so few are not compressed
            return FrameBytes(56 + 12 * n_atoms, n_atoms)
        if len(data) < 92:
            return None
        (packed,) = struct.unpack_from(">i", data, 88)
        if packed < 0:
            raise _no_frame("XTC", "a length of at least 0", packed)
        return FrameBytes(92 + (packed + 3) // 4 * 4, n_atoms)

    def decode(self, frames: list[bytes], atoms: NDArray[np.intp] | None) -> Block:
        # mdtraj reads files only, so it gets one that begins with these frames: it never sees a half-written one.
        if self._copy is None:
            import_mdtraj()
            from mdtraj.formats import XTCTrajectoryFile

            self._reader = XTCTrajectoryFile
            self._copy = tempfile.NamedTemporaryFile(buffering=0)  # noqa: SIM115
        # Written over, not cut to length, which takes file systems a hundred times as long.
        self._copy.seek(0)
        self._copy.write(b"".join(frames))
        try:
            with self._reader(self._copy.name) as handle:
                xyz, times, _, box = handle.read(n_frames=len(frames), atom_indices=atoms)
        except (RuntimeError, OSError) as error:
            raise ValueError(str(error)) from error
        if len(xyz) != len(frames):
            raise ValueError(f"{len(xyz)} of {len(frames)} frames were found")
        return (
            np.asarray(xyz, dtype=np.float32),
            as_picoseconds(times),
            None if box is None else np.asarray(box, dtype=np.float64),
        )

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None


class _TRR(FrameFormat):
    def frame(self, data: memoryview) -> FrameBytes | None:
        if len(data) < 12:
            return None
        magic, _, text = struct.unpack_from(">3i", data)
        if magic != _TRR_MAGIC or not 0 <= text <= 80:
            raise _no_frame("TRR", _TRR_MAGIC, magic)
        begin = _trr_sizes_at(data)
        if len(data) < begin + 52:
            return None
        *sizes, n_atoms, _, _ = struct.unpack_from(">13i", data, begin)
        if min(sizes) < 0 or n_atoms < 1:
            raise _no_frame("TRR", "sizes of at least 0", min(sizes))
        length = begin + 52 + 2 * _trr_precision(sizes, n_atoms) + sum(sizes)
        return FrameBytes(length, n_atoms if sizes[7] else 0)

    def decode(self, frames: list[bytes], atoms: NDArray[np.intp] | None) -> Block:
        coordinates, times, boxes = [], [], []
        for data in frames:
            begin = _trr_sizes_at(data)
            *sizes, n_atoms, _, _ = struct.unpack_from(">13i", data, begin)
            precision = _trr_precision(sizes, n_atoms)
            kind = np.dtype(f">f{precision}")
            at = begin + 52
            times.append(np.frombuffer(data, kind, 1, at)[0])
            at += 2 * precision + sizes[0] + sizes[1]
            box = np.frombuffer(data, kind, sizes[2] // precision, at)
            boxes.append(box.reshape(3, 3) if len(box) == 9 else np.zeros((3, 3)))
            xyz = np.frombuffer(data, kind, 3 * n_atoms, at + sum(sizes[2:7])).reshape(n_atoms, 3)
            coordinates.append(xyz if atoms is None else xyz[atoms])
        return (
            np.asarray(coordinates, dtype=np.float32),
            as_picoseconds(times),
            np.asarray(boxes, dtype=np.float64),
        )


def _trr_sizes_at(data: bytes | memoryview) -> int:
    (text,) = struct.unpack_from(">i", data, 8)
    return 12 + int(text + 3) // 4 * 4


def _trr_precision(sizes: list[int], n_atoms: int) -> int:
    """Return the bytes of a number: 4, or 8 for double precision."""
    if sizes[2]:
        return sizes[2] // 9
    return next((size // (3 * n_atoms) for size in sizes[7:10] if size), 4)


class _DCD(FrameFormat):
    def __init__(self, path: str) -> None:
        self.header = None
        self._path = path
        self._order = "<"
        self._frame = FrameBytes(0, 0)
        self._kind = np.dtype([])

    def read_header(self, start: bytes) -> bool:
        if len(start) < 96:
            return False
        self._order = order = "<" if start[:4] == struct.pack("<i", 84) else ">"
        if struct.unpack_from(f"{order}i", start)[0] != 84 or start[4:8] != b"CORD":
            raise InvalidInputError(f"{self._path} is not a DCD file (with 32-bit record marks)")
        control = struct.unpack_from(f"{order}20i", start, 8)
        (title,) = struct.unpack_from(f"{order}i", start, 92)
        end = 92 + 8 + title + 12
        if len(start) < end:
            return False
        (n_atoms,) = struct.unpack_from(f"{order}i", start, end - 8)
        if control[8]:
            raise InvalidInputError(
                f"{self._path} leaves out {control[8]} fixed atoms of later frames and cannot be followed; "
                "write all atoms"
            )
        charmm = control[19] != 0
        mark = f"{order}i4"
        fields: list[Any] = []
        if charmm and control[10]:
            fields += [("cell_begin", mark), ("cell", f"{order}f8", 6), ("cell_end", mark)]
        for axis in "xyzw" if charmm and control[11] else "xyz":
            fields += [
                (f"{axis}_begin", mark),
                (axis, f"{order}f4", (n_atoms,)),
                (f"{axis}_end", mark),
            ]
        self._kind = np.dtype(fields)
        self._frame = FrameBytes(self._kind.itemsize, n_atoms)
        self.header = start[:end]
        return True

    def frame(self, data: memoryview) -> FrameBytes | None:
        if len(data) < 4:
            return None
        (mark,) = struct.unpack_from(f"{self._order}i", data)
        wanted = 48 if "cell" in (self._kind.names or ()) else 4 * self._frame.n_atoms
        if mark != wanted:
            raise _no_frame("DCD", wanted, mark)
        return self._frame

    def decode(self, frames: list[bytes], atoms: NDArray[np.intp] | None) -> Block:
        read = np.frombuffer(b"".join(frames), self._kind)
        ends = [name for name in self._kind.names or () if name.endswith("_end")]
        if any((read[name] != read[f"{name[:-4]}_begin"]).any() for name in ends):
            raise ValueError("the record marks around the coordinates differ")
        axes = [read[axis] if atoms is None else read[axis][:, atoms] for axis in "xyz"]
        frames_nm = np.stack(axes, axis=2).astype(np.float32) * np.float32(0.1)
        return frames_nm, None, self._boxes(read["cell"]) if "cell" in (self._kind.names or ()) else None

    @staticmethod
    def _boxes(cells: NDArray[np.float64]) -> NDArray[np.float64] | None:
        lengths, angles = cells[:, [0, 2, 5]], cells[:, [4, 3, 1]]
        if not (lengths > 0).all():
            return None
        # CHARMM and NAMD write cosines, others degrees.
        cosines = (np.abs(angles) <= 1).all(axis=1, keepdims=True)
        angles = np.where(cosines, 90 - np.rad2deg(np.arcsin(np.where(cosines, angles, 0.0))), angles)
        return 0.1 * box_vectors(lengths, angles)


def _no_frame(kind: str, wanted: object, received: object) -> SourceError:
    return SourceError(f"no {kind} frame begins here (expected {wanted}, found {received})")
