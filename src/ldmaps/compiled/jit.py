"""The decorators of compiled loops, and a cache of compiled code that cannot run stale.

numba keeps compiled code on disk and drops it when the file of the function that
was called has changed. What that function calls is compiled into it but not
watched: edit a helper in another file, or upgrade the package, and the old helper
runs on. So the stamp that numba compares also carries a digest of this folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event

from ldmaps._version import __version__
from ldmaps.compiled import listeners

__all__ = ["EXACT", "REDUCE", "compiled", "inlined", "sources_digest"]

#: Relaxed rules for loops that must keep their order: products may be fused, values are finite.
EXACT = {"contract", "nnan", "ninf", "nsz"}
#: Relaxed rules for reductions, which run in SIMD only if their sums may be split.
REDUCE = EXACT | {"reassoc", "arcp"}

#: Put in place of its call before types are known: for a few operations on one element.
inlined = njit(inline="always")


class _Announcer(event.Listener):
    """Tells the listeners when compiling begins and ends; reading compiled code from disk is neither."""

    def on_start(self, event: Any) -> None:
        for listener in listeners:
            listener(True)

    def on_end(self, event: Any) -> None:
        for listener in listeners:
            listener(False)


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
    try:
        dispatcher = njit(cache=True, nogil=True, **options)(function)
        index = dispatcher._cache._cache_file
        index._source_stamp = (index._source_stamp, sources_digest())
    except Exception:
        # No folder that can be written to, or a numba that keeps its stamp (no public part of it) elsewhere.
        # Without the stamp old code might run: rather compile in every process.
        return njit(nogil=True, **options)(function)
    return dispatcher


@cache
def sources_digest() -> str:
    """Return a digest of the package's version and of every file in this folder."""
    digest = hashlib.sha256(__version__.encode())  # in a zip or a frozen program there are no files to read
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
