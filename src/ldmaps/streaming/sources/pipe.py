"""Bytes that come through a pipe, and files that are read like one."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ldmaps import door
from ldmaps.errors import InvalidInputError, SourceError
from ldmaps.streaming.fingerprint import Fingerprint
from ldmaps.streaming.records import Position, Records
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.decoders import open_decoder
from ldmaps.streaming.sources.decoding import Decoder, form_of

__all__ = ["FileSource", "PipeSource", "open_stdin"]

#: Bytes to read at once.
READ_BYTES = 1 << 18
#: Bytes that one poll reads at most beyond the first record.
POLL_BYTES = 4 << 20


def open_stdin(
    form: str | None = None,
    facts: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
) -> Source:
    """Return what stdin is: a pipe, or a file that was redirected and can be read again."""
    if stat.S_ISREG(door.fstat(0).st_mode):
        return FileSource(0, form, facts, columns, name="stdin")
    return PipeSource(0, form, facts, columns, name="stdin")


class _ByteSource(Source):
    """What pipes and files share: bytes that are read, decoded and, whatever then fails, delivered."""

    def __init__(
        self,
        form: str | None,
        facts: Mapping[str, Any] | None,
        columns: Sequence[str] | None,
    ) -> None:
        self._settings = form, facts, columns
        self._descriptor = -1
        self._begin()

    def _begin(self) -> None:
        self._decoder: Decoder = open_decoder(*self._settings)
        self._ended = False
        self._failure: Exception | None = None

    def _feed(self) -> int:
        """Read the next piece into the decoder; return its length, 0 at the end."""
        try:
            data = door.read(self._descriptor, READ_BYTES)
            if data:
                self._decoder.feed(data, door.monotonic())
            else:
                self._decoder.finish()
        except Exception as error:  # raised once what came before it has been taken
            self._failure, data = error, b""
        self._ended = not data
        return len(data)

    def _taken(self, most: int) -> Records | None:
        """Return records that are ready, None at the end."""
        if self._decoder.ready or not self._ended:
            return self._decoder.take(most)
        if self._failure is not None:
            raise self._failure
        return None


class PipeSource(_ByteSource):
    """NDJSON, CSV or npy messages from a pipe, socket or terminal, whose descriptor is not closed."""

    def __init__(
        self,
        descriptor: int,
        form: str | None = None,
        facts: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        *,
        name: str = "the pipe",
    ) -> None:
        super().__init__(form, facts, columns)
        self.name = name
        self._descriptor = descriptor

    def open(self, position: Position = None) -> None:
        """Begin to listen."""
        self._begin()

    def poll(self, most: int, wait: float) -> Records | None:
        """Return what has come through."""
        deadline = door.monotonic() + wait
        read = 0
        while not self._ended:
            enough = self._decoder.ready >= most or read >= POLL_BYTES
            wait = 0.0 if self._decoder.ready else deadline - door.monotonic()
            if (self._decoder.ready and enough) or not door.is_readable(self._descriptor, wait):
                break
            read += self._feed()
        records = self._taken(most)
        if records is not None:
            records.position = None  # a pipe cannot go back
        return records


class FileSource(_ByteSource):
    """Records of a file that is complete: a path, or a descriptor, which is read from where it stands."""

    replayable: ClassVar[bool] = True
    reads_ahead: ClassVar[bool] = True

    def __init__(
        self,
        file: str | os.PathLike[str] | int,
        form: str | None = None,
        facts: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self._file = file
        self.paths = (file if isinstance(file, int) else os.fspath(file),)
        self.name = name or os.fspath(file if not isinstance(file, int) else f"descriptor {file}")
        super().__init__(form or form_of(self.name), facts, columns)
        self._start = 0

    def open(self, position: Position = None) -> None:
        """Open the file and go to a byte."""
        if isinstance(self._file, int):
            self._descriptor = self._file
            self._start = door.lseek(self._descriptor, 0, os.SEEK_CUR)
        else:
            if door.isdir(self._file):
                raise InvalidInputError(f"{self.name} is a directory; name a file")
            self._descriptor = door.open(self._file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._begin()
        if position is not None:
            self._start = int(position.get("start", 0))  # a growing file is read from its first byte
        self._read = Fingerprint(self._start)
        if position is None:
            return
        offset = int(position["offset"])
        if self._start < 0:
            raise ValueError(f"a beginning at byte {self._start}")
        self._read.add_from(self._descriptor, self._start + offset)
        if self._read.end != self._start + offset or self._read.mark() != position["mark"]:
            raise SourceError(
                f"{self.name} is not the file that was read before: it differs before byte {self._start + offset}; "
                "start over without the checkpoint if it was overwritten"
            )
        door.lseek(self._descriptor, self._start + offset, os.SEEK_SET)
        self._decoder.restore(position)

    def poll(self, most: int, wait: float) -> Records | None:
        """Return the next records; a file never lets wait."""
        read = 0
        while (
            self._decoder.ready < most and not self._ended and (read < POLL_BYTES or not self._decoder.ready)
        ):
            read += self._feed()
        records = self._taken(most)
        if records is not None:
            self._read.add_from(self._descriptor, self._start + records.position["offset"])
            records.position = {**records.position, "start": self._start, "mark": self._read.mark()}
            # How long a line waited in a file says nothing; the clock runs from here.
            records.arrived = np.full(len(records), door.monotonic())
        return records

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._descriptor >= 0 and not isinstance(self._file, int):
            door.close(self._descriptor)
        self._descriptor = -1
