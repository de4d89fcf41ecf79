"""The commands, called in this process: inputs of all kinds, outputs of all kinds, and clear words about bad ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
from written_trajectories import STRIDE

import ldmaps
from ldmaps.archive import read_archive, write_archive
from ldmaps.cli import main
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD

MOLECULE = alanine_dipeptide(stride=STRIDE)
ROLL = swiss_roll(300, random_state=0).points
COLUMNS = ["file", "frame", "time", "psi2", "psi3", "distance", "inside", "nearest", "p"]


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def molecule_map(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "map.ldm"
    status = run(
        "fit",
        files["xtc"],
        "-t",
        files["top"],
        "--select",
        "not element H",
        "-m",
        40,
        "--n-components",
        2,
        "-o",
        path,
    )
    assert status == 0
    return path


@pytest.fixture(scope="module")
def roll_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roll")
    np.save(folder / "roll.npy", ROLL)
    np.savez(folder / "roll.npz", points=ROLL, other=np.zeros(3))
    np.savetxt(folder / "roll.csv", ROLL, delimiter=",", header="x,y,z", comments="")
    np.savetxt(folder / "roll.tsv", ROLL, delimiter="\t")
    np.savetxt(folder / "roll.txt", ROLL)
    return folder


@pytest.fixture(scope="module")
def roll_map(roll_files, tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "roll.ldm"
    assert run("fit", roll_files / "roll.csv", "--epsilon", 9, "-m", 60, "--n-components", 2, "-o", path) == 0
    return path


def read_csv(path):
    import csv

    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    return rows, np.array([[float(row["psi2"]), float(row["psi3"])] for row in rows])


# -- what works ------------------------------------------------------------------


def test_fit_stores_atoms_units_and_selection(molecule_map):
    model = ldmaps.load(molecule_map)
    assert model.units_ == "nm"
    assert model.source_["n_atoms"] == 10
    assert model.source_["n_points"] == len(MOLECULE)
    assert model.embedder_.n_landmarks == 40


def test_fit_stores_which_file_each_frame_is_from(files, tmp_path):
    output = tmp_path / "map.ldm"
    inputs = [files["xtc"], files["h5"], files["xtc"].parent / "traj.d*"]
    assert run("fit", *inputs, "-t", files["top"], "--stop", 20, "-m", 30, "-o", output) == 0
    model = ldmaps.load(output)
    assert model.source_["files"] == [str(files[name]) for name in ("xtc", "h5", "dcd")]
    np.testing.assert_array_equal(model.training_.files, np.repeat([0, 1, 2], 20))
    np.testing.assert_array_equal(model.training_.frames, [*range(20)] * 3)


@pytest.mark.parametrize("extension", ["csv", "tsv", "npy", "parquet"])
@pytest.mark.parametrize("chunk", [9, 10_000])
def test_embed_writes_what_transform_returns(molecule_map, files, tmp_path, extension, chunk):
    output = tmp_path / f"psi.{extension}"
    if extension == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    # The model remembers the selection.
    assert (
        run("embed", molecule_map, files["xtc"], files["dcd"], "-t", files["top"], "-c", chunk, "-o", output)
        == 0
    )
    if extension == "npy":
        table = np.load(output)
        assert list(table.dtype.names) == COLUMNS
        columns = {name: table[name] for name in COLUMNS}
    else:
        import pandas as pd

        frame = (
            pd.read_parquet(output)
            if extension == "parquet"
            else pd.read_csv(output, sep=None, engine="python")
        )
        assert list(frame.columns) == COLUMNS
        columns = {name: frame[name].to_numpy() for name in COLUMNS}
    n = len(MOLECULE)
    source = ldmaps.inputs.open_files([files["xtc"], files["dcd"]], top=files["top"], select="not element H")
    model = ldmaps.load(molecule_map)
    expected = model.transform(source)
    coverage = model.coverage(source)
    np.testing.assert_allclose(np.column_stack([columns["psi2"], columns["psi3"]]), expected, atol=1e-6)
    np.testing.assert_array_equal(columns["frame"], [*range(n), *range(n)])
    np.testing.assert_allclose(np.asarray(columns["time"][:n], dtype=float), MOLECULE.times, rtol=1e-6)
    assert np.isnan(np.asarray(columns["time"][n:], dtype=float)).all()
    assert list(columns["file"]) == [str(files["xtc"])] * n + [str(files["dcd"])] * n
    np.testing.assert_allclose(np.asarray(columns["distance"], dtype=float), coverage.distance, atol=1e-3)
    np.testing.assert_array_equal(np.asarray(columns["inside"]).astype(bool), coverage.inside)
    np.testing.assert_array_equal(columns["nearest"], coverage.nearest)


@pytest.mark.parametrize("name", ["roll.csv", "roll.npy", "roll.tsv", "roll.txt"])
def test_tables_of_all_kinds_give_the_same_map(roll_map, roll_files, tmp_path, name):
    model = ldmaps.load(roll_map)
    output = tmp_path / "psi.csv"
    assert run("embed", roll_map, roll_files / name, "--start", 10, "--stride", 3, "-c", 7, "-o", output) == 0
    rows, coordinates = read_csv(output)
    np.testing.assert_allclose(coordinates, model.embedding_[10::3], rtol=1e-9, atol=1e-12)
    assert [int(row["frame"]) for row in rows] == list(range(10, 300, 3))
    assert rows[0]["time"] == ""


def test_npz_and_parquet_tables(roll_map, roll_files, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pd.DataFrame(ROLL, columns=["x", "y", "z"]).assign(id="a").to_parquet(tmp_path / "roll.parquet")
    expected = ldmaps.load(roll_map).embedding_
    for number, inputs in enumerate(
        ([roll_files / "roll.npz", "--array", "points"], [tmp_path / "roll.parquet"])
    ):
        output = tmp_path / f"psi{number}.csv"
        # Columns of a table with names are found by name, so others may stand beside them.
        assert run("embed", roll_map, *inputs, "-o", output) == 0
        np.testing.assert_allclose(read_csv(output)[1], expected, rtol=1e-9, atol=1e-12)


def test_columns_may_be_chosen_by_name_or_number(roll_files, tmp_path):
    for number, columns in enumerate(("x,z", "1,3")):
        arguments = ["--columns", columns, "--epsilon", 9, "--n-components", 2, "-m", 30]
        assert run("fit", roll_files / "roll.csv", *arguments, "-o", tmp_path / f"{number}.ldm") == 0
    first, second = (ldmaps.load(tmp_path / f"{number}.ldm") for number in (0, 1))
    assert first.source_["columns"] == ["x", "z"]
    np.testing.assert_array_equal(first.embedding_, second.embedding_)


def test_frames_as_an_array(files, tmp_path):
    np.save(tmp_path / "frames.npy", MOLECULE.frames)
    assert run("fit", tmp_path / "frames.npy", "-m", 30, "--n-components", 2, "-o", tmp_path / "map.ldm") == 0
    model = ldmaps.load(tmp_path / "map.ldm")
    assert isinstance(model.metric_, RMSD)
    # A trajectory of as many atoms goes with it, since nothing is known of names.
    assert (
        run("embed", tmp_path / "map.ldm", files["trr"], "-t", files["top"], "-o", tmp_path / "psi.csv") == 0
    )
    np.testing.assert_allclose(read_csv(tmp_path / "psi.csv")[1], model.embedding_, atol=1e-5)


def test_mass_weights_come_from_the_topology(files, tmp_path):
    arguments = [
        "-t",
        files["top"],
        "--mass-weighted",
        "--landmarks",
        "uniform",
        "-m",
        30,
        "-o",
        tmp_path / "map.ldm",
    ]
    assert run("fit", files["h5"], *arguments) == 0
    np.testing.assert_allclose(ldmaps.load(tmp_path / "map.ldm").metric_.weights, MOLECULE.masses, atol=0.01)


def test_the_seed_decides(roll_files, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        options = [
            "--landmarks",
            "uniform",
            "-m",
            40,
            "--epsilon",
            16,
            "--n-components",
            2,
            "--random-state",
            seed,
        ]
        assert run("fit", roll_files / "roll.npy", *options, "-o", tmp_path / f"{name}.ldm") == 0
    a, b, c = (ldmaps.load(tmp_path / f"{name}.ldm").landmark_indices_ for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_json_summaries(roll_files, roll_map, tmp_path, capsys):
    output = tmp_path / "map.ldm"
    assert run("fit", roll_files / "roll.csv", "--epsilon", 9, "-m", 60, "--json", "-o", output) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["n_landmarks"] == 60
    assert facts["source"]["columns"] == ["x", "y", "z"]
    assert run("embed", roll_map, roll_files / "roll.csv", "--json", "-o", tmp_path / "psi.csv") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 300
    assert run("info", roll_map, "--json") == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == 9.0


def test_info_is_readable(molecule_map, capsys):
    assert run("info", molecule_map) == 0
    text = capsys.readouterr().out
    for part in (
        "rmsd",
        "nm² (bulk)",
        "40 (kmedoids)",
        "selected by 'not element H'",
        "ACE1-CH3",
        "101",
    ):
        assert part in text


def test_stdout_carries_data_only(molecule_map, files, capsys):
    assert run("embed", molecule_map, files["trr"], "-t", files["top"], "--stop", 3, "-o", "-") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 4
    assert captured.out.startswith(",".join(COLUMNS))
    assert captured.err == ""


def test_quiet(roll_map, roll_files, tmp_path, capsys):
    assert run("embed", roll_map, roll_files / "roll.csv", "-q", "-o", tmp_path / "psi.csv") == 0
    assert capsys.readouterr() == ("", "")


# -- what is refused -----------------------------------------------------------------


def complaint(capsys, *arguments) -> str:
    capsys.readouterr()
    assert run(*arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ldmaps: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_existing_outputs_need_force(roll_map, roll_files, tmp_path, capsys):
    output = tmp_path / "psi.csv"
    output.write_text("precious")
    arguments = ["embed", roll_map, roll_files / "roll.csv", "-o", output]
    assert "overwrite it with --force" in complaint(capsys, *arguments)
    assert output.read_text() == "precious"
    assert run(*arguments, "--force") == 0
    assert output.read_text().startswith("file,frame")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,y\n1,2\n3,four\n5,6\n", "line 3, column 2 (y): 'four' is not a number"),
        ("x,y\n1,2\n\n3,\n5,6\n", "line 4, column 2 (y): the cell is empty"),
        ("x,y\n1,2\n3,nan\n5,6\n", "line 3, column 2 (y): 'nan' is no value"),
        ("1,2\n3,4,5\n5,6\n", "line 2: 3 columns, but 2 in the lines before"),
        ("x,y\n", "has no rows of data"),
        ("", "is empty"),
    ],
    ids=["word", "empty cell", "nan", "ragged", "header only", "empty file"],
)
def test_bad_cells_are_named(text, words, tmp_path, capsys):
    (tmp_path / "bad.csv").write_text(text)
    assert words in complaint(capsys, "fit", tmp_path / "bad.csv", "-o", tmp_path / "map.ldm")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv"]


def test_nan_in_an_array_is_named(roll_map, tmp_path, capsys):
    points = ROLL.copy()
    points[17, 1] = np.nan
    np.save(tmp_path / "bad.npy", points)
    arguments = [tmp_path / "bad.npy", "-o", tmp_path / "psi.csv"]
    assert "row 17 (column 2) holds NaN" in complaint(capsys, "embed", roll_map, *arguments)
    assert "row 17 (column 2) holds NaN" in complaint(capsys, "fit", *arguments)
    assert not (tmp_path / "psi.csv").exists()


def test_a_parquet_that_cannot_be_finished_is_dropped_quietly(roll_map, tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    np.save(tmp_path / "bad.npy", np.where(np.arange(300)[:, None] == 17, np.nan, ROLL))
    arguments = [tmp_path / "bad.npy", "-c", 10, "-o", tmp_path / "psi.parquet"]
    assert "row 17 (column 1) holds NaN" in complaint(capsys, "embed", roll_map, *arguments)
    assert not (tmp_path / "psi.parquet").exists()


def test_trajectory_troubles(molecule_map, files, tmp_path, capsys):
    output = ["-o", tmp_path / "psi.csv"]
    top = ["-t", files["top"]]
    embed = ["embed", molecule_map]
    assert "with -t top.pdb" in complaint(capsys, *embed, files["xtc"], *output)
    assert "there is no file" in complaint(capsys, *embed, tmp_path / "none.xtc", *top, *output)
    assert "matches none of the 22 atoms" in complaint(
        capsys, *embed, files["xtc"], *top, *output, "--select", "water"
    )
    assert "selection language" in complaint(
        capsys, *embed, files["xtc"], *top, *output, "--select", "name ("
    )
    assert "22 atoms, but the map takes 10" in complaint(
        capsys, *embed, files["xtc"], *top, *output, "--select", "all"
    )
    other = complaint(capsys, *embed, files["xtc"], *top, *output, "--select", "index < 10")
    assert "choose the same atoms in the same order" in other
    # Other atoms, and none of their frames on the map.
    assert run(*embed, files["xtc"], *top, *output, "--select", "index < 10", "--ignore-names") == 5
    data = files["xtc"].read_bytes()
    (tmp_path / "cut.xtc").write_bytes(data[: len(data) // 2])
    output = ["-o", tmp_path / "cut.csv"]
    assert "is cut off or damaged" in complaint(capsys, *embed, tmp_path / "cut.xtc", *top, *output)
    assert not (tmp_path / "cut.csv").exists()


def test_wrong_kinds_of_input(roll_map, roll_files, files, tmp_path, capsys):
    output = ["-o", tmp_path / "out.csv"]
    mixed = complaint(capsys, "fit", roll_files / "roll.csv", files["xtc"], *output)
    assert "give inputs of one kind" in mixed
    assert "--select applies to trajectories" in complaint(
        capsys, "fit", roll_files / "roll.csv", "--select", "all", *output
    )
    assert "choose one of points, other with --array" in complaint(
        capsys, "fit", roll_files / "roll.npz", *output
    )
    assert "has no column 'w'" in complaint(capsys, "fit", roll_files / "roll.csv", "--columns", "w", *output)
    fit = ["fit", files["xtc"], "-t", files["top"], *output]
    assert "compares rows of numbers" in complaint(capsys, *fit, "--metric", "euclidean")
    np.save(tmp_path / "wide.npy", np.zeros((5, 4)))
    assert "has 4 columns, but the map takes 3" in complaint(
        capsys, "embed", roll_map, tmp_path / "wide.npy", *output
    )
    unknown = complaint(capsys, "embed", roll_map, roll_files / "roll.csv", "-o", tmp_path / "out.xlsx")
    assert "must end in one of .csv" in unknown
    assert "there is no directory" in complaint(
        capsys, "embed", roll_map, roll_files / "roll.csv", "-o", tmp_path / "no" / "out.csv"
    )


def test_model_files_of_another_kind(roll_map, tmp_path, capsys):
    import zipfile

    newer = tmp_path / "newer.ldm"
    with zipfile.ZipFile(roll_map) as old, zipfile.ZipFile(newer, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "header.json":
                header = json.loads(data)
                header["format_version"] = [99, 0]
                data = json.dumps(header).encode()
            new.writestr(name, data)
    assert "upgrade ldmaps" in complaint(capsys, "info", newer)
    (tmp_path / "text.ldm").write_text("no model")
    assert "is not an ldmaps file" in complaint(capsys, "info", tmp_path / "text.ldm")
    assert "there is no model file" in complaint(capsys, "info", tmp_path / "none.ldm")


def test_debug_shows_the_traceback(tmp_path):
    with pytest.raises(FileNotFoundError):
        run("info", tmp_path / "none.ldm", "--debug")


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["fit"],
        ["fit", "a.xtc"],
        ["fit", "a.xtc", "-o", "b", "--epsilon", "-1"],
        ["info", "a", "--wings"],
    ],
)
def test_usage_errors_are_2(arguments, capsys):
    assert run(*arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert "error: " in said[0]
    assert said[-1].startswith("see ldmaps")


@pytest.mark.filterwarnings("always::ldmaps.errors.OutlierWarning")
def test_a_bad_row_is_named_and_can_be_dropped(tmp_path, capsys):
    rows = np.column_stack([np.linspace(0, 10, 100), np.zeros(100)])
    np.savetxt(tmp_path / "rows.csv", np.concatenate([rows, [[5.0, 200.0]]]), delimiter=",")
    fit = ("fit", tmp_path / "rows.csv", "--n-components", 1, "--epsilon", "connected")
    assert run(*fit, "-o", tmp_path / "ruined.ldm") == 0
    assert "psi2 is supported by only 1.0 of 101 points, mostly row 100 of" in capsys.readouterr().err
    assert run(*fit, "--outliers", 0.01, "-o", tmp_path / "mended.ldm", "--json") == 0
    captured = capsys.readouterr()
    assert "carried" not in captured.err
    facts = json.loads(captured.out)
    assert facts["left_out"] == [100]
    assert facts["participation"][0] > 30


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_terminal_escapes_of_a_file_are_not_obeyed(roll_map, tmp_path, capsys, form):
    header, arrays = read_archive(roll_map)
    nasty = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt\nmodel       trusted"
    header |= {"units": nasty, "source": {"kind": "table", "columns": [nasty] * 3, "files": [nasty]}}
    path = tmp_path / "nasty.ldm"
    write_archive(path, header, arrays)
    assert run("info", path, *form) == 0
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert "owned" in out
    assert not [line for line in out.splitlines() if line.startswith("model       trusted")]
    if form:
        assert json.loads(out)["units"] == nasty
    assert run("info", nasty) == 1
    assert capsys.readouterr().err.replace("\n", "").isprintable()
    assert run("info", path, f"--{nasty}") == 2
    assert capsys.readouterr().err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"kind": "frames"}},
        {"source": {"kind": "frames", "n_atoms": 2, "atom_names": ["CA"]}},
        {"source": {"kind": "frames", "n_atoms": 2, "bonds": [[0, 2]]}},
        {"source": {"kind": "table", "columns": "abc"}},
        {"source": {"files": [1]}},
        {"settings": {"alpha": "1"}},
        {"settings": {"diffusion_time": -1.0}},
        {"library_version": None},
        {"epsilon": 1e-320},
        {"epsilon": 1e-250},
        {"epsilon": 1e250},
        {"epsilon": 10**400},
    ],
    ids=str,
)
def test_headers_that_would_break_a_command_are_refused(roll_map, tmp_path, capsys, change):
    header, arrays = read_archive(roll_map)
    write_archive(tmp_path / "odd.ldm", {**header, **change}, arrays)
    assert run("info", tmp_path / "odd.ldm") == 1
    assert "the file is damaged" in capsys.readouterr().err
