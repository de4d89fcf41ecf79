"""What the real PLUMED computes of maps of all kinds: agreement with ldmaps, cost per step, seconds until it starts.

PLUMED_KERNEL=/path/to/libplumedKernel.so python benchmarks/plumed_maps.py

Prints the table of docs/guide/enhanced_sampling.md. ``plumed`` on the PATH is enough where its library is beside it. No package index
of Python has PLUMED, so the tests check exports with an interpreter of its manual, and this where there is a library
(tests/export/test_plumed_kernel.py).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50
from ldmaps.errors import LdmapsWarning
from ldmaps.metrics import RMSD, Features, Periodic

#: Atoms of the engine's system; the map's are scattered among them.
N_SYSTEM = 40
#: φ, ψ and the two ω of alanine dipeptide.
TORSIONS = ((4, 6, 8, 14), (6, 8, 14, 16), (1, 4, 6, 8), (8, 14, 16, 18))
ROUNDS = 5
#: How many :func:`kinds` there are.
N_KINDS = 9


@dataclass(frozen=True)
class Kind:
    """A map, and frames of 40 atoms in an engine's order that show what it computes."""

    name: str
    model: Any
    frames: np.ndarray  # (1001, 40, 3), nm
    atoms: np.ndarray  # the map's among them
    export: dict[str, Any]
    of_table: bool = False

    @property
    def size(self) -> str:
        return f"{self.model.embedder_.n_landmarks}, {self.model.n_components_}"


def kernel() -> str | None:
    """Return the path of PLUMED's library, or None where there is none."""
    if path := os.environ.get("PLUMED_KERNEL"):
        return path
    if (program := shutil.which("plumed")) is None:
        return None
    said = subprocess.run(
        [program, "--no-mpi", "info", "--root"], capture_output=True, text=True, check=False
    )
    places = [Path(said.stdout.strip() or ".").parent, Path(program).resolve().parent.parent / "lib"]
    found = [
        path
        for place in places
        for path in place.glob("libplumedKernel.*")
        if path.suffix in (".so", ".dylib")
    ]
    return str(found[0]) if found else None


def backbone(frames: np.ndarray) -> np.ndarray:
    """Return φ and ψ in radians."""
    return Features(22, dihedrals=TORSIONS[:2]).values(frames)


def in_system(frames: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return frames of a system of 40 atoms, and where the given ones are in it."""
    atoms = np.random.default_rng(seed).permutation(N_SYSTEM)[: frames.shape[1]]
    system = np.zeros((len(frames), N_SYSTEM, 3))
    system[:, atoms] = frames
    return system, atoms


def kinds(stride: int = 5) -> list[Kind]:
    """Return maps of all kinds that PLUMED can compute, fitted on every so many frames."""
    alanine, chain = alanine_dipeptide(stride=stride), c24h50(stride=stride)
    frames, links = alanine.frames.astype(np.float64), chain.frames.astype(np.float64)
    heavy = np.asarray(alanine.heavy_atoms)
    new = alanine_dipeptide(stride=25).frames.astype(np.float64)
    pairs = [(a, a + 5) for a in range(17)] + [(a, a + 9) for a in range(11)]
    many = Features(22, angles=[(a, a + 2, b) for a, b in pairs], distances=pairs, contacts=pairs)
    by_torsions = LandmarkDiffusionMap(3, metric=Features(22, dihedrals=TORSIONS), n_landmarks=30).fit(frames)
    fits: list[tuple[str, Any, np.ndarray, np.ndarray]] = [
        ("RMSD by mass, tolerance 1", LandmarkDiffusionMap(metric=RMSD(alanine.masses), tolerance=1.0), frames, new),
        ("heavy atoms", LandmarkDiffusionMap(5, metric=RMSD(), n_landmarks=50), frames[:, heavy], new[:, heavy]),
        ("RMSD, superposed on four atoms", LandmarkDiffusionMap(2, metric=RMSD(superpose_on=TORSIONS[0]),
         n_landmarks=12), frames[::5], new),
        ("dihedrals, tolerance 1", LandmarkDiffusionMap(3, metric=Features(22, dihedrals=TORSIONS), tolerance=1.0),
         frames, new),
        ("dihedrals", by_torsions, frames, new),
        ("slow modes of these", by_torsions, frames, new),
        ("C₂₄H₅₀, tolerance 2", LandmarkDiffusionMap(4, metric=RMSD(), tolerance=2.0), links,
         c24h50(stride=10).frames.astype(np.float64)),
        ("84 angles, distances, contacts", LandmarkDiffusionMap(2, "connected", metric=many, n_landmarks=20), frames, new),
    ]  # fmt: skip
    made = []
    for seed, (name, model, points, shown) in enumerate(fits):
        if name.startswith("slow"):
            model = model.slow_modes(points, lag=5)
        elif not hasattr(model, "embedder_"):
            model.fit(points)
        model.units_ = "nm"
        system, atoms = in_system(shown, seed)
        made.append(Kind(name, model, system, atoms, {"atoms": atoms}))
    table = LandmarkDiffusionMap(2, "connected", metric=Periodic(), n_landmarks=20).fit(backbone(frames))
    system, atoms = in_system(new, len(fits))
    torsion = [",".join(str(atoms[atom] + 1) for atom in members) for members in TORSIONS[:2]]
    text = f"p: TORSION ATOMS={torsion[0]}\nq: TORSION ATOMS={torsion[1]}"
    made.append(
        Kind(
            "columns φ, ψ of a table",
            table,
            system,
            atoms,
            {"names": ["p", "q"], "define_columns": text},
            True,
        )
    )
    return made


def computed(path: str, text: Path, frames: np.ndarray, rounds: int = 0) -> Any:
    """Let PLUMED compute frames of an input file: forces, seconds of the start and of each step."""
    given, found = text.parent / "frames.npy", text.parent / "found.npz"
    np.save(given, frames)
    child = Path(__file__).parent / "plumed_steps.py"
    words = [
        sys.executable,
        str(child),
        path,
        str(text),
        str(given),
        str(found),
        *([str(rounds)] if rounds else []),
    ]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        log = text.parent / "plumed.log"
        said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        raise RuntimeError(
            f"PLUMED ended with {ended.returncode}: {ended.stdout[-500:]}{ended.stderr[-2000:]}{said}"
        )
    return np.load(found)


def printed(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a file that PLUMED's PRINT wrote."""
    lines = path.read_text().splitlines()
    rows = np.array([line.split() for line in lines if not line.startswith("#")], float)
    return dict(zip(lines[0].split()[2:], rows.T, strict=True))


def exported(kind: Kind, folder: Path) -> Path:
    """Write the export of a map; that its points are at the ends of a coordinate is no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        return Path(kind.model.export(folder, "plumed", **kind.export))


def expected(kind: Kind, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates, (n, k), and the forces of an energy equal to their sum, (n, 40, 3)."""
    own, forces, embedder = frames[:, kind.atoms], np.zeros_like(frames), kind.model.embedder_
    if kind.of_table:  # the same map, of the frames that the columns are computed from
        metric = Features(22, dihedrals=TORSIONS[:2])
        values = kind.model.metric_.places(embedder.landmarks).values
        embedder = replace(embedder, metric=metric, landmarks=metric.import_points({"values": values}))
    extended, gradient = embedder.extend_with_gradient(own, 1)
    forces[:, kind.atoms] = -gradient.sum(axis=1).reshape(own.shape)
    return extended.coordinates, forces


def differences(path: str, kind: Kind, folder: Path, every: int = 1) -> tuple[float, float]:
    """Return the largest differences of values, as a share of their range, and of forces, of the largest force."""
    text = exported(kind, folder)
    names = ",".join(kind.model.coordinate_names_)
    (text / "all.dat").write_text(
        f"UNITS LENGTH=nm ENERGY=kj/mol TIME=ps\nINCLUDE FILE=map.dat\nenergy: BIASVALUE ARG={names}\n"
        f"PRINT ARG={names} FILE=ALL FMT=%.16g\n"
    )
    frames = kind.frames[::every]
    forces = computed(path, text / "all.dat", frames)["forces"]
    psi, ours = expected(kind, frames)
    columns = printed(text / "ALL")
    found = np.stack([columns[name] for name in kind.model.coordinate_names_], axis=1)
    value = float((np.abs(found - psi) / np.ptp(psi, axis=0)).max())
    return value, float(np.abs(forces - ours).max() / np.abs(ours).max())


def cost(path: str, kind: Kind, folder: Path, rounds: int = ROUNDS) -> tuple[float, float]:
    """Return seconds until the first step is done, and the median of those per step, of the exported example."""
    found = computed(path, exported(kind, folder) / "plumed.dat", kind.frames, rounds)
    return float(found["start"]), statistics.median(found["steps"])


def main() -> None:
    path = kernel()
    if path is None:
        sys.exit("set PLUMED_KERNEL to the path of libplumedKernel.so, or put plumed on the PATH")
    print("| map (landmarks, coordinates) | value | force | µs per step, metadynamics and wall | start |")
    print("|---|---|---|---|---|")
    for kind in kinds():
        with tempfile.TemporaryDirectory() as folder:
            value, force = differences(path, kind, Path(folder))
            start, step = cost(path, kind, Path(folder))
        print(
            f"| {kind.name} ({kind.size}) | {value:.0e} | {force:.0e} | {1e6 * step:.0f} | {start:.2g} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
