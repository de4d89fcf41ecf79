"""A map of heavy atoms, as README fits it, in a simulation of all atoms: matched by residue and name."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pytest

openmm = pytest.importorskip("openmm", reason="openmm is not installed")
from openmm import app, unit  # noqa: E402
from openmm_systems import energy_and_forces, new_simulation, topology_of  # noqa: E402

from ldmaps import LandmarkDiffusionMap, load  # noqa: E402
from ldmaps.datasets import alanine_dipeptide  # noqa: E402
from ldmaps.errors import AtomOrderWarning, InvalidInputError  # noqa: E402
from ldmaps.openmm import BiasLog, LandmarkReporter, bias_variable, coordinate_force  # noqa: E402

MOLECULE = alanine_dipeptide(stride=50)
HEAVY = np.asarray(MOLECULE.heavy_atoms)
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "enhanced_sampling.md"


@pytest.fixture(scope="module")
def model():
    labels = [
        f"{residue}{number}-{name}"
        for name, residue, number in zip(
            MOLECULE.atom_names, MOLECULE.residue_names, MOLECULE.residue_numbers, strict=True
        )
    ]
    fitted = LandmarkDiffusionMap(2, 2e-3, metric="rmsd", n_landmarks=20)
    fitted.fit(MOLECULE.frames[:, HEAVY].astype(np.float64))
    fitted.units_ = "nm"
    fitted.source_ = {
        "kind": "frames",
        "n_atoms": len(HEAVY),
        "atom_names": [str(MOLECULE.atom_names[atom]) for atom in HEAVY],
        "atom_labels": [labels[atom] for atom in HEAVY],
        "select": "not element H",
    }
    return fitted


def test_forces_act_on_the_atoms_of_the_same_names(model, caplog):
    simulation = new_simulation()
    with caplog.at_level(logging.INFO, "ldmaps"):
        force = coordinate_force(model, topology=simulation.topology)
    assert "matched by residue and name: ACE1-CH3 = " in caplog.text
    system = openmm.System()
    for _ in range(22):
        system.addParticle(1.0)
    system.addForce(force)
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    frame = MOLECULE.frames[7].astype(np.float64)
    context.setPositions(frame)
    energy, forces = energy_and_forces(context)
    psi, gradient = model.transform_with_gradient(frame[None, HEAVY])
    assert energy == pytest.approx(psi[0, 0], rel=1e-6)
    np.testing.assert_allclose(forces[HEAVY], -gradient[0, 0], atol=1e-6 * np.abs(gradient).max())


def test_reporters_embed_the_atoms_of_the_same_names(model, tmp_path):
    simulation = new_simulation()
    reporter, log = LandmarkReporter(model, 5), BiasLog(tmp_path / "bias.csv", model, 5)
    simulation.reporters += [reporter, log]
    simulation.step(5)
    log.close()
    positions = simulation.context.getState(positions=True).getPositions(asNumpy=True)
    psi = model.transform(np.array(positions.value_in_unit(unit.nanometer))[None, HEAVY])[0]
    np.testing.assert_allclose(reporter.last.coordinates[0], psi, rtol=1e-6)
    logged = np.genfromtxt(tmp_path / "bias.csv", delimiter=",", names=True)
    assert logged["psi2"] == pytest.approx(psi[0], rel=1e-6)


def test_residues_with_other_numbers_are_matched_with_a_warning(model):
    topology = topology_of(MOLECULE)
    for residue in topology.residues():
        residue.id = str(int(residue.id) + 40)
    with pytest.warns(AtomOrderWarning, match="numbers its residues differently.*ACE1 of the map as ACE41"):
        variable = bias_variable(model, topology=topology)
    assert variable.biasWidth > 0


def test_names_that_cannot_be_matched(model):
    topology = topology_of(MOLECULE)
    next(atom for atom in topology.atoms() if atom.name == "CB").name = "CX"
    with pytest.raises(InvalidInputError, match="22 atoms, but the map takes 10.*no ALA2-CB.*with atoms="):
        coordinate_force(model, topology=topology)
    coordinate_force(model, atoms=HEAVY, topology=topology, ignore_names=True)


def test_the_page_runs_as_it_is(model, tmp_path, monkeypatch):
    """The first program of the page, with fewer steps; it saves the bias, so that its folder must exist."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    model.save("map.ldm")
    stored = load("map.ldm")
    assert stored.source_["atom_labels"]
    code = code.replace("saveFrequency=12500", "saveFrequency=250").replace("500_000", "500")
    topology = topology_of(MOLECULE)
    system = app.ForceField("amber99sbildn.xml").createSystem(topology, constraints=app.HBonds)
    integrator = openmm.LangevinMiddleIntegrator(300, 1.0, 0.002)
    names = {
        "topology": topology,
        "system": system,
        "integrator": integrator,
        "positions": MOLECULE.frames[0],
    }
    started = code.replace(
        "metadynamics.step(", "simulation.context.setPositions(positions)\nmetadynamics.step("
    )
    exec(started, names)
    names["simulation"].reporters[0].close()
    assert list((tmp_path / "bias").glob("bias_*.npy"))
    assert len((tmp_path / "bias.csv").read_text().splitlines()) == 2
