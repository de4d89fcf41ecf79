"""``ldmaps basins``: find metastable basins, their populations and dwell times."""

from __future__ import annotations

import argparse

from ldmaps.cli import options
from ldmaps.cli.session import opened_map, printable, say, write_json
from ldmaps.text_layout import aligned

SHOWN = ""
EPILOG = """\
population: share of the points; those in a core count fully, others by
membership. core: share of those whose membership is at least --enter. A
transition is counted when the core of another basin is entered; dwell is the
mean time until then, with its error.

examples:
  ldmaps basins map.ldm
  ldmaps basins map.ldm --n-basins 3 -o basins.json
                                    for --regions of ldmaps stream and frames
  ldmaps basins map.ldm --data psi.csv
                                    other frames, as ldmaps embed wrote them
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = f"""
        model MODEL   file that ldmaps fit wrote
        --n-basins N  how many (as many as the spectrum shows)
        {options.ENTER}
        --data TABLE      rows of ldmaps embed, in the order of time
        -o --output FILE  regions file to write, such as basins.json
    """
    options.add(parser, table)
    options.add_common(parser, "threads seed")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.analysis.basin_table import basin_rows, basin_table
    from ldmaps.analysis.own_points import PointsOfMap
    from ldmaps.regions import find_basins, save_regions

    model = opened_map(arguments)
    basins = find_basins(model, arguments.n_basins, enter=arguments.enter)
    table = basin_table(model, PointsOfMap.of(model, arguments.data), basins)
    if arguments.output is not None:
        save_regions(arguments.output, basins.regions)
        say(arguments, f"{arguments.output}: {len(basins.names)} basins")
    if arguments.json:
        write_json(table.as_dict())
        return
    print(f"{len(basins.names)} basins, crispness {basins.crispness:.2f} (1 is perfect)")
    for line in aligned(basin_rows(table)):
        print(printable(line))
    for note in table.notes:
        say(arguments, note)
