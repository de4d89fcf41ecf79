"""What a first fit with nothing but defaults shows."""

from __future__ import annotations

import re

import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.cli import main
from ldmaps.datasets import alanine_dipeptide


def test_a_molecule_gets_two_coordinates_though_its_largest_drop_is_behind_the_first():
    model = LandmarkDiffusionMap(metric="rmsd").fit(alanine_dipeptide(stride=100).frames)
    assert model.spectrum_[0] - model.spectrum_[1] > max(model.spectrum_[1:-1] - model.spectrum_[2:])
    assert model.n_components_ == 2


def test_fit_says_why_so_many_were_kept(tmp_path, capsys):
    pytest.importorskip("mdtraj", reason="writes the trajectory")
    from written_trajectories import mdtraj_trajectory

    mdtraj_trajectory(100).save_pdb(str(tmp_path / "run.pdb"))
    assert main(["fit", str(tmp_path / "run.pdb"), "-o", str(tmp_path / "map.ldm")]) == 0
    shown = " ".join(capsys.readouterr().err.split())
    assert re.search(r" kept: .*(is|are) noise \(at least two are kept\)", shown), shown
    assert re.search(r"not kept: .*noise", shown), shown
