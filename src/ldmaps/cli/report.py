"""``ldmaps report``: write a page that shows a map."""

from __future__ import annotations

import argparse
from typing import Any

from ldmaps.cli import options
from ldmaps.cli.session import opened_map, shown_progress, tell
from ldmaps.errors import InvalidInputError

#: Training points that errors are measured against: their square is what it costs.
REFERENCE_POINTS = 5_000

SHOWN = "output data errors title top force"
EPILOG = """\
The page is one HTML file that works offline: open it, mail it, print it.

examples:
  ldmaps report map.ldm                        writes map.html
  ldmaps embed map.ldm new.xtc -t top.pdb -o psi.csv
  ldmaps report map.ldm --data psi.csv -o new.html
                                               other frames on the same map
  ldmaps report map.ldm --data angles.csv -o angles.html
                                               the map's own frames, one row
                                               each, coloured by any column
  ldmaps report map.ldm --errors traj.xtc -t top.pdb
                                               estimate every frame's error

A model file holds no frames, so an error estimate needs those it was fitted on,
read with the same --stride, --start and --stop.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        model MODEL       file that ldmaps fit or model.save wrote
        -o --output FILE  page to write (the model's name with .html)
        --data TABLE      .csv, .tsv, .npy or .parquet: rows of ldmaps embed to show, or columns for the map's own
                          points
        --errors INPUT+   trajectories or tables the map was fitted on: estimate the error of every point from them
        --title TEXT      heading of the page
        --max-points N=100000  most points to draw
    """
    options.add(parser, table)
    options.add_input_options(parser)
    options.add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import os

    from ldmaps.analysis import write_report
    from ldmaps.analysis.own_points import read_table

    if arguments.output is None:
        arguments.output = f"{os.path.splitext(arguments.model)[0]}.html"
    if arguments.output == "-":
        raise InvalidInputError("a report cannot go to stdout; name a file with -o report.html")
    if not arguments.output.lower().endswith((".html", ".htm")):
        raise InvalidInputError(
            f"a report is an HTML page, so its name should end in .html, got {arguments.output}; for a picture or PDF, "
            "open the page in a browser and print it, or use model.plot in Python"
        )
    model = opened_map(arguments)
    shown = {} if arguments.data is None else read_table(arguments.data, model)
    if arguments.errors is not None:
        shown["errors"] = _errors(arguments, model)
    write_report(model, arguments.output, title=arguments.title, max_points=arguments.max_points, **shown)
    size = os.path.getsize(arguments.output)
    text = f"{arguments.output}: {size / 1e6:.1f} MB; open it in a browser"
    tell(arguments, {"output": arguments.output, "bytes": size}, text)


def _errors(arguments: argparse.Namespace, model: Any) -> Any:
    """Estimate the errors of the training points that the page shows."""
    import numpy as np

    from ldmaps.fit.fitted_map import thinned_rows
    from ldmaps.progress import reporting

    if arguments.data is not None:
        raise InvalidInputError(
            "--errors takes the frames that the map was fitted on, --data other frames; give one of the two"
        )
    if not hasattr(model, "error_estimate") or not hasattr(model, "embedding_"):
        raise InvalidInputError(
            "errors are estimated for landmark maps whose file holds their training points; fit without --no-embedding"
        )
    source = options.open_files(arguments, arguments.errors, model.source_)
    progress = shown_progress(arguments)
    with reporting(progress):
        points = source.read().frames
    n = len(model.embedding_)
    if len(points) != n:
        raise InvalidInputError(
            f"{source.describe()} gives {len(points)} points, but the map was fitted on {n}; name all files it was "
            "fitted on, with the same --stride, --start and --stop"
        )
    rows = thinned_rows(n, np.empty(0, dtype=np.intp)) if model.training_ is None else model.training_.rows
    reference = points[thinned_rows(n, np.empty(0, dtype=np.intp), REFERENCE_POINTS)]
    with progress.stage("errors"):
        return model.error_estimate(points[rows], reference=reference)
