"""Rows of text: what separates their cells, and writing many of them in one go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

__all__ = ["delimiter_of", "formatted_rows", "is_number", "number_format", "quoted"]


def delimiter_of(line: str, path: str = "") -> str | None:
    """Return what separates the cells of a table's first line; None is white space."""
    if path.lower().endswith(".tsv") or "\t" in line:
        return "\t"
    if "," in line:
        return ","
    if ";" in line:
        return ";"
    return None if len(line.split()) > 1 else ","


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number, NaN and infinity included."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def quoted(text: str, delimiter: str) -> str:
    """Quote a cell where it must be.

    >>> quoted("plain", ","), quoted("a,b", ",")
    ('plain', '"a,b"')
    """
    if any(mark in text for mark in (delimiter, '"', "\n")):
        return '"' + text.replace('"', '""') + '"'
    return text


def number_format(dtype: np.dtype[Any]) -> str:
    """Return the format that brings numbers of a precision back unchanged."""
    return "%.9g" if dtype == np.float32 else "%.17g"


def formatted_rows(template: str, columns: Sequence[Sequence[Any]]) -> bytes:
    r"""Fill a template once a row, all rows in one go: a loop over rows would cost more than embedding them.

    >>> formatted_rows("%d,%s\n", [[1, 2], ["a", "b"]])
    b'1,a\n2,b\n'
    """
    count = len(columns[0]) if columns else 0
    return (template * count % tuple(chain.from_iterable(zip(*columns, strict=True)))).encode()
