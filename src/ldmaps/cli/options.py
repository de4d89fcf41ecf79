"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from ldmaps.settings import LANDMARK_FIT, Setting

__all__ = [
    "add_atom_options",
    "add_column_option",
    "add_common",
    "add_enter_option",
    "add_input_options",
    "add_matching_options",
    "add_naming_option",
    "add_row_options",
    "add_setting",
    "add_weight_options",
    "fit_settings",
    "names",
    "not_negative",
    "positive",
    "window",
]


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


def add_common(
    parser: argparse.ArgumentParser,
    *,
    quiet: bool = True,
    force: bool = True,
    threads: bool = True,
    seed: bool = False,
) -> None:
    """Add the options that work alike everywhere."""
    group = parser.add_argument_group("general")
    if quiet:
        group.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    group.add_argument("--json", action="store_true", help="write the summary as JSON to stdout")
    if seed:
        add_setting(group, LANDMARK_FIT["random_state"])
    if threads:
        add_setting(group, LANDMARK_FIT["n_threads"])
    if force:
        group.add_argument("-f", "--force", action="store_true", help="overwrite an existing output")
    group.add_argument("--debug", action="store_true", help="show the Python traceback of an error")


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


def fit_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a fit that options set, by their names in Python."""
    return {
        setting.name: getattr(arguments, setting.argument)
        for setting in LANDMARK_FIT.values()
        if setting.option and hasattr(arguments, setting.argument)
    }


def add_input_options(parser: argparse.ArgumentParser, *, tables: bool = True) -> None:
    """Add what says which frames, atoms or columns to read."""
    group = parser.add_argument_group("reading")
    add_atom_options(group)
    group.add_argument(
        "-s", "--stride", type=positive, default=1, metavar="N", help="use every N-th frame (1)"
    )
    group.add_argument("--start", type=not_negative, metavar="N", help="first frame of each file, from 0")
    group.add_argument("--stop", type=positive, metavar="N", help="stop before this frame of each file")
    group.add_argument("-c", "--chunk", type=positive, metavar="N", help="frames to hold at a time (4 MB)")
    if tables:
        add_column_option(group, "all")
        group.add_argument("--array", metavar="NAME", help="which array of an .npz file to use")
        add_row_options(group, "error, or as the model was fitted")


def add_atom_options(group: Any) -> None:
    """Add what names the atoms and chooses some."""
    group.add_argument(
        *("-t", "--top", "--topology"),
        dest="top",
        action=Once,
        metavar="FILE",
        help="file that names the atoms: PDB, GRO, PSF, TPR, ...",
    )
    text = 'atoms to use, in mdtraj\'s language: "protein and not element H"'
    group.add_argument("--select", action=Once, metavar="ATOMS", help=text)
    group.add_argument(
        "--periodic",
        choices=("whole", "keep"),
        default="whole",
        help="join molecules that a periodic box has split, or keep coordinates as they are (whole)",
    )


def add_column_option(group: Any, default: str) -> None:
    """Add what chooses columns of tables."""
    text = f"columns to use, by name or number from 1 ({default})"
    group.add_argument("--columns", type=names, metavar="A,B,...", help=text)


def add_row_options(group: Any, missing: str) -> None:
    """Add what is done with rows of tables."""
    text = f"what a missing value does: leaves its row out, or is an error ({missing})"
    group.add_argument("--missing", choices=("drop", "error"), help=text)
    text = "take every S-th window of rows (1, or as the model was fitted)"
    group.add_argument("--step", type=positive, metavar="S", help=text)


def window(text: str) -> int | str:
    """Read the length of windows."""
    return text if text == "auto" else _whole(text, 2)


def add_weight_options(parser: argparse.ArgumentParser) -> None:
    """Add what says how much each point counts."""
    group = parser.add_argument_group("weights")
    group.add_argument(
        "--weights",
        metavar="COLUMN|FILE[:COLUMN]",
        help="how much each point counts: a column of the input tables, or of a table, an array or a PLUMED COLVAR",
    )
    group.add_argument(
        "--kt",
        type=float,
        metavar="KT",
        help="the weights' column is the energy V of a bias, a point weighs exp(V/KT); 2.494 is 300 K in kJ/mol",
    )


def add_matching_options(parser: argparse.ArgumentParser) -> None:
    """Add how atoms of the inputs are matched with those of the model."""
    group = parser.add_argument_group("atoms")
    add_naming_option(group)
    group.add_argument(
        "--match-atoms",
        action="store_true",
        help="match atoms by name, residue by residue, where residues are named or numbered differently",
    )


def add_naming_option(group: Any) -> None:
    """Add what lets atoms of other names pass."""
    text = "accept atoms of other names; their number must still agree"
    group.add_argument("--ignore-names", action="store_true", help=text)


def add_enter_option(parser: argparse.ArgumentParser) -> None:
    """Add where the core of a basin begins."""
    text = "membership from which a frame is in a basin's core, 0.5 to 1 (0.7)"
    parser.add_argument("--enter", type=float, default=0.7, metavar="CHI", help=text)


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    return _whole(text, 1)


def not_negative(text: str) -> int:
    """Read a whole number of at least 0."""
    return _whole(text, 0)


def _whole(text: str, lowest: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = lowest - 1
    if value < lowest:
        raise argparse.ArgumentTypeError(f"a whole number of at least {lowest} is needed, got {text!r}")
    return value


def _read(setting: Setting, text: str) -> Any:
    """Read a setting that is a number, or a word in its place."""
    if text in setting.words:
        return text
    try:
        value = setting.kind(text)
    except ValueError:
        value = None
    if value is None or not setting.holds(value):
        number = (
            f"whole number of at least {setting.low}"
            if setting.kind is int
            else f"number above {setting.above}"
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
