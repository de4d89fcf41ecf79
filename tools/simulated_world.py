"""A simulated disk, clock, pipe, writer and Redis server behind :mod:`ldmaps.door`, for ``tools/simulate.py``.

The disk keeps apart what was written and what is safe. Every call through the door is a step; a fault is due at a step
and happens at the first call from there on that it fits. After a crash every call raises, so that nothing that
Python does on its way out (``finally``) happens: a killed process does nothing either.
"""

# ruff: noqa: D102 - most methods are what the calls of the door and of Redis are called

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

from ldmaps import door

__all__ = ["Crash", "Fault", "Inode", "SimulatedRedis", "Terminated", "World"]


class Crash(BaseException):
    """The process is killed, or the power fails."""


class Terminated(BaseException):
    """What the handler of SIGTERM raises that was there before the stream."""


@dataclass(frozen=True)
class Fault:
    """What happens, and from which step of an attempt on."""

    step: int
    kind: str


@dataclass(eq=False)
class Inode:
    """A file: what processes see, what is safe, and the changes in between."""

    number: int
    data: bytearray = field(default_factory=bytearray)
    safe: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(
        default_factory=list
    )  # (place, bytes), (length, None) cuts
    changed: float = 0.0
    locked_by: int | None = None

    def apply(self, place: int, data: bytes | None) -> None:
        """Write bytes at a place, or cut the file there."""
        _change(self.data, place, data)
        self.pending.append((place, data))

    def sync(self) -> None:
        """Make all safe."""
        self.safe, self.pending = bytes(self.data), []

    def lose(self, rng: Random) -> None:
        """Keep any part of what is not safe, as a disk may that lost its power."""
        content = bytearray(self.safe)
        how = rng.random()
        kept = self.pending[: rng.randint(0, len(self.pending))] if how < 0.5 else self.pending
        for place, data in kept:
            if how < 0.75 or rng.random() < 0.5:
                torn = data is not None and rng.random() < 0.3
                _change(content, place, data[: rng.randint(0, len(data))] if torn and data else data)
        self.data = content
        self.sync()
        self.locked_by = None


def _change(content: bytearray, place: int, data: bytes | None) -> None:
    if data is None:
        del content[place:]
        content.extend(bytes(place - len(content)))
        return
    content.extend(bytes(max(0, place - len(content))))
    content[place : place + len(data)] = data


#: Which calls each kind of fault fits; all others fit any call.
_FITS = {
    "full disk": {"write", "open"},
    "bad write": {"write"},
    "bad sync": {"fsync"},
    "bad folder": {"fsync"},
    "bad read": {"read", "read_at"},
    "short write": {"write"},
    "short read": {"read", "read_at"},
    "no rename": {"replace"},
    "reset": {"read"},
    "server gone": {"redis"},
    "answer lost": {"redis"},
}


class World:
    """All of it, with the faults of one attempt at a time."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 1000.0
        self.steps = 0
        self.attempt = 0
        self.dead = False
        self.crashed_by = ""
        self.happened: list[str] = []
        self.faults: list[Fault] = []
        self.names: dict[str, Inode] = {}
        self.safe_names: dict[str, Inode] = {}
        self.renames: list[tuple[str, Inode | None]] = []  # entries of folders that are not safe yet
        self.folders: set[str] = set()
        self.redis = SimulatedRedis(self)
        self.writers: list[Callable[[], bool]] = []  # what others do meanwhile; False when done
        self.pipe: Inode | None = None
        #: Planted bugs: files and folders whose fsync does nothing, by what their name ends in.
        self.unsynced: tuple[str, ...] = ()
        self._open: dict[int, list[Any]] = {}  # descriptor: inode or folder, place, flags, name
        self._count = 0
        self._handlers: dict[int, Any] = {}

    # -- attempts -------------------------------------------------------------------------

    @contextmanager
    def process(self, faults: list[Fault]) -> Iterator[None]:
        """Put this world behind the door, for one process."""
        self.faults, self.steps, self.dead, self.crashed_by = (
            sorted(faults, key=lambda one: one.step),
            0,
            False,
            "",
        )
        self.attempt += 1
        self._open, self._handlers = {}, {}
        real = {name: getattr(door, name) for name in _DOOR}
        for name in _DOOR:
            setattr(door, name, getattr(self, name))
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(door, name, call)
            for inode in self.names.values():
                inode.locked_by = None
            if self.crashed_by == "power":
                self._lose_power()

    def _lose_power(self) -> None:
        names, how = dict(self.safe_names), self.rng.random()
        kept = self.renames[: self.rng.randint(0, len(self.renames))] if how < 0.6 else self.renames
        for name, inode in kept:
            if how < 0.6 or self.rng.random() < 0.5:
                if inode is None:
                    names.pop(name, None)
                else:
                    names[name] = inode
        self.names = names
        for inode in {id(one): one for one in names.values()}.values():
            inode.lose(self.rng)
        self.safe_names, self.renames = dict(names), []

    def put(self, name: str, data: bytes) -> Inode:
        """Make a file that is safe."""
        inode = self._new_inode()
        inode.data = bytearray(data)
        inode.sync()
        self.names[name] = self.safe_names[name] = inode
        return inode

    def _new_inode(self) -> Inode:
        self._count += 1
        return Inode(self._count, changed=self.now)

    # -- faults ---------------------------------------------------------------------------

    def _due(self, call: str) -> str:
        """Count a step; return the fault that happens now, if any, or raise if it ends the process."""
        if self.dead:
            raise Crash
        self.steps += 1
        self.now += 1e-4
        fault = self.faults[0] if self.faults else None
        if fault is None or fault.step > self.steps or call not in _FITS.get(fault.kind, {call}):
            return ""
        self.faults.pop(0)
        self.happened.append(f"{fault.kind} at step {self.steps} ({call}) of attempt {self.attempt}")
        if fault.kind == "clock":
            self.now += 10.0 ** self.rng.uniform(-2, 6)
        elif fault.kind == "SIGTERM":
            handler = self._handlers.get(15)
            if callable(handler):
                handler(15, None)
            else:
                raise Terminated
        elif fault.kind in ("kill", "power") and call not in ("write", "redis"):
            if self.rng.random() < 0.5:
                self._end(fault.kind)
            return fault.kind  # the call is carried out first
        return fault.kind

    def _end(self, kind: str) -> None:
        if kind in ("kill", "power"):
            self.dead, self.crashed_by = True, kind
            raise Crash

    def _fail(self, number: int) -> None:
        raise OSError(number, os.strerror(number))

    # -- the door: files ------------------------------------------------------------------

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        name = os.fspath(path)
        fault = self._due("open")
        if fault == "full disk" and flags & os.O_CREAT and name not in self.names:
            self._fail(errno.ENOSPC)
        if name in self.folders:
            found: Any = name
        elif name in self.names:
            if flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, "exists", name)
            found = self.names[name]
        elif flags & os.O_CREAT:
            found = self.names[name] = self._new_inode()
            self.renames.append((name, found))
        else:
            raise FileNotFoundError(errno.ENOENT, "not there", name)
        self._count += 1
        self._open[self._count] = [found, 0, flags, name]
        self._end(fault)
        return self._count

    def close(self, descriptor: int) -> None:
        fault = self._due("close")
        found = self._open.pop(descriptor)[0]
        if isinstance(found, Inode) and found.locked_by == descriptor:
            found.locked_by = None
        self._end(fault)

    def read(self, descriptor: int, count: int) -> bytes:
        if descriptor == 0:
            return self._read_pipe(count)
        fault, entry = self._due("read"), self._open[descriptor]
        data = self._slice(fault, entry[0], entry[1], count)
        entry[1] += len(data)
        self._end(fault)
        return data

    def read_at(self, descriptor: int, byte: int, count: int) -> bytes:
        fault = self._due("read_at")
        data = self._slice(fault, self._open[descriptor][0], byte, count)
        self._end(fault)
        return data

    def _slice(self, fault: str, inode: Inode, byte: int, count: int) -> bytes:
        if fault == "bad read":
            self._fail(errno.EIO)
        if fault == "short read" and count > 1:
            count = self.rng.randint(1, count - 1)
        return bytes(inode.data[byte : byte + count])

    def write(self, descriptor: int, data: Any) -> int:
        content, fault = bytes(data), self._due("write")
        inode, place, flags, _ = entry = self._open[descriptor]
        if fault in ("short write", "full disk", "bad write", "kill", "power"):
            content = content[: self.rng.randint(0, len(content))]
        if fault == "short write" and not content:
            content = bytes(data)[:1]
        if flags & os.O_APPEND:
            place = len(inode.data)
        if content:
            inode.apply(place, content)
            inode.changed = self.now
        entry[1] = place + len(content)
        if fault == "full disk":
            self._fail(errno.ENOSPC)
        if fault == "bad write":
            self._fail(errno.EIO)
        self._end(fault)
        return len(content)

    def fsync(self, descriptor: int) -> None:
        fault = self._due("fsync")
        found, _, _, name = self._open[descriptor]
        is_folder = not isinstance(found, Inode)
        if fault == "bad sync" and not is_folder:
            # As Linux does: what could not be written is given up, and no later fsync says so again.
            inode = found
            content = bytearray(inode.safe)
            for change in inode.pending[: self.rng.randint(0, len(inode.pending))]:
                _change(content, *change)
            inode.safe, inode.pending = bytes(content), []
            self._fail(errno.EIO)
        if fault == "bad folder" and is_folder:
            self._fail(errno.EIO)
        if not name.endswith(self.unsynced) or not self.unsynced:
            if is_folder:
                self._sync_folder(name)
            else:
                found.sync()
        self._end(fault)

    fdatasync = fsync

    def _sync_folder(self, folder: str) -> None:
        for name, inode in self.renames:
            if os.path.dirname(name) == folder:
                if inode is None:
                    self.safe_names.pop(name, None)
                else:
                    self.safe_names[name] = inode
        self.renames = [one for one in self.renames if os.path.dirname(one[0]) != folder]

    def send_to_disk(self, descriptor: int, begin: int, count: int) -> bool:
        return True

    def ftruncate(self, descriptor: int, length: int) -> None:
        fault = self._due("ftruncate")
        inode = self._open[descriptor][0]
        if length != len(inode.data):
            inode.apply(length, None)
        self._end(fault)

    def lseek(self, descriptor: int, offset: int, whence: int) -> int:
        entry = self._open[descriptor]
        base = {os.SEEK_SET: 0, os.SEEK_CUR: entry[1], os.SEEK_END: len(entry[0].data)}[whence]
        entry[1] = base + offset
        return int(entry[1])

    def replace(self, old: str, new: str) -> None:
        fault = self._due("replace")
        if fault == "no rename":
            self._fail(errno.EIO)
        inode = self.names.pop(old)
        self.names[new] = inode
        # The new name never goes without what it stands for; the old one may stay.
        self.renames += [(new, inode), (old, None)]
        self._end(fault)

    def unlink(self, path: str) -> None:
        fault = self._due("unlink")
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "not there", path)
        del self.names[path]
        self.renames.append((path, None))
        self._end(fault)

    def flock(self, descriptor: int, operation: int) -> None:
        inode = self._open[descriptor][0]
        if inode.locked_by not in (None, descriptor):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process has it")
        inode.locked_by = descriptor

    def fstat(self, descriptor: int) -> Any:
        return self._status(self._open[descriptor][0])

    def stat(self, path: Any) -> Any:
        name = os.fspath(path)
        if name not in self.names and name not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "not there", name)
        return self._status(self.names.get(name, name))

    def _status(self, found: Any) -> Any:
        if isinstance(found, Inode):
            return SimpleNamespace(
                st_ino=found.number,
                st_dev=1,
                st_size=len(found.data),
                st_mtime=found.changed,
                st_mode=modes.S_IFREG,
            )
        return SimpleNamespace(st_ino=hash(found), st_dev=1, st_size=0, st_mtime=0.0, st_mode=modes.S_IFDIR)

    def isdir(self, path: Any) -> bool:
        return os.fspath(path) in self.folders

    def exists(self, path: Any) -> bool:
        return self.isdir(path) or os.fspath(path) in self.names

    def access(self, path: Any, mode: int) -> bool:
        return True

    def listdir(self, path: Any) -> list[str]:
        self._due("listdir")
        return [os.path.basename(name) for name in self.names if os.path.dirname(name) == os.fspath(path)]

    # -- the door: time, signals, chance, pipe, server ------------------------------------

    def monotonic(self) -> float:
        return self.now

    def wall_clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self._due("sleep")
        self.wait(max(0.0, seconds))

    def wait(self, seconds: float) -> None:
        """Let time pass, in which others work; nobody waits for those who have done everything."""
        at_work = [work() for work in self.writers]
        self.now += seconds if any(at_work) else 1e9

    def getsignal(self, number: int) -> Any:
        return self._handlers.get(number, _terminate)

    def set_handler(self, number: int, handler: Any) -> None:
        self._handlers[number] = handler

    def token_hex(self, count: int) -> str:
        self._count += 1
        return f"{self._count:0{2 * count}x}"

    def randbits(self, count: int) -> int:
        return self.rng.getrandbits(count)

    def is_readable(self, descriptor: int, wait: float) -> bool:
        if self.pipe is None or len(self.pipe.data) > len(self.pipe.safe):
            return True
        self.sleep(max(0.0, wait))
        return len(self.pipe.data) > len(self.pipe.safe) or self.pipe.locked_by is not None

    def _read_pipe(self, count: int) -> bytes:
        """Read what was sent (``data``) beyond what was received (``safe``); ``locked_by`` says that it was closed."""
        fault = self._due("read")
        if fault == "reset":
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        assert self.pipe is not None
        data = bytes(self.pipe.data[len(self.pipe.safe) :])[: self.rng.randint(1, 40)]
        self.pipe.safe += data
        self._end(fault)
        return data

    def connect_redis(self, server: str, answer: float) -> Any:
        return self.redis


def _terminate(number: int, frame: Any) -> None:
    raise Terminated


_DOOR = [name for name, call in vars(door).items() if callable(call) and name.islower()]


class SimulatedRedis:
    """A Redis server with streams, and its client at once: the few commands that the package uses."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.streams: dict[str, list[tuple[bytes, dict[bytes, bytes]]]] = {}
        self.last: dict[str, str] = {}
        self.added: dict[str, int] = {}
        self.deleted: dict[str, bytes] = {}

    def remove(self, stream: str, rng: Random) -> bool:
        """Trim a stream, or delete an entry of it; say whether that took anything away."""
        entries = self.streams.get(stream, [])
        if rng.random() < 0.5:
            gone = len(entries) - rng.randint(0, 12)
            del entries[: max(0, gone)]
            return gone > 0
        if not entries:
            return False
        identifier, _ = entries.pop(rng.randrange(len(entries)))
        self.deleted[stream] = max(
            self.deleted.get(stream, b"0-0"), identifier, key=lambda one: _pair(one.decode())
        )
        return True

    def add(self, stream: str, identifier: str, fields: dict[bytes, bytes]) -> None:
        """Append an entry."""
        self.streams.setdefault(stream, []).append((identifier.encode(), fields))
        self.last[stream] = identifier
        self.added[stream] = self.added.get(stream, 0) + 1

    def _command(self, work: Callable[[], Any]) -> Any:
        import redis

        world = self._world
        fault = world._due("redis")
        gone = redis.exceptions.ConnectionError("the connection was closed")
        if fault == "server gone" or (fault in ("kill", "power") and world.rng.random() < 0.5):
            world._end(fault)
            raise gone
        result = work()
        world._end(fault)
        if fault == "answer lost":
            raise gone
        return result

    def ping(self) -> bool:
        return bool(self._command(lambda: True))

    def close(self) -> None:
        return None

    def exists(self, stream: str) -> bool:
        return bool(self._command(lambda: stream in self.last))

    def xinfo_stream(self, stream: str) -> dict[str, Any]:
        info: dict[str, Any] = self._command(lambda: self._info(stream))
        return info

    def _info(self, stream: str) -> dict[str, Any]:
        return {
            "length": len(self.streams.get(stream, ())),
            "last-generated-id": self.last[stream].encode(),
            "entries-added": self.added[stream],
            "max-deleted-entry-id": self.deleted.get(stream, b"0-0"),
        }

    def _after(self, streams: dict[str, str], count: int) -> list[Any]:
        ((stream, identifier),) = streams.items()
        found = [one for one in self.streams.get(stream, ()) if _pair(one[0].decode()) > _pair(identifier)]
        return [[stream.encode(), found[:count]]] if found else []

    def xread(self, streams: dict[str, str], count: int, block: int | None = None) -> list[Any]:
        def work() -> list[Any]:
            found = self._after(streams, count)
            if not found and block:
                self._world.wait(block / 1000)
                found = self._after(streams, count)
            return found

        answer: list[Any] = self._command(work)
        return answer

    def xrange(self, stream: str, first: str, last: str) -> list[Any]:
        def work() -> list[Any]:
            within = (_pair(first), _pair(last))
            return [
                one
                for one in self.streams.get(stream, ())
                if within[0] <= _pair(one[0].decode()) <= within[1]
            ]

        answer: list[Any] = self._command(work)
        return answer

    def pipeline(self, transaction: bool) -> _Transaction:
        return _Transaction(self)

    def register_script(self, text: str) -> Callable[..., Any]:
        return lambda keys, args: self._command(lambda: self._add_unless(keys[0], args))

    def _add_unless(self, stream: str, arguments: list[Any]) -> list[Any]:
        """Do what the script of RedisSink does."""
        run, added, _, *rest = arguments
        last = self.last.get(stream, "0-0")
        number, owner = _pair(last)
        if (number > 0 and owner != int(run)) or number < int(added):
            return [0, last.encode()]
        while rest:
            place, count = int(rest[0]), int(rest[1])
            pairs, rest = rest[2 : 2 + count], rest[2 + count :]
            if place > number:
                fields = {
                    str(key).encode(): str(value).encode()
                    for key, value in zip(pairs[::2], pairs[1::2], strict=True)
                }
                self.add(stream, f"{place}-{run}", fields)
        return [1, last.encode()]


class _Transaction:
    def __init__(self, server: SimulatedRedis) -> None:
        self._server = server
        self._work: list[Callable[[], Any]] = []

    def xread(self, streams: dict[str, str], count: int) -> None:
        self._work.append(lambda: self._server._after(streams, count))

    def xinfo_stream(self, stream: str) -> None:
        def info() -> Any:
            return self._server._info(stream) if stream in self._server.last else Exception("no such key")

        self._work.append(info)

    def execute(self, raise_on_error: bool) -> list[Any]:
        result: list[Any] = self._server._command(lambda: [work() for work in self._work])
        return result


def _pair(identifier: str) -> tuple[int, int]:
    first, _, second = identifier.partition("-")
    return int(first), int(second or 0)
