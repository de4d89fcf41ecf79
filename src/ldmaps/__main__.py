"""``python -m ldmaps`` is the ``ldmaps`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; Ctrl-C while it is still being loaded ends it in one line, too.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; ``sys.argv`` by default.
    """
    try:
        from ldmaps.cli import main as run

        return run(argv)
    except KeyboardInterrupt:
        print("ldmaps: interrupted; no partial output was left", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
