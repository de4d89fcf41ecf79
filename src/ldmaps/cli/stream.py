"""``ldmaps stream``: place records on a map as they arrive."""

from __future__ import annotations

import argparse

from ldmaps.cli.options import add_common
from ldmaps.cli.stream_options import CommandStream, add_stream_options

__all__ = ["add_options", "run"]

SHOWN = "output format top follow regions events exit_on checkpoint outside force"
EPILOG = """\
inputs:
  -                       stdin: CSV, NDJSON or npy messages (the default)
  FILE                    a table or a trajectory (-t names its topology); with
                          --follow one that is still being written
  imd://host:port         a running simulation, over IMD version 3
  redis://host:port/NAME  a Redis stream

columns of the output:
  number, time            place in the stream, from 0; the record's own time
  psi2, psi3, ...         coordinates on the map
  distance, inside        to the nearest landmark in units of sqrt(epsilon);
                          1 where the map covers the record
  nearest, p, region      number of the nearest landmark; share of records like the
                          training data that are as far away; name of the region,
                          alarm where the record left the map

examples:
  producer | ldmaps stream map.ldm
  ldmaps stream map.ldm run.xtc -t top.pdb --follow -o psi.csv
  ldmaps stream map.ldm sensors.csv -o psi.csv --checkpoint psi.checkpoint
  producer | ldmaps stream map.ldm --regions basins.toml --exit-on leave:A

With --checkpoint a stream that was killed continues where it was: run the same
command again. No record is lost or repeated in the output. Exit status 4: an
event of --exit-on happened; 5: fewer than 1 % of the records were inside the
map, and a warning says what may be wrong.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_stream_options(parser, output="-")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int | None:
    """Run the command."""
    from ldmaps.maps.model_file import read_model

    return CommandStream(arguments, read_model(arguments.model)).carry_out()
