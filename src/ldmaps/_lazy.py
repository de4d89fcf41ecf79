"""Imports that wait: names of a package that load on first use, and packages that are needed for some things only."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from ldmaps.errors import InvalidInputError


def load_on_first_use(package: str, names: Mapping[str, str]) -> None:
    """Give a package its public names: the module inside it that defines them, "" for the package itself, and which."""
    homes = {name: home for home, listed in names.items() for name in listed.split()}
    module = sys.modules[package]

    def get_attribute(name: str) -> Any:
        if not homes.get(name):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(module, name, value)
        return value

    # Set from here: type checkers read the imports before each call, and must not see a list that they cannot tell.
    vars(module).update(
        __getattr__=get_attribute, __dir__=lambda: sorted({*vars(module), *homes}), __all__=sorted(homes)
    )


def needed(module: str, what: str, remedy: str) -> ModuleType:
    """Import what another package has, or raise saying what is done with it and how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInputError(f"{what}, which cannot be imported ({error}); {remedy}") from error
