"""Units of time: frames of molecules have picoseconds, rows of tables have seconds or dates."""

from __future__ import annotations

from datetime import UTC, datetime

PICOSECONDS, SECONDS = "ps", "s"

_IN_PICOSECONDS = {"ps": 1.0, "ns": 1e3, "us": 1e6, "µs": 1e6, "ms": 1e9}
_IN_SECONDS = {"s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_IN_SECONDS |= {"day": 86400.0, "d": 86400.0, "week": 604800.0, "month": 2629746.0, "year": 31556952.0}
#: How long one unit of each name is, by the unit that times are stored in.
LENGTHS = {PICOSECONDS: _IN_PICOSECONDS, SECONDS: _IN_SECONDS}
#: Above so many of the stored unit, times are easier to read in another one; the longest limit first.
_EASIER = {PICOSECONDS: ((2e4, "ns"),), SECONDS: ((2e6, "d"), (2e4, "h"))}
#: Seconds above this (the year 1973) are counted from 1970: they are dates. No experiment runs for so long.
_FIRST_DATE = 1e8


def time_unit(*, of_frames: bool) -> str:
    """Return the unit that times of frames, or else those of rows of a table, are stored in."""
    return PICOSECONDS if of_frames else SECONDS


def readable_unit(unit: str, longest: float) -> tuple[float, str]:
    """Return what to multiply times with so that the longest is easy to read, and the unit that they have then.

    >>> readable_unit("ps", 5e4), readable_unit("s", 4980.0), readable_unit("records", 1e9)
    ((0.001, 'ns'), (1.0, 's'), (1.0, 'records'))
    """
    for limit, name in _EASIER.get(unit, ()):
        if longest >= limit:
            return 1.0 / LENGTHS[unit][name], name
    return 1.0, unit


def are_dates(unit: str, earliest: float) -> bool:
    """Say whether times are seconds since 1970, by the earliest of them."""
    return unit == SECONDS and earliest >= _FIRST_DATE


def date_text(seconds: float) -> str:
    """Return the date of a number of seconds since 1970, in UTC.

    >>> date_text(1740787200)
    '2025-03-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(round(seconds), UTC):%Y-%m-%d %H:%M:%S} UTC"
