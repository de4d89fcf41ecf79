"""``ldmaps stream``: place records on a map as they come."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import add_common, not_negative, positive

if TYPE_CHECKING:
    from ldmaps.streaming import Sink, StreamEmbedder, StreamSummary

__all__ = ["HAPPENED", "add_command", "run"]

#: Exit status when an event of --exit-on ended the stream.
HAPPENED = 4
FORMAT_NAMES = ("csv", "ndjson", "npy")
_KINDS = ("enter", "leave", "dwell")

_EPILOG = """\
inputs:
  -                        stdin: CSV, NDJSON or npy messages, told apart by their first bytes (the default)
  FILE                     a table (.csv, .ndjson, .npy) or a trajectory (.xtc, ...; -t names the topology);
                           with --follow one that is still being written
  imd://host:port          a running simulation, over IMD version 3
  redis://host:port/NAME   a Redis stream

columns of the output:
  number, time             place in the stream, from 0; the record's own time (empty if it has none)
  psi2, psi3, ...          coordinates on the map
  distance, inside         to the nearest landmark in units of the square root of epsilon; 1 where the map covers it
  nearest, region          number of the nearest landmark; name of the region (empty outside all of them)

examples:
  producer | ldmaps stream map.ldm
  producer | ldmaps stream map.ldm - --regions basins.toml --exit-on leave:A -o psi.csv
  ldmaps stream map.ldm run.xtc -t top.pdb --follow -o psi.csv --events events.ndjson
  ldmaps stream map.ldm sensors.csv -o psi.csv --checkpoint psi.checkpoint

With --checkpoint a stream that was killed goes on where it was: run the same command again. No record is lost or
repeated in the output. Exit status 4: an event of --exit-on happened.
"""


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands,
        "stream",
        "place records on a map as they come",
        "Place records on a fitted map as they come, and say where they are.",
        _EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help="file that ldmaps fit wrote")
    parser.add_argument(
        "input", nargs="?", default="-", metavar="INPUT", help="where records come from (-, stdin)"
    )
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--format", choices=FORMAT_NAMES, help="format of stdin or of a table (its first bytes tell)"
    )
    reading.add_argument(
        "--columns",
        metavar="A,B,...",
        help="columns or fields to use, by name or number from 1 (the model's)",
    )
    reading.add_argument(
        "-t", "--top", "--topology", dest="top", metavar="FILE", help="file that names the atoms"
    )
    reading.add_argument("--select", metavar="ATOMS", help="atoms to use, in mdtraj's language (the model's)")
    reading.add_argument("--follow", action="store_true", help="wait for more at the end of the file")
    reading.add_argument(
        "--idle-end", type=_seconds, metavar="S", help="end when a followed file did not grow for S seconds"
    )
    reading.add_argument("--max-records", type=not_negative, metavar="N", help="end after N records")
    reading.add_argument(
        "--stall-after", type=_seconds, metavar="S", help="warn when nothing came for S seconds"
    )
    reading.add_argument(
        "--on-stall",
        choices=("warn", "raise"),
        default="warn",
        help="what a stall does: warn, or end with an error",
    )
    writing = parser.add_argument_group("writing")
    writing.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help=".csv, .tsv, .ndjson or redis://...; - is CSV on stdout (-)",
    )
    writing.add_argument(
        "--events", metavar="FILE", help="write events of regions to FILE, as NDJSON (- is stdout)"
    )
    writing.add_argument(
        "--quarantine", metavar="FILE", help="keep records that cannot be embedded in FILE, as NDJSON"
    )
    writing.add_argument(
        "--bad-records",
        choices=("count", "quarantine", "raise"),
        help="what they do: be counted, be kept as well, or end the stream (count; quarantine if there is a file)",
    )
    writing.add_argument("--checkpoint", metavar="FILE", help="remember in FILE how far the outputs are safe")
    writing.add_argument(
        "--checkpoint-every", type=_seconds, default=1.0, metavar="S", help="seconds between checkpoints (1)"
    )
    regions = parser.add_argument_group("regions")
    regions.add_argument("--regions", metavar="FILE", help="regions of the map, .toml or .json")
    regions.add_argument(
        "--enter-after", type=positive, default=1, metavar="N", help="records in a row that make an entry (1)"
    )
    regions.add_argument(
        "--leave-after",
        type=positive,
        default=1,
        metavar="N",
        help="records in a row that make a departure (1)",
    )
    regions.add_argument(
        "--dwell-every", type=positive, metavar="N", help="report every N records spent in a region"
    )
    regions.add_argument(
        "--exit-on",
        action="append",
        default=[],
        type=_event,
        metavar="EVENT:REGION",
        help="end with status 4 when this happens: enter:A, leave:A or dwell:A; may be repeated",
    )
    pace = parser.add_argument_group("pace")
    pace.add_argument(
        "--max-delay",
        type=_seconds,
        default=0.0,
        metavar="S",
        help="longest that a record may wait for company, in seconds; 0 for latency, more for throughput (0)",
    )
    pace.add_argument(
        "--max-batch", type=positive, default=4096, metavar="N", help="most records to a batch (4096)"
    )
    add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int | None:
    """Run the command."""
    import logging
    import threading

    from ldmaps.cli.stream_report import Display, ExitOn
    from ldmaps.errors import SinkError
    from ldmaps.streaming import StreamEmbedder, open_source
    from ldmaps.streaming.sources import model_facts

    engine = StreamEmbedder(
        arguments.model,
        max_delay=arguments.max_delay,
        max_batch=arguments.max_batch,
        bad_records=arguments.bad_records or ("quarantine" if arguments.quarantine else "count"),
        stall_after=arguments.stall_after,
        on_stall=arguments.on_stall,
        n_threads=arguments.threads,
    )
    engine.tracker = _tracker(arguments, engine.model)
    source = open_source(
        arguments.input,
        model_facts=model_facts(engine.model),
        form=arguments.format,
        columns=None
        if arguments.columns is None
        else [name.strip() for name in arguments.columns.split(",")],
        top=arguments.top,
        select=arguments.select,
        follow=arguments.follow,
        idle_end=arguments.idle_end,
    )
    stop = threading.Event()
    watch = ExitOn(arguments.exit_on, stop)
    sinks = [*_sinks(arguments, engine), watch]
    if not arguments.quiet and sys.stderr.isatty():
        sinks.append(Display(engine))
    log = logging.getLogger("ldmaps")
    level = log.level
    if arguments.quiet:
        log.setLevel(logging.ERROR)
    try:
        engine.run(
            source,
            sinks,
            checkpoint=arguments.checkpoint,
            checkpoint_every=arguments.checkpoint_every,
            max_records=arguments.max_records,
            stop=stop,
        )
    except SinkError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            raise error.__cause__ from None
        _report(arguments, engine.summary, watch.happened)
        raise
    except BaseException:
        if engine.summary.batches:
            _report(arguments, engine.summary, watch.happened)
        raise
    finally:
        log.setLevel(level)
    _report(arguments, engine.summary, watch.happened)
    return HAPPENED if watch.happened else None


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"a number of seconds of at least 0 is needed, got {text!r}")
    return value


def _event(text: str) -> str:
    kind, colon, region = text.partition(":")
    if kind not in _KINDS or not colon or not region:
        raise argparse.ArgumentTypeError(
            f"{', '.join(_KINDS)}, a colon and a region are needed, got {text!r}"
        )
    return text


def _tracker(arguments: argparse.Namespace, model: Any) -> Any:
    from ldmaps.errors import InvalidInputError

    if arguments.regions is None:
        for option, value in (("--events", arguments.events), ("--exit-on", arguments.exit_on)):
            if value:
                raise InvalidInputError(f"{option} needs regions, which --regions FILE names")
        return None
    from ldmaps.streaming.regions import load_regions
    from ldmaps.streaming.tracker import RegionTracker

    tracker = RegionTracker(
        load_regions(arguments.regions, model),
        enter_after=arguments.enter_after,
        leave_after=arguments.leave_after,
        dwell_every=arguments.dwell_every,
    )
    for event in arguments.exit_on:
        kind, _, region = event.partition(":")
        if region not in tracker.names:
            raise InvalidInputError(
                f"--exit-on {event}: there is no region {region!r}; the regions are {', '.join(tracker.names)}"
            )
        if kind == "dwell" and arguments.dwell_every is None:
            raise InvalidInputError(f"--exit-on {event} needs --dwell-every N")
    return tracker


def _sinks(arguments: argparse.Namespace, engine: StreamEmbedder) -> list[Sink]:
    import os

    from ldmaps.errors import InvalidInputError
    from ldmaps.streaming.sinks.files import EventsFile, OutputFile, QuarantineFile

    files = [arguments.output, arguments.events, arguments.quarantine, arguments.input, arguments.checkpoint]
    named = [os.path.abspath(name) for name in files if name not in (None, "-") and "://" not in name]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(
            f"{twice} is named twice; inputs, outputs and the checkpoint are files of their own"
        )
    if arguments.output == "-" and "-" in (arguments.events, arguments.quarantine):
        raise InvalidInputError("stdout takes one kind of output; name a file for the others")
    sinks: list[Sink] = []
    if "://" in arguments.output:
        from ldmaps.streaming.sinks.redis import RedisSink

        sinks.append(RedisSink(arguments.output))
    else:
        names = () if engine.tracker is None else engine.tracker.names
        sinks.append(OutputFile(arguments.output, regions=names, overwrite=arguments.force))
    if arguments.events is not None:
        sinks.append(EventsFile(arguments.events, overwrite=arguments.force))
    if arguments.quarantine is not None:
        sinks.append(QuarantineFile(arguments.quarantine, overwrite=arguments.force))
    return sinks


def _report(arguments: argparse.Namespace, summary: StreamSummary, happened: str | None) -> None:
    from ldmaps.cli.session import say, write_json
    from ldmaps.cli.stream_report import as_text

    if arguments.json:
        uses_stdout = "-" in (arguments.output, arguments.events, arguments.quarantine)
        write_json({**summary.as_dict(), "exit_on": happened}, sys.stderr if uses_stdout else None)
        return
    say(arguments, as_text(summary))
    if happened is not None:
        say(arguments, f"  ended by {happened}")
