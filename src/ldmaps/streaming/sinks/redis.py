"""Embedded records to a Redis stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ldmaps import door
from ldmaps.errors import InvalidInputError, SinkError
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.redis_connection import RedisConnection
from ldmaps.streaming.sinks.base import Sink

#: Adds entries unless the stream's last identifier proves that it is not, or no longer, ours. On the server, since
#: nobody may come between looking and adding. ARGV: run, number of entries added before, MAXLEN (empty for none),
#: then for every entry its number, how many arguments follow, and those. Returns whether it is ours, and the
#: identifier that was the last one before.
_ADD = """
local last = '0-0'
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
  end
end
local number, run = string.match(last, '^(%d+)-(%d+)$')
number = tonumber(number)
if (number > 0 and run ~= ARGV[1]) or number < tonumber(ARGV[2]) then return {0, last} end
local at = 4
while at <= #ARGV do
  local count = tonumber(ARGV[at + 1])
  if tonumber(ARGV[at]) > number then  -- otherwise it was added before
    local command = {'XADD', KEYS[1]}
    if ARGV[3] ~= '' then
      for _, word in ipairs({'MAXLEN', '~', ARGV[3]}) do command[#command + 1] = word end
    end
    command[#command + 1] = ARGV[at] .. '-' .. ARGV[1]
    for i = at + 2, at + 1 + count do command[#command + 1] = ARGV[i] end
    redis.call(unpack(command))
  end
  at = at + 2 + count
end
return {1, last}
"""


class RedisSink(Sink):
    """Adds an entry for every embedded record, to a stream of its own.

    Parameters
    ----------
    url : str
        ``redis://host:port/database/stream``, or without the database if it is 0. The
        stream must be new, or be one that is continued from a checkpoint.
    maxlen : int or None
        About how many entries to keep (MAXLEN ~); None keeps all.
    regions : sequence of str
        Names of the tracker's regions, in its order; without them there is no field ``region``.
    give_up_after : float
        Seconds to try for when the connection breaks.

    Notes
    -----
    Record n has the identifier ``(n+1)-run``, where ``run`` is a random number that a stream keeps over restarts
    (``XRANGE stream n+1 n+1`` finds the entry without it). So records that are repeated after a restart, or
    after a lost answer, are not added twice. A stream whose last identifier is of another run, or below what was
    added before, is a SinkError: another writer, a stream that was deleted, a server that came back without
    its data. Records that could not be read have no entry.

    The fields are ``number``, ``time`` (if known), ``psi`` (a JSON list), ``distance``, ``inside`` (0 or 1),
    ``nearest``, ``region`` (its name, empty outside all of them) and ``events`` (a JSON list, if there are any).
    """

    durable = True

    def __init__(
        self,
        url: str,
        *,
        maxlen: int | None = 1_000_000,
        regions: Sequence[str] = (),
        give_up_after: float = 30.0,
    ) -> None:
        if maxlen is not None and maxlen < 1:
            raise InvalidInputError(f"maxlen must be at least 1, or None to keep all, got {maxlen!r}")
        self._connection = RedisConnection(url, give_up_after, SinkError)
        self.name = self._connection.name
        self._maxlen = maxlen
        self._regions = tuple(regions)
        self._run = door.randbits(48) + 1
        self._added = 0  # first half of the last identifier that the server is known to have
        self._opened = False

    def write(self, embedded: Embedded) -> None:
        """Add entries; returns when the server has them."""
        if not len(embedded):
            return
        self._add(_fields(embedded, self._regions))
        self._added = int(embedded.numbers[-1]) + 1

    def check(self, mark: Any = None) -> None:
        """Raise if the stream is not new, or not the one of the mark."""
        if mark is not None:
            self._run, self._added = int(mark["run"]), int(mark["added"])
        self._add([])

    def flush(self) -> Any:
        """Make sure that the stream is ours; return the run and how far the server has it."""
        self._add([])
        return {"run": self._run, "added": self._added}

    rewind = check  # what an earlier run added after the mark is not added twice

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def _add(self, rows: list[dict[str, Any]]) -> None:
        if not self._opened:
            self._connection.open()
            self._opened = True
        arguments: list[Any] = [self._run, self._added, self._maxlen or ""]
        for row in rows:
            arguments += row["number"] + 1, 2 * len(row)  # 0-0 is not allowed
            for pair in row.items():
                arguments += pair
        keys = [self._connection.stream]
        while True:
            done, answer = self._connection.attempt(
                lambda client: client.register_script(_ADD)(keys=keys, args=arguments)
            )
            if done:
                break
            self._connection.wait(np.inf)
        if not answer[0]:
            raise self._refusal(answer[1].decode())

    def _refusal(self, last: str) -> SinkError:
        number, run = map(int, last.split("-"))
        if number and run != self._run:
            return SinkError(
                f"{self.name} has entries of another writer (the last one is {last}), so that results cannot be "
                f"added; name another stream, delete this one first (redis-cli DEL {self._connection.stream}), or "
                "resume with its checkpoint"
            )
        kept = f"only those up to {number - 1} are" if number else "none is"
        return SinkError(
            f"{self.name} has lost results: those up to record {self._added - 1} were added, but {kept} known to the "
            "server (deleted, or lost by a server that does not save them?); start over with another checkpoint and "
            "another stream"
        )


def _fields(embedded: Embedded, names: tuple[str, ...]) -> list[dict[str, Any]]:
    events: dict[int, list[dict[str, Any]]] = {}
    for event in embedded.events:
        events.setdefault(event.number, []).append(
            {"kind": event.kind, "region": event.region, "duration": event.duration}
        )
    times = np.full(len(embedded), np.nan) if embedded.times is None else embedded.times
    coverage, regions = embedded.coverage, embedded.regions
    columns = (embedded.numbers, times, embedded.coordinates, *coverage[:3], regions)
    rows = []
    for values in zip(*(column.tolist() for column in columns), strict=True):
        number, time, psi, distance, inside, nearest, region = values
        row: dict[str, Any] = {"number": number}
        if not np.isnan(time):
            row["time"] = time
        row |= {"psi": json.dumps(psi), "distance": distance, "inside": int(inside), "nearest": nearest}
        if names:
            row["region"] = names[region] if region >= 0 else ""
        if number in events:
            row["events"] = json.dumps(events[number])
        rows.append(row)
    return rows
