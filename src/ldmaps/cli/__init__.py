"""The ``ldmaps`` command: one file per command, and here the grammar that they share.

Only the file of the command that is run is imported, and none imports numpy or anything slower before it runs. So
``--help`` and completion answer at once, and a command works without the packages that other commands need.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from ldmaps._version import __version__
from ldmaps.cli.session import guarded, leave, printable

#: What each command does. The file of its name has EPILOG, SHOWN (the options that --help lists without --help-all;
#: all of them if it is empty), add_options and run.
COMMANDS = {
    "fit": "learn a map from trajectories or tables",
    "embed": "project new frames or rows onto a map",
    "report": "write a page that shows a map",
    "plot": "draw a map as PNG, SVG or PDF",
    "basins": "find metastable basins, their populations and dwell times",
    "correlate": "correlate map coordinates with observables (Rg, RMSD, your columns)",
    "kinetics": "learn slow modes, a committor, a passage time or an observable",
    "frames": "write the frames of a part of the map",
    "stream": "project records onto a map as they arrive",
    "watch": "project records onto a map as they arrive, and show them on a live page",
    "absorb": "extend a map with records that a stream found outside it",
    "export": "write a map for GROMACS, LAMMPS, NAMD or Amber",
    "info": "print the contents of a model file",
    "plan": "predict the memory and time of a fit on this machine",
    "demo": "map a molecule that ships with ldmaps, and draw it",
    "completion": "print a completion script for a shell",
}

EXIT_CODES = """\
exit status:
  0    done
  1    the data, a file or a setting is at fault; the message says what to do
  2    the command line is not valid
  3    an error within ldmaps (please report it, with the output of --debug)
  4    an event of ldmaps stream --exit-on happened
  5    done, but fewer than 1 % of the points are inside the map
  130  interrupted with Ctrl-C; 143 terminated; 141 stdout was closed
"""

GREETING = """\
ldmaps learns collective coordinates from trajectories or tables, and projects
new frames onto them in microseconds.

  ldmaps demo --files try                       write example data
  ldmaps fit traj.xtc -t top.pdb --tolerance 1 -o map.ldm
  ldmaps report map.ldm                         view the map: writes map.html
  ldmaps embed map.ldm new.xtc -t top.pdb -o psi.csv

ldmaps --help lists all commands, and ldmaps COMMAND --help explains one.
"""

EPILOG = f"""\
examples:
  ldmaps fit traj.xtc -t top.pdb --tolerance 1 -o map.ldm
  ldmaps fit sensors.csv --tolerance 1 -o map.ldm
  ldmaps report map.ldm
  ldmaps embed map.ldm new.xtc -t top.pdb -o psi.csv
  producer | ldmaps stream map.ldm -o psi.csv
  ldmaps plot map.ldm --kind free_energy -o energy.png
  ldmaps frames map.ldm traj.xtc -t top.pdb --basin 1 -o basin1.xtc
  ldmaps export map.ldm --to plumed -o for_gromacs -t system.gro
  ldmaps plan traj.xtc -t top.pdb --tolerance 1

Data go to stdout, everything else to stderr. Existing files are only
overwritten with --force. "ldmaps COMMAND --help" lists the options that most
people need, --help-all every one.

{EXIT_CODES}"""


class CommandParser(argparse.ArgumentParser):
    """A parser that prints nothing a terminal would obey, and of an error the error, not all options."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _MostNeeded, **settings})

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(printable(message), file)

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, f"{self.prog}: error: {message}\nsee {self.prog} --help\n")


class _MostNeeded(argparse.RawDescriptionHelpFormatter):
    """Leaves out options that few people need."""

    def add_argument(self, action: argparse.Action) -> None:
        if not getattr(action, "is_rare", False):
            super().add_argument(action)


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.print_help()
        parser.exit()


def _hide(command: argparse.ArgumentParser, shown: Sequence[str]) -> None:
    """Leave options out of --help, but for some by name."""
    if not shown:
        return
    for action in command._actions:
        action.is_rare = bool(action.option_strings) and action.dest not in (*shown, "help")  # type: ignore[attr-defined]
    command.add_argument(
        "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help="list all options and exit"
    )


def _usage_of(command: argparse.ArgumentParser) -> str:
    """Return what a command line must hold, in a line: options have lists of their own."""
    forms = {"+": "{0} [{0} ...]", "*": "[{0} ...]", "?": "[{0}]"}
    words = []
    for action in command._actions:
        if not action.option_strings:
            words.append(forms.get(str(action.nargs), "{0}").format(action.metavar or action.dest.upper()))
        elif action.required:
            words.append(f"{action.option_strings[0]} {action.metavar}")
    return " ".join([*words, "[options]"])


def build_parser(names: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; of commands that ``names`` leaves out it knows no options."""
    described = "Landmark diffusion maps of trajectories and tables."
    parser = CommandParser(prog="ldmaps", description=described, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"ldmaps {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in names:
            command.description = f"{summary[:1].upper()}{summary[1:]}."
            _add_command(command, import_module(f"{__name__}.{name}"))
    parser.set_defaults(parser=parser, commands=commands.choices)  # which `ldmaps completion` describes
    return parser


def _add_command(command: argparse.ArgumentParser, module: ModuleType) -> None:
    """Give a command's parser the options that the command's module lists."""
    command.epilog = module.EPILOG
    module.add_options(command)
    command.usage = f"%(prog)s {_usage_of(command)}"
    _hide(command, module.SHOWN.split())
    command.set_defaults(run=module.run, command_parser=command)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line; inputs may stand before and after options, where argparse takes them from one place."""
    argv = sys.argv[1:] if argv is None else argv
    named = next((text for text in argv if not text.startswith("-")), "")
    parser = build_parser(COMMANDS if named == "completion" else (named,))
    # argparse would first miss what is required, for it takes the value of a misspelled option for an input.
    _check_options(parser, named, argv)
    arguments, left_over = parser.parse_known_args(argv)
    if arguments.command is None and not left_over:
        print(GREETING, end="")
        parser.exit()
    unknown = [text for text in left_over if text.startswith("-") and text != "-"]
    if left_over and not unknown:
        if isinstance(getattr(arguments, "inputs", None), list):
            arguments.inputs += left_over
            return arguments
        if getattr(arguments, "input", None) == "-" and len(left_over) == 1:
            arguments.input = left_over[0]
            return arguments
    if left_over:
        command = getattr(arguments, "command_parser", parser)
        command.error(
            _unknown_option(command, unknown[0]) if unknown else f"unexpected argument {left_over[0]}"
        )
    return arguments


def _check_options(parser: argparse.ArgumentParser, named: str, argv: Sequence[str]) -> None:
    """End with status 2 at a long option that neither the named command nor ``ldmaps`` itself has."""
    command = parser.get_default("commands").get(named, parser)
    known = [*parser._option_string_actions, *command._option_string_actions]
    for text in argv:
        if text == "--":  # all that follows are inputs
            return
        option = text.partition("=")[0]
        # argparse takes the beginning of an option's name for the option, and text with a space for an input.
        if (
            option.startswith("--")
            and " " not in option
            and not any(name.startswith(option) for name in known)
        ):
            command.error(_unknown_option(command, option))


def _unknown_option(command: argparse.ArgumentParser, option: str) -> str:
    """Return the message about an option that a command does not have, with the most similar one that it has."""
    from difflib import get_close_matches

    close = get_close_matches(option, list(command._option_string_actions), n=1)
    return f"unknown option {option}" + (f"; did you mean {close[0]}?" if close else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit status, as ``ldmaps --help`` lists them.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; ``sys.argv`` by default.
    """
    try:
        arguments = parse(argv)
    except SystemExit as stop:  # argparse ends --help, --version and usage errors like this
        return int(stop.code or 0)
    return guarded(arguments.run, arguments)


def command() -> NoReturn:
    """Run the command that ``sys.argv`` names as a process of its own, and end the process."""
    leave(main())
