"""Pack the shipped trajectories: xtc and topology in, ``frames.npz`` and the inputs out.

Usage::

    python tools/pack_trajectories.py SOURCE [--output src/ldmaps/datasets/data]

SOURCE holds one folder a molecule, each with the files of a GROMACS run::

    c24h50/             c24h50.xtc             c24h50.gro             md.mdp  topol.top
    alanine_dipeptide/  alanine_dipeptide.xtc  alanine_dipeptide.pdb  md.mdp  topol.top

For each, the packed file is read back and compared with the xtc before anything is
reported; the run's inputs are copied beside it. Running it again gives the same bytes.
Needs mdtraj, which the package itself does not.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import mdtraj
import numpy as np
from mdtraj.formats import XTCTrajectoryFile
from numpy.typing import NDArray
from packed_frames import pack

from ldmaps.datasets.molecules import unpack

# Both runs wrote with compressed-x-precision = 10000: whole numbers of 0.1 pm.
GRID_SPACING = np.float32(1) / np.float32(10_000)

# Standard atomic weights (IUPAC, abridged), amu. The alanine dipeptide run moved mass from heavy
# atoms to their hydrogens for its long step, so the masses of its topol.top are not the true ones.
ATOMIC_MASS = {"H": 1.008, "C": 12.011, "N": 14.007, "O": 15.999}

TOPOLOGY_FILE = {"c24h50": "c24h50.gro", "alanine_dipeptide": "alanine_dipeptide.pdb"}


def main() -> None:
    """Pack every molecule and print what it became."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path, help="folder with one folder a molecule")
    default = Path(__file__).parents[1] / "src" / "ldmaps" / "datasets" / "data"
    parser.add_argument("--output", type=Path, default=default, help="where the packed folders go")
    arguments = parser.parse_args()
    for molecule in TOPOLOGY_FILE:
        pack_molecule(molecule, arguments.source / molecule, arguments.output / molecule)


def pack_molecule(molecule: str, source: Path, target: Path) -> None:
    """Write ``target/frames.npz`` and copy the run's inputs beside it."""
    trajectory = source / f"{molecule}.xtc"
    with XTCTrajectoryFile(str(trajectory)) as file:
        frames, times, _, _ = file.read()
    grid = np.rint(frames.astype(np.float64) / GRID_SPACING).astype(np.int64)
    arrays: dict[str, Any] = {
        **pack(grid, read_bonds(source / "topol.top")),
        **read_atoms(molecule, source),
        "grid_spacing": GRID_SPACING,
        "time_start_and_interval": read_clock(times),
    }

    target.mkdir(parents=True, exist_ok=True)
    packed = target / "frames.npz"
    np.savez_compressed(packed, **arrays)
    for name in ("md.mdp", "topol.top"):
        shutil.copyfile(source / name, target / name)

    with np.load(packed, allow_pickle=False) as archive:
        restored = unpack(archive).astype(np.float32) * archive["grid_spacing"]
    if not np.array_equal(restored, frames):
        raise SystemExit(f"{packed}: differs from {trajectory} by up to {np.abs(restored - frames).max()} nm")
    before, after = trajectory.stat().st_size, packed.stat().st_size
    print(
        f"{molecule}: {frames.shape[0]} frames, {before} -> {after} bytes ({after / before:.0%}), bit-exact"
    )


def read_bonds(topology: Path) -> NDArray[np.intp]:
    """Return the bonds of the first molecule type of a GROMACS topology, counted from 0."""
    return np.array([fields[:2] for fields in _section(topology, "bonds")], dtype=np.intp) - 1


def read_atoms(molecule: str, source: Path) -> dict[str, NDArray[Any]]:
    """Return names, elements, residues and true masses, one entry an atom."""
    table = _section(source / "topol.top", "atoms")
    if molecule == "c24h50":
        # United atoms: mdtraj cannot guess their elements, and their masses are those of the topology.
        elements = ["C"] * len(table)
        masses = [float(fields[7]) for fields in table]
        names = [fields[4] for fields in table]
    else:
        topology = mdtraj.load_topology(str(source / TOPOLOGY_FILE[molecule]), standard_names=False)
        elements = [atom.element.symbol for atom in topology.atoms]
        masses = [ATOMIC_MASS[element] for element in elements]
        names = [atom.name for atom in topology.atoms]
    return {
        "atom_names": np.array(names),
        "elements": np.array(elements),
        "residue_names": np.array([fields[3] for fields in table]),
        "residue_numbers": np.array([int(fields[2]) for fields in table], dtype="<i4"),
        "masses": np.array(masses, dtype="<f8"),
    }


def read_clock(times: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the first time and the interval in ps, free of the xtc's float32 rounding."""
    start = round(float(times[0]), 3)
    interval = round((float(times[-1]) - start) / (len(times) - 1), 3)
    if not np.allclose(times, start + interval * np.arange(len(times)), rtol=1e-6):
        raise SystemExit("the frames are not evenly spaced in time")
    return np.array([start, interval])


def _section(topology: Path, wanted: str) -> list[list[str]]:
    """Return the fields of each line of the first section of that name."""
    lines: list[list[str]] = []
    inside = False
    for line in topology.read_text().splitlines():
        fields = line.partition(";")[0].split()
        if fields[:1] == ["["]:
            if inside:
                break
            inside = fields[1] == wanted
        elif inside and fields and not fields[0].startswith("#"):
            lines.append(fields)
    return lines


if __name__ == "__main__":
    main()
