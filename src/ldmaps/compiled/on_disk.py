"""Compiled code on disk: one file per loop and types of its arguments, which cannot run stale.

numba keeps compiled code on disk and drops it when the file of the function that
was called has changed. What that function calls is compiled into it but not
watched: edit a helper in another file, or upgrade the package, and the old helper
runs on. So each file begins with a digest of this folder, too.

numba also keeps an index per function. Two processes that compile the function for
different types at the same time can leave an index that names one's code for the
other's types. Here the name of a file is a digest of the types, and there is no index.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

from ldmaps._version import __version__
from ldmaps.compiled.ahead import is_compiled_elsewhere

__all__ = ["CodeOnDisk", "sources_digest"]


class _Files(IndexDataCacheFile):
    """The files of one loop's compiled code."""

    def save(self, key: Any, data: Any) -> None:
        """Write code, whole or not at all."""
        with self._open_for_write(self._path(key)) as stream:
            stream.write(self._dump(self._origin))
            stream.write(self._dump(data))

    def load(self, key: Any) -> Any:
        """Return code, or None where there is none of these sources, or none that can be read."""
        try:
            with open(self._path(key), "rb") as stream:
                return pickle.load(stream) if pickle.load(stream) == self._origin else None
        except Exception:  # what a damaged file makes pickle raise can be anything
            return None

    @property
    def _origin(self) -> Any:
        return self._version, self._source_stamp

    def _path(self, key: Any) -> str:
        base = self._index_name.removesuffix(".nbi")
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return os.path.join(self._cache_path, f"{base}.{digest}.nbc")


class CodeOnDisk(FunctionCache):
    """What a loop's dispatcher asks for code before it compiles, and gives code that it has compiled.

    Parameters
    ----------
    function : callable
        The loop, in Python.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Files(
            self._cache_path,
            self._impl.filename_base,
            (self._impl.locator.get_source_stamp(), sources_digest()),
        )
        self._loop = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return code for these types of arguments, or None where it must be compiled here."""
        code = super().load_overload(sig, target_context)
        if code is None and is_compiled_elsewhere(self._loop, sig):
            code = super().load_overload(sig, target_context)
        return code


@cache
def sources_digest() -> str:
    """Return a digest of the package's version and of every file in this folder."""
    digest = hashlib.sha256(__version__.encode())  # in a zip or a frozen program there are no files to read
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
