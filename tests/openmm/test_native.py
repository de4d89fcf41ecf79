"""Coordinates and walls as forces of OpenMM's own, compared with the map."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

openmm = pytest.importorskip("openmm", reason="openmm is not installed")
from openmm import app, unit  # noqa: E402
from openmm_systems import context_of, energy_and_forces, topology_of  # noqa: E402

from ldmaps import LandmarkDiffusionMap  # noqa: E402
from ldmaps.datasets import alanine_dipeptide  # noqa: E402
from ldmaps.errors import InvalidInputError  # noqa: E402
from ldmaps.extension.domain import excess_with_gradient  # noqa: E402
from ldmaps.metrics import RMSD, Features  # noqa: E402
from ldmaps.openmm import bias_variable, boundary_restraint, coordinate_force  # noqa: E402

MOLECULE = alanine_dipeptide(stride=50)
FRAMES = MOLECULE.frames.astype(np.float64)
TOPOLOGY = topology_of(MOLECULE)
PLATFORMS = ("Reference", "CPU")
HEAVY = np.asarray(MOLECULE.heavy_atoms)
KINDS = {
    "rmsd": RMSD(),
    "rmsd of some": RMSD([1.0] * 11 + [0.0] * 11),
    "torsions": Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]]),
    "features": Features(
        22,
        dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]],
        angles=[[6, 8, 14]],
        distances=[[4, 16]],
        contacts=[[5, 17]],
    ),
}


def fitted(metric, frames=FRAMES, n_landmarks=4):
    return LandmarkDiffusionMap(
        2, "connected", metric=metric, n_landmarks=n_landmarks, extension="distilled"
    ).fit(frames)


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return fitted(KINDS[request.param])


@pytest.mark.parametrize("platform", PLATFORMS)
def test_values_and_forces_are_the_maps(model, platform):
    context = context_of(coordinate_force(model, 0, topology=TOPOLOGY, native=True), FRAMES[0], platform)
    frames = FRAMES[:: len(FRAMES) // 200][:200]
    psi, gradient = model.transform_with_gradient(frames)
    span, steepest = np.ptp(model.embedder_.coefficients[0]), np.abs(gradient[:, 0]).max()
    for frame, value, slope in zip(frames, psi[:, 0], gradient[:, 0], strict=True):
        context.setPositions(frame)
        energy, forces = energy_and_forces(context)
        assert abs(energy - value) < 1e-6 * span
        assert np.abs(forces + slope).max() < 1e-6 * steepest


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_wall_is_the_same(model, platform):
    margin = 0.1
    wall = boundary_restraint(model, 500.0, margin=margin, topology=TOPOLOGY, native=True)
    context = context_of(wall, FRAMES[0], platform)
    assert energy_and_forces(context)[0] == 0
    assert not energy_and_forces(context)[1].any()
    frames = FRAMES[:3] * np.array([1.2, 1.5, 3.0])[:, None, None]
    frames[:, 5:9] += np.array([0.0, 0.2, -0.1])
    excess, gradient = excess_with_gradient(model.embedder_, frames)
    stretch = np.maximum(excess - margin * np.sqrt(model.epsilon_), 0.0)
    assert stretch.max() > 0
    for frame, beyond, slope in zip(frames, stretch, gradient, strict=True):
        context.setPositions(frame)
        energy, forces = energy_and_forces(context)
        assert energy == pytest.approx(250 * beyond**2, rel=1e-5)
        scale = np.abs(slope).max() or 1.0
        np.testing.assert_allclose(forces, -500 * beyond * slope, atol=1e-5 * 500 * max(beyond, 1e-9) * scale)


def test_far_away_and_at_a_landmark_all_is_finite():
    """Exponents are relative to the smallest; at a landmark RMSD has no slope of its own."""
    exact = LandmarkDiffusionMap(2, "connected", metric="rmsd", n_landmarks=6, extension="nystrom").fit(
        FRAMES
    )
    context = context_of(coordinate_force(exact, 0, topology=TOPOLOGY, native=True), 30 * FRAMES[0])
    for frame in (30 * FRAMES[0], FRAMES[exact.landmark_indices_[2]]):
        context.setPositions(frame)
        energy, forces = energy_and_forces(context)
        assert energy == pytest.approx(exact.transform(frame[None])[0, 0], rel=1e-5)
        assert np.isfinite(forces).all()


def test_a_file_of_it_needs_neither_ldmaps_nor_pickles(model, tmp_path):
    force = coordinate_force(model, 1, topology=TOPOLOGY, native=True)
    text = openmm.XmlSerializer.serialize(force)
    (tmp_path / "force.xml").write_text(text)
    np.save(tmp_path / "frame.npy", FRAMES[7])
    code = """
import sys
sys.modules["ldmaps"] = None
import numpy, openmm
force = openmm.XmlSerializer.deserialize(open("force.xml").read())
system = openmm.System()
for _ in range(22):
    system.addParticle(1.0)
system.addForce(force)
platform = openmm.Platform.getPlatformByName("Reference")
context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
context.setPositions(numpy.load("frame.npy"))
print(repr(context.getState(energy=True).getPotentialEnergy()._value))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert float(done.stdout) == pytest.approx(model.transform(FRAMES[7:8])[0, 1], rel=1e-6), done.stderr


def test_metadynamics_takes_it_for_some_of_the_atoms(tmp_path):
    model = fitted("rmsd", FRAMES[:, HEAVY])
    system = app.ForceField("amber99sbildn.xml").createSystem(TOPOLOGY, constraints=app.HBonds)
    variables = [
        bias_variable(model, place, atoms=HEAVY, topology=TOPOLOGY, grid_width=60, native=True)
        for place in range(2)
    ]
    metadynamics = app.Metadynamics(system, variables, 300, 10, 1.0, 20, 100, str(tmp_path))
    integrator = openmm.LangevinMiddleIntegrator(300, 1.0, 0.002)
    simulation = app.Simulation(TOPOLOGY, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(FRAMES[0])
    simulation.minimizeEnergy(maxIterations=10)
    metadynamics.step(simulation, 200)
    frame = (
        simulation.context.getState(positions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer)
    )
    here = metadynamics.getCollectiveVariables(simulation)
    np.testing.assert_allclose(here, model.transform(np.array(frame)[None, HEAVY])[0], rtol=1e-5)
    assert metadynamics.getFreeEnergy().min()._value < -0.5


def test_metadynamics_restarts_with_the_bias_of_the_run_before(tmp_path):
    """From the files that it saved, in another system, also with the forces read from XML."""
    model = fitted("rmsd", FRAMES[:, HEAVY])
    grid = 60

    def started(from_xml):
        system = app.ForceField("amber99sbildn.xml").createSystem(TOPOLOGY, constraints=app.HBonds)
        variable = bias_variable(model, 0, atoms=HEAVY, topology=TOPOLOGY, grid_width=grid, native=True)
        assert isinstance(variable.force, openmm.CustomCVForce)
        if from_xml:
            variable.force = openmm.XmlSerializer.clone(variable.force)
        metadynamics = app.Metadynamics(system, [variable], 300, 10, 1.0, 20, 100, str(tmp_path))
        integrator = openmm.LangevinMiddleIntegrator(300, 1.0, 0.002)
        reference = openmm.Platform.getPlatformByName("Reference")
        simulation = app.Simulation(TOPOLOGY, system, integrator, reference)
        simulation.context.setPositions(FRAMES[0])
        return metadynamics, simulation

    first, simulation = started(from_xml=False)
    simulation.minimizeEnergy(maxIterations=10)
    first.step(simulation, 200)
    before = first.getFreeEnergy()._value
    assert np.ptp(before) > 0.5
    for from_xml in (False, True):
        again, simulation = started(from_xml)
        np.testing.assert_allclose(again.getFreeEnergy()._value, before, rtol=1e-6)
        # The bias that was loaded acts on the atoms, too.
        here = again.getCollectiveVariables(simulation)[0]
        variable = again.variables[0]
        places = np.linspace(variable.minValue, variable.maxValue, grid)
        state = simulation.context.getState(energy=True, groups={again._force.getForceGroup()})
        scale = (again.temperature + again._deltaT) / again._deltaT
        expected = np.interp(here, places, -before / scale)
        assert state.getPotentialEnergy()._value == pytest.approx(expected, rel=0.05, abs=0.05)


def test_python_is_used_where_openmm_cannot_and_the_reason_is_logged(caplog):
    weighted, many = fitted(RMSD(MOLECULE.masses)), fitted(RMSD(), n_landmarks=9)
    reasons = {
        "has no weights, and the map's RMSD has": (weighted, {"topology": TOPOLOGY}),
        "9 landmarks, and OpenMM differentiates": (many, {"topology": TOPOLOGY}),
        "4 kinds of features for each of 5 landmarks are 20 forces": (
            fitted(KINDS["features"], n_landmarks=5),
            {"topology": TOPOLOGY},
        ),
        "needs the number of particles": (fitted(RMSD()), {"atoms": range(22)}),
    }
    for reason, (model, given) in reasons.items():
        caplog.clear()
        with caplog.at_level(logging.INFO, "ldmaps"):
            force = coordinate_force(model, 0, **given)
        assert reason in caplog.text
        assert isinstance(force, openmm.PythonForce)
        with pytest.raises(InvalidInputError, match=f"native=True is not possible: .*{reason}"):
            coordinate_force(model, 0, native=True, **given)
    own = fitted(RMSD())
    assert isinstance(coordinate_force(own, 0, topology=TOPOLOGY), openmm.CustomCVForce)
    assert isinstance(boundary_restraint(own, 1.0, topology=TOPOLOGY), openmm.CustomCVForce)
    assert isinstance(coordinate_force(own, 0, topology=TOPOLOGY, native=False), openmm.PythonForce)
