"""``ldmaps report``: a page to look at a map."""

from __future__ import annotations

import argparse
from typing import Any

from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import add_common, positive

__all__ = ["add_command", "run"]

_EPILOG = """\
The page is one HTML file that works offline: open it in any browser, mail it, print it.

examples:
  ldmaps report map.ldm -o report.html
  ldmaps embed map.ldm new.xtc -t top.pdb -o psi.csv
  ldmaps report map.ldm --data psi.csv -o new.html      show other frames than those the map was learned from
  ldmaps report map.ldm --data angles.csv -o map.html   colour the map's own frames, one row each, by any column
"""


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands,
        "report",
        "write a page to look at a map",
        "Write one HTML page that shows a map: embedding, free energy, landmarks, spectrum, coverage.",
        _EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help="file that ldmaps fit or model.save wrote")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="page to write, such as report.html"
    )
    parser.add_argument(
        "--data",
        metavar="TABLE",
        help=".csv, .tsv, .npy or .parquet: rows of ldmaps embed to show, or columns for the map's own points",
    )
    parser.add_argument("--title", metavar="TEXT", help="heading of the page")
    parser.add_argument(
        "--max-points",
        type=positive,
        default=100_000,
        metavar="N",
        help="draw at most so many points (100000)",
    )
    add_common(parser, threads=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import os

    from ldmaps.cli.session import check_output, say, write_json
    from ldmaps.errors import InvalidInputError
    from ldmaps.model_file import load
    from ldmaps.report import write_report

    if arguments.output == "-":
        raise InvalidInputError("a report cannot go to stdout; name a file with -o report.html")
    check_output(arguments.output, arguments.force)
    model = load(arguments.model)
    shown: dict[str, Any] = {}
    if arguments.data is not None:
        from ldmaps.report.tables import read_table

        shown = read_table(arguments.data, model)
    write_report(model, arguments.output, title=arguments.title, max_points=arguments.max_points, **shown)
    size = os.path.getsize(arguments.output)
    if arguments.json:
        write_json({"output": arguments.output, "bytes": size})
    else:
        say(arguments, f"{arguments.output}: {size / 1e6:.1f} MB; open it in a browser")
