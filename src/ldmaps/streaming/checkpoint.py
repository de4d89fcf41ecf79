"""The checkpoint file: how far a stream is safe.

Outputs are synced first, then the checkpoint is written. So after a crash outputs may be longer than their marks,
never shorter; a restart truncates them and continues from the position: no record is lost or repeated.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from typing import Any, Self

from ldmaps import door
from ldmaps._version import __version__
from ldmaps.errors import CheckpointError
from ldmaps.files import lock, read_whole, sync_folder, written_whole

FORMAT_NAME = "ldmaps checkpoint"
FORMAT_VERSION = 1
_KEYS = {"model", "source", "position", "sinks", "tracker", "counts"}


class Checkpoint:
    """A checkpoint file; while it is open, a lock file beside it (``.lock``) keeps other processes out."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._lock_path = f"{self.path}.lock"
        self._lock: int | None = None

    def __enter__(self) -> Self:
        folder = os.path.dirname(self.path) or "."
        if not door.isdir(folder):
            raise CheckpointError(f"there is no directory {folder} for the checkpoint; create it first")
        if door.isdir(self.path):
            raise CheckpointError(f"the checkpoint {self.path} is a directory; name a file")
        self._lock = _locked(self._lock_path, self.path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            with suppress(OSError):  # a lock file that stays does no harm
                door.unlink(self._lock_path)  # before it is free, so that nobody's lock is removed
            door.close(self._lock)
            self._lock = None

    def read(self) -> dict[str, Any] | None:
        """Return what was written last, or None before the first time."""
        try:
            text = read_whole(self.path)
        except FileNotFoundError:
            return None
        # A process that was killed may not have come to this. Without it, outputs could survive a power failure that
        # the only checkpoint does not, and no run could go on with them.
        sync_folder(os.path.dirname(self.path) or ".")
        try:
            content = json.loads(text.decode("utf-8"), parse_int=_integer)
        except UnicodeDecodeError as error:
            raise damaged(self.path, "it is not text") from error
        except (ValueError, RecursionError) as error:
            raise damaged(self.path, f"it is not JSON: {error}") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT_NAME:
            raise CheckpointError(f"{self.path} is not an ldmaps checkpoint; name another file")
        if content.get("version") != FORMAT_VERSION:
            raise CheckpointError(
                f"{self.path} has checkpoint version {content.get('version')}, but ldmaps {__version__} reads "
                f"{FORMAT_VERSION}; resume with the version of ldmaps that wrote it"
            )
        if content.pop("checksum", None) != _checksum(content) or not content.keys() >= _KEYS:
            raise damaged(self.path, "its checksum does not match")
        return content

    def write(self, **content: Any) -> None:
        """Replace the checkpoint; after a crash either the old or the new one is there, whole."""
        document = {
            "format": FORMAT_NAME,
            "version": FORMAT_VERSION,
            "library_version": __version__,
            **content,
        }
        document["checksum"] = _checksum(document)
        try:
            with written_whole(self.path) as stream:
                stream.write(json.dumps(document, indent=1).encode())
        except OSError as error:
            raise CheckpointError(
                f"could not write the checkpoint {self.path} ({error.strerror or error}). The previous checkpoint is "
                "intact, or already replaced by a complete new one. Free disk space, or repair the disk, and run the "
                "same command again"
            ) from error


def damaged(path: str, how: str) -> CheckpointError:
    """Return the error of a checkpoint that does not hold what was written."""
    return CheckpointError(
        f"the checkpoint {path} is damaged ({how}); restore it, or start over with another checkpoint and another "
        "output"
    )


def _integer(digits: str) -> int:
    if len(digits) > 18:  # what arrays cannot hold
        raise ValueError(f"{digits[:40]} is larger than any count")
    return int(digits)


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _locked(path: str, owner: str) -> int:
    """Return a descriptor of a lock file that no other process holds."""
    while True:
        descriptor = door.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not lock(descriptor, path):
                raise CheckpointError(
                    f"another process is using the checkpoint {owner}; wait for it to end, or name another checkpoint"
                )
            try:
                same = os.path.samestat(door.fstat(descriptor), door.stat(path))
            except FileNotFoundError:
                same = False
            if same:
                return descriptor
        except BaseException:
            door.close(descriptor)
            raise
        door.close(descriptor)  # its owner ended and removed it just now
