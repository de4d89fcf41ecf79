"""Arrays and a JSON header in one file: nothing in it can run, and nothing can inflate.

    file (zip, stored, not compressed)
    ├── header.json     ── the writer's own entries, and "members": dtype, shape and SHA-256 of each array
    └── NAME.npy …      ── NumPy's format 1.0, C order, little-endian

A reader believes nothing: members must be exactly those of the manifest, as long
as their shapes say, together no longer than the file, and unchanged. Whatever is
wrong raises :class:`ArchiveError`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import LdmapsError
from ldmaps.files import written_whole

_HEADER, _MANIFEST = "header.json", "members"
#: Longest header that is read: atom names of a million atoms take less.
MAX_HEADER_BYTES = 1 << 26
#: What a list and a value of a header take in memory, and how much all may take for each byte of it, beside some that
#: are free: indented as it is written it takes less.
LIST_BYTES, VALUE_BYTES, MOST_PER_BYTE, FREE_BYTES = 72, 58, 12, 1 << 22
MAX_DIMENSIONS = 4
#: Longest list of members that is read: a thousand of them. It must be more than what zipfile reads in search of it.
MAX_DIRECTORY_BYTES = 1 << 17
_DTYPES = ("<f4", "<f8", "<i4", "<i8", "|b1")
#: What reading flipped, missing or foreign bytes can raise in zipfile and json. RecursionError is a RuntimeError.
_DAMAGE = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    KeyError,
    IndexError,
    OverflowError,
    struct.error,
)


class ArchiveError(LdmapsError, ValueError):
    """The file is cut off, altered, or of another kind; the message says which."""


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a header and arrays; the file appears whole or not at all."""
    members = {name: _member(array) for name, array in arrays.items()}
    manifest = {name: entry for name, (entry, _) in members.items()}
    text = json.dumps({**header, _MANIFEST: manifest}, indent=1, ensure_ascii=False, allow_nan=False)
    with written_whole(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        # ZipInfo, because a name alone is stored with the time: equal contents make equal files.
        archive.writestr(zipfile.ZipInfo(_HEADER), text)
        for name, (_, content) in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content)


def read_archive_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a file's header without its arrays."""
    return _read(path, with_arrays=False)[0]


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a file's header and its arrays."""
    return _read(path, with_arrays=True)


# -- writing ------------------------------------------------------------------


def _member(array: NDArray[Any]) -> tuple[dict[str, Any], bytes]:
    """Return an array's entry in the manifest, and its bytes."""
    code = array.dtype.newbyteorder("<").str
    if code not in _DTYPES:
        raise TypeError(f"an archive holds {', '.join(_DTYPES)}, got an array of {array.dtype}")
    values = np.ascontiguousarray(array, dtype=code).reshape(array.shape)
    content = _npy_start(code, values.shape) + values.tobytes()
    digest = hashlib.sha256(content).hexdigest()
    return {"dtype": code, "shape": list(values.shape), "sha256": digest}, content


def _npy_start(code: str, shape: tuple[int, ...]) -> bytes:
    """Return what stands before the numbers in NumPy's format 1.0; written out here so that it never varies."""
    text = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    padding = -(len(text) + 11) % 64
    text += b" " * padding + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


# -- reading ------------------------------------------------------------------


class _BoundedFile(io.FileIO):
    """A file whose list of members is not read if it is too long: a million empty ones take a minute."""

    is_open = False  # whether the list has been read

    def read(self, size: int | None = -1) -> bytes:
        """Read so many bytes, or raise."""
        if not self.is_open and size is not None and size > MAX_DIRECTORY_BYTES:
            raise ArchiveError(f"{self.name} is damaged: its list of members has {size} bytes")
        return super().read(-1 if size is None else size) or b""


def _read(
    path: str | os.PathLike[str], *, with_arrays: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}; check the path")
    try:
        with _BoundedFile(path) as stream, zipfile.ZipFile(stream) as archive:
            stream.is_open = True
            infos = _members_of(archive, os.path.getsize(path))
            header = _header_of(archive, infos.pop(_HEADER, None))
            manifest = _manifest_of(header, infos)
            arrays = {}
            if with_arrays:
                arrays = {
                    name: _array_of(archive, infos[f"{name}.npy"], *entry) for name, entry in manifest.items()
                }
            return header, arrays
    except (ArchiveError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except zipfile.BadZipFile as error:
        raise ArchiveError(f"{path} is not an ldmaps file, or is cut off ({error})") from error
    except _DAMAGE as error:
        raise ArchiveError(f"{path} is damaged ({type(error).__name__}: {error})") from error


def _members_of(archive: zipfile.ZipFile, n_bytes: int) -> dict[str, zipfile.ZipInfo]:
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename in infos:
            raise ArchiveError(f"{archive.filename} is damaged: it holds {info.filename!r} twice")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ArchiveError(f"{archive.filename} is not an ldmaps file: its members are compressed")
        infos[info.filename] = info
    if sum(info.file_size for info in infos.values()) > n_bytes:
        raise ArchiveError(f"{archive.filename} is damaged: its members are longer than the file")
    return infos


def _header_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo | None) -> dict[str, Any]:
    if info is None:
        raise ArchiveError(f"{archive.filename} is a zip file but not an ldmaps file: it has no {_HEADER}")
    if info.file_size > MAX_HEADER_BYTES:
        raise ArchiveError(
            f"{archive.filename} is damaged: its header of {info.file_size} bytes is longer than "
            f"{MAX_HEADER_BYTES}"
        )
    text = archive.read(info)
    n_lists, n_values = text.count(b"[") + text.count(b"{"), text.count(b",")
    if LIST_BYTES * n_lists + VALUE_BYTES * n_values > MOST_PER_BYTE * len(text) + FREE_BYTES:
        raise ArchiveError(
            f"{archive.filename} is damaged: its header of {len(text)} bytes holds {n_lists} lists and {n_values} "
            "values, more than any that ldmaps writes"
        )
    header = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(header, dict):
        raise ArchiveError(f"{archive.filename} is not an ldmaps file: its header is {type(header).__name__}")
    return header


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _manifest_of(
    header: dict[str, Any], infos: Mapping[str, zipfile.ZipInfo]
) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Take the manifest out of the header and hold it against the members."""
    entries = header.pop(_MANIFEST, None)
    if not isinstance(entries, dict):
        raise ArchiveError("the file is damaged: its header lists no members")
    manifest = {}
    for name, entry in entries.items():
        if not (
            isinstance(entry, dict)
            and entry.get("dtype") in _DTYPES
            and _is_shape(entry.get("shape"))
            and isinstance(entry.get("sha256"), str)
        ):
            raise ArchiveError(f"the file is damaged: member {name!r} is described as {entry!r:.200}")
        manifest[name] = entry["dtype"], tuple(entry["shape"]), entry["sha256"]
    expected = {f"{name}.npy" for name in manifest}
    if expected != set(infos):
        odd = sorted(expected.symmetric_difference(infos))[:3]
        raise ArchiveError(
            f"the file is damaged: {', '.join(map(repr, odd))} is missing or does not belong to it"
        )
    return manifest


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= MAX_DIMENSIONS
        and all(type(size) is int and size >= 0 for size in shape)
    )


def _array_of(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, code: str, shape: tuple[int, ...], digest: str
) -> NDArray[Any]:
    start = _npy_start(code, shape)
    dtype = np.dtype(code)
    if info.file_size != len(start) + math.prod(shape) * dtype.itemsize:
        raise ArchiveError(f"the file is damaged: member {info.filename!r} is not as long as its shape says")
    content = archive.read(info)
    if hashlib.sha256(content).hexdigest() != digest or not content.startswith(start):
        raise ArchiveError(f"the file is damaged: member {info.filename!r} was changed")
    values = np.frombuffer(content, dtype, offset=len(start)).reshape(shape)
    return values.astype(dtype.newbyteorder("="))
