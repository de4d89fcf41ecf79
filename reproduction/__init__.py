"""The paper, reproduced: Table 1 and Figures 2 to 5 beside what was printed, and a table of our own.

``python -m reproduction`` (or ``make paper``) computes everything and writes a page;
one file a table or figure. Nothing is imported until it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the reproduction from command-line arguments; return the exit status."""
    from reproduction.run import main as run

    return run(argv)
