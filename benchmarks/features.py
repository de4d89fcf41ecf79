"""Internal coordinates: how fast they are, and what they find that superposed atoms hide.

python benchmarks/features.py             writes docs/benchmarks/features.md, .csv
python benchmarks/features.py --chain     simulates a chain of beads, prints the table of docs/guide/settings.md and draws
                                          docs/images/bead_chain.png
"""

from __future__ import annotations

import math
import statistics
import sys
from typing import Any

import numpy as np
from harness import DOCS, Row, median_ratio, turns, write_table

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.metrics import RMSD, Features

INTRODUCTION = """\
How fast are torsions, angles and distances of 22 atoms (float32), and an embedding by them? One thread; contestants take turns in one run,
and the median counts."""

#: A chain of so many beads, one of whose torsions is slow.
BEADS, SLOW = 12, (4, 5, 6, 7)


def against_mdtraj() -> list[Row]:
    """45 features of each kind of 22 atoms."""
    import mdtraj

    frames = np.ascontiguousarray(alanine_dipeptide(stride=2).frames, np.float32)
    topology = mdtraj.Topology()
    residue = topology.add_residue("X", topology.add_chain())
    for _ in range(frames.shape[1]):
        topology.add_atom("C", mdtraj.element.carbon, residue)
    trajectory = mdtraj.Trajectory(frames, topology)
    rng = np.random.default_rng(0)
    places = np.array([rng.permutation(22)[:4] for _ in range(45)])
    rows = []
    for kind, width, compute in (
        ("dihedrals", 4, mdtraj.compute_dihedrals),
        ("angles", 3, mdtraj.compute_angles),
        ("distances", 2, mdtraj.compute_distances),
    ):
        atoms = places[:, :width]
        metric = Features(22, **{kind: atoms})
        ours, theirs = turns(
            [
                lambda metric=metric: metric.prepare(frames),
                lambda compute=compute, atoms=atoms: compute(trajectory, atoms, periodic=False),
            ]
        )
        rate = len(frames) / statistics.median(ours) / 1e6
        rows.append(
            Row(
                f"45 {kind}",
                "mdtraj",
                f"{rate:.2f} M frames/s",
                f"{len(frames) / statistics.median(theirs) / 1e6:.2f} M frames/s",
                median_ratio(theirs, ours),
                "5 times, and 1 M frames/s" if kind == "dihedrals" else "",
            )
        )
    return rows


def against_rmsd() -> list[Row]:
    """Frames embedded by torsions and by RMSD."""
    molecule = alanine_dipeptide(stride=5)
    frames = np.ascontiguousarray(molecule.frames, np.float32)
    rng = np.random.default_rng(0)
    torsions = np.array([rng.permutation(22)[:4] for _ in range(45)])
    rows = []
    for many in (100, 400):
        embedders = [
            LandmarkDiffusionMap(2, metric=metric, n_landmarks=many).fit(frames).embedder_
            for metric in (Features(22, dihedrals=torsions), RMSD())
        ]
        ours, theirs = turns([lambda e=e: e.extend(e.prepare(frames), 1) for e in embedders])
        rows.append(
            Row(
                f"embedding by 45 dihedrals, M = {many}",
                "embedding by RMSD",
                f"{1e6 * statistics.median(ours) / len(frames):.2f} µs",
                f"{1e6 * statistics.median(theirs) / len(frames):.2f} µs",
                median_ratio(theirs, ours),
                "0.5",
            )
        )
    return rows


def bead_chain(n_frames: int = 20_000, steps: int = 250) -> np.ndarray:
    """Simulate a chain whose torsions turn freely, but for one with two states and a barrier of 8 k_BT between them."""
    import openmm

    system, bonds, angles, torsions = (
        openmm.System(),
        openmm.HarmonicBondForce(),
        openmm.HarmonicAngleForce(),
        openmm.PeriodicTorsionForce(),
    )
    for bead in range(BEADS):
        system.addParticle(72.0)
        if bead > 0:
            bonds.addBond(bead - 1, bead, 0.38, 5000.0)
        if bead > 1:
            angles.addAngle(bead - 2, bead - 1, bead, math.radians(110.0), 100.0)
    torsions.addTorsion(*SLOW, 2, 0.0, 10.0)
    for force in (bonds, angles, torsions):
        system.addForce(force)
    integrator = openmm.LangevinMiddleIntegrator(300.0, 1.0, 0.02)
    integrator.setRandomNumberSeed(1)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    places = np.zeros((BEADS, 3))
    places[:, 0], places[1::2, 1] = 0.31 * np.arange(BEADS), 0.22
    places[7:, 2] = 0.05 * np.arange(BEADS - 7)
    context.setPositions(places)
    context.setVelocitiesToTemperature(300.0, 1)
    integrator.step(2000)
    frames = np.empty((n_frames, BEADS, 3), np.float32)
    for number in range(n_frames):
        integrator.step(steps)
        frames[number] = context.getState(positions=True).getPositions(asNumpy=True)._value
    return frames


def compare_representations(frames: np.ndarray) -> None:
    """Print how well the first two coordinates tell the states of the slow torsion, and draw them."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from sklearn.metrics import roc_auc_score

    chain = [(first, first + 1, first + 2, first + 3) for first in range(BEADS - 3)]
    pairs = [(left, right) for right in range(BEADS) for left in range(right)]
    angle = Features(BEADS, dihedrals=[SLOW]).values(frames)[:, 0]
    core = np.sign(angle[np.abs(np.abs(angle) - math.pi / 2) < 0.6])
    print(f"{int((np.diff(core) != 0).sum())} flips in {len(frames):,} frames")
    ways: dict[str, Any] = {
        "RMSD of all beads": RMSD(),
        "distances of all pairs": Features(BEADS, distances=pairs),
        "dihedrals": Features(BEADS, dihedrals=chain),
    }
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), sharey=True, constrained_layout=True)
    for (name, metric), axis in zip(ways.items(), axes, strict=True):
        model = LandmarkDiffusionMap(2, metric=metric).fit(frames)
        told = [roc_auc_score(angle > 0, column) for column in model.embedding_.T]
        told = [max(value, 1 - value) for value in told]
        print(f"{name}: AUC {told[0]:.2f}, {told[1]:.2f}; eigenvalues {model.spectrum_[:4].round(3)}")
        axis.scatter(model.embedding_[::4, 0], np.degrees(angle[::4]), s=1.5, color="#2a6f97", linewidths=0)
        axis.set_title(f"{name}: AUC {told[0]:.2f}", fontsize=10)
        axis.set_xlabel("ψ₂")
        axis.set_xticks([])
    axes[0].set_ylabel("slow torsion (degrees)")
    axes[0].set_yticks([-180, -90, 0, 90, 180])
    figure.savefig(DOCS.parent / "images" / "bead_chain.png", dpi=150)


if __name__ == "__main__":
    if "--chain" in sys.argv[1:]:
        compare_representations(bead_chain())
    else:
        rows = against_mdtraj() + against_rmsd()
        write_table("features", "Internal coordinates", "python benchmarks/features.py", INTRODUCTION, rows)
