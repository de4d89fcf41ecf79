"""Numbers in text are Python's to the last bit and byte, however they are read and written."""

from __future__ import annotations

import csv
import json
import math
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ldmaps import kernels

RNG = np.random.default_rng(16)
N = 20_000


def any_doubles(count: int) -> np.ndarray:
    """Return numbers of all sizes, as many of each exponent, subnormal ones too."""
    values = RNG.integers(0, 2**64, size=count, dtype=np.uint64).view(np.float64)
    return np.concatenate(
        [values[np.isfinite(values)], RNG.integers(1, 2**52, size=1000).astype(np.uint64).view(float)]
    )


VALUES = {
    "usual": RNG.normal(size=N),
    "all sizes": any_doubles(N),
    "around those of usual size": 10.0 ** RNG.uniform(-14, 20, size=N) * RNG.choice([-1, 1], size=N),
    "single precision": RNG.normal(size=N).astype(np.float32).astype(np.float64),
    "few decimals": np.round(RNG.normal(size=N) * 100, 3),
    "whole": RNG.integers(-(10**5), 10**5, size=N).astype(np.float64),
    "halves": RNG.integers(-(10**7), 10**7, size=N) / 2,
    "powers of two": 2.0 ** RNG.integers(-60, 50, size=N) * RNG.integers(1, 1000, size=N),
    "next to powers of ten": np.nextafter(10.0 ** RNG.integers(-20, 20, size=N), RNG.integers(0, 2, size=N)),
    "ends": np.array([0.0, -0.0, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, 9.5, 1e22, 1e23]),
}


def read(text: bytes, n_rows=1, n_columns=1, *, delimiter=",", is_json=False, targets=None, longest=1 << 40):
    """Return the rows that the kernel reads, and the place behind them."""
    targets = np.arange(n_columns) if targets is None else np.asarray(targets)
    block = np.empty((n_rows, max(targets) + 1))
    count, place = kernels.read_rows(text, 0, ord(delimiter), is_json, longest, targets, block)
    return block[:count], place


def number(text: str, *, is_json=False) -> float | None:
    """Return what the kernel reads of one cell, None if it leaves that to Python."""
    rows, place = read(f"[{text}]\n".encode() if is_json else f"{text}\n".encode(), is_json=is_json)
    assert place == (0 if not len(rows) else len(text.encode()) + (3 if is_json else 1))
    return rows[0, 0] if len(rows) else None


def written(
    values: np.ndarray, forms: list[int], texts: list[bytes], words=(b"nan", b"inf", b"-inf")
) -> bytes:
    out = np.empty(len(values) * (len(b"".join(texts)) + values.shape[1] * 100), np.uint8)
    stops = [np.cumsum([len(one) for one in several]) for several in (texts, words)]
    arguments = np.array(forms), b"".join(texts), stops[0], b"".join(words), stops[1], out
    return out[: kernels.write_rows(values, *arguments)].tobytes()


def same_bits(left: float, right: float) -> bool:
    return struct.pack("d", left) == struct.pack("d", right)


# -- reading -------------------------------------------------------------------


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("form", ["%r", "%.17g", "%.7g", "%.18e"])
def test_numbers_are_read_as_python_does(kind, form):
    texts = [form % value for value in VALUES[kind].tolist()]
    expected = np.array([float(text) for text in texts])
    kept = np.isfinite(expected)
    lines = "".join(f"{text}\n" for text, keep in zip(texts, kept, strict=True) if keep).encode()
    rows, place = read(lines, len(texts))
    assert place == len(lines)
    np.testing.assert_array_equal(rows[:, 0].view(np.uint64), expected[kept].view(np.uint64))


def test_numbers_half_way_between_two_are_read_as_python_does():
    whole = [str(2 * value + 1) for value in RNG.integers(2**52, 2**53, size=N).tolist()]
    texts = [text + tail for text, tail in zip(whole, ["", ".0", ".1", "e0", ".00"] * (N // 5), strict=True)]
    rows, _ = read("".join(f"{text}\n" for text in texts).encode(), N)
    np.testing.assert_array_equal(rows[:, 0], [float(text) for text in texts])


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-inf", "infinity", "1e400", "1_0", "0x10", "", "+-1", "1e", "1 2", "٣"]
)
def test_anything_but_a_plain_number_is_left_to_python(text):
    assert number(text) is None


@settings(deadline=None, max_examples=500)
@given(st.text(alphabet='0123456789+-.eE ,x_\t[]\r"', max_size=12))
@example('"1"')
@example("-0")
@example("-0.0")
@example("01")
@example("1.")
@example(".5")
@example("1.e5")
def test_any_text_is_python_s_or_left_to_python(text):
    got = number(text)
    if got is not None:
        (cell,) = next(csv.reader([text]))
        assert same_bits(got, float(cell))
    got = number(text, is_json=True)
    if got is not None:
        (value,) = json.loads(f"[{text}]")
        assert same_bits(got, float(value))


def test_a_whole_number_of_json_has_no_negative_zero():
    assert math.copysign(1.0, number("-0", is_json=True)) == 1.0
    assert math.copysign(1.0, number("-0.0", is_json=True)) == -1.0
    assert math.copysign(1.0, number("-0")) == -1.0


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"1,2,3\n4,5\n", 1),
        (b"1,2,3\n4,5,6,7\n", 1),
        (b"1,2,3\n4,5,\n", 1),
        (b"1,2,3\n\n4,5,6\n", 1),
        (b"1,2,3\n4,nan,6\n", 1),
        (b'1,2,3\n4,"5,6\n', 1),
        (b"1,2,3\n4,5,6", 1),
        (b"1,2,3\n4,5\r,6\n", 1),
        (b"1,2,3\n 4 , 5,6 \r\n", 2),
        (b'"1"," 2 ",3\n4,5,6\n7,8,9\n', 2),
    ],
)
def test_reading_stops_at_the_first_line_that_is_not_plain(text, count):
    rows, place = read(text, 2, 3)
    assert len(rows) == count
    assert place == len(b"".join(text.splitlines(keepends=True)[:count]))


def test_columns_are_chosen_and_others_may_hold_anything():
    text = b'a b;1; 2\n"c;""d";3;4 \n;5;6\n#;7;8\n'
    rows, place = read(text, 9, delimiter=";", targets=[-1, 1, 0])
    np.testing.assert_array_equal(rows, [[2, 1], [4, 3], [6, 5]])
    assert text[place:] == b"#;7;8\n"  # a comment, not a cell that nobody wants


def test_a_carriage_return_within_a_line_is_left_to_python():
    """It ends a line of a file, but not one of a stream."""
    assert read(b"a\rb;1\n", delimiter=";", targets=[-1, 0])[1] == 0
    assert read(b"a;1\r\n", delimiter=";", targets=[-1, 0])[0] == 1


def test_blanks_may_stand_between_cells():
    rows, _ = read(b" 1  2\t3\n4 x\xc3 6\n", 2, delimiter="\0", targets=[0, -1, 1])
    np.testing.assert_array_equal(rows, [[1, 3]])


def test_tabs_around_a_line_are_no_cells():
    """A column that nobody asked for may be empty, but where tabs separate cells, some readers drop outer ones."""
    for text in (b"\t1\t2\n", b"1\t2\t\n", b"1\t2\t \n"):
        assert read(text, delimiter="\t", targets=[-1, 0, -1] if text[0] != 9 else [-1, 0, 1])[1] == 0
    assert read(b"x\t2\ty\n", delimiter="\t", targets=[-1, 0, -1])[0] == 2


def test_a_line_may_be_too_long():
    assert read(b"1,   2\n", 1, 2, longest=5)[1] == 0
    assert read(b"1,   2\n", 1, 2, longest=6)[1] == 7


@given(st.binary(max_size=40), st.booleans(), st.sampled_from(",\t;\0"))
@settings(deadline=None, max_examples=500)
def test_any_bytes_end_without_harm(data, is_json, delimiter):
    rows, place = read(data, 9, 2, delimiter=delimiter, is_json=is_json)
    assert data[:place].count(b"\n") == len(rows)


def test_arguments_of_reading_must_fit():
    block, targets = np.empty((1, 1)), np.array([0])
    with pytest.raises(ValueError, match="begin must lie within 0 and 2, got 3"):
        kernels.read_rows(b"1\n", 3, 44, False, 9, targets, block)
    with pytest.raises(ValueError, match="targets must lie within -1 and 0, got 1"):
        kernels.read_rows(b"1\n", 0, 44, False, 9, targets + 1, block)


# -- writing -------------------------------------------------------------------


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("digits", [17, 10, 9, 5, 1])
def test_numbers_are_written_as_python_does(kind, digits):
    values = VALUES[kind]
    expected = "".join(f"%.{digits}g\n" % value for value in values.tolist())
    assert written(values[:, None], [digits], [b"", b"\n"]).decode() == expected


@settings(deadline=None, max_examples=300)
@given(st.floats(), st.integers(1, 17))
@example(449645.0, 5)
@example(99999.5, 5)
@example(9.9999999999999995e-5, 17)
def test_any_number_is_written_as_python_does(value, digits):
    expected = f"%.{digits}g" % value
    assert written(np.array([[value]]), [digits], [b"", b""]).decode() == expected


def test_whole_numbers_and_words_stand_between_texts():
    values = np.empty((2, 3))
    whole = values.view(np.int64)
    whole[:, 0], values[:, 1], whole[:, 2] = [-(2**63), 2**53 + 1], [np.nan, -np.inf], [4, 3]
    rows = written(values, [0, 5, -1], [b"<", b"|", b"", b">\n"], [b"", b"?", b"-?", b"\xc3\xa9", b""])
    assert rows == b"<-9223372036854775808|>\n<9007199254740993|-?\xc3\xa9>\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forms": np.array([18])}, "forms must lie within -1 and 17"),
        ({"text_stops": np.array([0, 9])}, "text_stops must lie within 0 and 1"),
        (
            {"words": b"n" * 50, "word_stops": np.array([3, 6, 50])},
            "words must begin with those for nan, inf and -inf",
        ),
        ({"word_stops": np.array([3, 2, 9])}, "word_stops must not fall, got 2 behind 3"),
        ({"word_stops": np.array([3, 6])}, "the size of word_stops along axis 0 must be at least 3"),
        ({"forms": np.array([-1])}, "a value must be the place of a word"),
        ({"out": np.empty(5, np.uint8)}, "out must have room"),
    ],
)
def test_arguments_of_writing_must_fit(change, message):
    arguments = {
        "values": np.full((1, 1), np.pi),
        "forms": np.array([17]),
        "texts": b"\n",
        "text_stops": np.array([0, 1]),
        "words": b"naninf-inf",
        "word_stops": np.array([3, 6, 10]),
        "out": np.empty(40, np.uint8),
    }
    with pytest.raises(ValueError, match=message):
        kernels.write_rows(*{**arguments, **change}.values())
