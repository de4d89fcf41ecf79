"""The README of an exported folder."""

from __future__ import annotations

from typing import Any

from ldmaps._version import __version__
from ldmaps.export.atoms import EngineAtoms
from ldmaps.export.definition import Columns, Definition, Frames

__all__ = ["readme"]

_WORDS = {
    "map.dat": "defines the coordinates: INCLUDE it after UNITS",
    "map.pdb": "the landmarks, which map.dat names; keep it where the engine runs",
    "plumed.dat": "an example: print, a wall at the map's domain, metadynamics along the first coordinate",
    "map.colvars": "defines the coordinates",
    "run.colvars": "an example: map.colvars, with metadynamics along the first coordinate and a wall",
    "check.dat": "the check for plumed driver",
    "check.xyz": "frames of the check, in PLUMED's unit of length",
    "in.check": "the check for LAMMPS",
    "check.data": "atoms of the check",
    "check.dump": "frames of the check",
    "check.colvars": "the bias of the check: its energy is the sum of the coordinates",
    "check.csv": "the coordinates of the check's frames as ldmaps finds them",
    "check_forces.csv": "forces on the atoms, of an energy that is the sum of the coordinates",
}
_TITLE = {"plumed": "PLUMED", "colvars": "Colvars"}
_WHOLE = {
    "plumed": "PLUMED makes the molecule whole along this list. Neighbours in it are up to {gap:.3g} {length} apart in "
    "the landmarks, so a periodic box must be wider than twice that.",
    "colvars": "Coordinates must not be wrapped: LAMMPS unwraps them by itself (`unwrap yes`); in NAMD, map the atoms "
    "of one molecule.",
}
_RUN = {
    "plumed": """\
- GROMACS (2025 and later have the interface, `PLUMED_KERNEL` names the library; before, it is patched in):
  `gmx mdrun -plumed plumed.dat`
- LAMMPS: `fix map all plumed plumedfile plumed.dat outfile plumed.log`
- Amber: `plumed=1, plumedfile='plumed.dat'` in the input
- NAMD: `plumed on` and `plumedfile plumed.dat`
""",
    "colvars": """\
- LAMMPS, with `units {units}`: `fix map all colvars run.colvars output run`
- NAMD (its units are LAMMPS' real): `colvars on` and `colvarsConfig run.colvars`
- GROMACS: its Colvars has no custom functions; export to PLUMED instead

LAMMPS' restart files hold Colvars' state: `read_restart`, then the same `fix map`. Keep all in one file, because the
state of what `fix_modify` adds later is not read.""",
}
_FAR = """

PLUMED 2.10 computes the map however far a frame is. Before, a frame more than about 38 √h from all landmarks gives NaN:
keep the wall."""
_CHECK = {
    "plumed": "plumed driver --plumed check.dat --ixyz check.xyz --dump-forces forces.xyz --dump-forces-fmt %.12g\n"
    "ldmaps export --check COLVAR forces.xyz",
    "colvars": "lmp -in in.check\nldmaps export --check check.colvars.traj forces.dump",
}


def readme(model: Any, definition: Definition, to: str, found: EngineAtoms | None, files: list[str]) -> str:
    """Return the text."""
    geometry, units = definition.geometry, definition.units
    table = "\n".join(f"| `{name}` | {_WORDS[name]} |" for name in files)
    unit = model.metric_.distance_unit(model.units_)
    sigma = " One σ is one Å of the files that the map was fitted on, as ldmaps reads them."
    text = f"""\
# A map's coordinates for {_TITLE[to]}

Written by ldmaps {__version__} from the map {definition.digest}: {len(definition.names)} coordinates
({", ".join(definition.names)}), {len(definition.weights)} landmarks, ε = {model.epsilon_:.6g} \
{f"{unit}²" if unit else "in units of d²"}, width of the online step \
h = {definition.bandwidth:.6g} {f"{units.length}²" if isinstance(geometry, Frames) else "in the same"}.

| file | what it is |
|---|---|
{table}

## Units

Lengths in {units.length}, energies in {units.energy} (the example's kT is {units.kt:g}). The coordinates have no \
unit.{sigma if units.name == "lj" and model.units_ else ""}

{_of_columns(geometry, found) if isinstance(geometry, Columns) else _of_frames(geometry, found, to, units.length)}

## Run

{_RUN[to].format(units=units.name).rstrip()}{_FAR if "map.pdb" in files else ""}

## Check

"""
    if found is None:
        return text + (
            "Print the columns beside the coordinates, and compare: `ldmaps export map.ldm --check "
            f"{'COLVAR' if to == 'plumed' else 'run.colvars.traj'}`.\n"
        )
    return text + f"A wrong order of atoms is found in a minute. In this folder:\n\n```\n{_CHECK[to]}\n```\n"


def _of_frames(frames: Frames, found: EngineAtoms | None, to: str, length: str) -> str:
    listed = [f"{number} {label}" for number, label in zip(frames.numbers, frames.labels, strict=True)]
    shown = ", ".join(listed[:40]) + (f", … ({len(listed)} in all)" if len(listed) > 40 else "")
    origin = "" if found is None else found.origin
    whole = _WHOLE[to].format(gap=frames.largest_gap, length=length)
    return (
        f"## Atoms\n\nNumbers from 1 in the engine's full system, from {origin}: {shown}.\nAtoms without a weight are "
        f"left out.\n\n{whole}"
    )


def _of_columns(columns: Columns, found: EngineAtoms | None) -> str:
    if found is not None:
        listed = "\n".join(f"- {meaning}" for meaning in columns.meanings)
        return (
            "## Atoms\n\nThe coordinates are functions of internal coordinates. Numbers from 1 are of the engine's "
            f"full system, from {found.origin}:\n\n{listed}"
        )
    named = [
        f"{name} (period {period:g})" if period else name
        for name, period in zip(columns.names, columns.periods, strict=True)
    ]
    where = "in the map's file" if columns.text else "for you to define, before `INCLUDE FILE=map.dat`"
    return (
        f"## Columns\n\nThe coordinates are functions of {', '.join(named)}, in the units of the table that the map "
        f"was fitted on. What computes these is {where}."
    )
