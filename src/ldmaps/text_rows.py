"""Rows of text from numbers and numbers from rows of text, many in one go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import compiled

__all__ = ["MANY_ROWS", "formatted_rows", "number_format", "parsed_rows", "quoted", "written_rows"]

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


def number_format(dtype: np.dtype[Any]) -> str:
    """Return the format that brings numbers of a precision back unchanged."""
    return f"%.{_digits(dtype)}g"


def _digits(dtype: np.dtype[Any]) -> int:
    return 9 if dtype == np.float32 else 17


def formatted_rows(template: str, columns: Sequence[Sequence[Any]]) -> bytes:
    r"""Fill a template once per row, all rows in one go: a loop over rows would cost more than embedding them.

    >>> formatted_rows("%d,%s\n", [[1, 2], ["a", "b"]])
    b'1,a\n2,b\n'
    """
    count = len(columns[0]) if columns else 0
    return (template * count % tuple(chain.from_iterable(zip(*columns, strict=True)))).encode()


def written_rows(
    numbers: NDArray[np.int64],
    times: NDArray[np.float64] | None,
    coordinates: NDArray[Any],
    coverage: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.intp]],
    *,
    delimiter: str,
    prefix: str = "",
    endings: Sequence[str] = ("",),
    which: NDArray[np.intp] | None = None,
) -> bytes | None:
    r"""Return embedded points as rows of text, in a compiled loop; None where a number must be written by Python.

    Parameters
    ----------
    numbers : ndarray of shape (n,)
        Not negative.
    times : ndarray of shape (n,) or None
        With 10 digits; None leaves the column empty.
    coordinates : ndarray of shape (n, k)
        With as many digits as their precision needs.
    coverage : Coverage
        Distance, with 5 digits; inside, as 0 or 1; nearest.
    delimiter, prefix
        A single character; what each row begins with.
    endings, which
        What rows may end with, and the place of each row's ending (the first).

    Notes
    -----
    The same bytes as Python's ``"%.17g"`` gives; what is not finite leaves its cell empty.

    Examples
    --------
    >>> coverage = np.array([0.5]), np.array([True]), np.array([3])
    >>> written_rows(np.array([7]), None, np.array([[0.1, -2.0]]), coverage, delimiter=",")
    b'7,,0.10000000000000001,-2,0.5,1,3\n'
    """
    n, k = coordinates.shape
    distance, inside, nearest = coverage
    values = np.zeros((n, k + 2))
    if times is not None:
        values[:, 0] = times
    values[:, 1:-1], values[:, -1] = coordinates, distance
    digits = _digits(coordinates.dtype)
    precisions = np.array([0 if times is None else 10, *[digits] * k, 5])
    first = prefix.encode()
    ends = [f"{ending}\n".encode() for ending in endings]
    loops = compiled.decimals
    room = loops.ROW_BYTES + loops.CELL_BYTES * (k + 2) + len(first) + max(map(len, ends))
    out = np.empty(n * room, dtype=np.uint8)
    length = loops.write_rows(
        np.frombuffer(first, dtype=np.uint8),
        np.ascontiguousarray(numbers, dtype=np.int64),
        values.view(np.uint64),
        precisions,
        np.ascontiguousarray(inside),
        np.ascontiguousarray(nearest, dtype=np.int64),
        np.frombuffer(b"".join(ends), dtype=np.uint8),
        np.cumsum([len(end) for end in ends]),
        np.zeros(n, dtype=np.int64) if which is None else np.ascontiguousarray(which, dtype=np.int64),
        ord(delimiter),
        loops.POWERS,
        loops.TENS,
        out,
    )
    return None if length < 0 else out[:length].tobytes()


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
    if not is_json and (b'"' in text or b"#" in text):
        return None
    targets = np.full(n_columns, -1)
    chosen = np.arange(n_columns) if places is None else np.asarray(places)
    targets[chosen] = np.arange(len(chosen))
    if np.count_nonzero(targets >= 0) != len(chosen):  # a column is wanted twice
        return None
    block = np.empty((n_rows, len(chosen)))
    loops = compiled.decimals
    data = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", dtype=np.uint8)
    plain = loops.parse_lines(data, ord(delimiter), is_json, targets, loops.POWERS, block.view(np.uint64))
    return block if plain else None
