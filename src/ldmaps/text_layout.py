"""Tables and paragraphs of plain text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

#: Widest line, which leaves room for the two columns that the ``repr`` of a map is indented by.
WIDTH = 78


def aligned(rows: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> list[str]:
    r"""Return the rows of a table as lines; columns in ``numbers`` end in line, all others begin in line.

    >>> print("\n".join(aligned([["", "time", "samples"], ["psi2", "78 ± 21 ps", "102"]], numbers=[2])))
          time        samples
    psi2  78 ± 21 ps      102
    """
    right = set(numbers)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else " "
    return [
        gap.join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def wrapped(lines: Iterable[str], indent: str = "    ", width: int = WIDTH) -> list[str]:
    """Return the same lines with longer ones broken between words, and ``indent`` before what is left of each.

    >>> wrapped(["alarms: rates down to 1 in 389 can be guaranteed"], width=30)
    ['alarms: rates down to 1 in 389', '    can be guaranteed']
    """
    parts: list[str] = []
    for line in lines:
        if len(line) <= width:
            parts.append(line)
        else:
            parts += wrap(
                line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
    return parts
