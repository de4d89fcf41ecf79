"""Numbers in text are Python's to the last bit and byte, however they are read and written."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldmaps.embedded_rows import written_rows
from ldmaps.text_rows import formatted_rows, parsed_rows

RNG = np.random.default_rng(16)
N = 100_000


def any_doubles(count: int) -> np.ndarray:
    """Return normal numbers of all sizes, as many of each exponent."""
    bits = RNG.integers(0, 2**64, size=count, dtype=np.uint64)
    values = bits.view(np.float64)
    return values[np.isfinite(values) & (np.abs(values) > 1e-290) & (np.abs(values) < 1e290)]


VALUES = {
    "usual": RNG.normal(size=N),
    "all sizes": any_doubles(N),
    "single precision": RNG.normal(size=N).astype(np.float32).astype(np.float64),
    "few decimals": np.round(RNG.normal(size=N) * 100, 3),
    "whole": RNG.integers(-(10**5), 10**5, size=N).astype(np.float64),
    "powers of two": 2.0 ** RNG.integers(-60, 50, size=N) * RNG.integers(1, 1000, size=N),
    "next to powers of ten": np.nextafter(10.0 ** RNG.integers(-20, 20, size=N), RNG.integers(0, 2, size=N)),
}


def parsed(texts: list[str], *, is_json: bool = False) -> np.ndarray | None:
    lines = [f"[{text}]" if is_json else text for text in texts]
    block = parsed_rows("\n".join(lines).encode(), len(lines), 1, ",", is_json=is_json)
    return None if block is None else block[:, 0]


def written(values: np.ndarray, digits: int) -> list[str] | None:
    """Write numbers with 17, 10 or 5 digits, which are those of coordinates, times and distances."""
    n, none = len(values), np.zeros(len(values))
    rows = written_rows(
        np.arange(n),
        values if digits == 10 else None,
        (values if digits == 17 else none)[:, None],
        (values if digits == 5 else none, np.zeros(n, dtype=bool), np.zeros(n, dtype=np.intp)),
        delimiter=",",
    )
    if rows is None:
        return None
    return [row.split(",")[{10: 1, 17: 2, 5: 3}[digits]] for row in rows.decode().splitlines()]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("form", ["%r", "%.17g", "%.7g", "%.18e"])
def test_numbers_are_read_as_python_does(kind, form):
    texts = [form % value for value in VALUES[kind].tolist()]
    expected = np.array([float(text) for text in texts])
    np.testing.assert_array_equal(parsed(texts).view(np.uint64), expected.view(np.uint64))


def test_numbers_half_way_between_two_are_read_as_python_does():
    whole = [str(2 * value + 1) for value in RNG.integers(2**52, 2**53, size=N).tolist()]
    texts = [text + tail for text, tail in zip(whole, ["", ".0", ".1", "e0", ".00"] * (N // 5), strict=True)]
    np.testing.assert_array_equal(parsed(texts), [float(text) for text in texts])


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("digits", [17, 10, 5])
def test_numbers_are_written_as_python_does(kind, digits):
    values = VALUES[kind]
    assert written(values, digits) == [f"%.{digits}g" % value for value in values.tolist()]


def test_a_tie_in_a_product_that_was_cut_off_is_left_to_python():
    assert written(np.array([449645.0]), 5) is None
    assert written(np.array([449646.0]), 5) == ["4.4965e+05"]


def test_single_precision_is_written_with_nine_digits():
    values = VALUES["usual"].astype(np.float32)
    n = len(values)
    coverage = np.zeros(n, dtype=np.float32), np.ones(n, dtype=bool), np.arange(n)
    rows = written_rows(np.arange(n), None, values[:, None], coverage, delimiter="\t")
    numbers = range(n)
    assert rows == formatted_rows("%d\t\t%.9g\t0\t1\t%d\n", [numbers, values.tolist(), numbers])


@settings(deadline=None, max_examples=300)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_is_python_s_or_left_to_python(value):
    for digits in (17, 10, 5):
        assert written(np.array([value]), digits) in (None, [f"%.{digits}g" % value])
    for text in (repr(value), f"{value:.17g}", f"{value:.3e}"):
        got = parsed([text])
        assert got is None or struct.pack("d", got[0]) == struct.pack("d", float(text))


@settings(deadline=None, max_examples=500)
@given(st.text(alphabet="0123456789+-.eE ,x_\t[]\r", max_size=12))
def test_any_text_is_python_s_or_left_to_python(text):
    got = parsed([text])
    if got is not None:
        assert struct.pack("d", got[0]) == struct.pack("d", float(text))
    got = parsed([text], is_json=True)
    if got is not None:
        (value,) = json.loads(f"[{text}]")
        assert struct.pack("d", got[0]) == struct.pack("d", float(value))


def test_a_whole_number_of_json_has_no_negative_zero():
    assert math.copysign(1.0, parsed(["-0"], is_json=True)[0]) == 1.0
    assert math.copysign(1.0, parsed(["-0.0"], is_json=True)[0]) == -1.0


@pytest.mark.parametrize(
    "text",
    ["1,2,3\n4,5", "1,2,3\n4,5,6,7", "1,2,3\n4,5,", "1,2,3\n\n4,5,6", "1,2,3\n4,nan,6", '1,2,3\n4,"5",6'],
)
def test_anything_else_is_left_to_python(text):
    assert parsed_rows(text.encode(), 2, 3, ",") is None
    assert parsed_rows(b"1,2,3\n4,5,6", 1, 3, ",") is None
    assert parsed_rows(b"1,2,3\n4,5,6", 3, 3, ",") is None


def test_columns_are_chosen_and_others_may_hold_anything():
    block = parsed_rows(b"a b;1; 2\nc;3;4 \n", 2, 3, ";", [2, 1])
    np.testing.assert_array_equal(block, [[2, 1], [4, 3]])
    assert parsed_rows(b"1,2\n", 1, 2, ",", [0, 0]) is None
    assert parsed_rows(b"# a,1\n", 1, 2, ",", [1]) is None  # a comment, not a cell that nobody wants


def test_what_is_not_finite_leaves_its_cell_empty():
    coverage = np.array([np.inf, 1e5]), np.array([True, False]), np.array([0, 12])
    rows = written_rows(
        np.array([9, 10]),
        np.array([np.nan, 0.25]),
        np.array([[np.nan], [-1e-5]]),
        coverage,
        delimiter=",",
        prefix="run.csv,",
        endings=[",A", ",", ",folded"],
        which=np.array([1, 2]),
    )
    assert rows == b"run.csv,9,,,,1,0,\nrun.csv,10,0.25,-1.0000000000000001e-05,1e+05,0,12,folded\n"
