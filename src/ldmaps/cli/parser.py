"""The command line's grammar."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ldmaps._version import __version__
from ldmaps.cli import (
    absorb,
    basins,
    completion,
    correlate,
    demo,
    embed,
    fit,
    frames,
    info,
    plan,
    plot,
    report,
    stream,
    watch,
)
from ldmaps.cli.session import printable

__all__ = ["EXIT_CODES", "build_parser", "parse"]

COMMANDS = (
    fit,
    embed,
    stream,
    watch,
    absorb,
    report,
    plot,
    frames,
    basins,
    correlate,
    info,
    plan,
    demo,
    completion,
)

EXIT_CODES = """\
exit status:
  0    done
  1    the data, a file or a setting is at fault; the message says what to do
  2    the command line is not understood
  3    a fault in ldmaps itself (please report it, with the output of --debug)
  4    an event that ldmaps stream --exit-on waited for
  5    done, but fewer than 1 % of the points are inside the map; a warning says what may be wrong
  130  interrupted with Ctrl-C; 143 terminated; 141 the reader of stdout went away
"""

_EPILOG = f"""\
examples:
  ldmaps fit traj.xtc -t top.pdb --select "protein and not element H" -o map.ldm
  ldmaps fit sensors.csv --metric euclidean -o map.ldm
  ldmaps embed map.ldm new.xtc -t top.pdb -o psi.csv
  ldmaps embed map.ldm new.xtc -t top.pdb -o - | head
  producer | ldmaps stream map.ldm -o psi.csv
  ldmaps report map.ldm -o report.html
  ldmaps plot map.ldm --kind energy -o energy.png
  ldmaps frames map.ldm traj.xtc -t top.pdb --basin 1 -o basin1.xtc
  ldmaps info map.ldm
  ldmaps plan 200000 22 --metric rmsd -m 400

Data go to stdout, everything else to stderr. Existing files are only
overwritten with --force. "ldmaps COMMAND --help" lists all options.

{EXIT_CODES}"""


class _Parser(argparse.ArgumentParser):
    """A parser that repeats what it does not understand without what a terminal would obey."""

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(printable(message), file)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="ldmaps",
        description="Landmark diffusion maps: learn the manifold in trajectories or tables, place new points on it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ldmaps {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add_command(commands)
    parser.set_defaults(parser=parser)  # which `ldmaps completion` describes
    return parser


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line; inputs may stand before and after options.

    argparse takes inputs from one place only, so that ``embed map.ldm a.xtc -t top.pdb b.xtc``
    leaves b.xtc over.
    """
    arguments, left_over = build_parser().parse_known_args(argv)
    unknown = [text for text in left_over if text.startswith("-") and text != "-"]
    if left_over and not unknown:
        if isinstance(getattr(arguments, "inputs", None), list):
            arguments.inputs += left_over
            return arguments
        if getattr(arguments, "input", None) == "-" and len(left_over) == 1:
            arguments.input = left_over[0]
            return arguments
    if left_over:
        arguments.command_parser.error(f"unrecognized arguments: {' '.join(unknown or left_over)}")
    return arguments
