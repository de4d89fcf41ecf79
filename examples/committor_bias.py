"""Bias a simulation along a committor: learn it from unbiased runs, push along it, and export it to engines.

Alanine dipeptide in implicit solvent at 600 K, where φ turns over often enough to learn from. The committor from the
right-handed to the left-handed helix is learned on a map by RMSD of the heavy atoms, which knows no torsion. It is then
the variable of OpenMM's metadynamics, and written as input of PLUMED and Colvars.

    pip install ".[openmm]"
    python examples/committor_bias.py --output committor        # about ten minutes
    python examples/committor_bias.py --quick --output quick    # helix to extended, in a minute
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from explore import Frames, backbone_angles
from replica_reset import FORCE_FIELD, topology_of

import ldmaps
from ldmaps.datasets import MolecularFrames, alanine_dipeptide
from ldmaps.errors import LdmapsWarning
from ldmaps.openmm import BiasLog, bias_variable

TEMPERATURE, TIME_STEP = 600.0, 0.003  # K, ps
INTERVAL = 50  # steps between frames, those of explore.Frames
#: Boxes in φ, ψ in degrees.
HELIX = (-100.0, -40.0), (-80.0, -10.0)
LEFT = (30.0, 90.0), (-20.0, 90.0)
EXTENDED = (-180.0, -100.0), (110.0, 180.0)


@dataclass(frozen=True)
class Found:
    """What the example found."""

    committor: Any  # FunctionMap
    free: np.ndarray  # (n,): values on unbiased frames
    biased: np.ndarray  # (m,): values along the biased run


def simulation_from(
    molecule: MolecularFrames, positions: np.ndarray, seed: int, system_bias: Any = None
) -> Any:
    """Return a simulation at 600 K; ``system_bias`` is what OpenMM's Metadynamics is given, (variable, height)."""
    import openmm
    from openmm import app, unit

    topology = topology_of(molecule)
    system = app.ForceField(*FORCE_FIELD).createSystem(
        topology, nonbondedMethod=app.NoCutoff, constraints=app.AllBonds, hydrogenMass=4.0 * unit.amu
    )
    meta = None
    if system_bias is not None:
        meta = app.Metadynamics(system, [system_bias[0]], TEMPERATURE, 6.0, system_bias[1], 50)
    integrator = openmm.LangevinMiddleIntegrator(TEMPERATURE, 2.0, TIME_STEP)
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=20)
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    return simulation if meta is None else (simulation, meta)


def unbiased(molecule: MolecularFrames, n_frames: int, seed: int) -> np.ndarray:
    """Return frames of a run that starts somewhere in the data set."""
    start = molecule.frames[(37 * seed) % len(molecule.frames)]
    simulation, reporter = simulation_from(molecule, start, seed), Frames()
    simulation.step(1000)
    simulation.reporters.append(reporter)
    simulation.step(INTERVAL * n_frames)
    return np.stack(reporter.kept)


def within(angles: np.ndarray, box: tuple[tuple[float, float], tuple[float, float]]) -> np.ndarray:
    """Say which φ, ψ lie in a box."""
    return np.all(
        [(low < column) & (column < high) for column, (low, high) in zip(angles.T, box, strict=True)], 0
    )


def heavy_atoms(molecule: MolecularFrames) -> list[int]:
    """Return the indices of the atoms other than hydrogen."""
    return [index for index, element in enumerate(molecule.elements) if element != "H"]


def learn(
    molecule: MolecularFrames, runs: list[np.ndarray], target: Any, n_landmarks: int, every: int = 10
) -> Any:
    """Return a map of the runs' heavy atoms and the committor on it."""
    frames = np.concatenate(runs)[:, heavy_atoms(molecule)]
    run = np.repeat(np.arange(len(runs)), [len(one) for one in runs])
    angles = backbone_angles(molecule, np.concatenate(runs))
    model = ldmaps.LandmarkDiffusionMap(6, "connected", "rmsd", n_landmarks=n_landmarks).fit(frames[::every])
    committor = model.committor(
        frames, source=within(angles, HELIX), target=within(angles, target), lag=1, runs=run
    )
    committor.units_ = "nm"  # of arrays it is not known
    return committor


def push(molecule: MolecularFrames, committor: Any, n_steps: int, folder: Path) -> np.ndarray:
    """Run metadynamics along the committor and return its values."""
    atoms = heavy_atoms(molecule)
    start = molecule.frames[within(backbone_angles(molecule, molecule.frames), HELIX)][0]
    variable = bias_variable(committor, "q", 0.05, atoms=atoms)
    simulation, meta = simulation_from(molecule, start, 1, (variable, 2.0))
    log = BiasLog(folder / "bias.csv", committor, INTERVAL, bias=meta, atoms=atoms)
    simulation.reporters.append(log)
    meta.step(simulation, n_steps)
    log.close()
    table = np.genfromtxt(folder / "bias.csv", delimiter=",", names=True)
    return np.asarray(table["q"])


def main(arguments: list[str] | None = None) -> Found:
    """Read the command line, learn, push and export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="helix to extended, from two short runs")
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    molecule = alanine_dipeptide(stride=50)
    n_runs, n_frames, n_steps = (2, 1000, 2000) if given.quick else (6, 40_000, 100_000)
    runs = [unbiased(molecule, n_frames, seed) for seed in range(1, n_runs + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        committor = learn(molecule, runs, EXTENDED if given.quick else LEFT, 30)
        for line in committor.record_.lines:
            print(line)
        committor.save(given.output / "committor.ldm")
        atoms = heavy_atoms(molecule)
        committor.export(given.output / "plumed", "plumed", atoms=atoms)
        committor.export(given.output / "colvars", "colvars", atoms=atoms, units="real")
    free = committor.transform(np.concatenate(runs)[:, atoms])[:, 0]
    pushed = push(molecule, committor, n_steps, given.output)
    for name, values in (("unbiased", free), ("biased", pushed)):
        between = np.mean((values > 0.1) & (values < 0.9))
        print(
            f"{name}: q {values.min():.2f} to {values.max():.2f}, {100 * between:.1f} % between 0.1 and 0.9"
        )
    return Found(committor, free, pushed)


if __name__ == "__main__":
    main()
