"""Rows of an array: NPY, one array of an NPZ, Zarr."""

from __future__ import annotations

import zipfile
import zlib
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.inputs.base_table import Numbered, Table
from ldmaps.inputs.formats import Format
from ldmaps.inputs.source import Reading

__all__ = ["ArrayTable", "load_array"]


class ArrayTable(Table):
    """One array; ``array`` is which one of an archive to take."""

    def __init__(self, path: str, form: Format, array: str | None) -> None:
        self.path = path
        rows = self._rows = load_array(path, form, array)
        if rows.dtype.kind not in "biuf":
            raise InvalidInputError(f"{path} holds values of type {rows.dtype}, but numbers are needed")
        if rows.ndim not in (2, 3) or (rows.ndim == 3 and rows.shape[2] != 3):
            raise InvalidInputError(
                f"{path} holds an array of shape {rows.shape}; (rows, features) or (frames, atoms, 3) is needed"
            )
        self.shape = rows.shape[1:]
        self.n_rows = rows.shape[0]
        # Pages of a mapping that were read count as this process's memory until it ends: each block has its own.
        self._remapped = partial(load_array, path, form, array) if isinstance(rows, np.memmap) else None

    def mapped(self) -> NDArray[Any] | None:
        """Return the rows of a .npy that need no conversion."""
        is_plain = self.places is None and self._rows.dtype in (np.float32, np.float64)
        return self._rows if is_plain and isinstance(self._rows, np.memmap) else None

    def rows(self, chunk: int, reading: Reading) -> Numbered:
        """Copy the rows to be read out of the file."""
        wanted = reading.of(self._rows.shape[0])
        count = max(1, chunk // wanted.step)
        for at in range(0, len(wanted), count):
            part = wanted[at : at + count]
            rows = self._rows if self._remapped is None else self._remapped()
            block = rows[part.start : part.stop : part.step]
            block = np.array(block if self.places is None else block[:, self.places])
            is_float = block.dtype in (np.float32, np.float64)
            yield np.asarray(part, dtype=np.int64), block if is_float else block.astype(np.float64)


def load_array(path: str, form: Format, name: str | None) -> NDArray[Any]:
    """Return an array, that of a .npy or Zarr as it lies in the file, or raise saying what is wrong."""
    try:
        if form.reader == "array":
            rows: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            return rows
        if form.reader == "zarr":
            opened: NDArray[Any] = _open_zarr(path, name)
            return opened
        # Looked at first, because numpy leaves a file open that is no archive, and reads one that is a .npy.
        with zipfile.ZipFile(path):
            pass
        with np.load(path, allow_pickle=False) as archive:
            names = archive.files
            if name is None and len(names) == 1:
                name = names[0]
            if name not in names:
                asked = "holds several arrays" if name is None else f"has no array {name!r}"
                raise InvalidInputError(
                    f"{path} {asked}; choose one of {', '.join(names)} with ", Named("array")
                )
            return np.asarray(archive[name])
    except InvalidInputError:
        raise
    # RuntimeError: an archive that is encrypted, or packed in a way that Python does not know.
    except (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidInputError(
            f"{path} cannot be read as an array ({' '.join(str(error).split())})"
        ) from error


def _open_zarr(path: str, name: str | None) -> Any:
    """Return a Zarr array, which is read where it is sliced."""
    try:
        import zarr
    except ImportError as error:
        raise InvalidInputError(
            f"{path} is read with zarr, which cannot be imported ({error}); pip install zarr"
        ) from error
    opened = zarr.open(path, mode="r", path=name)
    if isinstance(opened, zarr.Group):
        names = sorted(opened.array_keys())
        raise InvalidInputError(
            f"{path} holds a group of arrays; choose one of {', '.join(names) or '(none)'} with ",
            Named("array"),
        )
    return opened
