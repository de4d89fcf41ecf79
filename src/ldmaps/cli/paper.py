"""``ldmaps paper``: the paper's tables and figures, computed again."""

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
        "paper",
        "compute the paper's tables and figures again",
        "Compute Table 1 and Figures 2 to 5 of the paper again, beside what was printed, and write a page with\n"
        "tables (CSV) and figures (PNG, SVG). Takes up to an hour on two cores; if interrupted, run it again to go on.",
        "example:\n  ldmaps paper --reduced --only table1,figure5",
    )
    parser.add_argument("--output", metavar="FOLDER", help="where results go (paper, or paper-reduced)")
    parser.add_argument(
        "--reduced", action="store_true", help="a thousand points of each set: under a minute"
    )
    parser.add_argument(
        "--only", metavar="NAMES", help="some results, separated by commas: table1,figure2,..."
    )
    parser.add_argument("--page-only", action="store_true", help="compute nothing, write what is finished")
    parser.add_argument(
        "--seed", type=not_negative, default=0, metavar="N", help="seed of data, folds and landmarks (0)"
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="threads (every core)")
    parser.add_argument("--debug", action="store_true", help="show the Python traceback of an error")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from ldmaps.paper import main

    argv = ["--seed", str(arguments.seed)]
    for name in ("output", "only", "threads"):
        value = getattr(arguments, name)
        if value is not None:
            argv += [f"--{name}", str(value)]
    for name in ("reduced", "page_only"):
        if getattr(arguments, name):
            argv.append("--" + name.replace("_", "-"))
    return int(main(argv))
