"""Settings that messages name, as the options that set them."""

from __future__ import annotations

import argparse

from ldmaps.errors import Message, Named, one_line
from ldmaps.settings import LANDMARK_FIT

#: The short name, as all examples spell it.
_SHORT = {"top": "-t"}


def in_flags(error: object, parser: argparse.ArgumentParser | None = None) -> str:
    """Return the text of an error or warning, in one line, with options of a command where it names settings.

    >>> from ldmaps.errors import InvalidInputError
    >>> in_flags(InvalidInputError(Named("n_landmarks", 400), " is too many; use ", Named("epsilon", "connected")))
    '--n-landmarks 400 is too many; use --epsilon connected'
    """
    if isinstance(error, Message):
        return one_line(error.worded(lambda named: _spelled(named, parser)))
    return one_line(error)


def option_of(setting: str, parser: argparse.ArgumentParser | None) -> str | None:
    """Return the option that sets something, if there is one."""
    if setting in LANDMARK_FIT:
        return LANDMARK_FIT[setting].option or None
    names = [
        action.option_strings for action in (parser._actions if parser else ()) if action.dest == setting
    ]
    if setting in _SHORT or not names:
        return _SHORT.get(setting)
    return max(names[0], key=len)


def _spelled(named: Named, parser: argparse.ArgumentParser | None) -> str:
    option = option_of(named.setting, parser)
    if option is None:
        return str(named)
    value = named.value
    if value is None or value is True or value is ...:
        return option
    if isinstance(value, (list, tuple)):
        return f"{option} {','.join(map(str, value))}"
    if isinstance(value, float):
        return f"{option} {value:g}"
    return f'{option} "{value}"' if " " in str(value) else f"{option} {value}"
