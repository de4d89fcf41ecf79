"""What a step of metadynamics along a map costs in OpenMM, each way, beside a step without a bias.

python benchmarks/openmm_bias.py

Alanine dipeptide in vacuum, 22 atoms, maps of four landmarks; one thread. Ways take turns in one run; the least processor
time of each counts, because waiting threads of the CPU platform use more where others are on the machine.

Prints the table of docs/guide/enhanced_sampling.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import openmm
from openmm import app
from openmm_systems import topology_of

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.metrics import RMSD, Features
from ldmaps.openmm import MapMetadynamics, bias_variable, boundary_restraint

MOLECULE = alanine_dipeptide(stride=50)
FRAMES, HEAVY = MOLECULE.frames.astype(np.float64), np.asarray(MOLECULE.heavy_atoms)
TOPOLOGY = topology_of(MOLECULE)
STRENGTH, STEPS, ROUNDS = 5000.0, 250, 20
#: The ways, and what each passes for ``native``.
WAYS = {"one force": True, "OpenMM's forces": True, "Python": False}


def simulation(
    platform: str, way: str | None, model: Any, atoms: Any, count: int, wall: bool
) -> Callable[[int], None]:
    """Return what takes steps of a run, biased along so many coordinates one way or not at all."""
    system = app.ForceField("amber99sbildn.xml").createSystem(TOPOLOGY, constraints=app.HBonds)
    metadynamics = None
    if way is not None:
        given = {"atoms": atoms, "topology": TOPOLOGY, "native": WAYS[way]}
        variables = [bias_variable(model, place, grid_width=100, **given) for place in range(count)]
        bias = system, variables, 300, 10, 1.0, STEPS
        if way == "one force":
            metadynamics = MapMetadynamics(*bias, restraint=STRENGTH * wall)
        else:
            metadynamics = app.Metadynamics(*bias)
            if wall:
                system.addForce(boundary_restraint(model, STRENGTH, **given))
    integrator = openmm.LangevinMiddleIntegrator(300, 1.0, 0.002)
    settings = {"Threads": "1"} if platform == "CPU" else {}
    run = app.Simulation(TOPOLOGY, system, integrator, openmm.Platform.getPlatformByName(platform), settings)
    run.context.setPositions(FRAMES[0])
    run.minimizeEnergy(maxIterations=10)
    return run.step if metadynamics is None else lambda steps: metadynamics.step(run, steps)


def main() -> None:
    torsions = Features(22, dihedrals=[(4, 6, 8, 14), (6, 8, 14, 16)])
    maps = {"RMSD of 10 atoms": (RMSD(), HEAVY), "two torsions": (torsions, np.arange(22))}
    print(f"| platform, map, bias | no bias, µs | {' | '.join(f'{way}, µs more' for way in WAYS)} |")
    print("|---" * (2 + len(WAYS)) + "|")
    for platform in ("Reference", "CPU"):
        for name, (metric, atoms) in maps.items():
            model = LandmarkDiffusionMap(2, "connected", metric=metric, n_landmarks=4, extension="distilled")
            model.fit(FRAMES[:, atoms])
            for count, wall in ((1, False), (2, True)):
                runs = [simulation(platform, way, model, atoms, count, wall) for way in (None, *WAYS)]
                seconds: list[list[float]] = [[] for _ in runs]
                for _ in range(1 + ROUNDS):
                    for own, step in zip(seconds, runs, strict=True):
                        begun = time.process_time()
                        step(STEPS)
                        own.append((time.process_time() - begun) / STEPS)
                plain, *biased = (1e6 * min(own[1:]) for own in seconds)
                what = "one coordinate" if count == 1 else "two coordinates and the restraint"
                more = " | ".join(f"{value - plain:.0f}" for value in biased)
                print(f"| {platform}, {name}, {what} | {plain:.0f} | {more} |", flush=True)


if __name__ == "__main__":
    main()
