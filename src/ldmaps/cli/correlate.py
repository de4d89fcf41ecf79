"""``ldmaps correlate``: correlate map coordinates with observables (Rg, RMSD, your columns)."""

from __future__ import annotations

import argparse
from typing import Any

from ldmaps.cli import options
from ldmaps.cli.session import opened_map, printable, say, write_json
from ldmaps.errors import InvalidInputError

SHOWN = "output data reference top force"
EPILOG = """\
For trajectories: rg (radius of gyration, by masses if the topology has them),
end_to_end (first to last CA, or else first to last atom of the map's selection)
and rmsd (to --reference, or else to the first frame), in nm. Correlations are
Spearman's, from -1 to 1; for angles (columns from -180 to 180 or -pi to pi),
circular rank correlations from 0 to 1.

examples:
  ldmaps correlate map.ldm run.xtc -t top.pdb
  ldmaps correlate map.ldm run.xtc -t top.pdb --reference native.pdb
  ldmaps correlate map.ldm --data angles.csv     columns of your own, one row
                                                 per point of the map
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        model MODEL       file that ldmaps fit wrote
        inputs INPUT*     trajectories to project onto the map and measure
        --reference FILE  structure that rmsd is measured to (the first frame)
        --data TABLE      table instead of INPUT: rows of ldmaps embed, or columns
        -o --output FILE  .csv of the measured frames, for ldmaps report --data
    """
    options.add(parser, table)
    options.add_input_options(parser, tables=False)
    options.add(parser.add_argument_group("atoms"), f"{options.NAMING}\n{options.MATCHING}")
    options.add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.analysis import correlations
    from ldmaps.analysis.own_points import PointsOfMap

    if arguments.inputs and arguments.data is not None:
        raise InvalidInputError("give trajectories or --data, not both")
    if not arguments.inputs and (arguments.output is not None or arguments.reference is not None):
        raise InvalidInputError("-o and --reference require a trajectory; give one, or leave them out")
    model = opened_map(arguments)
    points = _measured(arguments, model) if arguments.inputs else PointsOfMap.of(model, arguments.data)
    columns = points.numbers()
    if not columns:
        raise InvalidInputError(
            "there is nothing to correlate with: name a trajectory, or a table with columns of numbers with --data"
        )
    found = correlations(points.coordinates, columns)
    names = model.coordinate_names_
    if arguments.json:
        values = {name: [None if one != one else float(one) for one in row] for name, row in found.items()}
        write_json({"coordinates": names, "points": len(points.coordinates), "spearman": values})
        return
    width = max(map(len, found))
    print("  ".join([" " * width, *(f"{name:>7}" for name in names)]))
    for name, row in found.items():
        print(printable("  ".join([name.ljust(width), *(f"{value:7.3f}" for value in row)])))
    if arguments.output is not None:
        say(arguments, f"{arguments.output}: {len(points.coordinates):,} rows")


def _measured(arguments: argparse.Namespace, model: Any) -> Any:
    """Place frames on the map and measure them; write the rows if asked."""
    from ldmaps.analysis.observables import shape_of_frames
    from ldmaps.analysis.own_points import PointsOfMap
    from ldmaps.files import written_whole
    from ldmaps.inputs import FrameSource, open_files
    from ldmaps.inputs.formats import format_of
    from ldmaps.progress import Progress, reporting
    from ldmaps.text_rows import WHOLE, csv_table

    source = options.open_files(arguments, arguments.inputs, model.source_)
    if not isinstance(source, FrameSource):
        raise InvalidInputError(f"{source.describe()} is a table; give it with --data")
    reference = None
    if arguments.reference is not None:
        form = format_of(arguments.reference)
        top = None if form is not None and form.has_topology else arguments.top
        known = {"model_facts": model.source_, "match_atoms": arguments.match_atoms}
        reference = next(iter(open_files(arguments.reference, top, **known))).frames[0]
    with reporting(Progress(False if arguments.quiet else None)):
        frames = source.read()
        psi = model.transform(frames.frames)
    shapes = shape_of_frames(frames.frames, source.atoms, reference)
    if arguments.output is not None:
        columns = dict(zip(model.coordinate_names_, psi.T, strict=True)) | shapes
        table: dict[str, Any] = {
            "file": (source.files, [0] * len(psi) if frames.files is None else frames.files),
            "frame": (WHOLE, frames.numbers),
            "time": (10, frames.times),
            **{name: (9, column) for name, column in columns.items()},
        }
        with written_whole(arguments.output) as stream:
            stream.write(csv_table(table))
    return PointsOfMap.shown(model, psi, shapes, times=frames.times)
