"""Which columns of a table are features, which one is the time, and what is left out."""

from __future__ import annotations

import io
import sys
import time

import numpy as np
import pytest

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap, load
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.column_roles import (
    find_columns,
    is_missing,
    looks_like_number,
    moment,
    roles_of,
    time_places,
)
from ldmaps.streaming import StreamEmbedder, open_source
from ldmaps.streaming.sources import model_facts

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(300, 2)).round(6)
#: Ways to say the time of record i: what stands in the cell, and what is made of it.
TIMES = {
    "seconds": (lambda i: f"{1000 + 60 * i}", lambda i: 1000.0 + 60 * i),
    "dates": (lambda i: f"2024-05-01T{i // 60:02}:{i % 60:02}:00", lambda i: 1714521600.0 + 60 * i),
    "zone": (lambda i: f"2024-05-01 {i // 60:02}:{i % 60:02}:00.5+02:00", lambda i: 1714514400.5 + 60 * i),
}


def csv(time_name="time", said=TIMES["dates"][0], rows=range(300)):
    lines = [f"{time_name},flow,id,site,load"]
    lines += [f"{said(i)},{VALUES[i, 0]},{i + 7},north,{VALUES[i, 1]}" for i in rows]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("roles") / "sensors.csv"
    path.write_text(csv())
    return LandmarkDiffusionMap(2, 4.0, n_landmarks=20).fit(ldmaps.inputs.open_files(path))


@pytest.mark.parametrize("kind", TIMES)
def test_only_measurements_are_features_and_the_time_is_kept(tmp_path, kind):
    said, meant = TIMES[kind]
    (tmp_path / "sensors.csv").write_text(csv("Timestamp", said))
    source = ldmaps.inputs.open_files(tmp_path / "sensors.csv")
    assert source.columns == ["flow", "load"]
    assert source.remarks == ["columns used: flow, load; left out: id (counts rows), site (words)"]
    assert source.time_column == "Timestamp"
    read = source.read()
    np.testing.assert_array_equal(read.frames, VALUES)
    np.testing.assert_allclose(read.times, [meant(i) for i in range(300)], rtol=0, atol=1e-6)


def test_chosen_columns_are_taken_whatever_they_are(tmp_path):
    (tmp_path / "sensors.csv").write_text(csv("time", TIMES["seconds"][0]))
    source = ldmaps.inputs.open_files(tmp_path / "sensors.csv", columns=["time", "id", "flow"])
    assert source.columns == ["time", "id", "flow"]
    assert source.remarks == []
    assert source.read().times is None


def test_a_table_of_measurements_alone_is_read_as_ever(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("flow,load\n1,2\n3,4\n")
    source = ldmaps.inputs.open_files(path)
    assert source.remarks == []
    assert source.read().frames.tolist() == [[1, 2], [3, 4]]


def test_an_identifier_that_does_not_count_is_a_feature():
    rows = [["3", "1.5"], ["9", "2.5"], ["4", "1.0"]]
    assert roles_of(["id", "x"], rows).features == [0, 1]
    assert roles_of(["id", "x"], [[str(i), "1"] for i in range(3)]).features == [1]


def test_a_table_of_nothing_but_times_is_taken_as_it_is():
    assert roles_of(["time"], [["1"], ["2"]]).features == [0]


def test_a_faulty_cell_does_not_make_a_column_of_words(tmp_path):
    (tmp_path / "faulty.csv").write_text("flow,load\n1,2\n3,oops\n")
    with pytest.raises(InvalidInputError, match="line 3, column 2 \\(load\\): 'oops' is not a number"):
        ldmaps.inputs.open_files(tmp_path / "faulty.csv").read()


def test_a_date_without_a_zone_is_in_utc_wherever_one_is(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert moment("1970-01-01 00:00:10") == 10.0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_dates_without_a_header_are_found(tmp_path):
    (tmp_path / "log.csv").write_text("2024-05-01,1,2\n2024-05-02,3,4\n")
    source = ldmaps.inputs.open_files(tmp_path / "log.csv")
    read = source.read()
    assert read.frames.tolist() == [[1, 2], [3, 4]]
    assert read.times.tolist() == [moment("2024-05-01"), moment("2024-05-02")]


def test_a_map_of_rows_without_a_header_does_not_wait_for_more_of_them(monkeypatch):
    lines = iter([b"1,2\n", b"3,4\n"])

    def slowly():
        yield from lines
        pytest.fail("read on although the first line says all")

    monkeypatch.setattr("ldmaps.inputs.text_table._own_stdin", slowly)
    source = ldmaps.inputs.open_files("-", chunk=1, model_facts={"kind": "table", "columns": None})
    assert next(iter(source)).frames.tolist() == [[1, 2]]


def test_a_date_that_is_none_is_named(tmp_path):
    text = csv(rows=range(200)) + "yesterday,1,2,north,3\n"
    (tmp_path / "sensors.csv").write_text(text)
    with pytest.raises(InvalidInputError, match="line 202, column 1 \\(time\\): 'yesterday' is neither"):
        ldmaps.inputs.open_files(tmp_path / "sensors.csv").read()


def test_a_missing_time_is_unknown(tmp_path):
    (tmp_path / "sensors.csv").write_text(csv(rows=range(150)) + ",1,2,north,3\n")
    times = ldmaps.inputs.open_files(tmp_path / "sensors.csv").read().times
    assert np.isnan(times[-1])
    assert np.isfinite(times[:-1]).all()


def test_first_lines_of_stdin_are_not_lost(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv().encode())))
    read = ldmaps.inputs.open_files("-").read()
    np.testing.assert_array_equal(read.frames, VALUES)


def test_an_index_of_pandas_and_dates_in_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pandas.DataFrame(VALUES, columns=["flow", "load"], index=np.arange(300) * 3)
    table["when"] = pandas.date_range("2024-05-01", periods=300, freq="min", tz="UTC")
    table["open"] = VALUES[:, 0] > 0
    table["site"] = "north"
    table.to_parquet(tmp_path / "sensors.parquet")
    source = ldmaps.inputs.open_files(tmp_path / "sensors.parquet")
    assert source.columns == ["flow", "load", "open"]
    assert source.time_column == "when"
    assert "__index_level_0__ (index)" in source.remarks[0]
    read = source.read()
    np.testing.assert_array_equal(read.frames[:, :2], VALUES)
    np.testing.assert_allclose(read.times, 1714521600.0 + 60 * np.arange(300))


def test_a_model_finds_its_columns_and_its_time_again(model, tmp_path):
    assert model.source_["time"] == "time"
    model.save(tmp_path / "map.ldm")
    facts = load(tmp_path / "map.ldm").source_
    (tmp_path / "new.csv").write_text("load,time,flow\n1.5,2024-05-01T00:00:01,0.5\n")
    read = ldmaps.inputs.open_files(tmp_path / "new.csv", model_facts=facts).read()
    assert read.frames.tolist() == [[0.5, 1.5]]
    assert read.times.tolist() == [1714521601.0]


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_streams_take_dates(model, tmp_path, form):
    path = tmp_path / f"new.{form}"
    if form == "csv":
        path.write_text(csv(rows=range(20)))
    else:
        row = '{{"time": "{}", "flow": {}, "load": {}, "site": "north"}}\n'
        path.write_text("".join(row.format(TIMES["dates"][0](i), *VALUES[i]) for i in range(20)))
    engine, found = StreamEmbedder(model), []
    engine.run(open_source(str(path), model_facts=model_facts(model)), [found.append])
    assert engine.summary.rejected == 0
    times = np.concatenate([part.times for part in found])
    assert times.tolist() == [TIMES["dates"][1](i) for i in range(20)]
    np.testing.assert_array_equal(np.concatenate([part.points for part in found]), VALUES[:20])


def test_the_command_line_says_what_it_uses_and_fills_the_time(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sensors.csv").write_text(csv())
    assert main(["fit", "sensors.csv", "-m", "20", "--epsilon", "4", "-o", "map.ldm"]) == 0
    said = capfd.readouterr().err
    assert "columns used: flow, load; left out: id (counts rows), site (words)\ntime: time\n" in said
    assert main(["embed", "map.ldm", "sensors.csv", "-o", "psi.csv", "-q"]) == 0
    header, first = (tmp_path / "psi.csv").read_text().splitlines()[:2]
    assert first.split(",")[header.split(",").index("time")] == "1714521600"


def test_a_stream_that_is_rejected_whole_is_an_error(model, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    model.save("map.ldm")
    (tmp_path / "bad.csv").write_text("flow,load\n" + "x,y\n" * 5)
    assert main(["stream", "map.ldm", "bad.csv", "-o", "psi.csv"]) == 1
    assert "none of the 5 records could be placed on the map" in capfd.readouterr().err
    (tmp_path / "mixed.csv").write_text("flow,load\nx,y\n0.1,0.2\n")
    assert main(["stream", "map.ldm", "mixed.csv", "-o", "good.csv"]) == 0


def test_names_and_cells_are_told_apart():
    assert find_columns(["x", "1"], ["t", "x"], 2, "the table") == [1, 0]
    assert time_places(["Timestamp", "lifetime", "stamp"], "stamp") == [2, 0]
    assert [is_missing(cell) for cell in ("", "NaN", "N/A", "0")] == [True, True, True, False]
    assert [looks_like_number(cell) for cell in ("1.234,5", "A,5")] == [True, False]
    assert [moment(cell) for cell in ("12.5", "1970-01-02", "1970-01-01T00:00:01.5Z")] == [12.5, 86400.0, 1.5]
    roles = roles_of(
        ["time", "flow", "id", "site"], [["2024-05-01", "1.5", "7", "A"], ["2024-05-02", "1", "8", "A"]]
    )
    assert (roles.features, roles.time, roles.left_out) == ([1], 0, ((2, "counts rows"), (3, "words")))


@pytest.mark.parametrize("columns", [["flow", "load"], ["2", "5"], ["load"]])
@pytest.mark.parametrize("name", ["time", "stamp"])
def test_the_time_is_found_whichever_columns_are_chosen(tmp_path, name, columns):
    (tmp_path / "sensors.csv").write_text(csv(name))
    source = ldmaps.inputs.open_files(tmp_path / "sensors.csv", columns=columns)
    read = source.read()
    assert source.time_column == source.facts()["time"] == name
    np.testing.assert_array_equal(read.times, [TIMES["dates"][1](i) for i in range(300)])
    np.testing.assert_array_equal(read.frames, VALUES[:, -len(columns) :])


def test_a_second_column_of_dates_is_the_time_where_the_first_is_a_feature(tmp_path):
    lines = [f"{i},2024-05-01T00:00:{i:02},{VALUES[i, 0]}" for i in range(60)]
    (tmp_path / "two.csv").write_text("\n".join(["time,stamp,flow", *lines]))
    source = ldmaps.inputs.open_files(tmp_path / "two.csv", columns=["time", "flow"])
    assert source.time_column == "stamp"
    assert source.read().times[:2].tolist() == [1714521600.0, 1714521601.0]
    assert ldmaps.inputs.open_files(tmp_path / "two.csv").time_column == "time"


def test_the_time_can_be_named_or_left_out(tmp_path):
    path = tmp_path / "sensors.csv"
    path.write_text(csv("time", TIMES["seconds"][0]))
    by_load = ldmaps.inputs.open_files(path, time="load")
    assert by_load.columns == ["flow"]
    np.testing.assert_array_equal(by_load.read().times, VALUES[:, 1])
    assert "time (dates)" in by_load.remarks[0]
    without = ldmaps.inputs.open_files(path, time="none")
    assert without.columns == ["flow", "load"]
    assert without.read().times is None
    assert ldmaps.inputs.open_files(path, columns=["flow"], time="none").read().times is None
    with pytest.raises(InvalidInputError, match="has no column 'hour'; its columns are: time, flow"):
        ldmaps.inputs.open_files(path, time="hour")
    with pytest.raises(InvalidInputError, match=r"column 'flow' .* cannot be both a feature and the time"):
        ldmaps.inputs.open_files(path, columns=["flow"], time="flow")


def test_a_column_of_an_array_can_be_the_time(tmp_path):
    np.save(tmp_path / "rows.npy", np.column_stack([VALUES, 5.0 * np.arange(300)]))
    source = ldmaps.inputs.open_files(tmp_path / "rows.npy", time="3")
    read = source.read()
    np.testing.assert_array_equal(read.frames, VALUES)
    np.testing.assert_array_equal(read.times, 5.0 * np.arange(300))
    again = ldmaps.inputs.open_files(tmp_path / "rows.npy", model_facts=source.facts()).read()
    np.testing.assert_array_equal(again.frames, VALUES)
    np.save(tmp_path / "frames.npy", np.ones((4, 5, 3)))
    with pytest.raises(InvalidInputError, match=r"time=.* is a column of a table, but .* holds frames"):
        ldmaps.inputs.open_files(tmp_path / "frames.npy", time="1")


def test_a_fit_says_what_the_time_is_with_chosen_columns_and_without(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sensors.csv").write_text(csv("stamp"))
    fit = [
        "fit",
        "sensors.csv",
        "-m",
        "20",
        "--epsilon",
        "4",
        "-o",
        "map.ldm",
        "-f",
        "--columns",
        "flow,load",
    ]
    assert main(fit) == 0
    assert "time: stamp\n" in capfd.readouterr().err
    assert load("map.ldm").sampling_.kind == "time"
    assert main([*fit, "--time", "none"]) == 0
    said = capfd.readouterr().err
    assert "time: none, so rows are treated as independent;" in said
    assert load("map.ldm").sampling_.kind == "rows"
    assert main([*fit[:-1], "flow", "--time", "load"]) == 0  # which goes up and down
    said = capfd.readouterr().err.replace("\n    ", " ")  # long lines are wrapped
    assert "time: load, which does not increase from row to row, so rows are treated as independent\n" in said
    assert load("map.ldm").sampling_.kind == "rows"


def test_parts_of_a_date_are_no_features():
    names = ["No", "year", "month", "day", "hour", "pm2.5"]
    rows = [[str(i + 1), "2010", "1", str(1 + i // 24), str(i % 24), f"{VALUES[i, 0]}"] for i in range(50)]
    roles = roles_of(names, rows)
    assert roles.features == [5]
    assert roles.left_out == ((0, "counts rows"), *((place, "calendar") for place in range(1, 5)))
    # One alone may be meant, and so may numbers that are no hours.
    assert roles_of(["hour", "flow"], [["1", "2.5"], ["2", "1.5"]]).features == [0, 1]
    assert roles_of(["day", "hour", "flow"], [["0.5", "30", "2.5"], ["2", "5", "1.5"]]).features == [0, 1, 2]
