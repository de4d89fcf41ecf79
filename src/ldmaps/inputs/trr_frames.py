"""TRR: every frame begins with a header that holds the sizes of its parts, which are plain numbers."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.inputs.frame_blocks import Block, joined
from ldmaps.inputs.frame_bytes import Found, FrameFormat
from ldmaps.inputs.source import as_picoseconds

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
            elif not layout.sizes[7]:
                fault = "the frame has no coordinates"
            if not isinstance(layout, _Layout) or fault is not None:
                break
            run = layout.run(data, at, most - count)
            runs.append(at + layout.length * np.arange(run, dtype=np.intp))
            at, count = at + layout.length * run, count + run
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
        return layout.n_atoms if isinstance(layout, _Layout) and layout.sizes[7] else None


class _Layout(NamedTuple):
    """Sizes of the parts of a frame, which most frames of a file have in common."""

    sizes: list[int]
    n_atoms: int
    precision: int
    header: int
    length: int

    def run(self, data: bytes, at: int, most: int) -> int:
        """Return how many frames of this layout follow one another; the first one may be cut off."""
        there = min(most, (len(data) - at) // self.length)
        frames = np.frombuffer(data, np.uint8, there * self.length, at).reshape(there, self.length)
        # Step, another number and what follows the header differ.
        same = (frames[:, : self.header - 8] == frames[:1, : self.header - 8]).all(axis=1)
        return max(1, there if same.all() else int(np.argmin(same)))

    def block(self, data: bytes, at: int, count: int, atoms: NDArray[np.intp] | None) -> Block:
        """Read frames of this layout."""
        frames = np.frombuffer(data, np.uint8, count * self.length, at).reshape(count, self.length)

        def numbers(begin: int, size: int) -> NDArray[Any]:
            part = np.ascontiguousarray(frames[:, begin : begin + size])
            return part.view(f">f{self.precision}")

        begin = self.header + 2 * self.precision
        boxes = np.zeros((count, 3, 3))
        if self.sizes[2]:
            boxes[:] = numbers(begin + sum(self.sizes[:2]), self.sizes[2]).reshape(count, 3, 3)
        xyz = numbers(begin + sum(self.sizes[:7]), self.sizes[7]).reshape(count, self.n_atoms, 3)
        times = numbers(self.header, self.precision)[:, 0]
        chosen = xyz if atoms is None else xyz[:, atoms]
        return chosen.astype(np.float32), as_picoseconds(times), boxes


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
    header = begin + 52
    return _Layout(sizes, n_atoms, precision, header, header + 2 * precision + sum(sizes))
