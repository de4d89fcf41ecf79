"""What --help shows of a parser, and how it words errors."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from ldmaps.cli.session import printable


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


def hide(command: argparse.ArgumentParser, shown: Sequence[str]) -> None:
    """Leave options out of --help, but for some by name."""
    if not shown:
        return
    for action in command._actions:
        action.is_rare = bool(action.option_strings) and action.dest not in (*shown, "help")  # type: ignore[attr-defined]
    command.add_argument(
        "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help="list all options and exit"
    )


def usage_of(command: argparse.ArgumentParser) -> str:
    """Return what a command line must hold, in a line: options have lists of their own."""
    forms = {"+": "{0} [{0} ...]", "*": "[{0} ...]", "?": "[{0}]"}
    words = []
    for action in command._actions:
        if not action.option_strings:
            words.append(forms.get(str(action.nargs), "{0}").format(action.metavar or action.dest.upper()))
        elif action.required:
            words.append(f"{action.option_strings[0]} {action.metavar}")
    return " ".join([*words, "[options]"])


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands' parsers by name."""
    return next(action for action in parser._actions if action.dest == "command").choices  # type: ignore[return-value]
