"""The demo, on every fortieth frame: what it prints is what it found, and the figure is there."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from ldmaps import cli
from ldmaps.datasets import alanine_dipeptide
from ldmaps.demo import comparison
from ldmaps.demo.figure import draw
from ldmaps.demo.files import FILES
from ldmaps.validation.fidelity import nrmse

STRIDE = 32


@pytest.fixture(scope="module")
def demonstration():
    return comparison.run(stride=STRIDE, n_medoids=100)


def test_every_frame_is_learned_from_or_streamed(demonstration):
    assert len(demonstration.training) == 625
    assert np.array_equal(
        np.sort(np.concatenate([demonstration.training, demonstration.held_out])), np.arange(782)
    )


def test_landmark_maps_stand_for_all_training_frames(demonstration):
    assert [entry.name for entry in demonstration.landmark_maps] == ["PST", "k-medoids"]
    for entry in demonstration.approximations:
        assert entry.n_landmarks == len(entry.landmarks) < len(demonstration.training)
        assert entry.multiplicities.sum() == len(demonstration.training)


def test_landmark_maps_are_close_to_the_exact_one(demonstration):
    for entry in demonstration.approximations:
        assert 0 < entry.z_training < 10
        assert 0 < entry.z_held_out < 10
        assert entry.z_held_out == pytest.approx(nrmse(demonstration.exact.held_out, entry.held_out))
        assert entry.spectrum == pytest.approx(demonstration.exact.spectrum, abs=0.1)


def test_the_distilled_map_keeps_its_tolerance_with_far_fewer_landmarks(demonstration):
    distilled, certificate = demonstration.distilled, demonstration.certificate
    assert distilled.n_landmarks == certificate.n_landmarks
    assert distilled.n_landmarks < min(entry.n_landmarks for entry in demonstration.landmark_maps) / 2
    assert certificate.upper_bound <= certificate.tolerance == comparison.TOLERANCE
    assert (
        distilled.z_held_out < 1.5 * comparison.TOLERANCE
    )  # 157 frames: the certificate's own bound scatters


def test_too_few_frames_for_a_certificate_leave_the_distilled_map_out(tmp_path, capsys):
    demonstration = comparison.run(stride=4 * STRIDE)
    assert demonstration.distilled is None
    assert demonstration.approximations == demonstration.landmark_maps
    assert re.search(
        r"no distilled map: tolerance=1 percent cannot be certified: psi\d is supported by only",
        capsys.readouterr().err,
    )
    assert "distilled" not in comparison.table(demonstration)
    assert draw(demonstration, tmp_path / "map.png")[0].stat().st_size > 20_000


def test_the_seed_decides_the_result(demonstration):
    again = comparison.run(stride=STRIDE, n_medoids=100)
    for before, after in zip(demonstration.approximations, again.approximations, strict=True):
        assert np.array_equal(before.held_out, after.held_out)
    assert not np.array_equal(
        comparison.run(stride=4 * STRIDE, seed=1).training, comparison.run(stride=4 * STRIDE).training
    )


def test_the_table_states_the_facts(demonstration):
    text = comparison.table(demonstration)
    assert "N = 625 to learn from, 157 held out" in text
    assert f"{demonstration.epsilon:.3e} nm²" in text
    rows = {line.split()[0]: line for line in text.splitlines() if line.endswith("×")}
    assert set(rows) == {"exact", "PST", "k-medoids", "distilled"}
    assert "certified with 95 % confidence on 196 of the N" in text
    for entry in (demonstration.exact, *demonstration.approximations):
        row = rows[entry.name]
        assert f"{entry.spectrum[0]:.4f}" in row
        assert row.split()[1] == str(entry.n_landmarks)
        if entry is not demonstration.exact:
            assert f"{entry.z_training:.2f} %" in row
            assert f"{entry.z_held_out:.2f} %" in row
    assert max(map(len, text.splitlines())) <= 90


def test_the_command_prints_the_table_and_writes_the_figure(tmp_path, capsys):
    output = tmp_path / "not there yet" / "map.png"
    assert cli.main(["demo", "--stride", "100", "--output", str(output)]) == 0
    printed = capsys.readouterr()
    assert "N = 200 to learn from" in printed.out
    assert str(output) in printed.out
    assert "exact map: 200 × 200 distances" in printed.err
    assert output.read_bytes().startswith(b"\x89PNG")
    assert output.stat().st_size > 20_000
    vector = output.with_suffix(".pdf")
    assert vector.read_bytes().startswith(b"%PDF")
    assert vector.stat().st_size > 10_000
    assert sorted(path.name for path in output.parent.iterdir()) == ["map.pdf", "map.png"]


def test_the_figure_has_ink_in_every_panel(demonstration, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    picture, vector = draw(demonstration, tmp_path / "map.svg")
    assert vector.suffix == ".svg"
    assert "<svg" in vector.read_text(encoding="utf-8")
    pixels = image.imread(picture)[..., :3]
    height, width = pixels.shape[0] // 2, pixels.shape[1] // 3
    for row in range(2):
        for column in range(3):
            panel = pixels[row * height : (row + 1) * height, column * width : (column + 1) * width]
            assert 0.01 < (panel < 0.9).any(axis=-1).mean() < 0.6


def test_without_matplotlib_the_command_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["demo", "--output", str(tmp_path / "map.png")]) == 1
    assert "pip install matplotlib" in capsys.readouterr().err


def test_bad_arguments_are_named(capsys):
    for wrong in (["--stride", "0"], ["--output", "map.gif"]):
        assert cli.main(["demo", *wrong]) == 2
    assert "ends in .png, .pdf or .svg, got 'map.gif'" in capsys.readouterr().err


@pytest.mark.slow  # fewer frames are not certified at this bandwidth
def test_files_to_try_the_commands_on(tmp_path, capsys, monkeypatch):
    mdtraj = pytest.importorskip("mdtraj")
    files = ["demo", "--files", str(tmp_path / "try")]
    assert cli.main(files) == 0
    printed = capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "try")
    assert sorted(path.name for path in (tmp_path / "try").iterdir()) == sorted(FILES)
    molecule = alanine_dipeptide()
    read = mdtraj.load("traj.xtc", top="top.pdb")
    np.testing.assert_allclose(read.xyz, molecule.frames[:20000], atol=6e-4)
    np.testing.assert_allclose(read.time, molecule.times[:20000], atol=1e-2)
    assert [atom.name for atom in read.topology.atoms] == list(molecule.atom_names)
    assert [bond[0].index for bond in read.topology.bonds]  # mdtraj knows the residues
    assert mdtraj.load("new.xtc", top="top.pdb").n_frames == 5001
    phi = np.degrees(mdtraj.compute_phi(read)[1][:, 0])
    psi = np.degrees(mdtraj.compute_psi(read)[1][:, 0])
    written = np.genfromtxt("angles.csv", delimiter=",", names=True)
    for angle, column in ((phi, "phi"), (psi, "psi_angle")):
        assert np.abs((written[column] - angle + 180) % 360 - 180).max() < 3.0  # xtc rounds to 1 pm
    # What it prints can be typed.
    assert cli.main(printed.strip().splitlines()[-1].split()[1:]) == 0
    assert cli.main(["report", "map.ldm", "-f"]) == 0
    assert cli.main(["report", "map.ldm", "--data", "angles.csv", "-o", "angles.html"]) == 0
    assert cli.main(["fit", "sensors.csv", "-m", "100", "-o", "sensors.ldm"]) == 0
    capsys.readouterr()
    assert cli.main(files) == 1
    assert "traj.xtc exists already" in capsys.readouterr().err


def test_a_figure_is_not_overwritten_unasked(tmp_path, capsys):
    (tmp_path / "map.pdf").write_text("mine")
    assert cli.main(["demo", "--stride", "100", "--output", str(tmp_path / "map.png")]) == 1
    assert "map.pdf exists already" in capsys.readouterr().err
    assert (tmp_path / "map.pdf").read_text() == "mine"
