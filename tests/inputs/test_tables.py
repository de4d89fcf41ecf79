"""Tables are as good a source of points as trajectories and arrays."""

from __future__ import annotations

import io

import numpy as np
import pytest

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap, load
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError
from ldmaps.inputs import FrameChunk, PointSource
from ldmaps.inputs.text_columns import TextColumns, UnreadableError
from ldmaps.progress import Progress, reporting
from ldmaps.streaming import StreamEmbedder

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
    source = ldmaps.inputs.open(folder / name, chunk=11, **settings)
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
        ldmaps.inputs.open([folder / "roll.npy", folder / "roll.csv"], stride=2, start=20, stop=100)
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
    model = fitted(ldmaps.inputs.open(folder / "roll.csv"))
    with pytest.raises(
        InvalidInputError, match=r"fitted on the columns x, y, z, but .*other\.csv has z, y, x"
    ):
        model.transform(ldmaps.inputs.open(folder / "other.csv"))
    other = ldmaps.inputs.open(folder / "other.csv", model_facts=model.source_)
    assert other.columns == ["x", "y", "z"]
    np.testing.assert_allclose(model.transform(other), model.embedding_, rtol=1e-12)
    # Tables without names are taken as they stand.
    plain = ldmaps.inputs.open(folder / "roll.npy", model_facts=model.source_)
    np.testing.assert_allclose(model.transform(plain), model.embedding_, rtol=1e-12)


def test_several_tables_have_the_same_columns(folder):
    with pytest.raises(InvalidInputError, match=r"has the columns z, y, x, but .*roll\.csv has x, y, z"):
        ldmaps.inputs.open([folder / "roll.csv", folder / "other.csv"])
    both = ldmaps.inputs.open([folder / "roll.csv", folder / "other.csv"], columns=["x", "y", "z"]).read()
    np.testing.assert_array_equal(both.frames, np.concatenate([ROLL, ROLL]))


def test_settings_of_the_other_kind_are_refused(folder, files):
    for name in ("top", "select"):
        with pytest.raises(InvalidInputError, match=rf"{name} \(--{name}\) chooses atoms of trajectories"):
            ldmaps.inputs.open(folder / "roll.csv", **{name: "all"})
    for name in ("columns", "array"):
        with pytest.raises(InvalidInputError, match=rf"{name} \(--{name}\) chooses columns of tables"):
            ldmaps.inputs.open(files["h5"], **{name: "x"})
    with pytest.raises(InvalidInputError, match="is a table and .* a trajectory; give inputs of one kind"):
        ldmaps.inputs.open([folder / "roll.csv", files["h5"]])


def test_nan_is_named_with_its_file(tmp_path):
    points = ROLL.copy()
    points[17, 1] = np.nan
    np.save(tmp_path / "bad.npy", points)
    with pytest.raises(InvalidInputError, match=r"bad\.npy: row 17 \(column 2\) holds NaN"):
        fitted(ldmaps.inputs.open(tmp_path / "bad.npy"))


@pytest.mark.parametrize("separator", [",", " "])
def test_ragged_lines_are_found_beyond_the_columns_taken(tmp_path, separator):
    text = "x,y,z\n1,2,3\n4,5,6,7\n8,9,10\n".replace(",", separator)
    (tmp_path / "ragged.csv").write_text(text)
    with pytest.raises(InvalidInputError, match="line 3: 4 columns, but 3 in the lines before"):
        ldmaps.inputs.open(tmp_path / "ragged.csv", columns=["x", "y"]).read()


def test_streams_take_table_sources(folder):
    model = fitted(ldmaps.inputs.open(folder / "roll.csv"))
    source = ldmaps.inputs.open(folder / "roll.csv", chunk=7)
    parts = [embedded.coordinates for embedded in StreamEmbedder(model).stream(source)]
    np.testing.assert_allclose(np.concatenate(parts), model.embedding_, rtol=1e-12)


@pytest.mark.parametrize(
    ("line", "block", "reason"),
    [
        ('1,"2"', [1.0, 2.0], None),
        (" 1 , 2 ", [1.0, 2.0], None),
        ("1,2,3", None, None),
        ('1,"2', None, None),
        ("1_0,2", None, "column 1 (a): '1_0' is not a number"),
        ("٣,2", None, "column 1 (a): '٣' is not a number"),
        (",2", None, "column 1 (a): the cell is empty"),
    ],
)
def test_many_lines_and_one_are_judged_alike(line, block, reason):
    columns = TextColumns.of("a,b")
    lines = ["5,6", line, "7,8"]
    if block is None:
        with pytest.raises(ValueError, match="length|quote|could not convert"):
            columns.block(lines, None)
    else:
        np.testing.assert_array_equal(columns.block(lines, None), [[5, 6], block, [7, 8]])
        assert [columns.number(columns.cells(line), place) for place in (0, 1)] == block
    if reason is not None:
        with pytest.raises(UnreadableError) as caught:
            columns.number(columns.cells(line), 0)
        assert str(caught.value) == reason


def test_points_are_counted_beforehand_only_if_somebody_sees_the_bar(folder, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("ldmaps.progress.REDRAW", 0.0)
    source = ldmaps.inputs.open(folder / "roll.npy", chunk=30)
    screen = Terminal()
    with reporting(Progress(stream=screen)):
        source.read()
    assert "25 %  30 rows" in screen.getvalue()
    monkeypatch.setattr(type(source), "n_frames", property(lambda self: 1 / 0))
    assert len(source.read()) == len(ROLL)


def test_a_quote_does_not_reach_over_lines():
    with pytest.raises(ValueError, match="a quote spans lines"):
        TextColumns.of("a,b").block(["5,6", '1,"2', '3",8'], [0])


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
def test_compiled_loops_read_like_python(monkeypatch, tmp_path, lines, columns, chunk):
    path = tmp_path / "table.csv"
    path.write_bytes("\n".join(lines).encode())
    results = []
    for many, as_text in ((10**9, False), (0, False), (10**9, True)):
        monkeypatch.setattr("ldmaps.inputs.tables.MANY_ROWS", many)
        if as_text:  # line by line, as stdin is read
            monkeypatch.setattr("ldmaps.inputs.tables._has_lone_returns", lambda raw: True)
        try:
            chunks = list(ldmaps.inputs.open(path, columns=columns, chunk=chunk))
        except InvalidInputError as error:
            results.append(str(error))
        else:
            numbers = np.concatenate([one.numbers for one in chunks]).tolist()
            results.append((np.concatenate([one.frames for one in chunks]).tobytes(), numbers))
    assert results[0] == results[1] == results[2]
