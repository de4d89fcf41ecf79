"""``ldmaps watch``: ``ldmaps stream`` with a page to look at."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ldmaps.cli import stream
from ldmaps.cli.options import not_negative, positive

if TYPE_CHECKING:
    from ldmaps.streaming import Sink, StreamEmbedder
    from ldmaps.streaming.live import LivePage

__all__ = ["add_command", "run"]

PORT = 8765

_EPILOG = """\
Inputs and most options are those of ldmaps stream. Records are written nowhere unless -o names an output.
The page is served to this machine only, unless --host says otherwise; then it needs a token. It stays when the
stream ends, until Ctrl-C.

examples:
  producer | ldmaps watch map.ldm
  ldmaps watch map.ldm run.xtc -t top.pdb --follow --regions basins.toml --open
  ldmaps watch map.ldm imd://localhost:8889 -t top.pdb -o psi.csv
  ldmaps watch map.ldm sensors.csv --host 0.0.0.0 --token-file token.txt

To look from another machine without opening a port there: ssh -L 8765:127.0.0.1:8765 HOST
"""


class _Named:
    """Passes for argparse's list of commands, and adds a command of our name with another one's options."""

    def __init__(self, commands: Any, name: str, **settings: Any) -> None:
        self._commands, self._name, self._settings = commands, name, settings

    def add_parser(self, _: str, **settings: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = self._commands.add_parser(self._name, **(settings | self._settings))
        self.parser = parser
        return parser


def add_command(commands: Any) -> None:
    """Add the command."""
    named = _Named(
        commands,
        "watch",
        help="place records on a map as they come, and show them on a live page",
        description="Place records on a fitted map as they come, and show them moving over it in a browser.",
        epilog=_EPILOG,
        conflict_handler="resolve",  # -o is not what it is elsewhere
    )
    stream.add_command(named)
    page = named.parser.add_argument_group("page")
    page.add_argument("--host", default="127.0.0.1", metavar="HOST", help="where to serve it (127.0.0.1)")
    page.add_argument(
        "--port", type=_port, default=PORT, metavar="N", help=f"port; 0 takes any that is free ({PORT})"
    )
    tokens = page.add_mutually_exclusive_group()
    tokens.add_argument(
        "--token", metavar="TOKEN", help="what viewers must know, at least 16 characters; auto makes one up"
    )
    tokens.add_argument("--token-file", metavar="FILE", help="file that holds the token")
    page.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name the page may be opened by, such as a proxy's; may be repeated",
    )
    page.add_argument("--max-viewers", type=positive, default=64, metavar="N", help="viewers at once (64)")
    page.add_argument("--title", metavar="TEXT", help="heading of the page")
    page.add_argument("--open", action="store_true", help="open the page in a browser of this machine")
    page.add_argument(
        "--exit-when-done", action="store_true", help="end with the stream, and the page with it"
    )
    page.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="also write records: .csv, .tsv, .ndjson or redis://...; - is stdout",
    )
    named.parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int | None:
    """Run the command."""
    import threading

    from ldmaps.cli.session import say
    from ldmaps.cli.stream_report import Display, ExitOn
    from ldmaps.streaming import StreamEmbedder, open_source
    from ldmaps.streaming.live import LivePage
    from ldmaps.streaming.sources import model_facts

    token = _token(arguments)
    engine = StreamEmbedder(
        arguments.model,
        max_delay=arguments.max_delay,
        max_batch=arguments.max_batch,
        bad_records=arguments.bad_records or ("quarantine" if arguments.quarantine else "count"),
        stall_after=arguments.stall_after,
        on_stall=arguments.on_stall,
        n_threads=arguments.threads,
    )
    engine.tracker = stream._tracker(arguments, engine.model)
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
    watched = ExitOn(arguments.exit_on, stop)
    page = LivePage(
        engine.model,
        regions=None if engine.tracker is None else engine.tracker.regions,
        host=arguments.host,
        port=arguments.port,
        token=token,
        allowed_hosts=arguments.allow_host,
        title=arguments.title,
        max_viewers=arguments.max_viewers,
    )
    sinks = [*_outputs(arguments, engine), watched, page]
    if not arguments.quiet and sys.stderr.isatty():
        sinks.append(Display(engine))
    with page:
        say(arguments, f"live page: {page.address}")
        if arguments.open:
            _open(arguments, page)
        try:
            engine.run(
                source,
                sinks,
                checkpoint=arguments.checkpoint,
                checkpoint_every=arguments.checkpoint_every,
                max_records=arguments.max_records,
                stop=stop,
            )
        except BaseException as error:
            if isinstance(error.__cause__, BrokenPipeError):
                raise error.__cause__ from None
            if engine.summary.batches:  # a stream that never began needs neither page nor summary
                stream._report(arguments, engine.summary, watched.happened)
                if isinstance(error, Exception):
                    page.fail(" ".join(str(error).split()))
                    say(arguments, f"the stream stopped: {error}")
                    _stay(arguments)
            raise
        stream._report(arguments, engine.summary, watched.happened)
        if watched.happened is None:
            _stay(arguments)
    return stream.HAPPENED if watched.happened else None


def _outputs(arguments: argparse.Namespace, engine: StreamEmbedder) -> list[Sink]:
    """Return the sinks that are named; unlike ldmaps stream, records need not be written anywhere."""
    if arguments.output is not None:
        return stream._sinks(arguments, engine)
    from ldmaps.streaming.sinks.files import EventsFile, QuarantineFile

    sinks: list[Sink] = []
    if arguments.events is not None:
        sinks.append(EventsFile(arguments.events, overwrite=arguments.force))
    if arguments.quarantine is not None:
        sinks.append(QuarantineFile(arguments.quarantine, overwrite=arguments.force))
    return sinks


def _stay(arguments: argparse.Namespace) -> None:
    """Keep the page up until Ctrl-C, which is then the proper end."""
    import threading

    from ldmaps.cli.session import say

    if arguments.exit_when_done:
        return
    say(arguments, "the page stays; Ctrl-C ends it")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return


def _open(arguments: argparse.Namespace, page: LivePage) -> None:
    import webbrowser

    from ldmaps.cli.session import say

    if not webbrowser.open(page.address):
        say(arguments, "there is no browser here that could be opened")


def _token(arguments: argparse.Namespace) -> str | None:
    if arguments.token == "auto":
        import secrets

        return secrets.token_urlsafe(24)
    if arguments.token_file is None:
        return arguments.token  # type: ignore[no-any-return]
    from pathlib import Path

    from ldmaps.errors import InvalidInputError

    try:
        return Path(arguments.token_file).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{arguments.token_file} holds no token: it is not text") from error


def _port(text: str) -> int:
    port = not_negative(text)
    if port >= 2**16:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, got {text!r}")
    return port
