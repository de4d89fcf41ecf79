"""``ldmaps plan``: what a fit would cost here."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from ldmaps.cli.fit import EXTENSION_NAMES, METRIC_NAMES
from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import add_common

__all__ = ["add_command", "run"]


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands,
        "plan",
        "predict memory and time of a fit on this machine",
        "Predict peak memory and time of a fit, and the time a point takes afterwards, from a second's measurement "
        "of this machine. Meant to be right within a factor of two.",
        "example:\n  ldmaps plan 200000 22 --metric rmsd -m 400",
    )
    parser.add_argument("points", type=int, metavar="N", help="number of points or frames to learn from")
    parser.add_argument("width", type=int, metavar="WIDTH", help="features of a point, or atoms of a frame")
    parser.add_argument("--metric", choices=METRIC_NAMES, default="euclidean", help="distance (euclidean)")
    parser.add_argument("-m", "--n-landmarks", type=int, default=400, metavar="M", help="landmarks (400)")
    parser.add_argument(
        "--extension",
        choices=EXTENSION_NAMES,
        default="nystrom",  # what a fit does with a given M
        help="how coordinates are extended (nystrom)",
    )
    add_common(parser, force=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.cli.session import write_json
    from ldmaps.maps.planning import plan

    cost = plan(
        arguments.points,
        arguments.width,
        arguments.metric,
        arguments.n_landmarks,
        extension=arguments.extension,
        n_threads=arguments.threads,
    )
    if arguments.json:
        write_json(asdict(cost))
    else:
        print(cost)
