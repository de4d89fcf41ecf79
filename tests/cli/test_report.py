"""``ldmaps report``: from a model file, and a table, to a page."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from ldmaps.cli import main
from ldmaps.datasets import swiss_roll

ROLL = swiss_roll(300, random_state=0).points


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])


def data_of(path) -> dict:
    text = path.read_text(encoding="utf-8")
    return json.loads(text.split('id="report-data">')[1].split("</script>")[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    np.savetxt(folder / "roll.csv", ROLL, delimiter=",", header="x,y,z", comments="")
    assert (
        run(
            "fit",
            folder / "roll.csv",
            "--epsilon",
            9,
            "-m",
            60,
            "--n-components",
            2,
            "-o",
            folder / "roll.ldm",
        )
        == 0
    )
    return folder


@pytest.fixture
def page(tmp_path):
    return tmp_path / "page.html"


def test_a_model_becomes_a_page(folder, page, capsys):
    assert run("report", folder / "roll.ldm", "-o", page, "--title", "A roll") == 0
    assert "page.html" in capsys.readouterr().err
    text = page.read_text(encoding="utf-8")
    assert "<h1>A roll</h1>" in text
    assert data_of(page)["n"] == 300
    assert [entry["key"] for entry in data_of(page)["fields"]] == ["frame", "distance", "uncertainty"]


def test_existing_pages_are_kept(folder, page, capsys):
    page.write_text("mine")
    assert run("report", folder / "roll.ldm", "-o", page) == 1
    assert "--force" in capsys.readouterr().err
    assert page.read_text() == "mine"
    assert run("report", folder / "roll.ldm", "-o", page, "--force", "--quiet", "--json") == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == page.stat().st_size


@pytest.mark.parametrize("suffix", ["csv", "tsv", "npy", "parquet"])
def test_what_embed_wrote_is_shown(folder, page, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    table = tmp_path / f"psi.{suffix}"
    assert run("embed", folder / "roll.ldm", folder / "roll.csv", "-o", table, "--stride", 3) == 0
    assert run("report", folder / "roll.ldm", "-o", page, "--data", table) == 0
    data = data_of(page)
    assert data["n"] == 100
    assert [entry["label"] for entry in data["fields"]] == [
        "Row",
        "Distance to nearest landmark",
        "Uncertainty by resampling",
        "inside",
    ]
    assert data["files"] == [str(folder / "roll.csv")]
    assert data["fields"][0]["values"] == {"type": "linear", "start": 0.0, "step": 3.0, "n": 100}


def test_columns_colour_the_training_points(folder, page, tmp_path):
    np.savetxt(tmp_path / "extra.csv", ROLL[:, :1], header="across", comments="")
    assert run("report", folder / "roll.ldm", "-o", page, "--data", tmp_path / "extra.csv") == 0
    assert data_of(page)["fields"][-1]["label"] == "across"


def test_frames_times_and_structures_of_a_trajectory(files, page, tmp_path):
    select = "not element H"
    model = tmp_path / "map.ldm"
    assert (
        run(
            "fit",
            files["xtc"],
            "-t",
            files["top"],
            "--select",
            select,
            "-m",
            40,
            "--n-components",
            2,
            "-o",
            model,
        )
        == 0
    )
    assert run("report", model, "-o", page) == 0
    data = data_of(page)
    assert [entry["key"] for entry in data["fields"]] == ["frame", "time", "distance", "uncertainty", "basin"]
    assert data["structures"]["atoms"] == 10
    assert sorted(data["structures"]["elements"]) == sorted("CCCCCCNNOO")
    assert data["landmarks"]["time"] is not None


def test_errors_are_estimated_from_the_data_fitted_on(folder, page, tmp_path, capsys):
    assert run("report", folder / "roll.ldm", "-o", page, "--errors", folder / "roll.csv") == 0
    assert "error" in [entry["key"] for entry in data_of(page)["fields"]]
    assert "Estimated error" in page.read_text(encoding="utf-8")
    capsys.readouterr()
    other = tmp_path / "other.html"
    assert (
        run("report", folder / "roll.ldm", "-o", other, "--errors", folder / "roll.csv", "--stride", 2) == 1
    )
    assert "gives 150 points, but the map was fitted on 300" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("a\n1\n2\n", "row for each of the map's 300 training points, but it has 2"),
        ("psi2\n1\n", "lacks the column psi3"),
        ("psi2,psi3\n1,x\n", "column 'psi3', row 1: 'x' is not a number"),
        ("psi2,psi3,nearest\n1,2,999\n", "names landmark 999, but the map has 60"),
        ("psi2,psi3\n1,2,3\n", "3 columns, but 2 in the header"),
        ("psi2,psi3\n", "no rows"),
        ("", "is empty"),
    ],
)
def test_bad_tables_are_explained(folder, page, tmp_path, capsys, table, message):
    (tmp_path / "bad.csv").write_text(table)
    assert run("report", folder / "roll.ldm", "-o", page, "--data", tmp_path / "bad.csv") == 1
    words = capsys.readouterr().err
    assert message in words
    assert len(words.strip().splitlines()) == 1
    assert not page.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "-"), "cannot go to stdout"),
        (("-o", "page.html", "--data", "nowhere.csv"), "there is no table nowhere.csv"),
        (("-o", "page.html", "--data", "psi.xyz"), "must end in .csv"),
    ],
)
def test_bad_calls_are_explained(folder, capsys, arguments, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run("report", folder / "roll.ldm", *arguments) == 1
    assert message in capsys.readouterr().err


def test_a_page_is_html_by_its_name(folder, tmp_path, capsys):
    for name in ("page.pdf", "page.png", "page"):
        assert run("report", folder / "roll.ldm", "-o", tmp_path / name) == 1
        assert "its name should end in .html" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_rows_of_another_map_are_refused(folder, tmp_path, page, capsys):
    other = ("fit", folder / "roll.csv", "--epsilon", 6, "-m", 60, "--n-components", 2, "--random-state", 5)
    assert run(*other, "-o", tmp_path / "other.ldm") == 0
    for name, model in (("own", folder / "roll.ldm"), ("other", tmp_path / "other.ldm")):
        assert run("embed", model, folder / "roll.csv", "-o", tmp_path / f"{name}.csv") == 0
    assert run("report", folder / "roll.ldm", "--data", tmp_path / "own.csv", "-o", page) == 0
    page.unlink()
    capsys.readouterr()
    assert run("report", folder / "roll.ldm", "--data", tmp_path / "other.csv", "-o", page) == 1
    assert "other.csv belong to another map" in capsys.readouterr().err


def test_text_in_a_table_is_a_colour(folder, tmp_path, page):
    rows = "".join(f"{'up' if i % 3 else 'down'},{i}\n" for i in range(300))
    (tmp_path / "own.csv").write_text("state,score\n" + rows)
    assert run("report", folder / "roll.ldm", "--data", tmp_path / "own.csv", "-o", page) == 0
    fields = {entry["label"]: entry for entry in data_of(page)["fields"]}
    assert fields["state"]["texts"] == ["down", "up"]
    assert fields["score"]["texts"] == []


@pytest.mark.parametrize("placed", [False, True])
def test_empty_cells_in_a_table_are_no_colour(folder, tmp_path, page, placed):
    scores = ["score", *("" if i in (0, 7, 299) else f"{i % 5}" for i in range(300))]
    if placed:
        assert run("embed", folder / "roll.ldm", folder / "roll.csv", "-o", tmp_path / "psi.csv") == 0
        lines = (tmp_path / "psi.csv").read_text().splitlines()
    else:
        lines = ["x", *(str(i) for i in range(300))]
    text = "".join(f"{line},{score}\n" for line, score in zip(lines, scores, strict=True))
    (tmp_path / "own.csv").write_text(text)
    assert run("report", folder / "roll.ldm", "--data", tmp_path / "own.csv", "-o", page) == 0
    score = next(entry for entry in data_of(page)["fields"] if entry["label"] == "score")
    values = np.frombuffer(base64.b64decode(score["values"]["data"]), "<f4")
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(values)), [0, 7, 299])
    np.testing.assert_array_equal(values[1:7], [1, 2, 3, 4, 0, 1])
