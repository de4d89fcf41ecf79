"""``ldmaps demo``: map a molecule that ships with ldmaps, and draw it."""

from __future__ import annotations

import argparse
from pathlib import Path

from ldmaps.cli import options
from ldmaps.cli.session import shown_progress, write_json
from ldmaps.errors import InvalidInputError

SHOWN = ""
EPILOG = """\
Fits exact and landmark maps to alanine dipeptide, streams unseen frames into
them, prints a table and draws a figure. Takes about a minute; --stride 10 gives
a quick look. With --files it writes files to try the other commands on instead.

examples:
  ldmaps demo --stride 10 --output demo.png
  ldmaps demo --files try
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        --output FIGURE=demo/alanine_dipeptide.png  figure, .png, .pdf or .svg; a PNG and a vector copy are written
        --files DIR   write a trajectory, tables, a map and its report into DIR instead
        --stride N=1  use every N-th frame
        --random-state N=0  seed of split and landmarks
    """
    options.add(parser, table, output=_figure_path, random_state=options.not_negative)
    options.add_common(parser, "threads seed")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import time

    from ldmaps.analysis.plot import import_pyplot
    from ldmaps.demo.comparison import run as compare
    from ldmaps.demo.comparison import table
    from ldmaps.demo.figure import draw

    if arguments.files is not None:
        _write_files(arguments)
        return
    for suffix in (".png", ".svg" if arguments.output.suffix == ".svg" else ".pdf"):
        if arguments.output.with_suffix(suffix).exists() and not arguments.force:
            raise InvalidInputError(
                f"{arguments.output.with_suffix(suffix)} exists already; name another with --output, or use --force"
            )
    import_pyplot()  # before a minute's work, not after it
    start = time.perf_counter()
    demonstration = compare(stride=arguments.stride, seed=arguments.random_state)
    paths = draw(demonstration, arguments.output)
    print(table(demonstration))
    print(f"figure: {paths[0]} and {paths[1]}; all in {time.perf_counter() - start:.0f} s")


def _write_files(arguments: argparse.Namespace) -> None:
    from ldmaps.demo.files import FILES, write_files
    from ldmaps.progress import reporting

    with reporting(shown_progress(arguments)):
        write_files(arguments.files, stride=arguments.stride, force=arguments.force)
    if arguments.json:
        write_json({"folder": arguments.files, "files": list(FILES)})
    elif not arguments.quiet:
        print(f"cd {arguments.files}")
        print("\n".join(f"  {name:<12} {what}" for name, what in FILES.items()))
        print("open map.html in a browser, then try:")
        print("  ldmaps embed map.ldm new.xtc -t top.pdb -o psi.csv")


def _figure_path(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise argparse.ArgumentTypeError(f"a figure ends in .png, .pdf or .svg, got {text!r}")
    return path
