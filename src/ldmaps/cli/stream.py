"""``ldmaps stream``: project records onto a map as they arrive."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from ldmaps.cli import options
from ldmaps.cli.session import NOTHING_INSIDE, complain
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import suffixes, table_streams

if TYPE_CHECKING:
    from ldmaps.streaming import Sink, StreamEmbedder

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
  nearest, p, region      number of the nearest landmark; share of records like
                          the training data that are as far away; name of the
                          region, or alarm once p fell below --alarm-rate until
                          records are near the map again; inside may be 1 then

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
    options.add_common(parser)


def run(arguments: argparse.Namespace) -> int | None:
    """Run the command."""
    from ldmaps.maps.model_file import read_model

    return CommandStream(arguments, read_model(arguments.model)).carry_out()


def add_stream_options(parser: argparse.ArgumentParser, *, output: str | None) -> None:
    """Add the options; ``output`` is where records go unless -o says otherwise, None for nowhere."""
    table = """
        model MODEL   file that ldmaps fit wrote
        input INPUT?  where records come from (-, stdin)
    """
    options.add(parser, table, input={"default": "-"})
    reading = parser.add_argument_group("reading")
    table = "--format FORMAT  format of stdin or of a table (default: by its first bytes)"
    options.add(reading, table, format={"choices": table_streams(), "metavar": None})
    for shared in (
        options.COLUMNS.format("the model's"),
        options.ATOMS,
        options.NAMING,
        options.PARTS,
        options.ROWS.format("drop"),
    ):
        options.add(reading, shared)
    table = """
        --follow               wait for more data at the end of the file
        --idle-end S           end when a followed file did not grow for S seconds
        --max-records N        end after N records, those before the checkpoint included
        --stall-after S        warn when no record arrived for S seconds
        --on-stall warn|raise  whether that is a warning or ends the stream with an error
    """
    options.add(reading, table, max_records=options.not_negative, on_stall={"default": "warn"})
    # Not read from the table of sinks: help works without the package that has it, and a test compares.
    outputs = ", ".join([*suffixes(written_by="stream"), "redis://"])
    table = f"""
        -o --output FILE      a name with {outputs}; - is CSV on stdout ({output or "none"})
        --events FILE         write alarms and events of regions to FILE, as NDJSON (- is stdout)
        --quarantine FILE     keep records that cannot be embedded in FILE, as NDJSON
        --outside FILE        keep a sample of the records outside the map in FILE (.npz), for ldmaps absorb
        --outside-size N=1000  maximum number of records in that sample
        --bad-records count|quarantine|raise  count such records, count and keep them, or end the stream (count;
                              quarantine if there is a file)
        --checkpoint FILE     save progress to FILE; run the same command again to resume
        --checkpoint-every S=1  seconds between checkpoints
    """
    options.add(parser.add_argument_group("writing"), table, output={"default": output})
    table = """
        --alarm-rate RATE  rate of false alarms on data like the training data: a fraction of the records (1e-4), a
                           rate per time (1/day; for frames 1/ns), or none for no alarm (0.001, or the lowest rate that
                           the calibration points support)
        --adapt            adapt the alarm threshold to slow drift, so that the alarm rate stays the same
    """
    options.add(parser.add_argument_group("alarms"), table)
    table = """
        --regions FILE    regions of the map, .toml or .json
        --enter-after N=1  consecutive records that count as an entry
        --leave-after N=1  consecutive records that count as a departure
        --dwell-every N   report every N records spent in a region
        --exit-on EVENT:REGION  end with status 4 when this happens: enter:alarm, leave:A or dwell:A; may be repeated
    """
    exit_on = {"type": _event, "action": "append", "default": []}
    options.add(parser.add_argument_group("regions"), table, exit_on=exit_on)
    table = """
        --max-delay S=0  longest time in seconds that a record may wait to be embedded with others; 0 for low
                         latency, more for throughput
        --max-batch N=4096  maximum number of records per batch
    """
    options.add(parser.add_argument_group("pace"), table)


class CommandStream:
    """The stream that the options of :func:`add_stream_options` describe, with the map that a file holds."""

    def __init__(self, arguments: argparse.Namespace, model: Any) -> None:
        from ldmaps.cli.stream_report import Observer
        from ldmaps.streaming import StreamEmbedder, open_source
        from ldmaps.streaming.sources import model_facts

        self._arguments = arguments
        self.engine = engine = StreamEmbedder(
            model,
            bad_records=arguments.bad_records or ("quarantine" if arguments.quarantine else "count"),
            missing=arguments.missing or "drop",
            n_threads=arguments.threads,
            **options.chosen(arguments, "max_delay max_batch step stall_after on_stall"),
        )
        if engine.windows is not None and arguments.stride != 1:
            raise InvalidInputError(
                "--stride cannot be combined with windows, which are cut from consecutive rows; use --step to "
                "subsample windows"
            )
        engine.tracker = _tracker(arguments, engine.model)
        self._source = open_source(
            arguments.input,
            model_facts=options.named_facts(arguments, model_facts(engine.model)),
            form=arguments.format,
            **options.chosen(arguments, "columns top select periodic stride start stop follow idle_end"),
        )
        self._sinks = _named_sinks(arguments, engine)
        self._observer = Observer(arguments, engine)

    def carry_out(self, *sinks: Sink) -> int | None:
        """Run the stream into the outputs and ``sinks``, say what became of it, and return the exit status."""
        from ldmaps.errors import SinkError
        from ldmaps.validation.outside_reasons import outside_warning

        try:
            self._run([*self._sinks, *sinks, self._observer])
        except BaseException as error:
            if isinstance(error, SinkError) and isinstance(error.__cause__, BrokenPipeError):
                raise error.__cause__ from None  # a pipe that was closed is no fault of the stream
            if self.engine.summary.batches:  # a stream that never began needs no summary
                self._observer.report()
            raise
        self._observer.report()
        summary = self.engine.summary
        if summary.ended == "end" and summary.rejected and not summary.records:
            raise InvalidInputError(
                f"none of the {summary.rejected:,} records could be placed on the map: all were rejected; "
                "--quarantine FILE keeps them with their reasons"
            )
        if summary.ended == "end" and not summary.records and self.engine.windows is not None:
            length = self.engine.windows.length
            raise InvalidInputError(f"the stream ended before {length} rows, a window, came without a gap")
        warning = outside_warning(self.engine.model, self._observer.outside, "records")
        if warning is not None:
            complain(f"warning: {warning}")
        if self._observer.happened:
            return HAPPENED
        return None if warning is None else NOTHING_INSIDE

    def _run(self, sinks: list[Sink]) -> None:
        import logging

        log = logging.getLogger("ldmaps")
        level = log.level
        if self._arguments.quiet:
            log.setLevel(logging.ERROR)
        settings = options.chosen(self._arguments, "checkpoint checkpoint_every max_records")
        try:
            self.engine.run(self._source, sinks, stop=self._observer.stop, **settings)
        finally:
            log.setLevel(level)


def _named_sinks(arguments: argparse.Namespace, engine: StreamEmbedder) -> list[Sink]:
    """Return the outputs that the options name."""
    from ldmaps.streaming import EventsFile, QuarantineFile, open_sink
    from ldmaps.streaming.reservoir import OutsideFile

    if arguments.output == "-" and "-" in (arguments.events, arguments.quarantine):
        raise InvalidInputError("stdout takes one kind of output; name a file for the others")
    regions = () if engine.tracker is None else engine.tracker.names
    makers: dict[str, Any] = {
        "output": partial(open_sink, regions=regions),
        "events": EventsFile,
        "quarantine": QuarantineFile,
        "outside": partial(OutsideFile, model=engine.model, capacity=arguments.outside_size),
    }
    named = ((make, getattr(arguments, name)) for name, make in makers.items())
    return [make(path, overwrite=arguments.force) for make, path in named if path is not None]


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
    settings = options.chosen(arguments, "enter_after leave_after dwell_every")
    if is_silent and regions is not None:
        tracker = RegionTracker(regions, **settings)
    else:
        alarm = {"rate": arguments.alarm_rate, "adapt": arguments.adapt}
        tracker = RegionTracker.watching(model, regions, **alarm, **settings)
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
