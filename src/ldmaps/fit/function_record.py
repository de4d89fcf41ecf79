"""What a map knows of functions that were learned on it: what they are called and how they were found."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldmaps.errors import InvalidInputError

#: What functions may be.
KINDS = ("slow modes", "committor", "passage time", "observable")
#: Columns that tables of embedded points have anyway.
TAKEN = frozenset(["file", "frame", "time", "distance", "inside", "nearest", "p", "number", "region"])
#: How engines and tables spell names.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class FunctionRecord:
    """Names of functions and what was found about them."""

    kind: str  # one of KINDS
    names: tuple[str, ...]  # (k,): what the coordinates are called
    #: numbers and texts, or lists of them, by name; None is a number that is not finite
    facts: Mapping[str, Any]
    lines: tuple[str, ...] = ()  # the same in words

    @classmethod
    def of(
        cls, kind: str, names: Sequence[str], facts: Mapping[str, Any], lines: Sequence[str]
    ) -> FunctionRecord:
        """Make a record of arrays and numbers, with names that are checked."""
        check_names(names)
        plain = {name: _plain(value) for name, value in facts.items()}
        return cls(kind, tuple(names), plain, tuple(lines))


def check_names(names: Sequence[str]) -> None:
    """Raise unless these can be names of coordinates."""
    for name in names:
        if not is_name(name):
            raise InvalidInputError(
                f"a coordinate cannot be called {name!r:.80}: its name must begin with a letter, continue with "
                f"letters, digits or _, have at most 40 of them, and not be one of {', '.join(sorted(TAKEN))}"
            )
    if len(set(names)) < len(names):
        raise InvalidInputError(f"coordinates need different names, got {', '.join(names)}")


def is_name(name: object) -> bool:
    """Say whether a coordinate can be called this."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and name not in TAKEN


def _plain(value: Any) -> Any:
    """Return an array or a number as JSON has them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
