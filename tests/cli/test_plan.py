"""``ldmaps plan`` predicts what a fit would cost, from files or from two numbers."""

from __future__ import annotations

import json
from functools import wraps

import numpy as np
import pytest

from ldmaps.cli import main
from ldmaps.maps import planning
from ldmaps.metrics import RMSD


@pytest.fixture
def asked(monkeypatch):
    """What the library is asked for, with an answer that costs nothing."""
    calls = []

    def plan(*arguments, **settings):
        calls.append((arguments, settings))
        return planning.Plan(
            arguments[0], 60, 0, 3e8, 1.0, 1e-6, 1e-7, 1e-6, {"landmarks": 1.0}, {"landmarks": 3e8}
        )

    monkeypatch.setattr(planning, "plan", wraps(planning.plan)(plan))
    return calls


def test_prints_a_sentence(capsys):
    assert main(["plan", "5000", "3", "-m", "100"]) == 0
    assert "fit of 5,000 points to 100 landmarks" in capsys.readouterr().out


def test_json_holds_the_figures(capsys):
    assert main(["plan", "5000", "22", "--metric", "rmsd", "-m", "100", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert cost["n_points"] == 5000
    assert cost["reference_points"] == 0
    assert cost["fit_seconds"] == pytest.approx(sum(cost["steps"].values()))
    assert cost["peak_bytes"] == max(cost["memory"].values()) > 3e8
    assert cost["remedies"] == []


def test_takes_the_options_of_fit(asked):
    assert main(["plan", "5000", "22", "--metric", "rmsd", "--epsilon", "0.25", "--components", "3"]) == 0
    options = [
        "--drop-outliers",
        "0.02",
        "--tolerance",
        "2",
        "--extension",
        "nystrom",
        "--landmarks",
        "farthest",
        "--threads",
        "1",
    ]
    assert main(["plan", "5000", "22", "--stride", "3", *options]) == 0
    (first, settings), (second, others) = asked
    assert first == (5000, 22, "rmsd", None)
    assert second == (1667, 22, "euclidean", None)
    assert (settings["epsilon"], settings["n_components"], settings["dtype"]) == (0.25, 3, "float32")
    assert (settings["landmarks"], settings["tolerance"], settings["extension"]) == ("kmedoids", None, "auto")
    assert (others["epsilon"], others["n_components"]) == ("connected", "gap")
    assert (others["landmarks"], others["tolerance"], others["extension"]) == ("farthest", 2.0, "nystrom")
    assert (others["n_threads"], others["outliers"]) == (1, 0.02)


@pytest.mark.parametrize("kind", ["xtc", "pdb"])  # the latter does not tell its length beforehand
def test_a_trajectory_tells_frames_and_atoms(files, asked, kind):
    selection = ["-t", str(files["top"]), "--select", "not element H", "--mass-weighted", "--stride", "3"]
    assert main(["plan", str(files[kind]), *selection, "-m", "20"]) == 0
    ((n_points, atoms, metric, n_landmarks), settings) = asked[0]
    assert (n_points, atoms, n_landmarks) == (34, 10, 20)
    assert isinstance(metric, RMSD)
    assert len(metric.weights) == 10
    assert settings["dtype"] == np.float32


def test_a_table_tells_rows_columns_and_precision(tmp_path, asked):
    np.savetxt(tmp_path / "a.csv", np.arange(120.0).reshape(40, 3), delimiter=",")
    np.save(tmp_path / "b.npy", np.zeros((70, 5), np.float32))
    assert main(["plan", str(tmp_path / "a.csv"), "--columns", "1,3"]) == 0
    assert main(["plan", str(tmp_path / "b.npy"), "--metric", "hamming"]) == 0
    assert [call[0] for call in asked] == [(40, 2, "euclidean", None), (70, 5, "hamming", None)]
    assert [call[1]["dtype"] for call in asked] == [np.float64, np.float32]


def test_remedies_are_options(capsys, monkeypatch):
    remedies = (planning.Remedy("epsilon", "coifman", 60.0, 5e8), planning.Remedy("stride", 20, 120.0, 4e8))
    planned = planning.Plan(
        9000, 60, 0, 3e8, 5e6, 1e-6, 1e-7, 1e-6, {"bandwidth": 5e6}, {"bandwidth": 3e8}, remedies
    )
    monkeypatch.setattr(planning, "plan", wraps(planning.plan)(lambda *_, **__: planned))
    assert main(["plan", "9000", "3", "--stride", "5"]) == 0
    out = capsys.readouterr().out
    assert "1,400 h is long, 100 % of it for: bandwidth. Cheaper:\n" in out
    assert "\n  --epsilon coifman: 1 min and 500 MB\n" in out
    assert "\n  --stride 100: 2 min and 400 MB\n" in out  # on top of the one that was asked for


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1", "3"], "n must be a whole number of at least 3"),
        (["100", "3", "-m", "200"], "ask for at most 100"),
        (["100", "3", "-m", "20", "--tolerance", "1"], "leave one of them out"),
        (["100"], "there is no file '100'"),
        (["nowhere.xtc"], "there is no file 'nowhere.xtc'"),
    ],
)
def test_impossible_plans_are_refused(arguments, message, capsys):
    assert main(["plan", *arguments]) == 1
    assert message in capsys.readouterr().err
