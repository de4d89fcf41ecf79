"""A file that another process appends to, read from a byte onwards."""

from __future__ import annotations

import os
import time

from ldmaps.errors import InvalidInputError, SourceError
from ldmaps.streaming.sources.file_tail import read_at, tail_checksum

__all__ = ["LOOK_EVERY", "READ_BYTES", "GrowingFile"]

#: Seconds between two looks at a file that has not grown.
LOOK_EVERY = 0.05
#: Bytes to read at once.
READ_BYTES = 1 << 20


class GrowingFile:
    """Bytes of a file as they are appended.

    Parameters
    ----------
    path : str
    idle_end : float, optional
        Seconds without growth after which the file counts as finished; None follows it for ever.

    Notes
    -----
    A file that becomes shorter, or gives its name to another one, raises
    SourceError, once all that was in it has been read: what comes then is not a
    continuation.
    """

    def __init__(self, path: str, idle_end: float | None = None) -> None:
        if idle_end is not None and not idle_end >= 0:
            raise InvalidInputError(f"idle_end must be a number of seconds of at least 0, got {idle_end!r}")
        self.path = path
        self.idle_end = idle_end
        self.read_to = 0
        self._descriptor = -1
        self._grown = 0.0

    def open(self, byte: int = 0, tail: int | None = None) -> None:
        """Go to a byte; ``tail`` is what :meth:`tail` said there in an earlier run."""
        if os.path.isdir(self.path):
            raise InvalidInputError(f"{self.path} is a directory; name a file")
        self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        size = os.fstat(self._descriptor).st_size
        if size < byte:
            raise SourceError(
                f"{self.path} shrank: it has {size} bytes, but {byte} were read before; start over without the "
                "checkpoint if it was written anew"
            )
        if tail is not None and tail != self.tail(byte):
            raise SourceError(
                f"{self.path} is not the file that was read before: it differs before byte {byte}; start over "
                "without the checkpoint if it was written anew"
            )
        self.read_to = byte
        self._grown = time.monotonic()

    def tail(self, byte: int) -> int:
        """Return a checksum of the bytes just before one."""
        return tail_checksum(self._descriptor, byte)

    def read(self, most: int = READ_BYTES) -> bytes:
        """Return what was appended since the last time, up to so many bytes; nothing if nothing was."""
        data = self.at(self.read_to, most)
        if data:
            self.read_to += len(data)
            self._grown = time.monotonic()
        else:
            self._check_same()
        return data

    def at(self, byte: int, count: int) -> bytes:
        """Return bytes from elsewhere in the file."""
        return read_at(self._descriptor, byte, count)

    @property
    def finished(self) -> bool:
        """Whether the file has not grown for ``idle_end`` seconds."""
        return self.idle_end is not None and time.monotonic() - self._grown >= self.idle_end

    def pause(self, deadline: float) -> bool:
        """Wait until the next look; return False when the deadline has passed."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(LOOK_EVERY, left))
        return True

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _check_same(self) -> None:
        mine = os.fstat(self._descriptor)
        if mine.st_size < self.read_to:
            raise SourceError(
                f"{self.path} shrank from {self.read_to} to {mine.st_size} bytes while it was read; what was "
                "written over is lost. Append to the file, or write a new one and start over"
            )
        try:
            named = os.stat(self.path)
        except FileNotFoundError:
            raise SourceError(f"{self.path} was removed or renamed while it was read") from None
        if not os.path.samestat(mine, named):
            raise SourceError(
                f"{self.path} was replaced by another file while it was read (a rotated log?); all of the old file "
                "was delivered. Start over for the new one"
            )
