"""What many settings are checked for."""

from __future__ import annotations

import re
from numbers import Real

from ldmaps.errors import InvalidInputError

__all__ = ["is_whole_number", "size_in_bytes"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", re.IGNORECASE)


def is_whole_number(value: object) -> bool:
    """Say whether a setting is a whole number, 3.0 included and True not."""
    return not isinstance(value, bool) and isinstance(value, Real) and float(value).is_integer()


def size_in_bytes(name: str, size: object) -> int:
    """Return a size given as a number of bytes or with a unit, or raise.

    >>> size_in_bytes("piece", "64MB"), size_in_bytes("piece", "1.5 GiB"), size_in_bytes("piece", 4096)
    (64000000, 1610612736, 4096)
    """
    n_bytes = 0.0
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        if match:
            n_bytes = float(match[1]) * _UNITS[(match[2] or "").lower()]
    elif is_whole_number(size):
        n_bytes = float(size)  # type: ignore[arg-type]
    if not 1 <= n_bytes < 1 << 50:
        raise InvalidInputError(f'{name} must be a size such as "64MB", or a number of bytes, got {size!r}')
    return int(n_bytes)
