"""``ldmaps demo``: the method on the alanine dipeptide that ships with the package."""

from __future__ import annotations

import argparse
from typing import Any

from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import not_negative, positive

__all__ = ["add_command", "run"]


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands,
        "demo",
        "map a molecule that ships with ldmaps, and draw it",
        "Fit exact and landmark maps to alanine dipeptide, stream unseen frames into them, print a table and draw\n"
        "a figure. Takes about a minute; --stride 10 gives a quick look.",
        "example:\n  ldmaps demo --stride 10 --output demo.png",
    )
    parser.add_argument("--output", metavar="FIGURE", help="figure, .png, .pdf or .svg")
    parser.add_argument("--stride", type=positive, default=1, metavar="N", help="use every N-th frame (1)")
    parser.add_argument(
        "--seed", type=not_negative, default=0, metavar="N", help="seed of split and landmarks (0)"
    )
    parser.add_argument("--debug", action="store_true", help="show the Python traceback of an error")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from ldmaps.demo import main

    argv = ["--stride", str(arguments.stride), "--seed", str(arguments.seed)]
    if arguments.output:
        argv += ["--output", arguments.output]
    return int(main(argv))
