"""Bytes that come through a pipe, and files that are read like one."""

from __future__ import annotations

import os
import select
import stat
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ldmaps.errors import InvalidInputError, SourceError
from ldmaps.streaming.records import Position, Records
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.decoding import Decoder, form_of, open_decoder

__all__ = ["FileSource", "PipeSource", "open_stdin"]

#: Bytes to read at once.
READ_BYTES = 1 << 18
#: Bytes that one poll reads at most beyond the first record.
POLL_BYTES = 4 << 20
#: Bytes before a position by which a file is known again.
_TAIL = 64


def open_stdin(
    form: str | None = None,
    facts: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
) -> Source:
    """Return what stdin is: a pipe, or a file that was redirected and can be read again."""
    if stat.S_ISREG(os.fstat(0).st_mode):
        return FileSource(0, form, facts, columns, name="stdin")
    return PipeSource(0, form, facts, columns, name="stdin")


class PipeSource(Source):
    """NDJSON, CSV or npy messages from a pipe, socket or terminal.

    Parameters
    ----------
    descriptor : int
        Of the pipe; it is not closed.
    form, facts, columns
        As in :func:`~ldmaps.streaming.sources.decoding.open_decoder`.
    """

    def __init__(
        self,
        descriptor: int,
        form: str | None = None,
        facts: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        *,
        name: str = "the pipe",
    ) -> None:
        self.name = name
        self._descriptor = descriptor
        self._settings = form, facts, columns
        self._decoder = open_decoder(*self._settings)
        self._ended = False
        self._waiting: Any = None

    def open(self, position: Position = None) -> None:
        """Begin to listen."""
        self._decoder, self._ended = open_decoder(*self._settings), False
        if hasattr(select, "poll"):
            self._waiting = select.poll()
            self._waiting.register(self._descriptor, select.POLLIN)

    def poll(self, most: int, wait: float) -> Records | None:
        """Return what has come through."""
        deadline = time.monotonic() + wait
        read = 0
        while not self._ended:
            enough = self._decoder.ready >= most or read >= POLL_BYTES
            if self._decoder.ready and (enough or not self._readable(0.0)):
                break
            if not self._decoder.ready and not self._readable(deadline - time.monotonic()):
                break
            piece = _feed(self._decoder, self._descriptor)
            read += piece
            self._ended = piece == 0
        if self._ended and not self._decoder.ready:
            return None
        records = self._decoder.take(most)
        return Records(
            records.points, records.numbers, records.times, records.arrived, records.rejected
        )  # without the position: a pipe cannot go back

    def _readable(self, wait: float) -> bool:
        # Where pipes cannot be asked (Windows), a read waits for as long as it takes.
        return self._waiting is None or bool(self._waiting.poll(max(0.0, wait) * 1000))


class FileSource(Source):
    """Records of a file that is complete; for one that grows see :mod:`ldmaps.streaming.sources.growing`.

    Parameters
    ----------
    file : path or int
        A path, or the descriptor of a file that is open, read from where it stands.
    form, facts, columns
        As in :func:`~ldmaps.streaming.sources.decoding.open_decoder`; the format is by
        default what the file's name tells.
    """

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
        self.name = name or os.fspath(file if not isinstance(file, int) else f"descriptor {file}")
        self._settings = form or form_of(self.name), facts, columns
        self._decoder: Decoder = open_decoder(*self._settings)
        self._descriptor = -1
        self._start = 0
        self._ended = False

    def open(self, position: Position = None) -> None:
        """Open the file and go to a byte."""
        if isinstance(self._file, int):
            self._descriptor = self._file
            self._start = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        else:
            if os.path.isdir(self._file):
                raise InvalidInputError(f"{self.name} is a directory; name a file")
            self._descriptor = os.open(self._file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._decoder, self._ended = open_decoder(*self._settings), False
        if position is None:
            return
        self._start, offset = int(position["start"]), int(position["offset"])
        size = os.fstat(self._descriptor).st_size
        if size < self._start + offset or self._tail(offset) != position["tail"]:
            raise SourceError(
                f"{self.name} is not the file that was read before: it differs before byte {self._start + offset}; "
                "start over without the checkpoint if it was written anew"
            )
        os.lseek(self._descriptor, self._start + offset, os.SEEK_SET)
        self._decoder.restore(position)

    def poll(self, most: int, wait: float) -> Records | None:
        """Return the next records; a file never lets wait."""
        read = 0
        while (
            self._decoder.ready < most and not self._ended and (read < POLL_BYTES or not self._decoder.ready)
        ):
            piece = _feed(self._decoder, self._descriptor)
            read += piece
            self._ended = piece == 0
        if not self._decoder.ready:
            return None
        records = self._decoder.take(most)
        position = {**records.position, "start": self._start, "tail": self._tail(records.position["offset"])}
        # How long a line waited in a file says nothing; the clock runs from here.
        arrived = np.full(len(records), time.monotonic())
        return Records(records.points, records.numbers, records.times, arrived, records.rejected, position)

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._descriptor >= 0 and not isinstance(self._file, int):
            os.close(self._descriptor)
        self._descriptor = -1

    def _tail(self, offset: int) -> int:
        end = self._start + offset
        begin = max(0, end - _TAIL)
        return zlib.crc32(_read_at(self._descriptor, end - begin, begin))


def _read_at(descriptor: int, length: int, byte: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, length, byte)
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, byte, os.SEEK_SET)
    data = os.read(descriptor, length)
    os.lseek(descriptor, here, os.SEEK_SET)
    return data


def _feed(decoder: Decoder, descriptor: int) -> int:
    """Read the next piece into a decoder; return its length, 0 at the end."""
    data = os.read(descriptor, READ_BYTES)
    if data:
        decoder.feed(data, time.monotonic())
    else:
        decoder.finish()
    return len(data)
