"""Frames along a coordinate: in order, near their neighbours, and as they are in the files but for a motion."""

from __future__ import annotations

import itertools
import json
import os

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps
import ldmaps.inputs
from ldmaps.analysis import frames_along
from ldmaps.analysis.frame_order import superposed_in_turn
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError
from ldmaps.metrics import RMSD, Features

mdtraj = pytest.importorskip("mdtraj", reason="mdtraj writes the trajectories")


@pytest.fixture(scope="module")
def roll():
    """A Swiss roll and its map."""
    points = ldmaps.datasets.swiss_roll(3000).points
    return points, ldmaps.LandmarkDiffusionMap(2, 4.0, n_landmarks=150).fit(points)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two halves of a trajectory in a box, turned at random, and a map of their heavy atoms."""
    folder = tmp_path_factory.mktemp("along")
    whole = mdtraj_trajectory(20)
    rng = np.random.default_rng(0)
    turns = np.linalg.qr(rng.normal(size=(len(whole), 3, 3)))[0]
    turns *= np.linalg.det(turns)[:, None, None]
    whole.xyz = np.einsum("nai,nij->naj", whole.xyz, turns).astype(np.float32)
    whole[: len(whole) // 2].save(str(folder / "a.trr"))
    whole[len(whole) // 2 :].save(str(folder / "b.trr"))
    whole[0].save_pdb(str(folder / "top.pdb"))
    source = opened(folder)
    model = ldmaps.LandmarkDiffusionMap(2, "connected", "rmsd", n_landmarks=80).fit(source)
    model.save(folder / "map.ldm")
    return folder


def opened(folder, **settings):
    settings = {"select": "not element H", **settings}
    return ldmaps.inputs.open_files([folder / "a.trr", folder / "b.trr"], top=folder / "top.pdb", **settings)


def run(folder, *arguments):
    here = os.getcwd()
    os.chdir(folder)
    try:
        return main(["frames", *arguments])
    finally:
        os.chdir(here)


def steps_of(metric, frames):
    return np.diagonal(metric.pairwise(frames), offset=1)


def test_values_rise_and_neighbours_are_near(roll):
    points, model = roll
    found = frames_along(model, points, "psi2", 40)
    assert len(found.values) + found.n_empty == 40
    assert (np.diff(found.values) > 0).all()
    np.testing.assert_array_equal(found.values, model.transform(points)[found.numbers, 0])
    np.testing.assert_allclose(found.steps, steps_of(model.metric_, points[found.numbers]), rtol=1e-6)
    # A naive choice takes from each interval the frame nearest to its middle.
    values = model.transform(points)[:, 0]
    edges = np.linspace(values.min(), values.max(), 41)
    middles = 0.5 * (edges[1:] + edges[:-1])
    naive = np.unique([np.abs(values - middle).argmin() for middle in middles])
    naive_steps = steps_of(model.metric_, points[naive])
    assert (found.steps**2).sum() < 0.5 * (naive_steps**2).sum()
    assert found.steps.max() < naive_steps.max()


def test_the_path_is_the_shortest_of_all(roll):
    """With few candidates every path can be tried."""
    points, model = roll
    few = points[::100]
    found = frames_along(model, few, "psi3", 5)
    values = model.transform(few)[:, 1]
    inside = np.flatnonzero(model.coverage(few).inside)
    low, high = values[inside].min(), values[inside].max()
    place = np.minimum(((values - low) / (high - low) * 5).astype(int), 4)
    layers = [[row for row in inside if place[row] == layer] for layer in range(5)]
    squared = model.metric_.pairwise(few) ** 2
    best = min(
        sum(squared[a, b] for a, b in itertools.pairwise(path))
        for path in itertools.product(*filter(None, layers))
    )
    assert (found.steps**2).sum() == pytest.approx(best, rel=1e-6)


def test_functions_and_other_metrics(roll):
    points, model = roll
    height = model.function(points, points[:, 1], name="height")
    found = frames_along(height, points, "height", 12)
    assert found.coordinate == "height"
    # Rows of a path along the height go up.
    assert np.corrcoef(points[found.numbers, 1], found.values)[0, 1] > 0.99
    molecule = ldmaps.datasets.alanine_dipeptide(stride=25)
    metric = Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]])
    angles = ldmaps.LandmarkDiffusionMap(2, "connected", metric, n_landmarks=60).fit(molecule.frames)
    found = frames_along(angles, molecule.frames, 0, 15)
    for unit, said in (("rad", " rad"), (None, "")):
        between = (
            f"are {np.median(found.steps):.3g}{said} apart (median), at most {found.steps.max():.3g}{said}: "
        )
        assert between in found.summary(unit)[1]
    assert (np.diff(found.values) > 0).all()
    np.testing.assert_allclose(found.steps, steps_of(metric, molecule.frames[found.numbers]), rtol=1e-4)


def test_weights_leave_frames_out_and_few_frames_give_few(roll):
    points, model = roll
    weights = np.ones(len(points))
    weights[::2] = 0.0
    found = frames_along(model, points, "psi2", 20, sample_weight=weights)
    assert (found.numbers % 2 == 1).all()
    few = frames_along(model, points[:5], "psi2", 40)
    assert len(few.values) <= 5
    assert few.n_empty == 40 - len(few.values)
    assert any("hold no frame inside the map" in line for line in few.summary())
    for wrong in (weights[:-1], -weights):
        with pytest.raises(InvalidInputError, match="sample_weight must be one finite number of 0 or more"):
            frames_along(model, points, sample_weight=wrong)


def test_what_has_no_order_is_an_error(roll):
    points, model = roll
    with pytest.raises(InvalidInputError, match="none of the 4 rows has a weight and is inside the map"):
        frames_along(model, points[:4] + 1e3)
    with pytest.raises(InvalidInputError, match="at all frames inside the map, so they have no order"):
        frames_along(model, points[:1])
    with pytest.raises(InvalidInputError, match="this map has psi2, psi3"):
        frames_along(model, points, "slow1")
    with pytest.raises(InvalidInputError, match="n_frames"):
        frames_along(model, points, n_frames=1)
    distances = ldmaps.metrics.Euclidean().pairwise(points[:200])
    given = ldmaps.DiffusionMap(2, 4.0, metric="precomputed").fit(distances)
    with pytest.raises(InvalidInputError, match="was fitted on distances"):
        frames_along(given, distances)
    with pytest.raises(InvalidInputError, match="only frames of trajectory files can be written"):
        frames_along(model, points).write("x.xtc")


def test_a_movie_of_files_is_superposed_and_in_order(folder, capsys):
    command = ["map.ldm", "a.trr", "b.trr", "-t", "top.pdb", "--along", "psi2", "-n", "30"]
    assert run(folder, *command, "-o", "movie.trr", "--table", "movie.csv", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    model, source = ldmaps.load(folder / "map.ldm"), opened(folder)
    found = frames_along(model, source, "psi2", 30)
    assert [frame["value"] for frame in said["frames"]] == found.values.tolist()
    assert set(found.file_of.tolist()) == {0, 1}
    whole = mdtraj.load([str(folder / "a.trr"), str(folder / "b.trr")], top=str(folder / "top.pdb"))
    rows = found.numbers + len(whole) // 2 * found.file_of
    movie = mdtraj.load(str(folder / "movie.trr"), top=str(folder / "top.pdb"))
    assert movie.n_atoms == whole.n_atoms
    # The same frames but for a motion, and no reflection ...
    for place, row in enumerate(rows.tolist()):
        assert mdtraj.rmsd(movie[place], whole[row])[0] < 1e-3
    # ... which superposes neighbours by the map's atoms: moved any more they would not be nearer.
    heavy = whole.topology.select("not element H")
    apart = np.diff(movie.xyz[:, heavy].astype(np.float64), axis=0)
    np.testing.assert_allclose(np.sqrt((apart**2).sum(axis=2).mean(axis=1)), found.steps, atol=1e-5)
    np.testing.assert_allclose(found.steps, steps_of(RMSD(), whole.xyz[rows][:, heavy]), atol=1e-5)
    table = (folder / "movie.csv").read_text().splitlines()
    assert table[0] == "number,file,frame,time,psi2,from_before"
    assert len(table) == len(found.values) + 1
    assert run(folder, *command, "-o", "movie.pdb", "--atoms", "name CA", "-q") == 0
    assert mdtraj.load(str(folder / "movie.pdb")).n_atoms == 1
    assert f"1: psi2 = {found.values[0]:.6g}, frame" in (folder / "movie.pdb").read_text()


def test_weights_that_files_were_opened_with_count(folder, capsys):
    count = opened(folder).n_frames
    (folder / "weights.csv").write_text("weight\n" + "\n".join(str(row % 2) for row in range(count)) + "\n")
    found = frames_along(ldmaps.load(folder / "map.ldm"), opened(folder, weights=str(folder / "weights.csv")))
    rows = found.numbers + count // 2 * found.file_of
    assert (rows % 2 == 1).all()
    command = ["map.ldm", "a.trr", "b.trr", "-t", "top.pdb", "--along", "psi2", "--weights", "weights.csv"]
    assert run(folder, *command, "-o", "odd.trr", "--json") == 0
    numbers = [frame["frame"] for frame in json.loads(capsys.readouterr().out)["frames"]]
    assert numbers == found.numbers.tolist()


def test_a_table_has_no_frames_to_write(folder, roll, capsys):
    points, model = roll
    model.save(folder / "roll.ldm")
    np.savetxt(folder / "roll.csv", points, delimiter=",")
    assert run(folder, "roll.ldm", "roll.csv", "--along", "psi2", "-o", "x.xtc") == 1
    assert "in Python, ldmaps.analysis.frames_along returns rows" in capsys.readouterr().err
    source = ldmaps.inputs.open_files(folder / "roll.csv", model_facts=model.source_)
    found = frames_along(model, source, "psi2", 10)
    assert len(found.values) > 5


def test_superposition_turns_and_never_mirrors():
    frame = np.random.default_rng(0).normal(size=(6, 3))
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    moved = superposed_in_turn(np.stack([frame, frame @ turn + 3.0, frame * [1, 1, -1]]), np.arange(6))
    np.testing.assert_allclose(moved[1], frame, atol=1e-12)
    assert np.abs(moved[2] - frame).max() > 0.1
