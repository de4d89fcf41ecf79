"""Warnings that point at the user's line, wherever in the package something was noticed."""

from __future__ import annotations

import sys
import warnings

from ldmaps.errors import LdmapsWarning

#: Packages whose lines are not the user's.
_INNER = ("ldmaps", "sklearn", "contextlib", "openmm")


def warn(warning: LdmapsWarning) -> None:
    """Issue a warning for the first caller outside this package and those that call it for the user."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
