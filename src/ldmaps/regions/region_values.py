"""Checking the values that regions are made of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError

__all__ = [
    "check_columns",
    "column",
    "column_of",
    "finite",
    "interval",
    "not_negative",
    "or_none",
    "settings",
]


def column_of(name: str) -> int:
    """Return which column of the coordinates has a name.

    >>> column_of("psi2")
    0
    """
    match = re.fullmatch(r"psi([0-9]+)", name) if isinstance(name, str) else None
    if match is None or int(match[1]) < 2:
        raise InvalidInputError(f"coordinates are called psi2, psi3, ..., got {name!r}")
    return int(match[1]) - 2


def check_columns(names: Iterable[str], model: Any) -> None:
    """Raise when a map lacks one of the coordinates."""
    k = int(model.n_components_)
    for name in names:
        if column_of(name) >= k:
            raise InvalidInputError(
                f"{name} is not a coordinate of this map, which has {k} (psi2 to psi{k + 1}); "
                "name another one, or fit the map with more components"
            )


def column(coordinates: NDArray[Any], place: int) -> NDArray[np.float64]:
    """Return one coordinate in double precision."""
    return np.asarray(coordinates[:, place], dtype=np.float64)


def settings(facts: Mapping[str, Any], needed: set[str], optional: set[str]) -> dict[str, Any]:
    """Return a region's table without its kind, or raise when settings lack or are unknown."""
    given = {key: value for key, value in facts.items() if key != "kind"}
    missing, unknown = sorted(needed - set(given)), sorted(set(given) - needed - optional)
    if missing:
        raise InvalidInputError(f"a {facts['kind']} needs {' and '.join(missing)}")
    if unknown:
        known = ", ".join(sorted(needed | optional)) or "no settings"
        raise InvalidInputError(f"a {facts['kind']} has no {unknown[0]!r}; it has {known}")
    return given


def finite(what: str, value: Any) -> float:
    """Return a value as float, or raise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
        raise InvalidInputError(f"{what} must be a finite number, got {value!r}")
    return float(value)


def not_negative(what: str, value: Any) -> float:
    """Return a value of 0 or more as float, or raise."""
    number = finite(what, value)
    if number < 0:
        raise InvalidInputError(f"{what} must be 0 or more, got {value!r}")
    return number


def interval(name: str, pair: Any) -> tuple[float, float]:
    """Return a box's bounds on one coordinate, ±inf where open, or raise."""
    column_of(name)
    if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise InvalidInputError(f"the bounds of {name} are a pair [low, high], got {pair!r}")
    low = -math.inf if _is_open(pair[0]) else finite(f"the lower bound of {name}", pair[0])
    high = math.inf if _is_open(pair[1]) else finite(f"the upper bound of {name}", pair[1])
    if pair[0] == math.inf or pair[1] == -math.inf or low >= high:
        raise InvalidInputError(
            f"the bounds {pair!r} of {name} leave an empty box; the lower one comes first"
        )
    return low, high


def _is_open(bound: Any) -> bool:
    return bound is None or (isinstance(bound, float) and math.isinf(bound))


def or_none(bound: float) -> float | None:
    """Return a bound as JSON can hold it."""
    return None if math.isinf(bound) else bound
