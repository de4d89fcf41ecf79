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

__all__ = ["INSTRUCTION_SET"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def _loaded() -> tuple[str, Any]:
    baseline = import_module(f"{__name__}._baseline")
    chosen = os.environ.get("LDMAPS_INSTRUCTION_SET") or baseline.best_instruction_set()
    return chosen, baseline if chosen == "baseline" else import_module(f"{__name__}._{chosen}")


#: What was loaded: baseline, x86_64_v3 (AVX2) or x86_64_v4 (AVX-512).
INSTRUCTION_SET, _module = _loaded()
globals().update({name: value for name, value in vars(_module).items() if not name.startswith("_")})
