"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from ldmaps.settings import LANDMARK_FIT, LIMITS, Limits, Setting

if TYPE_CHECKING:
    from ldmaps.inputs import PointSource

#: Arguments of :func:`ldmaps.inputs.open_files` that options of the same name set.
_SETTINGS = (
    *("top", "select", "columns", "time", "array", "missing", "window", "step"),
    *("stride", "start", "stop", "chunk", "periodic", "weights", "kt"),
)


class Once(argparse.Action):
    """Store a value, and refuse a second one: argparse would take the last in silence."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        """Store the value."""
        given = getattr(namespace, self.dest)
        if given not in (self.default, values):
            raise argparse.ArgumentError(self, f"may be given once, got {given!r} and {values!r}")
        setattr(namespace, self.dest, values)


def add(group: Any, table: str, **more: Any) -> None:
    """Add arguments as ``--help`` lists them: names and what a value is called, two spaces or more, the help.

    A value "some|all" is one of these, and "N=3" is 3 by default, which the help then says; "FILE!" is required,
    "FILE+", "FILE*" and "FILE?" take several or none. ``more``, by name: what reads a value, or keywords of argparse.
    """
    for entry in re.split(r"\n(?=\S)", dedent(table).strip()):
        spec, _, text = entry.partition("  ")
        names = spec.split()
        keywords: dict[str, Any] = {"help": " ".join(text.split())}
        if names[-1].startswith("-"):
            keywords["action"] = "store_true"
        else:
            value, mark, default = re.fullmatch(r"(.*?)([!+*?]?)(?:=(.+))?", names.pop()).groups()  # type: ignore[union-attr]
            has_words = "|" in value and value.islower()
            keywords |= {"choices": value.split("|")} if has_words else {"metavar": value}
            keywords |= {"required": True} if mark == "!" else {"nargs": mark} if mark else {}
            keywords |= {"default": default, "help": f"{keywords['help']} ({default})"} if default else {}
            keywords |= {"type": _KINDS[value]} if value in _KINDS else {}
        argument = next((name for name in names if name.startswith("--")), names[0])
        others = (_KNOWN | more).get(argument.lstrip("-").replace("-", "_"), {})
        group.add_argument(*names, **(keywords | ({"type": others} if callable(others) else others)))


def add_common(parser: argparse.ArgumentParser, without: str = "seed") -> None:
    """Add the options that work alike everywhere, but for some."""
    group = parser.add_argument_group("general")
    table: dict[str, Any] = {
        "quiet": "-q --quiet  print errors only",
        "json": "--json  write the summary as JSON to stdout",
        "seed": LANDMARK_FIT["random_state"],
        "threads": LANDMARK_FIT["n_threads"],
        "force": "-f --force  overwrite an existing output",
        "debug": "--debug  show the Python traceback of an error",
    }
    for name, entry in table.items():
        if name not in without.split():
            adds = add if isinstance(entry, str) else add_setting
            adds(group, entry)


def add_setting(group: Any, setting: Setting, **changes: Any) -> None:
    """Add the option of a setting of fits; ``changes`` are arguments of argparse."""
    keywords: dict[str, Any] = {"default": setting.default, "metavar": setting.metavar, "help": setting.help}
    if setting.kind is float and not setting.words:
        keywords["type"] = float  # what it means, and so its range, is said by the fit
    elif setting.kind is not object:
        keywords["type"] = partial(_read, setting)
    elif setting.words:
        keywords["choices"] = setting.words
    group.add_argument(*filter(None, (setting.letter, setting.option)), **(keywords | changes))


def chosen(arguments: argparse.Namespace, names: str) -> dict[str, Any]:
    """Return some options by name, to be passed on."""
    return {name: getattr(arguments, name) for name in names.split()}


def fit_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a fit that options set, by their names in Python."""
    limits = Limits(**_values_of(arguments, LIMITS))
    return _values_of(arguments, LANDMARK_FIT) | {"limits": limits}


def _values_of(arguments: argparse.Namespace, described: Mapping[str, Setting]) -> dict[str, Any]:
    """Return what options set of the described settings."""
    return {
        setting.name: getattr(arguments, setting.argument)
        for setting in described.values()
        if setting.option and hasattr(arguments, setting.argument)
    }


#: Which frames or rows of a file to read.
PARTS = """
    -s --stride N=1  use every N-th frame
    --start N        first frame of each file, from 0
    --stop N         stop before this frame of each file
"""
#: What names the atoms and chooses some.
ATOMS = """
    -t --top --topology FILE     file that names the atoms: PDB, GRO, PSF, TPR, ...
    --select ATOMS               atoms to use, in mdtraj's language: "protein and not element H"
    --periodic whole|keep=whole  join molecules that a periodic box has split, or keep coordinates as they are
"""
#: What lets atoms of other names pass, and how they are matched with those of the model.
NAMING = "--ignore-names  accept other atom names; the number of atoms must still agree"
MATCHING = (
    "--match-atoms  match atoms by name, residue by residue, where residues are named or numbered differently"
)
#: What chooses columns of tables, where by default others are used, and what is done with rows.
COLUMNS = "--columns A,B,...  columns to use, by name or number from 1 ({})"
TIME = (
    "--time COLUMN  column with the time of each row, in seconds or as dates; none treats rows as independent "
    "(default: a column called time, or one of dates)"
)
ROWS = """
    --missing drop|error  whether a missing value drops its row or is an error ({})
    --step S              take every S-th window of rows (1, or as the model was fitted)
"""
#: What pictures may be.
PICTURES = (".png", ".svg", ".pdf")
#: Where the core of a basin begins.
ENTER = "--enter CHI=0.7  membership from which a frame is in a basin's core, 0.5 to 1"


def add_input_options(parser: argparse.ArgumentParser, *, tables: bool = True) -> None:
    """Add what says which frames, atoms or columns to read."""
    group = parser.add_argument_group("reading")
    chunk = "-c --chunk N  frames to read at a time (4 MB)"
    of_tables = (
        COLUMNS.format("all"),
        TIME,
        "--array NAME  which array of an .npz, .zarr or .h5ad file to use",
        ROWS.format("error, or as the model was fitted"),
    )
    for table in (ATOMS, PARTS, chunk, *(of_tables if tables else ())):
        add(group, table)


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Add what says who does the work."""
    group = parser.add_argument_group("workers (Dask)")
    table = """
        --workers N          start N worker processes here, which read the inputs
        --scheduler ADDRESS  run on the Dask scheduler at tcp://HOST:PORT
    """
    add(group.add_mutually_exclusive_group(), table)
    table = """
        --worker-memory SIZE  memory of each started worker, such as 2GB
        --piece SIZE          what workers read at a time, such as 256MB (32 MB); a worker's thread holds up to four
    """
    add(group, table, worker_memory={"default": "auto"}, piece=size)


def asks_for_workers(arguments: argparse.Namespace) -> bool:
    """Say whether a cluster is to do the work."""
    return bool(arguments.workers or arguments.scheduler)


def window(text: str) -> int | str:
    """Read the length of windows."""
    return text if text == "auto" else _number(text, lowest=2)


def _number(text: str, lowest: int, kind: type = int, what: str = "a whole number") -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not lowest <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{what} of at least {lowest} is needed, got {text!r}")
    return value


positive, not_negative = partial(_number, lowest=1), partial(_number, lowest=0)
_seconds = partial(_number, lowest=0, kind=float, what="a number of seconds")


def _read(setting: Setting, text: str) -> Any:
    """Read a setting that is a number, or a word in its place."""
    if text in setting.words:
        return text
    try:
        value = setting.kind(text)
    except ValueError:
        value = None
    if value is None or not setting.holds(value):
        number = f"number above {setting.above}"
        if setting.kind is int:
            has_high = math.isfinite(setting.high)
            number = "whole number " + (
                f"from {setting.low} to {setting.high}" if has_high else f"of at least {setting.low}"
            )
        words = f"{', '.join(map(repr, setting.words))} or " if setting.words else ""
        raise argparse.ArgumentTypeError(f"{words}a {number} is needed, got {text!r}")
    return value


def size(text: str) -> int:
    """Read a size in bytes, or with a unit: 64MB."""
    from ldmaps.errors import InvalidInputError
    from ldmaps.settings import size_in_bytes

    try:
        return size_in_bytes("it", int(text) if text.isdecimal() else text)
    except InvalidInputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def names(text: str) -> list[str]:
    """Read names that commas separate."""
    return [name.strip() for name in text.split(",")]


def bounds(text: str) -> dict[str, tuple[float | None, float | None]]:
    """Read the bounds of a box: "psi2=0.01:,psi3=-1:1"."""
    box = {}
    for part in names(text):
        name, equals, interval = part.partition("=")
        low, colon, high = interval.partition(":")
        try:
            if not equals or not colon:
                raise ValueError
            box[name.strip()] = (float(low) if low.strip() else None, float(high) if high.strip() else None)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"bounds such as psi2=-0.1:0.2,psi3=0.05: are needed, got {part!r}"
            ) from None
    return box


#: What values are that have these names, and the values of these options.
_KINDS = {"N": positive, "S": _seconds}
_KNOWN: dict[str, Any] = {
    "columns": names,
    "enter": float,
    "select": {"action": Once},
    "start": not_negative,
    "step": positive,
    "top": {"action": Once},
}


def open_files(
    arguments: argparse.Namespace, inputs: Sequence[str], model_facts: Mapping[str, Any] | None = None
) -> PointSource:
    """Open all inputs as one source; ``model_facts`` as in :func:`ldmaps.inputs.open_files`."""
    from ldmaps.inputs import open_files

    return open_files(inputs, **reading_settings(arguments, model_facts))


def reading_settings(
    arguments: argparse.Namespace, model_facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments of :func:`ldmaps.inputs.open_files` that options stand for."""
    return {
        **{name: getattr(arguments, name, None) for name in _SETTINGS},
        "model_facts": named_facts(arguments, model_facts),
        "match_atoms": getattr(arguments, "match_atoms", False),
    }


def named_facts(arguments: argparse.Namespace, model_facts: Any) -> Any:
    """Return what a model knows of its inputs, without the names of atoms where --ignore-names says so."""
    if model_facts and model_facts.get("kind") == "frames" and getattr(arguments, "ignore_names", False):
        return {**model_facts, "atom_names": None}
    return model_facts
