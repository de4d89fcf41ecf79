"""Print the lowest versions that pyproject.toml allows, as requirements for pip: ``make floors``.

pyproject.toml is the only place that names them. A package that stands in several lists with different floors gets the
highest, which is the lowest that satisfies all.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["FloorError", "floors", "main", "requirements"]

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
_FLOOR = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[^]]*\])?>=(?P<version>\d+(?:\.\d+)*)")


class FloorError(Exception):
    """A requirement has no floor, or more than one."""


def requirements(project: dict[str, object], leave_out: Iterable[str] = ()) -> list[str]:
    """Return the dependencies and those of all extras but some.

    Parameters
    ----------
    project : dict
        The table ``[project]`` of pyproject.toml.
    leave_out : iterable of str
        Extras that are not wanted.
    """
    dependencies, extras = project["dependencies"], project["optional-dependencies"]
    if not isinstance(dependencies, list) or not isinstance(extras, dict):
        raise FloorError("[project] needs a list of dependencies and a table of optional-dependencies")
    unwanted = set(leave_out)
    unknown = unwanted - set(extras)
    if unknown:
        raise FloorError(
            f"no such extra: {', '.join(sorted(unknown))}; there are {', '.join(sorted(extras))}"
        )
    return [*dependencies, *(line for name in extras if name not in unwanted for line in extras[name])]


def floors(lines: Iterable[str]) -> list[str]:
    """Return each requirement with its lowest version as the only one.

    Parameters
    ----------
    lines : iterable of str
        Requirements of the form ``name>=version``, the only one that the project uses.

    Examples
    --------
    >>> floors(["numpy>=1.26", "dask[array]>=2025.1", "numpy>=2"])
    ['dask[array]==2025.1', 'numpy==2']
    """
    highest: dict[str, tuple[tuple[int, ...], str]] = {}
    for line in lines:
        match = _FLOOR.fullmatch(line.replace(" ", ""))
        if match is None:
            raise FloorError(
                f"{line!r} is not of the form name>=version, so nobody knows the oldest that works"
            )
        version = tuple(int(part) for part in match["version"].split("."))
        pin = f"{match['name']}{match['extras'] or ''}=={match['version']}"
        name = match["name"].lower()
        if name not in highest or version > highest[name][0]:
            highest[name] = (version, pin)
    return [highest[name][1] for name in sorted(highest)]


def main(argv: Sequence[str] | None = None) -> int:
    """Print them, one per line; return the exit status."""
    parser = argparse.ArgumentParser(description="Print the lowest versions that pyproject.toml allows.")
    parser.add_argument("--without", default="", metavar="A,B", help="extras to leave out")
    arguments = parser.parse_args(argv)
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    try:
        print("\n".join(floors(requirements(project, filter(None, arguments.without.split(","))))))
    except FloorError as error:
        print(f"floors: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
