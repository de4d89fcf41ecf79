"""``ldmaps stream``: place records on a map as they arrive."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ldmaps.cli.options import (
    add_atom_options,
    add_column_option,
    add_common,
    add_naming_option,
    add_part_options,
    add_row_options,
    named_facts,
    not_negative,
    option,
    positive,
)
from ldmaps.cli.session import NOTHING_INSIDE, complain, say, write_json
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import table_streams
from ldmaps.streaming.sinks import SINKS

if TYPE_CHECKING:
    from ldmaps.streaming import Sink, Source, StreamEmbedder

#: Exit status when an event of --exit-on ended the stream.
HAPPENED = 4
_KINDS = ("enter", "leave", "dwell")
SHOWN = "output format top follow regions events exit_on checkpoint outside force"
EPILOG = """\
inputs:
  -                       stdin: CSV, NDJSON or npy messages (the default)
  FILE                    a table or a trajectory (-t names its topology); with
                          --follow one that is still being written
  imd://host:port         a running simulation, over IMD version 3
  redis://host:port/NAME  a Redis stream

columns of the output:
  number, time            place in the stream, from 0; the record's own time
  psi2, psi3, ...         coordinates on the map
  distance, inside        to the nearest landmark in units of sqrt(epsilon);
                          1 where the map covers the record
  nearest, p, region      number of the nearest landmark; share of records like the
                          training data that are as far away; name of the region,
                          alarm where the record left the map

examples:
  producer | ldmaps stream map.ldm
  ldmaps stream map.ldm run.xtc -t top.pdb --follow -o psi.csv
  ldmaps stream map.ldm sensors.csv -o psi.csv --checkpoint psi.checkpoint
  producer | ldmaps stream map.ldm --regions basins.toml --exit-on leave:A

With --checkpoint a stream that was killed continues where it was: run the same
command again. No record is lost or repeated in the output. Exit status 4: an
event of --exit-on happened; 5: fewer than 1 % of the records were inside the
map, and a warning says what may be wrong.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_stream_options(parser, output="-")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int | None:
    """Run the command."""
    from ldmaps.maps.model_file import read_model

    return CommandStream(arguments, read_model(arguments.model)).carry_out()


def add_stream_options(parser: argparse.ArgumentParser, *, output: str | None) -> None:
    """Add the options; ``output`` is where records go unless -o says otherwise, None for nowhere."""
    parser.add_argument("model", metavar="MODEL", help="file that ldmaps fit wrote")
    parser.add_argument(
        "input", nargs="?", default="-", metavar="INPUT", help="where records come from (-, stdin)"
    )
    reading = parser.add_argument_group("reading")
    option(
        reading,
        "--format",
        "format of stdin or of a table (default: by its first bytes)",
        choices=table_streams(),
    )
    add_column_option(reading, "the model's")
    add_atom_options(reading)
    add_naming_option(reading)
    add_part_options(reading)
    add_row_options(reading, "drop")
    option(reading, "--follow", "wait for more at the end of the file")
    option(reading, "--idle-end S", "end when a followed file did not grow for S seconds", _seconds)
    option(reading, "--max-records N", "end after N records", not_negative)
    option(reading, "--stall-after S", "warn when nothing came for S seconds", _seconds)
    option(
        reading,
        "--on-stall",
        "what a stall does: warn, or end with an error",
        choices=("warn", "raise"),
        default="warn",
    )
    writing = parser.add_argument_group("writing")
    option(
        writing,
        "-o --output FILE",
        f"a name with {', '.join(SINKS)}; - is CSV on stdout ({output or 'none'})",
        default=output,
    )
    option(writing, "--events FILE", "write alarms and events of regions to FILE, as NDJSON (- is stdout)")
    option(writing, "--quarantine FILE", "keep records that cannot be embedded in FILE, as NDJSON")
    option(
        writing,
        "--outside FILE",
        "keep a sample of the records outside the map in FILE (.npz), for ldmaps absorb",
    )
    option(writing, "--outside-size N", "most records of that sample (1000)", positive, default=1000)
    option(
        writing,
        "--bad-records",
        "what they do: are counted, are also kept, or end the stream (count; quarantine if there is a file)",
        choices=("count", "quarantine", "raise"),
    )
    option(writing, "--checkpoint FILE", "remember in FILE how far the outputs are safe")
    option(writing, "--checkpoint-every S", "seconds between checkpoints (1)", _seconds, default=1.0)
    alarms = parser.add_argument_group("alarms")
    option(
        alarms,
        "--alarm-rate RATE",
        "how often records like the training data may raise an alarm: 1e-4 of all, 1/day (frames: 1/ns), or none "
        "for no alarm (0.001, or the rarest that the map can promise)",
    )
    option(alarms, "--adapt", "let the alarm follow slow drift, so that it stays as rare")
    regions = parser.add_argument_group("regions")
    option(regions, "--regions FILE", "regions of the map, .toml or .json")
    option(regions, "--enter-after N", "records in a row that make an entry (1)", positive, default=1)
    option(regions, "--leave-after N", "records in a row that make a departure (1)", positive, default=1)
    option(regions, "--dwell-every N", "report every N records spent in a region", positive)
    option(
        regions,
        "--exit-on EVENT:REGION",
        "end with status 4 when this happens: enter:alarm, leave:A or dwell:A; may be repeated",
        _event,
        action="append",
        default=[],
    )
    pace = parser.add_argument_group("pace")
    option(
        pace,
        "--max-delay S",
        "longest that a record may wait for others to be embedded with, in seconds; 0 for latency, more for "
        "throughput (0)",
        _seconds,
        default=0.0,
    )
    option(pace, "--max-batch N", "most records per batch (4096)", positive, default=4096)


class CommandStream:
    """The stream that the options of :func:`add_stream_options` describe, with the map that a file holds."""

    def __init__(self, arguments: argparse.Namespace, model: Any) -> None:
        import threading

        from ldmaps.cli.stream_report import ExitOn, Outside

        self.engine = _engine(arguments, model)
        self._arguments = arguments
        self._source = _source(arguments, self.engine)
        self._stop = threading.Event()
        self._exit_on = ExitOn(arguments.exit_on, self._stop)
        self._outside = Outside()
        self._sinks = [*_named_sinks(arguments, self.engine), self._exit_on, self._outside]

    def carry_out(self, *sinks: Sink) -> int | None:
        """Run the stream into the outputs and ``sinks``, say what became of it, and return the exit status."""
        from ldmaps.errors import SinkError
        from ldmaps.maps.outside_reasons import outside_warning

        try:
            self._run(sinks)
        except BaseException as error:
            if isinstance(error, SinkError) and isinstance(error.__cause__, BrokenPipeError):
                raise error.__cause__ from None  # a pipe that was closed is no fault of the stream
            if self.engine.summary.batches:  # a stream that never began needs no summary
                self._report()
            raise
        self._report()
        summary = self.engine.summary
        if summary.ended == "end" and summary.rejected and not summary.records:
            raise InvalidInputError(
                f"none of the {summary.rejected:,} records could be placed on the map: all were rejected; "
                "--quarantine FILE keeps them with their reasons"
            )
        if summary.ended == "end" and not summary.records and self.engine.windows is not None:
            length = self.engine.windows.length
            raise InvalidInputError(f"the stream ended before {length} rows, a window, came without a gap")
        warning = outside_warning(self.engine.model, self._outside.sample, "records")
        if warning is not None:
            complain(f"warning: {warning}")
        if self._exit_on.happened:
            return HAPPENED
        return None if warning is None else NOTHING_INSIDE

    def _run(self, sinks: Iterable[Sink]) -> None:
        import logging

        from ldmaps.cli.stream_report import Alarms, Display, Rejections

        arguments = self._arguments
        taken = [*self._sinks, *sinks]
        if not arguments.quiet:
            if sys.stderr.isatty():
                taken.append(Display(self.engine))
            if self.engine.bad_records != "raise":
                taken.append(Rejections(arguments.quarantine))
            taken.append(Alarms(arguments.events))
        log = logging.getLogger("ldmaps")
        level = log.level
        if arguments.quiet:
            log.setLevel(logging.ERROR)
        try:
            self.engine.run(
                self._source,
                taken,
                checkpoint=arguments.checkpoint,
                checkpoint_every=arguments.checkpoint_every,
                max_records=arguments.max_records,
                stop=self._stop,
            )
        finally:
            log.setLevel(level)

    def _report(self) -> None:
        """Say what became of the stream, on stderr or as JSON."""
        from ldmaps.cli.stream_report import as_text

        arguments, summary, happened = self._arguments, self.engine.summary, self._exit_on.happened
        if arguments.json:
            uses_stdout = "-" in (arguments.output, arguments.events, arguments.quarantine)
            write_json({**summary.as_dict(), "exit_on": happened}, sys.stderr if uses_stdout else None)
            return
        say(arguments, as_text(summary))
        if self.engine.tracker is not None and self.engine.model.embedder_.calibration is None:
            say(arguments, "  alarms mean outside the map, at no promised rate: the map is not calibrated")
        if happened is not None:
            say(arguments, f"  ended by {happened}")


# -- pieces -------------------------------------------------------------------


def _engine(arguments: argparse.Namespace, model: Any) -> StreamEmbedder:
    """Return the engine that the options describe."""
    from ldmaps.streaming import StreamEmbedder

    engine = StreamEmbedder(
        model,
        max_delay=arguments.max_delay,
        max_batch=arguments.max_batch,
        bad_records=arguments.bad_records or ("quarantine" if arguments.quarantine else "count"),
        missing=arguments.missing or "drop",
        step=arguments.step,
        stall_after=arguments.stall_after,
        on_stall=arguments.on_stall,
        n_threads=arguments.threads,
    )
    if engine.windows is not None and arguments.stride != 1:
        raise InvalidInputError(
            "windows are of rows that follow each other; take some with --step, not --stride"
        )
    engine.tracker = _tracker(arguments, engine.model)
    return engine


def _source(arguments: argparse.Namespace, engine: StreamEmbedder) -> Source:
    """Open the input that the options describe."""
    from ldmaps.streaming import open_source
    from ldmaps.streaming.sources import model_facts

    return open_source(
        arguments.input,
        model_facts=named_facts(arguments, model_facts(engine.model)),
        form=arguments.format,
        columns=arguments.columns,
        top=arguments.top,
        select=arguments.select,
        periodic=arguments.periodic,
        stride=arguments.stride,
        start=arguments.start,
        stop=arguments.stop,
        follow=arguments.follow,
        idle_end=arguments.idle_end,
    )


def _named_sinks(arguments: argparse.Namespace, engine: StreamEmbedder) -> list[Sink]:
    """Return the outputs that the options name."""
    from ldmaps.streaming import EventsFile, QuarantineFile, open_sink

    if arguments.output == "-" and "-" in (arguments.events, arguments.quarantine):
        raise InvalidInputError("stdout takes one kind of output; name a file for the others")
    sinks: list[Sink] = []
    names = () if engine.tracker is None else engine.tracker.names
    if arguments.output is not None:
        sinks.append(open_sink(arguments.output, regions=names, overwrite=arguments.force))
    if arguments.events is not None:
        sinks.append(EventsFile(arguments.events, overwrite=arguments.force))
    if arguments.quarantine is not None:
        sinks.append(QuarantineFile(arguments.quarantine, overwrite=arguments.force))
    if arguments.outside is not None:
        from ldmaps.streaming.reservoir import OutsideFile

        capacity = arguments.outside_size
        sinks.append(OutsideFile(arguments.outside, engine.model, capacity, overwrite=arguments.force))
    return sinks


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
    is_silent = arguments.alarm_rate == "none"
    if is_silent and arguments.adapt:
        raise InvalidInputError("--adapt needs an alarm; leave --alarm-rate none out")
    if is_silent and arguments.regions is None:
        for option, value in (("--events", arguments.events), ("--exit-on", arguments.exit_on)):
            if value:
                raise InvalidInputError(
                    f"{option} needs an alarm or regions; leave --alarm-rate none out, or give --regions FILE"
                )
        return None
    from ldmaps.regions import RegionTracker, load_regions

    regions = None if arguments.regions is None else load_regions(arguments.regions, model)
    settings = {name: getattr(arguments, name) for name in ("enter_after", "leave_after", "dwell_every")}
    if is_silent and regions is not None:
        tracker = RegionTracker(regions, **settings)
    else:
        rate = {"rate": arguments.alarm_rate, "adapt": arguments.adapt}
        tracker = RegionTracker.watching(model, regions, **rate, **settings)
    for event in arguments.exit_on:
        kind, _, region = event.partition(":")
        if region not in tracker.names:
            raise InvalidInputError(
                f"--exit-on {event}: there is no region {region!r}; the regions are {', '.join(tracker.names)}; "
                "--regions FILE draws others"
            )
        if kind == "dwell" and arguments.dwell_every is None:
            raise InvalidInputError(f"--exit-on {event} needs --dwell-every N")
    return tracker
