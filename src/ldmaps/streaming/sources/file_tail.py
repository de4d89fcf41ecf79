"""By what a file is known again: the bytes just before the place up to which it was read."""

from __future__ import annotations

import os
import zlib

__all__ = ["read_at", "tail_checksum"]

#: Bytes that are looked at.
_TAIL = 64


def tail_checksum(descriptor: int, byte: int) -> int:
    """Return a checksum of the bytes just before one."""
    begin = max(0, byte - _TAIL)
    return zlib.crc32(read_at(descriptor, begin, byte - begin))


def read_at(descriptor: int, byte: int, count: int) -> bytes:
    """Return up to ``count`` bytes from a place in a file; where it is read on stays where it was."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, byte)
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, byte, os.SEEK_SET)
    data = os.read(descriptor, count)
    os.lseek(descriptor, here, os.SEEK_SET)
    return data
