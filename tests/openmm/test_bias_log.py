"""The CSV file of a biased run."""

from __future__ import annotations

import csv
import warnings

import numpy as np
import pytest

openmm = pytest.importorskip("openmm", reason="openmm is not installed")
from openmm import app, unit  # noqa: E402

from ldmaps import LandmarkDiffusionMap  # noqa: E402
from ldmaps.analysis.own_points import read_table  # noqa: E402
from ldmaps.errors import InvalidInputError, OutsideDomainWarning  # noqa: E402
from ldmaps.metrics import RMSD  # noqa: E402
from ldmaps.openmm import BiasLog, bias_variable  # noqa: E402

SHAPE = np.array([[0.0, 0, 0], [0.15, 0, 0], [0.2, 0.14, 0], [0.35, 0.16, 0.05]])


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    frames = SHAPE * rng.uniform(0.8, 1.2, size=(100, 1, 1)) + 0.01 * rng.normal(size=(100, 4, 3))
    return LandmarkDiffusionMap(2, metric=RMSD(), n_landmarks=20, extension="nystrom").fit(frames)


def topology():
    made = app.Topology()
    residue = made.addResidue("MOL", made.addChain())
    for name in ("A", "B", "C", "D", "W"):
        made.addAtom(name, None, residue)
    return made


def simulation_of(model, stretch=1.0, biased=True):
    """A molecule held together by springs, and a particle that the map does not know."""
    system = openmm.System()
    for _ in range(5):
        system.addParticle(12.0)
    springs = openmm.HarmonicBondForce()
    for i in range(4):
        for j in range(i):
            length = stretch * float(np.linalg.norm(SHAPE[i] - SHAPE[j]))
            springs.addBond(i, j, length, 5000.0)
    system.addForce(springs)
    metadynamics = None
    if biased:
        variable = bias_variable(model, 0, atoms=range(4), grid_width=50)
        metadynamics = app.Metadynamics(system, [variable], 300, 5, 1.0, 10)
    integrator = openmm.LangevinMiddleIntegrator(300, 1.0, 0.001)
    integrator.setRandomNumberSeed(1)
    simulation = app.Simulation(
        topology(), system, integrator, openmm.Platform.getPlatformByName("Reference")
    )
    simulation.context.setPositions(np.vstack([stretch * SHAPE, [[2.0, 2, 2]]]))
    return simulation, metadynamics


def rows_of(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_line_holds_variables_bias_and_verdict(model, tmp_path):
    simulation, metadynamics = simulation_of(model)
    log = BiasLog(tmp_path / "bias.csv", model, 20, bias=metadynamics, atoms=range(4))
    simulation.reporters.append(log)
    metadynamics.step(simulation, 100)
    rows = rows_of(log.path)
    assert list(rows[0]) == ["step", "time", "psi2", "psi3", "bias_kJ_mol", "distance", "inside"]
    assert [int(row["step"]) for row in rows] == [20, 40, 60, 80, 100]
    assert float(rows[-1]["time"]) == pytest.approx(0.1)
    state = simulation.context.getState(positions=True)
    frame = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer)[None, :4]
    last = rows[-1]
    np.testing.assert_allclose(
        [float(last["psi2"]), float(last["psi3"])], model.transform(frame)[0], rtol=1e-6
    )
    coverage = model.coverage(frame)
    assert float(last["distance"]) == pytest.approx(coverage.distance[0], rel=1e-4)
    assert bool(int(last["inside"])) == coverage.inside[0]
    assert float(last["bias_kJ_mol"]) > 0.5  # ten bumps of up to 1 kJ/mol
    log.close()
    shown = read_table(str(log.path), model)  # ldmaps report --data bias.csv
    assert shown["points"].shape == (5, 2)
    assert {"bias_kJ_mol", "inside"} <= shown["columns"].keys()


def test_a_run_goes_on_in_the_same_file(model, tmp_path):
    path = tmp_path / "bias.csv"
    for _ in range(2):
        simulation, metadynamics = simulation_of(model)
        log = BiasLog(path, model, 10, bias=metadynamics, atoms=range(4), append=True)
        simulation.reporters.append(log)
        metadynamics.step(simulation, 30)
        log.close()
    assert [int(row["step"]) for row in rows_of(path)] == [10, 20, 30, 10, 20, 30]
    with pytest.raises(InvalidInputError, match="exists already; pass append=True"):
        BiasLog(path, model, 10)
    path.write_text("step,something\n")
    with pytest.raises(InvalidInputError, match="it was written by another run"):
        BiasLog(path, model, 10, append=True)


def logged(model, path, first, last, every=10):
    """Run from the step ``first`` to ``last``, as from a checkpoint, and log."""
    simulation, _ = simulation_of(model, biased=False)
    simulation.currentStep = first
    log = BiasLog(path, model, every, atoms=range(4), append=True)
    simulation.reporters.append(log)
    simulation.step(last - first)
    log.close()
    return [int(row["step"]) for row in rows_of(path)]


def test_steps_taken_again_after_a_checkpoint_are_logged_once(model, tmp_path):
    path = tmp_path / "bias.csv"
    assert logged(model, path, 0, 50) == [10, 20, 30, 40, 50]
    before = path.read_bytes().splitlines()
    assert logged(model, path, 25, 70) == [10, 20, 30, 40, 50, 60, 70]
    assert path.read_bytes().splitlines()[:3] == before[:3]
    # A run that begins before all of the log is another one, and only the last one is cut back.
    assert logged(model, path, 0, 30) == [10, 20, 30, 40, 50, 60, 70, 10, 20, 30]
    assert logged(model, path, 10, 20) == [10, 20, 30, 40, 50, 60, 70, 10, 20]
    # What a crash left of a line goes.
    with path.open("ab") as stream:
        stream.write(b"30,0.03,0.1")
    assert logged(model, path, 20, 40) == [10, 20, 30, 40, 50, 60, 70, 10, 20, 30, 40]
    assert [entry.name for entry in tmp_path.iterdir()] == ["bias.csv"]


def test_a_simulation_that_goes_back_to_a_checkpoint_logs_on(model, tmp_path):
    simulation, _ = simulation_of(model, biased=False)
    log = BiasLog(tmp_path / "bias.csv", model, 10, atoms=range(4))
    simulation.reporters.append(log)
    simulation.step(40)
    simulation.currentStep = 20
    simulation.step(30)
    log.close()
    assert [int(row["step"]) for row in rows_of(log.path)] == [10, 20, 30, 40, 50]


def test_a_log_with_other_lines_is_left_as_it_is(model, tmp_path):
    path = tmp_path / "bias.csv"
    logged(model, path, 0, 20)
    path.write_bytes(path.read_bytes() + b"something else\r\n")
    before = path.read_bytes()
    with pytest.raises(
        InvalidInputError, match="'something else', which does not begin with a step; remove it"
    ):
        logged(model, path, 10, 30)
    assert path.read_bytes() == before


def test_a_run_outside_the_map_is_warned_of_once(model, tmp_path):
    simulation, _ = simulation_of(model, stretch=2.5, biased=False)
    simulation.reporters.append(BiasLog(tmp_path / "out.csv", model, 1, atoms=range(4)))
    with pytest.warns(
        OutsideDomainWarning, match="200 of the last 200 frames were outside.*boundary_restraint"
    ):
        simulation.step(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulation.step(10)
    assert rows_of(tmp_path / "out.csv")[0]["bias_kJ_mol"] == ""
    simulation.reporters[0].close()


def test_a_run_inside_the_map_is_not_warned_of(model, tmp_path):
    simulation, _ = simulation_of(model, biased=False)
    simulation.reporters.append(BiasLog(tmp_path / "in.csv", model, 1, atoms=range(4)))
    simulation.step(220)
    assert np.mean([int(row["inside"]) for row in rows_of(tmp_path / "in.csv")]) > 0.5
    simulation.reporters[0].close()


def test_wrong_settings(model, tmp_path):
    with pytest.raises(InvalidInputError, match="report_interval must be a whole number"):
        BiasLog(tmp_path / "x.csv", model, 0)
    with pytest.raises(InvalidInputError, match="no folder .*nowhere.* make it first"):
        BiasLog(tmp_path / "nowhere" / "x.csv", model, 10)
    for bias in ("metadynamics", 7, {32}):
        with pytest.raises(InvalidInputError, match="must be the Metadynamics run, or a set of force groups"):
            BiasLog(tmp_path / "x.csv", model, 10, bias=bias)
    simulation, _ = simulation_of(model, biased=False)
    simulation.reporters.append(BiasLog(tmp_path / "x.csv", model, 10))
    with pytest.raises(InvalidInputError, match="the simulation has 5 atoms, but the map takes 4"):
        simulation.step(1)
