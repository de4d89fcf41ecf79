"""Every hot loop, in C++ and compiled with the package: ``kernels.gaussian(squared, rate)``.

    from ldmaps import kernels

A kernel is a function of arrays and numbers. It checks type, layout and shape of what it is
given, then trusts it; it runs without the GIL. The sources beside this file are compiled once
per instruction set, and the best that this processor runs is loaded.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldmaps.kernels._sources import checksum

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_FOLDER = os.path.dirname(__file__)


def _compiled(name: str) -> Any:
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise ImportError(
            f"{_FOLDER} has no {name} compiled for this Python: in a clone run `make install`, elsewhere install "
            "the package again with `pip install --force-reinstall ldmaps`"
        ) from error


def _runnable() -> tuple[str, ...]:
    """Return the instruction sets that this processor runs, the least first."""
    known = ("baseline", "x86_64_v3", "x86_64_v4")
    return known[: known.index(_compiled("_processor").best_instruction_set) + 1]


def _chosen() -> str:
    """Return the best instruction set, or the one that a developer asks for."""
    asked = os.environ.get("LDMAPS_INSTRUCTION_SET") or INSTRUCTION_SETS[-1]
    if asked not in INSTRUCTION_SETS:
        raise ImportError(
            f"LDMAPS_INSTRUCTION_SET is {asked!r}, but this processor runs {' or '.join(INSTRUCTION_SETS)}"
        )
    return asked


def _kernels() -> Any:
    """Return the module of the chosen instruction set, if it is of the sources beside it."""
    module = _compiled(f"_{INSTRUCTION_SET}")
    if checksum(_FOLDER) not in (None, module._sources):
        raise ImportError(
            f"the C++ sources in {_FOLDER} have changed since {module.__name__} was compiled from them: "
            "run `make install`, which compiles what changed"
        )
    return module


#: What this processor runs, and what of it was loaded: baseline, x86_64_v3 (AVX2) or x86_64_v4 (AVX-512).
INSTRUCTION_SETS = _runnable()
INSTRUCTION_SET = _chosen()
globals().update({name: value for name, value in vars(_kernels()).items() if not name.startswith("_")})
