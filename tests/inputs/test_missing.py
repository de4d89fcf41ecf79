"""Tables as people have them: missing values, decimal commas, gzip, constant columns; pandas is the oracle."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap, load
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError
from ldmaps.streaming import StreamEmbedder

N = 90
RNG = np.random.default_rng(5)
WHOLE = pd.DataFrame({"time": 10.0 * np.arange(N), "flow": RNG.normal(size=N), "load": RNG.normal(size=N)})
HOLES = WHOLE.mask(RNG.uniform(size=(N, 3)) < 0.1).assign(time=WHOLE["time"])
KEPT = HOLES.dropna()
FORMS = ("csv", "parquet", "npy")


def written(folder, form, table=HOLES):
    path = folder / f"table.{form}"
    if form == "csv":
        table.to_csv(path, index=False, na_rep="N/A")
        text = path.read_text().replace("N/A", "", 1)  # an empty cell, too
        path.write_text(text)
    elif form == "parquet":
        table.to_parquet(path)
    elif form == "ndjson":
        path.write_text(
            "".join(json.dumps(row).replace("NaN", "null") + "\n" for row in table.to_dict("records"))
        )
    else:
        np.save(path, np.ascontiguousarray(table[["flow", "load"]]))
    return path


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 9.0, n_landmarks=20).fit(WHOLE[["flow", "load"]].to_numpy())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [7, None])
def test_rows_with_missing_values_are_left_out_and_counted(tmp_path, form, chunk):
    path = written(tmp_path, form)
    source = ldmaps.inputs.open_files(path, missing="drop", chunk=chunk)
    for _ in range(2):  # read again, they are not counted twice
        read = source.read()
        np.testing.assert_allclose(read.frames, KEPT[["flow", "load"]], rtol=1e-15)
        np.testing.assert_array_equal(read.numbers, KEPT.index)
        assert f"missing values: {N - len(KEPT)} rows left out" in source.remarks
    if form != "npy":
        np.testing.assert_array_equal(read.times, KEPT["time"])
    assert source.n_frames is None
    with pytest.raises(InvalidInputError, match=r'leave (such rows|them) out with missing="drop"'):
        ldmaps.inputs.open_files(path, chunk=chunk).read()


@pytest.mark.parametrize("form", [*FORMS, "ndjson"])
def test_streams_reject_and_count_the_same_rows(model, tmp_path, form):
    path = written(tmp_path, form)
    rows = path if form in ("csv", "npy", "ndjson") else ldmaps.inputs.open_files(path)
    engine = StreamEmbedder(model, n_threads=1)
    if form == "ndjson":
        model.source_ = {"kind": "table", "columns": ["flow", "load"], "files": [], "time": "time"}
        engine = StreamEmbedder(model, n_threads=1)
        model.source_ = None
    summary = engine.run(rows)
    assert (summary.records, summary.rejected, summary.missing) == (len(KEPT), N - len(KEPT), N - len(KEPT))
    with pytest.raises(ldmaps.errors.BadRecordError, match=rf"record {HOLES.isna().any(axis=1).argmax()} "):
        StreamEmbedder(model, missing="error", n_threads=1).run(HOLES[["flow", "load"]].to_numpy())
    assert StreamEmbedder(model, missing="error", n_threads=1).run([[1.0, np.inf], [0.0, 0.0]]).rejected == 1


def test_the_command_line_does_the_same_everywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "csv")
    said = f"missing values: {N - len(KEPT)} rows left out"
    assert main(["fit", "table.csv", "-m", "20", "-o", "map.ldm"]) == 1
    assert "or leave such rows out with --missing drop" in capsys.readouterr().err
    assert main(["fit", "table.csv", "-m", "20", "--missing", "drop", "-o", "map.ldm"]) == 0
    assert said in capsys.readouterr().err
    assert load("map.ldm").source_["missing"] == "drop"
    assert main(["embed", "map.ldm", "table.csv", "-o", "a.csv"]) == 0  # as it was fitted
    assert said in capsys.readouterr().err
    assert main(["stream", "map.ldm", "table.csv", "-o", "b.csv"]) == 0
    assert f"({N - len(KEPT)} with missing values)" in capsys.readouterr().err
    np.testing.assert_array_equal(pd.read_csv("a.csv")["frame"], KEPT.index)
    np.testing.assert_array_equal(pd.read_csv("a.csv")["time"], KEPT["time"])
    np.testing.assert_array_equal(pd.read_csv("b.csv")["number"], KEPT.index)
    for command in ("embed map.ldm table.csv -o c.csv", "stream map.ldm table.csv -o c.csv"):
        assert main([*command.split(), "--missing", "error"]) == 1
    assert main(["fit", "table.csv", "--missing", "drop", "--workers", "2", "-o", "x.ldm"]) == 1
    pd.DataFrame({"flow": [np.nan] * 9, "load": 1.0}).to_csv("none.csv", index=False)
    capsys.readouterr()
    assert main(["fit", "none.csv", "--missing", "drop", "-o", "x.ldm"]) == 1
    assert "none.csv: each of the 9 rows has a missing value" in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match='missing must be "drop"'):
        ldmaps.inputs.open_files("table.csv", missing="fill")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas_are_read_where_they_can_be_nothing_else(model, tmp_path, delimiter):
    path = tmp_path / "table.csv"
    WHOLE.to_csv(path, index=False, sep=delimiter, decimal=",")
    read = ldmaps.inputs.open_files(path).read()
    np.testing.assert_allclose(read.frames, WHOLE[["flow", "load"]], rtol=1e-15)
    np.testing.assert_array_equal(read.times, WHOLE["time"])
    model.source_ = {"kind": "table", "columns": ["flow", "load"], "files": [], "time": "time"}
    parts = list(StreamEmbedder(model, n_threads=1).stream(path))
    model.source_ = None
    points = np.concatenate([part.points for part in parts])
    np.testing.assert_allclose(points, WHOLE[["flow", "load"]], rtol=1e-15)
    path.write_text("flow;load\n1.234,5;2,5\n0,5;1,5\n")
    with pytest.raises(InvalidInputError, match="write it with a point and no thousands separators"):
        ldmaps.inputs.open_files(path).read()


def test_other_commas_are_refused_by_name(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('flow,load\n"1,5","2,5"\n"0,5","1,5"\n')
    with pytest.raises(
        InvalidInputError, match=r"line 2, column 1 \(flow\): '1,5' is not a number; write it"
    ):
        ldmaps.inputs.open_files(path).read()


def test_text_may_be_packed(tmp_path):
    plain = written(tmp_path, "csv", WHOLE)
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    np.testing.assert_array_equal(
        ldmaps.inputs.open_files(packed).read().frames, ldmaps.inputs.open_files(plain).read().frames
    )
    packed.write_bytes(packed.read_bytes()[:-200])
    with pytest.raises(InvalidInputError, match=r"table\.csv\.gz cannot be unpacked"):
        ldmaps.inputs.open_files(packed).read()
    packed.write_bytes(b"flow,load\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"table\.csv\.gz cannot be unpacked"):
        ldmaps.inputs.open_files(packed)


@pytest.mark.parametrize("scale", ["standard", "none"])
def test_constant_columns_are_said_and_saved(tmp_path, monkeypatch, capsys, scale):
    monkeypatch.chdir(tmp_path)
    WHOLE.assign(site=101300.1, unit=3).to_csv("table.csv", index=False)
    assert main(f"fit table.csv -m 20 --scale {scale} -o map.ldm".split()) == 0
    assert "constant columns ignored: site, unit" in capsys.readouterr().err
    model = load("map.ldm")
    assert model.source_["constant"] == ["site", "unit"]
    if scale == "standard":
        np.testing.assert_array_equal(np.isinf(model.metric_.scale), [False, False, True, True])
        np.testing.assert_allclose(model.metric_.scale[:2], WHOLE[["flow", "load"]].std(ddof=0), rtol=1e-12)


@pytest.mark.parametrize("names", [True, False])
def test_a_nearly_empty_column_that_costs_most_rows_is_named(tmp_path, names):
    table = WHOLE[["flow", "load"]].assign(humidity=np.where(np.arange(N) % 5, np.nan, 1.0))
    table.loc[::7, "flow"] = np.nan
    table.to_csv(tmp_path / "table.csv", index=False, header=names)
    source = ldmaps.inputs.open_files(tmp_path / "table.csv", missing="drop", chunk=7)
    for _ in range(2):
        source.read()
        lacking = table.isna()
        alone = int((lacking["humidity"] & (lacking.sum(axis=1) == 1)).sum())
        (said,) = (line for line in source.remarks if line.startswith("missing"))
        assert said == (
            f"missing values: {int(lacking.any(axis=1).sum())} rows left out of {N}; {alone} of them lack a value of "
            f"{'humidity' if names else 'column 3'} alone: choose the other columns to keep them"
        )
