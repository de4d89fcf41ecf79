"""Frames in one form (nm, ps, lattice vectors), and formats whose bytes are known, whatever holds these."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import repeat
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps._lazy import needed
from ldmaps.errors import InvalidInputError, Named


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
    vectors = [np.zeros((3, 3)) if box is None else box for _, box in known]
    moments = None if times is None else as_picoseconds(times)
    return Block(xyz, moments, np.asarray(vectors, np.float64).reshape(-1, 3, 3))


def as_picoseconds(times: ArrayLike) -> NDArray[np.float64]:
    """Return a file's times rounded to 1 fs: files keep them in float32, where 100 is read as 100.0000076."""
    return np.asarray(times, dtype=np.float64).round(3)


def joined(blocks: Sequence[Block]) -> Block:
    """Return blocks as one; times that not all have are dropped."""
    if len(blocks) == 1:
        return blocks[0]
    frames, times, boxes = zip(*blocks, strict=True)
    moments = None if any(part is None for part in times) else np.concatenate(times)
    return Block(np.concatenate(frames), moments, np.concatenate(boxes))


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
    return needed("mdtraj", "trajectory files are read with mdtraj", "pip install mdtraj tables")


#: Bytes to read at once: frames of a few pieces stay in cache while they are decoded.
_PIECE = 1 << 18
#: Bytes of the longest header of a frame, and of frames between which it is read alone.
_HEADER, _FAR = 128, 1 << 14
_UNPACKED = "its coordinates cannot be unpacked"


class Found(NamedTuple):
    """Frames that follow one another."""

    starts: NDArray[np.intp]  # where they begin, in the data; the last may end behind these
    end: int  # the byte behind them
    fault: str | None = None  # why no frame begins there; None if one may

    def complete(self, size: int) -> tuple[Found, int]:
        """Return those that end within so many bytes, and how many bytes another one lacks."""
        if self.end <= size:
            return self, 0
        return Found(self.starts[:-1], int(self.starts[-1])), self.end - size


class FrameFormat(ABC):
    """Finds and decodes frames of one format."""

    mark = b""  # what every frame begins with
    # How far behind the beginning of a damaged frame the next one may begin: its length may be what is damaged.
    step = 1
    n_atoms = 0
    begin = 0  # bytes before the first frame
    announced = 0  # frames by the header; 0 where it does not say, or is that of a program that crashed

    @abstractmethod
    def read_header(self, start: bytes) -> bool:
        """Take the beginning of a file; return whether it was long enough, and raise ValueError if it is another's."""

    @abstractmethod
    def find(self, data: bytes, at: int, most: int, number: int = 1) -> Found:
        """Find frames from a byte on, the first of which has a number in its file."""

    @abstractmethod
    def decode(self, data: bytes, starts: NDArray[np.intp], atoms: NDArray[np.intp] | None) -> Block:
        """Return coordinates (of some atoms) in nm, times and boxes of frames, up to one that is damaged."""

    def other_count(self, data: bytes) -> int | None:
        """Return the number of atoms of a sound frame at the beginning of data that has others; None if it has not."""
        return None

    def next_start(self, data: bytes, number: int = 1) -> int:
        """Return the first byte at which a sound frame begins, or may begin if more bytes come."""
        at = data.find(self.mark)
        while at >= 0:
            if self.find(data, at, 1, number).fault is None:
                return at
            at = data.find(self.mark, at + 1)
        return max(0, len(data) - len(self.mark) + 1)

    def index(self, read: Callable[[int, int], bytes], size: int) -> Found:
        """Find all frames of a file of such a size; ``read`` returns so many bytes from a byte on."""
        parts, count, at, length = [np.empty(0, np.intp)], 0, self.begin, 0
        while True:
            data = read(at, _PIECE if length < _FAR else _HEADER)
            found = self.find(data, 0, len(data), count)
            if not len(found.starts):
                return Found(np.concatenate(parts), at, found.fault).complete(size)[0]
            parts.append(found.starts + at)
            count += len(found.starts)
            length = found.end - int(found.starts[-1])
            at += found.end


class FrameFile:
    """A finished file that is open: ``read``, ``seek``, ``len`` and ``close``, as mdtraj's files have them."""

    def __init__(self, path: str, form: FrameFormat) -> None:
        self._path, self._format = path, form
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # closed by close
        try:
            start = b""
            while not form.read_header(start):
                piece = self._file.read(_PIECE)
                if not piece:
                    raise ValueError(f"it has only {len(start)} bytes")
                start += piece
        except BaseException:
            self.close()
            raise
        self.n_atoms, self.announced = form.n_atoms, form.announced
        self._data, self._frame, self._byte = b"", 0, 0
        self._go_to(0, form.begin)

    def __len__(self) -> int:
        return len(self._index.starts)

    def seek(self, frame: int) -> None:
        """Go to a frame, counted from 0."""
        starts = self._index.starts
        self._go_to(frame, int(starts[frame]) if frame < len(starts) else self._index.end)

    def read(self, n_frames: int, atoms: NDArray[np.intp] | None = None) -> Block:
        """Return the next frames, fewer at the end of the file or before one that is damaged; raise at that one."""
        blocks: list[Block] = []
        left = n_frames
        while left:
            found, missing = self._format.find(self._data, 0, left, self._frame).complete(len(self._data))
            fault, end = found.fault, found.end
            if len(found.starts):
                block = self._format.decode(self._data, found.starts, atoms)
                count = len(block[0])
                if count < len(found.starts):
                    fault, end = _UNPACKED, int(found.starts[count])
                blocks += [block] if count else []
                self._data = self._data[end:]
                self._frame, self._byte, left = self._frame + count, self._byte + end, left - count
                if count:
                    continue
            if fault is None:
                # A damaged header may claim more than there is memory for.
                there = self._size - self._byte - len(self._data)
                piece = self._file.read(max(_PIECE, missing)) if missing <= there else b""
                if piece:
                    self._data += piece
                    continue
                if self._data:
                    fault = f"only {len(self._data) + there} bytes of it are there"
            if fault is not None and not blocks:
                raise cut_off(self._path, self._frame, f"{fault}, at byte {self._byte}")
            break
        return joined(blocks) if blocks else block_of(np.empty((0, self.n_atoms, 3)))

    def pick(self, numbers: NDArray[np.int64], atoms: NDArray[np.intp] | None = None) -> Block:
        """Return frames by their numbers, which ascend; raise at one that is damaged."""
        starts, end = self._index.starts, self._index.end
        begins, ends = starts[numbers].tolist(), np.append(starts[1:], end)[numbers].tolist()
        data = b"".join(self._at(begin, end - begin) for begin, end in zip(begins, ends, strict=True))
        found, _ = self._format.find(data, 0, len(numbers), int(numbers[0])).complete(len(data))
        block = self._format.decode(data, found.starts, atoms) if len(found.starts) else None
        count = 0 if block is None else len(block[0])
        if block is None or count < len(numbers):
            fault = _UNPACKED if count < len(found.starts) else found.fault or "the file became shorter"
            raise cut_off(self._path, int(numbers[count]), f"{fault}, at byte {begins[count]}")
        return block

    def check_end(self) -> None:
        """Raise unless the file ends with a frame."""
        frame, byte = len(self), self._index.end
        left = self._size - byte
        if left:
            why = self._index.fault or f"only {left} bytes of it are there"
            raise cut_off(self._path, frame, f"{why}, at byte {byte}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _go_to(self, frame: int, byte: int) -> None:
        self._data, self._frame, self._byte = b"", frame, byte
        self._file.seek(byte)

    @property
    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    @cached_property
    def _index(self) -> Found:
        return self._format.index(self._at, self._size)

    def _at(self, byte: int, count: int) -> bytes:
        """Return bytes from elsewhere; where reading goes on does not move."""
        self._file.seek(byte)
        data: bytes = self._file.read(count)
        self._file.seek(self._byte + len(self._data))
        return data


def cut_off(path: str, n_readable: int, why: str) -> InvalidInputError:
    """Return the error of a file whose frames can be read up to one."""
    if not n_readable:
        return InvalidInputError(f"{path} has no readable frame ({why}); is it empty, or of another format?")
    return InvalidInputError(
        f"{path} is cut off or damaged: frame {n_readable} cannot be read ({why}), the {n_readable} before "
        "it can; copy the file again, or use those with ",
        Named("stop", n_readable),
    )
