"""Is embedding free? ``ldmaps embed`` against merely reading the same xtc with the same reader.

    python benchmarks/embed_trajectory.py [--landmarks 400] [--threads N]

Two files of alanine dipeptide: without water (22 atoms per frame, the hardest case: there is
next to nothing to read), and in 484 waters with the molecule selected (1,474 atoms, as
simulations write them). Wall times are the best of a few rounds; CPU times say what a frame
costs whatever else the machine does. Loading Python packages is not counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mdtraj
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from written_trajectories import mdtraj_trajectory

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap
from ldmaps.cli.embed import embed_source
from ldmaps.cli.writers import open_writer
from ldmaps.metrics import RMSD
from ldmaps.progress import Progress

N_WATERS = 484
BOX = 2.5


def solvated(dry: mdtraj.Trajectory) -> mdtraj.Trajectory:
    """Add waters that jitter about fixed places; only their number matters here."""
    topology = dry.topology.copy()
    chain = topology.add_chain()
    for _ in range(N_WATERS):
        residue = topology.add_residue("HOH", chain)
        oxygen, *hydrogens = (
            topology.add_atom(name, mdtraj.element.get_by_symbol(name[0]), residue)
            for name in ("O", "H1", "H2")
        )
        for hydrogen in hydrogens:
            topology.add_bond(oxygen, hydrogen)
    rng = np.random.default_rng(0)
    places = np.repeat(rng.uniform(0.2, BOX - 0.2, (N_WATERS, 3)), 3, axis=0)
    water = (places + rng.normal(scale=0.05, size=(len(dry), 3 * N_WATERS, 3))).astype(np.float32)
    wet = mdtraj.Trajectory(np.concatenate([dry.xyz, water], axis=1), topology, time=dry.time)
    wet.unitcell_vectors = np.tile(BOX * np.eye(3), (len(wet), 1, 1))
    return wet


def measure(works: dict[str, Callable[[], int]], rounds: int) -> dict[str, tuple[int, float, float]]:
    """Return frames, best wall time and least CPU time of each; they take turns, so that all meet the same machine."""
    best = {}
    for _ in range(rounds):
        for name, work in works.items():
            cpu, wall = time.process_time(), time.perf_counter()
            frames = work()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            _, least_wall, least_cpu = best.get(name, (0, wall, cpu))
            best[name] = frames, min(wall, least_wall), min(cpu, least_cpu)
    return best


def compare(
    name: str, path: Path, top: Path, select: str | None, model, threads: int | None, rounds: int
) -> None:
    embedder = model.embedder_

    def source():
        return ldmaps.inputs.open_files(path, top=top, select=select)

    def read_mdtraj() -> int:
        return sum(len(chunk) for chunk in mdtraj.iterload(str(path), top=str(top), chunk=1000))

    def read() -> int:
        return sum(len(chunk) for chunk in source())

    def embed(extension: str) -> int:
        output = str(path.with_suffix(extension))
        with (
            Progress(False).stage("embedding") as stage,
            open_writer(output, model.n_components_, [str(path)]) as writer,
        ):
            embed_source(embedder, source(), writer, stage, threads)
        return stage.done

    embedder.extend(embedder.prepare(next(iter(source())).frames[:64]))  # compiles
    print(f"\n{name}, M = {embedder.n_landmarks}")
    works = {
        "mdtraj.iterload": read_mdtraj,
        "reading": read,
        "embed to .npy": lambda: embed(".npy"),
        "embed to .csv": lambda: embed(".csv"),
    }
    best = measure(works, rounds)
    least = best["reading"][1]
    for label, (frames, wall, cpu) in best.items():
        rate, cost = frames / wall, 1e6 * cpu / frames
        print(
            f"  {label:<17}{rate:>10,.0f} frames/s   {cost:6.2f} µs CPU per frame   {least / wall:.2f} of reading"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--landmarks", type=int, default=400)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    dry = mdtraj_trajectory(stride=1)
    model = LandmarkDiffusionMap(
        2,
        1.36e-3,
        metric=RMSD(weights=[atom.element.mass for atom in dry.topology.atoms]),
        landmarks="uniform",
        n_landmarks=arguments.landmarks,
    ).fit(dry.xyz[::5])
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dry[0].save_pdb(str(folder / "dry.pdb"))
        mdtraj.join([dry, dry, dry, dry], check_topology=False).save_xtc(str(folder / "dry.xtc"))
        wet = solvated(dry[::10])
        wet[0].save_pdb(str(folder / "wet.pdb"))
        wet.save_xtc(str(folder / "wet.xtc"))
        threads, rounds = arguments.threads, arguments.rounds
        compare(
            "100,004 frames of 22 atoms", folder / "dry.xtc", folder / "dry.pdb", None, model, threads, rounds
        )
        compare(
            f"{len(wet):,} frames of {wet.n_atoms:,} atoms, 22 selected",
            folder / "wet.xtc",
            folder / "wet.pdb",
            "not water",
            model,
            threads,
            rounds,
        )


if __name__ == "__main__":
    main()
