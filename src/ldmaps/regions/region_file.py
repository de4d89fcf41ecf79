"""Regions in a file: TOML for people, JSON for programs."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldmaps.errors import InvalidInputError
from ldmaps.files import written_whole
from ldmaps.regions.alarm import Alarm
from ldmaps.regions.base import Region
from ldmaps.regions.basins import Basin, find_basins
from ldmaps.regions.shapes import Ball, Box, OutOfDomain, Polygon

_KINDS: tuple[type[Region], ...] = (Box, Ball, Polygon, OutOfDomain, Alarm, Basin)
_BASIN_SETTINGS = ("n_basins", "enter", "leave", "names")


def load_regions(path: str | os.PathLike[str], model: Any) -> dict[str, Region]:
    """Read the regions of a map from a ``.toml`` or ``.json`` file.

    Parameters
    ----------
    path : path-like
        Holds a table ``regions`` with one table per region, each with a ``kind``, and
        may hold a table ``basins`` with arguments of :func:`find_basins`; what is
        learned comes after the regions.
    model : LandmarkDiffusionMap or DiffusionMap
        The map, fitted. Regions that do not fit it are refused.

    Returns
    -------
    dict of str to Region
        In the order of the file: where regions overlap, the first counts.
    """
    where = os.fspath(path)
    content = _read(Path(path))
    unknown = sorted(set(content) - {"regions", "basins"})
    if unknown:
        raise InvalidInputError(
            f"{where}: {unknown[0]!r} does not belong in a regions file; it has tables called regions.NAME, and basins"
        )
    tables = content.get("regions", {})
    if not isinstance(tables, Mapping):
        raise InvalidInputError(f"{where}: regions must be a table of regions by name, got {tables!r}")
    regions: dict[str, Region] = {}
    for name, facts in tables.items():
        try:
            region = region_from_dict(facts)
            region.check_model(model)
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: region {name!r}: {error}") from error
        regions[name] = region
    if "basins" in content:
        for name, basin in _learned(where, content["basins"], model).items():
            if name in regions:
                raise InvalidInputError(
                    f"{where}: there are two regions called {name!r}; give the basins other names"
                )
            regions[name] = basin
    if not regions:
        raise InvalidInputError(f"{where} holds no regions; add a table such as [regions.out] with a kind")
    return regions


def save_regions(path: str | os.PathLike[str], regions: Mapping[str, Region]) -> None:
    """Write regions, including learned basins, to a JSON file that :func:`load_regions` reads.

    Parameters
    ----------
    path : path-like
        Replaced if it exists; written completely or not at all.
    regions : mapping of str to Region
        By name, in the order in which they count.
    """
    content = {"regions": {name: region.as_dict() for name, region in regions.items()}}
    with written_whole(path) as file:
        file.write(json.dumps(content, indent=2, allow_nan=False).encode() + b"\n")


def region_from_dict(facts: Mapping[str, Any]) -> Region:
    """Return the region that JSON values describe: what its ``as_dict`` returned, or from a table of a regions file."""
    if not isinstance(facts, Mapping):
        raise InvalidInputError(f"a region is a table with a kind, got {facts!r}")
    for kind in _KINDS:
        if facts.get("kind") == kind.kind:
            return kind.from_dict(facts)
    names = ", ".join(f'"{kind.kind}"' for kind in _KINDS)
    raise InvalidInputError(f"a region's kind is one of {names}, got {facts.get('kind')!r}")


def _read(path: Path) -> dict[str, Any]:
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json"):
        raise InvalidInputError(f"{path}: a regions file ends in .toml or .json")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not text in UTF-8: {error}") from error
    try:
        content = tomllib.loads(text) if suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path} is not valid {suffix[1:].upper()}: {error}") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path} must hold an object with regions, got a {type(content).__name__}")
    return content


def _learned(where: str, settings: Any, model: Any) -> Mapping[str, Region]:
    if not isinstance(settings, Mapping):
        raise InvalidInputError(f"{where}: basins must be a table, got {settings!r}")
    unknown = sorted(set(settings) - set(_BASIN_SETTINGS))
    if unknown:
        raise InvalidInputError(
            f"{where}: basins has no {unknown[0]!r}; it has {', '.join(_BASIN_SETTINGS)}, all optional"
        )
    try:
        return find_basins(model, **settings).regions
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: basins: {error}") from error
