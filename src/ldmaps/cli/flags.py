"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re

__all__ = ["in_flags"]

#: Parameters that messages name, and the options that set them, where the option is not the name with dashes.
_OPTIONS = {
    "disconnected": "--unreachable",
    "n_components": "--components",
    "n_threads": "--threads",
    "outliers": "--drop-outliers",
    "random_state": "--seed",
    "top": "-t",
}
_SAME_NAMES = (
    "alpha array bad_records checkpoint_every chunk columns dwell_every enter_after epsilon extension idle_end "
    "landmarks leave_after max_batch max_delay max_landmarks max_points max_records metric n_landmarks new_components "
    "on_stall period periodic select stall_after start stop stride tolerance"
)
_OPTIONS.update({name: "--" + name.replace("_", "-") for name in _SAME_NAMES.split()})

_VALUE = r"\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,;()]*[^\s,;().:]"
#: Such as "stop=5 (--stop 5)", where a message already says both.
_BOTH = re.compile(rf"\b(?:{'|'.join(_OPTIONS)})(?:=\.\.\.|=(?:{_VALUE}))? \((--?[a-z][^)]*)\)")
_SETTING = re.compile(rf"(?<![\w./\\-])({'|'.join(_OPTIONS)})=({_VALUE})")
#: Names that are not English words.
_NAME = re.compile(rf"(?<![\w./\\-])({'|'.join(name for name in _OPTIONS if '_' in name)})\b(?!=)")


def in_flags(text: str) -> str:
    """Return a message with options where it has parameters of Python calls.

    >>> in_flags("n_landmarks=400 is more than the 300 points; lower n_landmarks")
    '--n-landmarks 400 is more than the 300 points; lower --n-landmarks'
    >>> in_flags('use those with stop=5 (--stop 5), or epsilon="connected", or columns=["x", "y"].')
    'use those with --stop 5, or --epsilon connected, or --columns x,y.'
    """
    text = _BOTH.sub(r"\1", text)
    text = _SETTING.sub(lambda match: f"{_OPTIONS[match[1]]} {_as_argument(match[2])}", text)
    return _NAME.sub(lambda match: _OPTIONS[match[1]], text)


def _as_argument(value: str) -> str:
    """Write a Python value as it is typed after an option."""
    if value.startswith("["):
        return ",".join(part.strip().strip("'\"") for part in value[1:-1].split(","))
    bare = value.strip("'\"")
    return f'"{bare}"' if " " in bare else bare
