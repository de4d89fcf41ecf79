"""Files that embedded records, events and rejected records are written to."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from ldmaps.cli import main
from ldmaps.errors import CheckpointError, InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions import Event
from ldmaps.streaming import CallbackSink, Embedded, EventsFile, OutputFile, QuarantineFile, Records, Rejected
from ldmaps.streaming.sinks import SINKS, as_sink, open_sink

REGIONS = ("A", "a, second")


def batch(n=3, first=0, *, times=True, events=(), rejected=(), dtype=np.float64, coordinates=None):
    if coordinates is None:
        coordinates = np.random.default_rng(first).normal(size=(n, 2)).astype(dtype)
    coverage = Coverage(np.linspace(0, 2, n), np.arange(n) % 2 == 0, np.arange(n) + 7)
    clock = np.arange(n) / 4 if times is True else times
    records = Records(np.zeros((n, 3)), np.arange(first, first + n), clock, np.zeros(n), tuple(rejected))
    return Embedded(records, coordinates, coverage, np.arange(n) % 3 - 1, tuple(events))


def write(sink, *batches):
    for one in batches:
        sink.write(one)
    sink.flush()
    sink.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "ndjson"])
def test_numbers_come_back_unchanged(tmp_path, suffix, dtype):
    path = tmp_path / f"psi.{suffix}"
    first, second = batch(3, dtype=dtype), batch(4, 3, dtype=dtype)
    write(OutputFile(path, regions=REGIONS), first, second)
    with open(path, newline="") as stream:
        if suffix == "ndjson":
            rows = [json.loads(line) for line in stream]
            assert [row["region"] for row in rows[:3]] == [None, "A", "a, second"]
            assert [row["inside"] for row in rows[:3]] == [True, False, True]
        else:
            rows = list(csv.DictReader(stream, delimiter="\t" if suffix == "tsv" else ","))
            assert [row["region"] for row in rows[:3]] == ["", "A", "a, second"]
            assert [row["inside"] for row in rows[:3]] == ["1", "0", "1"]
    assert list(rows[0]) == ["number", "time", "psi2", "psi3", "distance", "inside", "nearest", "p", "region"]
    assert [int(row["number"]) for row in rows] == list(range(7))
    assert [float(row["time"]) for row in rows[:3]] == [0, 0.25, 0.5]
    psi = np.array([[float(row["psi2"]), float(row["psi3"])] for row in rows]).astype(dtype)
    np.testing.assert_array_equal(psi, np.concatenate([first.coordinates, second.coordinates]))


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
@pytest.mark.parametrize("times", [None, np.array([1.0, np.nan, 3.0])])
def test_what_is_unknown_is_left_out(tmp_path, suffix, times):
    path = tmp_path / f"psi.{suffix}"
    coordinates = np.array([[1.0, np.nan], [np.inf, 2.0], [3.0, 4.0]])
    write(OutputFile(path), batch(times=times, coordinates=coordinates))
    text = path.read_text()
    if suffix == "ndjson":
        rows = [json.loads(line) for line in text.splitlines()]
        assert [row["time"] for row in rows] == ([None] * 3 if times is None else [1, None, 3])
        assert [row["psi3"] for row in rows] == [None, 2, 4]
        assert rows[1]["psi2"] is None
    else:
        cells = [line.split(",") for line in text.splitlines()[1:]]
        assert [row[1] for row in cells] == (["", "", ""] if times is None else ["1", "", "3"])
        assert [row[3] for row in cells] == ["", "2", "4"]


def test_regions_without_names_are_told_by_number(tmp_path):
    write(OutputFile(tmp_path / "psi.csv"), batch())
    assert [line.rpartition(",")[2] for line in (tmp_path / "psi.csv").read_text().splitlines()[1:]] == [
        "",
        "0",
        "1",
    ]


def test_events_and_rejected_records(tmp_path):
    events = [
        Event("enter", "A", 4, 1.5, 0),
        Event("leave", "A", 9, None, 5),
        Event("enter", "A", 10, np.nan, 0),  # which JSON does not have
    ]
    rejected = [Rejected(3, "not JSON", '{"x": \udce4'), Rejected(8, "NaN")]
    write(EventsFile(tmp_path / "e"), batch(), batch(events=events))
    write(QuarantineFile(tmp_path / "q"), batch(rejected=rejected), batch())
    lines = [json.loads(line) for line in (tmp_path / "e").read_text().splitlines()]
    assert lines[0] == {"kind": "enter", "region": "A", "number": 4, "time": 1.5, "duration": 0}
    assert [line["time"] for line in lines] == [1.5, None, None]
    lines = [json.loads(line) for line in (tmp_path / "q").read_text().splitlines()]
    assert [(line["number"], line["reason"]) for line in lines] == [(3, "not JSON"), (8, "NaN")]


def test_stdout_is_flushed_at_once(capfdbinary):
    sink = OutputFile("-")
    sink.write(batch(1))
    assert len(capfdbinary.readouterr().out.splitlines()) == 2
    sink.write(batch(1, 1))
    assert len(capfdbinary.readouterr().out.splitlines()) == 1
    assert not sink.durable
    assert sink.flush() is None


def test_a_rewound_file_goes_on_as_if_nothing_had_happened(tmp_path):
    whole, cut = tmp_path / "whole.csv", tmp_path / "cut.csv"
    batches = [batch(3, 3 * place) for place in range(4)]
    write(OutputFile(whole), *batches)
    for kept in range(4):
        cut.unlink(missing_ok=True)
        sink = OutputFile(cut)
        for one in batches[:kept]:
            sink.write(one)
        mark = json.loads(json.dumps(sink.flush()))
        for one in batches[kept:]:
            sink.write(one)
        sink.close()
        with open(cut, "ab") as torn:
            torn.write(b"half a li")
        again = OutputFile(cut)
        again.rewind(mark)
        write(again, *batches[kept:])
        assert cut.read_bytes() == whole.read_bytes()


def test_existing_files_are_not_overwritten(tmp_path):
    path = tmp_path / "psi.csv"
    path.write_text("precious")
    with pytest.raises(InvalidInputError, match="exists already"):
        OutputFile(path).write(batch())
    assert path.read_text() == "precious"
    write(OutputFile(path, overwrite=True), batch())
    assert path.read_text().startswith("number,")
    (tmp_path / "empty.csv").touch()
    write(OutputFile(tmp_path / "empty.csv"), batch())


def test_a_file_that_is_not_the_marked_one_is_left_alone(tmp_path):
    path = tmp_path / "psi.csv"
    sink = OutputFile(path)
    sink.write(batch())
    mark = sink.flush()
    sink.close()
    good = path.read_bytes()
    path.unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        OutputFile(path).rewind(mark)
    path.write_bytes(good[:-1])
    with pytest.raises(CheckpointError, match=f"has {len(good) - 1} bytes, but .* {len(good)} were written"):
        OutputFile(path).rewind(mark)
    path.write_bytes(good[:-3] + b"XX\n" + b"more")
    with pytest.raises(CheckpointError, match="is not what the checkpoint was made for"):
        OutputFile(path).rewind(mark)
    assert path.read_bytes().endswith(b"more")


def test_two_writers_do_not_share_a_file(tmp_path):
    pytest.importorskip("fcntl", reason="file locks need fcntl")
    first = OutputFile(tmp_path / "psi.csv")
    first.flush()
    with pytest.raises(InvalidInputError, match="another process is writing"):
        OutputFile(tmp_path / "psi.csv").flush()
    first.close()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("psi.xml", "must end in one of .csv"),
        ("no/such/psi.csv", "no directory"),
        ("folder.csv", "is a directory"),
    ],
)
def test_outputs_that_cannot_be(tmp_path, path, message):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInputError, match=message):
        OutputFile(tmp_path / path).flush()


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    path = tmp_path / "psi.csv"
    sink = OutputFile(path)
    sink.write(batch())
    before = path.read_bytes()
    real, room = os.write, [10]

    def full(descriptor, data):
        """Take the first ten bytes, and no more."""
        if not room:
            raise OSError(28, "no space left")
        return real(descriptor, data[: room.pop()])

    monkeypatch.setattr("ldmaps.door.write", full)
    with pytest.raises(OSError, match="no space left"):
        sink.write(batch(1, 3))
    monkeypatch.undo()
    assert path.read_bytes() == before
    write(sink, batch(1, 3))
    assert path.read_bytes().startswith(before)
    assert len(path.read_text().splitlines()) == 5


def test_functions_are_sinks():
    seen = []
    sink = as_sink(seen.append)
    assert isinstance(sink, CallbackSink)
    sink.write("anything")
    assert seen == ["anything"]
    assert as_sink(sink) is sink
    with pytest.raises(InvalidInputError, match="is not a sink"):
        as_sink(3)


@pytest.mark.parametrize("form", ["csv", "tsv", "ndjson"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("has_times", [False, True])
def test_rows_are_what_python_writes(tmp_path, form, dtype, has_times):
    rng = np.random.default_rng(3)
    n = 300
    coordinates = rng.normal(size=(n, 2)).astype(dtype) * 10.0 ** rng.integers(-9, 9, size=(n, 1)).astype(
        dtype
    )
    coordinates[7, 1], distance = np.nan, np.abs(rng.normal(size=n)).astype(dtype)
    times = np.where(rng.random(n) < 0.5, np.nan, 0.1 * np.arange(n)) if has_times else None
    records = Records(rng.normal(size=(n, 3)), np.arange(5, n + 5), times, np.zeros(n))
    embedded = Embedded(
        records,
        coordinates,
        Coverage(
            distance, rng.random(n) < 0.5, rng.integers(0, 40, size=n), rng.random(n) if has_times else None
        ),
        rng.integers(-1, 4, size=n),  # the last region has no name
    )
    path = tmp_path / f"psi.{form}"
    sink = OutputFile(path, regions=("A", 'folded, "half"', "é"))
    sink.write(embedded)
    sink.flush()
    sink.close()
    expected = io.StringIO()
    names = ["number", "time", "psi2", "psi3", "distance", "inside", "nearest", "p", "region"]
    table = csv.writer(expected, delimiter="\t" if form == "tsv" else ",", lineterminator="\n")
    if form != "ndjson":
        table.writerow(names)
    empty, digits = "null" if form == "ndjson" else "", 9 if dtype == np.float32 else 17
    regions = ["A", 'folded, "half"', "é", "3", empty]
    for row in range(n):
        values = [None if times is None else times[row], *coordinates[row], distance[row]]
        texts = [
            empty if value is None or np.isnan(value) else f"%.{places}g" % value
            for value, places in zip(values, [10, digits, digits, 5], strict=True)
        ]
        inside, nearest = bool(embedded.coverage.inside[row]), str(embedded.coverage.nearest[row])
        region = regions[embedded.regions[row]]
        p = f"{embedded.coverage.p_value[row]:.4g}" if has_times else empty
        if form != "ndjson":
            table.writerow([row + 5, *texts, int(inside), nearest, p, region])
            continue
        cells = [str(row + 5), *texts, json.dumps(inside), nearest, p]
        cells.append(region if region in ("3", empty) else json.dumps(region))
        pairs = (f'"{name}": {cell}' for name, cell in zip(names, cells, strict=True))
        expected.write("{" + ", ".join(pairs) + "}\n")
    assert path.read_text(encoding="utf-8") == expected.getvalue()


# -- the table ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", SINKS)
def test_every_entry_of_the_table_opens(tmp_path, name):
    pytest.importorskip("redis")
    address = "redis://localhost:6379/0/psi" if name == "redis://" else str(tmp_path / f"psi{name}")
    sink = open_sink(address, regions=["A", "B"])
    assert type(sink).__name__ == SINKS[name].rpartition(".")[2]
    assert sink.durable
    assert not list(tmp_path.iterdir())  # before it is written to


def test_the_guide_tells_of_every_entry_of_the_table():
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "streams.md").read_text(encoding="utf-8")
    assert [name for name in SINKS if f"`{name}`" not in guide] == []


def test_help_lists_every_entry_of_the_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # an entry is in one line
    assert main(["stream", "--help"]) == 0
    printed = capsys.readouterr().out
    assert f"a name with {', '.join(SINKS)};" in printed


def test_a_named_sink_is_that_of_its_class(tmp_path):
    for name in ("psi.csv", "psi.ndjson"):
        write(open_sink(tmp_path / name, regions=["A", "B"]), batch())
        write(OutputFile(tmp_path / f"again-{name}", regions=["A", "B"]), batch())
        assert (tmp_path / name).read_bytes() == (tmp_path / f"again-{name}").read_bytes()
    with pytest.raises(InvalidInputError, match="exists already"):
        open_sink(tmp_path / "psi.csv").check()
    open_sink(tmp_path / "psi.csv", overwrite=True).check()
    assert not open_sink("-").durable
    assert isinstance(as_sink(str(tmp_path / "psi.tsv")), OutputFile)


@pytest.mark.parametrize(
    ("address", "message"),
    [("psi.xyz", "must end in one of .csv"), ("http://here/psi", "redis://, got 'http:")],
)
def test_names_that_no_sink_has(address, message):
    with pytest.raises(InvalidInputError, match=message):
        open_sink(address)
