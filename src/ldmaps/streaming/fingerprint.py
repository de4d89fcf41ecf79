"""How a file is recognised: by checksums of its first gigabyte and of its last bytes."""

from __future__ import annotations

import zlib

from ldmaps import door

#: Bytes from the beginning and before the end that are compared, and that are read at once. With a checksum of
#: everything, resuming would take as long as reading did; one of the last bytes alone misses a change before them.
_HEAD, TAIL, _PIECE = 1 << 30, 1 << 12, 1 << 20


class Fingerprint:
    """Checksums of a file from byte ``begin`` (those before it may change) to ``end``, which moves on."""

    def __init__(self, begin: int = 0) -> None:
        self.begin = begin
        self.end = begin
        self.tail = b""
        self._head = 0

    def add(self, data: bytes) -> None:
        """Move the end on, by bytes that were written or read there."""
        left = _HEAD - (self.end - self.begin)
        if left > 0:
            self._head = zlib.crc32(data[:left], self._head)
        self.end += len(data)
        self.tail = (self.tail + data)[-TAIL:] if len(data) < TAIL else data[-TAIL:]

    def add_from(self, descriptor: int, end: int) -> None:
        """Move the end on, by bytes of an open file; of one that is too short, by those it has."""
        while self.end < end:
            if self.end - self.begin >= _HEAD and self.end < end - TAIL:
                self.end, self.tail = end - TAIL, b""
            data = door.read_at(descriptor, self.end, min(_PIECE, end - self.end))
            if not data:
                return
            self.add(data)

    def mark(self) -> list[int]:
        """Return the checksums, for a checkpoint."""
        return [self._head, zlib.crc32(self.tail)]

    def is_at_end_of(self, descriptor: int) -> bool:
        """Return whether an open file still has the last bytes before the end."""
        return read_all_at(descriptor, self.end - len(self.tail), len(self.tail)) == self.tail


def read_all_at(descriptor: int, byte: int, count: int) -> bytes:
    """Return bytes from a place in a file, fewer than asked for only where it ends: one read may be cut short."""
    data = b""
    while len(data) < count and (piece := door.read_at(descriptor, byte + len(data), count - len(data))):
        data += piece
    return data
