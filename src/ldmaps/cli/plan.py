"""``ldmaps plan``: predict the memory and time of a fit on this machine."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from ldmaps.cli import options
from ldmaps.cli.fit import add_map_options, estimator_of, metric_of
from ldmaps.cli.session import shown_progress, write_json

if TYPE_CHECKING:
    from ldmaps.planning.plan import Plan

#: Of long inputs a sample is read: so many points, or bytes, but so many points per landmark in any case.
SAMPLE_POINTS, SAMPLE_BYTES, PER_LANDMARK = 100_000, 1 << 28, 16

SHOWN = "top select columns stride metric epsilon n_components tolerance n_landmarks json"
EPILOG = """\
Predict the time and peak memory of each stage of a fit, and the time per new
point, from fits of some of the points. This takes about ten seconds and is
right to a factor of two. Inputs and options are those of fit.

examples:
  ldmaps plan traj.xtc -t top.pdb --select "not element H" --tolerance 1
  ldmaps plan 200000 22 --metric rmsd --epsilon coifman

Memory is that of the whole process. If the fit would take hours, or more memory
than this machine has left, plan proposes a stride with which it does not. Fewer
atoms (--select) make every distance cheaper.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        inputs INPUT+  trajectories or tables to learn from; or two numbers: of points, and of features or atoms of each
    """
    options.add(parser, table)
    add_map_options(parser)
    options.add_input_options(parser)
    options.add_common(parser, "force seed")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.progress import reporting

    with reporting(shown_progress(arguments)):
        planned = _planned(arguments)
    if arguments.json:
        write_json(asdict(planned))
    else:
        print(planned)


def _planned(arguments: argparse.Namespace) -> Plan:
    from ldmaps.planning.plan import plan

    if len(arguments.inputs) == 2 and all(text.isdecimal() for text in arguments.inputs):
        count, width = map(int, arguments.inputs)
        model = estimator_of(arguments, arguments.metric or "euclidean")
        return plan(len(range(0, count, arguments.stride)), width, **model.get_params(deep=False))

    source = options.open_files(arguments, arguments.inputs)
    model = estimator_of(arguments, metric_of(arguments, source))
    n_points = source.n_frames
    if n_points is not None and arguments.metric not in ("precomputed", "affinity"):
        room = min(SAMPLE_POINTS, SAMPLE_BYTES // (4 * math.prod(source.shape)))
        arguments.stride *= max(1, n_points // max(room, PER_LANDMARK * (arguments.n_landmarks or 400)))
        source = options.open_files(arguments, arguments.inputs)
    points = source.read().frames
    return plan(points, n=n_points, **model.get_params(deep=False))
