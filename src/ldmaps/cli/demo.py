"""``ldmaps demo``: the method on the alanine dipeptide that ships with the package."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ldmaps.cli.options import add_command as add_parser
from ldmaps.cli.options import not_negative, positive

__all__ = ["add_command", "run"]


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands,
        "demo",
        "map a molecule that ships with ldmaps, and draw it",
        "Fit exact and landmark maps to alanine dipeptide, stream unseen frames into them, print a table and draw\n"
        "a figure. Takes about a minute; --stride 10 gives a quick look.",
        "example:\n  ldmaps demo --stride 10 --output demo.png",
    )
    parser.add_argument(
        "--output",
        type=_figure_path,
        default=Path("demo/alanine_dipeptide.png"),
        metavar="FIGURE",
        help="figure, .png, .pdf or .svg; a PNG and a vector copy are written (%(default)s)",
    )
    parser.add_argument("--stride", type=positive, default=1, metavar="N", help="use every N-th frame (1)")
    parser.add_argument(
        "--seed", type=not_negative, default=0, metavar="N", help="seed of split and landmarks (0)"
    )
    parser.add_argument("--debug", action="store_true", help="show the Python traceback of an error")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import time

    from ldmaps.demo.comparison import run as compare
    from ldmaps.demo.comparison import table
    from ldmaps.demo.figure import draw, matplotlib_figure

    matplotlib_figure()  # before a minute's work, not after it
    start = time.perf_counter()
    with _stages_on_stderr():
        demonstration = compare(stride=arguments.stride, seed=arguments.seed)
        paths = draw(demonstration, arguments.output)
    print(table(demonstration))
    print(f"figure: {paths[0]} and {paths[1]}; all in {time.perf_counter() - start:.0f} s")


@contextmanager
def _stages_on_stderr() -> Iterator[None]:
    log = logging.getLogger("ldmaps.demo")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _figure_path(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise argparse.ArgumentTypeError(f"a figure ends in .png, .pdf or .svg, got {text!r}")
    return path
