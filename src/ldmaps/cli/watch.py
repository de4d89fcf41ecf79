"""``ldmaps watch``: project records onto a map as they arrive, and show them on a live page."""

from __future__ import annotations

import argparse
from contextlib import suppress

from ldmaps.cli import options
from ldmaps.cli.session import say
from ldmaps.cli.stream import HAPPENED, CommandStream, add_stream_options
from ldmaps.errors import InvalidInputError, one_line

SHOWN = "output top follow regions host port token open exit_when_done force"
EPILOG = """\
Inputs and most options are those of ldmaps stream. Records are not stored
unless -o names an output. The page is served to this machine only, unless
--host says otherwise; then it needs a token. It stays when the stream ends,
until Ctrl-C.

examples:
  producer | ldmaps watch map.ldm
  ldmaps watch map.ldm run.xtc -t top.pdb --follow --open
  ldmaps watch map.ldm imd://localhost:8889 -t top.pdb -o psi.csv
  ldmaps watch map.ldm sensors.csv --host 0.0.0.0 --token-file token.txt

To look from another machine without opening a port there:
  ssh -L 8765:127.0.0.1:8765 HOST
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_stream_options(parser, output=None)
    page = parser.add_argument_group("page")
    table = """
        --host HOST=127.0.0.1  where to serve it
        --port N=8765          port; 0 takes any that is free
    """
    options.add(page, table, port=_port)
    table = """
        --token TOKEN      what viewers must know, at least 16 characters; auto generates one
        --token-file FILE  file that holds the token
    """
    options.add(page.add_mutually_exclusive_group(), table)
    table = """
        --allow-host NAME  another name the page may be opened by, such as a proxy's; may be repeated
        --max-viewers N=64  viewers at once
        --title TEXT       heading of the page
        --open             open the page in a browser of this machine
        --exit-when-done   end with the stream, and the page with it
    """
    options.add(page, table, allow_host={"action": "append", "default": []})
    options.add_common(parser)


def run(arguments: argparse.Namespace) -> int | None:
    """Run the command."""
    import webbrowser

    from ldmaps.analysis import LivePage
    from ldmaps.maps.loading import load

    token = _token(arguments)
    stream = CommandStream(arguments, load(arguments.model))
    engine = stream.engine
    page = LivePage(
        engine.model,
        regions=None if engine.tracker is None else engine.tracker.regions,
        token=token,
        allowed_hosts=arguments.allow_host,
        **options.chosen(arguments, "host port title max_viewers"),
    )
    with page:
        say(arguments, f"live page: {page.address}")
        if arguments.open and not webbrowser.open(page.address):
            say(arguments, "there is no browser here that could be opened")
        try:
            status = stream.carry_out(page)
        except BrokenPipeError:
            raise
        except Exception as error:
            if engine.summary.batches:  # a stream that never began needs no page
                page.fail(one_line(error))
                say(arguments, f"the stream stopped: {error}")
                _stay(arguments)
            raise
        if status != HAPPENED:
            _stay(arguments)
    return status


def _stay(arguments: argparse.Namespace) -> None:
    """Keep the page up until Ctrl-C, which is then the proper end."""
    import threading

    if not arguments.exit_when_done:
        say(arguments, "the page stays; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


def _token(arguments: argparse.Namespace) -> str | None:
    if arguments.token == "auto":
        import secrets

        return secrets.token_urlsafe(24)
    if arguments.token_file is None:
        return arguments.token  # type: ignore[no-any-return]
    from pathlib import Path

    try:
        return Path(arguments.token_file).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{arguments.token_file} holds no token: it is not text") from error


def _port(text: str) -> int:
    port: int = options.not_negative(text)
    if port >= 2**16:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, got {text!r}")
    return port
