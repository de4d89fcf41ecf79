"""Files that only MDAnalysis reads, through the same door as all others."""

from __future__ import annotations

import bz2
import gzip
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError

mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
datafiles = pytest.importorskip("MDAnalysisTests.datafiles", reason="pip install MDAnalysisTests")


@pytest.mark.slow
def test_a_tpr_names_atoms_as_the_gro_of_the_same_system_does():
    settings = {"select": "name CA", "stop": 3}
    by_tpr = ldmaps.inputs.open_files(datafiles.XTC, top=datafiles.TPR, **settings)
    by_gro = ldmaps.inputs.open_files(datafiles.XTC, top=datafiles.GRO, **settings)
    # The TPR has the force field's names of protonated residues.
    usual = [re.sub(r"(?<=[A-Z]{3})[A-Z](?=\d+-)", "", label) for label in by_tpr.atoms.labels]
    assert usual == list(by_gro.atoms.labels)
    assert by_tpr.atoms.elements == by_gro.atoms.elements
    # Bonds, by which the protein is made whole, come from the TPR itself.
    np.testing.assert_array_equal(by_tpr.read().frames, by_gro.read().frames)


@pytest.mark.parametrize("settings", [{}, {"stride": 2, "start": 1}, {"stride": 9}, {"stop": 2, "chunk": 1}])
def test_frames_times_and_boxes_are_those_of_mdanalysis(settings):
    source = ldmaps.inputs.open_files(datafiles.TRZ, top=datafiles.TRZ_psf, periodic="keep", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = mda.Universe(datafiles.TRZ_psf, datafiles.TRZ)
        steps = range(len(universe.trajectory))[
            settings.get("start") : settings.get("stop") : settings.get("stride", 1)
        ]
        expected = [0.1 * universe.trajectory[step].positions for step in steps]
        times = [universe.trajectory[step].time for step in steps]
        universe.trajectory.close()
    chunk = source.read()
    assert source.n_frames == len(expected)
    np.testing.assert_allclose(chunk.frames, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(chunk.numbers, list(steps))
    np.testing.assert_allclose(chunk.times, times, atol=1e-3)


def test_a_box_makes_molecules_whole(tmp_path):
    """The box must reach the selection: cut apart, the bonded atoms would be a box apart."""
    cut = mdtraj_trajectory(box=2.0)[0]
    whole = cut.xyz.copy()
    cut.xyz[:, :6] -= np.float32([2.0, 0.0, 0.0])
    cut.save_gro(str(tmp_path / "cut.gro"))
    (tmp_path / "cut.gro.gz").write_bytes(gzip.compress((tmp_path / "cut.gro").read_bytes()))
    frames = ldmaps.inputs.open_files(tmp_path / "cut.gro.gz").read().frames
    np.testing.assert_allclose(frames - frames[:, :1], whole - whole[:, :1], atol=2e-3)


def test_compressed_text_and_unknown_times(files, tmp_path):
    mdtraj_trajectory().save_xyz(str(tmp_path / "run.xyz"))
    (tmp_path / "run.xyz.bz2").write_bytes(bz2.compress((tmp_path / "run.xyz").read_bytes()))
    chunk = ldmaps.inputs.open_files(tmp_path / "run.xyz.bz2", top=files["top"]).read()
    np.testing.assert_allclose(chunk.frames, mdtraj_trajectory().xyz, atol=1e-4)
    assert chunk.times is None  # MDAnalysis would make some up


@pytest.mark.slow
def test_fit_and_embed_on_the_command_line(tmp_path, capsys):
    model, psi = str(tmp_path / "map.ldm"), str(tmp_path / "psi.npy")
    top = ["-t", datafiles.TPR]
    assert (
        main(
            ["fit", datafiles.XTC, *top, "--select", "name CA", "--n-components", "1", "-m", "8", "-o", model]
        )
        == 0
    )
    assert main(["embed", model, datafiles.XTC, *top, "-o", psi]) == 0
    assert "100.0 % inside" in capsys.readouterr().err
    assert len(np.load(psi)) == 10


def test_what_is_missing_is_named(tmp_path, files, monkeypatch):
    monkeypatch.setattr("ldmaps.inputs.foreign_files.find_spec", lambda name: None)
    (tmp_path / "run.h5md").write_bytes(b"x")
    with pytest.raises(
        InvalidInputError, match=r"run.h5md is read with h5py, which is not .*pip install h5py"
    ):
        ldmaps.inputs.open_files(tmp_path / "run.h5md", top=files["top"])
    monkeypatch.setitem(sys.modules, "MDAnalysis", None)
    with pytest.raises(InvalidInputError, match=r"pip install MDAnalysis, or convert"):
        ldmaps.inputs.open_files(datafiles.XTC, top=datafiles.TPR)


def test_a_damaged_file_says_which_frame(tmp_path):
    (tmp_path / "cut.trz").write_bytes(Path(datafiles.TRZ).read_bytes()[:400_000])
    with pytest.raises(InvalidInputError, match=r"cut.trz"):
        ldmaps.inputs.open_files(tmp_path / "cut.trz", top=datafiles.TRZ_psf, periodic="keep").read()
