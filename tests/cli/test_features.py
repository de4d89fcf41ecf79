"""``--features``: fitted, embedded, streamed, written and reported from the trajectory alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import ldmaps
from ldmaps.cli import main
from ldmaps.metrics import Features

mdtraj = pytest.importorskip("mdtraj")


@pytest.fixture(scope="module")
def model(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "map.ldm"
    arguments = ["fit", files["xtc"], "-t", files["top"], "--features", "dihedrals", "-m", "20", "-o", path]
    assert main([*map(str, arguments), "-q"]) == 0
    return path


def psi_of(path):
    table = np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding=None)
    return np.column_stack([table["psi2"], table["psi3"]])


def test_a_fit_says_what_it_compares(files, tmp_path, capsys):
    arguments = ["fit", files["xtc"], "-t", files["top"], "--features", "dihedrals,distances", "-m", "20"]
    assert main([*map(str, arguments), "-o", str(tmp_path / "map.ldm")]) == 0
    shown = "".join(capsys.readouterr())
    assert "compared by 2 dihedrals, 45 distances times 10" in shown  # of ten heavy atoms: there is one CA
    assert main(["info", str(tmp_path / "map.ldm")]) == 0
    assert "features: 2 dihedrals, 45 distances" in capsys.readouterr().out


def test_files_pipes_and_python_give_the_same_coordinates(model, files, tmp_path):
    loaded = ldmaps.load(model)
    trajectory = mdtraj.load(str(files["xtc"]), top=str(files["top"]))
    phi, psi = mdtraj.compute_phi(trajectory)[0][0].tolist(), mdtraj.compute_psi(trajectory)[0][0].tolist()
    assert sorted(loaded.metric_.atoms) == sorted([tuple(phi), tuple(psi)])
    expected = loaded.transform(trajectory.xyz)[:, :2]
    out = tmp_path / "psi.csv"
    common = [str(model), str(files["xtc"]), "-t", str(files["top"]), "-o", str(out), "-q"]
    assert main(["embed", *common]) == 0
    np.testing.assert_allclose(psi_of(out), expected, rtol=1e-5, atol=1e-7)
    assert main(["stream", *common, "-f"]) == 0
    np.testing.assert_allclose(psi_of(out), expected, rtol=1e-5, atol=1e-7)
    np.save(tmp_path / "frames.npy", trajectory.xyz)
    command = [sys.executable, "-m", "ldmaps", "stream", str(model), "-", "--format", "npy", "-o", str(out)]
    with (tmp_path / "frames.npy").open("rb") as frames:
        subprocess.run([*command, "-f", "-q"], stdin=frames, check=True)
    np.testing.assert_allclose(psi_of(out), expected, rtol=1e-5, atol=1e-7)


def test_structures_of_landmarks_are_written_and_reported(model, tmp_path):
    assert main(["frames", str(model), "--landmarks", "-o", str(tmp_path / "landmarks.pdb"), "-q"]) == 0
    assert mdtraj.load(str(tmp_path / "landmarks.pdb")).xyz.shape == (20, 22, 3)
    assert main(["report", str(model), "-o", str(tmp_path / "map.html"), "-q"]) == 0
    assert "ACE" in (tmp_path / "map.html").read_text() or "CH3" in (tmp_path / "map.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "rmsd"], "leave out --metric, --mass-weighted and --period"),
        (["--mass-weighted"], "leave out --metric, --mass-weighted and --period"),
    ],
)
def test_features_stand_alone(files, tmp_path, capsys, options, message):
    arguments = ["fit", files["xtc"], "-t", files["top"], "--features", "dihedrals", *options]
    assert main([*map(str, arguments), "-o", str(tmp_path / "map.ldm")]) == 1
    assert message in capsys.readouterr().err


def test_tables_have_no_features(tmp_path, capsys):
    np.savetxt(tmp_path / "rows.csv", np.random.default_rng(0).normal(size=(30, 3)), delimiter=",")
    arguments = [
        "fit",
        str(tmp_path / "rows.csv"),
        "--features",
        "dihedrals",
        "-o",
        str(tmp_path / "map.ldm"),
    ]
    assert main(arguments) == 1
    assert "--features are of frames, but the input is a table" in capsys.readouterr().err


def test_dask_arrays_of_frames_have_features(files):
    da = pytest.importorskip("dask.array")
    frames = mdtraj.load(str(files["xtc"]), top=str(files["top"])).xyz
    metric = Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]])
    here = ldmaps.LandmarkDiffusionMap(2, metric=metric, n_landmarks=20, landmarks="uniform").fit(frames)
    there = ldmaps.LandmarkDiffusionMap(2, metric=metric, n_landmarks=20, landmarks="uniform")
    there.fit(da.from_array(frames, chunks=(37, -1, -1)))
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-5)
