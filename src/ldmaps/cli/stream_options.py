"""What ``ldmaps stream`` and ``ldmaps watch`` share: options, and what is made of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ldmaps.cli.options import add_atom_options, add_column_option, add_naming_option, not_negative, positive
from ldmaps.cli.session import NOTHING_INSIDE, complain, say, write_json
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import table_streams
from ldmaps.streaming.sinks import SINKS

if TYPE_CHECKING:
    from ldmaps.streaming import Sink, Source, StreamEmbedder

__all__ = ["HAPPENED", "CommandStream", "add_stream_options"]

#: Exit status when an event of --exit-on ended the stream.
HAPPENED = 4
_KINDS = ("enter", "leave", "dwell")


def add_stream_options(parser: argparse.ArgumentParser, *, output: str | None) -> None:
    """Add the options; ``output`` is where records go unless -o says otherwise, None for nowhere."""
    parser.add_argument("model", metavar="MODEL", help="file that ldmaps fit wrote")
    parser.add_argument(
        "input", nargs="?", default="-", metavar="INPUT", help="where records come from (-, stdin)"
    )
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--format",
        choices=table_streams(),
        help="format of stdin or of a table (default: by its first bytes)",
    )
    add_column_option(reading, "the model's")
    add_atom_options(reading)
    add_naming_option(reading)
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
        default=output,
        metavar="FILE",
        help=f"a name with {', '.join(SINKS)}; - is CSV on stdout ({output or 'none'})",
    )
    writing.add_argument(
        "--events", metavar="FILE", help="write alarms and events of regions to FILE, as NDJSON (- is stdout)"
    )
    writing.add_argument(
        "--quarantine", metavar="FILE", help="keep records that cannot be embedded in FILE, as NDJSON"
    )
    writing.add_argument(
        "--outside",
        metavar="FILE",
        help="keep a sample of the records outside the map in FILE (.npz), for ldmaps absorb",
    )
    writing.add_argument(
        "--outside-size", type=positive, default=1000, metavar="N", help="most records of that sample (1000)"
    )
    writing.add_argument(
        "--bad-records",
        choices=("count", "quarantine", "raise"),
        help="what they do: are counted, are also kept, or end the stream (count; quarantine if there is a file)",
    )
    writing.add_argument("--checkpoint", metavar="FILE", help="remember in FILE how far the outputs are safe")
    writing.add_argument(
        "--checkpoint-every", type=_seconds, default=1.0, metavar="S", help="seconds between checkpoints (1)"
    )
    alarms = parser.add_argument_group("alarms")
    alarms.add_argument(
        "--alarm-rate",
        metavar="RATE",
        help="how often records like the training data may raise an alarm: a share such as 1e-4, 1/day (frames: 1/ns), "
        "or none for no alarm (0.001, or the rarest that the map can promise)",
    )
    alarms.add_argument(
        "--adapt", action="store_true", help="let the alarm follow slow drift, so that it stays as rare"
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
        help="end with status 4 when this happens: enter:alarm, leave:A or dwell:A; may be repeated",
    )
    pace = parser.add_argument_group("pace")
    pace.add_argument(
        "--max-delay",
        type=_seconds,
        default=0.0,
        metavar="S",
        help="longest that a record may wait for others to be embedded with, in seconds; 0 for latency, more for "
        "throughput (0)",
    )
    pace.add_argument(
        "--max-batch", type=positive, default=4096, metavar="N", help="most records per batch (4096)"
    )


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
        from ldmaps.errors import InvalidInputError, SinkError
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
        stall_after=arguments.stall_after,
        on_stall=arguments.on_stall,
        n_threads=arguments.threads,
    )
    engine.tracker = _tracker(arguments, engine.model)
    return engine


def _source(arguments: argparse.Namespace, engine: StreamEmbedder) -> Source:
    """Open the input that the options describe."""
    from ldmaps.cli.inputs import named_facts
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
                f"--exit-on {event}: there is no region {region!r}; the regions are {', '.join(tracker.names)}"
            )
        if kind == "dwell" and arguments.dwell_every is None:
            raise InvalidInputError(f"--exit-on {event} needs --dwell-every N")
    return tracker
