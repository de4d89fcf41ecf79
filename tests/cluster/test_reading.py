"""Files that workers read in pieces are those that one process reads whole."""

from __future__ import annotations

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap
from ldmaps.cluster import open_blocks, points, reading
from ldmaps.cluster.engine import computed, threads_in_use
from ldmaps.errors import InvalidInputError
from ldmaps.fit import blocks as fit_blocks
from ldmaps.fit import fitted_map
from ldmaps.metrics import Euclidean

ROWS = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two files of each kind, of 300 and of 200 rows."""
    import pyarrow
    import zarr
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("tables")
    for number, part in enumerate((ROWS[:300], ROWS[300:])):
        np.save(folder / f"{number}.npy", part)
        np.savetxt(folder / f"{number}.csv", part, delimiter=",", fmt="%.9g", header="a,b,c,d", comments="")
        columns = pyarrow.table(
            {name: column.astype(float) for name, column in zip("abcd", part.T, strict=True)}
        )
        parquet.write_table(columns, folder / f"{number}.parquet", row_group_size=70)
        array = zarr.create_array(
            str(folder / f"{number}.zarr"), shape=part.shape, chunks=(64, 4), dtype="f4"
        )
        array[:] = part
    return folder


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trajectories")
    whole = mdtraj_trajectory(100)
    whole[0].save_pdb(str(folder / "top.pdb"))
    for suffix in ("xtc", "dcd"):
        whole[:120].save(str(folder / f"0.{suffix}"))
        whole[120:].save(str(folder / f"1.{suffix}"))
    return folder


def piece_of(rows, row_bytes):
    """Return the size of a piece of so many rows."""
    return rows * (row_bytes + reading.ROW_BYTES)


@pytest.fixture
def one_thread(monkeypatch):
    monkeypatch.setattr(reading, "threads_in_use", lambda: 1)


def assert_same_points(paths, piece, **settings):
    whole = ldmaps.inputs.open_files(paths, **settings).read()
    files = open_blocks(paths, piece=piece, **settings)
    blocks = files.blocks
    chunks = computed(blocks.tasks)
    assert [len(chunk) for chunk in chunks] == blocks.sizes
    np.testing.assert_array_equal(np.concatenate([chunk.frames for chunk in chunks]), whole.frames)
    np.testing.assert_array_equal(np.concatenate([chunk.numbers for chunk in chunks]), whole.numbers)
    rows = np.arange(len(whole))
    np.testing.assert_array_equal(blocks.numbers(rows), whole.numbers)
    if whole.files is None:
        assert blocks.files(rows) is None
    else:
        np.testing.assert_array_equal(blocks.files(rows), whole.files)
    if whole.times is not None:
        np.testing.assert_array_equal(np.concatenate([chunk.times for chunk in chunks]), whole.times)
    return blocks


@pytest.mark.parametrize(
    "settings", [{}, {"stride": 3}, {"start": 17, "stop": 180}, {"start": 5, "stride": 7}]
)
@pytest.mark.parametrize(("suffix", "n_pieces"), [("npy", 5), ("zarr", 5), ("parquet", 8), ("csv", 2)])
def test_tables_in_pieces(tables, suffix, n_pieces, settings, one_thread):
    paths = [tables / f"{number}.{suffix}" for number in (0, 1)]
    blocks = assert_same_points(paths, piece_of(100, 16), **settings)
    if not settings:
        assert len(blocks.tasks) == n_pieces


@pytest.mark.parametrize("suffix", ["npy", "parquet", "zarr"])
def test_chosen_columns_in_pieces(tables, suffix):
    columns = ["b", "d"] if suffix == "parquet" else ["2", "4"]
    assert_same_points([tables / f"0.{suffix}"], piece_of(60, 8), columns=columns)


@pytest.mark.parametrize("settings", [{}, {"stride": 2, "start": 3}, {"select": "not element H"}], ids=str)
@pytest.mark.parametrize("suffix", ["xtc", "dcd"])
def test_trajectories_in_pieces(trajectories, suffix, settings):
    paths = [trajectories / f"{number}.{suffix}" for number in (0, 1)]
    settings = {"top": str(trajectories / "top.pdb"), **settings}
    assert len(assert_same_points(paths, piece_of(50, 22 * 12), **settings).tasks) > 2


def test_settings_travel_once_not_with_every_piece(trajectories, one_thread):
    paths = [str(trajectories / f"{number}.dcd") for number in range(2)]
    chosen = "name C or name N or name CA"
    files = open_blocks(paths, top=str(trajectories / "top.pdb"), select=chosen, piece=piece_of(30, 60))
    tasks = files.blocks.tasks
    assert len(tasks) > 4
    graphs = [dict(task.dask) for task in tasks]
    assert len({key for graph in graphs for key in graph if key.startswith("ldmaps: files")}) == 1
    assert not any(chosen in repr(graph[task.key]) for graph, task in zip(graphs, tasks, strict=True))


def test_a_fit_to_files_is_that_of_one_process(trajectories):
    paths = [str(trajectories / f"{number}.xtc") for number in (0, 1)]
    top = str(trajectories / "top.pdb")
    settings = {"n_components": 2, "metric": "rmsd", "epsilon": 0.005, "n_landmarks": 30}
    plain = LandmarkDiffusionMap(**settings).fit(ldmaps.inputs.open_files(paths, top))
    found = LandmarkDiffusionMap(**settings).fit(open_blocks(paths, top, piece=piece_of(50, 22 * 12)))
    np.testing.assert_array_equal(found.landmark_indices_, plain.landmark_indices_)
    np.testing.assert_array_equal(found.embedding_, plain.embedding_)
    # To rounding: new frames are embedded without being prepared, as training frames are.
    again = found.transform(open_blocks(paths, top)).compute()
    np.testing.assert_allclose(again, plain.embedding_, atol=1e-5 * np.abs(plain.embedding_).max())
    assert found.coverage(open_blocks(paths, top)).inside.all().compute()
    assert found.units_ == plain.units_ == "nm"
    assert found.source_ == plain.source_
    for name, values in plain.training_.arrays().items():
        np.testing.assert_array_equal(found.training_.arrays()[name], values, err_msg=name)


@pytest.mark.parametrize("most", [fitted_map.MAX_RECORDED, 300])
def test_the_default_map_of_a_trajectory_is_that_of_one_process(tmp_path, monkeypatch, most):
    """Of many rows some times are noted, which tell how far apart all are."""
    for module in (fitted_map, fit_blocks):
        monkeypatch.setattr(module, "MAX_RECORDED", most)
    monkeypatch.setattr(fitted_map.thinned_rows, "__defaults__", (most,))
    whole = mdtraj_trajectory(30)
    whole[0].save_pdb(str(tmp_path / "top.pdb"))
    whole[:500].save(str(tmp_path / "0.xtc"))
    whole[500:].save(str(tmp_path / "1.xtc"))
    paths, top = [tmp_path / "0.xtc", tmp_path / "1.xtc"], tmp_path / "top.pdb"
    plain = LandmarkDiffusionMap(metric="rmsd", n_landmarks=100).fit(ldmaps.inputs.open_files(paths, top))
    blocks = open_blocks(paths, top, piece=piece_of(150, 22 * 12))
    found = LandmarkDiffusionMap(metric="rmsd", n_landmarks=100).fit(blocks)
    known, calibration = plain.embedder_.calibration, found.embedder_.calibration
    np.testing.assert_array_equal(calibration.scores, known.scores)
    assert calibration.interval == pytest.approx(known.interval)
    assert found.sampling_.unit == plain.sampling_.unit == "ps"
    np.testing.assert_allclose(found.sampling_.times, plain.sampling_.times, rtol=1e-6)
    np.testing.assert_array_equal(found.training_.times, plain.training_.times)
    np.testing.assert_array_equal(np.asarray(found.embedding_), plain.embedding_)


def test_a_fit_with_weights_from_a_file(tables, tmp_path):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 500)
    np.savetxt(tmp_path / "weights.csv", weights, header="weight", comments="")
    paths = [tables / f"{number}.npy" for number in (0, 1)]
    settings = {"n_components": 2, "epsilon": 2.0, "n_landmarks": 60, "calibration": 0}
    plain = LandmarkDiffusionMap(**settings).fit(
        ldmaps.inputs.open_files(paths, weights=str(tmp_path / "weights.csv"))
    )
    found = LandmarkDiffusionMap(**settings).fit(open_blocks(paths, weights=str(tmp_path / "weights.csv")))
    np.testing.assert_allclose(found.multiplicities_, plain.multiplicities_, rtol=1e-12)


def test_an_infinite_value_is_reported_with_file_and_row(tmp_path):
    rows = ROWS.copy()
    rows[402, 1] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    files = open_blocks(tmp_path / "rows.npy", piece=piece_of(100, 16))
    message = r"rows.npy: row 402 \(column 2\) holds NaN"
    with pytest.raises(InvalidInputError, match=message):  # in the sample
        LandmarkDiffusionMap(2, 1.0).fit(files)
    with pytest.raises(InvalidInputError, match=message):  # while points are assigned
        LandmarkDiffusionMap(2, 1.0, landmarks=np.arange(300)).fit(files)
    model = LandmarkDiffusionMap(2, 2.0).fit(ROWS)
    with pytest.raises(InvalidInputError, match=message):
        model.transform(files).compute()


def test_a_piece_is_read_from_where_it_begins(tables, monkeypatch):
    """Not from the file's first row: that would cost the square of the file."""
    from ldmaps.inputs.table_files import ArrayTable

    read = []
    rows = ArrayTable.rows

    def noted(table, chunk, wanted):
        for numbers, block in rows(table, chunk, wanted):
            read.append(len(block))
            yield numbers, block

    monkeypatch.setattr(ArrayTable, "rows", noted)
    piece = reading.read_piece(str(tables / "0.zarr"), "0.zarr", {}, 250, 300, 50)
    np.testing.assert_array_equal(piece.frames, ROWS[250:300])
    assert read == [50]


def test_a_piece_of_an_array_stays_in_its_file_until_it_is_looked_at(tables):
    piece = reading.read_piece(str(tables / "0.npy"), "0.npy", {}, 40, 140, 100)
    assert isinstance(piece.frames.base, np.memmap) or isinstance(piece.frames, np.memmap)
    np.testing.assert_array_equal(piece.frames, ROWS[40:140])
    np.testing.assert_array_equal(piece.numbers, np.arange(40, 140))


@pytest.mark.parametrize("piece", ["", "many", "-4MB", 0, -1, 1.5, True, "0", "5TB", float("nan")])
def test_sizes_of_a_piece_that_are_none(tables, piece):
    with pytest.raises(InvalidInputError, match='piece must be a size such as "64MB"'):
        open_blocks(tables / "0.npy", piece=piece)


def test_sizes_of_a_piece_with_units(tables, one_thread):
    for piece, n_blocks in (
        (piece_of(100, 16), 3),
        ("6.4kB", 3),
        ("19.2 KB", 1),
        ("32MB", 1),
        (None, 1),
        (1, 300),
    ):
        assert len(open_blocks(tables / "0.npy", piece=piece).blocks.tasks) == n_blocks


def test_a_file_that_grew_shorter_is_noticed(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    blocks = open_blocks(tmp_path / "rows.npy").blocks
    np.save(tmp_path / "rows.npy", ROWS[:100])
    with pytest.raises(
        InvalidInputError, match="rows.npy has changed while it was read: 100 rows from 0 on, not 500"
    ):
        computed(blocks.tasks)


def test_stdin_is_refused(monkeypatch):
    import io
    import sys

    stream = io.TextIOWrapper(io.BytesIO(b"1,2\n3,4\n"))
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(InvalidInputError, match="workers cannot read stdin"):
        open_blocks("-")


def test_a_group_of_zarr_arrays_is_explained(tmp_path):
    import zarr

    group = zarr.create_group(str(tmp_path / "group.zarr"))
    group.create_array("positions", shape=(5, 2), dtype="f4")[:] = 1.0
    with pytest.raises(InvalidInputError, match="choose one of positions with array"):
        ldmaps.inputs.open_files(tmp_path / "group.zarr")
    assert ldmaps.inputs.open_files(tmp_path / "group.zarr", array="positions").read().frames.shape == (5, 2)


@pytest.mark.parametrize(("n_threads", "n_pieces"), [(1, 5), (2, 6), (3, 6), (4, 8), (5, 5), (8, 5)])
def test_threads_that_get_several_pieces_get_as_many_and_equal_ones(tables, monkeypatch, n_threads, n_pieces):
    monkeypatch.setattr(reading, "threads_in_use", lambda: n_threads)
    sizes = open_blocks(tables / "0.npy", piece=piece_of(70, 16)).blocks.sizes
    assert len(sizes) == n_pieces
    assert sum(sizes) == 300
    assert max(sizes) <= 70
    assert max(sizes) - min(sizes) <= n_pieces  # the last one has what is left


def test_threads_are_those_of_the_workers(with_workers):
    import dask.system

    assert threads_in_use() == dask.system.CPU_COUNT
    with_workers(3)
    assert threads_in_use() == 3


@pytest.mark.parametrize(("suffix", "n_kept"), [("npy", 0), ("zarr", 3), ("parquet", 4)])
def test_prepared_points_are_kept_where_reading_them_again_costs(
    tables, one_thread, monkeypatch, suffix, n_kept
):
    monkeypatch.setattr(points, "fits_in_workers", lambda n_bytes: True)
    files = open_blocks(tables / f"0.{suffix}", piece=piece_of(100, 16))
    sources, kept = points.BlockedPoints(Euclidean(), files.blocks).blocks_to_pass()
    assert len(kept) == n_kept
    assert len(sources) == len(files.blocks.sizes)
