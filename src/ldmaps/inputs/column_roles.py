"""What the columns of a table are for: features, the time, and what says nothing about how near two rows are."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, takewhile

from ldmaps.errors import InvalidInputError

#: Names of columns that are times, whatever they hold, and of those that count rows if their numbers do.
_TIME_NAMES = frozenset({"time", "timestamp", "time_stamp", "datetime", "date", "epoch", "ts", "utc"})
_COUNTER_NAMES = frozenset(
    {"", "id", "index", "row", "frame", "number", "no", "nr", "unnamed: 0", "__index_level_0__"}
)
#: Whole numbers in columns of these names, between these bounds, are parts of a date; two of them make a calendar.
_CALENDAR = {"year": (1000, 9999), "month": (1, 12), "day": (1, 31), "weekday": (0, 7), "hour": (0, 24)}
_CALENDAR |= {"minute": (0, 59), "second": (0, 60)}
#: What stands for a value that is missing, besides nothing.
_MISSING = frozenset({"", "nan", "-nan", "na", "n/a", "#n/a", "<na>", "null", "none", "?", "-"})
_DIGITS = re.compile(r"[+-]?[0-9.,]*[0-9][0-9.,]*")
#: Why a column of times is left out that is not the time of the rows.
DATES = "dates"
#: What stands for the name of the time column where rows have no time.
NO_TIME = "none"
#: So many rows are looked at.
SAMPLE = 100


@dataclass(frozen=True)
class Roles:
    """Which columns are what, by their places."""

    features: list[int]
    time: int | None = None
    #: Why others are left out, by place.
    left_out: tuple[tuple[int, str], ...] = ()

    @property
    def times(self) -> list[int]:
        """All columns that hold times, the first one first."""
        others = [place for place, why in self.left_out if why == DATES]
        return others if self.time is None else [self.time, *others]


def is_missing(cell: str) -> bool:
    """Say whether a cell holds no value: nothing, NaN, N/A and the like."""
    return cell.lower() in _MISSING


def is_number(cell: str) -> bool:
    """Say whether a cell holds a number, NaN and infinity included."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def looks_like_number(cell: str) -> bool:
    """Say whether a cell is a number but for commas and points that are not ours, such as 1.234,5."""
    return _DIGITS.fullmatch(cell) is not None


def is_time_name(name: str) -> bool:
    """Say whether a column of this name is a time."""
    return name.strip().lower() in _TIME_NAMES


def find_columns(wanted: Sequence[str], names: Sequence[str] | None, count: int, described: str) -> list[int]:
    """Return the places of columns given by name or by number from 1."""
    places = []
    for name in wanted:
        if names is not None and name in names:
            places.append(list(names).index(name))
        elif name.isdigit() and 1 <= int(name) <= count:
            places.append(int(name) - 1)
        else:
            there = ", ".join(names) if names else f"1 to {count}, without names"
            raise InvalidInputError(f"{described} has no column {name!r}; its columns are: {there}")
    return places


def time_places(names: Sequence[str], wanted: str | None = None) -> list[int]:
    """Return where columns stand that are called times, the one of the name wanted first."""
    places = [place for place, name in enumerate(names) if name == wanted or is_time_name(name)]
    return sorted(places, key=lambda place: names[place] != wanted)


def moment(cell: str) -> float:
    """Return the number in a cell, or seconds since 1970 (UTC where no zone is given) of a date; raise otherwise."""
    if is_number(cell):
        return finite_time(float(cell))
    when = datetime.fromisoformat(cell.strip())
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def finite_time(time: float) -> float:
    """Return a time, NaN where it is unknown; raise where it is infinite, as 1e400 is read."""
    if math.isinf(time):
        raise ValueError(f"{time} is neither a time nor a date")
    return time


def roles_of(
    names: Sequence[str] | None, rows: Sequence[Sequence[str]], index: Collection[str] = ()
) -> Roles:
    """Tell the columns' roles from their names and the cells of the first rows; those of an index are no features."""
    features, left_out = [], []
    time = None
    for place, cells in enumerate(zip(*rows, strict=True)):
        name = None if names is None else names[place]
        why = _why_not(name, [cell for cell in cells if not is_missing(cell)])
        why = "index" if not why and name in index else why
        if why == "time" and time is None:
            time = place
        elif why:
            left_out.append((place, DATES if why == "time" else why))
        else:
            features.append(place)
    calendar = [
        place
        for place in features
        if names is not None and _is_calendar(names[place], [row[place] for row in rows])
    ]
    if len(calendar) > 1:
        left_out = sorted([*left_out, *((place, "calendar") for place in calendar)])
        features = [place for place in features if place not in calendar]
    if not features and index:
        return roles_of(names, rows)
    if not features:  # whatever it is then, it is all there is
        return Roles(list(range(len(names or (rows[0] if rows else ())))))
    return Roles(features, time, tuple(left_out))


def _is_calendar(name: str, cells: Sequence[str]) -> bool:
    """Say whether a column is a part of a date, such as the month, by its name and its whole numbers."""
    low, high = _CALENDAR.get(name.strip().lower(), (1, 0))
    numbers = [float(cell) for cell in cells if is_number(cell)]
    return bool(numbers) and all(number.is_integer() and low <= number <= high for number in numbers)


def _why_not(name: str | None, cells: Sequence[str]) -> str:
    """Return why a column is no feature; empty where it is one."""
    numbers = [float(cell) for cell in takewhile(is_number, cells)]
    if len(numbers) == len(cells):
        if name is not None and is_time_name(name):
            return "time"
        steps = {after - before for before, after in pairwise(numbers)}
        is_counter = name is not None and name.strip().lower() in _COUNTER_NAMES and steps == {1.0}
        return "counts rows" if is_counter else ""
    # Numbers and words, or digits and commas: a faulty cell of a feature, which whoever reads it will name.
    if numbers or all(looks_like_number(cell) for cell in cells):
        return ""
    try:
        for cell in cells:
            moment(cell)
    except ValueError:
        return "words"
    return "time"
