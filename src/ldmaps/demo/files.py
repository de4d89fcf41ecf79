"""Files to try the commands on: alanine dipeptide as a simulation leaves it, tables, a map and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ldmaps.inputs
from ldmaps.analysis import write_report
from ldmaps.analysis.frames import topology_of
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.demo.figure import backbone_dihedrals
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.inputs.frame_writer import open_frame_writer
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.text_rows import csv_table

#: What is written, and what each is.
FILES = {
    "traj.xtc": "the first 80 % of 20 ns of alanine dipeptide",
    "top.pdb": "names of its atoms",
    "new.xtc": "the rest, to project onto the map",
    "angles.csv": "dihedral angles of traj.xtc, a row per frame",
    "sensors.csv": "a table of three sensors, 3,000 rows on a rolled-up sheet",
    "pump.csv": "a pump's four sensors, every minute for three weeks",
    "today.csv": "the same, the day after, when its filter clogs at 15:00",
    "map.ldm": 'ldmaps fit traj.xtc -t top.pdb --select "not element H" --tolerance 1 -o map.ldm',
    "map.html": "ldmaps report map.ldm",
}


def write_files(folder: str, *, stride: int = 1, force: bool = False) -> None:
    """Write :data:`FILES` of every ``stride``-th frame into a folder, which is made if need be."""
    place = Path(folder)
    there = [name for name in FILES if (place / name).exists()]
    if there and not force:
        raise InvalidInputError(f"{place / there[0]} exists already; name another folder, or use --force")
    place.mkdir(parents=True, exist_ok=True)
    molecule = alanine_dipeptide(stride=stride)
    rows = np.arange(len(molecule))
    atoms = zip(molecule.residue_names, molecule.residue_numbers, molecule.atom_names, strict=True)
    facts = {
        "atom_labels": [f"{residue}{number}-{name}" for residue, number, name in atoms],
        "atom_names": molecule.atom_names,
        "elements": molecule.elements,
        "bonds": molecule.bonds.tolist(),
    }
    topology = topology_of(facts, np.arange(molecule.n_atoms))
    old, new = np.split(rows, [int(0.8 * len(rows))])
    for name, part in (("top.pdb", old[:1]), ("traj.xtc", old), ("new.xtc", new)):
        with open_frame_writer(str(place / name), topology) as writer:
            writer.write(block_of(molecule.frames[part], molecule.times[part]), part)
    phi, psi = backbone_dihedrals(molecule)
    _write_csv(place / "angles.csv", {"phi": phi[old], "psi_angle": psi[old]})
    roll = swiss_roll(3000, noise=0.05).points
    names = ("temp", "flow", "load")
    _write_csv(place / "sensors.csv", dict(zip(names, roll.T, strict=True)))
    for name, day, n_days in (("pump.csv", "2026-03-02", 21), ("today.csv", "2026-03-23", 1)):
        _write_csv(place / name, _pump(n_days, seed=n_days), np.datetime64(day))
    source: Any = ldmaps.inputs.open_files(place / "traj.xtc", top=place / "top.pdb", select="not element H")
    model = LandmarkDiffusionMap(metric="rmsd", tolerance=1.0).fit(source)
    model.save(place / "map.ldm")
    write_report(model, place / "map.html")


def _pump(n_days: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return made-up sensors that follow the load; on a single day, what a clogged filter does to them."""
    rng = np.random.default_rng(seed)
    minutes = np.arange(1440 * n_days)
    day = 2 * np.pi * minutes / 1440
    load = 60 + 15 * np.sin(day - 1.8) + 4 * rng.normal(size=len(minutes))
    flow = 12 + 0.25 * load + 0.5 * rng.normal(size=len(minutes))
    pressure = 101_300 + 45 * load + 120 * rng.normal(size=len(minutes))
    temperature = 18 + 5 * np.sin(day - 2.2) + 0.09 * load + 0.3 * rng.normal(size=len(minutes))
    if n_days == 1:
        clogged = (minutes >= 900) & (minutes < 945)
        flow[clogged] -= 8
        pressure[clogged] += 900
    return {"load_kW": load, "flow_m3h": flow, "pressure_Pa": pressure, "temperature_C": temperature}


def _write_csv(path: Path, columns: dict[str, NDArray[np.float64]], day: np.datetime64 | None = None) -> None:
    table: dict[str, tuple[Any, Any]] = {name: (6, values) for name, values in columns.items()}
    if day is not None:  # a row per minute from its beginning
        minutes = np.arange(len(next(iter(columns.values()))))
        words = np.datetime_as_string(day + minutes.astype("m8[m]"), unit="s", timezone="UTC").tolist()
        table = {"time": (words, minutes), **table}
    path.write_bytes(csv_table(table))
