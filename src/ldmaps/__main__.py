"""``python -m ldmaps`` is the ``ldmaps`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and end the process; Ctrl-C while it is still being loaded ends it in one line, too."""
    try:
        from ldmaps.cli import command

        command()
    except KeyboardInterrupt:
        print("ldmaps: interrupted; no partial output was left", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
