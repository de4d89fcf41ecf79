"""``python -m ldmaps`` is the ``ldmaps`` command."""

from __future__ import annotations

import sys

from ldmaps.cli import main

if __name__ == "__main__":
    sys.exit(main())
