"""What many settings are checked for."""

from __future__ import annotations

from numbers import Real

__all__ = ["is_whole_number"]


def is_whole_number(value: object) -> bool:
    """Say whether a setting is a whole number, 3.0 included and True not."""
    return not isinstance(value, bool) and isinstance(value, Real) and float(value).is_integer()
