"""Records from a Redis stream, whose entries are a record each."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldmaps import door
from ldmaps.errors import InvalidInputError, LdmapsWarning, SourceError
from ldmaps.inputs.column_roles import is_missing
from ldmaps.inputs.text_table import UnreadableError
from ldmaps.settings import check_seconds
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.streaming.redis_connection import RedisConnection
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.decoding import TROUBLE, JsonParser
from ldmaps.user_warnings import warn

#: Identifier and fields.
Entry = tuple[bytes, dict[bytes, bytes]]

_DTYPES = {name: np.dtype(code) for code in ("<f4", "<f8") for name in (code, np.dtype(code).name)}


# XADD frames * x [0.1,0.2,0.3] time 12.5
# XADD frames * x <bytes> dtype float32
# XADD frames * pressure 1.2 temperature 290.5
class _EntryParser(JsonParser):
    """Reads the fields of an entry, each a text or the bytes of an array, as those of an object."""

    def entry(self, fields: Mapping[bytes, bytes]) -> tuple[NDArray[Any], float]:
        """Return the point of an entry and its time, NaN without one, or raise :class:`UnreadableError`."""
        has_x = b"x" in fields and "x" not in (self.names or ())
        read: dict[str, Any] = {"x": _array(fields)} if has_x else {}
        for name in () if has_x else self.names or ():
            if name.encode() in fields:
                read[name] = _number(name, fields[name.encode()])
        if (time := fields.get(self.time.encode())) is not None:
            read.setdefault(self.time, time.decode(errors="replace"))
        point, moment = self.record(read)
        return np.asarray(point), np.nan if moment is None else moment


class RedisSource(Source):
    """Entries of a Redis stream, from its first one or from a position on.

    Parameters
    ----------
    url : str
        ``redis://host:port/database/stream``, or without the database if it is 0.
    model_facts : mapping, optional
        What the model knows of its points: names of the columns, how many numbers.
    columns : sequence of str, optional
        Fields to use, in place of the model's columns.
    start : {"first", "new"}
        Where to begin without a position: with the oldest entry that is still there, or with what comes now.
    gaps : {"raise", "warn"}
        What to do when entries were removed (trimmed, deleted) before they were read.
        "warn" goes on; the records' numbers have a gap then.
    idle_end : float, optional
        Seconds without an entry after which the stream counts as ended; None follows it forever.
    give_up_after : float
        Seconds to try for when the connection breaks.

    Notes
    -----
    Removed entries are noticed by the server's count of all entries ever added,
    which it keeps from Redis 7 on; older servers are read without that check.
    """

    replayable: ClassVar[bool] = True

    def __init__(
        self,
        url: str,
        *,
        model_facts: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        start: str = "first",
        gaps: str = "raise",
        idle_end: float | None = None,
        give_up_after: float = 30.0,
    ) -> None:
        for name, value, allowed in (("start", start, ("first", "new")), ("gaps", gaps, ("raise", "warn"))):
            if value not in allowed:
                raise InvalidInputError(f'{name} must be "{allowed[0]}" or "{allowed[1]}", got {value!r}')
        check_seconds("idle_end", idle_end)
        self._connection = RedisConnection(url, give_up_after, SourceError)
        self.name = self._connection.name
        self._parser = _EntryParser(model_facts or {}, columns)
        self._start, self._gaps, self._idle_end = start, gaps, idle_end
        self._id = "0-0"
        self._number = 0
        self._entry = 0  # how many entries the stream had ever had up to self._id
        self._deleted: str | None = None  # the last entry known to be deleted before its turn
        self._mark = 0  # checksum of the entry self._id
        self._came = 0.0

    def open(self, position: Position = None) -> None:
        """Connect and go to an entry."""
        self._connection.open()
        self._came = door.monotonic()
        stream = self._connection.stream
        info = self._reached(lambda client: client.xinfo_stream(stream) if client.exists(stream) else None)
        if position is not None:
            self._id, self._number = str(position["id"]), int(position["number"])
            self._entry, self._mark = int(position["entry"]), int(position.get("mark", 0))
            self._deleted = position.get("deleted")
            self._check_same_stream(info)
            self._check_same_entry()
        elif info is not None:
            self._deleted = _deleted(info)
            if self._start == "new":
                self._id, self._entry = _text(info["last-generated-id"]), _added(info)
            else:
                self._entry = _added(info) - int(info["length"])

    def poll(self, most: int, wait: float) -> Records | None:
        """Return the entries that have been added."""
        deadline = door.monotonic() + wait
        while True:
            entries = self._next(most)
            if entries:
                return self._records(entries)
            # Only a server that answers can say that there is nothing more.
            is_idle = self._idle_end is not None and door.monotonic() - self._came >= self._idle_end
            if entries is not None and is_idle:
                return None
            left = deadline - door.monotonic()
            if left <= 0:
                return self._records([])
            self._wait_for_entry(left if self._idle_end is None else min(left, self._idle_end))

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def _next(self, most: int) -> list[Entry] | None:
        """Read entries, and in the same transaction what the server has counted; None without a connection."""
        stream = self._connection.stream

        def read(client: Any) -> tuple[list[Entry], dict[str, Any] | None]:
            transaction = client.pipeline(transaction=True)
            transaction.xread({stream: self._id}, count=most)
            transaction.xinfo_stream(stream)
            answer, info = transaction.execute(raise_on_error=False)
            if isinstance(answer, Exception):
                raise answer
            if isinstance(info, Exception):
                if "no such key" not in str(info):
                    raise info
                info = None
            return (answer[0][1] if answer else []), info

        done, result = self._connection.attempt(read)
        if not done:
            return None
        entries, info = result
        self._check_same_stream(info)
        if info is not None and "entries-added" in info:
            self._check_gap(entries, info)
        if entries:
            self._came = door.monotonic()
        return list(entries)

    def _wait_for_entry(self, longest: float) -> None:
        # BLOCK 0 would wait forever. What comes is read again by _next, with the server's counts.
        milliseconds = max(1, int(1000 * min(longest, 5.0)))
        done, _ = self._connection.attempt(
            lambda client: client.xread({self._connection.stream: self._id}, count=1, block=milliseconds)
        )
        if not done:
            self._connection.wait(longest)

    def _reached(self, work: Any) -> Any:
        done, result = self._connection.attempt(work)
        if not done:
            raise SourceError(f"{self.name} was reached, but the connection broke at once; try again")
        return result

    def _check_same_stream(self, info: dict[str, Any] | None) -> None:
        last = (0, 0) if info is None else _pair(_text(info["last-generated-id"]))
        added = (info or {}).get("entries-added", self._entry)
        if _pair(self._id) > last or int(added) < self._entry:
            raise SourceError(
                f"{self.name} is not the stream that was read up to {self._id}: "
                f"{'it is gone' if info is None else 'it ends before that'} (deleted, or lost by a server that does "
                "not save it?); start over without the checkpoint"
            )

    def _check_same_entry(self) -> None:
        """Compare the entry that was read last, if it is still there: another stream may have the same identifiers."""
        stream, last = self._connection.stream, self._id
        found = self._reached(lambda client: client.xrange(stream, last, last)) if self._mark else []
        if found and _checksum(found[0]) != self._mark:
            raise SourceError(
                f"{self.name} is not the stream that was read up to {last}: that entry is another one (deleted and "
                "made again?); start over without the checkpoint"
            )

    def _check_gap(self, entries: list[Entry], info: dict[str, Any]) -> None:
        """Compare how many entries were read with how many there ever were."""
        added, length = int(info["entries-added"]), int(info["length"])
        deleted = _deleted(info)
        is_new = self._deleted not in (None, deleted)
        if self._gaps == "raise" and deleted and is_new and _pair(deleted) > _pair(self._id):
            raise SourceError(
                f"{self.name}: entries after {self._id}, up to {deleted}, were removed before they were read (XDEL); "
                "let the producer keep them, or skip them with gaps='warn'"
            )
        self._deleted = deleted
        last = _text(entries[-1][0]) if entries else self._id
        if _pair(last) >= _pair(_text(info["last-generated-id"])):
            lost = added - self._entry - len(entries)  # all that is left was read
        else:
            lost = added - length - self._entry
        if lost <= 0:
            return
        text = f"{self.name}: {lost} entries after {self._id} were removed before they were read (XTRIM, MAXLEN, XDEL)"
        if self._gaps == "raise":
            raise SourceError(f"{text}; let the producer keep more of them, or skip them with gaps='warn'")
        warn(LdmapsWarning(f"{text}; continuing after the gap"))
        self._entry += lost
        self._number += lost

    def _records(self, entries: list[Entry]) -> Records:
        rows, times, kept, rejected = list[Any](), list[float](), list[int](), list[Rejected]()
        for number, (_, fields) in enumerate(entries, self._number):
            try:
                row, moment = self._parser.entry(fields)
            except UnreadableError as reason:
                rejected.append(Rejected(number, str(reason), _excerpt(fields)))
            else:
                rows.append(row)
                times.append(moment)
                kept.append(number)
        points = np.stack(rows) if rows else np.empty((0, self._parser.width or 0))
        moments = None if np.isnan(times).all() else np.asarray(times)
        numbers = np.asarray(kept, dtype=np.int64)
        self._number += len(entries)
        self._entry += len(entries)
        if entries:
            self._id, self._mark = _text(entries[-1][0]), _checksum(entries[-1])
        arrived = np.full(len(numbers), self._came)
        position = {"id": self._id, "number": self._number, "entry": self._entry}
        position |= {"deleted": self._deleted, "mark": self._mark}
        return Records(points, numbers, moments, arrived, tuple(rejected), position)


def _added(info: dict[str, Any]) -> int:
    return int(info.get("entries-added", info["length"]))


def _deleted(info: dict[str, Any]) -> str | None:
    """Return the last entry that XDEL ever removed; None from servers that do not say."""
    found = info.get("max-deleted-entry-id")
    return None if found is None else _text(found)


def _checksum(entry: Entry) -> int:
    identifier, fields = entry
    return zlib.crc32(repr((identifier, sorted(fields.items()))).encode()) or 1


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _pair(identifier: str) -> tuple[int, int]:
    first, _, second = identifier.partition("-")
    return int(first), int(second or 0)


def _array(fields: Mapping[bytes, bytes]) -> Any:
    """Return what the field x holds: a list of numbers as JSON, or an array as its bytes."""
    data = fields[b"x"]
    if b"dtype" in fields:
        name = fields[b"dtype"].decode(errors="replace")
        dtype = _DTYPES.get(name)
        if dtype is None:
            raise UnreadableError(f"the dtype {name[:40]!r} is neither float32 nor float64")
        if len(data) % dtype.itemsize:
            raise UnreadableError(f"{len(data)} bytes are not a whole number of {dtype.name}")
        return np.frombuffer(data, dtype)
    try:
        value = json.loads(data)
    except TROUBLE as error:
        raise UnreadableError(f"x is not JSON ({error}); raw bytes need a field dtype") from error
    if not isinstance(value, list):
        raise UnreadableError("x is not a list of numbers")
    return value


def _number(name: str, data: bytes) -> float:
    text = data[:40].decode(errors="replace")
    try:
        return math.nan if is_missing(text.strip()) else float(data)
    except ValueError as error:
        raise UnreadableError(f"{name}: {text!r} is not a number") from error


def _excerpt(fields: Mapping[bytes, bytes]) -> str:
    return " ".join(f"{name.decode(errors='replace')}={value[:80]!r}" for name, value in fields.items())[:200]
