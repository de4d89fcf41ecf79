"""Tables as sources, whichever way their bytes come: through a pipe, from a file, from a file that grows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ldmaps import door
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import table_streams
from ldmaps.inputs.text_table import BOM
from ldmaps.streaming.records import Position, Records, Rejected
from ldmaps.streaming.sources.base import Source
from ldmaps.streaming.sources.decoding import CsvParser, Decoder, JsonParser, LineDecoder, excerpt, form_of
from ldmaps.streaming.sources.decoding_npy import NpyDecoder
from ldmaps.streaming.sources.growing_file import GrowingFile

#: Bytes to read at once.
READ_BYTES = 1 << 18
#: Bytes that one poll reads at most beyond the first record.
POLL_BYTES = 4 << 20


class FileSource(Source):
    """Records of a file that is complete: a path, or a descriptor, which is read from where it stands."""

    replayable: ClassVar[bool] = True
    reads_ahead: bool = True
    _is_live: ClassVar[bool] = False  # whether its bytes come over time

    def __init__(
        self,
        file: str | os.PathLike[str] | int,
        form: str | None = None,
        facts: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        *,
        name: str | None = None,
        idle_end: float | None = None,
    ) -> None:
        path = file if isinstance(file, int) else os.fspath(file)
        self.name = name or (f"descriptor {path}" if isinstance(path, int) else path)
        self.paths = (path,) if self.replayable else ()
        self._settings = form or form_of(self.name), facts, columns
        self._file = GrowingFile(path, idle_end, self.name)
        self._begin()

    def _begin(self) -> None:
        self._decoder = open_decoder(*self._settings)
        self._ended = False
        self._failure: Exception | None = None

    def open(self, position: Position = None) -> None:
        """Open the file and go to a record."""
        self._begin()
        path, place = self._file.path, position or {"offset": 0}
        start = int(place.get("start", 0))
        if position is None and isinstance(path, int):
            start = door.lseek(path, 0, os.SEEK_CUR)
        byte = start + int(place["offset"])
        self._file.open(byte, start)
        if position is not None:
            self._file.check(byte, position["mark"])
            self._decoder.restore(position)

    def poll(self, most: int, wait: float) -> Records | None:
        """Return what has come; more bytes are read while there are any and they do not make a batch yet."""
        deadline, read = door.monotonic() + wait, 0
        while not self._ended:
            ready = self._decoder.ready
            if ready >= most or (ready and read >= POLL_BYTES):
                break
            wait = 0.0 if ready else deadline - door.monotonic()
            try:
                data = self._read(max(0.0, wait))
                if data:
                    self._decoder.feed(data, door.monotonic())
                elif data is not None:
                    self._ended = True
                    self._finish()
            except Exception as error:  # raised once what came before it has been taken
                self._failure, self._ended, data = error, True, b""
            if data is None and wait <= 0:
                break
            read += len(data or b"")
        if self._decoder.ready or not self._ended:
            return self._taken(most)
        if self._failure is not None:
            raise self._failure
        return None

    def _read(self, wait: float) -> bytes | None:
        """Return the next bytes, nothing at the end, None if none came within so many seconds."""
        data = self._file.at(self._file.read_to, READ_BYTES)
        self._file.read_to += len(data)
        return data

    def _finish(self) -> None:
        self._decoder.finish()

    def _taken(self, most: int) -> Records:
        """Return records whose position, if they have one, says what the file was up to there."""
        records = self._decoder.take(most)
        if not self._is_live:
            # How long a line waited in a file says nothing; the clock runs from here.
            records.arrived = np.full(len(records), door.monotonic())
        if not self.replayable:
            records.position = None
        elif records.position is not None:
            start = self._file.fixed_from
            mark = self._file.mark(start + records.position["offset"])
            records.position = {**records.position, "start": start, "mark": mark}
        return records

    def close(self) -> None:
        """Close the file, if it was opened here."""
        self._file.close()


class PipeSource(FileSource):
    """NDJSON, CSV or npy messages from a pipe, socket or terminal, whose descriptor is not closed."""

    replayable: ClassVar[bool] = False
    reads_ahead = False
    _is_live: ClassVar[bool] = True

    def open(self, position: Position = None) -> None:
        """Begin to listen."""
        self._begin()

    def _read(self, wait: float) -> bytes | None:
        descriptor = int(self._file.path)
        return door.read(descriptor, READ_BYTES) if door.is_readable(descriptor, wait) else None


class GrowingTable(FileSource):
    """Rows of a CSV or NDJSON file, as they are appended.

    Parameters
    ----------
    path : path
        Must exist, but may still be empty.
    model_facts, columns
        See :func:`open_source`.
    form : {"csv", "ndjson"}, optional
        By default the file's name decides, or else its first bytes.
    idle_end : float, optional
        Seconds without growth after which the file counts as finished; None follows it forever.

    Notes
    -----
    A line is read once its newline has arrived. When the file counts as finished, a line
    without one is rejected: its last number may be incomplete.
    """

    reads_ahead = False
    _is_live: ClassVar[bool] = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        model_facts: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        form: str | None = None,
        idle_end: float | None = None,
    ) -> None:
        super().__init__(path, form, model_facts, columns, idle_end=idle_end)
        if self._settings[0] == "npy":
            raise InvalidInputError(f"{self.name}: a growing table is CSV or NDJSON, not npy")

    def open(self, position: Position = None) -> None:
        """Open the file and go to a line."""
        super().open(position)
        self._told_half = False

    def poll(self, most: int, wait: float) -> Records | None:
        """Return lines that are there in whole; at the end, once, one that was never finished."""
        records = super().poll(most, wait)
        if records is not None or self._told_half:
            return records
        self._told_half = True
        records = self._taken(0)
        place = records.position or {"offset": 0, "number": 0}
        left = self._file.at(int(place["offset"]), 200)
        if not left.strip():
            return None
        reason = "the line has no newline, although the file stopped growing; its last value may be cut off"
        records.rejected = (Rejected(place["number"], reason, excerpt(left)),)
        return records

    def _read(self, wait: float) -> bytes | None:
        data = self._file.read(READ_BYTES)
        if not data and not (self._file.finished and not self._decoder.ready):
            self._file.pause(wait)
            return None
        return data

    def _finish(self) -> None:
        pass  # a line that was never finished is no record


def open_decoder(
    form: str | None = None, facts: Mapping[str, Any] | None = None, columns: Sequence[str] | None = None
) -> Decoder:
    """Return a decoder for a form, by default for the first bytes; facts and columns as in :func:`open_source`."""
    facts = dict(facts or {})
    if form is None:
        return _Sniffing(facts, columns)
    if form in ("csv", "ndjson"):
        return LineDecoder((CsvParser if form == "csv" else JsonParser)(facts, columns))
    if form == "npy":
        if columns is not None:
            raise InvalidInputError("npy messages have no columns to choose; leave columns out")
        return NpyDecoder(facts)
    raise InvalidInputError(f"the format must be one of {', '.join(table_streams())}, got {form!r}")


class _Sniffing(Decoder):
    """Finds out the format from the first bytes."""

    def __init__(self, facts: Mapping[str, Any], columns: Sequence[str] | None) -> None:
        self._settings = facts, columns
        self._head = b""
        self._inner: Decoder | None = None

    def feed(self, data: bytes, arrived: float) -> None:
        if self._inner is None:
            self._head += data
            start = self._head.removeprefix(BOM).lstrip()
            if not start or BOM.startswith(self._head) or (len(start) < 6 and b"\x93NUMPY".startswith(start)):
                return
            form = "npy" if start.startswith(b"\x93") else "ndjson" if start[:1] in b"[{" else "csv"
            self._inner = open_decoder(form, *self._settings)
            data, self._head = self._head, b""
        self._inner.feed(data, arrived)

    def finish(self) -> None:
        if self._inner is not None:
            self._inner.finish()
        elif self._head.strip():
            raise InvalidInputError(f"{excerpt(self._head)!r} is neither CSV, NDJSON nor npy")

    @property
    def ready(self) -> int:
        return 0 if self._inner is None else self._inner.ready

    def take(self, most: int) -> Records:
        return Records.none() if self._inner is None else self._inner.take(most)

    def restore(self, position: Position) -> None:
        self._inner = open_decoder(position["format"], *self._settings)
        self._inner.restore(position)
