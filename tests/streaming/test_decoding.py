"""Bytes to records: formats, cuts at any byte, and verdicts on bad lines."""

from __future__ import annotations

import io
import itertools
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldmaps.errors import InvalidInputError
from ldmaps.streaming.sources.decoding import form_of
from ldmaps.streaming.sources.tables import open_decoder
from ldmaps.text_rows import PlainRows

ROWS = np.random.default_rng(0).normal(size=(50, 3))
FACTS = {"n_features": 3, "takes_frames": False}


@pytest.fixture
def short_lines(monkeypatch):
    monkeypatch.setattr("ldmaps.streaming.sources.decoding.largest_record", lambda width: 1000)


def csv_bytes(rows=ROWS, header="", end="\n"):
    lines = [header] if header else []
    return end.join(lines + [",".join(map(repr, row)) for row in rows.tolist()]).encode() + end.encode()


def json_bytes(rows=ROWS):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows.tolist())


def npy_bytes(*arrays):
    stream = io.BytesIO()
    for array in arrays:
        np.save(stream, array)
    return stream.getvalue()


def everything(decoder, data, cuts=(), most=1000):
    """Feed data cut at some bytes; return points, numbers, times, rejected and the last position."""
    edges = [0, *sorted(cuts), len(data)]
    parts = []

    def drain():
        while decoder.ready:
            parts.append(decoder.take(most))

    for begin, end in itertools.pairwise(edges):
        decoder.feed(data[begin:end], 1.0)
        drain()
    decoder.finish()
    drain()
    filled = [part for part in parts if len(part)]
    points = np.concatenate([part.points for part in filled]) if filled else np.empty((0, 3))
    numbers = np.concatenate([part.numbers for part in filled]) if filled else np.empty(0)
    times = [part.times for part in filled]
    rejected = [one for part in parts for one in part.rejected]
    return points, numbers.tolist(), times, rejected, parts[-1].position if parts else None


BYTES = {
    "csv": csv_bytes(),
    "header": csv_bytes(header="x,y,z"),
    "crlf": csv_bytes(end="\r\n"),
    "bom": b"\xef\xbb\xbf" + csv_bytes(header="x,y,z"),
    "no newline at the end": csv_bytes().rstrip(b"\n"),
    "empty lines and comments": b"# made by hand\n\n" + csv_bytes().replace(b"\n", b"\n\n#\n"),
    "tabs": csv_bytes().replace(b",", b"\t"),
    "white space": csv_bytes().replace(b",", b"  "),
    "quoted": b"".join(b",".join(b'"%r"' % x for x in row) + b"\n" for row in ROWS.tolist()),
    "ndjson": json_bytes(),
    "ndjson with a bom": b"\xef\xbb\xbf" + json_bytes(),
    "objects": b"".join(json.dumps({"x": row}).encode() + b"\n" for row in ROWS.tolist()),
    "one npy": npy_bytes(ROWS),
    "npy a point": npy_bytes(*ROWS),
    "npy messages": npy_bytes(ROWS[:20], ROWS[:0], ROWS[20], ROWS[21:]),
}


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("step", [None, 1, 7, 64])
def test_formats_are_told_apart_and_may_be_cut_anywhere(name, step):
    data = BYTES[name]
    cuts = range(step, len(data), step) if step else ()
    points, numbers, _, rejected, position = everything(open_decoder(facts=FACTS), data, cuts)
    np.testing.assert_array_equal(points, ROWS)
    assert numbers == list(range(50))
    assert rejected == []
    assert position["offset"] == len(data)


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("most", [1, 7])
def test_a_position_goes_on_exactly_where_it_was(name, most):
    data = BYTES[name]
    decoder = open_decoder(facts=FACTS)
    decoder.feed(data, 1.0)
    decoder.finish()
    taken = []
    for _ in range(3):
        taken.append(decoder.take(most))
    position = json.loads(json.dumps(taken[-1].position))
    again = open_decoder(facts=FACTS)
    again.restore(position)
    points, numbers, *_ = everything(again, data[position["offset"] :])
    before = sum(map(len, taken))
    np.testing.assert_array_equal(points, ROWS[before:])
    assert numbers == list(range(before, 50))


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_bad_lines_cost_their_neighbours_nothing(form):
    lines = (csv_bytes() if form == "csv" else json_bytes()).splitlines()
    bad = {
        3: b"1,2" if form == "csv" else b"[1,2]",
        4: b"1,zwei,3" if form == "csv" else b'[1,"zwei",3]',
        17: b"1,two,3" if form == "csv" else b"[1,",
        18: b"1,2,3,4" if form == "csv" else b"2,3]",
        19: b"\xff\xfe\x00" if form == "csv" else b'"\xff"',
        49: b"1_0,2,3" if form == "csv" else b"[1,2,3] [4,5,6]",
    }
    for place, line in bad.items():
        lines[place] = line
    points, numbers, _, rejected, _ = everything(open_decoder(form, FACTS), b"\n".join(lines) + b"\n")
    good = [place for place in range(50) if place not in bad]
    np.testing.assert_array_equal(points, ROWS[good])
    assert numbers == good
    assert [one.number for one in rejected] == sorted(bad)
    assert all(one.reason for one in rejected)
    assert rejected[0].raw == bad[3].decode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1,2", "2 columns, but 3 are expected"),
        (b"1,x,3", "column 2: 'x' is not a number"),
        (
            b"1,2.5.3,3",
            "column 2: '2.5.3' is not a number; write it with a point and no thousands separators, or "
            "separate columns by semicolons",
        ),
    ],
)
def test_reasons_of_csv(line, reason):
    *_, rejected, _ = everything(open_decoder("csv", FACTS), b"1,2,3\n" + line + b"\n")
    assert [one.reason for one in rejected] == [reason]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1,2", "not JSON: Expecting ',' delimiter at character 5"),
        (b"[1,2,3] x", "something follows the value at character 8"),
        (b"[1,2]", "2 numbers, but the map takes 3"),
        (b'[1,"a",3]', '"a" is not a number'),
        (b"7", "int is neither a list of numbers nor an object"),
        (b'{"a":1}', 'there is no list "x", and the names of the columns are not known'),
        (b'{"x":[1,2,3],"time":"noon"}', "the time 'noon' is neither a number nor a date"),
        (b"[" * 100_000, "not JSON"),
        (b"[1,2,1" + b"0" * 5000 + b"]", "not JSON"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"[[1,2,3]]", "an array of shape (1, 3) is not a point"),
    ],
)
def test_reasons_of_ndjson(line, reason):
    *_, rejected, _ = everything(open_decoder("ndjson", FACTS), b"[1,2,3]\n" + line + b"\n")
    assert len(rejected) == 1
    assert reason in rejected[0].reason


def test_two_broken_halves_do_not_make_a_record():
    """Joined with a comma these lines would be valid JSON, with as many records as lines."""
    lines = [b"[1,2,3],[4,5,6]", b"[7,8", b"9]", *json_bytes()[:-1].split(b"\n")]
    points, numbers, _, rejected, _ = everything(open_decoder("ndjson", FACTS), b"\n".join(lines) + b"\n")
    np.testing.assert_array_equal(points, ROWS)
    assert [one.number for one in rejected] == [0, 1, 2]
    assert numbers == list(range(3, 53))


def test_an_unclosed_quote_does_not_swallow_the_next_line():
    data = b"1,2,3\n" + b'4,5,"6\n' + csv_bytes()
    points, _, _, rejected, _ = everything(open_decoder("csv", FACTS), data)
    np.testing.assert_array_equal(points[1:], ROWS)
    assert [one.number for one in rejected] == [1]


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_an_overlong_line_is_rejected_and_not_kept(form, short_lines):
    decoder = open_decoder(form, FACTS)
    first, last = (b"1,2,3", b"4,5,6") if form == "csv" else (b"[1,2,3]", b"[4,5,6]")
    long = b"9" * 50_000
    data = first + b"\n" + long + b"\n" + last + b"\n"
    points, numbers, _, rejected, position = everything(decoder, data, range(100, len(data), 100))
    np.testing.assert_array_equal(points, [[1, 2, 3], [4, 5, 6]])
    assert numbers == [0, 2]
    assert position["offset"] == len(data)
    assert "50000 bytes; at most 1000" in rejected[0].reason
    assert len(rejected[0].raw) == 200
    decoder.feed(long, 1.0)
    decoder.feed(long, 1.0)
    assert sum(map(len, decoder._more)) <= 2000


def test_an_overlong_line_that_comes_in_one_piece(short_lines):
    decoder = open_decoder("csv", FACTS)
    _, numbers, _, rejected, position = everything(decoder, b"1,2,3\n" + b"9" * 5000 + b"\n4,5,6\n")
    assert numbers == [0, 2]
    assert position["offset"] == 5013
    assert "5000 bytes" in rejected[0].reason


# -- columns -------------------------------------------------------------------


def test_columns_are_found_by_name_and_time_is_told():
    facts = {"n_features": 2, "columns": ["b", "a"]}
    data = b"time,a,note,b\n" + b"".join(b"%d.5,%d,text,%d\n" % (i, i, 10 * i) for i in range(20))
    points, _, times, rejected, _ = everything(open_decoder(facts=facts), data)
    assert rejected == []
    np.testing.assert_array_equal(points, [[10 * i, i] for i in range(20)])
    np.testing.assert_array_equal(np.concatenate(times), np.arange(20) + 0.5)


def test_a_time_column_beside_the_points():
    points, _, times, *_ = everything(open_decoder("csv", FACTS), b"Time,x,y,z\n0.5,1,2,3\n")
    np.testing.assert_array_equal(points, [[1, 2, 3]])
    assert times[0].tolist() == [0.5]
    points, _, times, *_ = everything(open_decoder("csv", FACTS), b"time,x,y\n0.5,1,2\n")
    np.testing.assert_array_equal(points, [[0.5, 1, 2]])
    assert times == [None]


def test_columns_can_be_chosen():
    decoder = open_decoder("csv", FACTS, ["3", "x", "4"])
    points, *_ = everything(decoder, b"x,y,z,w\n1,2,3,4\n")
    np.testing.assert_array_equal(points, [[3, 1, 4]])
    decoder = open_decoder("ndjson", FACTS, ["a", "b", "c"])
    data = b"".join(json.dumps({"c": 3, "b": 2, "a": i, "time": i}).encode() + b"\n" for i in range(12))
    points, _, times, *_ = everything(decoder, data)
    np.testing.assert_array_equal(points, [[i, 2, 3] for i in range(12)])
    np.testing.assert_array_equal(np.concatenate(times), np.arange(12))


@pytest.mark.parametrize(
    ("columns", "data", "message"),
    [
        (["x", "q", "z"], b"x,y,z\n", "no column 'q'; its columns are: x, y, z"),
        (None, b"x,y\n1,2\n", r"2 columns to use \(x, y\), but the map takes 3"),
        (["1"], b"1,2,3\n", "1 columns to use, but the map takes 3"),
    ],
)
def test_columns_that_do_not_fit_end_the_stream(columns, data, message):
    with pytest.raises(InvalidInputError, match=message):
        everything(open_decoder("csv", FACTS, columns), data)


def test_mixed_times_are_nan_where_unknown():
    lines = [b"[1,2,3]", b'{"x":[4,5,6],"time":2}'] * 10
    points, _, times, rejected, _ = everything(open_decoder("ndjson", FACTS), b"\n".join(lines))
    assert rejected == []
    assert len(points) == 20
    np.testing.assert_array_equal(np.concatenate(times), [np.nan, 2] * 10)


def test_without_a_model_the_first_record_decides():
    points, _, _, rejected, _ = everything(open_decoder("ndjson"), b"[1,2]\n[1,2,3]\n[3,4]\n")
    np.testing.assert_array_equal(points, [[1, 2], [3, 4]])
    assert [one.number for one in rejected] == [1]


def test_frames_may_be_nested():
    facts = {"n_features": 6, "takes_frames": True}
    frames = np.arange(60.0).reshape(10, 2, 3)
    data = b"".join(json.dumps(frame).encode() + b"\n" for frame in frames.tolist())
    points, *_ = everything(open_decoder(facts=facts), data)
    np.testing.assert_array_equal(points, frames.reshape(10, 6))
    for message in (npy_bytes(frames), npy_bytes(*frames)):
        points, *_ = everything(open_decoder(facts=facts), message)
        np.testing.assert_array_equal(points, frames)


# -- npy -----------------------------------------------------------------------


def test_npy_rows_of_another_length_are_rejected_one_by_one():
    data = npy_bytes(ROWS[:2], np.ones((3, 4)), ROWS[2:4].astype(np.float32), np.array([[1, 2, 3]]))
    points, numbers, _, rejected, _ = everything(open_decoder(facts=FACTS), data)
    assert numbers == [0, 1, 5, 6, 7]
    assert [one.number for one in rejected] == [2, 3, 4]
    assert "4 numbers, but the map takes 3" in rejected[0].reason
    np.testing.assert_array_equal(points[-1], [1, 2, 3])


def test_a_big_npy_is_passed_on_as_its_rows_come():
    decoder = open_decoder("npy", FACTS)
    data = npy_bytes(ROWS)
    decoder.feed(data[: len(data) - 10], 1.0)
    assert decoder.ready == 49


@pytest.mark.parametrize("n_missing", [1, 7])
def test_an_npy_stream_that_ends_between_rows_of_a_message_says_so(n_missing):
    row = ROWS[0].nbytes
    found = everything(open_decoder(facts=FACTS), npy_bytes(ROWS[:20], ROWS)[: -n_missing * row])
    rows, *_, rejected, position = found
    np.testing.assert_array_equal(rows, np.concatenate([ROWS[:20], ROWS])[:-n_missing])
    (only,) = rejected
    assert f"in the middle of a message (rows missing: {n_missing})" in only.reason
    assert only.number == len(rows)
    assert position["left"] == 0
    # A message that is whole ends as ever.
    assert not everything(open_decoder(facts=FACTS), npy_bytes(ROWS))[-2]


def test_an_npy_stream_that_ends_within_a_row():
    *_, rejected, position = everything(open_decoder(facts=FACTS), npy_bytes(ROWS)[:-10])
    assert [one.number for one in rejected] == [49]
    assert "ended in the middle of a record (14 bytes of 24)" in rejected[0].reason
    assert position["number"] == 50


@pytest.mark.parametrize("length", [1, 9, 70])
def test_an_npy_stream_that_ends_within_a_header(length):
    rows, *_, rejected, _ = everything(open_decoder(facts=FACTS), npy_bytes(ROWS) + npy_bytes(ROWS)[:length])
    assert len(rows) == len(ROWS)
    assert [one.number for one in rejected] == [len(ROWS)]
    assert f"ended in the middle of a record ({length} bytes of a header)" in rejected[0].reason


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy_bytes(ROWS)[:-5] + b"rubbish that is no header", "should begin a message"),
        (npy_bytes(np.asfortranarray(ROWS)), "Fortran order"),
        (npy_bytes(np.array(["a"])), "numbers are needed"),
        (npy_bytes(np.ones((2, 2, 2))), "of shape"),
        (b"\x93NUMPY\x01\x00\xff\xffrubbish", "claims 65545 bytes"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': 'x'} ^\n", "cannot be read"),
    ],
)
def test_damaged_npy_ends_the_stream(data, message):
    with pytest.raises(InvalidInputError, match=message):
        everything(open_decoder("npy", FACTS), data + b" " * 20)


# -- anything ------------------------------------------------------------------

_line = st.one_of(
    st.binary(max_size=12).filter(lambda line: b"\n" not in line),
    st.sampled_from(
        [b"1,2,3", b"[1,2,3]", b"", b"#", b'"', b"{", b"1,2", b'{"x":[1,2,3],"time":1}', b"nan,1,2"]
    ),
)


@given(
    lines=st.lists(_line, max_size=30),
    form=st.sampled_from(["csv", "ndjson"]),
    cuts=st.lists(st.integers(0, 300)),
    most=st.integers(1, 40),
)
@settings(max_examples=150, deadline=None)
def test_no_line_is_lost_and_batching_changes_nothing(lines, form, cuts, most):
    data = (b"1,2,3\n" if form == "csv" else b"") + b"\n".join(lines)
    points, numbers, _, rejected, position = everything(open_decoder(form, FACTS), data)
    once = [one.number for one in rejected]
    assert sorted(numbers + once) == list(range(len(numbers) + len(once)))
    if position is not None:
        assert position["offset"] == len(data)
    cuts = [cut for cut in cuts if cut < len(data)]
    other, again, _, turned_down, end = everything(open_decoder(form, FACTS), data, cuts, most)
    np.testing.assert_array_equal(other, points)
    assert again == numbers
    assert turned_down == rejected
    assert end == position


def test_formats_by_name():
    assert [form_of(name) for name in ("a.CSV", "b.jsonl", "c.npy", "d")] == ["csv", "ndjson", "npy", None]
    for name in ("rows.parquet", "rows.npz", "run.xtc"):
        with pytest.raises(InvalidInputError, match="is not a stream of records; embed it with ldmaps embed"):
            form_of(name)
    with pytest.raises(InvalidInputError, match="one of csv, ndjson, npy, got 'xml'"):
        open_decoder("xml")
    with pytest.raises(InvalidInputError, match="no columns to choose"):
        open_decoder("npy", FACTS, ["a"])


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_memory_is_bounded_by_what_a_record_can_need(form):
    """Decoded, a line of 60 MB would take 2 GB."""
    decoder = open_decoder(form, {"n_features": 3}, None)
    piece = b"1," * (1 << 18)
    tracemalloc.start()
    try:
        decoder.feed(b"1,2,3\n" if form == "csv" else b"[1,2,3]\n", 0.0)
        for _ in range(60 * (1 << 20) // len(piece)):
            decoder.feed(piece, 0.0)
        decoder.feed(b"\n", 0.0)
        records = decoder.take(10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(records) == 1
    assert "at most 4194304 are taken" in records.rejected[0].reason
    assert peak < 20 << 20


def test_a_line_may_have_room_for_every_number():
    decoder = open_decoder("ndjson", {"n_features": 100_000}, None)
    row = np.random.default_rng(0).normal(size=100_000).tolist()
    decoder.feed(json.dumps({"x": row, "note": "y" * (5 << 20)}).encode() + b"\n", 0.0)
    np.testing.assert_array_equal(decoder.take(1).points, [row])


def test_a_row_that_no_map_takes_is_not_waited_for():
    header = np.lib.format.header_data_from_array_1_0(np.empty((1, 0)))
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {**header, "shape": (1, 10**9)})
    decoder = open_decoder("npy", {"n_features": 3}, None)
    with pytest.raises(
        InvalidInputError, match=r"claims rows of 8000000000 bytes \(shape \(1, 1000000000\)\)"
    ):
        decoder.feed(stream.getvalue(), 0.0)


@pytest.mark.parametrize("form", ["csv", "ndjson"])
@pytest.mark.parametrize("header", ["", "time,a,b,c"])
@pytest.mark.parametrize(
    "line",
    [b"", b"1,2", b"1,2,3,4,5", b"1,x,3", b"nan,2,3", b"# 1,2,3", b'"1",2,3,4', b"1_0,2,3", b"[1,2]", b"[1,01,3]",
     b"[-0,1,2]", b'{"x": [1,2,3], "time": 4}', b"1e400,2,3", b"[1,2,3] ",
     b" 7 , 8,9\r", b"\xff,1,2", b"123456789012345678901,2,3"],
    ids=repr,
)  # fmt: skip
def test_kernels_decode_like_python(monkeypatch, form, header, line):
    if form == "csv":
        rows = np.c_[np.arange(50), ROWS] if header else ROWS
        data = csv_bytes(rows, header)
    else:
        data = json_bytes()
    lines = data.splitlines(keepends=True)
    facts = {**FACTS, "columns": ["c", "a", "b"]} if header else FACTS
    mixed = b"".join([*lines[:30], line + b"\n", *lines[30:]])
    results = []
    for is_alone in (False, True):
        if is_alone:
            monkeypatch.setattr(PlainRows, "fill", lambda self, text, begin, block: (0, begin))
        points, numbers, times, rejected, position = everything(open_decoder(form, facts), mixed, most=16)
        results.append((points.tobytes(), numbers, repr(times), rejected, position))
    assert results[0] == results[1]
    assert len(results[0][1]) >= 50


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_plain_lines_come_as_they_are_asked_for(form):
    data = csv_bytes() if form == "csv" else json_bytes()
    decoder = open_decoder(form, FACTS)
    decoder.feed(data[:1000], 1.0)
    first = decoder.take(10)
    decoder.feed(data[1000:], 2.0)
    second = decoder.take(30)
    assert decoder.ready == 10
    third = decoder.take(1000)
    assert [len(part) for part in (first, second, third)] == [10, 30, 10]
    np.testing.assert_array_equal(np.concatenate([first.points, second.points, third.points]), ROWS)
    assert [*first.numbers, *second.numbers, *third.numbers] == list(range(50))
    early = data[:1000].count(b"\n")
    assert [*first.arrived, *second.arrived, *third.arrived] == [1.0] * early + [2.0] * (50 - early)
    assert third.position["offset"] == len(data)


def test_arrivals_of_lines_that_are_no_records_are_left_out():
    decoder = open_decoder("csv", FACTS)
    for when, line in enumerate([b"# note\n", b"x,y,z\n", b"1,2,3\n\n", b"bad\n", b"4,5,6\n"]):
        decoder.feed(line, float(when))
    records = decoder.take(100)
    assert records.numbers.tolist() == [0, 2]
    assert records.arrived.tolist() == [2.0, 4.0]
    assert [one.number for one in records.rejected] == [1]


def test_white_space_around_a_line_is_no_cell():
    """A column that nobody asked for may hold anything, but a tab at the beginning of a line is no column."""
    decoder = open_decoder("csv", {**FACTS, "columns": ["a", "b", "c"]})
    lines = [b"x\ta\tb\tc"] + [b"7\t1\t2\t3"] * 20 + [b"\t1\t2\t3"] * 20
    _, numbers, _, rejected, _ = everything(decoder, b"\n".join(lines) + b"\n", [40])
    assert numbers == list(range(20))
    assert [one.number for one in rejected] == list(range(20, 40))


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_an_overlong_line_of_plain_numbers_is_rejected_too(form, short_lines):
    line = b"4,5,6\n" if form == "csv" else b"[4,5,6]\n"
    data = line * 20 + line.replace(b"\n", b" " * 1000 + b"\n") + line * 20
    for cuts in ((), range(90, len(data), 90)):
        points, _, _, rejected, position = everything(open_decoder(form, FACTS), data, cuts)
        assert len(points) == 40
        assert [one.number for one in rejected] == [20]
        assert f"has {len(line) + 999} bytes; at most 1000" in rejected[0].reason
        assert position["offset"] == len(data)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1, true, 3]", "true is not a number"),
        (b'[1, "2", 3]', '"2" is not a number'),
        (b'{"x": [1, false, 3]}', "false is not a number"),
        (b'{"a": 1, "b": "2", "c": 3}', '"2" is not a number'),
        (b'{"x": [1, 2, 3], "time": 1e400}', "the time 'inf' is neither a number nor a date"),
        (b'{"x": [1, 2, 3], "time": "1e400"}', "the time '1e400' is neither a number nor a date"),
        (b'{"x": [1, 2, 3], "time": true}', "the time 'True' is neither a number nor a date"),
    ],
)
def test_json_that_only_looks_like_numbers_is_rejected(line, reason):
    facts = {**FACTS, "columns": ["a", "b", "c"]}
    rows, *_, rejected, _ = everything(open_decoder("ndjson", facts), b"[1,2,3]\n" + line + b"\n")
    assert rows.tolist() == [[1, 2, 3]]
    assert [one.reason for one in rejected] == [reason]
