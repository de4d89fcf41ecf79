"""How many whole frames a DCD file holds, from its header and its size.

Readers stop at the last complete frame of a DCD without a warning. Its frames are all of one
size, so leftover bytes reveal a file that was cut off.

    int 84 │ "CORD", 20 integers │ int 84     what is in a frame, among other things
    titles                                    a record: length, that many bytes, length
    number of atoms                           a record
    (which atoms move)                        a record, if some are fixed
    frames                                    box (48 bytes), x, y, z, (fourth dimension): a record each
"""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, NamedTuple

__all__ = ["DCDLayout", "dcd_layout"]

_FIXED, _HAS_BOX, _HAS_FOURTH, _CHARMM = 8, 10, 11, 19


class DCDLayout(NamedTuple):
    """Where a DCD file's frames end.

    Attributes
    ----------
    whole : int
        Frames that are there in full.
    left_over : int
        Bytes behind the last of them.
    announced : int
        Frames that the header announces; programs that crash or append leave it behind, so it may be 0.
    """

    whole: int
    left_over: int
    announced: int


def dcd_layout(path: str | os.PathLike[str]) -> DCDLayout | None:
    """Return a DCD file's layout, or None when its header is of a kind that is not known here."""
    try:
        with open(path, "rb") as stream:
            return _layout(stream, os.path.getsize(path))
    except (struct.error, ValueError):
        return None


def _layout(stream: BinaryIO, size: int) -> DCDLayout | None:
    first = stream.read(8)
    # Record marks are 4 bytes long, or 8, in either byte order.
    for mark, order in (("q", "<"), ("q", ">"), ("i", "<"), ("i", ">")):
        if len(first) == 8 and struct.unpack_from(order + mark, first)[0] == 84:
            break
    else:
        return None
    stream.seek(0)
    width = struct.calcsize(order + mark)

    def record() -> bytes:
        length = struct.unpack(order + mark, stream.read(width))[0]
        if not 0 <= length <= size:
            raise ValueError(length)
        data = stream.read(length)
        if struct.unpack(order + mark, stream.read(width))[0] != length:
            raise ValueError(length)
        return data

    head = record()
    if head[:4] != b"CORD":
        return None
    numbers = struct.unpack(order + "20i", head[4:])
    record()
    n_atoms = struct.unpack(order + "i", record()[:4])[0]
    n_fixed = numbers[_FIXED]
    if n_fixed:
        record()
    extra = 0
    if numbers[_CHARMM]:  # X-PLOR has half of a longer number where CHARMM has these
        extra += 48 + 2 * width if numbers[_HAS_BOX] else 0
        extra += 4 * n_atoms + 2 * width if numbers[_HAS_FOURTH] else 0
    # Fixed atoms stand in the first frame only.
    begin = extra + 3 * (4 * n_atoms + 2 * width)
    other = extra + 3 * (4 * (n_atoms - n_fixed) + 2 * width)
    rest = size - stream.tell()
    if n_atoms < 1 or other < 1:
        return None
    if rest < begin:
        return DCDLayout(0, rest, numbers[0])
    following, left_over = divmod(rest - begin, other)
    return DCDLayout(1 + following, left_over, numbers[0])
