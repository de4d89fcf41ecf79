"""The formats whose frames are known as bytes: XTC, packed, TRR, plain numbers, and DCD, frames of one length."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import FORMATS, format_of
from ldmaps.inputs.frame_blocks import Block, Found, FrameFormat, as_picoseconds, boxes_of, joined

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
        if magic != kernels.XTC_MAGIC or self.other_count(start) is None:
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
        # As mdtraj does: boxes of next to nothing are none.
        boxes *= (abs(boxes) >= 1e-10).any()
        return Block(frames[:count], as_picoseconds(heads[:count, 0]), boxes)

    def other_count(self, data: bytes) -> int | None:
        """Return the number of atoms that both places of a header say."""
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


_MAGIC = 1993


class TrrFrames(FrameFormat):
    """Frames of TRR files, in single or double precision."""

    mark = struct.pack(">i", _MAGIC)

    def read_header(self, start: bytes) -> bool:
        """Take the number of atoms from the first frame."""
        layout = _layout(start, 0)
        if isinstance(layout, str):
            raise ValueError(layout)
        if layout is not None:
            self.n_atoms = layout.n_atoms
        return layout is not None

    def find(self, data: bytes, at: int, most: int, number: int = 1) -> Found:
        """Find frames by their headers."""
        runs, count, fault = [np.empty(0, np.intp)], 0, None
        while count < most:
            layout = _layout(data, at)
            if not isinstance(layout, _Layout):
                fault = layout
            elif layout.n_atoms != self.n_atoms:
                fault = f"no TRR frame begins there: expected {self.n_atoms} atoms, found {layout.n_atoms}"
            elif not layout.has_coordinates:
                fault = "the frame has no coordinates"
            if not isinstance(layout, _Layout) or fault is not None:
                break
            run = layout.run(data, at, most - count)
            runs.append(at + layout.kind.itemsize * np.arange(run, dtype=np.intp))
            at, count = at + layout.kind.itemsize * run, count + run
        return Found(np.concatenate(runs), at, fault)

    def decode(self, data: bytes, starts: NDArray[np.intp], atoms: NDArray[np.intp] | None) -> Block:
        """Read the numbers of frames that were found together."""
        blocks, place = [], 0
        while place < len(starts):
            at = int(starts[place])
            layout = _layout(data, at)
            assert isinstance(layout, _Layout)
            run = layout.run(data, at, len(starts) - place)
            blocks.append(layout.block(data, at, run, atoms))
            place += run
        return joined(blocks)

    def other_count(self, data: bytes) -> int | None:
        """Return the number of atoms where the sizes agree with it."""
        layout = _layout(data, 0)
        return layout.n_atoms if isinstance(layout, _Layout) and layout.has_coordinates else None


class _Layout(NamedTuple):
    """How a frame lies in memory, which most frames of a file have in common."""

    n_atoms: int
    header: int  # bytes before the time
    kind: np.dtype[Any]

    @property
    def has_coordinates(self) -> bool:
        """Whether it is not of velocities alone."""
        return "xyz" in (self.kind.names or ())

    def run(self, data: bytes, at: int, most: int) -> int:
        """Return how many frames of this layout follow one another; the first one may be cut off."""
        length = self.kind.itemsize
        there = min(most, (len(data) - at) // length)
        frames = np.frombuffer(data, np.uint8, there * length, at).reshape(there, length)
        # Step, another number and what follows the header differ.
        same = (frames[:, : self.header - 8] == frames[:1, : self.header - 8]).all(axis=1)
        return max(1, there if same.all() else int(np.argmin(same)))

    def block(self, data: bytes, at: int, count: int, atoms: NDArray[np.intp] | None) -> Block:
        """Read frames of this layout."""
        read = np.frombuffer(data, self.kind, count, at)
        has_box = "box" in (self.kind.names or ())
        boxes = read["box"].astype(np.float64) if has_box else np.zeros((count, 3, 3))
        chosen = read["xyz"] if atoms is None else read["xyz"][:, atoms]
        return Block(chosen.astype(np.float32), as_picoseconds(read["time"]), boxes)


def _layout(data: bytes, at: int) -> _Layout | str | None:
    """Return the layout of a frame; why there is none; None where the data end."""
    if len(data) < at + 12:
        return None
    magic, _, text = struct.unpack_from(">3i", data, at)
    if magic != _MAGIC or not 0 <= text <= 80:
        return f"no TRR frame begins there: expected {_MAGIC}, found {magic}"
    begin = 12 + (text + 3) // 4 * 4
    if len(data) < at + begin + 52:
        return None
    *sizes, n_atoms, _, _ = struct.unpack_from(">13i", data, at + begin)
    # A number has 4 bytes, or 8 in double precision.
    precision = next(
        (p for p in (4, 8) if {*sizes[2:5]} <= {0, 9 * p} and {*sizes[7:]} <= {0, 3 * p * n_atoms}), 0
    )
    if not precision or n_atoms < 1 or any(sizes[:2]) or any(sizes[5:7]):
        return "the header of the frame is damaged"
    header, number = begin + 52, f">f{precision}"
    behind = header + 2 * precision
    if behind + sum(sizes) >= 1 << 31:  # which numpy describes no layout of
        return f"the header says that the frame has {behind + sum(sizes)} bytes"
    fields = [("time", number, header)]
    fields += [("box", f"(3,3){number}", behind)] if sizes[2] else []
    fields += [("xyz", f"({n_atoms},3){number}", behind + sum(sizes[:7]))] if sizes[7] else []
    names, formats, offsets = zip(*fields, strict=True)
    record = {"names": names, "formats": formats, "offsets": offsets, "itemsize": behind + sum(sizes)}
    return _Layout(n_atoms, header, np.dtype(record))  # type: ignore[call-overload]


_FIXED, _HAS_BOX, _HAS_FOURTH, _CHARMM = 8, 10, 11, 19
#: Bytes of the longest record of a header; titles have 80 each.
_LONGEST = 1 << 20


class DcdFrames(FrameFormat):
    """Frames of DCD files of either byte order, with record marks of 4 or 8 bytes, with fixed atoms or without."""

    # A record is its length, that many bytes, and its length again. The header has four: "CORD" and 20 integers, of
    # which some say what is in a frame; titles; the number of atoms; which atoms move, if some are fixed. A frame has
    # one each for the box, x, y, z and a fourth dimension.

    def __init__(self) -> None:
        # Of the first frame and of others: fixed atoms stand in the first one alone.
        self._kinds: tuple[np.dtype[Any], np.dtype[Any]] = (np.dtype([]), np.dtype([]))
        self._free: NDArray[np.intp] | None = None
        self._fixed: NDArray[np.float32] = np.empty((0, 3), np.float32)

    def read_header(self, start: bytes) -> bool:
        """Take the layout of frames, and the places of fixed atoms."""
        marks = [np.dtype(order + kind) for kind in ("i8", "i4") for order in "<>"]
        mark = next((one for one in marks if len(start) >= 8 and np.frombuffer(start, one, 1)[0] == 84), None)
        if mark is None:
            if len(start) < 8:
                return False
            raise ValueError("the file does not begin with a DCD header")
        order, records = mark.str[0], _records(start, mark)
        try:
            head, self.begin = next(records)
            if head[:4] != b"CORD":
                raise ValueError("the header is not that of a DCD file with coordinates")
            numbers = np.frombuffer(head, f"{order}i4", 20, 4).tolist()
            next(records)
            counted, self.begin = next(records)
            n_atoms = int(np.frombuffer(counted, f"{order}i4", 1)[0])
            n_free = n_atoms - numbers[_FIXED]
            if not 0 < n_free <= n_atoms:
                raise ValueError(f"the DCD header gives {n_atoms} atoms, {numbers[_FIXED]} of them fixed")
            if n_free < n_atoms:
                moving, self.begin = next(records)
                self._free = np.frombuffer(moving, f"{order}i4", n_free).astype(np.intp) - 1
                if not 0 <= self._free.min() <= self._free.max() < n_atoms:
                    raise ValueError("invalid list of free atoms in the DCD header")
        except StopIteration:
            return False
        # X-PLOR has half of a longer number where CHARMM has these.
        has_box, has_fourth = (bool(numbers[_CHARMM] and numbers[place]) for place in (_HAS_BOX, _HAS_FOURTH))
        first, other = (_kind(mark, count, n_atoms, has_box, has_fourth) for count in (n_atoms, n_free))
        self._kinds = first, other
        self.step = other.itemsize
        self.n_atoms, self.announced = n_atoms, numbers[0]
        if self._free is not None:
            if len(start) < self.begin + self._kinds[0].itemsize:
                return False
            self._fixed = _coordinates(np.frombuffer(start, self._kinds[0], 1, self.begin), None)[0]
        return True

    def find(self, data: bytes, at: int, most: int, number: int = 1) -> Found:
        """Find frames by their record marks."""
        first, other = self._kinds
        if number or self._free is None:
            return _found(other, data, at, most)
        one = _found(first, data, at, 1)
        if not len(one.starts) or one.end > len(data) or most == 1:
            return one
        rest = _found(other, data, one.end, most - 1)
        return Found(np.concatenate([one.starts, rest.starts]), rest.end, rest.fault)

    def decode(self, data: bytes, starts: NDArray[np.intp], atoms: NDArray[np.intp] | None) -> Block:
        """Read the numbers of frames that were found together."""
        if self._free is None:
            read = np.frombuffer(data, self._kinds[1], len(starts), int(starts[0]))
            return Block(_coordinates(read, atoms), None, _boxes(read)).in_nm()
        frames, boxes = np.repeat(self._fixed[None], len(starts), axis=0), []
        for place, start in enumerate(starts.tolist()):
            is_first = not len(_found(self._kinds[1], data, start, 1).starts)
            read = np.frombuffer(data, self._kinds[0 if is_first else 1], 1, start)
            frames[place, slice(None) if is_first else self._free] = _coordinates(read, None)[0]
            boxes.append(_boxes(read))
        return Block(frames if atoms is None else frames[:, atoms], None, np.concatenate(boxes)).in_nm()

    def next_start(self, data: bytes, number: int = 1) -> int:
        """Try frame after frame: parts of two that follow one another may look like one."""
        at = 0
        while self.find(data, at, 1, number).fault is not None:
            at += self.step
        return at

    def index(self, read: Callable[[int, int], bytes], size: int) -> Found:
        """Count frames, which are all of one length but the first."""
        first, other = (kind.itemsize for kind in self._kinds)
        rest = size - self.begin
        count = max(0, 1 + (rest - first) // other)
        starts = self.begin + first - other + other * np.arange(count, dtype=np.intp)
        starts[:1] = self.begin
        return Found(starts, int(starts[-1] + (other if count > 1 else first)) if count else self.begin)


def _records(data: bytes, mark: np.dtype[Any]) -> Iterator[tuple[bytes, int]]:
    """Yield records and the bytes behind them; end where the data do."""
    at, width = 0, mark.itemsize
    while at + width + 4 <= len(data):
        said = int(np.frombuffer(data, mark, 1, at)[0])
        n_titles = int(np.frombuffer(data, f"{mark.str[0]}i4", 1, at + width)[0])
        # MDAnalysis has written three titles and the marks of two.
        for length in (said, 4 + 80 * n_titles):
            if not 0 <= length <= _LONGEST:
                raise ValueError(f"the DCD header has a record with an invalid length of {length} bytes")
            end = at + length + 2 * width
            if end > len(data):
                return
            if data[at : at + width] == data[end - width : end]:
                break
        else:
            raise ValueError("record marks that differ")
        yield data[at + width : end - width], end
        at = end


def _kind(mark: np.dtype[Any], count: int, n_atoms: int, has_box: bool, has_fourth: bool) -> np.dtype[Any]:
    """Return how a frame lies in memory."""
    fields: list[Any] = [("cell", f"{mark.str[0]}f8", (6,))] if has_box else []
    fields += [(axis, f"{mark.str[0]}f4", (count,)) for axis in "xyz"]
    fields += [("w", f"{mark.str[0]}f4", (n_atoms,))] if has_fourth else []
    return np.dtype(
        [part for field in fields for part in ((f"<{field[0]}", mark), field, (f">{field[0]}", mark))]
    )


def _found(kind: np.dtype[Any], data: bytes, at: int, most: int) -> Found:
    """Find frames of one length."""
    length, width = kind.itemsize, kind[0].itemsize
    # One that has begun is found, too, if its first mark is there.
    count = min(most, max(0, (len(data) - at - width) // length + 1))
    n_complete = min(count, max(0, (len(data) - at) // length))
    read, sound = np.frombuffer(data, kind, n_complete, at), np.ones(n_complete, bool)
    for name in kind.names or ():
        if name[0] in "<>":
            sound &= read[name] == kind[name[1:]].itemsize
    good = count if sound.all() else int(np.argmin(sound))
    fault = None if good == count else "the record marks around its coordinates do not match their length"
    return Found(at + length * np.arange(good, dtype=np.intp), at + length * good, fault)


def _coordinates(read: NDArray[Any], atoms: NDArray[np.intp] | None) -> NDArray[np.float32]:
    axes = [read[axis] if atoms is None else read[axis][:, atoms] for axis in "xyz"]
    return np.stack(axes, axis=2).astype(np.float32)


def _boxes(read: NDArray[Any]) -> NDArray[np.float64]:
    """Return lattice vectors in Å."""
    if "cell" not in (read.dtype.names or ()):
        return np.zeros((len(read), 3, 3))
    # In single precision, as mdtraj reads them.
    lengths, angles = read["cell"][:, [0, 2, 5]], read["cell"][:, [4, 3, 1]]
    # CHARMM and NAMD write cosines, others degrees.
    cosines = (np.abs(angles) <= 1).all(axis=1, keepdims=True)
    angles = np.where(cosines, 90 - np.rad2deg(np.arcsin(np.where(cosines, angles, 0.0))), angles)
    return boxes_of(lengths.astype(np.float32), angles.astype(np.float32))


#: By their names among all formats.
FRAME_FORMATS: dict[str, Callable[[], FrameFormat]] = {"XTC": XtcFrames, "TRR": TrrFrames, "DCD": DcdFrames}


def growing_format(path: str) -> FrameFormat:
    """Return the format of a file that is to be followed, by its ending."""
    form = format_of(path)
    if form is not None and form.name in FRAME_FORMATS:
        return FRAME_FORMATS[form.name]()
    able = [one.suffixes[0] for one in FORMATS if one.name in FRAME_FORMATS]
    raise InvalidInputError(
        f"{path} cannot be followed while it grows: only {', '.join(able)} can; write one of those, "
        "or embed the finished file"
    )
