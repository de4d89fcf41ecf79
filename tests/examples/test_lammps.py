"""The free energy by LAMMPS and by OpenMM, reduced: engines agree on energies, and Colvars with the map."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from lammps_engine import program

pytest.importorskip("openmm", reason="openmm is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

EXAMPLES = str(Path(__file__).resolve().parents[2] / "examples")


@pytest.mark.slow
def test_both_engines_run_the_same_molecule_along_the_same_map(monkeypatch, tmp_path, capsys):
    program()
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module("lammps_free_energy")
    try:
        command = ["--output", str(tmp_path), "--runs", "2", "--ps", "2", "--hot-ps", "20"]
        module.main(command)
        out = capsys.readouterr().out
        assert float(re.search(r"agree within (\S+) kJ/mol", out).group(1)) < 1e-3
        differences = re.findall(r"differ by (\S+) of the range", out)
        assert len(differences) == 2
        assert max(map(float, differences)) < 1e-8
        assert (tmp_path / "free_energy.png").read_bytes().startswith(b"\x89PNG")
        made = (tmp_path / "run10.pmf").stat().st_mtime_ns
        module.main(command)  # goes on: nothing is run again
        assert (tmp_path / "run10.pmf").stat().st_mtime_ns == made
    finally:
        del sys.modules["lammps_free_energy"], sys.modules["replica_reset"]


def test_profiles_are_compared_where_the_free_energy_is_low(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module("lammps_free_energy")
    try:
        places = np.linspace(-1, 1, 50)
        profiles = [np.stack([places, 40 * places**2 + shift]) for shift in (0.0, 5.0)]
        rows, low = module.on_grid(profiles, places)
        np.testing.assert_allclose(rows[0], rows[1], atol=1e-12)
        np.testing.assert_array_equal(low, 40 * places**2 - (40 * places**2).min() < 12)
        np.testing.assert_allclose(rows[:, low].mean(axis=1), 0, atol=1e-12)
    finally:
        del sys.modules["lammps_free_energy"], sys.modules["replica_reset"]
