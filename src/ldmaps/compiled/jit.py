"""The decorators of compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core import event

from ldmaps.compiled import announce
from ldmaps.compiled.on_disk import CodeOnDisk

__all__ = ["EXACT", "REDUCE", "compiled", "inlined"]

#: Relaxed rules for loops that must keep their order: products may be fused, values are finite.
EXACT = {"contract", "nnan", "ninf", "nsz"}
#: Relaxed rules for reductions, which run in SIMD only if their sums may be split.
REDUCE = EXACT | {"reassoc", "arcp"}

#: Put in place of its call before types are known: for a few operations on one element.
inlined = njit(inline="always")


class _Announcer(event.Listener):
    """Tells the listeners when compiling begins and ends; reading compiled code from disk is neither."""

    def on_start(self, event: Any) -> None:
        announce(True)

    def on_end(self, event: Any) -> None:
        announce(False)


event.register("numba:compile", _Announcer())


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a loop at its first call with each type of argument; it releases the GIL, and is kept on disk.

    Parameters
    ----------
    options
        ``fastmath`` and ``error_model``, as numba's ``njit`` takes them.
    """
    if function is None:
        return lambda decorated: compiled(decorated, **options)
    dispatcher = njit(nogil=True, **options)(function)
    # Without a folder that can be written to, or with a numba that keeps code (no public part of it) in another way,
    # old code might run: then rather compile in every process.
    with suppress(Exception):
        dispatcher._cache = CodeOnDisk(function)
    return dispatcher
