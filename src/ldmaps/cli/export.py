"""``ldmaps export``: write a map for GROMACS, LAMMPS, NAMD or Amber."""

from __future__ import annotations

import argparse
import os

from ldmaps.cli import options
from ldmaps.cli.session import check_output, say, write_json
from ldmaps.errors import InvalidInputError

SHOWN = "to output check traj units top select names force"
EPILOG = """\
PLUMED is what GROMACS, Amber and many others have; Colvars is part of LAMMPS
and NAMD. README.md in the folder says how to run each, and has two commands:
one checks the input and its units, the other the order of atoms in a first run.

examples:
  ldmaps export map.ldm --to plumed -o for_gromacs -t system.gro
  ldmaps export map.ldm --to colvars --units real -o for_lammps -t system.pdb
  ldmaps export angles.ldm --to plumed -o for_amber --names phi,psi
  ldmaps export --check COLVAR forces.xyz       in the folder, after its check
  ldmaps export map.ldm --check COLVAR --traj run.xtc -t system.gro
  ldmaps export angles.ldm --check COLVAR --names phi,psi   columns of a run
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        model MODEL?         file that ldmaps fit wrote
        --to plumed|colvars  the library that computes the map
        -o --output FOLDER   folder to write
        --check FILE+        what the engine printed (and its forces), to be compared
        --traj FILE+         with --check: frames that the engine wrote in the same run, which show its order of atoms
        --units nm|real|metal|lj  the engine's: nm is PLUMED's, real LAMMPS' and NAMD's, metal and lj LAMMPS'
    """
    options.add(parser, table)
    options.add(parser.add_argument_group("the engine's whole system (that of the fit)"), options.ATOMS)
    table = """
        --names A,B,...        what the engine calls the columns (as the table)
        --define-columns FILE  text that defines them: PLUMED's lines or Colvars' components
    """
    options.add(parser.add_argument_group("maps of tables"), table, names=options.names)
    options.add_common(parser, "threads seed")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.export import check_export, export_map
    from ldmaps.maps.loading import load

    if arguments.check is not None:
        model = None if arguments.model is None else load(arguments.model)
        run = options.chosen(arguments, "names traj top select periodic")
        found = check_export(arguments.check, arguments.output, model=model, **run)
        if arguments.json:
            write_json(found)
            return
        for name, difference in found.items():
            print(f"{name:<8} largest difference {100 * difference:.1e} % of the range")
        return
    if arguments.model is None or arguments.to is None or arguments.output is None:
        raise InvalidInputError(
            "name the map, --to plumed or colvars, and -o FOLDER; or --check what an engine printed"
        )
    check_output(arguments.output, arguments.force, is_folder=True)
    text = ""
    if arguments.define_columns is not None:
        with open(arguments.define_columns, encoding="utf-8") as stream:
            text = stream.read()
    folder = export_map(
        load(arguments.model),
        arguments.output,
        arguments.to,
        define_columns=text,
        **options.chosen(arguments, "top select units names"),
    )
    if arguments.json:
        write_json({"folder": str(folder), "files": sorted(os.listdir(folder))})
    say(arguments, f"{folder}: read README.md there, and run its check before a simulation")
