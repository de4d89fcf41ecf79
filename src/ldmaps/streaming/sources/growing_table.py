"""Tables that another process appends to: CSV and NDJSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ldmaps import door
from ldmaps.errors import InvalidInputError
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.decoders import open_decoder
from ldmaps.streaming.sources.decoding import Decoder, excerpt, form_of
from ldmaps.streaming.sources.growing_file import GrowingFile

__all__ = ["GrowingTable"]


class GrowingTable(Source):
    """Rows of a CSV or NDJSON file, as they are appended.

    Parameters
    ----------
    path : path
        Must exist, but may still be empty.
    model_facts : mapping, optional
        What the model knows of its points, as :func:`open_decoder` takes it.
    columns : sequence of str, optional
        Columns to use, in place of the model's.
    form : {"csv", "ndjson"}, optional
        By default the file's name decides, or else its first bytes.
    idle_end : float, optional
        Seconds without growth after which the file counts as finished; None follows
        it forever.

    Notes
    -----
    A line is read once its newline has arrived. When the file counts as finished, a line
    without one is rejected: its last number may be incomplete.
    """

    replayable: ClassVar[bool] = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        model_facts: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        form: str | None = None,
        idle_end: float | None = None,
    ) -> None:
        self.name = os.fspath(path)
        self.paths = (self.name,)
        self._form = form or form_of(self.name)
        if self._form == "npy":
            raise InvalidInputError(f"{self.name}: a growing table is CSV or NDJSON, not npy")
        self._model_facts, self._columns = model_facts, columns
        self._file = GrowingFile(self.name, idle_end)
        self._decoder: Decoder = self._new_decoder()
        self._at = 0  # the byte after the last line taken
        self._told_half = False

    def _new_decoder(self) -> Decoder:
        return open_decoder(self._form, self._model_facts, self._columns)

    def open(self, position: Position = None) -> None:
        """Open the file and go to a line."""
        self._decoder = self._new_decoder()
        self._at, self._told_half = 0, False
        if position is None:
            self._file.open()
            return
        self._at = int(position["offset"])
        self._file.open(self._at)
        self._file.check(self._at, position["mark"])
        self._decoder.restore(position)

    def poll(self, most: int, wait: float) -> Records | None:
        """Return lines that are there in whole."""
        deadline = door.monotonic() + wait
        while True:
            if self._decoder.ready:
                records = self._taken(most)
                if not records.empty:
                    return records
                continue  # a header or comments
            grown = self._file.read()
            if grown:
                self._decoder.feed(grown, door.monotonic())
            elif self._file.finished:
                return self._end()
            elif not self._file.pause(deadline):
                return self._taken(0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _taken(self, most: int, rejected: tuple[Rejected, ...] = ()) -> Records:
        records = self._decoder.take(most)
        records.rejected += rejected
        if records.position is not None:
            self._at = int(records.position["offset"])
            mark = {"mark": self._file.mark(self._at)}
            records.position = records.position | mark if self._at else None
        return records

    def _end(self) -> Records | None:
        """Report a line that was never finished, once, and end."""
        left = self._file.at(self._at, 200)
        if not left.strip() or self._told_half:
            return None
        self._told_half = True
        number = int((self._decoder.take(0).position or {}).get("number", 0))
        reason = "the line has no newline, although the file stopped growing; its last value may be cut off"
        return self._taken(0, (Rejected(number, reason, excerpt(left)),))
