"""Writing many rows of text in one go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

__all__ = ["formatted_rows", "number_format", "quoted"]


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
