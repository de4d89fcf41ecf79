"""The committor example, reduced: it learns, pushes further than chance, and writes both engines' input."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import ldmaps

pytest.importorskip("openmm", reason="openmm is not installed")

EXAMPLES = str(Path(__file__).resolve().parents[2] / "examples")


@pytest.mark.slow
def test_a_reduced_run(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    found = import_module("committor_bias").main(["--quick", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "committor q from source" in printed
    assert found.free.min() >= -1e-6
    assert found.free.max() <= 1 + 1e-6
    assert np.ptp(found.free) > 0.9
    # The run begins in the source, and the bias takes it out: 0.5 is where it would as soon return.
    assert found.biased[0] < 0.3
    assert found.biased.max() > 0.5
    assert ldmaps.load(tmp_path / "committor.ldm").coordinate_names_ == ["q"]
    assert "q" in (tmp_path / "bias.csv").read_text().splitlines()[0].split(",")
    for folder, file in (("plumed", "plumed.dat"), ("colvars", "map.colvars")):
        text = (tmp_path / folder / file).read_text()
        assert "psi2" not in text
        assert "q" in text
