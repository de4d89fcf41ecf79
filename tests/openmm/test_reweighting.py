"""Weights of metadynamics frames, on a system whose Boltzmann distribution is known."""

from __future__ import annotations

import numpy as np
import pytest

openmm = pytest.importorskip("openmm", reason="openmm is not installed")
from openmm import app, unit  # noqa: E402

from ldmaps import DiffusionMap  # noqa: E402
from ldmaps.errors import AccuracyWarning, InvalidInputError  # noqa: E402
from ldmaps.openmm import effective_sample_size, metadynamics_weights  # noqa: E402
from ldmaps.openmm.biased_runs import bias_at, stored_bias  # noqa: E402

TEMPERATURE = 300.0
KT = 8.31446261815324e-3 * TEMPERATURE
BARRIER = 4.0 * KT


def potential(x, y):
    """A double well along x of unequal depth, its valley bent, kJ/mol and nm."""
    return BARRIER * (x**2 - 1) ** 2 + 1.5 * x + 12.0 * (y - 0.3 * x**2) ** 2


def variable(limits=(-2.5, 2.5), grid=101, periodic=False):
    force = openmm.CustomExternalForce("x")
    force.addParticle(0)
    return app.BiasVariable(force, *limits, 0.15, periodic, grid)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A well-tempered run of one particle: its frames after the basins are filled, and the Metadynamics object."""
    directory = tmp_path_factory.mktemp("bias")
    system = openmm.System()
    system.addParticle(1.0)
    well = openmm.CustomExternalForce(
        f"{BARRIER}*(x^2-1)^2 + 1.5*x + 12*(y-0.3*x^2)^2 + 100*z^2",
    )
    well.addParticle(0)
    system.addForce(well)
    metadynamics = app.Metadynamics(
        system, [variable()], TEMPERATURE, 6, 0.3, 100, saveFrequency=1000, biasDir=str(directory)
    )
    topology = app.Topology()
    topology.addAtom("X", None, topology.addResidue("X", topology.addChain()))
    integrator = openmm.LangevinMiddleIntegrator(TEMPERATURE, 5.0, 0.02)
    integrator.setRandomNumberSeed(7)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions([[-1.0, 0.3, 0.0]])
    frames = []
    metadynamics.step(simulation, 20_000)
    for _ in range(3000):
        metadynamics.step(simulation, 50)
        state = simulation.context.getState(positions=True)
        frames.append(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer)[0, :2])
    return np.array(frames), metadynamics, directory


def test_reweighted_averages_are_those_of_the_boltzmann_distribution(run):
    frames, metadynamics, _ = run
    weights = metadynamics_weights(frames[:, 0], metadynamics)
    assert weights.mean() == pytest.approx(1.0)
    x, y = np.meshgrid(np.linspace(-2, 2, 200), np.linspace(-1, 2, 200))
    exact = np.exp(-potential(x, y) / KT)
    exact /= exact.sum()
    assert (weights * (frames[:, 0] > 0)).mean() == pytest.approx(exact[x > 0].sum(), abs=0.08)
    assert (frames[:, 0] > 0).mean() > 1.4 * exact[x > 0].sum()  # without weights it is wrong
    assert (weights * frames[:, 1]).mean() == pytest.approx((exact * y).sum(), abs=0.03)


def test_reweighted_map_of_a_biased_run_agrees_with_the_unbiased_map(run):
    frames, metadynamics, _ = run
    weights = metadynamics_weights(frames[:, 0], metadynamics)
    some = slice(None, None, 3)
    # The unbiased map: points on a grid, each as often as Boltzmann's distribution has it.
    x, y = (axis.ravel() for axis in np.meshgrid(np.linspace(-1.8, 1.8, 40), np.linspace(-0.8, 1.8, 30)))
    exact = np.exp(-potential(x, y) / KT)
    common = exact > 1e-4 * exact.max()
    grid = np.column_stack([x, y])[common]
    settings = {"n_components": 1, "epsilon": 0.05, "n_threads": 1}
    unbiased = DiffusionMap(**settings).fit(grid, sample_weight=exact[common])
    reweighted = DiffusionMap(**settings).fit(frames[some], sample_weight=weights[some])
    biased = DiffusionMap(**settings).fit(frames[some])

    def difference(model):
        """1 − R² of ψ₂ over the Boltzmann distribution, up to sign, shift and scale."""
        ours, theirs = model.transform(grid)[:, 0], unbiased.transform(grid)[:, 0]
        covariance = np.cov(ours, theirs, aweights=exact[common])
        return 1 - covariance[0, 1] ** 2 / (covariance[0, 0] * covariance[1, 1])

    assert difference(reweighted) < 0.01
    assert difference(reweighted) < 0.5 * difference(biased)
    gap = 1 - unbiased.eigenvalues_[0]
    assert abs(reweighted.eigenvalues_[0] - unbiased.eigenvalues_[0]) < 0.35 * gap
    assert abs(biased.eigenvalues_[0] - unbiased.eigenvalues_[0]) > 0.7 * gap


def test_files_of_the_bias_give_the_same_weights(run):
    frames, metadynamics, directory = run
    metadynamics._syncWithDisk()
    ours = metadynamics_weights(frames[:, 0], directory, [variable()], TEMPERATURE * unit.kelvin)
    np.testing.assert_allclose(ours, metadynamics_weights(frames[:, 0], metadynamics), rtol=1e-10)


def test_bias_is_interpolated_as_openmm_does():
    rng = np.random.default_rng(0)
    force = openmm.CustomExternalForce("y")
    force.addParticle(0)
    variables = [variable((-1, 1), 12), app.BiasVariable(force, -2, 2, 0.1, False, 15)]
    system = openmm.System()
    system.addParticle(1.0)
    metadynamics = app.Metadynamics(system, variables, 300, 5, 1.0, 10)
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    for _ in range(10):
        metadynamics._addGaussian(rng.uniform(-0.8, 0.8, size=2), 2 * unit.kilojoules_per_mole, context)
    for x, y in rng.uniform(-0.9, 0.9, size=(10, 2)):
        context.setPositions([[x, y, 0.0]])
        energy = context.getState(energy=True).getPotentialEnergy()._value
        assert bias_at([[x, y]], metadynamics._totalBias, variables)[0] == pytest.approx(energy, abs=0.15)
    assert bias_at([[3.0, 0.0]], metadynamics._totalBias, variables)[0] == 0


def test_walkers_are_added_up_and_old_files_ignored(tmp_path):
    for name, value in [("bias_7_1", 1.0), ("bias_7_12", 2.0), ("bias_7_3", 50.0), ("bias_8_1", 5.0)]:
        np.save(tmp_path / f"{name}.npy", np.full(4, value))
    np.save(tmp_path / "temp_7_13.npy", np.full(4, 99.0))
    assert (stored_bias(tmp_path) == 7.0).all()
    np.save(tmp_path / "bias_9_1.npy", np.zeros(5))
    with pytest.raises(InvalidInputError, match="keep runs of other variables in other directories"):
        stored_bias(tmp_path)


def test_periodic_variables_are_wrapped():
    grid = np.cos(np.linspace(-np.pi, np.pi, 181))
    angle = app.BiasVariable(openmm.CustomTorsionForce("theta"), -np.pi, np.pi, 0.3, True, 181)
    np.testing.assert_allclose(bias_at([0.5, 0.5 + 2 * np.pi], grid, [angle]), np.cos(0.5), atol=1e-5)


def test_few_effective_frames_are_warned_of(run):
    _, metadynamics, _ = run
    values = np.append(np.full(100, -2.2), -1.0)
    with pytest.warns(AccuracyWarning, match=r"effective sample size is only 1\.\d of 101 frames"):
        weights = metadynamics_weights(values, metadynamics)
    assert effective_sample_size(weights) < 2


def test_bad_input_is_explained(run, tmp_path):
    frames, metadynamics, _ = run
    with pytest.raises(InvalidInputError, match="one column per variable"):
        metadynamics_weights(frames, metadynamics)
    with pytest.raises(InvalidInputError, match="has no variables and no temperature"):
        metadynamics_weights(frames[:, 0], np.zeros(101))
    with pytest.raises(InvalidInputError, match=r"grid of \(50,\), but the variables one of \(101,\)"):
        metadynamics_weights(frames[:, 0], np.zeros(50), [variable()], 300)
    with pytest.raises(InvalidInputError, match="no bias_"):
        metadynamics_weights(frames[:, 0], tmp_path, [variable()], 300)
    with pytest.raises(InvalidInputError, match="temperature must be a positive number"):
        metadynamics_weights(frames[:, 0], metadynamics, temperature=-3)
    with pytest.raises(InvalidInputError, match="temperature must be in kelvin"):
        metadynamics_weights(frames[:, 0], metadynamics, temperature=3 * unit.nanometer)
    with pytest.raises(InvalidInputError, match="finite"):
        metadynamics_weights([np.nan], metadynamics)


class Planted:
    """What unpickling turns into a call: here one that leaves a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_bias_file_can_run_nothing(tmp_path):
    trace = tmp_path / "it ran"
    np.save(tmp_path / "bias_1_2.npy", np.array([Planted(trace)], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        stored_bias(tmp_path)
    assert not trace.exists()
