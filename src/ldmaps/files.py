"""Writing files whole or not at all, and bytes to stdout."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from stat import S_ISREG
from typing import Any, BinaryIO

from ldmaps import door
from ldmaps.errors import InvalidInputError, LdmapsWarning
from ldmaps.user_warnings import warn

#: Seconds after which a temporary file that nobody has locked was left behind by a process that is gone.
_LEFT_BEHIND = 60.0
#: Bytes after which a file that grows is sent to the disk, and after which it is waited for.
_SENT_BYTES, _SETTLED_BYTES = 4 << 20, 64 << 20
#: What the system says where a disk, a quota or a file can take no more.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class _Settling(io.RawIOBase):
    """A file that is brought to the disk as it grows, so that the end of a long one is no long wait."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._written = self._sent = self._settled = 0

    def write(self, data: Any) -> int:
        """Write, and every so often let the disk begin, or wait for it."""
        count = door.write(self._descriptor, data)
        self._written += count
        unsent = self._written - self._sent
        if self._written - self._settled >= _SETTLED_BYTES:
            door.fdatasync(self._descriptor)
            self._sent = self._settled = self._written
        # To wait each time would leave processors idle.
        elif unsent >= _SENT_BYTES and door.send_to_disk(self._descriptor, self._sent, unsent):
            self._sent = self._written
        return count

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def seekable(self) -> bool:
        """Say that one may go to another place."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        return door.lseek(self._descriptor, offset, whence)

    def truncate(self, size: int | None = None) -> int:
        """Cut the file, by default where it is."""
        end = self.tell() if size is None else size
        door.ftruncate(self._descriptor, end)
        return end

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            super().close()
            door.close(self._descriptor)


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file next to ``path`` and rename it to ``path`` when the block ends without an error."""
    # Whatever stood at ``path`` stays untouched until then, and stays for good if the block raises. The
    # temporary file is ``.NAME.XXXXXXXX.part``. A process that is killed leaves it behind, and one that
    # writes to ``path`` a minute later removes it.
    target = os.fspath(path)
    folder, base = os.path.split(target)
    _remove_left_behind(folder or ".", base)
    name = _new_name(folder, base)
    is_named = False
    try:
        # In here, so that a signal right after it leaves nothing behind.
        descriptor = door.open(name, _NEW, 0o666)
        with io.BufferedWriter(_Settling(descriptor)) as stream:
            with suppress(OSError):  # file systems without locks keep what killed processes leave
                _lock(descriptor)
            yield stream
            stream.flush()
            door.fsync(descriptor)
        door.replace(name, target)
        is_named = True
        sync_folder(folder or ".")
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            error.filename = target  # which a full disk does not say
        if not is_named:
            with suppress(OSError):  # the first error is the one to be told
                door.unlink(name)
        raise


@contextmanager
def temporary_beside(path: str | os.PathLike[str]) -> Iterator[str]:
    """Make an empty file next to ``path`` for a writer that wants a name; it is removed when the block ends."""
    # Named like those of written_whole, so that what a killed process leaves is removed by a later one.
    folder, base = os.path.split(os.fspath(path))
    name, descriptor = _new_name(folder, base), -1
    try:
        descriptor = door.open(name, _NEW, 0o666)
        with suppress(OSError):
            _lock(descriptor)
        yield name
    finally:
        if descriptor >= 0:
            door.close(descriptor)
        with suppress(OSError):
            door.unlink(name)


def _new_name(folder: str, base: str) -> str:
    """Return the name of a temporary file that is not there yet."""
    while True:
        name = os.path.join(folder, f".{base}.{door.token_hex(4)}.part")
        if not door.exists(name):
            return name


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Return all bytes of a file."""
    descriptor = door.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return b"".join(iter(lambda: door.read(descriptor, 1 << 20), b""))
    finally:
        door.close(descriptor)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make a new name survive a power failure, where folders can be synchronised."""
    try:
        descriptor = door.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that may be written to but not read, or Windows
        return
    try:
        door.fsync(descriptor)
    except OSError as error:
        if error.errno not in door.NO_SYNC:
            raise
    finally:
        door.close(descriptor)


def check_distinct(read: Iterable[str | int], written: Iterable[str]) -> None:
    """Raise if a file that is to be written is read as well, or written twice, under whatever names."""
    seen: dict[object, str | int] = {}
    for name in read:
        seen.setdefault(_identity(name), name)
    for name in written:
        one = _identity(name)
        other = seen.setdefault(one, name) if one is not None else name
        if other is not name:
            how = f"{name} is named twice" if other == name else f"{name} and {other} are the same file"
            raise InvalidInputError(f"{how}; inputs, outputs and the checkpoint must be different files")


def _identity(name: str | int) -> object:
    """Return what two names of one file share; None for what is no file on a disk, such as /dev/null."""
    try:
        status = door.stat(name)
    except OSError:
        return os.path.abspath(name) if isinstance(name, str) else None
    return (status.st_dev, status.st_ino) if S_ISREG(status.st_mode) else None


def shown_name(path: str) -> str:
    r"""Return a file's name as text that can be stored; bytes that are not UTF-8 become escapes, such as ``\\xff``."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def to_stdout(data: bytes) -> None:
    """Write bytes to stdout, which may take text alone (a notebook's, a test's)."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(data.decode())
    else:
        buffer.write(data)


def _remove_left_behind(folder: str, base: str) -> None:
    """Remove temporary files for a file that no living process is writing."""
    name = re.compile(rf"\.{re.escape(base)}\.[a-z0-9_]{{8}}\.part")
    with suppress(OSError):
        for entry in filter(name.fullmatch, door.listdir(folder)):
            path = os.path.join(folder, entry)
            if door.wall_clock() - door.stat(path).st_mtime <= _LEFT_BEHIND:
                continue
            with suppress(OSError):
                descriptor = door.open(path, os.O_RDONLY)
                try:
                    if _lock(descriptor):
                        door.unlink(path)
                finally:
                    door.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Lock an open file against other processes until it is closed; False if one has it, None without such locks."""
    if door.flock is None:
        return None
    try:
        door.flock(descriptor, door.LOCK)
    except BlockingIOError:
        return False
    return True


def lock(descriptor: int, path: str) -> bool:
    """Lock an open file against other processes until it is closed; say whether no other process has it."""
    # Where the system or the file system has no such locks, nobody can know: it warns, and the answer is yes.
    try:
        return _lock(descriptor) is not False
    except OSError as error:
        if error.errno not in door.NO_LOCKS:
            raise
    warn(
        LdmapsWarning(
            f"{path}: this file system has no locks, so that a second process that writes there is not noticed; "
            "make sure that there is none"
        )
    )
    return True
