"""Tables as CSV, for machines, and as Markdown, for people."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ldmaps.files import written_whole

__all__ = ["Table", "mean_and_spread", "number", "percent", "times"]

NOTHING = "–"


@dataclass
class Table:
    """Rows under named columns.

    >>> print(Table(("M", "Z"), [(50, "1.20"), (100, None)]).markdown())
    | M | Z |
    |---|---|
    | 50 | 1.20 |
    | 100 | – |
    """

    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += [
            "| " + " | ".join(NOTHING if cell is None else str(cell) for cell in row) + " |"
            for row in self.rows
        ]
        return "\n".join(lines)

    def write_csv(self, path: Path, remark: str) -> None:
        """Write the table under a line that says what made it; missing numbers are left empty."""
        text = io.StringIO()
        text.write(f"# {remark}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_cell(value) for value in row] for row in self.rows)
        with written_whole(path) as stream:
            stream.write(text.getvalue().encode())


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{float(value):.6g}" if isinstance(value, (float, np.floating)) else value


def number(value: float | None) -> str:
    """Write a count or a mean of counts.

    >>> number(2472.4), number(95.2), number(8000.0)
    ('2,472', '95.2', '8,000')
    """
    if value is None or math.isnan(value):
        return NOTHING
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.1f}"


def percent(value: float | None) -> str:
    """Write an error in percent to three figures, small ones to two.

    >>> percent(13.43), percent(0.643), percent(0.0051)
    ('13.4', '0.64', '0.0051')
    """
    if value is None or math.isnan(value):
        return NOTHING
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def times(value: float | None) -> str:
    """Write a ratio to two figures.

    >>> times(0.876), times(3.14), times(148.2)
    ('0.88', '3.1', '148')
    """
    if value is None or math.isnan(value):
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def mean_and_spread(values: Iterable[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation; NaN where there are too few."""
    array = np.asarray(list(values), dtype=np.float64)
    mean = float(array.mean()) if len(array) else math.nan
    return mean, float(array.std(ddof=1)) if len(array) > 1 else math.nan
