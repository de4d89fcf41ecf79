"""Damage: sound bytes, JSON and archives made hostile."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from ldmaps.archive import read_archive, write_archive

__all__ = ["Random", "altered", "altered_archive", "altered_array", "picked", "spoiled"]

Random = np.random.Generator
#: Values that no entry of a header, a region or a checkpoint expects.
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2.5, -0.0, 1e308, 1e-320, 10**400, 2**63, -(2**63), "", "x", "x" * 5000),
    *(1e153, 1e-160, 1e30, 1e-30, 1e39),
    *("\x1b[2J\x1b]0;owned\x07", "\u202egnp.exe", "\x9b31m", "../../etc/passwd", "psi2", "\ud800", "nan"),
    *([], {}, [[]], [None], [1, 2, 3], [1e400, "x"], {"a": {"b": []}}, {"__metric__": "rmsd"}),
    *({"__array__": [[1], [2, 3]], "dtype": "float64"}, {"__selector__": "kmedoids", "settings": {}}),
)


def spoiled(rng: Random, data: bytes) -> bytes:
    """Flip, cut, repeat and insert bytes."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(0, len(changed) + 1))
        size = int(rng.integers(1, 40))
        match int(rng.integers(5)):
            case 0 if place < len(changed):
                changed[place] ^= 1 << int(rng.integers(8))
            case 1:
                del changed[place : place + size]
            case 2:
                changed[place:place] = rng.bytes(size)
            case 3:
                changed[place:place] = changed[place : place + size]
            case _:
                changed[place : place + 4] = struct.pack("<i", int(rng.choice([-1, 0, 2**31 - 1, 65535])))
    return bytes(changed)


def altered(rng: Random, value: Any) -> Any:
    """Return JSON with one place of it replaced, removed or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        if rng.random() < 0.15:
            return {name: entry for name, entry in value.items() if name != key}
        if rng.random() < 0.1:
            return {**value, str(rng.integers(10)): picked(rng)}
        return {**value, key: altered(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = int(rng.integers(len(value)))
        if rng.random() < 0.2:
            return value[:place] + value[place + 1 :]
        return [*value[:place], altered(rng, value[place]), *value[place + 1 :]]
    return picked(rng)


def picked(rng: Random) -> Any:
    """Return a hostile value."""
    return HOSTILE[int(rng.integers(len(HOSTILE)))]


def altered_array(rng: Random, array: Any) -> Any:
    """Return an array with another value, shape or dtype."""
    match int(rng.integers(6)):
        case 0 if array.size:
            array = array.copy()
            extremes = [0.0, 7.0]
            if array.dtype.kind == "f":
                limits = np.finfo(array.dtype)
                extremes += [
                    np.nan,
                    np.inf,
                    -1.0,
                    1e30,
                    1e300,
                    limits.max,
                    -limits.max,
                    limits.tiny,
                    limits.max**0.5,
                ]
            else:
                extremes += [float(rng.integers(99))]
            place = slice(None) if rng.random() < 0.3 else int(rng.integers(array.size))
            with np.errstate(all="ignore"):
                array.flat[place] = rng.choice(extremes)
            return array
        case 1:
            return array.astype(rng.choice(["f4", "f8", "i4", "i8", "b1"]))
        case 2:
            return array[: int(rng.integers(len(array) + 1))] if array.ndim else array
        case 3:
            return array[None]
        case 4:
            return array.T.copy()
        case _:
            return array.ravel()


def altered_archive(rng: Random, source: Path, path: Path) -> None:
    """Write an archive again with hostile content, whole and signed."""
    header, arrays = read_archive(source)
    for _ in range(int(rng.integers(1, 3))):
        if rng.random() < 0.5:
            header = altered(rng, header)
            header = header if isinstance(header, dict) else {"format": header}
        else:
            name = list(arrays)[int(rng.integers(len(arrays)))]
            match int(rng.integers(8)):
                case 0:
                    arrays.pop(name)
                case 1:
                    arrays[f"{name}x"] = arrays.pop(name)
                case _:
                    arrays[name] = altered_array(rng, arrays[name])
        if not arrays:
            break
    try:
        write_archive(path, header, arrays)
    except (ValueError, OverflowError):  # NaN or half a surrogate, which no archive holds
        path.write_bytes(source.read_bytes())
