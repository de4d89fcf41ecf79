"""Coordinates and domain walls as forces of real OpenMM systems."""

from __future__ import annotations

import numpy as np
import pytest

openmm = pytest.importorskip("openmm", reason="openmm is not installed")
from openmm import app, unit  # noqa: E402
from openmm_systems import context_of, energy_and_forces, topology_of  # noqa: E402

from ldmaps import DiffusionMap, LandmarkDiffusionMap  # noqa: E402
from ldmaps.datasets import alanine_dipeptide  # noqa: E402
from ldmaps.errors import InvalidInputError  # noqa: E402
from ldmaps.extension.domain import excess_with_gradient, log_density_with_gradient  # noqa: E402
from ldmaps.extension.embedder import Embedder  # noqa: E402
from ldmaps.metrics import RMSD, Features  # noqa: E402
from ldmaps.openmm import bias_variable, boundary_restraint, coordinate_force, exploration_force  # noqa: E402

MOLECULE = alanine_dipeptide(stride=50)
FRAMES = MOLECULE.frames.astype(np.float64)
N_ATOMS = FRAMES.shape[1]
PLATFORMS = ("Reference", "CPU")


@pytest.fixture(scope="module")
def model():
    metric = RMSD(weights=MOLECULE.masses)
    return LandmarkDiffusionMap(2, 1.36e-3, metric=metric, n_landmarks=60).fit(FRAMES)


TOPOLOGY = topology_of(MOLECULE)


# -- coordinates -----------------------------------------------------------------------


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("coordinate", [0, 1])
def test_energy_is_the_coordinate_and_force_its_slope(model, platform, coordinate):
    context = context_of(coordinate_force(model, coordinate, topology=TOPOLOGY), FRAMES[3], platform)
    energy, forces = energy_and_forces(context)
    values, gradient = model.transform_with_gradient(FRAMES[3:4])
    assert energy == pytest.approx(values[0, coordinate], rel=1e-6)
    np.testing.assert_allclose(forces, -gradient[0, coordinate], atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("platform", PLATFORMS)
def test_map_of_some_atoms_inside_a_collective_variable(model, platform):
    rng = np.random.default_rng(0)
    atoms = rng.permutation(30)[:N_ATOMS]
    positions = rng.normal(size=(30, 3))
    positions[atoms] = FRAMES[5]
    outer = openmm.CustomCVForce("40*q^2")
    outer.addCollectiveVariable("q", coordinate_force(model, 0, atoms=atoms))
    context = context_of(outer, positions, platform)
    energy, forces = energy_and_forces(context)
    values, gradient = model.transform_with_gradient(FRAMES[5:6])
    assert energy == pytest.approx(40 * values[0, 0] ** 2, rel=1e-5)
    wanted = np.zeros((30, 3))
    wanted[atoms] = -80 * values[0, 0] * gradient[0, 0]
    np.testing.assert_allclose(forces, wanted, atol=1e-5 * np.abs(wanted).max())


def test_energy_is_conserved_with_a_stiff_bias_and_constraints(model):
    system = app.ForceField("amber99sbildn.xml").createSystem(TOPOLOGY, constraints=app.HBonds)
    span = np.ptp(model.landmark_embedding_[:, 0])
    outer = openmm.CustomCVForce(f"50*((q-{model.transform(FRAMES[:1])[0, 0]})/{span})^2*20")
    outer.addCollectiveVariable("q", coordinate_force(model, 0, topology=TOPOLOGY))
    outer.setForceGroup(3)
    system.addForce(outer)
    integrator = openmm.VerletIntegrator(0.0005)
    integrator.setConstraintTolerance(1e-8)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(FRAMES[0])
    openmm.LocalEnergyMinimizer.minimize(context, 10, 50)
    context.setVelocitiesToTemperature(200, 1)
    totals, biases = [], []
    for _ in range(40):
        integrator.step(10)
        state = context.getState(energy=True)
        totals.append((state.getKineticEnergy() + state.getPotentialEnergy())._value)
        biases.append(context.getState(energy=True, groups={3}).getPotentialEnergy()._value)
    assert np.ptp(biases) > 0.1  # the bias takes part
    assert np.ptp(totals) < 0.1 * np.ptp(biases) + 0.05


@pytest.mark.parametrize("inside_variable", [False, True])
def test_virtual_sites_hand_their_force_on(inside_variable):
    rng = np.random.default_rng(1)
    parents = rng.normal(size=(40, 4, 3)) * 0.05 + rng.normal(size=(4, 3))
    site = 0.3 * parents[:, :1] + 0.7 * parents[:, 1:2]
    frames = np.concatenate([parents, site], axis=1)
    model = LandmarkDiffusionMap(1, metric=RMSD(), n_landmarks=20, extension="nystrom").fit(frames)
    force = coordinate_force(model, 0, atoms=np.arange(5))
    if inside_variable:
        outer = openmm.CustomCVForce("q")
        outer.addCollectiveVariable("q", force)
        force = outer
    system = openmm.System()
    for mass in (1, 1, 1, 1, 0):
        system.addParticle(mass)
    system.setVirtualSite(4, openmm.TwoParticleAverageSite(0, 1, 0.3, 0.7))
    system.addForce(force)
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    context.setPositions(frames[0])
    forces = energy_and_forces(context)[1]
    gradient = model.gradient(frames[:1])[0, 0]
    wanted = -gradient[:4].copy()
    wanted[0] -= 0.3 * gradient[4]
    wanted[1] -= 0.7 * gradient[4]
    np.testing.assert_allclose(forces[:4], wanted, atol=1e-6 * np.abs(wanted).max())


def test_forces_survive_serialisation(model):
    outer = openmm.CustomCVForce("3*q")
    outer.addCollectiveVariable("q", coordinate_force(model, 1, topology=TOPOLOGY))
    for force in (outer, boundary_restraint(model, 100.0, topology=TOPOLOGY)):
        twin = openmm.XmlSerializer.deserialize(openmm.XmlSerializer.serialize(force))
        frame = FRAMES[2] * 1.5
        ours, theirs = (energy_and_forces(context_of(one, frame)) for one in (force, twin))
        assert ours[0] == theirs[0] != 0
        assert (ours[1] == theirs[1]).all()


def test_metadynamics_takes_the_variables_as_they_are(model):
    system = app.ForceField("amber99sbildn.xml").createSystem(TOPOLOGY, constraints=app.HBonds)
    variables = [bias_variable(model, place, topology=TOPOLOGY, grid_width=60) for place in range(2)]
    metadynamics = app.Metadynamics(system, variables, 300, 10, 1.0, 20)
    integrator = openmm.LangevinMiddleIntegrator(300, 1.0, 0.002)
    integrator.setRandomNumberSeed(1)
    simulation = app.Simulation(TOPOLOGY, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(FRAMES[0])
    simulation.minimizeEnergy(maxIterations=10)
    metadynamics.step(simulation, 200)
    state = simulation.context.getState(positions=True)
    frame = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer)
    here = metadynamics.getCollectiveVariables(simulation)
    np.testing.assert_allclose(here, model.transform(frame[None])[0], rtol=1e-5)
    assert metadynamics.getFreeEnergy().min()._value < -0.5


@pytest.mark.filterwarnings("ignore::ldmaps.errors.OutsideDomainWarning")
def test_no_point_leaves_the_limits_of_a_variable(model):
    variable = bias_variable(model, 0, topology=TOPOLOGY)
    wild = np.random.default_rng(0).normal(size=(200, N_ATOMS, 3))
    values = model.transform(wild)[:, 0]
    assert variable.minValue < values.min() <= values.max() < variable.maxValue
    assert variable.biasWidth == pytest.approx(np.ptp(model.landmark_embedding_[:, 0]) / 30)


# -- the wall -------------------------------------------------------------------------


def outside(model):
    """Frames just beyond the domain and far from it."""
    rng = np.random.default_rng(2)
    return np.stack(
        [FRAMES[i] + size * rng.normal(size=(N_ATOMS, 3)) for i, size in enumerate((0.06, 0.2, 3))]
    )


def test_excess_is_zero_inside_and_grows_with_the_distance_outside(model):
    assert (excess_with_gradient(model.embedder_, FRAMES)[0] == 0).all()
    assert (excess_with_gradient(model.embedder_, FRAMES)[1] == 0).all()
    excess = excess_with_gradient(model.embedder_, outside(model))[0]
    coverage = model.coverage(outside(model))
    assert not coverage.inside.any()
    root = np.sqrt(model.epsilon_)
    radii = np.sqrt(model.embedder_.squared_radii)
    # Between the distance less the largest reach, softened, and the distance less √ε.
    assert (excess <= (coverage.distance - 1) * root + 1e-12).all()
    assert (excess >= coverage.distance * root - radii.max() - root).all()
    assert (np.diff(excess) > 0).all()


def test_excess_has_the_gradient_of_its_differences(model):
    frames, step = outside(model), 1e-6
    found = excess_with_gradient(model.embedder_, frames)[1]
    for atom, axis in ((0, 0), (7, 1), (15, 2)):
        there, back = frames.copy(), frames.copy()
        there[:, atom, axis] += step
        back[:, atom, axis] -= step
        slope = (
            excess_with_gradient(model.embedder_, there)[0] - excess_with_gradient(model.embedder_, back)[0]
        ) / (2 * step)
        np.testing.assert_allclose(found[:, atom, axis], slope, atol=1e-6 * np.abs(found).max())


def test_excess_is_smooth_where_two_landmarks_are_equally_near():
    from ldmaps.extension.embedder import Embedder, OnlineStep
    from ldmaps.metrics import Euclidean

    z = np.array([[0.0, 2.0], [0.0, -2.0]])
    ones = np.ones(2)
    step = OnlineStep(coefficients=ones[:, None], source_weights=ones, bandwidth=1.0)
    embedder = Embedder.build(Euclidean(), Euclidean().prepare(z), 1.0, step, ones)
    x = np.array([[1.0, -1e-9], [1.0, 0.0], [1.0, 1e-9], [5.0, 2.0]])
    excess, gradient = excess_with_gradient(embedder, x)
    np.testing.assert_allclose(gradient[:3, 1], 0.0, atol=1e-6)
    assert (excess[:3] > 1.0).all()
    assert excess[3] == pytest.approx(5 - 1, abs=1e-6)  # one landmark alone: d − √ε
    np.testing.assert_allclose(gradient[3], [1.0, 0.0], atol=1e-6)


def test_wall_pulls_back_from_beyond_its_margin(model):
    frame = outside(model)[1]
    excess, gradient = excess_with_gradient(model.embedder_, frame[None])
    strong = 500 * unit.kilojoules_per_mole / unit.nanometer**2
    energy, forces = energy_and_forces(
        context_of(boundary_restraint(model, strong, topology=TOPOLOGY), frame)
    )
    assert energy == pytest.approx(250 * excess[0] ** 2, rel=1e-5)
    wanted = -500 * excess[0] * gradient[0]
    np.testing.assert_allclose(forces, wanted, atol=1e-5 * np.abs(wanted).max())
    root = np.sqrt(model.epsilon_)
    wide = boundary_restraint(model, 500, margin=excess[0] / root + 0.1, topology=TOPOLOGY)
    assert energy_and_forces(context_of(wide, frame))[0] == 0
    half = boundary_restraint(model, 500, margin=0.5 * excess[0] / root, topology=TOPOLOGY)
    assert energy_and_forces(context_of(half, frame))[0] == pytest.approx(energy / 4, rel=1e-4)


def test_inside_the_wall_exerts_nothing(model):
    energy, forces = energy_and_forces(
        context_of(boundary_restraint(model, 500, topology=TOPOLOGY), FRAMES[0])
    )
    assert energy == 0
    assert (forces == 0).all()


# -- outwards --------------------------------------------------------------------------


def test_log_density_has_the_gradient_of_its_differences(model):
    frames, step = np.concatenate([FRAMES[:2], outside(model)]), 1e-6
    embedder, counts = model.embedder_, model.multiplicities_
    value, found = log_density_with_gradient(embedder, counts, frames)
    squares = embedder.metric.pairwise(frames, FRAMES[model.landmark_indices_]) ** 2
    kernel = np.exp(-squares / (2 * model.epsilon_)) @ counts
    np.testing.assert_allclose(value[:3], np.log(kernel[:3]), rtol=1e-8)
    assert np.isfinite(value).all()  # of the last, ρ itself is 0
    for atom, axis in ((0, 0), (7, 1), (15, 2)):
        there, back = frames.copy(), frames.copy()
        there[:, atom, axis] += step
        back[:, atom, axis] -= step
        ends = [log_density_with_gradient(embedder, counts, end)[0] for end in (there, back)]
        slope = (ends[0] - ends[1]) / (2 * step)
        scale = np.abs(found).max(axis=(1, 2))
        assert (np.abs(found[:, atom, axis] - slope) <= 1e-5 * scale).all()


def test_exploration_force_is_high_where_points_are_dense_and_vanishes_outside(model):
    force = exploration_force(model, 2 * unit.kilojoules_per_mole, reach=1.5, topology=TOPOLOGY)
    dense = FRAMES[model.landmark_indices_[np.argmax(model.multiplicities_)]]
    context = context_of(force, dense)
    high, slope = energy_and_forces(context)
    lonely = min(
        log_density_with_gradient(model.embedder_, model.multiplicities_, FRAMES[[index]])[0][0]
        for index in model.landmark_indices_
    )
    here = log_density_with_gradient(model.embedder_, model.multiplicities_, dense[None])
    assert high == pytest.approx(2 * np.log(1 + np.exp(here[0][0] - lonely + 1.5**2 / 2)), rel=1e-5)
    assert high > 4
    step = 1e-4
    moved = dense + step * slope / np.abs(slope).max()
    context.setPositions(moved)
    lower = energy_and_forces(context)[0]
    assert lower - high == pytest.approx(-(slope * (moved - dense)).sum(), rel=0.05)
    context.setPositions(outside(model)[2])
    far, nothing = energy_and_forces(context)
    assert far == pytest.approx(0, abs=1e-6)
    assert np.abs(nothing).max() < 1e-4


# -- refusals -------------------------------------------------------------------------


def test_a_coordinate_is_named_or_counted(model):
    by_name, by_place = (bias_variable(model, one, topology=TOPOLOGY) for one in ("psi3", 1))
    assert (by_name.minValue, by_name.maxValue) == (by_place.minValue, by_place.maxValue)
    other = bias_variable(model, "psi2", topology=TOPOLOGY)
    assert (other.minValue, other.maxValue) != (by_name.minValue, by_name.maxValue)


@pytest.mark.parametrize("coordinate", [2, -1, 0.5, "psi"])
def test_coordinates_that_do_not_exist(model, coordinate):
    with pytest.raises(InvalidInputError, match="does not exist: this map has psi2, psi3"):
        coordinate_force(model, coordinate, topology=TOPOLOGY)


def test_wrong_atoms(model):
    with pytest.raises(InvalidInputError, match="neither atoms nor topology"):
        coordinate_force(model)
    with pytest.raises(InvalidInputError, match="atoms has 3 atoms, but the map takes 22"):
        coordinate_force(model, atoms=[0, 1, 2])
    with pytest.raises(InvalidInputError, match="the simulation has 3 atoms, but the map takes 22"):
        boundary_restraint(model, 1.0, atoms=[0, 1, 2], topology=TOPOLOGY)
    with pytest.raises(InvalidInputError, match="index 40, but the simulation has 22"):
        coordinate_force(model, atoms=[*range(21), 40], topology=TOPOLOGY)


def test_names_are_compared_where_the_model_knows_them(model, monkeypatch):
    names = [str(name) for name in MOLECULE.atom_names]
    monkeypatch.setattr(model, "source_", {"atom_names": names})
    coordinate_force(model, topology=TOPOLOGY)
    with pytest.raises(InvalidInputError, match="no topology was given to compare"):
        coordinate_force(model, atoms=range(22))
    coordinate_force(model, atoms=range(22), ignore_names=True)
    swapped = [0, 2, 1, *range(3, 22)]
    with pytest.raises(InvalidInputError, match="atom 2 of the simulation is .* fitted on"):
        coordinate_force(model, atoms=swapped, topology=TOPOLOGY)


@pytest.mark.parametrize("strength", [-1.0, np.nan, "strong"])
def test_strength_of_a_wall(model, strength):
    with pytest.raises(InvalidInputError, match="strength must be a number of at least 0"):
        boundary_restraint(model, strength, topology=TOPOLOGY)


def test_units_of_a_wall(model):
    with pytest.raises(InvalidInputError, match="strength must be in kilojoule/.*, got 5 nm"):
        boundary_restraint(model, 5 * unit.nanometer, topology=TOPOLOGY)
    with pytest.raises(InvalidInputError, match="margin must be a number of at least 0"):
        boundary_restraint(model, 5.0, margin=-1, topology=TOPOLOGY)


def test_maps_that_cannot_steer_a_simulation(model, monkeypatch):
    with pytest.raises(InvalidInputError, match="needs a fitted map"):
        coordinate_force(LandmarkDiffusionMap(2), topology=TOPOLOGY)
    flat = DiffusionMap(1, 1.0).fit(np.random.default_rng(0).normal(size=(20, 3)))
    with pytest.raises(InvalidInputError, match="does not compare molecular frames"):
        coordinate_force(flat, topology=TOPOLOGY)
    large = LandmarkDiffusionMap(2, 0.136, metric=RMSD(MOLECULE.masses), n_landmarks=20).fit(10 * FRAMES)
    with pytest.raises(InvalidInputError, match=r"bonds are 1\.\d+ long in the map's landmarks.*in nm"):
        coordinate_force(large, topology=TOPOLOGY)
    beads = topology_of(MOLECULE)
    for atom in beads.atoms():
        atom.element = None
    coordinate_force(large, topology=beads)
    monkeypatch.setattr(model, "units_", "angstrom")
    with pytest.raises(InvalidInputError, match="coordinates in angstrom, and OpenMM gives nm"):
        boundary_restraint(model, 1.0, topology=TOPOLOGY)


def test_old_openmm(model, monkeypatch):
    monkeypatch.delattr(openmm, "PythonForce")
    with pytest.raises(InvalidInputError, match="need OpenMM 8.6.1 or newer.*pip install --upgrade openmm"):
        coordinate_force(model, topology=TOPOLOGY)


def test_widths_and_limits(model):
    for width in (0.0, "wide", 1 * unit.nanometer):
        with pytest.raises(InvalidInputError, match="width must be a positive number"):
            bias_variable(model, 0, width, topology=TOPOLOGY)
    with pytest.raises(InvalidInputError, match="grid_width must be a whole number of points"):
        bias_variable(model, 0, grid_width=1, topology=TOPOLOGY)
    assert bias_variable(model, 0, np.float32(0.5), topology=TOPOLOGY).biasWidth == 0.5
    with pytest.raises(InvalidInputError, match="limits must be a lower and a higher"):
        bias_variable(model, 0, limits=(1.0, 0.0), topology=TOPOLOGY)


def test_a_force_along_torsions_is_minus_the_gradient_of_its_energy():
    torsions = Features(22, dihedrals=[[4, 6, 8, 14], [6, 8, 14, 16]])
    along = LandmarkDiffusionMap(2, "connected", metric=torsions, n_landmarks=60).fit(FRAMES)
    context = context_of(coordinate_force(along, 0, topology=TOPOLOGY), FRAMES[3])
    forces = context.getState(forces=True).getForces(asNumpy=True)._value
    expected = -along.gradient(FRAMES[3:4])[0, 0].reshape(-1, 3)
    np.testing.assert_allclose(forces, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    outside = np.setdiff1d(np.arange(22), [4, 6, 8, 14, 16])
    assert not forces[outside].any()  # torsions pull at their own atoms alone


# -- forces that Python computes share what they measure -------------------------------


@pytest.fixture
def count_of_frames(monkeypatch):
    """Count how often a map is evaluated, with or without gradients."""
    calls = []
    for name in ("extend_with_gradient", "squares"):
        own = getattr(Embedder, name)

        def counted(self, *given, own=own, name=name):
            calls.append((name, len(given[0])))
            return own(self, *given)

        monkeypatch.setattr(Embedder, name, counted)
    return calls


def biased_system(model):
    """Return two coordinates of a map and its wall as forces; the wall is asked first."""
    given = {"topology": TOPOLOGY, "native": False}
    outer = openmm.CustomCVForce("3*p+5*q")
    outer.addCollectiveVariable("p", coordinate_force(model, 0, **given))
    outer.addCollectiveVariable("q", coordinate_force(model, 1, **given))
    system = openmm.System()
    for _ in range(N_ATOMS):
        system.addParticle(1.0)
    system.addForce(boundary_restraint(model, 100.0, **given))
    system.addForce(outer)
    return system


@pytest.mark.parametrize("is_read", [False, True])
def test_coordinates_and_the_wall_measure_a_frame_once(model, count_of_frames, is_read):
    system = biased_system(model)
    if is_read:
        system = openmm.XmlSerializer.deserialize(openmm.XmlSerializer.serialize(system))
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(FRAMES[0])
    energy_and_forces(context)  # they learn of each other
    # On the border of the domain the wall asks for all distances.
    well_inside = FRAMES[model.coverage(FRAMES).distance < 0.9]
    for frame in well_inside[1:4]:
        count_of_frames.clear()
        context.setPositions(frame)
        energy, forces = energy_and_forces(context)
        assert count_of_frames == [("extend_with_gradient", 1)]
        psi, gradient = model.transform_with_gradient(frame[None])
        np.testing.assert_allclose(energy, psi[0] @ [3, 5], rtol=1e-6)
        expected = -3 * gradient[0, 0] - 5 * gradient[0, 1]
        np.testing.assert_allclose(forces, expected, atol=1e-6 * np.abs(expected).max())


def test_two_runs_that_share_a_map_take_turns(model):
    """Each asks at frames of its own, and one of them for another coordinate."""
    forces = [coordinate_force(model, column, topology=TOPOLOGY, native=False) for column in (0, 1, 0)]
    contexts = [context_of(force, FRAMES[0]) for force in forces]
    rng = np.random.default_rng(0)
    for choice in rng.integers(3, size=40):
        frame = rng.integers(len(FRAMES))
        contexts[choice].setPositions(FRAMES[frame])
        energy = energy_and_forces(contexts[choice])[0]
        np.testing.assert_allclose(
            energy, model.transform(FRAMES[frame : frame + 1])[0, choice % 2], rtol=1e-6
        )
