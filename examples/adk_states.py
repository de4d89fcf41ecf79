"""Simulate adenylate kinase as it opens and closes, with one bead per residue, and write what ldmaps reads.

    pip install ".[trajectory,openmm]" MDAnalysisTests
    python examples/adk_states.py FOLDER      # adk.pdb, adk.xtc (2,000 frames of 214 residues), domains.csv

A structure-based model with two ends: beads at the α-carbons, bonds, angles and torsions of the open
structure, contacts of both structures attractive at full strength, and contacts that only the closed one
has weaker, so that the LID and the NMP domain close and open many times in a few minutes of computing.
Both structures are from the transition that MDAnalysisTests ships.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import mdtraj
import numpy as np
import openmm
from openmm import app, unit

#: Energy of a contact in kT, and the share of it that contacts of the closed structure alone get.
CONTACT, CLOSED_SHARE = 1.7, 0.93
TEMPERATURE = 300.0
REACH = 0.8  # nm between α-carbons in contact
STEPS_PER_FRAME = 400


def structures() -> tuple[mdtraj.Trajectory, mdtraj.Trajectory]:
    """Return the closed and the open structure, α-carbons alone."""
    found = find_spec("MDAnalysisTests")
    if found is None or found.origin is None:
        raise SystemExit("pip install MDAnalysisTests: it has the structures of adenylate kinase")
    data = Path(found.origin).parent / "data"
    topology = mdtraj.load_topology(str(data / "adk.psf"))
    frames = mdtraj.load(str(data / "adk_dims.dcd"), top=topology, atom_indices=topology.select("name CA"))
    return frames[0], frames[-1]


def build(closed: mdtraj.Trajectory, opened: mdtraj.Trajectory) -> openmm.System:
    """Return the model of the two structures."""
    n = opened.n_atoms
    kt = (unit.MOLAR_GAS_CONSTANT_R * TEMPERATURE * unit.kelvin).value_in_unit(unit.kilojoule_per_mole)
    system = openmm.System()
    for _ in range(n):
        system.addParticle(110.0)
    chain = [np.arange(k, n - 3 + k) for k in range(4)]
    bonds, angles, torsions = (
        openmm.HarmonicBondForce(),
        openmm.HarmonicAngleForce(),
        openmm.PeriodicTorsionForce(),
    )
    pairs = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    for (i, j), length in zip(pairs.tolist(), mdtraj.compute_distances(opened, pairs)[0], strict=True):
        bonds.addBond(i, j, float(length), 8000 * kt)
    triples = np.column_stack([np.arange(n - 2), np.arange(1, n - 1), np.arange(2, n)])
    for (i, j, k), angle in zip(triples.tolist(), mdtraj.compute_angles(opened, triples)[0], strict=True):
        angles.addAngle(i, j, k, float(angle), 15 * kt)
    fours = np.column_stack(chain)
    for four, angle in zip(fours.tolist(), mdtraj.compute_dihedrals(opened, fours)[0], strict=True):
        torsions.addTorsion(*four, 1, float(angle) + np.pi, 0.5 * kt)
        torsions.addTorsion(*four, 3, 3 * float(angle) + np.pi, 0.25 * kt)
    contacts = openmm.CustomBondForce("e*(5*(r0/r)^12 - 6*(r0/r)^10)")
    contacts.addPerBondParameter("r0")
    contacts.addPerBondParameter("e")
    repulsion = openmm.CustomNonbondedForce(f"{kt}*(0.4/r)^12")
    repulsion.setNonbondedMethod(openmm.CustomNonbondedForce.CutoffNonPeriodic)
    repulsion.setCutoffDistance(0.8)
    for _ in range(n):
        repulsion.addParticle([])
    far = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    in_open, in_closed = (mdtraj.compute_distances(one, far)[0] for one in (opened, closed))
    for (i, j), wide, narrow in zip(far.tolist(), in_open, in_closed, strict=True):
        if j - i <= 3:
            repulsion.addExclusion(i, j)
        elif wide < REACH:
            contacts.addBond(i, j, [float(wide), CONTACT * kt])
            repulsion.addExclusion(i, j)
        elif narrow < REACH:
            contacts.addBond(i, j, [float(narrow), CLOSED_SHARE * CONTACT * kt])
            repulsion.addExclusion(i, j)
    for force in (bonds, angles, torsions, contacts, repulsion):
        system.addForce(force)
    return system


def write_domains(folder: Path) -> None:
    """Write how far the LID and the NMP domain are from the core, in nm, as a table with a row per frame."""
    frames = mdtraj.load(str(folder / "adk.xtc"), top=str(folder / "adk.pdb"))
    core, nmp, lid = (
        frames.xyz[:, part].mean(axis=1)
        for part in (np.r_[0:29, 59:121, 159:214], np.r_[29:59], np.r_[121:159])
    )
    table = np.column_stack([np.linalg.norm(domain - core, axis=1) for domain in (lid, nmp)])
    np.savetxt(folder / "domains.csv", table, delimiter=",", header="lid,nmp", comments="", fmt="%.4f")


def simulate(folder: Path, n_frames: int, seed: int) -> None:
    """Run the model and write frames."""
    closed, opened = structures()
    opened.save_pdb(str(folder / "adk.pdb"))
    integrator = openmm.LangevinMiddleIntegrator(TEMPERATURE, 1.0, 0.015)
    integrator.setRandomNumberSeed(seed)
    platform = openmm.Platform.getPlatformByName("CPU")
    simulation = app.Simulation(
        opened.topology.to_openmm(), build(closed, opened), integrator, platform, {"Threads": "1"}
    )
    simulation.context.setPositions(opened.xyz[0])
    simulation.minimizeEnergy()
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    simulation.step(20_000)
    simulation.reporters.append(
        app.XTCReporter(str(folder / "adk.xtc"), STEPS_PER_FRAME, enforcePeriodicBox=False)
    )
    simulation.step(n_frames * STEPS_PER_FRAME)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    simulate(arguments.folder, arguments.frames, arguments.seed)
    write_domains(arguments.folder)


if __name__ == "__main__":
    main()
