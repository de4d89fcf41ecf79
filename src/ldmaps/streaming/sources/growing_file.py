"""A file that another process appends to, read from a byte onwards."""

from __future__ import annotations

import os

from ldmaps import door
from ldmaps.errors import InvalidInputError, SourceError
from ldmaps.settings import check_seconds
from ldmaps.streaming.fingerprint import TAIL, Fingerprint, read_all_at

#: Seconds between two looks at a file that has not grown.
_LOOK_EVERY = 0.05
#: Bytes to read at once.
READ_BYTES = 1 << 20


class GrowingFile:
    """Bytes of a file as they are appended, until it has not grown for ``idle_end`` seconds (None: forever)."""

    def __init__(self, path: str | int, idle_end: float | None = None, name: str = "") -> None:
        check_seconds("idle_end", idle_end)
        self.path = path  # or a descriptor, which stays open
        self._name = name or path
        self.idle_end = idle_end
        self.read_to = 0
        self.fixed_from = 0
        self._last = b""  # bytes before self.read_to, as they were read
        self._descriptor = -1
        self._grown = 0.0

    def open(self, byte: int = 0, fixed_from: int = 0) -> None:
        """Go to a byte; those before ``fixed_from`` do not count."""
        if not 0 <= fixed_from <= byte:
            raise ValueError(f"byte {byte} of a file that begins at {fixed_from}")
        self.fixed_from = fixed_from
        if isinstance(self.path, int):
            self._descriptor = self.path
        else:
            if door.isdir(self.path):
                raise InvalidInputError(f"{self._name} is a directory; name a file")
            self._descriptor = door.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        size = door.fstat(self._descriptor).st_size
        if size < byte:
            raise SourceError(
                f"{self._name} shrank: it has {size} bytes, but {byte} were read before; start over without the "
                "checkpoint if it was overwritten"
            )
        self.read_to = byte
        self._last = b""
        self._fingerprint: Fingerprint | None = None
        self._grown = door.monotonic()

    def check(self, byte: int, mark: list[int]) -> None:
        """Raise unless :meth:`mark` said the same of this byte in an earlier run."""
        if mark != self.mark(byte):
            raise SourceError(
                f"{self._name} is not the file that was read before: it differs before byte {byte}; start over "
                "without the checkpoint if it was overwritten"
            )

    def mark(self, byte: int) -> list[int]:
        """Return checksums of the file up to a byte, which never moves back."""
        if self._fingerprint is None:
            self._fingerprint = Fingerprint(min(self.fixed_from, byte))
        self._fingerprint.add_from(self._descriptor, byte)
        return self._fingerprint.mark()

    def read(self, most: int = READ_BYTES) -> bytes:
        """Return what was appended since the last time, up to so many bytes; nothing if nothing was."""
        fixed = max(0, self.read_to - self.fixed_from)
        before = self._last[max(0, len(self._last) - fixed) :]
        data = door.read_at(self._descriptor, self.read_to - len(before), len(before) + most)
        is_same, data = before.startswith(data[: len(before)]), data[len(before) :]
        if not data or not is_same:
            self._check_same(is_same)
            return b""
        self.read_to += len(data)
        self._last = (self._last + data)[-TAIL:]
        self._grown = door.monotonic()
        return data

    def at(self, byte: int, count: int) -> bytes:
        """Return bytes from elsewhere in the file."""
        return read_all_at(self._descriptor, byte, count)

    @property
    def finished(self) -> bool:
        """Whether the file has not grown for ``idle_end`` seconds."""
        return self.idle_end is not None and door.monotonic() - self._grown >= self.idle_end

    def pause(self, longest: float) -> bool:
        """Wait until the next look; return whether there was time for that."""
        if longest > 0:
            door.sleep(min(_LOOK_EVERY, longest))
        return longest > 0

    def close(self) -> None:
        """Release the file."""
        if self._descriptor >= 0 and not isinstance(self.path, int):
            door.close(self._descriptor)
        self._descriptor = -1

    def _check_same(self, is_same: bool) -> None:
        mine = door.fstat(self._descriptor)
        if mine.st_size < self.read_to:
            raise SourceError(
                f"{self._name} shrank from {self.read_to} to {mine.st_size} bytes while it was read; what was "
                "written over is lost. Append to the file, or write a new one and start over"
            )
        if not is_same:
            raise SourceError(
                f"{self._name} was overwritten while it was read: it differs before byte {self.read_to}; what was "
                "written there is lost. Append to the file, or write a new one and start over"
            )
        try:
            named = door.stat(self.path)
        except FileNotFoundError:
            raise SourceError(f"{self._name} was removed or renamed while it was read") from None
        if not os.path.samestat(mine, named):
            raise SourceError(
                f"{self._name} was replaced by another file while it was read (a rotated log?); all of the old file "
                "was delivered. Start over for the new one"
            )
