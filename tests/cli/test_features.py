"""``--features``: fitted, embedded, streamed, written and reported from the trajectory alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import ldmaps
from ldmaps.cli import main
from ldmaps.metrics import Features
from ldmaps.streaming import Sink, StreamEmbedder, open_source
from ldmaps.streaming.sources import model_facts

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
    assert "compared by: 2 dihedrals, 45 distances times 10" in shown  # of ten heavy atoms: there is one CA
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


class Grower(Sink):
    """Appends the rest of a file to it when the first records have come."""

    name = "the engine that writes the file"

    def __init__(self, path, rest):
        self.path, self.rest, self.coordinates = path, rest, []

    def write(self, embedded):
        self.coordinates.append(embedded.coordinates)
        with self.path.open("ab") as file:
            file.write(self.rest)
        self.rest = b""


@pytest.mark.parametrize("form", ["xtc", "dcd"])
def test_a_growing_file_gives_the_coordinates_of_the_finished_one(model, files, tmp_path, form):
    loaded = ldmaps.load(model)
    source = ldmaps.inputs.open_files(files[form], files["top"], model_facts=loaded.source_)
    expected = loaded.transform(source)
    data, path = files[form].read_bytes(), tmp_path / f"run.{form}"
    path.write_bytes(data[: len(data) // 3])
    grower = Grower(path, data[len(data) // 3 :])
    growing = open_source(
        str(path), top=str(files["top"]), follow=True, model_facts=model_facts(loaded), periodic="whole"
    )
    StreamEmbedder(loaded).run(growing, [grower], max_records=len(expected))
    assert len(grower.coordinates) > 1  # it did grow
    np.testing.assert_allclose(np.concatenate(grower.coordinates), expected, rtol=1e-5, atol=1e-7)


def test_watch_places_frames_as_embed_does(model, files, tmp_path):
    for part in ("starlette", "uvicorn"):
        pytest.importorskip(part, reason="the live page needs it")
    common = [str(model), str(files["xtc"]), "-t", str(files["top"]), "-q"]
    assert main(["embed", *common, "-o", str(tmp_path / "psi.csv")]) == 0
    arguments = ["watch", *common, "-o", str(tmp_path / "live.csv"), "--port", "0", "--exit-when-done"]
    assert main(arguments) == 0
    np.testing.assert_array_equal(psi_of(tmp_path / "live.csv"), psi_of(tmp_path / "psi.csv"))


def test_a_part_of_the_map_is_written_and_correlated(model, files, tmp_path, capsys):
    common = [str(model), str(files["xtc"]), "-t", str(files["top"])]
    part = tmp_path / "part.xtc"
    assert main(["frames", *common, "--box", "psi2=0:", "-o", str(part)]) == 0
    whole = mdtraj.load(str(files["xtc"]), top=str(files["top"]))
    inside = ldmaps.load(model).transform(whole.xyz)[:, 0] >= 0
    np.testing.assert_array_equal(mdtraj.load(str(part), top=str(files["top"])).xyz, whole.xyz[inside])
    assert main(["correlate", *common]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["time", "rg", "end_to_end", "rmsd"]
    assert "nan" not in out


def test_structures_of_landmarks_are_written_and_reported(model, tmp_path):
    assert main(["frames", str(model), "--landmarks", "-o", str(tmp_path / "landmarks.pdb"), "-q"]) == 0
    assert mdtraj.load(str(tmp_path / "landmarks.pdb")).xyz.shape == (20, 22, 3)
    assert main(["report", str(model), "-o", str(tmp_path / "map.html"), "-q"]) == 0
    assert "ACE" in (tmp_path / "map.html").read_text() or "CH3" in (tmp_path / "map.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "rmsd"], "cannot be combined with --metric, --mass-weighted, --period or --scale"),
        (["--mass-weighted"], "cannot be combined with --metric, --mass-weighted, --period or --scale"),
        (["--scale", "robust"], "cannot be combined with --metric, --mass-weighted, --period or --scale"),
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
    assert "--features requires a trajectory, but the input is a table" in capsys.readouterr().err
    arguments[2:4] = ["--mass-weighted"]
    assert main(arguments) == 1
    assert "--mass-weighted belongs to --metric rmsd on trajectories" in capsys.readouterr().err


def test_dask_arrays_of_frames_have_features(files):
    da = pytest.importorskip("dask.array")
    frames = mdtraj.load(str(files["xtc"]), top=str(files["top"])).xyz
    metric = Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]])
    here = ldmaps.LandmarkDiffusionMap(2, metric=metric, n_landmarks=20, landmarks="uniform").fit(frames)
    there = ldmaps.LandmarkDiffusionMap(2, metric=metric, n_landmarks=20, landmarks="uniform")
    there.fit(da.from_array(frames, chunks=(37, -1, -1)))
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-5)
