"""ldmaps basins and ldmaps correlate print the numbers of the library."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps
import ldmaps.inputs
from ldmaps.cli import main
from ldmaps.regions import count_transitions, find_basins, load_regions

mdtraj = pytest.importorskip("mdtraj", reason="mdtraj reads the trajectories")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinetics")
    whole = mdtraj_trajectory(25)
    for name, part in (("a.trr", whole[:500]), ("b.trr", whole[500:])):
        part.save(str(folder / name))
    whole[0].save_pdb(str(folder / "top.pdb"))
    source = ldmaps.inputs.open_files(
        [folder / "a.trr", folder / "b.trr"], top=folder / "top.pdb", select="not element H"
    )
    model = ldmaps.LandmarkDiffusionMap(2, "connected", "rmsd", n_landmarks=100).fit(source)
    model.save(folder / "map.ldm")
    return folder


def inputs(folder):
    return [str(folder / "a.trr"), str(folder / "b.trr"), "-t", str(folder / "top.pdb")]


def shares_of(chi, enter):
    """Return how much of a frame belongs to each basin: all of it in a core, else its memberships within 0 and 1."""
    if max(chi) >= enter:
        return [float(one >= enter) for one in chi]
    within = [min(max(one, 0.0), 1.0) for one in chi]
    return [one / sum(within) for one in within]


def test_basins_are_those_of_the_library(folder, capsys):
    path = str(folder / "map.ldm")
    assert main(["basins", path, "--n-basins", "2", "--json", "-o", str(folder / "basins.json"), "-f"]) == 0
    said = json.loads(capsys.readouterr().out)
    model = ldmaps.load(path)
    basins = find_basins(model, 2)
    memberships = basins.memberships(model.embedding_)
    labels = [next((place for place in range(2) if chi[place] >= 0.7), -1) for chi in memberships]
    record = model.training_
    moves = count_transitions(labels, basins.names, times=record.times, files=record.files)
    for place, row in enumerate(said["basins"]):
        assert row["population"] == pytest.approx(basins.populations[place], abs=0.01)
        assert row["population"] == pytest.approx(
            np.mean([shares_of(chi, 0.7)[place] for chi in memberships])
        )
        assert row["core"] == pytest.approx(np.mean(np.array(labels) == place))
        assert row["dwell"] == pytest.approx(moves.dwell[place])
        assert list(row["transitions"].values()) == moves.counts[place].tolist()
    # From one file to the next nothing goes: as one trajectory there would be a step more in time.
    joined = count_transitions(labels, basins.names, times=record.times)
    assert joined.time_in.sum() > moves.time_in.sum()
    assert load_regions(folder / "basins.json", model) == basins.regions

    assert main(["basins", path, "--n-basins", "2"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2 basins, crispness ")
    assert "dwell (ps)" in text
    assert "± " in text
    assert main(["basins", path, "--n-basins", "9"]) == 1
    assert "from 2 to 3" in capsys.readouterr().err


def test_populations_are_those_of_other_frames_and_no_core_exceeds_them(folder, tmp_path, capsys):
    path, table = str(folder / "map.ldm"), tmp_path / "psi.csv"
    model = ldmaps.load(path)
    memberships = find_basins(model, 2).memberships(model.embedding_)
    rows = model.embedding_[memberships[:, 1] > 0.5]  # nearly all of the second basin
    heading = ",".join(["file", "frame", "time", *model.coordinate_names_])
    lines = [f"a.xtc,{place},{place}," + ",".join(map(str, row)) for place, row in enumerate(rows.tolist())]
    table.write_text("\n".join([heading, *lines]) + "\n")
    assert main(["basins", path, "--n-basins", "2", "--data", str(table), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["basins"]
    assert first["population"] < 0.1 < 0.9 < second["population"]
    assert first["core"] <= first["population"]
    assert 0.5 < second["core"] <= second["population"]


def test_correlations_are_those_of_scipy_with_mdtraj(folder, capsys):
    from scipy.stats import spearmanr

    path, table = str(folder / "map.ldm"), str(folder / "shapes.csv")
    whole = mdtraj_trajectory(25)
    whole[7].save_pdb(str(folder / "reference.pdb"))
    command = [
        "correlate",
        path,
        *inputs(folder),
        "--reference",
        str(folder / "reference.pdb"),
        "-f",
        "-o",
        table,
    ]
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["coordinates"] == ["psi2", "psi3"]
    assert said["points"] == len(whole)
    model = ldmaps.load(path)
    heavy = whole.atom_slice(whole.topology.select("not element H"))
    rmsd = mdtraj.rmsd(heavy, mdtraj.load(str(folder / "reference.pdb")).atom_slice(heavy_atoms(whole)), 0)
    ends = mdtraj.compute_distances(heavy, [[0, heavy.n_atoms - 1]], periodic=False)[:, 0]
    for name, values in (("rmsd", rmsd), ("end_to_end", ends), ("time", whole.time)):
        expected = [spearmanr(model.embedding_[:, place], values).statistic for place in range(2)]
        np.testing.assert_allclose(said["spearman"][name], expected, atol=2e-3)
    # The table it wrote brings the same numbers, and colours a report.
    assert main(["correlate", path, "--data", table, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(again["spearman"]["rg"], said["spearman"]["rg"], atol=1e-6)
    assert main(["correlate", path]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("time")


def heavy_atoms(trajectory):
    return trajectory.topology.select("not element H")


def test_mistakes_are_explained(folder, tmp_path, capsys):
    path = str(folder / "map.ldm")
    assert main(["correlate", path, *inputs(folder), "--data", "x.csv"]) == 1
    assert "give trajectories or --data, not both" in capsys.readouterr().err
    assert main(["correlate", path, "--reference", "x.pdb"]) == 1
    assert "-o and --reference require a trajectory" in capsys.readouterr().err
    ldmaps.load(path).save(tmp_path / "small.ldm", include_embedding=False)
    assert main(["basins", str(tmp_path / "small.ldm")]) == 1
    assert "holds no training points; embed frames" in capsys.readouterr().err
    roll = ldmaps.LandmarkDiffusionMap(2, n_landmarks=20).fit(np.random.default_rng(0).random((60, 3)))
    roll.save(tmp_path / "roll.ldm")
    assert main(["correlate", str(tmp_path / "roll.ldm")]) == 1
    assert "there is nothing to correlate with" in capsys.readouterr().err


def test_a_core_is_said_to_be_one_and_can_be_widened(folder, tmp_path, capsys):
    path, output = str(folder / "map.ldm"), str(tmp_path / "basin.xtc")
    counts = []
    for enter in ("0.9", "0.5"):
        frames = ["frames", path, *inputs(folder), "--n-basins", "2", "--basin", "1", "-f", "-o", output]
        assert main([*frames, "--enter", enter]) == 0
        assert f"its core: membership of at least {enter}" in capsys.readouterr().err
        counts.append(mdtraj.load(output, top=str(folder / "top.pdb")).n_frames)
        assert main(["basins", path, "--n-basins", "2", "--enter", enter, "--json"]) == 0
        core = json.loads(capsys.readouterr().out)["basins"][0]["core"]
        assert round(core * 1001) == counts[-1]
    assert counts[1] > counts[0]


def test_a_basin_that_cannot_be_entered_names_the_option(folder, capsys):
    assert main(["basins", str(folder / "map.ldm"), "--n-basins", "3", "--enter", "0.999999"]) == 1
    assert "ask for fewer basins, or lower --enter" in capsys.readouterr().err


def test_frames_without_times_dwell_for_frames(folder, tmp_path, capsys):
    model = ldmaps.load(folder / "map.ldm")
    model.training_ = replace(model.training_, times=np.zeros(1001))
    model.save(tmp_path / "timeless.ldm")
    assert main(["basins", str(tmp_path / "timeless.ldm"), "--n-basins", "2"]) == 0
    text = capsys.readouterr().out
    assert "dwell (records)" in text
    assert "0 ± 0" not in text


def test_columns_of_a_colvar_are_correlated(folder, tmp_path, capsys):
    model = ldmaps.load(folder / "map.ldm")
    rows = [f" {0.1 * row:.4f} {value:.9f}" for row, value in enumerate(model.embedding_[:, 0])]
    (tmp_path / "COLVAR").write_text("\n".join(["#! FIELDS time cv", *rows]) + "\n")
    assert main(["correlate", str(folder / "map.ldm"), "--data", str(tmp_path / "COLVAR"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spearman"]["cv"][0] == pytest.approx(1.0, abs=1e-4)
