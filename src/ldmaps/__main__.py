"""``python -m ldmaps`` is the ``ldmaps`` command."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; Ctrl-C while it is still being loaded ends it in one line, too."""
    try:
        from ldmaps.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("ldmaps: interrupted; no partial output was left", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
