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
_SOURCES = checksum(_FOLDER)


def _module_of(instruction_set: str) -> Any:
    name = f"{__name__}._{instruction_set}"
    try:
        module: Any = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(
            f"{_FOLDER} has no kernels compiled for this Python: in a clone run `make install`, elsewhere "
            "install the package again with `pip install --force-reinstall ldmaps`"
        ) from error
    if _SOURCES not in (None, module._sources):
        raise ImportError(
            f"the C++ sources in {_FOLDER} have changed since {name} was compiled from them: run `make install`, "
            "which compiles what changed"
        )
    return module


def _runnable(best: str) -> tuple[str, ...]:
    """Return an instruction set and those that it includes, the least first."""
    known = ("baseline", "x86_64_v3", "x86_64_v4")
    return known[: known.index(best) + 1]


def _chosen(runnable: tuple[str, ...]) -> str:
    """Return the best, or the one that a developer asks for."""
    asked = os.environ.get("LDMAPS_INSTRUCTION_SET") or runnable[-1]
    if asked not in runnable:
        raise ImportError(
            f"LDMAPS_INSTRUCTION_SET is {asked!r}, but this processor runs {' or '.join(runnable)}"
        )
    return asked


_baseline = _module_of("baseline")
#: What this processor runs, and what of it was loaded: baseline, x86_64_v3 (AVX2) or x86_64_v4 (AVX-512).
INSTRUCTION_SETS = _runnable(_baseline.best_instruction_set())
INSTRUCTION_SET = _chosen(INSTRUCTION_SETS)
_module = _baseline if INSTRUCTION_SET == "baseline" else _module_of(INSTRUCTION_SET)
globals().update({name: value for name, value in vars(_module).items() if not name.startswith("_")})
