"""What is wrong with points, in the same words wherever points come in: arrays, files, streams, simulations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def wrong_width(
    shape: Sequence[int], width: int, *, takes_frames: bool = False, counted: str = "numbers"
) -> str | None:
    """Return in which way points of a shape are not those of a map, whose have ``width`` numbers; None if they are."""
    if math.prod(shape) == width:
        return None
    are_frames = len(shape) == 2
    needed = f"{width // 3}" if takes_frames else f"{width}"
    if are_frames != takes_frames:
        needed += f" atoms ({width} numbers)" if takes_frames else " numbers"
    got = f"{shape[0]} atoms" if are_frames else f"{math.prod(shape)} {counted}"
    return f"{got}, but the map takes {needed}"


def not_finite(
    points: NDArray[Any], item: str = "point", numbers: Sequence[int] | NDArray[Any] | None = None
) -> str | None:
    """Return which point is the first with NaN or an infinite value, and how many have one; None if all are finite."""
    finite = np.isfinite(points)
    if finite.all():
        return None
    bad = np.flatnonzero(~finite.reshape(len(points), -1).all(axis=1))
    number = bad[0] if numbers is None else numbers[bad[0]]
    _, place = bad_value(points[bad[0]])
    return f"{item} {number} ({place}) holds NaN or an infinite value ({len(bad)} of {len(points)} here do)"


def bad_value(point: NDArray[Any]) -> tuple[Any, str]:
    """Return the first value of a point that is not finite, and where it is."""
    values = point.reshape(-1)
    place = int(np.flatnonzero(~np.isfinite(values))[0])
    return values[place], f"atom {place // 3}" if point.ndim == 2 else f"column {place + 1}"
