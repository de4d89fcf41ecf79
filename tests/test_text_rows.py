"""Rows of text: lines that are not plain go to Python, and tables are what Python would write."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from ldmaps.text_rows import WHOLE, PlainRows, RowWriter, csv_table, read_lines


@pytest.mark.parametrize("places", [None, [1, 0], [0, 0]], ids=str)
def test_any_line_that_is_not_plain_goes_to_python(places):
    lines = [b"1,2", b"", b"x,3", b"4,5", b"6,nan", b"7,8"]
    seen = []

    def other(line, which):
        seen.append((line, which))
        cells = line.split(b",")
        if len(cells) < 2 or b"x" in line:
            return None
        return [float(cells[place]) for place in places or (0, 1)]

    text = b"rest of a line\n" + b"\n".join(lines) + b"\n9,9"
    rows, end = read_lines(lambda: PlainRows(2, ",", places), text, 15, 6, other)
    expected = np.array([[1, 2], [4, 5], [6, np.nan], [7, 8]])
    np.testing.assert_array_equal(rows, expected if places is None else expected[:, places])
    assert text[end:] == b"9,9"
    if places != [0, 0]:  # a column that is wanted twice is Python's business
        assert seen == [(lines[which], which) for which in (1, 2, 4)]


def test_a_table_is_what_python_reads_again():
    files = ["a.xtc", 'with "quotes", commas.xtc', "é.xtc"]
    times = np.array([0.1, np.nan, 1e30])
    table = csv_table(
        {"file": (files, [2, 1, 0]), "frame": (WHOLE, range(3)), "time": (10, times), "none": (10, None)}
    )
    rows = [*csv.DictReader(io.StringIO(table.decode()))]
    assert [row["file"] for row in rows] == files[::-1]
    assert [row["frame"] for row in rows] == ["0", "1", "2"]
    assert [row["time"] for row in rows] == ["0.1", "nan", "1e+30"]
    assert [row["none"] for row in rows] == [""] * 3


def test_words_of_two_columns_do_not_mix():
    writer = RowWriter(
        ["", " ", "\n"], [["a", "b"], ["c", "a long word that takes more room than numbers do"]]
    )
    assert writer.rows([[1, 0], [0, 1]]) == b"b c\na a long word that takes more room than numbers do\n"
