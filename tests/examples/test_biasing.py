"""The examples of biased simulation, reduced: they run, go on after an interruption, and draw."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openmm", reason="openmm is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

EXAMPLES = str(Path(__file__).resolve().parents[2] / "examples")
NAMES = ("replica_reset", "explore", "metadynamics_free_energy")


@pytest.fixture
def examples(monkeypatch):
    """Return the example modules, which import one another as scripts of one folder do."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in NAMES:
        del sys.modules[name]


@pytest.mark.slow
def test_exploring_goes_on_where_it_stopped(examples, tmp_path, capsys):
    command = ["--output", str(tmp_path), "--seeds", "1", "--round-ps", "2"]
    examples["explore"].main([*command, "--rounds", "1"])
    first = (tmp_path / "exploration_1" / "map_01.ldm").read_bytes()
    # As if the second round had been interrupted: its log is there, its record is not.
    (tmp_path / "exploration_1" / "bias_02.csv").write_text("step\n")
    examples["explore"].main([*command, "--rounds", "2"])
    assert (tmp_path / "exploration_1" / "map_01.ldm").read_bytes() == first
    rounds = json.loads((tmp_path / "exploration_1" / "rounds.json").read_text())
    assert [one["number"] for one in rounds] == [1, 2]
    assert rounds[1]["until"] == pytest.approx(0.004)
    assert rounds[1]["n_landmarks"] >= rounds[0]["n_landmarks"] >= 100
    page = (tmp_path / "index.html").read_text()
    assert "Exploration 1" in page
    assert "never" in page
    assert (tmp_path / "growing_1.png").read_bytes().startswith(b"\x89PNG")
    assert "unbiased run 1" in capsys.readouterr().out


@pytest.mark.slow
def test_free_energies_from_runs_on_disk(examples, tmp_path, capsys):
    command = [
        "--output",
        str(tmp_path),
        "--runs",
        "2",
        "--ns",
        "0.004",
        "--unbiased-ns",
        "0.008",
        "--hot-ns",
        "0.02",
    ]
    examples["metadynamics_free_energy"].main(command)
    assert "effective frames" in capsys.readouterr().out
    rows = json.loads((tmp_path / "basins.json").read_text())["estimates"]
    runs = {row["kind"]: row["runs"] for row in rows if row["difference"].startswith("αR")}
    assert runs == {
        "along ψ₂": 2,
        "along ψ₂ and ψ₃": 2,
        "along φ and ψ": 2,
        "unbiased": 4,
    }  # two blocks a run
    assert (tmp_path / "free_energy.png").read_bytes().startswith(b"\x89PNG")
    examples["metadynamics_free_energy"].main(command)
    assert "effective frames" not in capsys.readouterr().out  # nothing was run again


def test_dihedrals_are_those_of_a_known_shape(examples):
    # Looking along the middle bond from the second atom, the last one is 60° clockwise of the first: +60 by IUPAC.
    turned = np.radians(60)
    frame = np.array([[1.0, 0, 0], [0, 0, 0], [0, 0, 1], [np.cos(turned), np.sin(turned), 1]])
    assert examples["explore"].dihedral(frame[None], [0, 1, 2, 3])[0] == pytest.approx(60)


def test_profiles_weigh_frames(examples):
    module = examples["metadynamics_free_energy"]
    angles = np.array([[-60.0, 0.0], [60.0, 0.0]])
    runs = [module.Run(angles, angles, np.array([3.0, weight]), 1.0) for weight in (1.0, 1.0)]
    energy, error = module.profile(runs, [run.angles[:, 0] for run in runs], np.array([-180, 0, 180]))
    np.testing.assert_allclose(energy, [0, module.KT * np.log(3)])
    np.testing.assert_allclose(error, 0, atol=1e-12)
    each = module.differences(runs, module.left_handed, module.left_half)
    np.testing.assert_allclose(each, module.KT * np.log(3))


def test_an_error_is_paid_for_with_simulation(examples):
    """Runs of 2 ns that deviate by s must go on for 2 s² ns in all until the mean is known to 1 kJ/mol."""
    module = examples["metadynamics_free_energy"]
    angles = np.array([[-60.0, 0.0], [-60.0, 150.0]])
    energies = np.array([1.0, 2.0, 3.0, 4.0])
    runs = [module.Run(angles, angles, np.array([np.exp(-F / module.KT), 1.0]), 2.0) for F in energies]
    biased = module.estimate("biased", "αR against extended", runs)
    assert biased.mean == pytest.approx(2.5)
    assert biased.ns_for_1_kJ_mol == pytest.approx(2 * energies.var(ddof=1))
    assert biased.standard_error == pytest.approx(np.sqrt(biased.ns_for_1_kJ_mol / (4 * 2)))
    assert np.isnan(module.estimate("biased", "αL against φ < 0", runs).ns_for_1_kJ_mol)
    longer = [module.Run(run.angles, run.coordinates, run.weights, 6.0) for run in runs]
    ratio, low, high = module.saving(module.estimate("", "αR against extended", longer), biased)
    assert ratio == pytest.approx(3)
    assert low < 3 < high


def test_cost_of_a_rare_basin_is_that_of_a_two_state_process(examples):
    module = examples["metadynamics_free_energy"]
    rng = np.random.default_rng(0)
    occupancy, stay, length = 0.02, 1.0, 5000.0
    shares = []
    for _ in range(400):
        inside = rng.exponential(stay, size=200)
        outside = rng.exponential(stay * (1 - occupancy) / occupancy, size=200)
        ends = np.cumsum(inside + outside)
        whole = ends < length
        shares.append(inside[whole].sum() / length)
    wanted = (module.KT * np.std(np.log(shares))) ** 2 * length
    assert module.unbiased_cost(occupancy, [(stay, True)]) == pytest.approx(wanted, rel=0.15)
    # A run that did not leave adds its time, but no escape.
    late = module.unbiased_cost(occupancy, [(stay, True), (3 * stay, False)])
    assert late == pytest.approx(4 * module.unbiased_cost(occupancy, [(stay, True)]))
    assert np.isnan(module.unbiased_cost(occupancy, [(stay, False)]))
