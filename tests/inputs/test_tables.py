"""Tables are as good a source of points as trajectories and arrays."""

from __future__ import annotations

import io
import sys
from functools import partial

import numpy as np
import pytest

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap, load
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError
from ldmaps.inputs import FrameChunk, PointSource
from ldmaps.inputs.source import Reading
from ldmaps.inputs.tables import open_table, read_columns, read_numbers
from ldmaps.inputs.text_table import TextColumns, UnreadableError
from ldmaps.progress import Progress, reporting
from ldmaps.streaming import StreamEmbedder
from ldmaps.text_rows import PlainRows

ROLL = swiss_roll(120, random_state=0).points


def fitted(X):
    return LandmarkDiffusionMap(2, 16.0, n_landmarks=40).fit(X)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    np.save(folder / "roll.npy", ROLL)
    np.savez(folder / "roll.npz", points=ROLL, other=np.zeros(3))
    np.savetxt(folder / "roll.csv", ROLL, fmt="%.17g", delimiter=",", header="x,y,z", comments="")
    np.savetxt(folder / "roll.txt", ROLL, fmt="%.17g")
    np.savetxt(folder / "other.csv", ROLL[:, ::-1], fmt="%.17g", delimiter=";", header="z;y;x", comments="")
    rows = [",".join(f'"{value!r}"' for value in (row, *point)) for row, point in enumerate(ROLL.tolist())]
    (folder / "quoted.csv").write_text("\n".join(['"","x","y","z"', *rows]))
    return folder


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("roll.npy", {}),
        ("roll.npz", {"array": "points"}),
        ("roll.csv", {}),
        ("roll.txt", {}),
        ("other.csv", {"columns": ["x", "y", "z"]}),
        ("other.csv", {"columns": ["3", "2", "1"]}),
        ("quoted.csv", {"columns": ["x", "y", "z"]}),
    ],
)
def test_estimators_take_tables_as_they_take_arrays(folder, name, settings):
    source = ldmaps.inputs.open_files(folder / name, chunk=11, **settings)
    assert source.shape == (3,)
    model, expected = fitted(source), fitted(ROLL)
    np.testing.assert_array_equal(model.embedding_, expected.embedding_)
    np.testing.assert_allclose(model.transform(source), expected.transform(ROLL), rtol=1e-12)
    np.testing.assert_array_equal(model.coverage(source).nearest, expected.coverage(ROLL).nearest)
    assert model.units_ is None
    assert model.source_["kind"] == "table"
    assert model.source_["n_points"] == len(ROLL)
    assert model.source_["files"] == [str(folder / name)]
    np.testing.assert_array_equal(model.training_.frames, np.arange(len(ROLL)))
    assert model.training_.files is None


def test_rows_know_their_file(folder, tmp_path):
    """Also where numbers do not fall from one file to the next, which is all that could be guessed from."""
    model = fitted(
        ldmaps.inputs.open_files([folder / "roll.npy", folder / "roll.csv"], stride=2, start=20, stop=100)
    )
    np.testing.assert_array_equal(model.training_.files, np.repeat([0, 1], 40))
    np.testing.assert_array_equal(model.training_.frames, [*range(20, 100, 2)] * 2)
    model.save(tmp_path / "map.ldm")
    np.testing.assert_array_equal(load(tmp_path / "map.ldm").training_.files, model.training_.files)

    class Continued(PointSource):
        files = ("a", "b", "c")
        shape = (3,)

        def facts(self):
            return {"kind": "table", "columns": None, "files": list(self.files)}

        def __iter__(self):
            for file, begin, end in (("a", 0, 50), ("c", 50, 119), ("c", 119, 120)):
                yield FrameChunk(ROLL[begin:end], np.arange(begin, end), None, file)

    np.testing.assert_array_equal(fitted(Continued()).training_.files, np.repeat([0, 2], [50, 70]))


def test_a_model_finds_its_columns(folder):
    model = fitted(ldmaps.inputs.open_files(folder / "roll.csv"))
    with pytest.raises(
        InvalidInputError, match=r"fitted on the columns x, y, z, but .*other\.csv has z, y, x"
    ):
        model.transform(ldmaps.inputs.open_files(folder / "other.csv"))
    other = ldmaps.inputs.open_files(folder / "other.csv", model_facts=model.source_)
    assert other.columns == ["x", "y", "z"]
    np.testing.assert_allclose(model.transform(other), model.embedding_, rtol=1e-12)
    # Tables without names are taken as they stand.
    plain = ldmaps.inputs.open_files(folder / "roll.npy", model_facts=model.source_)
    np.testing.assert_allclose(model.transform(plain), model.embedding_, rtol=1e-12)


def test_several_tables_have_the_same_columns(folder):
    with pytest.raises(InvalidInputError, match=r"has the columns z, y, x, but .*roll\.csv has x, y, z"):
        ldmaps.inputs.open_files([folder / "roll.csv", folder / "other.csv"])
    both = ldmaps.inputs.open_files(
        [folder / "roll.csv", folder / "other.csv"], columns=["x", "y", "z"]
    ).read()
    np.testing.assert_array_equal(both.frames, np.concatenate([ROLL, ROLL]))


def test_settings_of_the_other_kind_are_refused(folder, files):
    for name in ("top", "select"):
        with pytest.raises(InvalidInputError, match=rf"{name} applies to trajectories"):
            ldmaps.inputs.open_files(folder / "roll.csv", **{name: "all"})
    for name in ("columns", "array"):
        with pytest.raises(InvalidInputError, match=rf"{name} applies to tables"):
            ldmaps.inputs.open_files(files["h5"], **{name: "x"})
    with pytest.raises(InvalidInputError, match="is a table and .* a trajectory; give inputs of one kind"):
        ldmaps.inputs.open_files([folder / "roll.csv", files["h5"]])


def test_nan_is_named_with_its_file(tmp_path):
    points = ROLL.copy()
    points[17, 1] = np.nan
    np.save(tmp_path / "bad.npy", points)
    with pytest.raises(InvalidInputError, match=r"bad\.npy: row 17 \(column 2\) holds NaN"):
        fitted(ldmaps.inputs.open_files(tmp_path / "bad.npy"))


@pytest.mark.parametrize("separator", [",", " "])
def test_ragged_lines_are_found_beyond_the_columns_taken(tmp_path, separator):
    text = "x,y,z\n1,2,3\n4,5,6,7\n8,9,10\n".replace(",", separator)
    (tmp_path / "ragged.csv").write_text(text)
    with pytest.raises(InvalidInputError, match="line 3: 4 columns, but 3 in the lines before"):
        ldmaps.inputs.open_files(tmp_path / "ragged.csv", columns=["x", "y"]).read()


def test_streams_take_table_sources(folder):
    model = fitted(ldmaps.inputs.open_files(folder / "roll.csv"))
    source = ldmaps.inputs.open_files(folder / "roll.csv", chunk=7)
    parts = [embedded.coordinates for embedded in StreamEmbedder(model).stream(source)]
    np.testing.assert_allclose(np.concatenate(parts), model.embedding_, rtol=1e-12)


@pytest.mark.parametrize(
    ("line", "row", "reason"),
    [
        ('1,"2"', [1.0, 2.0], None),
        (" 1 , 2 ", [1.0, 2.0], None),
        ('1,"2', None, "not CSV (a quote is not closed)"),
        ("1_0,2", None, "column 1 (a): '1_0' is not a number"),
        ("٣,2", None, "column 1 (a): '٣' is not a number"),
    ],
)
def test_a_line_is_judged_alike_by_itself_and_in_a_table(tmp_path, line, row, reason):
    columns = TextColumns.of("a,b")
    path = tmp_path / "table.csv"
    path.write_text(f"a,b\n5,6\n{line}\n7,8\n", encoding="utf-8")
    source = ldmaps.inputs.open_files(path)
    if reason is None:
        assert [columns.number(columns.cells(line), place) for place in (0, 1)] == row
        np.testing.assert_array_equal(source.read().frames, [[5, 6], row, [7, 8]])
        return
    with pytest.raises(UnreadableError) as caught:
        columns.number(columns.cells(line), 0)
    assert str(caught.value) == reason
    with pytest.raises(InvalidInputError) as caught:
        source.read()
    assert f"line 3, {reason}" in str(caught.value)


def test_points_are_counted_beforehand_only_if_somebody_sees_the_bar(folder, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("ldmaps.progress.REDRAW", 0.0)
    source = ldmaps.inputs.open_files(folder / "roll.npy", chunk=30)
    screen = Terminal()
    with reporting(Progress(stream=screen)):
        source.read()
    assert "25 %  30 rows" in screen.getvalue()
    monkeypatch.setattr(type(source), "n_frames", property(lambda self: 1 / 0))
    assert len(source.read()) == len(ROLL)


@pytest.mark.parametrize("chunk", [3, 1000])
@pytest.mark.parametrize(
    "lines",
    [
        ["1,2,3"] * 9,
        ["a,b,c", *["1.5,-2e-3,.25"] * 8],
        ["\ufeffa,b,c", "1,2,3", "", "# remark", " 4, 5 ,6", "7,8,9\r"],
        ["\ufeff1,2,3", "4,5,6", '"7",8,9', "1,2,3"],
        ["1,2,3", "4,5,6\r7,8,9", "1,2,3", "4,x,6"],
        ["a,b,c\r1,2,3", "4,5,6", "7,8,nan"],
        ["1,2,3", "4,5,6", "7,8", "1,2,3"],
        ["1;2;3", "4;5;1e400"],
        ["1 2 3", "4 5 6"],
        ["# first", "", "a,b,c", "1,2,3", "1_0,2,3"],
        ["1,2,3", "4,\xe9,6"],
    ],
)
@pytest.mark.parametrize("columns", [None, ["3", "1"]])
def test_kernels_read_like_python(monkeypatch, tmp_path, lines, columns, chunk):
    path = tmp_path / "table.csv"
    path.write_bytes("\n".join(lines).encode())
    results = []
    for way in ("file", "stdin", "python"):
        if way == "stdin":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        elif way == "python":
            monkeypatch.setattr(PlainRows, "fill", lambda self, text, begin, block: (0, begin))
        try:
            chunks = list(
                ldmaps.inputs.open_files("-" if way == "stdin" else path, columns=columns, chunk=chunk)
            )
        except InvalidInputError as error:
            results.append(str(error).replace("stdin", str(path)))
        else:
            numbers = np.concatenate([one.numbers for one in chunks]).tolist()
            results.append((np.concatenate([one.frames for one in chunks]).tobytes(), numbers))
    assert results[0] == results[1] == results[2]


@pytest.fixture
def kept(tmp_path):
    """A function that writes an array as .npy and returns its path."""

    def write(rows, name="kept.npy"):
        np.save(tmp_path / name, rows)
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([["a", "b"]]), "holds values of type <U1, but numbers are needed"),
        (np.ones((3, 2), dtype=complex), "holds values of type complex128, but numbers are needed"),
        (np.arange(3.0), r"array of shape \(3,\); \(rows, features\) or \(frames, atoms, 3\) is needed"),
        (np.ones((4, 5, 2)), r"array of shape \(4, 5, 2\); \(rows, features\) or"),
        (np.ones((5, 0)), r"array of shape \(5, 0\), whose rows have no numbers"),
        (np.ones((5, 0, 3)), r"array of shape \(5, 0, 3\), whose rows have no numbers"),
    ],
)
def test_arrays_that_are_no_points(kept, rows, message):
    with pytest.raises(InvalidInputError, match=message):
        open_table(kept(rows), None)


def test_frames_have_no_columns_to_choose(kept):
    table = open_table(kept(np.ones((4, 5, 3))), None)
    with pytest.raises(InvalidInputError, match=r"holds frames of shape \(5, 3\), which have no columns"):
        table.choose(["1"])


def test_rows_are_mapped_only_where_they_need_no_conversion(kept, folder):
    plain = open_table(kept(ROLL), None)
    np.testing.assert_array_equal(plain.mapped(), ROLL)
    assert isinstance(plain.mapped(), np.memmap)
    plain.choose(["1"])
    assert plain.mapped() is None
    assert open_table(kept(np.arange(6).reshape(3, 2)), None).mapped() is None
    assert open_table(str(folder / "roll.npz"), "points").mapped() is None
    assert open_table(str(folder / "roll.csv"), None).mapped() is None


def all_rows(table, chunk=30, **reading):
    parts = list(table.rows(chunk, Reading(**reading)))
    return np.concatenate([part for part, _ in parts]), np.concatenate([rows for _, rows in parts])


@pytest.mark.parametrize("name", ["roll.npy", "roll.csv"])
@pytest.mark.parametrize("chunk", [1, 7, 500])
@pytest.mark.parametrize("wanted", [(0, None, 1), (17, None, 1), (5, 90, 7), (119, None, 3), (3, 5, 200)])
def test_rows_are_those_of_a_slice_and_hold_no_others(folder, name, chunk, wanted):
    start, stop, stride = wanted
    table = open_table(str(folder / name), None)
    numbers, rows = all_rows(table, chunk, start=start, stop=stop, stride=stride)
    np.testing.assert_array_equal(numbers, np.arange(120)[start:stop:stride])
    np.testing.assert_allclose(rows, ROLL[start:stop:stride], rtol=1e-15)
    for _, part in table.rows(chunk, Reading(start=start, stop=stop, stride=stride)):
        owner = part if part.base is None else part.base
        assert owner.nbytes <= max(part.nbytes, chunk * ROLL[0].nbytes)
        assert stride == 1 or owner.nbytes == part.nbytes


def test_archives(folder, tmp_path):
    np.savez(tmp_path / "one.npz", only=ROLL)
    np.testing.assert_array_equal(all_rows(open_table(str(tmp_path / "one.npz"), None))[1], ROLL)
    several = str(folder / "roll.npz")
    with pytest.raises(
        InvalidInputError, match="holds several arrays; choose one of points, other with array"
    ):
        open_table(several, None)
    with pytest.raises(InvalidInputError, match="has no array 'x'; choose one of points, other"):
        open_table(several, "x")
    np.save(tmp_path / "code.npy", np.array([[object()]]), allow_pickle=True)
    with pytest.raises(InvalidInputError, match=r"code\.npy cannot be read as an array \(.*Python objects"):
        open_table(str(tmp_path / "code.npy"), None)


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f8', (", b"  {'a'\n 1", b"{'descr': '<f8'\\\x00}", b"((((("]
)
def test_a_header_that_is_no_python_is_one_line(tmp_path, header):
    path = tmp_path / "spoiled.npy"
    np.save(path, ROLL)
    data = path.read_bytes()
    path.write_bytes(data[:10] + header.ljust(118) + data[128:])
    with pytest.raises(InvalidInputError, match=r"spoiled\.npy cannot be read as an array"):
        open_table(str(path), None)


@pytest.mark.parametrize(
    "damage", ["cut off", "packed bytes", "checksum", "unknown packing", "encrypted", "array"]
)
def test_a_damaged_archive_is_one_line(tmp_path, damage):
    path = tmp_path / "damaged.npz"
    np.savez_compressed(path, only=ROLL)
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    if damage == "cut off":
        del data[300:]
    elif damage == "packed bytes":
        data[60:80] = b"\xff" * 20
    elif damage == "checksum":
        data[directory + 16] ^= 1
    elif damage == "unknown packing":
        data[8] = data[directory + 10] = 77
    elif damage == "encrypted":
        data[6] |= 1
        data[directory + 8] |= 1
    path.write_bytes(data)
    if damage == "array":
        with open(path, "wb") as stream:
            np.save(stream, ROLL)
    with pytest.raises(InvalidInputError, match=r"damaged\.npz cannot be read as an array \(.+\)") as caught:
        open_table(str(path), None)
    assert "\n" not in str(caught.value)


def test_text_without_rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("")
    with pytest.raises(InvalidInputError, match=r"rows\.csv is empty; check how it was written"):
        open_table(str(path), None)
    path.write_text("# only\n\n# remarks\n")
    with pytest.raises(InvalidInputError, match=r"rows\.csv holds no rows; check how it was written"):
        open_table(str(path), None)
    path.write_text("x,y\n")
    with pytest.raises(InvalidInputError, match=r"rows\.csv holds no rows below its header"):
        read_columns(str(path))


def test_columns_of_words_name_the_row_at_fault(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text('name,x\n"a, b",1\nc,2\n')
    columns = read_columns(str(path))
    assert {name: list(values) for name, values in columns.items()} == {
        "name": ["a, b", "c"],
        "x": ["1", "2"],
    }
    path.write_text("name,x\na,1\nb\n")
    with pytest.raises(InvalidInputError, match=r"words\.csv, row 2: 1 columns, but 2 in the header"):
        read_columns(str(path))
    path.write_text('name,x\na,1\n"' + 200_000 * "b" + '",2\n')
    with pytest.raises(InvalidInputError, match=r"words\.csv, row 2: not CSV \(field larger than"):
        read_columns(str(path))


def test_columns_of_arrays(kept):
    named = np.array([(1.0, 2), (3.0, 4)], dtype=[("x", float), ("n", int)])
    for read in (read_columns, partial(read_columns, named=False)):
        columns = read(kept(named))
        assert {name: values.tolist() for name, values in columns.items()} == {"x": [1.0, 3.0], "n": [2, 4]}
    with pytest.raises(
        InvalidInputError, match="has no named columns; give it a .npy that ldmaps embed wrote"
    ):
        read_columns(kept(ROLL))
    by_number = read_columns(kept(ROLL), named=False)
    assert list(by_number) == ["1", "2", "3"]
    np.testing.assert_array_equal(by_number["2"], ROLL[:, 1])
    np.testing.assert_array_equal(read_columns(kept(ROLL[:, 0]), named=False)["1"], ROLL[:, 0])
    with pytest.raises(
        InvalidInputError, match=r"shape \(2, 2, 3\); \(rows,\) or \(rows, columns\) is needed"
    ):
        read_columns(kept(np.ones((2, 2, 3))), named=False)


@pytest.fixture
def parquet(tmp_path):
    """A function that writes columns as row groups of 50 and returns the path."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow writes Parquet")
    from pyarrow.parquet import write_table

    def write(**columns):
        write_table(pyarrow.table(columns), tmp_path / "table.parquet", row_group_size=50)
        return str(tmp_path / "table.parquet")

    return write


def test_parquet_is_read_from_the_row_group_asked_for(parquet):
    path = parquet(x=ROLL[:, 0], y=ROLL[:, 1], n=np.arange(120))
    table = open_table(path, None)
    assert (table.columns, table.n_rows, table.shape) == (["x", "y", "n"], 120, (3,))
    numbers, rows = all_rows(table, start=70)
    np.testing.assert_array_equal(numbers, np.arange(70, 120))
    np.testing.assert_array_equal(rows, np.column_stack([ROLL[70:, :2], np.arange(70, 120)]))
    assert list(table.rows(30, Reading(start=120))) == []
    np.testing.assert_array_equal(read_numbers(path, "y"), ROLL[:, 1])
    for read in (read_columns, partial(read_columns, named=False)):
        np.testing.assert_array_equal(read(path)["n"], np.arange(120))


def test_what_is_wrong_with_parquet_is_named(parquet, tmp_path):
    values = [float(row) for row in range(120)]
    path = parquet(x=values, y=[None if row in (70, 90) else row for row in values])
    with pytest.raises(InvalidInputError, match=r"table\.parquet: row 70 \(column 2\) holds NaN"):
        ldmaps.inputs.open_files(path).read()
    table = open_table(parquet(x=values, word=["w"] * 120), None)
    with pytest.raises(
        InvalidInputError, match=r"column 'word': string is not a number; leave it out with columns"
    ):
        all_rows(table)
    table.choose(["x"])
    np.testing.assert_array_equal(all_rows(table)[1][:, 0], values)
    (tmp_path / "other.parquet").write_text("no table at all, and long enough to have a footer")
    with pytest.raises(InvalidInputError, match=r"other\.parquet is not a Parquet file \(.+\)"):
        open_table(str(tmp_path / "other.parquet"), None)


def test_zarr_groups_name_their_arrays(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr writes the store")
    store = str(tmp_path / "points.zarr")
    group = zarr.open_group(store, mode="w")
    group.create_array("roll", shape=ROLL.shape, dtype=ROLL.dtype)[:] = ROLL
    np.testing.assert_array_equal(all_rows(open_table(store, "roll"))[1], ROLL)
    with pytest.raises(InvalidInputError, match="holds a group of arrays; choose one of roll with array"):
        open_table(store, None)


@pytest.mark.parametrize(
    ("module", "name", "remedy"),
    [
        (
            "pyarrow",
            "table.parquet",
            "is read with pyarrow, which cannot be imported .*; pip install pyarrow",
        ),
        (
            "zarr",
            "points.zarr",
            r"is read with zarr, which cannot be imported .*; pip install zarr",
        ),
    ],
)
def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch, module, name, remedy):
    (tmp_path / name).write_text("whatever is in it")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInputError, match=remedy):
        open_table(str(tmp_path / name), None)
