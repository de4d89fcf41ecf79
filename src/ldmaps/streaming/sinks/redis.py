"""Embedded records to a Redis stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ldmaps.errors import InvalidInputError, SinkError
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.redis_connection import RedisConnection
from ldmaps.streaming.sinks.base import Sink

__all__ = ["RedisSink"]

_REPEATED = "equal or smaller"  # the server's words for an identifier that was used already
#: Two embeddings of one record may differ by rounding, by no more than this.
_SAME = 1e-3


class RedisSink(Sink):
    """Adds an entry for every embedded record.

    Parameters
    ----------
    url : str
        ``redis://host:port/database/stream``, or without the database if it is 0.
    maxlen : int or None
        About how many entries to keep (MAXLEN ~); None keeps all.
    regions : sequence of str
        Names of the tracker's regions, in its order; without them there is no field ``region``.
    give_up_after : float
        Seconds to try for when the connection breaks.

    Notes
    -----
    Record n has the identifier ``(n+1)-0``. The server refuses an identifier that is
    not above the last one, so records that are told again after a restart, or after
    a lost answer, are not added twice. Records that could not be read have no entry.

    The fields are ``number``, ``time`` (if known), ``psi`` (a JSON list), ``distance``,
    ``inside`` (0 or 1), ``nearest``, ``region`` (its name, empty outside all of them) and
    ``events`` (a JSON list, if there are any).
    """

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
        self._opened = False

    def write(self, embedded: Embedded) -> None:
        """Add entries; returns when the server has them."""
        if not len(embedded):
            return
        if not self._opened:
            self._connection.open()
            self._opened = True
            self._run(lambda client: self._check_same_run(client, embedded))
        rows = _fields(embedded, self._regions)
        self._run(lambda client: self._add(client, rows))

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def _run(self, work: Any) -> None:
        while not self._connection.attempt(work)[0]:
            self._connection.wait(np.inf)

    def _add(self, client: Any, rows: list[dict[str, Any]]) -> None:
        pipeline = client.pipeline(transaction=False)
        for row in rows:
            pipeline.xadd(self._connection.stream, row, id=_identifier(row["number"]), maxlen=self._maxlen)
        for answer in pipeline.execute(raise_on_error=False):
            if isinstance(answer, Exception) and _REPEATED not in str(answer):
                raise answer

    def _check_same_run(self, client: Any, embedded: Embedded) -> None:
        """Raise when the stream holds other results: the new ones would all be taken for repetitions."""
        stream, identifier = self._connection.stream, _identifier(int(embedded.numbers[0]))
        entries = client.xrange(stream, identifier, identifier)
        if not entries:
            return
        mine = np.asarray(embedded.coordinates[0], dtype=np.float64)
        try:
            other = np.asarray(json.loads(entries[0][1][b"psi"]), dtype=np.float64)
            same = other.shape == mine.shape and np.allclose(mine, other, rtol=_SAME, atol=_SAME)
        except (KeyError, ValueError):
            same = False
        if not same:
            raise SinkError(
                f"{self.name} holds results of another run (entry {identifier} differs); name another stream, or "
                f"delete this one first (redis-cli DEL {stream})"
            )


def _identifier(number: int) -> str:
    return f"{number + 1}-0"  # 0-0 is not allowed


def _fields(embedded: Embedded, names: tuple[str, ...]) -> list[dict[str, Any]]:
    events: dict[int, list[dict[str, Any]]] = {}
    for event in embedded.events:
        events.setdefault(event.number, []).append(
            {"kind": event.kind, "region": event.region, "duration": event.duration}
        )
    times = None if embedded.times is None else embedded.times.tolist()
    columns = zip(
        embedded.numbers.tolist(),
        embedded.coordinates.tolist(),
        embedded.coverage.distance.tolist(),
        embedded.coverage.inside.tolist(),
        embedded.coverage.nearest.tolist(),
        embedded.regions.tolist(),
        strict=True,
    )
    rows = []
    for place, (number, psi, distance, inside, nearest, region) in enumerate(columns):
        row: dict[str, Any] = {"number": number}
        if times is not None and not np.isnan(times[place]):
            row["time"] = times[place]
        row |= {"psi": json.dumps(psi), "distance": distance, "inside": int(inside), "nearest": nearest}
        if names:
            row["region"] = names[region] if region >= 0 else ""
        if number in events:
            row["events"] = json.dumps(events[number])
        rows.append(row)
    return rows
