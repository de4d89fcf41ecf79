"""From the inputs on the command line to one source of points."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ldmaps.errors import InvalidInputError
from ldmaps.inputs import FrameSource
from ldmaps.inputs import open as open_trajectory
from ldmaps.inputs.mdtraj_files import expand
from ldmaps.inputs.tables import TABLE_FORMATS, TableSource, open_table

__all__ = ["Source", "open_inputs"]

Source = FrameSource | TableSource


def open_inputs(arguments: argparse.Namespace, remembered: Mapping[str, Any] | None = None) -> Source:
    """Open all inputs as one source.

    Parameters
    ----------
    remembered : mapping, optional
        ``model.source_``: the selection or columns to use where the command line
        names none.
    """
    known = remembered or {}
    paths: list[str] = []
    for entry in arguments.inputs:
        paths += [entry] if entry == "-" else expand(entry)
    tables = [path == "-" or path.lower().endswith(TABLE_FORMATS) for path in paths]
    if not any(tables):
        return open_trajectory(
            paths,
            arguments.top,
            select=arguments.select if arguments.select is not None else known.get("select"),
            stride=arguments.stride,
            start=arguments.start,
            stop=arguments.stop,
            chunk=arguments.chunk,
            periodic=arguments.periodic,
        )
    if not all(tables):
        table, other = paths[tables.index(True)], paths[tables.index(False)]
        raise InvalidInputError(f"{table} is a table and {other} a trajectory; give inputs of one kind")
    for option, value in (("--top", arguments.top), ("--select", arguments.select)):
        if value is not None:
            raise InvalidInputError(
                f"{option} chooses atoms of trajectories, but {paths[0]} is a table of numbers"
            )
    opened = [open_table(path, arguments.array) for path in paths]
    names = None if arguments.columns is None else [name.strip() for name in arguments.columns.split(",")]
    if names is None and known.get("columns") and opened[0].columns is not None:
        names = list(known["columns"])
    return TableSource(opened, names, arguments.stride, arguments.start, arguments.stop, arguments.chunk)
