"""The decorators of compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["EXACT", "REDUCE", "compiled", "inlined"]

#: Relaxed rules for loops that must keep their order: products may be fused, values are finite.
EXACT = {"contract", "nnan", "ninf", "nsz"}
#: Relaxed rules for reductions, which run in SIMD only if their sums may be split.
REDUCE = EXACT | {"reassoc", "arcp"}

#: Put in place of its call before types are known: for a few operations on one element.
inlined = njit(inline="always")


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a loop at its first call with each type of argument; it releases the GIL, and is kept on disk.

    Parameters
    ----------
    options
        ``fastmath`` and ``error_model``, as numba's ``njit`` takes them.
    """
    if function is None:
        return lambda decorated: compiled(decorated, **options)
    return njit(nogil=True, cache=True, **options)(function)
