"""``ldmaps plan``: what a fit would cost here."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from ldmaps.cli.fit import add_map_options, metric_of
from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import add_common, add_input_options, fit_settings, positive
from ldmaps.cli.workers import add_piece_option

__all__ = ["add_command", "run"]

_EPILOG = """\
examples:
  ldmaps plan traj.xtc -t top.pdb --select "not element H" -m 400
  ldmaps plan 200000 22 --metric rmsd --epsilon coifman
  ldmaps plan 1000000000 22 --metric rmsd --epsilon coifman --workers 64

Memory is that of the whole process: interpreter, points, and what the fit adds. Where a fit would take hours, or more
memory than this machine has, cheaper ones are listed. Fewer atoms (--select) make every distance cheaper.
"""


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands,
        "plan",
        "predict memory and time of a fit on this machine",
        "Predict peak memory and time of a fit, and the time per new point, from a measurement of about a second "
        "of this machine.\nTakes the inputs and options of fit. Meant to be right within a factor of two.",
        _EPILOG,
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="trajectories or tables to learn from; or two numbers: of points, and of features or atoms of each",
    )
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="plan for N worker processes, of one thread or --threads each, as fit --workers has",
    )
    add_piece_option(parser)
    add_map_options(parser)
    add_input_options(parser)
    add_common(parser, force=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from inspect import signature

    from ldmaps.cli.session import write_json
    from ldmaps.maps.planning import plan

    n_points, width, metric, dtype = _data(arguments)
    matters = signature(plan).parameters
    settings = {name: value for name, value in fit_settings(arguments).items() if name in matters}
    settings["dtype"] = dtype
    del settings["metric"]
    data = n_points, width, metric, settings.pop("n_landmarks")
    if arguments.workers:
        from ldmaps.maps.cluster_plan import plan_on_workers

        on_workers = plan_on_workers(
            *data,
            n_workers=arguments.workers,
            piece=arguments.piece,
            **(settings | {"n_threads": arguments.threads or 1}),
        )
        if arguments.json:
            write_json(asdict(on_workers))
        else:
            print(on_workers)
        return
    planned = plan(*data, **settings)
    if arguments.json:
        write_json(asdict(planned))
    else:
        print(planned.describe(option=lambda setting, value: _option(arguments, setting, value)))


def _data(arguments: argparse.Namespace) -> tuple[int, int, Any, Any]:
    """Return the number of points, of features or atoms, the metric, and the precision of the numbers."""
    if len(arguments.inputs) == 2 and all(text.isdecimal() for text in arguments.inputs):
        n_points, width = map(int, arguments.inputs)
        return len(range(0, n_points, arguments.stride)), width, arguments.metric or "euclidean", "float32"
    from ldmaps.cli.inputs import open_inputs
    from ldmaps.errors import InvalidInputError

    source = open_inputs(arguments, arguments.inputs)
    chunks = iter(source)
    first = next(chunks, None)
    if first is None:
        raise InvalidInputError(f"there is nothing to read in {source.describe()}")
    # Where the file does not say beforehand, it is read to the end.
    n_points = source.n_frames or len(first) + sum(map(len, chunks))
    return n_points, first.frames.shape[1], metric_of(arguments, source), first.frames.dtype


def _option(arguments: argparse.Namespace, setting: str, value: Any) -> str:
    """Spell a setting as on the command line; a stride is counted on top of the one that was asked for."""
    return f"--{setting.replace('_', '-')} {arguments.stride * value if setting == 'stride' else value}"
