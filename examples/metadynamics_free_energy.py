"""Free energies of alanine dipeptide from metadynamics along the coordinates of a map.

A short run at 600 K visits all basins; a map is fitted on its frames. Then, at 300 K in
implicit solvent, independent runs of each kind:

    along ψ₂           well-tempered metadynamics along the map's slowest coordinate; after a
                       third of the run its bias is frozen, and frames count from there
    along ψ₂ and ψ₃    the same along two
    along φ and ψ      the same along the dihedrals that every textbook takes: the reference
    unbiased           three times as long, cut into blocks of a biased run's length

All are reweighted to the unbiased ensemble and compared: F(ψ₂), F(φ), F(φ, ψ), and the free energies
of the helices, with errors from the spread of independent runs. How much simulation the same error
takes without a bias follows from that spread; for the left-handed helix, which unbiased runs hardly
ever enter, from how long runs that begin there stay.

    pip install ".[openmm,plot]"
    python examples/metadynamics_free_energy.py --output free_energy

Interrupted, the same command goes on: every finished run is on disk.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from explore import INTERVAL, Frames, backbone_angles, left_handed
from replica_reset import FORCE_FIELD, TEMPERATURE, TIME_STEP, topology_of

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import MolecularFrames, alanine_dipeptide
from ldmaps.errors import AccuracyWarning
from ldmaps.metrics import RMSD
from ldmaps.openmm import BiasLog, bias_variable, effective_sample_size, metadynamics_weights

HOT = 600.0  # K
EPSILON, N_LANDMARKS = 1.36e-3, 100
KT = 8.31446261815324e-3 * TEMPERATURE
BUMP_HEIGHT, BUMP_EVERY, BIAS_FACTOR = 0.5, 125, 5.0  # kJ/mol; steps (0.5 ps)
BUILDING = 1 / 3  # share of a biased run that builds the bias; then it stays as it is
KINDS = ("along ψ₂", "along ψ₂ and ψ₃", "along φ and ψ", "unbiased")
LONGEST_STAY = 3000.0  # ps
COLOURS = ("#D55E00", "#CC79A7", "#009E73", "#0072B2")


@dataclass
class Run:
    """Frames of a run at equilibrium, what each counts, and how long the whole run was, in ns."""

    angles: np.ndarray
    coordinates: np.ndarray
    weights: np.ndarray
    nanoseconds: float


def build(
    molecule: MolecularFrames, positions: np.ndarray, seed: int, variables: list[Any], temperature: float
) -> tuple[Any, Any]:
    """Return a simulation in implicit solvent, and its metadynamics if there are variables."""
    import openmm
    from openmm import app, unit

    topology = topology_of(molecule)
    system = app.ForceField(*FORCE_FIELD).createSystem(
        topology, nonbondedMethod=app.NoCutoff, constraints=app.AllBonds, hydrogenMass=4.0 * unit.amu
    )
    metadynamics = None
    if variables:
        metadynamics = app.Metadynamics(system, variables, temperature, BIAS_FACTOR, BUMP_HEIGHT, BUMP_EVERY)
    integrator = openmm.LangevinMiddleIntegrator(temperature, 1.0, TIME_STEP)
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=20)
    simulation.context.setVelocitiesToTemperature(temperature, seed)
    return simulation, metadynamics


def hot_frames(molecule: MolecularFrames, directory: Path, nanoseconds: float) -> np.ndarray:
    """Return the frames of a run at 600 K, made where it is not on disk."""
    path = directory / "hot.npy"
    if not path.exists():
        simulation, _ = build(molecule, molecule.frames[1], 1, [], HOT)
        keeper = Frames()
        simulation.reporters[:] = [keeper]
        simulation.step(round(1000 * nanoseconds / TIME_STEP))
        np.save(path, np.array(keeper.kept))
    return np.load(path)


def hot_map(molecule: MolecularFrames, frames: np.ndarray, directory: Path) -> LandmarkDiffusionMap:
    """Return the map of the run at 600 K, fitted where it is not on disk."""
    path = directory / "map.ldm"
    if not path.exists():
        model = LandmarkDiffusionMap(
            2,
            EPSILON,
            metric=RMSD(molecule.masses),
            n_landmarks=N_LANDMARKS,
            extension="nystrom",
            random_state=0,
        )
        model.fit(frames).save(path)
    return ldmaps.load(path)


def variables_of(kind: str, model: LandmarkDiffusionMap, molecule: MolecularFrames) -> list[Any]:
    """Return the variables that a kind of run biases."""
    import openmm
    from openmm import app

    topology = topology_of(molecule)
    if kind.startswith("along ψ₂"):
        return [bias_variable(model, place, topology=topology) for place in range(kind.count("ψ"))]
    if kind == "unbiased":
        return []
    names = list(zip(molecule.residue_numbers.tolist(), molecule.atom_names, strict=True))
    chain = [names.index(key) for key in ((1, "C"), (2, "N"), (2, "CA"), (2, "C"), (3, "N"))]
    variables = []
    for first in (0, 1):
        torsion = openmm.CustomTorsionForce("theta")
        torsion.addTorsion(*chain[first : first + 4])
        variables.append(app.BiasVariable(torsion, -np.pi, np.pi, 0.35, True))
    return variables


def run(
    kind: str, model: LandmarkDiffusionMap, molecule: MolecularFrames, directory: Path, seed: int, ns: float
) -> Run:
    """Return a run, made where it is not on disk in that length."""
    path = directory / f"{kind.replace(' ', '_')}_{seed}_{ns:g}ns.npz"
    if not path.exists():
        variables = variables_of(kind, model, molecule)
        simulation, metadynamics = build(
            molecule, molecule.frames[10 + seed], 10 + seed, variables, TEMPERATURE
        )
        log_path = path.with_suffix(".csv")
        log_path.unlink(missing_ok=True)  # of a run that was interrupted
        keeper, log = Frames(), BiasLog(log_path, model, 10 * INTERVAL, bias=metadynamics)
        simulation.reporters[:] = [keeper, log]
        steps = round(1000 * ns / TIME_STEP)
        if metadynamics is not None:
            building = round(BUILDING * steps)
            metadynamics.step(simulation, building)
            keeper.kept.clear()
            steps -= building
        simulation.step(
            steps
        )  # metadynamics adds to the bias in its own step alone, so from here on weights are exact
        log.close()
        frames = np.array(keeper.kept)
        angles, coordinates = backbone_angles(molecule, frames), model.transform(frames)
        weights = np.ones(len(frames))
        if metadynamics is not None:
            values = np.radians(angles) if kind == "along φ and ψ" else coordinates[:, : len(variables)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AccuracyWarning)  # the effective number is reported
                weights = metadynamics_weights(values, metadynamics)
        fresh = path.with_suffix(".new.npz")
        np.savez(fresh, angles=angles, coordinates=coordinates, weights=weights)
        fresh.replace(path)
        print(
            f"{kind}, run {seed}, {ns:g} ns: {effective_sample_size(weights):.0f} effective frames",
            flush=True,
        )
    with np.load(path) as stored:
        return Run(stored["angles"], stored["coordinates"], stored["weights"], ns)


def stay(molecule: MolecularFrames, frames: np.ndarray, directory: Path, seed: int) -> tuple[float, bool]:
    """Return how long an unbiased run from the left-handed helix stayed, in ns, and whether it left at all.

    It has left when φ is that of the other basins, so a mere visit to the barrier is no escape.
    """
    path = directory / f"stay_{seed}.json"
    if not path.exists():
        helical = frames[left_handed(backbone_angles(molecule, frames))]
        if not len(helical):
            return 0.0, False
        simulation, _ = build(molecule, helical[997 * seed % len(helical)], 100 + seed, [], TEMPERATURE)
        keeper, left = Frames(), None
        simulation.reporters[:] = [keeper]
        while left is None and len(keeper.kept) * INTERVAL * TIME_STEP < LONGEST_STAY:
            before = len(keeper.kept)
            simulation.step(100 * INTERVAL)
            phi = backbone_angles(molecule, np.array(keeper.kept[before:]))[:, 0]
            gone = (phi > -150) & (phi < -40)
            left = before + int(np.argmax(gone)) if gone.any() else None
        count = len(keeper.kept) if left is None else left
        path.write_text(json.dumps([1e-3 * count * INTERVAL * TIME_STEP, left is not None]))
        print(f"left-handed helix, run {seed}: left after {path.read_text()} ns", flush=True)
    length, left = json.loads(path.read_text())
    return length, left


# -- free energies ------------------------------------------------------------------------


def blocks(run: Run, nanoseconds: float) -> list[Run]:
    """Cut an unbiased run into blocks of a length; what is left over at the end is dropped."""
    count = int(run.nanoseconds / nanoseconds + 1e-9)
    size = int(len(run.weights) * nanoseconds / run.nanoseconds)
    return [
        Run(run.angles[part], run.coordinates[part], run.weights[part], nanoseconds)
        for part in (slice(start * size, (start + 1) * size) for start in range(count))
    ]


def profile(runs: list[Run], values: list[np.ndarray], edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return F in kJ/mol over bins, lowest 0, and its standard error; NaN where fewer than two runs have been."""
    counts = np.array(
        [np.histogram(value, edges, weights=one.weights)[0] for one, value in zip(runs, values, strict=True)]
    )
    shares = counts / counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = -KT * np.log(shares.mean(axis=0))
        each = np.where(shares > 0, -KT * np.log(shares), np.nan)
    visited = np.isfinite(each).sum(axis=0)
    error = np.full(mean.shape, np.nan)
    enough = visited > 1
    error[enough] = np.nanstd(each[:, enough], axis=0, ddof=1) / np.sqrt(visited[enough])
    mean[visited == 0] = np.nan
    return mean - np.nanmin(mean), error


def right_handed(angles: np.ndarray) -> np.ndarray:
    """Say which frames are in the right-handed helix."""
    return (angles[:, 0] < 0) & (angles[:, 1] > -110) & (angles[:, 1] < 50)


def extended(angles: np.ndarray) -> np.ndarray:
    """Say which frames are extended, β or PII."""
    return (angles[:, 0] < 0) & ~right_handed(angles)


def left_half(angles: np.ndarray) -> np.ndarray:
    """Say which frames are in any of the basins with φ < 0."""
    return angles[:, 0] < 0


#: name → the basin and what its free energy is measured against
DIFFERENCES = {
    "αR against extended": (right_handed, extended),
    "αL against φ < 0": (left_handed, left_half),
}


def share(run: Run, basin: Any) -> float:
    """Return the weight of a basin in a run."""
    return float(np.average(basin(run.angles), weights=run.weights))


def differences(runs: list[Run], basin: Any, against: Any) -> np.ndarray:
    """Return F(basin) − F(against) in kJ/mol of every run that saw both."""
    shares = np.array([[share(run, basin), share(run, against)] for run in runs])
    both = shares[(shares > 0).all(axis=1)]
    result: np.ndarray = -KT * np.log(both[:, 0] / both[:, 1])
    return result


@dataclass
class Estimate:
    """A free energy difference in kJ/mol from runs of one kind, and what it cost.

    ``ns_for_1_kJ_mol`` is the simulation after which its standard error is 1 kJ/mol: the squared
    deviation of one run from the others times the whole length of a run, building included. It is
    unknown when a run did not see both basins.
    """

    kind: str
    difference: str
    mean: float
    standard_error: float
    runs: int
    runs_that_saw_both: int
    ns_per_run: float
    ns_for_1_kJ_mol: float  # noqa: N815 - a unit


def estimate(kind: str, name: str, runs: list[Run]) -> Estimate:
    """Estimate one of DIFFERENCES."""
    values = differences(runs, *DIFFERENCES[name])
    count, length = len(values), runs[0].nanoseconds
    mean = float(values.mean()) if count else np.nan
    deviation = float(values.std(ddof=1)) if count > 1 else np.nan
    cost = deviation**2 * length if count == len(runs) else np.nan
    return Estimate(kind, name, mean, deviation / np.sqrt(max(count, 1)), len(runs), count, length, cost)


def unbiased_cost(occupancy: float, stays: list[tuple[float, bool]]) -> float:
    """Return the ns of unbiased simulation after which a rare basin's free energy has an error of 1 kJ/mol.

    The basin is entered and left at random, so in a time T its occupancy p is known to a
    variance of 2 p² τ/(p T) for p ≪ 1, with τ the mean stay; and dF = kT dp/p.
    """
    escapes = sum(left for _, left in stays)
    if not (escapes and occupancy > 0):
        return np.nan
    mean_stay = sum(length for length, _ in stays) / escapes
    return 2 * KT**2 * mean_stay / occupancy


def saving(unbiased: Estimate, biased: Estimate) -> tuple[float, float, float]:
    """Return how many times less simulation a bias needs for the same error, and the 90 % interval of that."""
    from scipy.stats import f

    ratio = unbiased.ns_for_1_kJ_mol / biased.ns_for_1_kJ_mol
    low, high = f.ppf([0.05, 0.95], unbiased.runs - 1, biased.runs - 1)
    return ratio, ratio / high, ratio / low


# -- the figure -----------------------------------------------------------------------------


def draw(runs_of: dict[str, list[Run]], path: Path) -> None:
    """Draw F(ψ₂), F(φ), the basins' free energies, and F(φ, ψ) of every kind."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(14, 8), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    first, second, third = above.subplots(1, 3)
    everything = np.concatenate([run.coordinates[:, 0] for runs in runs_of.values() for run in runs])
    edges = 1e3 * np.linspace(everything.min(), everything.max(), 41)
    for axes, bins, values, label, top in (
        (first, edges, lambda run: 1e3 * run.coordinates[:, 0], "10³·ψ₂", 22),
        (second, np.linspace(-180, 180, 49), lambda run: run.angles[:, 0], "φ / °", 42),
    ):
        middle = 0.5 * (bins[1:] + bins[:-1])
        for (kind, runs), colour in zip(runs_of.items(), COLOURS, strict=True):
            energy, error = profile(runs, [values(run) for run in runs], bins)
            axes.plot(middle, energy, color=colour, label=kind, linewidth=1.6)
            axes.fill_between(middle, energy - error, energy + error, color=colour, alpha=0.2, linewidth=0)
        axes.set(xlabel=label, ylabel="F / kJ/mol", ylim=(-0.5, top))
    first.legend(frameon=False, fontsize=9, loc="lower center")
    for place, name in enumerate(DIFFERENCES):
        for shift, ((kind, runs), colour) in enumerate(zip(runs_of.items(), COLOURS, strict=True)):
            x = place + 0.18 * (shift - 1.5)
            each = differences(runs, *DIFFERENCES[name])
            third.plot(np.full(len(each), x), each, "o", color=colour, markersize=3, alpha=0.5)
            if len(each) > 1:
                error = estimate(kind, name, runs).standard_error
                third.errorbar(x, each.mean(), error, fmt="_", markersize=14, color=colour, capsize=4)
            third.annotate(
                f"{len(each)}/{len(runs)}",
                (x, each.max() if len(each) else 0),
                textcoords="offset points",
                xytext=(0, 8),
                ha="center",
                fontsize=8,
                color=colour,
            )
    third.set_xticks(range(len(DIFFERENCES)), DIFFERENCES)
    third.set(ylabel="ΔF / kJ/mol", title="a dot per run, and how many saw both basins", xlim=(-0.5, 1.5))
    third.title.set_fontsize(9)
    third.margins(y=0.15)
    for axes in (first, second, third):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    grid = np.linspace(-180, 180, 61)
    panels = below.subplots(1, len(runs_of), sharey=True)
    for axes, (kind, runs) in zip(panels, runs_of.items(), strict=True):
        total = sum(
            np.histogram2d(*run.angles.T, [grid, grid], weights=run.weights)[0] / run.weights.sum()
            for run in runs
        )
        with np.errstate(divide="ignore"):
            energy = -KT * np.log(total / total.max())
        image = axes.pcolormesh(
            grid, grid, np.where(np.isfinite(energy), energy, np.nan).T, vmin=0, vmax=40, cmap="viridis"
        )
        length = sum(run.nanoseconds for run in runs)
        axes.set(title=f"{kind}, {length:g} ns", xlabel="φ / °", aspect="equal")
        axes.set(xticks=(-180, -90, 0, 90, 180), yticks=(-180, -90, 0, 90, 180))
    panels[0].set_ylabel("ψ / °")
    below.colorbar(image, ax=panels, label="F / kJ/mol", shrink=0.85)
    figure.savefig(path, dpi=110)
    plt.close(figure)


# -- all of it -------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> None:
    """Make the runs, compare them, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("free_energy"))
    parser.add_argument("--runs", type=int, default=6, help="independent runs of each kind (default: 6)")
    parser.add_argument("--ns", type=float, default=3.0, help="length of a biased run (default: 3)")
    parser.add_argument(
        "--unbiased-ns", type=float, default=9.0, help="length of an unbiased run (default: 9)"
    )
    parser.add_argument("--hot-ns", type=float, default=1.0, help="length of the run at 600 K (default: 1)")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    molecule = alanine_dipeptide(stride=100)
    hot = hot_frames(molecule, options.output, options.hot_ns)
    model = hot_map(molecule, hot, options.output)
    runs_of: dict[str, list[Run]] = {kind: [] for kind in KINDS}
    stays = []
    for seed in range(1, options.runs + 1):
        for kind in KINDS:
            length = options.unbiased_ns if kind == "unbiased" else options.ns
            done = run(kind, model, molecule, options.output, seed, length)
            # An unbiased run forgets its basin within tens of ps, so its blocks are as good as runs of their own.
            runs_of[kind] += blocks(done, options.ns) if kind == "unbiased" else [done]
        stays += [stay(molecule, hot, options.output, place) for place in (2 * seed - 1, 2 * seed)]
    report(runs_of, stays, options.output)


def report(runs_of: dict[str, list[Run]], stays: list[tuple[float, bool]], directory: Path) -> None:
    """Print the free energies and what they cost, and write them and the figure."""
    seen_by = [*runs_of["along ψ₂ and ψ₃"], *runs_of["along φ and ψ"]]
    energies = differences(seen_by, *DIFFERENCES["αL against φ < 0"])
    occupancy = float(np.exp(-energies.mean() / KT)) if len(energies) else 0.0
    predicted = unbiased_cost(occupancy, stays)
    rows = []
    for name in DIFFERENCES:
        print(f"\n{name}")
        estimates = {kind: estimate(kind, name, runs) for kind, runs in runs_of.items()}
        for kind, one in estimates.items():
            ratio, low, high = saving(estimates["unbiased"], one)
            if np.isnan(estimates["unbiased"].ns_for_1_kJ_mol):
                ratio = predicted / one.ns_for_1_kJ_mol
            rows.append({**asdict(one), "saving": ratio, "saving_from": low, "saving_to": high})
            print(
                f"  {kind:16} {one.mean:6.2f} ± {one.standard_error:.2f} kJ/mol, seen by "
                f"{one.runs_that_saw_both} of {one.runs} runs of {one.ns_per_run:g} ns; "
                f"{one.ns_for_1_kJ_mol:.3g} ns for an error of 1 kJ/mol, "
                f"{ratio:.2g} ({low:.2g} to {high:.2g}) times less than without a bias"
            )
    escapes, total = sum(left for _, left in stays), sum(length for length, _ in stays)
    print(
        f"\nunbiased runs left αL {escapes} times in {total:.2f} ns there; with an occupancy of "
        f"{100 * occupancy:.2f} %, an error of 1 kJ/mol takes {predicted:.3g} ns without a bias"
    )
    summary = {"estimates": rows, "ns_for_1_kJ_mol_of_αL_without_bias": predicted, "stays": stays}
    (directory / "basins.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False))
    draw(runs_of, directory / "free_energy.png")
    print(f"see {directory / 'free_energy.png'}")


if __name__ == "__main__":
    main()
