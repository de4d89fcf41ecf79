"""Growing tables: every line once, when it is whole; a restart goes on at its byte."""

from __future__ import annotations

import itertools
import json
import os
import time

import numpy as np
import pytest
from polling import drain, in_background, joined

from ldmaps.errors import InvalidInputError, SourceError
from ldmaps.streaming.sources import open_source
from ldmaps.streaming.sources.tables import FileSource, GrowingTable

ROWS = np.random.default_rng(3).normal(size=(400, 3))
FACTS = {"kind": "table", "columns": ["a", "b", "c"], "n_features": 3}


def csv_bytes(rows=ROWS):
    lines = ["time,c,b,a"]
    lines += [f"{number},{c!r},{b!r},{a!r}" for number, (a, b, c) in enumerate(rows.tolist())]
    return ("\n".join(lines) + "\n").encode()


def ndjson_bytes(rows=ROWS):
    lines = [json.dumps({"x": row, "time": number}) for number, row in enumerate(rows.tolist())]
    return ("\n".join(lines) + "\n").encode()


WRITTEN = {"csv": csv_bytes(), "ndjson": ndjson_bytes()}


def append(path, pieces, pause=0.0):
    with open(path, "ab", buffering=0) as out:
        for piece in pieces:
            out.write(piece)
            time.sleep(pause)


@pytest.mark.parametrize("form", WRITTEN)
def test_all_rows_of_a_file_written_in_arbitrary_pieces(tmp_path, form):
    path = tmp_path / f"rows.{form}"
    path.touch()
    data = WRITTEN[form]
    ends = np.cumsum(np.random.default_rng(0).integers(1, 90, size=len(data)))
    ends = [0, *ends[ends < len(data)].tolist(), len(data)]
    pieces = [data[begin:end] for begin, end in itertools.pairwise(ends)]
    with in_background(lambda: append(path, pieces, 1e-3)):
        parts = drain(open_source(path, model_facts=FACTS, follow=True), most=11, enough=len(ROWS))
    points, numbers, times = joined(parts)
    np.testing.assert_array_equal(points, ROWS)
    np.testing.assert_array_equal(numbers, np.arange(len(ROWS)))
    np.testing.assert_array_equal(times, np.arange(len(ROWS)))
    assert not any(part.rejected for part in parts)


@pytest.mark.parametrize("form", WRITTEN)
def test_going_on_from_every_position(tmp_path, form):
    path = tmp_path / f"rows.{form}"
    path.write_bytes(WRITTEN[form])
    parts = drain(GrowingTable(path, model_facts=FACTS, idle_end=0.0), most=23)
    for part in parts[:-1]:
        kept = json.loads(json.dumps(part.position))
        rest = drain(GrowingTable(path, model_facts=FACTS, idle_end=0.0), position=kept, most=400)
        done = int(part.numbers[-1]) + 1
        np.testing.assert_array_equal(joined(rest)[0], ROWS[done:])
        assert joined(rest)[1][0] == done


def test_a_line_counts_once_its_newline_is_there(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2,3\n4,5,6")
    source = GrowingTable(path, model_facts={"n_features": 3})
    source.open()
    try:
        assert source.poll(10, 0.0).points.tolist() == [[1, 2, 3]]
        assert len(source.poll(10, 0.0)) == 0
        append(path, [b"7\n"])
        assert source.poll(10, 0.0).points.tolist() == [[4, 5, 67]]
    finally:
        source.close()


def test_a_last_line_without_newline_is_reported_and_comes_in_full_later(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2,3\n4,5,6")
    parts = drain(GrowingTable(path, idle_end=0.0))
    assert joined(parts[:1])[0].tolist() == [[1, 2, 3]]
    (rejected,) = parts[-1].rejected
    assert (rejected.number, rejected.raw) == (1, "4,5,6")
    assert "newline" in rejected.reason
    append(path, [b"7\n"])
    rest = drain(GrowingTable(path, idle_end=0.0), position=parts[-1].position)
    assert joined(rest)[0].tolist() == [[4, 5, 67]]
    assert joined(rest)[1].tolist() == [1]


def test_bad_lines_are_rejected_and_the_rest_goes_on(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b,c\n1,2,3\n1,two,3\n\n4,5,6\n7,8\n9,9,9\n")
    parts = drain(GrowingTable(path, model_facts=FACTS, idle_end=0.0))
    assert joined(parts)[0].tolist() == [[1, 2, 3], [4, 5, 6], [9, 9, 9]]
    assert joined(parts)[1].tolist() == [0, 2, 4]
    assert [one.number for part in parts for one in part.rejected] == [1, 3]


@pytest.mark.parametrize("change", ["truncate", "rewrite", "rotate"])
def test_a_file_that_is_not_appended_to_any_more_is_an_error(tmp_path, change):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2,3\n4,5,6\n")
    source = GrowingTable(path)
    source.open()
    try:
        assert len(source.poll(10, 0.0)) == 2
        if change == "truncate":
            os.truncate(path, 3)
        elif change == "rewrite":
            path.write_bytes(b"7,8,9\n")
        else:
            path.rename(tmp_path / "rows.1.csv")
            path.write_bytes(b"7,8,9\n")
        with pytest.raises(SourceError, match="replaced" if change == "rotate" else "shrank from 12 to"):
            source.poll(10, 0.0)
    finally:
        source.close()


@pytest.mark.parametrize("rewritten", [b"1,2,3\n4,5,7.5\n", b"1,2,3\n4,5,7.50\n", b"1,2,3\n4,5,7.5\n7,8,9\n"])
@pytest.mark.parametrize("before", [b"1,2,3\n4,5,-7.5\n", b"1,2,3\n4,5,-7."])
def test_a_file_that_is_written_over_is_an_error_at_the_next_look(tmp_path, before, rewritten):
    path = tmp_path / "rows.csv"
    path.write_bytes(before)
    source = GrowingTable(path)
    source.open()
    try:
        source.poll(10, 0.0)
        path.write_bytes(rewritten)
        with pytest.raises(
            SourceError, match="shrank" if len(rewritten) < len(before) else "was overwritten"
        ):
            source.poll(10, 0.0)
    finally:
        source.close()


@pytest.mark.parametrize("opened", [GrowingTable, FileSource])
@pytest.mark.parametrize("changed", [11, 20_000, -1])
def test_a_byte_changed_anywhere_is_known_on_restart(tmp_path, opened, changed):
    path = tmp_path / "rows.csv"
    data = bytearray(csv_bytes(np.tile(ROWS, (5, 1))))
    path.write_bytes(data)
    position = drain(opened(path, **facts_of(opened)), most=500, enough=1000)[-1].position
    assert drain(opened(path, **facts_of(opened)), position=position, enough=7)
    data[changed if changed >= 0 else position["offset"] - 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match="not the file that was read before"):
        drain(opened(path, **facts_of(opened)), position=position, enough=7)


def test_following_can_be_taken_up_and_left_off(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_bytes())
    for first, then in ((GrowingTable, FileSource), (FileSource, GrowingTable)):
        parts = drain(first(path, **facts_of(first)), most=50, enough=100)
        left = len(ROWS) - sum(map(len, parts))
        rest = drain(then(path, **facts_of(then)), position=parts[-1].position, enough=left)
        np.testing.assert_array_equal(joined(parts + rest)[0], ROWS)


def facts_of(source):
    return {"model_facts" if source is GrowingTable else "facts": FACTS}


def test_another_table_under_the_same_name_is_known_on_restart(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_bytes())
    position = drain(GrowingTable(path, model_facts=FACTS), enough=20)[-1].position
    path.write_bytes(csv_bytes(ROWS[::-1]))
    with pytest.raises(SourceError, match="not the file that was read before"):
        drain(GrowingTable(path, model_facts=FACTS), position=position)
    path.write_bytes(b"a,b,c\n")
    with pytest.raises(SourceError, match="shrank"):
        drain(GrowingTable(path, model_facts=FACTS), position=position)


def test_without_idle_end_a_file_is_followed_for_ever(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2,3\n")
    source = GrowingTable(path)
    source.open()
    try:
        assert len(source.poll(10, 0.0)) == 1
        assert all(len(source.poll(10, 0.0)) == 0 for _ in range(20))
    finally:
        source.close()


@pytest.mark.parametrize("idle_end", [-1.0, float("nan")])
def test_settings_are_checked(tmp_path, idle_end):
    with pytest.raises(InvalidInputError, match="idle_end"):
        GrowingTable(tmp_path / "rows.csv", idle_end=idle_end)
    with pytest.raises(InvalidInputError, match="CSV or NDJSON"):
        GrowingTable(tmp_path / "rows.npy")
