"""Rows of text from numbers and numbers from rows of text, many in one go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import compiled

__all__ = ["MANY_ROWS", "formatted_rows", "parsed_lines", "parsed_rows", "quoted"]

#: Rows from which on compiled loops save time, though the first time they have to be compiled.
MANY_ROWS = 8_192


def quoted(text: str, delimiter: str) -> str:
    """Quote a cell where it must be.

    >>> quoted("plain", ","), quoted("a,b", ",")
    ('plain', '"a,b"')
    """
    if any(mark in text for mark in (delimiter, '"', "\n")):
        return '"' + text.replace('"', '""') + '"'
    return text


def formatted_rows(template: str, columns: Sequence[Sequence[Any]]) -> bytes:
    r"""Fill a template once per row, all rows in one go: a loop over rows would cost more than embedding them.

    >>> formatted_rows("%d,%s\n", [[1, 2], ["a", "b"]])
    b'1,a\n2,b\n'
    """
    count = len(columns[0]) if columns else 0
    return (template * count % tuple(chain.from_iterable(zip(*columns, strict=True)))).encode()


def parsed_rows(
    text: bytes,
    n_rows: int,
    n_columns: int,
    delimiter: str,
    places: Sequence[int] | None = None,
    *,
    is_json: bool = False,
) -> NDArray[np.float64] | None:
    r"""Return the numbers of lines, in a compiled loop; None unless every line is a plain row of finite numbers.

    Parameters
    ----------
    text : bytes
        Lines; the last one may lack its line break.
    n_rows, n_columns : int
        How many lines, and how many cells each of them must have.
    delimiter : str
        A single character.
    places : sequence of int, optional
        Columns to return, in this order; all by default.
    is_json : bool
        Whether lines are lists.

    Notes
    -----
    The same numbers as Python's ``float`` gives.

    Examples
    --------
    >>> parsed_rows(b"1,2.5\n-3e-4,.1", 2, 2, ",")
    array([[ 1.0e+00,  2.5e+00],
           [-3.0e-04,  1.0e-01]])
    >>> parsed_rows(b"1,nan", 1, 2, ",")
    """
    whole = text if text.endswith(b"\n") else text + b"\n"
    parsed = parsed_lines(whole, n_rows, n_columns, delimiter, places, is_json=is_json)
    return parsed[0] if parsed is not None and parsed[1] == len(whole) else None


def parsed_lines(
    text: bytes,
    n_rows: int,
    n_columns: int,
    delimiter: str,
    places: Sequence[int] | None = None,
    *,
    is_json: bool = False,
) -> tuple[NDArray[np.float64], int] | None:
    r"""Return the numbers of the first lines and how many bytes these have; None as of :func:`parsed_rows`.

    Parameters
    ----------
    text : bytes
        Holds at least ``n_rows`` line breaks; what follows them is not read.
    n_rows, n_columns, delimiter, places, is_json
        As for :func:`parsed_rows`.

    Examples
    --------
    >>> parsed_lines(b"1,2\n3,4\n5", 2, 2, ",")
    (array([[1., 2.],
           [3., 4.]]), 8)
    """
    if not is_json and (b'"' in text or b"#" in text):
        return None
    targets = np.full(n_columns, -1)
    chosen = np.arange(n_columns) if places is None else np.asarray(places)
    targets[chosen] = np.arange(len(chosen))
    if np.count_nonzero(targets >= 0) != len(chosen):  # a column is wanted twice
        return None
    block = np.empty((n_rows, len(chosen)))
    loops = compiled.decimals
    data = np.frombuffer(text, dtype=np.uint8)
    stop = loops.parse_lines(data, ord(delimiter), is_json, targets, loops.POWERS, block.view(np.uint64))
    return (block, int(stop)) if stop >= 0 else None
