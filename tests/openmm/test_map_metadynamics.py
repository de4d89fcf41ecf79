"""Metadynamics that measures distances to landmarks once per step, compared with OpenMM's own."""

from __future__ import annotations

import csv
import itertools
import subprocess
import sys

import numpy as np
import pytest

openmm = pytest.importorskip("openmm", reason="openmm is not installed")
from openmm import app  # noqa: E402
from openmm_systems import energy_and_forces, topology_of  # noqa: E402

from ldmaps import LandmarkDiffusionMap  # noqa: E402
from ldmaps.datasets import alanine_dipeptide  # noqa: E402
from ldmaps.errors import InvalidInputError  # noqa: E402
from ldmaps.metrics import RMSD, Features  # noqa: E402
from ldmaps.openmm import BiasLog, MapMetadynamics, bias_variable, boundary_restraint, coordinate_force  # noqa: E402

MOLECULE = alanine_dipeptide(stride=50)
FRAMES = MOLECULE.frames.astype(np.float64)
TOPOLOGY = topology_of(MOLECULE)
HEAVY = np.asarray(MOLECULE.heavy_atoms)
#: Metrics, and the atoms that they compare.
KINDS = {
    "heavy atoms": (RMSD(), HEAVY),
    "features": (
        Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]], distances=[[4, 16]]),
        np.arange(22),
    ),
}
GRID, STRENGTH, MARGIN = 60, 5000.0, 0.2


@pytest.fixture(scope="module", params=KINDS)
def mapped(request):
    """A map of four landmarks, and its atoms."""
    return fitted(request.param)


def fitted(kind):
    metric, atoms = KINDS[kind]
    model = LandmarkDiffusionMap(2, "connected", metric=metric, n_landmarks=4, extension="distilled")
    return model.fit(FRAMES[:, atoms]), atoms


def variables_of(model, atoms, count=2):
    given = {"atoms": atoms, "topology": TOPOLOGY, "grid_width": GRID, "native": True}
    return [bias_variable(model, place, **given) for place in range(count)]


def simulated(system, platform="Reference"):
    integrator = openmm.LangevinMiddleIntegrator(300, 1.0, 0.002)
    integrator.setRandomNumberSeed(3)
    simulation = app.Simulation(TOPOLOGY, system, integrator, openmm.Platform.getPlatformByName(platform))
    simulation.context.setPositions(FRAMES[0])
    return simulation


def free_particles():
    system = openmm.System()
    for _ in range(22):
        system.addParticle(12.0)
    return system


def molecule():
    return app.ForceField("amber99sbildn.xml").createSystem(TOPOLOGY, constraints=app.HBonds)


def with_openmm(system, variables, *bias):
    return app.Metadynamics(system, variables, 300, 10, 1.0, *bias)


def with_one_force(system, variables, *bias, **restraint):
    return MapMetadynamics(system, variables, 300, 10, 1.0, *bias, **restraint)


def write_bias(folder, count):
    """Write a bias as another run would have."""
    axis = np.linspace(0, 3, GRID)
    bias = np.sin(axis) if count == 1 else np.add.outer(np.sin(axis), np.cos(2 * axis))
    np.save(folder / "bias_1_1.npy", 8 * bias)


@pytest.mark.parametrize("platform", ["Reference", "CPU"])
@pytest.mark.parametrize("count", [1, 2])
def test_energy_and_forces_are_those_of_separate_forces(mapped, platform, count, tmp_path):
    """Over 200 frames, of which some are beyond the domain."""
    model, atoms = mapped
    write_bias(tmp_path, count)
    one, many = free_particles(), free_particles()
    bias = 20, 100, str(tmp_path)
    ours = with_one_force(one, variables_of(model, atoms, count), *bias, restraint=STRENGTH, margin=MARGIN)
    theirs = with_openmm(many, variables_of(model, atoms, count), *bias)
    restraint = {"margin": MARGIN, "atoms": atoms, "topology": TOPOLOGY, "native": True}
    many.addForce(boundary_restraint(model, STRENGTH, **restraint))
    assert one.getNumForces() == 1
    contexts = [simulated(system, platform).context for system in (one, many)]
    frames = FRAMES[:: len(FRAMES) // 200][:200] * np.where(np.arange(200) % 10, 1.0, 2.5)[:, None, None]
    rows = []
    for frame in frames:
        for context in contexts:
            context.setPositions(frame)
        rows.append([energy_and_forces(context) for context in contexts])
    energies = np.array([[energy for energy, _ in row] for row in rows])
    forces = np.array([[force for _, force in row] for row in rows])
    assert np.ptp(energies[:, 0]) > 1
    assert np.abs(energies[:, 0] - energies[:, 1]).max() < 1e-6 * np.ptp(energies[:, 0])
    assert np.abs(forces[:, 0] - forces[:, 1]).max() < 1e-6 * np.abs(forces).max()
    # The coordinates, and the bias without the restraint, of a frame beyond the domain.
    simulation = simulated(one, platform)
    for context in (simulation.context, contexts[1]):
        context.setPositions(frames[0])
    found = ours.getCollectiveVariables(simulation)
    np.testing.assert_allclose(found, model.transform(frames[:1, atoms])[0, :count], rtol=1e-5)
    bias = contexts[1].getState(energy=True, groups={theirs._force.getForceGroup()}).getPotentialEnergy()
    assert energies[0, 0] > 1 + bias._value
    assert ours.bias_energy(simulation.context) == pytest.approx(bias._value, abs=1e-3)


def test_a_run_is_that_of_openmm(mapped):
    """With the same seed, hills are at the same places and as high."""
    model, atoms = mapped
    grids = []
    for made in (with_openmm, with_one_force):
        system = molecule()
        metadynamics = made(system, variables_of(model, atoms), 20)
        simulation = simulated(system)
        simulation.minimizeEnergy(maxIterations=10)
        simulation.context.setVelocitiesToTemperature(300, 5)
        metadynamics.step(simulation, 100)
        grids.append(metadynamics.getFreeEnergy()._value)
    assert np.ptp(grids[0]) > 1
    np.testing.assert_allclose(grids[0], grids[1], atol=1e-4 * np.ptp(grids[0]))


def test_the_restraint_is_no_part_of_the_bias(tmp_path):
    """Far beyond the domain the restraint costs much, the first hill is as high as it was asked for all the same."""
    model, atoms = fitted("heavy atoms")
    system = free_particles()
    metadynamics = with_one_force(system, variables_of(model, atoms, 1), 1, restraint=1e5)
    simulation = simulated(system)
    simulation.context.setPositions(3 * FRAMES[0])
    simulation.reporters.append(BiasLog(tmp_path / "log.csv", model, 1, bias=metadynamics, atoms=atoms))
    state = simulation.context.getState(energy=True)
    assert state.getPotentialEnergy()._value > 500
    simulation.integrator.setStepSize(1e-6)  # stays there
    metadynamics.step(simulation, 2)
    simulation.reporters[0].close()
    # The second hill is lower by the first one.
    expected = 1 + np.exp(-1 / (8.31446261815324e-3 * 2700))
    assert metadynamics._totalBias.max() == pytest.approx(expected, rel=0.01)
    with (tmp_path / "log.csv").open() as stream:
        logged = [float(row["bias_kJ_mol"]) for row in csv.DictReader(stream)]
    assert logged == pytest.approx([0, 1], abs=0.02)


def test_a_run_resumes_as_if_it_had_not_stopped(tmp_path):
    """From the saved bias and a checkpoint; either class reads the files of the other."""
    model, atoms = fitted("features")

    def started(made, folder):
        folder.mkdir(exist_ok=True)
        system = molecule()
        metadynamics = made(system, variables_of(model, atoms, 1), 20, 100, str(folder))
        return metadynamics, simulated(system)

    whole, simulation = started(with_one_force, tmp_path / "whole")
    simulation.minimizeEnergy(maxIterations=10)
    simulation.context.setVelocitiesToTemperature(300, 5)
    simulation.saveCheckpoint(str(tmp_path / "begin.chk"))
    whole.step(simulation, 200)
    first, simulation = started(with_one_force, tmp_path / "parts")
    simulation.loadCheckpoint(str(tmp_path / "begin.chk"))
    first.step(simulation, 100)
    simulation.saveCheckpoint(str(tmp_path / "middle.chk"))
    theirs, _ = started(with_openmm, tmp_path / "parts")
    np.testing.assert_allclose(theirs.getFreeEnergy()._value, first.getFreeEnergy()._value, rtol=1e-9)
    second, simulation = started(with_one_force, tmp_path / "parts")
    simulation.loadCheckpoint(str(tmp_path / "middle.chk"))
    second.step(simulation, 100)
    expected = whole.getFreeEnergy()._value
    assert np.ptp(expected) > 5
    np.testing.assert_allclose(second.getFreeEnergy()._value, expected, atol=1e-6 * np.ptp(expected))


def test_a_system_of_it_is_read_without_ldmaps(tmp_path):
    model, atoms = fitted("features")
    write_bias(tmp_path, 2)
    system = free_particles()
    with_one_force(system, variables_of(model, atoms), 20, 100, str(tmp_path), restraint=STRENGTH)
    context = simulated(system).context
    context.setPositions(1.2 * FRAMES[7])
    (tmp_path / "system.xml").write_text(openmm.XmlSerializer.serialize(system))
    np.save(tmp_path / "frame.npy", 1.2 * FRAMES[7])
    code = """
import sys
sys.modules["ldmaps"] = None
import numpy, openmm
system = openmm.XmlSerializer.deserialize(open("system.xml").read())
platform = openmm.Platform.getPlatformByName("Reference")
context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
context.setPositions(numpy.load("frame.npy"))
print(repr(context.getState(energy=True).getPotentialEnergy()._value))
"""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert float(done.stdout) == pytest.approx(energy_and_forces(context)[0], rel=1e-9), done.stderr


def test_variables_without_distances_in_common():
    model, atoms = fitted("heavy atoms")
    given = {"atoms": atoms, "topology": TOPOLOGY}
    own = bias_variable(model, 0, native=True, **given)
    for others in ([bias_variable(model, 1, native=False, **given)], []):
        variables = [own, *others] if others else []
        with pytest.raises(InvalidInputError, match="of a map that OpenMM computes by itself"):
            with_one_force(free_particles(), variables, 20)
    model, atoms = fitted("features")
    other = bias_variable(model, 0, atoms=atoms, topology=TOPOLOGY, native=True)
    with pytest.raises(InvalidInputError, match="coordinates of one map and the same atoms"):
        with_one_force(free_particles(), [own, other], 20)


def test_functions_on_a_map_are_biased_under_their_names(tmp_path):
    """Slow modes and committors, by OpenMM's own forces and by Python."""
    model = LandmarkDiffusionMap(2, "connected", metric=RMSD(), n_landmarks=6, extension="distilled")
    slow = model.fit(FRAMES[:, HEAVY]).slow_modes(FRAMES[:, HEAVY], lag=1, n_modes=1)
    first = model.transform(FRAMES[:, HEAVY])[:, 0]
    low, high = np.quantile(first, [0.3, 0.8])
    chance = model.committor(FRAMES[:, HEAVY], source=first < low, target=first > high, lag=1)
    given = {"atoms": HEAVY, "topology": TOPOLOGY}
    for (function, name), native in itertools.product(((slow, "slow1"), (chance, "q")), (True, False)):
        assert function.coordinate_names_ == [name]
        psi, gradient = function.transform_with_gradient(FRAMES[7:8, HEAVY])
        system = free_particles()
        system.addForce(coordinate_force(function, name, native=native, **given))
        context = simulated(system).context
        context.setPositions(FRAMES[7])
        energy, forces = energy_and_forces(context)
        assert energy == pytest.approx(psi[0, 0], rel=1e-6)
        np.testing.assert_allclose(forces[HEAVY], -gradient[0, 0], atol=1e-6 * np.abs(gradient).max())
    system = molecule()
    variable = bias_variable(slow, "slow1", grid_width=GRID, native=True, **given)
    metadynamics = with_one_force(system, [variable], 20, restraint=STRENGTH)
    simulation = simulated(system)
    simulation.minimizeEnergy(maxIterations=10)
    simulation.reporters.append(BiasLog(tmp_path / "log.csv", slow, 50, bias=metadynamics, atoms=HEAVY))
    metadynamics.step(simulation, 100)
    simulation.reporters[0].close()
    assert np.ptp(metadynamics.getFreeEnergy()._value) > 0.5
    assert (tmp_path / "log.csv").read_text().startswith("step,time,slow1,bias_kJ_mol,")


def test_a_coordinate_that_python_computes_is_chosen_by_name():
    model, atoms = fitted("heavy atoms")
    energies = []
    for coordinate in ("psi3", 1):
        system = free_particles()
        given = {"atoms": atoms, "topology": TOPOLOGY, "native": False}
        system.addForce(coordinate_force(model, coordinate, **given))
        energies.append(energy_and_forces(simulated(system).context)[0])
    assert energies[0] == energies[1] == pytest.approx(model.transform(FRAMES[:1, atoms])[0, 1], rel=1e-6)
