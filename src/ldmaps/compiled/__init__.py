"""Every compiled loop: ``compiled.rows.distance_sums(...)``.

    from ldmaps import compiled

A module of this folder loads at its first use, because numba takes a second to
load and ``import ldmaps`` must not wait for it. Nothing outside this folder
imports numba, and nothing in it imports the rest of the package: the folder's
files are all that decides what is compiled, and :mod:`ldmaps.compiled.on_disk` keeps
compiled code on disk only as long as none of them changes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

#: Called with True when a loop's compilation begins and with False when it ends; from any thread, and nested.
listeners: list[Callable[[bool], None]] = []


def announce(begins: bool) -> None:
    """Tell the listeners that a loop's compilation begins or ends."""
    for listener in listeners:
        listener(begins)


def __getattr__(name: str) -> Any:
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise  # numba itself is missing
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
