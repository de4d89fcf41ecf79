"""Delay windows: cut alike from arrays, files and streams, whatever the chunks; numpy and pandas are the oracles."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap, load
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError, ModelFileError
from ldmaps.inputs import Windows
from ldmaps.inputs.windows import Cutter
from ldmaps.metrics import StandardizedEuclidean
from ldmaps.streaming import OutputFile, StreamEmbedder

N, PERIOD = 400, 12
RNG = np.random.default_rng(3)
PHASE = 2 * np.pi * np.arange(N) / PERIOD
ROWS = np.column_stack(
    [101300 + 300 * np.sin(PHASE) + 9 * RNG.normal(size=N), np.cos(PHASE) + 0.1 * RNG.normal(size=N)]
)
TIMES = 60.0 * np.arange(N)


def by_hand(rows, length, step=1, stretches=None):
    """Windows of stretches without a gap, by numpy's own view; and the row that each ends in."""
    points, ends = [], []
    for first, last in stretches or [(0, len(rows))]:
        if last - first < length:
            continue
        cut = sliding_window_view(rows[first:last], length, axis=0)[::step]
        points.append(cut.transpose(0, 2, 1).reshape(len(cut), -1))
        ends.append(np.arange(first + length - 1, last, step))
    return np.concatenate(points), np.concatenate(ends)


def frame(rows=ROWS, times=TIMES):
    return pd.DataFrame({"time": times, "pressure": rows[:, 0], "flow": rows[:, 1]})


def fitted(windows, rows=ROWS, times=TIMES, metric="euclidean"):
    return LandmarkDiffusionMap(2, "connected", n_landmarks=20, metric=metric).fit(windows.of(rows, times))


@pytest.mark.parametrize(("length", "step"), [(2, 1), (5, 1), (5, 3), (7, 10)])
def test_windows_of_an_array_are_those_of_numpy(length, step):
    source = Windows(length, step).of(ROWS, TIMES)
    read = source.read()
    points, ends = by_hand(ROWS, length, step)
    np.testing.assert_array_equal(read.frames, points)
    np.testing.assert_array_equal(read.numbers, ends)
    np.testing.assert_array_equal(read.times, TIMES[ends])
    assert source.shape == (2 * length,)
    # A view: no more memory than the rows have.
    assert np.shares_memory(read.frames, source.rows._values)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_gap_a_lost_row_a_time_that_goes_back_and_chunks(chunk, step):
    length, times = 4, TIMES.copy()
    times[100:] += 50.0  # 110 s after the row before, above 1.5 · 60
    times[200:] -= 3000.0  # back
    times[300:] += 29.0  # 89 s: no gap
    numbers = np.arange(N)
    numbers[250:] += 1  # a row was left out
    points, ends = by_hand(ROWS, length, step, [(0, 100), (100, 200), (200, 250), (250, N)])
    cutter, taken, where = Cutter(Windows(length, step, 90.0)), [], []
    for at in range(0, N, chunk):
        part = slice(at, at + chunk)
        cut, rows = cutter.cut(ROWS[part], numbers[part], times[part])
        taken.append(cut.copy())
        where.append(rows + at)
    np.testing.assert_array_equal(np.concatenate(taken), points)
    np.testing.assert_array_equal(np.concatenate(where), ends)


def test_a_gap_is_one_and_a_half_median_steps_of_training():
    times = np.cumsum(RNG.choice([50.0, 60.0, 60.0, 70.0], N))
    source = Windows(4).of(ROWS, times)
    source.read()
    assert source.windows.gap == 1.5 * np.median(np.diff(times))
    for unknown in (None, np.zeros(N), np.full(N, np.nan)):
        source = Windows(4).of(ROWS, unknown)
        assert len(source.read()) == N - 3
        assert source.windows.gap is None


def test_files_are_not_joined_and_the_model_knows_its_windows(tmp_path):
    for name, part in (("a", slice(0, 150)), ("b", slice(150, 152)), ("c", slice(152, N))):
        frame(ROWS[part], TIMES[part]).to_csv(tmp_path / f"{name}.csv", index=False)
    names = [tmp_path / f"{name}.csv" for name in "abc"]
    source = ldmaps.inputs.open_files(names, window=6, step=2)
    read = source.read()
    points, ends = by_hand(ROWS, 6, 2, [(0, 150), (152, N)])
    np.testing.assert_allclose(read.frames, points, rtol=1e-15)
    np.testing.assert_array_equal(read.numbers + np.array([0, 150, 152])[read.files], ends)
    model = LandmarkDiffusionMap(2, "connected", n_landmarks=20).fit(source)
    np.testing.assert_array_equal(model.training_.times, TIMES[ends])
    model.save(tmp_path / "map.ldm")
    model = load(tmp_path / "map.ldm")
    assert model.source_["windows"] == {"length": 6, "step": 2, "gap": 90.0, "width": 2}
    again = ldmaps.inputs.open_files(names, model_facts=model.source_, chunk=7)
    for same in (again, ldmaps.inputs.open_files(names), Windows(6, 2).of(ldmaps.inputs.open_files(names))):
        np.testing.assert_allclose(model.transform(same), model.embedding_, rtol=1e-9, atol=1e-12)
    # Windows that were cut already are taken as they are.
    np.testing.assert_allclose(model.transform(points), model.embedding_, rtol=1e-9, atol=1e-12)
    np.save(tmp_path / "cut.npy", points)
    cut = ldmaps.inputs.open_files(tmp_path / "cut.npy", model_facts=model.source_)
    np.testing.assert_allclose(model.transform(cut), model.embedding_, rtol=1e-9, atol=1e-12)


def test_chunks_of_windows_are_as_large_as_chunks_of_rows():
    source = Windows(3000, gap=1e9).of(np.zeros((9000, 7)))
    sizes = [chunk.frames.size * 8 for chunk in source]
    assert sum(sizes) == 6001 * 3000 * 7 * 8
    assert max(sizes) <= 4 << 20


@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_a_column_has_one_scale_at_all_lags(scale):
    cut, _ = by_hand(ROWS, 5)
    model = fitted(Windows(5), metric=StandardizedEuclidean(scale))
    scales = model.metric_.scale.reshape(5, 2)
    np.testing.assert_array_equal(scales, np.tile(scales[0], (5, 1)))
    values = cut.reshape(-1, 2)
    if scale == "standard":
        np.testing.assert_allclose(scales[0], values.std(axis=0), rtol=1e-12)
    else:
        apart = np.subtract(*np.quantile(values, [0.75, 0.25], axis=0, method="inverted_cdf"))
        np.testing.assert_allclose(scales[0], apart / 1.3489795003921634, rtol=1e-12)
    given = fitted(Windows(5), metric=StandardizedEuclidean(scales[0]))
    np.testing.assert_allclose(given.metric_.scale, scales.ravel())
    np.testing.assert_allclose(given.eigenvalues_, model.eigenvalues_, rtol=1e-9)


def test_the_length_comes_from_the_autocorrelation(tmp_path):
    frame().to_csv(tmp_path / "a.csv", index=False)
    assert ldmaps.inputs.open_files(tmp_path / "a.csv", window="auto").windows.length == PERIOD
    walk = np.zeros((20_000, 1))
    for row in range(1, len(walk)):
        walk[row] = np.exp(-1 / 20) * walk[row - 1] + RNG.normal()
    assert 15 <= Windows.suggested(Windows(2).of(walk).rows).length <= 27  # it falls to 1/e after 20 rows
    assert Windows.suggested(Windows(2).of(np.ones((50, 2))).rows).length == 2


# -- streams ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return fitted(Windows(6, 2), metric=StandardizedEuclidean())


def streamed(model, rows, **settings):
    parts = list(StreamEmbedder(model, n_threads=1, **settings).stream(rows))
    numbers = np.concatenate([part.numbers for part in parts])
    return numbers, np.concatenate([part.coordinates for part in parts])


@pytest.mark.parametrize("batch", [1, 4, 5, 1000])
def test_a_stream_cuts_the_same_windows(model, batch):
    numbers, coordinates = streamed(model, ROWS, max_batch=batch)
    _, ends = by_hand(ROWS, 6, 2)
    np.testing.assert_array_equal(numbers, ends)
    np.testing.assert_allclose(coordinates, model.embedding_, rtol=1e-8, atol=1e-12)
    numbers, _ = streamed(model, ROWS, max_batch=batch, step=1)
    np.testing.assert_array_equal(numbers, np.arange(5, N))
    source = ldmaps.inputs.Windows(6, 2).of(ROWS, TIMES)  # whose records are windows
    np.testing.assert_allclose(streamed(model, source)[1], model.embedding_, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("form", ["csv", "ndjson", "npy"])
def test_a_bad_row_begins_a_new_window(model, tmp_path, form):
    rows = ROWS.copy()
    rows[50, 1] = np.nan
    path = tmp_path / f"rows.{form}"
    if form == "csv":
        frame(rows, TIMES).to_csv(path, index=False)
    elif form == "ndjson":
        path.write_text("".join(f"{json.dumps(row).replace('NaN', 'null')}\n" for row in rows.tolist()))
    else:
        np.save(path, rows)
    engine = StreamEmbedder(model, n_threads=1)
    parts = list(engine.stream(str(path)))
    numbers = np.concatenate([part.numbers for part in parts])
    np.testing.assert_array_equal(numbers, by_hand(rows, 6, 2, [(0, 50), (51, N)])[1])
    assert [(one.number, one.missing) for part in parts for one in part.rejected] == [(50, True)]


@pytest.mark.parametrize("every", range(1, 14, 3))
def test_a_restart_inside_a_window_repeats_and_loses_nothing(model, tmp_path, every):
    rows = frame(ROWS[:60], TIMES[:60])
    rows.drop(index=[30]).to_csv(tmp_path / "rows.csv", index=False)  # a gap in time
    StreamEmbedder(model, n_threads=1).run(tmp_path / "rows.csv", [OutputFile(tmp_path / "whole.csv")])
    for read in range(0, 60, every):
        engine = StreamEmbedder(model, max_batch=4, n_threads=1)
        output = OutputFile(tmp_path / "psi.csv")
        engine.run(tmp_path / "rows.csv", [output], checkpoint=tmp_path / "c", max_records=read + every)
    assert (tmp_path / "psi.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    numbers = pd.read_csv(tmp_path / "psi.csv")["number"]
    np.testing.assert_array_equal(numbers, by_hand(ROWS[:59], 6, 2, [(0, 30), (30, 59)])[1])
    with pytest.raises(InvalidInputError, match="begun with every 2-th window; resume with step=2"):
        StreamEmbedder(model, step=1).run(
            tmp_path / "rows.csv", [OutputFile(tmp_path / "psi.csv")], checkpoint=tmp_path / "c"
        )


# -- the command line ------------------------------------------------------------------------


def test_fit_embed_and_stream_agree(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame().assign(site=7.0).to_csv("rows.csv", index=False)
    assert (
        main(["fit", "rows.csv", "--window", "auto", "-m", "30", "--n-components", "2", "-o", "map.ldm"]) == 0
    )
    said = capsys.readouterr().err.replace("\n    ", " ")  # long lines are wrapped
    assert "windows: 12 rows of 3 columns, step 1; windows are not built across gaps longer than 90" in said
    assert "constant columns ignored: site" in said
    for command in ("embed map.ldm rows.csv -o a.csv -q", "stream map.ldm rows.csv -o b.csv -q"):
        assert main(command.split()) == 0
    embedded, streams = pd.read_csv("a.csv"), pd.read_csv("b.csv")
    np.testing.assert_array_equal(embedded["frame"], np.arange(11, N))
    np.testing.assert_array_equal(embedded["time"], TIMES[11:])
    shared = ["time", "psi2", "psi3", "distance", "inside", "nearest"]
    pd.testing.assert_frame_equal(embedded[shared], streams[shared], rtol=1e-9)
    assert main(["embed", "map.ldm", "rows.csv", "--step", "5", "-o", "c.csv", "-q"]) == 0
    np.testing.assert_array_equal(pd.read_csv("c.csv")["frame"], np.arange(11, N, 5))
    capsys.readouterr()
    assert main(["info", "map.ldm"]) == 0
    assert (
        "12 rows of 3 columns, step 1; windows are not built across gaps longer than 90"
        in capsys.readouterr().out.replace("\n" + 12 * " ", " ")
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit rows.csv --window 1 -o x.ldm", "whole number of at least 2"),
        ("fit rows.csv --window 500 -o x.ldm", "400 rows, but no 500 consecutive ones without a gap"),
        (
            "fit rows.csv --window 4 -s 2 -o x.ldm",
            "--stride 2 cannot be combined with windows, which are cut from consecutive rows; use --step 2",
        ),
        ("embed map.ldm rows.csv -s 2 -o x.csv", "--stride 2 cannot be combined with windows"),
        (
            "fit rows.csv --step 2 -o x.ldm",
            "--step 2 requires windows, but these are single rows; fit with --window",
        ),
        ("embed map.ldm one.csv -o x.csv", "one.csv has no column 'pressure'"),
        ("embed map.ldm one.npy -o x.csv", "rows of shape (1,), but the map is of windows of 2 columns"),
        ("embed map.ldm rows.csv --workers 2 -o x.csv", "leave out --workers"),
        ("stream map.ldm short.csv -o x.csv", "ended before 6 rows, a window, came without a gap"),
    ],
)
def test_what_cannot_be_windows_is_said(model, tmp_path, monkeypatch, capsys, command, words):
    if "--workers" in command:
        pytest.importorskip("dask.distributed", reason="workers are Dask's")
    monkeypatch.chdir(tmp_path)
    frame().to_csv("rows.csv", index=False)
    frame()[["flow"]].to_csv("one.csv", index=False)
    np.save("one.npy", ROWS[:, :1])
    frame()[:5].to_csv("short.csv", index=False)
    named = LandmarkDiffusionMap(2, "connected", n_landmarks=20).fit(
        ldmaps.inputs.open_files("rows.csv", window=6)
    )
    named.save("map.ldm")
    assert main(command.split()) != 0
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "forged",
    [
        {"length": 1, "step": 1, "gap": None, "width": 12},
        {"length": 6, "step": 0, "gap": None, "width": 2},
        {"length": 6, "step": 1, "gap": -1.0, "width": 2},
        {"length": 6, "step": 1, "gap": None, "width": 3},
        {"length": "6", "step": 1, "gap": None, "width": 2},
        [],
    ],
)
def test_forged_windows_are_refused(model, tmp_path, forged):
    changed = LandmarkDiffusionMap(2, "connected", n_landmarks=20).fit(Windows(6).of(ROWS))
    changed.source_["windows"] = forged
    changed.save(tmp_path / "map.ldm")
    with pytest.raises(ModelFileError):
        load(tmp_path / "map.ldm")
