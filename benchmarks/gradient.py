"""What gradients cost beside values, and forces beside the rest of a step of an OpenMM run.

python benchmarks/gradient.py     writes docs/benchmarks/gradient.md, .csv
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, median_ratio, turns, write_table

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD, Features
from ldmaps.openmm import boundary_restraint, coordinate_force

INTRODUCTION = """\
What do derivatives cost beside values (two coordinates, per point; M landmarks), and a biasing force that Python computes beside the rest
of a step (OpenMM, 22 atoms in implicit solvent, M = 50)? Both take turns in one run, and the median
counts; [in double precision](gradient.csv) too. Two forces of one map measure a frame once."""

#: What steps are taken with: the forces that are added.
FORCES = {
    "no force": [],
    "a force of Python that does nothing": ["nothing"],
    "a bias along one coordinate": ["bias"],
    "a boundary restraint": ["restraint"],
    "both of these": ["bias", "restraint"],
}
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "replica_reset.py"


def against_values() -> list[Row]:
    """Value and gradient against the value alone, one point and a batch, on one thread."""
    rows = []
    molecule = alanine_dipeptide(stride=5)
    torsions = Features(22, dihedrals=[(4, 6, 8, 14), (6, 8, 14, 16)])
    for what, points, metric, epsilon, count in [
        ("22 atoms, RMSD, M = 4", molecule.frames, RMSD(molecule.masses), "connected", 4),
        ("two torsions, M = 4", molecule.frames, torsions, "connected", 4),
        ("22 atoms, RMSD, M = 400", molecule.frames, RMSD(molecule.masses), 1.36e-3, 400),
        ("3-D points, M = 400", swiss_roll(4000).points, "euclidean", 1.0, 400),
    ]:
        for dtype in (np.float32, np.float64):
            X = points.astype(dtype)
            extension = "nystrom" if count > 4 else "distilled"
            model = LandmarkDiffusionMap(2, epsilon, metric=metric, n_landmarks=count, extension=extension)
            embedder = model.fit(X).embedder_
            for many, few, target in (("one", X[7:8].copy(), 3), (f"{len(X):,}", X, 4)):
                value, both = turns(
                    [
                        lambda few=few: embedder.project(few, 1),
                        lambda few=few: embedder.extend_with_gradient(few, 1),
                    ],
                    rounds=15,
                    repeats=500 if many == "one" else 1,
                )
                rows.append(
                    Row(
                        f"{what}, {np.dtype(dtype)}, {many} at a time",
                        "value alone",
                        f"{1e6 * statistics.median(both) / len(few):.2g} µs",
                        f"{1e6 * statistics.median(value) / len(few):.2g} µs",
                        median_ratio(value, both),
                        f"at most {target} times the time",
                        f"{1 / median_ratio(value, both):.2f} times",
                    )
                )
    return rows


def example():
    spec = importlib.util.spec_from_file_location("replica_reset", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def nothing(state: Any) -> tuple[float, np.ndarray]:
    """Return no energy and no forces."""
    return 0.0, np.zeros((22, 3))


def force(kind: str, model: Any, topology: Any) -> Any:
    """Return one of the forces of ``FORCES``."""
    import openmm

    if kind == "restraint":
        return boundary_restraint(model, 5000.0, topology=topology)
    if kind == "nothing":
        return openmm.PythonForce(nothing)
    bias = openmm.CustomCVForce("100*q")
    bias.addCollectiveVariable("q", coordinate_force(model, 0, topology=topology))
    return bias


def against_steps(rounds: int = 9, steps: int = 1500) -> list[Row]:
    """Steps of alanine dipeptide with forces that Python computes, against steps without."""
    molecule = alanine_dipeptide(stride=10)
    model = LandmarkDiffusionMap(2, 1.36e-3, metric=RMSD(molecule.masses), n_landmarks=50)
    model.fit(molecule.frames)
    module = example()
    topology = module.topology_of(molecule)
    rows = []
    for platform in ("Reference", "CPU"):
        simulations = {}
        for what, kinds in FORCES.items():
            simulation = module.build_simulation(molecule, molecule.frames[0], 1, platform)
            for kind in kinds:
                simulation.system.addForce(force(kind, model, topology))
            simulation.context.reinitialize(preserveState=True)
            simulations[what] = simulation
        seconds = turns(
            [lambda one=one: one.step(steps) for one in simulations.values()],
            rounds=rounds,
            clock=time.process_time,
        )
        plain = seconds[0]
        for what, ours in list(zip(simulations, seconds, strict=True))[1:]:
            extra = statistics.median((b - a) / steps for a, b in zip(plain, ours, strict=True))
            rows.append(
                Row(
                    f"a step with {what}, {platform}",
                    "the step alone",
                    f"{1e6 * statistics.median(ours) / steps:.1f} µs",
                    f"{1e6 * statistics.median(plain) / steps:.1f} µs",
                    median_ratio(plain, ours),
                    "less than 0.3 ms more",
                    f"{1e6 * extra:.1f} µs more",
                )
            )
    return rows


if __name__ == "__main__":
    write_table(
        "gradient",
        "Cost of gradients and biasing forces",
        "make bench",
        INTRODUCTION,
        [*against_values(), *against_steps()],
        {"what": "what", "ours": "with gradient or force", "theirs": "without", "note": "cost"},
        hidden=["float64"],
    )
