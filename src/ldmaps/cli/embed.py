"""``ldmaps embed``: project new frames or rows onto a map."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ldmaps.cli import options
from ldmaps.cli.session import NOTHING_INSIDE, check_output, complain, say, write_json
from ldmaps.errors import InvalidInputError, Named

if TYPE_CHECKING:
    from ldmaps.cli.writers import Writer
    from ldmaps.extension.embedder import Embedder
    from ldmaps.inputs import PointSource
    from ldmaps.maps.model_file import StoredMap
    from ldmaps.progress import Stage
    from ldmaps.validation.outside_reasons import OutsideSample

SHOWN = "output top stride match_atoms threads force quiet json"
EPILOG = """\
columns of the output:
  file, frame, time  where the row comes from; frames from 0, time in ps
  psi2, psi3, ...    coordinates on the map
  distance           to the nearest landmark, in units of sqrt(epsilon)
  inside             1 where the map covers the point, 0 where it extrapolates
  nearest            number of the nearest landmark
  p                  share of points like the training data that are as far away

examples:
  ldmaps embed map.ldm new.xtc -t top.pdb -o psi.csv
  ldmaps embed map.ldm run*.xtc -t top.pdb -o psi.parquet
  cat sensors.csv | ldmaps embed map.ldm - -o - | head

The model remembers its atoms or columns and applies them to the inputs, which
are read in chunks: memory does not depend on their length. Where fewer than 1 %
of the points are inside the map, a warning says what may be wrong, and the exit
status is 5; the output is written nevertheless.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        model MODEL        file that ldmaps fit wrote
        inputs INPUT+      trajectories or tables; - is CSV from stdin
        -o --output FILE!  .csv, .tsv, .npy or .parquet; - is CSV on stdout
    """
    options.add(parser, table)
    options.add_input_options(parser)
    options.add(parser.add_argument_group("atoms"), f"{options.NAMING}\n{options.MATCHING}")
    options.add_worker_options(parser)
    table = """
        --parts  with workers: make the output a folder of one file per piece and index.json, which workers write
    """
    options.add(parser, table)
    options.add_common(parser)


def run(arguments: argparse.Namespace) -> int | None:
    """Run the command."""
    from ldmaps.cli.writers import check_format, open_writer
    from ldmaps.inputs import FrameSource
    from ldmaps.maps.model_file import read_model
    from ldmaps.progress import Progress
    from ldmaps.validation.outside_reasons import outside_warning

    check_format(arguments.output)
    check_output(arguments.output, arguments.force, is_folder=arguments.parts)
    if arguments.parts and (arguments.output == "-" or not options.asks_for_workers(arguments)):
        raise InvalidInputError(
            "--parts requires --workers N (or --scheduler ADDRESS) and an output folder, -o FOLDER"
        )
    model = read_model(arguments.model)
    source = options.open_files(arguments, arguments.inputs, model.source_)
    check_width(model, source)
    progress = Progress(False if arguments.quiet else None)
    if options.asks_for_workers(arguments):
        from ldmaps.cli.workers import embed_blocks, in_blocks, workers_of

        with workers_of(arguments):
            files = in_blocks(arguments, source, model.source_)
            with progress.stage("embedding", len(files.blocks), source.item) as stage:
                sample = embed_blocks(
                    model.embedder_,
                    files,
                    arguments.output,
                    stage,
                    parts=arguments.parts,
                    names=model.coordinate_names_,
                )
    else:
        total = source.n_frames if progress.visible else None
        with (
            progress.stage("embedding", total, source.item) as stage,
            open_writer(
                arguments.output, model.n_components_, source.files, model.coordinate_names_
            ) as writer,
        ):
            sample = embed_source(model.embedder_, source, writer, stage, arguments.threads)
    share = sample.inside / stage.done
    atoms = source.atoms if isinstance(source, FrameSource) else None
    warning = outside_warning(model, sample, source.item, None if atoms is None else atoms.labels)
    summary = {"output": arguments.output, "rows": stage.done, "inside": share, "seconds": stage.seconds}
    if arguments.json:
        write_json(summary, sys.stderr if arguments.output == "-" else None)
    elif arguments.output != "-":
        say(arguments, f"{arguments.output}: {stage.summary()}, {100 * share:.1f} % inside the map")
        for line in source.remarks:
            say(arguments, line)
    if warning is None:
        return None
    complain(f"warning: {warning}")
    return NOTHING_INSIDE


def embed_source(
    embedder: Embedder, source: PointSource, writer: Writer, stage: Stage, n_threads: int | None
) -> OutsideSample:
    """Embed and write chunk after chunk; return how many points are inside the map, and some that are not."""
    from contextlib import closing

    from ldmaps.maps.embed_chunks import embed_chunks
    from ldmaps.validation.outside_reasons import OutsideSample

    sample = OutsideSample()
    embedded = embed_chunks(embedder, source, n_threads)
    with closing(embedded):  # an output that fails ends the threads, too
        for chunk, projected in embedded:
            writer.write(chunk, projected.coordinates, projected.coverage)
            sample.add(chunk.frames, projected.coverage.inside)
            stage.advance(len(chunk))
    return sample


def check_width(model: StoredMap, source: PointSource) -> None:
    """Raise when rows do not have as many numbers as the map's points."""
    from ldmaps.point_faults import wrong_width

    metric, width = model.metric_, model.n_features_in_
    fault = wrong_width(source.shape, width, takes_frames=metric.takes_frames, counted="columns")
    if fault is not None and not metric.takes_distances:
        text = f"{source.describe()} has {fault}; choose the same with "
        raise InvalidInputError(text, Named("select"), " or ", Named("columns"))
