"""Trajectory files that an engine is writing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ldmaps import door
from ldmaps.errors import InvalidInputError, Named, SourceError
from ldmaps.inputs.frame_blocks import Found
from ldmaps.inputs.frame_formats import growing_format
from ldmaps.inputs.source import FrameChunk, default_chunk
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.chosen_atoms import ChosenAtoms
from ldmaps.streaming.sources.growing_file import READ_BYTES, GrowingFile

_NOTHING = Found(np.empty(0, dtype=np.intp), 0)


class GrowingTrajectory(Source):
    """Frames of an XTC, TRR or DCD file, as an engine writes them.

    Parameters
    ----------
    path : path
        Must exist, but may still be empty.
    top : path or mdtraj Topology
        File that names the atoms.
    select, model_facts, periodic
        See :class:`IMDSource`.
    idle_end : float, optional
        Seconds without growth after which the file counts as finished; None follows it forever.

    Notes
    -----
    Complete frames are found by their headers. Where a frame is damaged, it is rejected,
    and reading goes on at the next sound header. The position is ``{"frame": n, "byte": b,
    "mark": checksums}``, with ``"searching": True`` where a sound header is still to be found.
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
        self.paths = (self.name,)
        self._format = growing_format(self.name)
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
        self._data, self._told_half = b"", False
        self._frame = self._byte = 0  # where that frame, and self._data, begin
        self._missing = 0  # bytes that the frame begun in self._data still lacks
        # Whether the header of the file was read, and whether a sound frame is looked for behind a damaged one.
        self._begun = self._searching = False

    def open(self, position: Position = None) -> None:
        """Open the file and go to a frame."""
        if position is not None and "frame" not in position:
            raise SourceError(
                f"{self.name} was read as a complete file when the checkpoint was begun; resume in the same way "
                "(without --follow), or start over with another checkpoint"
            )
        wanted = position or {"frame": 0}
        self._frame, self._byte = int(wanted["frame"]), int(wanted["byte"]) if wanted["frame"] else 0
        self._data, self._told_half = b"", False
        self._begun, self._searching = False, bool(wanted.get("searching"))
        self._file.open(self._byte)
        if self._byte:
            self._past_header()
            self._file.check(self._byte, wanted["mark"])

    def poll(self, most: int, wait: float) -> Records | None:
        """Return frames that are there in whole."""
        deadline = door.monotonic() + wait
        while True:
            found = self._found(min(most, self._most))
            if len(found.starts):
                return self._decoded(found)
            if found.fault is not None:
                return self._damaged(found.fault)
            grown = self._file.read(max(READ_BYTES, self._missing))
            if grown:
                self._data += grown
            elif self._file.finished:
                return self._end()
            elif not self._file.pause(deadline - door.monotonic()):
                return self._records(())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _found(self, most: int) -> Found:
        """Find the frames that the data begin with, as far as they are whole."""
        self._missing = 0
        if not self._begun and not self._past_header():
            return _NOTHING
        if self._searching:
            self._advance(self._format.next_start(self._data))
        found = self._format.find(self._data, 0, most, self._frame)
        self._searching = self._searching and not len(found.starts)
        found, self._missing = found.complete(len(self._data))
        return found

    def _past_header(self) -> bool:
        start, size = (self._file.at(0, READ_BYTES), READ_BYTES) if self._byte else (self._data, 0)
        try:
            while not self._format.read_header(start):
                if not size or len(start) < size:
                    return False
                size *= 2
                start = self._file.at(0, size)
        except ValueError as error:
            raise SourceError(
                f"{self.name} is damaged, or of another format ({error}); nothing of it was delivered"
            ) from error
        self._begun = True
        self._atoms.check_count(self._format.n_atoms)
        self._file.fixed_from = self._format.begin  # a header counts the frames, while they are written
        if self._byte == 0:
            self._advance(self._format.begin)
        return True

    def _advance(self, length: int) -> None:
        self._data = self._data[length:]
        self._byte += length

    def _decoded(self, found: Found) -> Records:
        block = self._format.decode(self._data, found.starts, self._atoms.to_read)
        count = len(block.frames)
        if not count:
            return self._damaged("the frame cannot be decoded")
        self._advance(found.end if count == len(found.starts) else int(found.starts[count]))
        numbers = np.arange(self._frame, self._frame + count, dtype=np.int64)
        self._frame += count
        chunk, _, rejected = self._atoms.take(block, numbers)
        return self._records(rejected, chunk)

    def _damaged(self, reason: str) -> Records:
        """Reject the next frame, and go on at the next sound header."""
        count = self._format.other_count(self._data)
        if count is not None:
            self._atoms.check_count(count)
        rejected = Rejected(self._frame, f"{reason}, at byte {self._byte}")
        self._frame += 1
        self._advance(self._format.step)
        self._searching = True
        return self._records((rejected,))

    def _end(self) -> Records | None:
        """Report a frame that was never finished, once, and end."""
        if not self._data or self._told_half or self._searching:
            return None
        # Sound frames may follow, if its length was damaged.
        behind = self._data[self._format.step :] if self._begun else b""
        if behind and len(self._format.find(behind, self._format.next_start(behind), 1).starts):
            return self._damaged("the frame is cut off, or its length is damaged")
        self._told_half = True
        reason = f"the frame was not finished when the file stopped growing ({len(self._data)} bytes of it are there)"
        return self._records((Rejected(self._frame, reason),))

    def _records(self, rejected: tuple[Rejected, ...], chunk: FrameChunk | None = None) -> Records:
        position: dict[str, Any] = {"frame": self._frame}
        if self._frame:
            position |= {"byte": self._byte, "mark": self._file.mark(self._byte)}
        if self._searching:
            position["searching"] = True
        if chunk is None:
            return Records.none(rejected, position)
        arrived = np.full(len(chunk), door.monotonic())
        return Records(chunk.frames, chunk.numbers, chunk.times, arrived, rejected, position)
