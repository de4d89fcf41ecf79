"""``python -m ldmaps`` is the ``ldmaps`` command."""

from __future__ import annotations

from ldmaps.cli import command

if __name__ == "__main__":
    command()
