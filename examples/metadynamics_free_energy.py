"""Free energies of alanine dipeptide from metadynamics along the coordinates of a map.

A short run at 600 K visits all basins; a map is fitted on its frames. Then, at 300 K in
implicit solvent, independent runs of each kind:

    along ψ₂           well-tempered metadynamics along the map's slowest coordinate
    along ψ₂ and ψ₃    the same along two
    along φ and ψ      the same along the dihedrals that every textbook takes: the reference
    unbiased

All are reweighted to the unbiased ensemble and compared: F(ψ₂), F(φ), and the free energies of the
right-handed and the left-handed helix, with errors from the spread of independent runs.

    pip install "ldmaps[openmm,plot]"
    python examples/metadynamics_free_energy.py --output free_energy

Interrupted, the same command goes on: every finished run is on disk.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
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
from ldmaps.openmm import BiasLog, bias_variable, effective_number, metadynamics_weights

HOT = 600.0  # K
EPSILON, N_LANDMARKS = 1.36e-3, 100
KT = 8.31446261815324e-3 * TEMPERATURE
BUMP_HEIGHT, BUMP_EVERY, BIAS_FACTOR = 0.5, 125, 5.0  # kJ/mol; steps (0.5 ps)
SETTLING = 0.3  # share of a biased run from before the bias has filled the basins
KINDS = ("along ψ₂", "along ψ₂ and ψ₃", "along φ and ψ", "unbiased")
COLOURS = ("#D55E00", "#CC79A7", "#009E73", "#0072B2")


@dataclass
class Run:
    """Frames of a run at equilibrium, what each counts, and how long the whole run was, in ns."""

    angles: np.ndarray
    coordinates: np.ndarray
    weights: np.ndarray
    nanoseconds: float


def build(molecule: MolecularFrames, seed: int, variables: list[Any], temperature: float) -> tuple[Any, Any]:
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
    simulation.context.setPositions(molecule.frames[seed])
    simulation.minimizeEnergy(maxIterations=20)
    simulation.context.setVelocitiesToTemperature(temperature, seed)
    return simulation, metadynamics


def hot_map(molecule: MolecularFrames, directory: Path, nanoseconds: float) -> LandmarkDiffusionMap:
    """Return a map of a run at 600 K, made where it is not on disk."""
    path = directory / "map.ldm"
    if not path.exists():
        simulation, _ = build(molecule, 1, [], HOT)
        keeper = Frames()
        simulation.reporters[:] = [keeper]
        simulation.step(round(1000 * nanoseconds / TIME_STEP))
        model = LandmarkDiffusionMap(
            2,
            EPSILON,
            metric=RMSD(molecule.masses),
            n_landmarks=N_LANDMARKS,
            extension="nystrom",
            random_state=0,
        )
        model.fit(np.array(keeper.kept))
        model.save(path)
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
        simulation, metadynamics = build(molecule, 10 + seed, variables, TEMPERATURE)
        log_path = path.with_suffix(".csv")
        log_path.unlink(missing_ok=True)  # of a run that was interrupted
        keeper, log = Frames(), BiasLog(log_path, model, 10 * INTERVAL, bias=metadynamics)
        simulation.reporters[:] = [keeper, log]
        steps = round(1000 * ns / TIME_STEP)
        if metadynamics is None:
            simulation.step(steps)
        else:
            metadynamics.step(simulation, steps)
        log.close()
        frames = np.array(keeper.kept)
        angles, coordinates = backbone_angles(molecule, frames), model.transform(frames)
        weights = np.ones(len(frames))
        if metadynamics is not None:
            settled = slice(int(SETTLING * len(frames)), None)
            angles, coordinates = angles[settled], coordinates[settled]
            values = np.radians(angles) if kind == "along φ and ψ" else coordinates[:, : len(variables)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AccuracyWarning)  # the effective number is reported
                weights = metadynamics_weights(values, metadynamics)
        fresh = path.with_suffix(".new.npz")
        np.savez(fresh, angles=angles, coordinates=coordinates, weights=weights)
        fresh.replace(path)
        print(f"{kind}, run {seed}, {ns:g} ns: {effective_number(weights):.0f} effective frames", flush=True)
    with np.load(path) as stored:
        return Run(stored["angles"], stored["coordinates"], stored["weights"], ns)


# -- free energies ------------------------------------------------------------------------


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


def basin_free_energy(runs: list[Run], basin: Any) -> tuple[float, float, int]:
    """Return F of a basin against all else in kJ/mol, the standard deviation of one run, and how many runs saw it."""
    shares = np.array([np.average(basin(one.angles), weights=one.weights) for one in runs])
    seen = (shares > 0) & (shares < 1)
    each = -KT * np.log(shares[seen] / (1 - shares[seen]))
    if not seen.any():
        return np.nan, np.nan, 0
    return float(each.mean()), float(each.std(ddof=1)) if seen.sum() > 1 else np.nan, int(seen.sum())


def right_handed(angles: np.ndarray) -> np.ndarray:
    """Say which frames are in the right-handed helix."""
    return (angles[:, 0] < 0) & (angles[:, 1] > -110) & (angles[:, 1] < 50)


BASINS = {"right-handed helix": right_handed, "left-handed helix": left_handed}


def draw(found: dict[str, list[Run]], path: Path) -> None:
    """Draw F(ψ₂), F(φ) and the basins' free energies."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (first, second, third) = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    everything = np.concatenate([one.coordinates[:, 0] for runs in found.values() for one in runs])
    edges = np.linspace(everything.min(), everything.max(), 41)
    for axes, bins, values, label in (
        (first, 1e3 * edges, lambda one: 1e3 * one.coordinates[:, 0], "10³·ψ₂"),
        (second, np.linspace(-180, 180, 49), lambda one: one.angles[:, 0], "φ / °"),
    ):
        middle = 0.5 * (bins[1:] + bins[:-1])
        for (kind, runs), colour in zip(found.items(), COLOURS, strict=True):
            energy, error = profile(runs, [values(one) for one in runs], bins)
            axes.plot(middle, energy, color=colour, label=kind, linewidth=1.6)
            axes.fill_between(middle, energy - error, energy + error, color=colour, alpha=0.2, linewidth=0)
        axes.set(xlabel=label, ylabel="F / kJ/mol", ylim=(-1, 45))
    first.legend(frameon=False, fontsize=8)
    for place, basin in enumerate(BASINS.values()):
        for shift, ((_, runs), colour) in enumerate(zip(found.items(), COLOURS, strict=True)):
            mean, deviation, seen = basin_free_energy(runs, basin)
            if seen:
                error = deviation / np.sqrt(seen) if seen > 1 else 0
                third.errorbar(place + 0.16 * (shift - 1.5), mean, error, fmt="o", color=colour, capsize=3)
            third.annotate(
                f"{seen}/{len(runs)}",
                (place + 0.16 * (shift - 1.5), mean if seen else 0),
                textcoords="offset points",
                xytext=(0, 12),
                ha="center",
                fontsize=7,
                color=colour,
            )
    third.set_xticks(range(len(BASINS)), BASINS)
    third.set(ylabel="F of the basin / kJ/mol (above: runs that saw it)", xlim=(-0.5, 1.5))
    third.margins(y=0.2)
    for axes in (first, second, third):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Make the runs, compare them, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("free_energy"))
    parser.add_argument("--runs", type=int, default=4, help="independent runs of each kind (default: 4)")
    parser.add_argument("--ns", type=float, default=2.0, help="length of a biased run (default: 2)")
    parser.add_argument(
        "--unbiased-ns", type=float, default=4.0, help="length of an unbiased one (default: 4)"
    )
    parser.add_argument("--hot-ns", type=float, default=1.0, help="length of the run at 600 K (default: 1)")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    molecule = alanine_dipeptide(stride=100)
    model = hot_map(molecule, options.output, options.hot_ns)
    found: dict[str, list[Run]] = {kind: [] for kind in KINDS}
    for seed in range(1, options.runs + 1):
        for kind in KINDS:
            length = options.unbiased_ns if kind == "unbiased" else options.ns
            found[kind].append(run(kind, model, molecule, options.output, seed, length))
    table = {}
    for kind, runs in found.items():
        for name, basin in BASINS.items():
            mean, deviation, seen = basin_free_energy(runs, basin)
            table[f"{kind}: {name}"] = {
                "kJ_mol": mean,
                "standard_deviation_of_one_run": deviation,
                "runs_that_saw_it": seen,
                "runs": len(runs),
                "ns_per_run": runs[0].nanoseconds,
            }
            print(
                f"{kind:18} {name:20} F = {mean:6.2f} ± {deviation:5.2f} a run, seen by {seen} of {len(runs)}"
            )
    (options.output / "basins.json").write_text(json.dumps(table, indent=1, ensure_ascii=False))
    draw(found, options.output / "free_energy.png")
    print(f"see {options.output / 'free_energy.png'}")


if __name__ == "__main__":
    main()
