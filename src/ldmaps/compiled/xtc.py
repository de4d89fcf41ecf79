"""Frames of XTC files, unpacked without the interpreter's lock.

A frame is a header of 92 bytes and a stream of bits, both big-endian. Coordinates are
whole numbers. The first of a run of atoms is given by its place within the frame's
bounds, the others by small differences; three numbers below given sizes are packed as one
number in a mixed base, of which the lowest byte comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldmaps.compiled.jit import compiled

__all__ = ["HEADER_BYTES", "MAGIC", "SIZES", "unpack_frames"]

MAGIC, HEADER_BYTES = 1995, 92
#: How many values a small difference can have, by the number of bits of three; the format's own table.
SIZES = np.array(
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 101, 128, 161, 203, 256, 322, 406, 512,
     645, 812, 1024, 1290, 1625, 2048, 2580, 3250, 4096, 5060, 6501, 8192, 10321, 13003, 16384, 20642, 26007, 32768,
     41285, 52015, 65536, 82570, 104031, 131072, 165140, 208063, 262144, 330280, 416127, 524287, 660561, 832255,
     1048576, 1321122, 1664510, 2097152],
    dtype=np.int64,
)  # fmt: skip
#: Below it there are no small differences.
_FIRST = 9
#: Three numbers are packed together only where each is below this.
_PACKED_SIZE = 1 << 24
#: No atom takes more: at most 64 bits of coordinates and 6 for the length of a run.
_ATOM_BYTES = 9
_U0, _U1, _U8 = np.uint64(0), np.uint64(1), np.uint64(8)


@compiled
def _word(data: Any, at: int) -> Any:
    """Return four bytes as a whole number without sign."""
    high = (np.uint64(data[at]) << np.uint64(24)) | (np.uint64(data[at + 1]) << np.uint64(16))
    return high | (np.uint64(data[at + 2]) << _U8) | np.uint64(data[at + 3])


@compiled
def _signed(data: Any, at: int) -> Any:
    """Return four bytes as a whole number."""
    value = np.int64(_word(data, at))
    return value - (1 << 32) if value >= 1 << 31 else value


@compiled
def _bits(data: Any, stop: int, at: int, held: Any, n_held: int, count: int) -> Any:
    """Return the next ``count`` bits, at most 32, the next byte's place, and bits that were read but not used.

    Behind ``stop`` all bits are 0; the caller sees from the place that they are.
    """
    while n_held < count:
        held = (held << _U8) | (np.uint64(data[at]) if at < stop else _U0)
        at += 1
        n_held += 8
    n_held -= count
    value = (held >> np.uint64(n_held)) & ((_U1 << np.uint64(count)) - _U1)
    return value, at, held, n_held


@compiled
def _three(data: Any, stop: int, at: int, held: Any, n_held: int, count: int, base: Any, last: Any) -> Any:
    """Return three numbers that are packed into ``count`` bits, the latter two below ``base`` and ``last``."""
    packed, shift = _U0, _U0
    while count > 8:
        byte, at, held, n_held = _bits(data, stop, at, held, n_held, np.int64(8))
        packed |= byte << shift
        shift += _U8
        count -= 8
    byte, at, held, n_held = _bits(data, stop, at, held, n_held, count)
    packed |= byte << shift
    rest = packed // last
    first = rest // base
    return (
        np.int64(first),
        np.int64(rest - first * base),
        np.int64(packed - rest * last),
        at,
        held,
        n_held,
    )


@compiled
def _unpack(data: Any, begin: int, stop: int, sizes: Any, inverse: Any, out: Any) -> bool:
    """Unpack the frame whose header is at ``begin`` and whose bits end at ``stop``; return whether that was certain."""
    n_atoms = out.shape[0]
    low_x, low_y, low_z = _signed(data, begin + 60), _signed(data, begin + 64), _signed(data, begin + 68)
    size_x = _signed(data, begin + 72) - low_x + 1
    size_y = _signed(data, begin + 76) - low_y + 1
    size_z = _signed(data, begin + 80) - low_z + 1
    small = _signed(data, begin + 84)
    if size_x < 1 or size_y < 1 or size_z < 1:
        return False
    if size_x >= _PACKED_SIZE or size_y >= _PACKED_SIZE or size_z >= _PACKED_SIZE:
        return False
    if small < _FIRST or small >= sizes.size:
        return False
    # The product must fit into 64 bits, and so must three small differences.
    if np.float64(size_x) * np.float64(size_y) * np.float64(size_z) >= 1.8e19:
        return False
    product, n_bits = np.uint64(size_x) * np.uint64(size_y) * np.uint64(size_z), 0
    while product > _U0:
        product >>= _U1
        n_bits += 1
    base_y, base_z = np.uint64(size_y), np.uint64(size_z)
    at, held, n_held = begin + HEADER_BYTES, _U0, np.int64(0)
    atom, run = np.int64(0), np.int64(0)
    while atom < n_atoms:
        x, y, z, at, held, n_held = _three(data, stop, at, held, n_held, n_bits, base_y, base_z)
        x += low_x
        y += low_y
        z += low_z
        flag, at, held, n_held = _bits(data, stop, at, held, n_held, np.int64(1))
        change = np.int64(0)
        if flag == _U1:
            code, at, held, n_held = _bits(data, stop, at, held, n_held, np.int64(5))
            run = np.int64(code) // 3
            change = np.int64(code) - 3 * run - 1
        if atom + 1 + run > n_atoms:
            return False
        # The first two atoms of a run are interchanged, for the sake of water.
        place = atom + 1 if run > 0 else atom
        out[place, 0], out[place, 1], out[place, 2] = (
            np.float32(x) * inverse,
            np.float32(y) * inverse,
            np.float32(z) * inverse,
        )
        for step in range(run):
            size = sizes[small]
            dx, dy, dz, at, held, n_held = _three(
                data, stop, at, held, n_held, small, np.uint64(size), np.uint64(size)
            )
            x += dx - size // 2
            y += dy - size // 2
            z += dz - size // 2
            place = atom if step == 0 else atom + 1 + step
            out[place, 0], out[place, 1], out[place, 2] = (
                np.float32(x) * inverse,
                np.float32(y) * inverse,
                np.float32(z) * inverse,
            )
        atom += 1 + run
        small += change
        if small < _FIRST or small >= sizes.size:
            return False
    return at <= stop


@compiled
def unpack_frames(
    data: Any, n_atoms: int, atoms: Any, sizes: Any, scratch: Any, frames: Any, heads: Any, values: Any
) -> Any:
    """Unpack frames until there is no room, or no whole one left.

    Parameters
    ----------
    data : ndarray of uint8
        Frames, one after the other; the last may be cut off.
    n_atoms : int
        Of every frame; more than 9, which are not packed.
    atoms : ndarray of int
        Those to keep; none keeps all.
    sizes : ndarray
        SIZES.
    scratch : ndarray of shape (n_atoms, 3), float32
        Used where not all atoms are kept.
    frames : ndarray of shape (n, atoms kept, 3), float32
        In nm.
    heads, values : ndarray of shape (n, 12), uint32 and float32
        Step, time, box and precision; the same memory.

    Returns
    -------
    count : int
        How many frames were unpacked.
    at : int
        The byte behind them.
    odd : bool
        Whether the frame there is not as it should be.
    """
    at, count = np.int64(0), np.int64(0)
    while count < frames.shape[0] and at + HEADER_BYTES <= data.size:
        packed = _signed(data, at + 88)
        known = _signed(data, at) == MAGIC and _signed(data, at + 4) == n_atoms
        if not known or _signed(data, at + 52) != n_atoms or packed < 0:
            return count, at, True
        # A damaged length must not make the caller read gigabytes in search of the frame's end.
        if packed > _ATOM_BYTES * n_atoms:
            return count, at, True
        stop = at + HEADER_BYTES + packed
        end = at + HEADER_BYTES + (packed + 3) // 4 * 4
        if end > data.size:
            break
        for place in range(11):
            heads[count, place] = _word(data, at + 8 + 4 * place)
        heads[count, 11] = _word(data, at + 56)
        precision = values[count, 11]
        if not precision > 0:
            return count, at, True
        inverse = np.float32(1.0 / np.float64(precision))
        if not _unpack(data, at, stop, sizes, inverse, scratch if atoms.size > 0 else frames[count]):
            return count, at, True
        for place in range(atoms.size):
            for axis in range(3):
                frames[count, place, axis] = scratch[atoms[place], axis]
        at = end
        count += 1
    return count, at, False
