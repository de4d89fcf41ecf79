"""Slow modes and committors of molecules: what docs/benchmarks/kinetics_molecules.md states.

python benchmarks/kinetics_molecules.py alanine FOLDER   # six runs of 6 ns at 600 K, kept in FOLDER, and 60 × 10 shots at most for four committors
python benchmarks/kinetics_molecules.py chain FOLDER     # a chain of 12 beads, of which one torsion is slow
python benchmarks/kinetics_molecules.py tica FOLDER      # C24H50, and adenylate kinase if examples/adk_states.py wrote FOLDER, beside tICA
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from pathlib import Path

import numpy as np
from features import BEADS, SLOW, bead_chain
from sklearn.metrics import roc_auc_score

import ldmaps
from ldmaps.datasets import alanine_dipeptide
from ldmaps.metrics import Features

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from committor_bias import HELIX, LEFT, TEMPERATURE, heavy_atoms, simulation_from, unbiased, within
from explore import backbone_angles, dihedral

RUNS, FRAMES = 6, 40_000
#: Committors are checked at so many levels, frames each and runs from these, of so many steps at most.
N_LEVELS, FRAMES_A_LEVEL, N_SHOTS, LONGEST = 20, 3, 10, 20_000


def explained(values: np.ndarray, angle: np.ndarray) -> float:
    """Return the correlation of values with the best function of an angle in degrees: means in bins of 5."""
    place = np.digitize(angle, np.arange(-180, 180, 5)) - 1
    counts = np.maximum(np.bincount(place, minlength=72), 1)
    means = np.bincount(place, values, minlength=72) / counts
    return math.sqrt(1 - np.mean((values - means[place]) ** 2) / values.var())


def kept(folder: Path, name: str, make) -> np.ndarray:
    """Return an array of the folder, made once."""
    path = folder / f"{name}.npy"
    if not path.exists():
        np.save(path, make())
    return np.load(path)


def alanine(folder: Path) -> None:
    """Print what slow modes follow, and the committor beside shots."""
    molecule = alanine_dipeptide(stride=50)
    heavy = heavy_atoms(molecule)
    every = [
        kept(folder, f"alanine{seed}", lambda seed=seed: unbiased(molecule, FRAMES, seed))
        for seed in range(1, RUNS + 1)
    ]
    place = {
        pair: row
        for row, pair in enumerate(zip(molecule.residue_numbers.tolist(), molecule.atom_names, strict=True))
    }
    omega = [place[key] for key in ((1, "CH3"), (1, "C"), (2, "N"), (2, "CA"))]
    cis = [float(np.mean(np.abs(dihedral(run, omega)) < 90)) for run in every]
    print("cis ω in each run:", np.round(cis, 3))
    for runs in (every, [run for run, share in zip(every, cis, strict=True) if share == 0]):
        frames, at = (
            np.concatenate(runs)[:, heavy],
            np.repeat(np.arange(len(runs)), [len(run) for run in runs]),
        )
        phi, psi = backbone_angles(molecule, np.concatenate(runs)).T
        model = ldmaps.LandmarkDiffusionMap(6, "connected", "rmsd", n_landmarks=300).fit(frames[::20])
        slow = model.slow_modes(frames[::2], lag=10, runs=at[::2])
        modes, psis = slow.transform(frames[::10]), model.transform(frames[::10])
        times, errors = 0.3 * slow.timescales_[:2], 0.3 * slow.timescale_errors_[:2]
        print(f"{len(runs)} runs: time scales {times.round(1)} ± {errors.round(1)} ps")
        for name, columns in (("slow", modes[:, :2].T), ("psi", psis[:, :4].T)):
            for number, values in enumerate(columns, 1 if name == "slow" else 2):
                print(
                    f"  {name}{number}: {explained(values, phi[::10]):.3f} of φ, {explained(values, psi[::10]):.3f} of ψ"
                )
    angles = np.column_stack([phi, psi])
    begin, end = within(angles, HELIX), within(angles, LEFT)
    narrow = ldmaps.LandmarkDiffusionMap(6, model.epsilon_ / 4, "rmsd", n_landmarks=300).fit(frames[::20])
    full = np.concatenate(runs)
    for one, lag in ((model, 1), (model, 5), (narrow, 1), (narrow, 5)):
        print(f"\nepsilon {one.epsilon_:.3g}, lag {lag}")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            q = one.committor(frames, source=begin, target=end, lag=lag, runs=at)
        print("\n".join(q.record_.lines))
        beside_shots(molecule, full, q.transform(frames)[:, 0], ~begin & ~end)


def beside_shots(molecule, full: np.ndarray, values: np.ndarray, between: np.ndarray) -> None:
    """Print a committor at frames spread over its values, and how many shots from them reached the target."""
    rng, shot = np.random.default_rng(0), []
    for level in np.linspace(0.025, 0.975, N_LEVELS):
        near = np.flatnonzero((np.abs(values - level) < 0.025) & between)
        for row in rng.choice(near, min(FRAMES_A_LEVEL, len(near)), replace=False):
            shot.append((values[row], *shoot(molecule, full[row], int(row))))
    table = np.array(shot)
    hits = table[:, 1] / table[:, 2]
    noise = np.sqrt(np.mean(hits * (1 - hits) / (table[:, 2] - 1)))
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        chosen = (table[:, 0] >= low) & (table[:, 0] < low + 0.2)
        if chosen.any():
            print(f"  {table[chosen, 0].mean():.2f}: {hits[chosen].mean():.2f} ({chosen.sum()} frames)")
    print(
        f"{len(table)} frames: rms of committor less shots {np.sqrt(np.mean((table[:, 0] - hits) ** 2)):.3f}, of which "
        f"{noise:.3f} is the noise of shots; mean difference {np.mean(hits - table[:, 0]):+.3f}; correlation "
        f"{np.corrcoef(table[:, 0], hits)[0, 1]:.3f}; {int(table[:, 2].sum())} shots",
        flush=True,
    )


def shoot(molecule, positions: np.ndarray, seed: int) -> tuple[int, int]:
    """Return how many of some runs with new velocities reached the left-handed helix first, and how many reached any."""
    import openmm

    simulation, reached, done = simulation_from(molecule, positions, seed), 0, 0
    context: openmm.Context = simulation.context
    for number in range(N_SHOTS):
        context.setPositions(positions)  # as they were, not minimised
        context.applyConstraints(1e-6)
        context.setVelocitiesToTemperature(TEMPERATURE, seed + 1000 * number + 1)
        for _ in range(LONGEST // 50):
            simulation.integrator.step(50)
            frame = np.asarray(context.getState(positions=True).getPositions(asNumpy=True)._value)[None]
            angles = backbone_angles(molecule, frame)
            is_left = bool(within(angles, LEFT)[0])
            if is_left or within(angles, HELIX)[0]:
                reached, done = reached + is_left, done + 1
                break
    return reached, done


def chain(folder: Path) -> None:
    """Print how well RMSD's coordinates and its slow mode tell the states of the slow torsion."""
    frames = kept(folder, "chain", bead_chain)
    angle = Features(BEADS, dihedrals=[SLOW]).values(frames)[:, 0]
    half = len(frames) // 2
    for metric, name in (("rmsd", "RMSD of all beads"),):
        model = ldmaps.LandmarkDiffusionMap(6, metric=metric, n_landmarks=500).fit(frames[:half])
        for lag in (5, 20, 50):
            slow = model.slow_modes(frames[:half], lag=lag)
            for what, found in (("psi2", model), ("slow1", slow)):
                values = found.transform(frames[half:])[:, 0]
                auc = roc_auc_score(angle[half:] > 0, values)
                print(f"{name}, lag {lag} frames, {what}: AUC {max(auc, 1 - auc):.2f} on the second half")
            print(" ", slow.timescales_[:2], slow.record_.facts["n_combined"], slow.record_.lines[-3:])


def distances_between(frames: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """Return all distances between some atoms, (n, pairs)."""
    one, other = np.triu_indices(len(atoms), 1)
    return np.linalg.norm(frames[:, atoms[one]] - frames[:, atoms[other]], axis=2)


def torsions_of(frames: np.ndarray) -> np.ndarray:
    """Return cosines and sines of the torsions of a chain, (n, 2·torsions)."""
    angles = np.radians([dihedral(frames, list(range(k, k + 4))) for k in range(frames.shape[1] - 3)]).T
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def held_out(values: np.ndarray, lag: int) -> float:
    """Return the autocorrelation of the values of frames in a row."""
    return float(np.corrcoef(values[:-lag], values[lag:])[0, 1])


def beside_tica(
    name: str, frames: np.ndarray, features: dict[str, np.ndarray], lags, known: dict[str, np.ndarray]
) -> None:
    """Print how slow first coordinates are in the half of a run that they were not learned on, and what they follow."""
    from deeptime.decomposition import TICA

    half = len(frames) // 2
    learn, judge = slice(0, half), slice(half, None)
    maps = {"RMSD": (frames, ldmaps.LandmarkDiffusionMap(6, metric="rmsd", n_landmarks=300))}
    for what, columns in features.items():
        maps[what] = columns, ldmaps.LandmarkDiffusionMap(6, n_landmarks=300)
    for lag in lags:
        for what, (points, model) in maps.items():
            model.fit(points[learn])
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                slow = model.slow_modes(points[learn], lag=lag)
            rows = {"psi2": model.transform(points)[:, 0], "slow1": slow.transform(points)[:, 0]}
            if what != "RMSD":
                rows["tICA"] = TICA(lagtime=lag, dim=1).fit(points[learn]).transform(points)[:, 0]
            for which, values in rows.items():
                told = ", ".join(
                    f"{abs(np.corrcoef(values[judge], other[judge])[0, 1]):.2f} of {label}"
                    for label, other in known.items()
                )
                print(
                    f"| {name}, lag {lag} | {which} of {what} | {held_out(values[learn], lag):.3f} | "
                    f"{held_out(values[judge], lag):.3f} | {told} |"
                )
            low, high = slow.timescale_intervals_[0]
            print(
                f"  {slow.record_.facts['n_combined']} combined; time scale {slow.timescales_[0]:.3g} ({low:.3g} to {high:.3g})",
                *{str(one.message)[:60] for one in caught},
            )


def tica(folder: Path) -> None:
    """Print slow modes beside tICA and the map's own first coordinate."""
    chain = ldmaps.datasets.c24h50().frames
    size = {"radius of gyration": np.sqrt(((chain - chain.mean(1, keepdims=True)) ** 2).sum(2).mean(1))}
    features = {
        "torsions": torsions_of(chain),
        "distances": distances_between(chain, np.arange(chain.shape[1])),
    }
    beside_tica("C24H50", chain, features, (1, 2), size)
    if (folder / "adk.xtc").exists():
        import mdtraj

        frames = mdtraj.load(str(folder / "adk.xtc"), top=str(folder / "adk.pdb")).xyz.astype(float)
        lid, nmp = np.loadtxt(folder / "domains.csv", delimiter=",", skiprows=1).T
        features = {"distances": distances_between(frames, np.arange(0, frames.shape[1], 8))}
        beside_tica("adenylate kinase", frames, features, (5, 20), {"the LID": lid, "the NMP domain": nmp})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system", choices=["alanine", "chain", "tica"])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    {"alanine": alanine, "chain": chain, "tica": tica}[given.system](given.folder)
