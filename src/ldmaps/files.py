"""Writing files whole or not at all, and bytes to stdout."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["lock", "sync_folder", "to_stdout", "written_whole"]

#: Seconds after which a temporary file that nobody has locked was left behind by a process that is gone.
_LEFT_BEHIND = 60.0
#: Bytes after which a file that grows is sent to the disk, and after which it is waited for.
_SENT_BYTES, _SETTLED_BYTES = 4 << 20, 64 << 20


class _Settling(io.FileIO):
    """A file that is brought to the disk as it grows, so that the end of a long one is no long wait."""

    _written = _sent = _settled = 0

    def write(self, data: Any) -> int:
        """Write, and every so often let the disk begin, or wait for it."""
        count = super().write(data)
        self._written += count
        unsent = self._written - self._sent
        if self._written - self._settled >= _SETTLED_BYTES:
            getattr(os, "fdatasync", os.fsync)(self.fileno())
            self._sent = self._settled = self._written
        elif unsent >= _SENT_BYTES and hasattr(os, "posix_fadvise"):
            # Linux begins to write what it is told that nobody needs. To wait each time would leave processors idle.
            os.posix_fadvise(self.fileno(), self._sent, unsent, os.POSIX_FADV_DONTNEED)
            self._sent = self._written
        return count


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file next to ``path`` and rename it to ``path`` when the block ends without an error.

    Whatever stood at ``path`` stays untouched until then, and stays for good if
    the block raises. The temporary file is ``.NAME.XXXXXXXX.part``. A process that
    is killed leaves it behind, and one that writes to ``path`` a minute later removes it.
    """
    target = Path(path)
    _remove_left_behind(target)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with io.BufferedWriter(_Settling(handle, "wb")) as stream:
            with suppress(OSError):  # file systems without locks keep what killed processes leave
                lock(handle)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes private files; the result gets the permissions any new file would have.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
        sync_folder(target.parent)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make a new name survive a power failure, where folders can be synchronised."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def to_stdout(data: bytes) -> None:
    """Write bytes to stdout, which may take text alone (a notebook's, a test's)."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(data.decode())
    else:
        buffer.write(data)


def _remove_left_behind(target: Path) -> None:
    """Remove temporary files for ``target`` that no living process is writing."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.part")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and time.time() - entry.stat().st_mtime > _LEFT_BEHIND:
                with suppress(OSError), open(entry.path, "rb") as stream:
                    if lock(stream.fileno(), otherwise=False):
                        os.unlink(entry.path)


def lock(descriptor: int, *, otherwise: bool = True) -> bool:
    """Lock an open file against other processes until it is closed; say whether that worked.

    Where the system has no such locks, the answer is ``otherwise``.
    """
    try:
        import fcntl
    except ImportError:
        return otherwise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
