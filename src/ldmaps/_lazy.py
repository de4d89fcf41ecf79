"""Packages whose public names load on first use, so that importing one costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


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
