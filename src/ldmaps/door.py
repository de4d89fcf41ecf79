"""The one door to the world: every call by which streams and files reach disks, clocks, signals, pipes and servers.

They are called as ``door.fsync(descriptor)`` and nowhere kept under another name, so that a simulated world can stand
in the place of the real one (``tools/simulate.py``). The real one only forwards.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import time
from collections.abc import Callable
from errno import EBADF, EINVAL, EISDIR, ENOLCK, ENOSYS, ENOTSUP, EOPNOTSUPP
from typing import Any

access, exists, isdir, listdir, stat = os.access, os.path.exists, os.path.isdir, os.listdir, os.stat
open, close, read, write, lseek = os.open, os.close, os.read, os.write, os.lseek
fstat, fsync, ftruncate, replace, unlink = os.fstat, os.fsync, os.ftruncate, os.replace, os.unlink
getsignal, set_handler = signal.getsignal, signal.signal
monotonic, sleep, wall_clock = time.monotonic, time.sleep, time.time
randbits, token_hex = secrets.randbits, secrets.token_hex

#: What file systems without locks answer to flock, and those that cannot sync a folder to fsync or open.
NO_LOCKS = frozenset({ENOSYS, ENOTSUP, EOPNOTSUPP, ENOLCK})
NO_SYNC = frozenset({EINVAL, ENOSYS, ENOTSUP, EOPNOTSUPP, EBADF, EISDIR})

fdatasync = getattr(os, "fdatasync", fsync)
flock: Callable[[int, int], None] | None
try:
    import fcntl
except ImportError:  # Windows has no such locks
    flock = None
else:
    flock, LOCK = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB


def read_at(descriptor: int, byte: int, count: int) -> bytes:
    """Return up to ``count`` bytes from a place in a file; where it is read on stays where it was."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, byte)
    here = lseek(descriptor, 0, os.SEEK_CUR)
    lseek(descriptor, byte, os.SEEK_SET)
    data = read(descriptor, count)
    lseek(descriptor, here, os.SEEK_SET)
    return data


def send_to_disk(descriptor: int, begin: int, count: int) -> bool:
    """Let the disk begin to write a part of a file, without waiting for it; say whether the system can."""
    if not hasattr(os, "posix_fadvise"):
        return False
    # Linux begins to write what it is told that nobody needs.
    os.posix_fadvise(descriptor, begin, count, os.POSIX_FADV_DONTNEED)
    return True


def is_readable(descriptor: int, wait: float) -> bool:
    """Return whether a pipe has something to read, or has ended, within so many seconds."""
    if not hasattr(select, "poll"):
        return True  # Windows: a read waits for as long as it takes
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(max(0.0, wait) * 1000))


def connect_redis(server: str, answer: float) -> Any:
    """Return a client of a Redis server, which gives up after so many seconds without an answer."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis.from_url(
        server, protocol=2, socket_timeout=answer, socket_connect_timeout=answer, retry=Retry(NoBackoff(), 0)
    )
