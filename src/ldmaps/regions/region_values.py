"""Checking the values that regions are made of."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError

#: Largest value: its square, and sums of a few of them, are still numbers.
LARGEST = 1e150

__all__ = ["LARGEST", "column", "column_of", "finite", "not_negative"]


def column_of(name: str) -> int:
    """Return which column of the coordinates has a name: "psi2" is column 0."""
    match = re.fullmatch(r"psi([0-9]{1,9})", name) if isinstance(name, str) else None
    if match is None or int(match[1]) < 2:
        raise InvalidInputError(f"coordinates are called psi2, psi3, ..., got {name!r:.80}")
    return int(match[1]) - 2


def column(coordinates: NDArray[Any], place: int) -> NDArray[np.float64]:
    """Return one coordinate in double precision."""
    return np.asarray(coordinates[:, place], dtype=np.float64)


def finite(what: str, value: Any) -> float:
    """Return a value as float, or raise."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    # Compared rather than asked with isfinite: an integer of a file may be longer than any float.
    if not is_number or not -LARGEST <= value <= LARGEST:
        rule = f"at most {LARGEST:g}" if is_number and abs(value) > LARGEST else "a finite number"
        raise InvalidInputError(f"{what} must be {rule}, got {value!r:.80}")
    return float(value)


def not_negative(what: str, value: Any) -> float:
    """Return a value of 0 or more as float, or raise."""
    number = finite(what, value)
    if number < 0:
        raise InvalidInputError(f"{what} must be 0 or more, got {value!r}")
    return number
