"""The OpenMM reporter on real simulations: alanine dipeptide, and a periodic box."""

from __future__ import annotations

import numpy as np
import pytest

openmm = pytest.importorskip("openmm", reason="openmm is not installed")
from openmm import app, unit  # noqa: E402
from openmm_systems import new_simulation, topology_of  # noqa: E402

from ldmaps import LandmarkDiffusionMap  # noqa: E402
from ldmaps.datasets import alanine_dipeptide  # noqa: E402
from ldmaps.errors import InvalidInputError  # noqa: E402
from ldmaps.metrics import RMSD, Features  # noqa: E402
from ldmaps.openmm import (  # noqa: E402
    Branch,
    LandmarkReporter,
    Save,
    Snapshot,
    Stop,
    StopSimulation,
    run_until,
)
from ldmaps.regions import Box, RegionTracker  # noqa: E402
from ldmaps.streaming import Sink  # noqa: E402

MOLECULE = alanine_dipeptide(stride=50)


class Kept(Sink):
    def __init__(self):
        self.embedded = []

    def write(self, embedded):
        self.embedded.append(embedded)


class Positions:
    """A plain reporter that keeps the positions, for an oracle."""

    def __init__(self, interval):
        self.interval = interval
        self.frames, self.steps = [], []

    def describeNextReport(self, simulation):
        return {
            "steps": self.interval - simulation.currentStep % self.interval,
            "periodic": False,
            "include": ["positions"],
        }

    def report(self, simulation, state):
        self.frames.append(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
        self.steps.append(simulation.currentStep)


def names_of(molecule):
    labels = [
        f"{r}{n}-{a}"
        for a, r, n in zip(molecule.atom_names, molecule.residue_names, molecule.residue_numbers, strict=True)
    ]
    return {
        "kind": "frames",
        "n_atoms": molecule.n_atoms,
        "atom_names": list(molecule.atom_names),
        "atom_labels": labels,
    }


@pytest.fixture(scope="module")
def model():
    fitted = LandmarkDiffusionMap(2, 2e-3, metric=RMSD(MOLECULE.masses), n_landmarks=60).fit(MOLECULE.frames)
    fitted.units_ = "nm"
    fitted.source_ = names_of(MOLECULE)
    return fitted


@pytest.fixture(scope="module")
def heavy_model():
    fitted = LandmarkDiffusionMap(2, 2e-3, metric="rmsd", n_landmarks=60)
    return fitted.fit(MOLECULE.frames[:, MOLECULE.heavy_atoms])


@pytest.fixture(scope="module")
def feature_model():
    torsions = Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]], distances=[[4, 16]])
    return LandmarkDiffusionMap(2, "connected", metric=torsions, n_landmarks=60).fit(MOLECULE.frames)


def anywhere(**more):
    return RegionTracker({"anywhere": Box({"psi2": (None, None)})}, **more)


# -- embedding -----------------------------------------------------------------------


@pytest.mark.parametrize("fitted", ["model", "feature_model"])
def test_embeds_what_the_model_embeds_when_it_is_due(fitted, request):
    model = request.getfixturevalue(fitted)
    simulation, sink, plain = new_simulation(), Kept(), Positions(20)
    reporter = LandmarkReporter(model, 20, sink=sink, tracker=anywhere())
    simulation.reporters += [plain, reporter]
    simulation.step(110)
    assert plain.steps == [20, 40, 60, 80, 100]
    assert [int(one.numbers[0]) for one in sink.embedded] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose([one.times[0] for one in sink.embedded], 0.002 * np.array(plain.steps))
    frames = np.array(plain.frames)
    np.testing.assert_allclose(
        np.concatenate([one.coordinates for one in sink.embedded]),
        model.transform(frames),
        rtol=1e-4,
        atol=1e-7,
    )
    expected = model.coverage(frames)
    np.testing.assert_allclose(
        np.concatenate([one.coverage.distance for one in sink.embedded]), expected.distance, rtol=1e-4
    )
    np.testing.assert_array_equal([one.regions[0] for one in sink.embedded], 0)
    np.testing.assert_allclose(np.concatenate([one.points for one in sink.embedded]), frames)
    assert reporter.last is sink.embedded[-1]
    assert reporter.n_reports == 5


def test_a_frame_that_cannot_be_embedded_is_rejected_and_the_run_goes_on(model):
    simulation, sink = new_simulation(), Kept()
    reporter = LandmarkReporter(model, 1, sink=sink, tracker=anywhere())
    simulation.reporters.append(reporter)
    simulation.step(1)
    good = reporter.last

    class Torn:
        def getPositions(self, asNumpy):
            return unit.Quantity(np.full((22, 3), np.nan), unit.nanometer)

        def getTime(self):
            return 0.002 * unit.picosecond

    reporter.report(simulation, Torn())
    assert [(one.number, one.reason) for one in sink.embedded[1].rejected] == [
        (1, "nan at atom 0 is not a finite number")
    ]
    assert len(sink.embedded[1]) == 0
    assert reporter.last is good
    simulation.step(1)
    assert reporter.last.numbers.tolist() == [2]


def test_asks_for_positions_only_and_not_wrapped(model):
    simulation = new_simulation()
    reporter = LandmarkReporter(model, 100)
    simulation.step(30)
    assert reporter.describeNextReport(simulation) == {
        "steps": 70,
        "periodic": False,
        "include": ["positions"],
    }


def test_selected_atoms_and_a_model_file(heavy_model, tmp_path):
    heavy_model.save(tmp_path / "heavy.ldm")
    simulation, plain = new_simulation(), Positions(10)
    reporter = LandmarkReporter(tmp_path / "heavy.ldm", 10, atoms=MOLECULE.heavy_atoms)
    simulation.reporters += [plain, reporter]
    simulation.step(10)
    np.testing.assert_allclose(
        reporter.last.coordinates,
        heavy_model.transform(np.array(plain.frames)[:, MOLECULE.heavy_atoms]),
        rtol=1e-4,
        atol=1e-7,
    )


def test_a_molecule_that_crosses_the_box_stays_whole(model):
    """Pushed through the border of a small box, the molecule's embedding must not notice."""
    topology = topology_of(MOLECULE)
    topology.setUnitCellDimensions((2.2, 2.2, 2.2))
    system = app.ForceField("amber99sbildn.xml").createSystem(
        topology, nonbondedMethod=app.CutoffPeriodic, nonbondedCutoff=1.0, removeCMMotion=False
    )
    integrator = openmm.VerletIntegrator(0.0005)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(MOLECULE.frames[0] - MOLECULE.frames[0].mean(axis=0))
    simulation.minimizeEnergy(maxIterations=10)
    simulation.context.setVelocities(np.tile([20.0, 0.0, 0.0], (22, 1)))  # nm/ps, all alike
    sink = Kept()
    simulation.reporters.append(LandmarkReporter(model, 20, sink=sink))
    simulation.step(300)  # 3 nm along x
    points = np.concatenate([one.points for one in sink.embedded])
    assert np.ptp(points.mean(axis=1)[:, 0]) > 2.2  # it did cross
    assert np.ptp(points, axis=1).max() < 1.2
    distances = np.concatenate([one.coverage.distance for one in sink.embedded])
    assert distances.max() < 5


# -- events and actions ----------------------------------------------------------------


def leaving_after(n):
    """Return a tracker that enters at the first frame and leaves after n more, whatever the molecule does."""

    class Countdown(Box):
        def __init__(self):
            super().__init__({"psi2": (None, None)})
            self.seen = 0

        def masks(self, coordinates, coverage):
            self.seen += len(coordinates)
            inside = np.full(len(coordinates), self.seen % (n + 1) != 0)
            return inside, inside

    return RegionTracker({"here": Countdown()})


def test_stop_ends_the_run_there_and_it_can_go_on(model):
    simulation, plain = new_simulation(), Positions(10)
    reporter = LandmarkReporter(model, 10, tracker=leaving_after(3), on_event=Stop("leave", "here"))
    simulation.reporters.append(reporter)  # not last, which run_until makes up for
    simulation.reporters.append(plain)
    event = run_until(simulation, 1000, reporter)
    assert (event.kind, event.region, event.number, event.duration) == ("leave", "here", 3, 3)
    assert simulation.currentStep == 40
    assert plain.steps == [10, 20, 30, 40]
    assert simulation.reporters == [reporter, plain]
    assert run_until(simulation, 30, reporter) is None
    assert simulation.currentStep == 70
    assert run_until(simulation, 1000, reporter).number == 7
    assert simulation.currentStep == 80


def test_without_run_until_the_exception_is_seen(model):
    simulation = new_simulation()
    simulation.reporters.append(LandmarkReporter(model, 10, tracker=leaving_after(1), on_event=Stop()))
    with pytest.raises(StopSimulation, match="stopped on leave of region 'here' at record 1"):
        simulation.step(100)
    assert simulation.currentStep == 20


def test_other_errors_come_through_and_reporters_are_put_back(model):
    def fails(event, simulation):
        raise RuntimeError("mine")

    simulation = new_simulation()
    reporter = LandmarkReporter(model, 10, tracker=anywhere(), on_event=fails)
    with pytest.raises(RuntimeError, match="mine"):
        run_until(simulation, 100, reporter)
    assert simulation.reporters == []


def test_every_action_gets_its_events_before_the_stop(model, tmp_path):
    simulation, seen = new_simulation(), []
    save, branch = Save(tmp_path / "made" / "here", "leave"), Branch("leave", "here")
    actions = [
        Stop("leave"),
        lambda event, which: seen.append((event.kind, which.currentStep)),
        save,
        branch,
        Branch("enter", "elsewhere"),
    ]
    reporter = LandmarkReporter(model, 10, tracker=leaving_after(2), on_event=actions)
    assert run_until(simulation, 100, reporter).kind == "leave"
    assert seen == [("enter", 10), ("leave", 30)]
    assert actions[-1].snapshots == []

    (snapshot,) = branch.snapshots
    now = simulation.context.getState(positions=True, velocities=True)
    np.testing.assert_array_equal(snapshot.positions, now.getPositions(asNumpy=True)._value)
    np.testing.assert_array_equal(snapshot.velocities, now.getVelocities(asNumpy=True)._value)
    assert (snapshot.step, snapshot.event.kind, snapshot.box) == (30, "leave", None)
    assert snapshot.time == pytest.approx(0.06)

    (written,) = save.written
    assert sorted(path.name for path in written.parent.iterdir()) == [
        "here-leave-30.pdb",
        "here-leave-30.xml",
    ]
    again = new_simulation(seed=9)
    again.loadState(str(written))
    assert again.currentStep == 30
    loaded = again.context.getState(positions=True, velocities=True)
    np.testing.assert_allclose(loaded.getPositions(asNumpy=True)._value, snapshot.positions, atol=1e-12)
    np.testing.assert_allclose(loaded.getVelocities(asNumpy=True)._value, snapshot.velocities, atol=1e-12)
    pdb = app.PDBFile(str(written.with_suffix(".pdb")))
    np.testing.assert_allclose(pdb.getPositions(asNumpy=True)._value, snapshot.positions, atol=6e-5)
    assert [atom.name for atom in pdb.topology.atoms()][:4] == ["CH3", "H1", "H2", "H3"]


def velocities_of(simulation):
    return simulation.context.getState(velocities=True).getVelocities(asNumpy=True)._value


def test_a_branch_goes_on_in_the_same_or_another_simulation(model):
    first, second = new_simulation(), new_simulation(seed=5)
    first.step(20)
    snapshot = Snapshot.of(first)
    second.step(7)
    snapshot.restore(second)
    np.testing.assert_array_equal(Snapshot.of(second).positions, snapshot.positions)
    np.testing.assert_array_equal(velocities_of(second), snapshot.velocities)
    assert second.currentStep == 7  # its own clock

    snapshot.restore(second, new_velocities_temperature=300, seed=11)
    fresh = np.array(velocities_of(second))
    assert not np.allclose(fresh, snapshot.velocities)
    snapshot.restore(first, new_velocities_temperature=300, seed=11)
    np.testing.assert_allclose(velocities_of(first), fresh)
    first.step(5)
    with pytest.raises(InvalidInputError, match="seed is for new velocities"):
        snapshot.restore(first, seed=3)
    smaller = Snapshot(snapshot.positions[:5], snapshot.velocities[:5], None, 0.0, 0)
    with pytest.raises(InvalidInputError, match="snapshot has 5 atoms and the simulation 22"):
        smaller.restore(first)


def test_branches_are_bounded(model):
    simulation = new_simulation()
    branch = Branch("leave", most=2)
    simulation.reporters.append(LandmarkReporter(model, 1, tracker=leaving_after(1), on_event=branch))
    simulation.step(20)
    assert [snapshot.step for snapshot in branch.snapshots] == [18, 20]


# -- what does not fit ------------------------------------------------------------------


def test_atoms_must_be_those_of_the_model(model, heavy_model):
    simulation = new_simulation()
    simulation.reporters.append(LandmarkReporter(heavy_model, 10))
    with pytest.raises(InvalidInputError, match="the simulation has 22 atoms, but the map takes 10"):
        simulation.step(10)
    assert simulation.currentStep == 0  # before any step was made

    swapped = np.arange(22)
    swapped[[4, 5]] = [5, 4]
    simulation.reporters[:] = [LandmarkReporter(model, 10, atoms=swapped)]
    with pytest.raises(
        InvalidInputError, match="atom 5 of the simulation is ACE1-O, where the model .* ACE1-C;"
    ):
        simulation.step(10)
    simulation.reporters[:] = [LandmarkReporter(model, 10, atoms=swapped, ignore_names=True)]
    simulation.step(10)
    simulation.reporters[:] = [LandmarkReporter(heavy_model, 10, atoms=np.arange(20, 30))]
    with pytest.raises(InvalidInputError, match="index 29, but the simulation has 22 atoms"):
        simulation.step(10)


def test_faulty_settings(model):
    for interval in (0, 1.5, True):
        with pytest.raises(InvalidInputError, match="report_interval must be a whole number"):
            LandmarkReporter(model, interval)
    with pytest.raises(InvalidInputError, match="needs a fitted map"):
        LandmarkReporter(LandmarkDiffusionMap(), 10)
    plane = LandmarkDiffusionMap(1, 1.0, n_landmarks=5).fit(np.random.default_rng(0).random((30, 6)))
    with pytest.raises(InvalidInputError, match="does not compare molecular frames"):
        LandmarkReporter(plane, 10)
    for atoms in ([0, 0], [[0, 1]], [0.5], [-1], []):
        with pytest.raises(InvalidInputError, match="atoms"):
            LandmarkReporter(model, 10, atoms=atoms)
    with pytest.raises(InvalidInputError, match="on_event needs a tracker"):
        LandmarkReporter(model, 10, on_event=Stop())
    with pytest.raises(InvalidInputError, match="takes functions"):
        LandmarkReporter(model, 10, tracker=anywhere(), on_event=["stop"])
    with pytest.raises(InvalidInputError, match="events are called enter, leave and dwell, got 'left'"):
        Stop("left")
    with pytest.raises(InvalidInputError, match="most must be"):
        Branch(most=0)


def test_another_unit_is_refused(model):
    model.units_ = "angstrom"
    try:
        with pytest.raises(InvalidInputError, match="coordinates in angstrom, and OpenMM gives nm"):
            LandmarkReporter(model, 10)
    finally:
        model.units_ = "nm"
