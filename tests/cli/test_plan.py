"""``ldmaps plan`` predicts what a fit would cost, from files or from two numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ldmaps import Limits
from ldmaps.cli import main
from ldmaps.cli import plan as command
from ldmaps.metrics import RMSD
from ldmaps.planning import plan as planning


@pytest.fixture
def asked(monkeypatch):
    """What the library is asked for, with an answer that costs nothing."""
    calls = []

    def planned(*arguments, **settings):
        calls.append((arguments, settings))
        return planning.Plan(9, 6, (9,), 1.0, 3e8, {"landmarks": 1.0}, {"landmarks": 3e8}, 1e-6, 1e-6, 1)

    monkeypatch.setattr(planning, "plan", planned)
    return calls


def test_prints_a_table(capsys):
    assert main(["plan", "2000", "3", "-m", "100"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "cost of fitting 2,000 points with 100 landmarks (measured):"
    assert [line.split()[0] for line in out[1:9]] == [
        "stage",
        "preparation",
        "bandwidth",
        "landmarks",
        "eigenproblem",
        "resampling",
        "embedding",
        "all",
    ]
    assert "per point in batches" in out[9]
    assert "of memory left" in out[10]


def test_json_holds_the_figures(capsys):
    assert main(["plan", "1000", "22", "--metric", "rmsd", "-m", "50", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert cost["n_points"] == 1000
    assert cost["fit_seconds"] == pytest.approx(sum(cost["steps"].values()))
    assert cost["peak_bytes"] == max(cost["memory"].values())


def test_takes_the_options_of_fit(asked):
    options = (
        "--outliers 0.02 --tolerance 2 --extension nystrom --landmarks farthest --threads 1 --alpha 0.5 "
        "--diffusion-time 2 --epsilon 0.25 --n-components 3 --max-passes 4 --metric rmsd"
    )
    assert main(["plan", "5000", "22", "--stride", "3", *options.split()]) == 0
    ((counts, chosen),) = asked
    assert counts == (1667, 22)
    expected = {
        "outliers": 0.02,
        "tolerance": 2.0,
        "extension": "nystrom",
        "landmarks": "farthest",
        "n_threads": 1,
        "alpha": 0.5,
        "diffusion_time": 2.0,
        "epsilon": 0.25,
        "n_components": 3,
        "limits": Limits(max_passes=4),
        "metric": "rmsd",
    }
    assert {name: chosen[name] for name in expected} == expected


@pytest.mark.parametrize("kind", ["xtc", "pdb"])  # the latter does not tell its length beforehand
def test_a_trajectory_is_its_frames(files, asked, kind):
    selection = ["-t", str(files["top"]), "--select", "not element H", "--mass-weighted", "--stride", "3"]
    assert main(["plan", str(files[kind]), *selection, "-m", "20"]) == 0
    (((points,), settings),) = asked
    assert points.shape == (34, 10, 3)
    assert settings["n"] == (34 if kind == "xtc" else None)
    assert isinstance(settings["metric"], RMSD)
    assert len(settings["metric"].weights) == 10
    assert settings["n_landmarks"] == 20


def test_of_long_inputs_a_sample_is_read(files, asked, monkeypatch):
    monkeypatch.setattr(command, "SAMPLE_POINTS", 20)
    monkeypatch.setattr(command, "PER_LANDMARK", 1)
    assert main(["plan", str(files["xtc"]), "-t", str(files["top"]), "-m", "20"]) == 0
    (((points,), settings),) = asked
    assert settings["n"] == 101
    assert 20 <= len(points) <= 40


def test_a_matrix_of_distances_is_read_whole(tmp_path, asked, monkeypatch):
    monkeypatch.setattr(command, "SAMPLE_POINTS", 20)
    monkeypatch.setattr(command, "PER_LANDMARK", 1)
    np.save(tmp_path / "d.npy", np.zeros((60, 60)))
    assert main(["plan", str(tmp_path / "d.npy"), "--metric", "precomputed", "-m", "5"]) == 0
    assert asked[0][0][0].shape == (60, 60)


def test_a_table_is_its_rows(tmp_path, asked):
    np.savetxt(tmp_path / "a.csv", np.arange(120.0).reshape(40, 3), delimiter=",")
    np.save(tmp_path / "b.npy", np.zeros((70, 5), np.float32))
    assert main(["plan", str(tmp_path / "a.csv"), "--columns", "1,3"]) == 0
    assert main(["plan", str(tmp_path / "b.npy"), "--metric", "hamming"]) == 0
    found = [(points.shape, settings["n"]) for (points,), settings in asked]
    assert found == [((40, 2), None), ((70, 5), 70)]  # text does not tell its length beforehand
    assert [settings["metric"] for _, settings in asked] == ["euclidean", "hamming"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0", "3"], "n must be a whole number of at least 1"),
        (["100", "3", "-m", "200"], "ask for at most 100"),
        (["100", "3", "-m", "20", "--tolerance", "1"], "leave one of them out"),
        (["100"], "there is no file '100'"),
        (["nowhere.xtc"], "there is no file 'nowhere.xtc'"),
    ],
)
def test_impossible_plans_are_refused(arguments, message, capsys):
    assert main(["plan", *arguments]) == 1
    assert message in capsys.readouterr().err
