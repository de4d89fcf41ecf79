"""The ``ldmaps`` command; one file per command.

No file imports numpy or anything slower before it runs, so that ``--help`` and completion answer at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ldmaps.cli.parser import parse
from ldmaps.cli.session import guarded

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit status, as ``ldmaps --help`` lists them.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; ``sys.argv`` by default.
    """
    try:
        arguments = parse(argv)
    except SystemExit as stop:  # argparse ends --help, --version and usage errors like this
        return int(stop.code or 0)
    return guarded(arguments.run, arguments)
