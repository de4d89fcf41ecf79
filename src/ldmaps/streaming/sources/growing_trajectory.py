"""Trajectory files that an engine is writing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named, SourceError, one_line
from ldmaps.inputs.frame_blocks import Block, joined
from ldmaps.inputs.source import default_chunk
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.chosen_atoms import ChosenAtoms
from ldmaps.streaming.sources.frame_formats import FrameBytes, format_of_frames
from ldmaps.streaming.sources.growing_file import READ_BYTES, GrowingFile

__all__ = ["GrowingTrajectory"]

_NO_NUMBERS = np.empty(0, dtype=np.int64)


class GrowingTrajectory(Source):
    """Frames of an XTC, TRR or DCD file, as an engine writes them.

    Parameters
    ----------
    path : path
        Must exist, but may still be empty.
    top : path or mdtraj Topology
        File that names the atoms.
    select : str, optional
        Atoms to use, in mdtraj's language; the model's own by default.
    model_facts : mapping, optional
        ``model.source_``: its selection is used, and its atoms are compared.
    periodic : {"whole", "keep"}
        As in :func:`ldmaps.inputs.open`.
    idle_end : float, optional
        Seconds without growth after which the file counts as finished; None follows
        it forever.

    Notes
    -----
    Complete frames are found by their headers. The position is
    ``{"frame": n, "byte": b, "mark": checksums}``; ``{"frame": n}`` alone works, too, and
    skips n frames.
    """

    replayable: ClassVar[bool] = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        top: Any = None,
        select: str | None = None,
        model_facts: Mapping[str, Any] | None = None,
        periodic: str = "whole",
        idle_end: float | None = None,
    ) -> None:
        self.name = os.fspath(path)
        self._format = format_of_frames(self.name)
        if top is None:
            raise InvalidInputError(
                f"{self.name} holds coordinates only, without atom names: give a topology of the same atoms with ",
                Named("top", "top.pdb"),
            )
        self._atoms = ChosenAtoms(
            self.name, top=top, select=select, model_facts=model_facts, periodic=periodic
        )
        self.facts = self._atoms.facts()
        self._most = default_chunk(self._atoms.n_stream_atoms)
        self._file = GrowingFile(self.name, idle_end)
        self._data = b""
        self._frame = 0
        self._byte = 0  # where frame self._frame begins; self._data begins there too
        self._missing = 0  # bytes that the frame begun in self._data still lacks
        self._told_half = False

    def open(self, position: Position = None) -> None:
        """Open the file and go to a frame."""
        wanted: dict[str, Any] = {"frame": 0} if position is None else dict(position)
        if "frame" not in wanted:
            raise SourceError(
                f"{self.name} was read as a complete file when the checkpoint was begun; go on in the same way "
                "(without --follow), or start over with another checkpoint"
            )
        frame, byte = int(wanted["frame"]), int(wanted.get("byte", 0))
        self._data, self._frame, self._byte, self._told_half = b"", 0, 0, False
        if frame and byte:
            self._file.open(byte)
            self._frame, self._byte = frame, byte
            self._past_header()
            self._file.check(byte, wanted["mark"])
        else:
            self._file.open()
        if frame and not byte:
            self._skip(frame)

    def poll(self, most: int, wait: float) -> Records | None:
        """Return frames that are there in whole."""
        deadline = time.monotonic() + wait
        while True:
            frames = self._whole_frames(min(most, self._most))
            if frames:
                return self._decoded(frames)
            grown = self._file.read(max(READ_BYTES, self._missing))
            if grown:
                self._data += grown
            elif self._file.finished:
                return self._end()
            elif not self._file.pause(deadline):
                return self._records(self._no_frames, None, _NO_NUMBERS, ())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._format.close()

    # -- finding frames ------------------------------------------------------

    def _whole_frames(self, most: int) -> list[FrameBytes]:
        """Return the frames that the data begin with, as far as they are whole."""
        frames: list[FrameBytes] = []
        self._missing = 0
        if self._format.header is None and not self._past_header():
            return frames
        view, at = memoryview(self._data), 0
        while len(frames) < most:
            try:
                frame = self._format.frame(view[at:])
                if frame is not None and frame.n_atoms:
                    self._atoms.check_count(frame.n_atoms)
            except (SourceError, InvalidInputError) as error:
                if frames:
                    break  # told when it is its turn
                if isinstance(error, InvalidInputError):
                    raise
                raise SourceError(
                    f"{self.name} is damaged, or was overwritten: {error}, at byte {self._byte}, where frame "
                    f"{self._frame} should be; the frames before it were delivered"
                ) from error
            if frame is None:
                break
            if at + frame.length > len(view):
                self._missing = at + frame.length - len(view)
                break
            at += frame.length
            frames.append(frame)
        return frames

    def _past_header(self) -> bool:
        start = self._data if self._byte == 0 else self._file.at(0, READ_BYTES)
        if not self._format.read_header(start):
            return False
        self._file.fixed_from = len(
            self._format.header or b""
        )  # it counts the frames, while they are written
        if self._byte == 0:
            self._advance(self._file.fixed_from)
        return True

    def _advance(self, length: int) -> None:
        self._data = self._data[length:]
        self._byte += length

    def _skip(self, frames: int) -> None:
        """Go past frames without decoding them."""
        while self._frame < frames:
            skipped = self._whole_frames(frames - self._frame)
            self._advance(sum(frame.length for frame in skipped))
            self._frame += len(skipped)
            if not skipped:
                grown = self._file.read(max(READ_BYTES, self._missing))
                if not grown:
                    raise SourceError(
                        f"{self.name} has {self._frame} whole frames, but {frames} were read before; start over "
                        "without the checkpoint if it was overwritten"
                    )
                self._data += grown

    # -- decoding them --------------------------------------------------------

    def _decoded(self, whole: list[FrameBytes]) -> Records:
        first, numbers, rejected = self._frame, [], []
        pieces: list[bytes] = []
        at = 0
        for number, frame in enumerate(whole, first):
            if frame.n_atoms:
                numbers.append(number)
                pieces.append(self._data[at : at + frame.length])
            else:
                rejected.append(Rejected(number, "the frame has no coordinates"))
            at += frame.length
        self._advance(at)
        self._frame += len(whole)
        if not numbers:
            return self._records(self._no_frames, None, _NO_NUMBERS, tuple(rejected))
        good, (xyz, times, box), unread = self._read(pieces, numbers)
        rejected += unread
        frames, kept, unfit = self._atoms.take(xyz, box, good)
        rejected += unfit
        if times is not None:
            times = times[kept]
        rejected.sort(key=lambda one: one.number)
        return self._records(frames, times, good[kept], tuple(rejected))

    def _read(
        self, pieces: list[bytes], numbers: list[int]
    ) -> tuple[NDArray[np.int64], Block, list[Rejected]]:
        """Decode frames; those that cannot be are rejected, one by one."""
        try:
            return np.asarray(numbers, dtype=np.int64), self._format.decode(pieces, self._atoms.to_read), []
        except ValueError as error:
            if len(pieces) == 1:
                reason = f"the frame cannot be decoded ({one_line(error, 120)})"
                empty = np.empty((0, self._atoms.n_to_read, 3), dtype=np.float32)
                return _NO_NUMBERS, (empty, None, None), [Rejected(numbers[0], reason)]
        parts = [self._read([piece], [number]) for piece, number in zip(pieces, numbers, strict=True)]
        whole = [part for part in parts if len(part[0])]
        rejected = [one for part in parts for one in part[2]]
        if not whole:
            return _NO_NUMBERS, parts[0][1], rejected
        return np.concatenate([part[0] for part in whole]), joined([part[1] for part in whole]), rejected

    # -- records --------------------------------------------------------------

    def _end(self) -> Records | None:
        """Report a frame that was never finished, once, and end."""
        if not self._data or self._told_half:
            return None
        self._told_half = True
        reason = f"the frame was not finished when the file stopped growing ({len(self._data)} bytes of it are there)"
        return self._records(self._no_frames, None, _NO_NUMBERS, (Rejected(self._frame, reason),))

    @property
    def _no_frames(self) -> NDArray[np.float32]:
        return np.empty((0, self._atoms.n_atoms, 3), dtype=np.float32)

    def _records(
        self,
        frames: NDArray[np.float32],
        times: NDArray[np.float64] | None,
        numbers: NDArray[np.int64],
        rejected: tuple[Rejected, ...],
    ) -> Records:
        position: dict[str, Any] = {"frame": self._frame}
        if self._frame:
            position |= {"byte": self._byte, "mark": self._file.mark(self._byte)}
        arrived = np.full(len(numbers), time.monotonic())
        return Records(frames, numbers, times, arrived, rejected, position)
