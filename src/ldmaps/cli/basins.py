"""``ldmaps basins``: metastable basins, their populations, and transitions between them."""

from __future__ import annotations

import argparse
from typing import Any

from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import add_common, positive

__all__ = ["add_command", "run"]

_EPILOG = """\
population: share of the points, by membership. core: share of those whose membership is 0.7 or more.
A transition is counted when the core of another basin is entered; dwell is the mean time until then, with its error.

examples:
  ldmaps basins map.ldm
  ldmaps basins map.ldm --n-basins 3 -o basins.json     for ldmaps stream --regions and ldmaps frames --regions
  ldmaps basins map.ldm --data psi.csv                  transitions of other frames, rows of ldmaps embed
"""


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands,
        "basins",
        "find basins, their populations and dwell times",
        "Find the metastable basins of a map and count transitions between them.",
        _EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help="file that ldmaps fit wrote")
    parser.add_argument(
        "--n-basins", type=positive, metavar="N", help="how many (as many as the spectrum shows)"
    )
    parser.add_argument("--data", metavar="TABLE", help="rows of ldmaps embed, in the order of time")
    parser.add_argument("-o", "--output", metavar="FILE", help="regions file to write, such as basins.json")
    add_common(parser, threads=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.cli.session import check_output, printable, say, write_json
    from ldmaps.maps.loading import load
    from ldmaps.regions import learn_basins, save_regions
    from ldmaps.views.basin_table import basin_rows, basin_table
    from ldmaps.views.own_points import PointsOfMap

    if arguments.output is not None:
        check_output(arguments.output, arguments.force)
    model = load(arguments.model)
    basins = learn_basins(model, arguments.n_basins)
    table = basin_table(model, PointsOfMap.of(model, arguments.data), basins)
    if arguments.output is not None:
        save_regions(arguments.output, basins.regions)
        say(arguments, f"{arguments.output}: {len(basins.names)} basins")
    if arguments.json:
        write_json(table.as_dict())
        return
    print(f"{len(basins.names)} basins, crispness {basins.crispness:.2f} (1 is perfect)")
    rows = basin_rows(table)
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        print(
            printable("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        )
    for note in table.notes:
        say(arguments, note)
