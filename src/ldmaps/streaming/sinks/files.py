"""Embedded records, events and rejected records as text, in files that survive a crash, or on stdout.

write ──► one system call a batch ──► flush ──► fsync, and a mark: length and last bytes
                                        ▲
                      rewind(mark) ─────┘ cuts the file back to it
"""

from __future__ import annotations

import json
import math
import os
import sys
import zlib
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import CheckpointError, InvalidInputError
from ldmaps.files import sync_folder
from ldmaps.inputs.formats import output_format
from ldmaps.streaming.checkpoint import lock
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.sinks.base import Sink
from ldmaps.text_rows import formatted_rows, number_format, quoted

__all__ = ["EventsFile", "OutputFile", "QuarantineFile", "TextSink"]

#: Bytes before a mark by which a file is known again.
_TAIL = 1024


class TextSink(Sink):
    """What all sinks that write text share.

    Parameters
    ----------
    path : path
        "-" is stdout, which is flushed after every batch and is not durable.
    overwrite : bool
        Whether a file that is there may be replaced. Without it, only an empty one is.
    """

    durable = True

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = os.fspath(path)
        self.durable = self.path != "-"
        self.name = os.path.abspath(self.path) if self.durable else "stdout"
        self._overwrite = overwrite
        self._descriptor: int | None = None
        self._length = 0
        self._end = b""  # the last bytes of the file

    @abstractmethod
    def _text(self, embedded: Embedded) -> bytes:
        """Return what is to be written."""

    def write(self, embedded: Embedded) -> None:
        """Append a batch."""
        data = self._text(embedded)
        if not data:
            return
        if not self.durable:
            _to_stdout(data)
            self._length += len(data)
            return
        descriptor = self._opened()
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError:
            # A disk that is full may have taken half a line: nothing half-written stays.
            with suppress(OSError):
                os.ftruncate(descriptor, self._length)
                os.lseek(descriptor, self._length, os.SEEK_SET)
            raise
        self._length += len(data)
        self._end = (self._end + data)[-_TAIL:] if len(data) < _TAIL else data[-_TAIL:]

    def flush(self) -> Any:
        """Make everything written so far safe; return the file's length and a checksum of its last bytes."""
        if not self.durable:
            return None
        os.fsync(self._opened())
        return {"bytes": self._length, "tail": zlib.crc32(self._end)}

    def rewind(self, mark: Any) -> None:
        """Cut the file back to a mark, after making sure that it is the file the mark was made for."""
        if not self.durable:
            return
        if mark is None:
            self._overwrite = True
            self._opened()
            return
        length = int(mark["bytes"])
        try:
            descriptor = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        except FileNotFoundError as error:
            raise CheckpointError(
                f"the output {self.path} is missing, but the checkpoint says that {length} bytes were written; "
                "put it back, or start over with another checkpoint"
            ) from error
        self._take(descriptor)
        try:
            self._cut(descriptor, length, mark["tail"])
        except BaseException:
            self.close()
            raise

    def _cut(self, descriptor: int, length: int, tail: int) -> None:
        size = os.fstat(descriptor).st_size
        if not 0 <= length <= size:
            raise CheckpointError(
                f"the output {self.path} has {size} bytes, but the checkpoint says that {length} were written; "
                "put it back, or start over with another checkpoint and another output"
            )
        begin = max(0, length - _TAIL)
        os.lseek(descriptor, begin, os.SEEK_SET)
        self._end = os.read(descriptor, length - begin)
        if zlib.crc32(self._end) != tail:
            raise CheckpointError(
                f"the output {self.path} is not what the checkpoint was made for: it differs before byte {length}; "
                "put it back, or start over with another checkpoint and another output"
            )
        os.ftruncate(descriptor, length)
        os.lseek(descriptor, length, os.SEEK_SET)
        self._length = length

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is not None:
            return self._descriptor
        folder = os.path.dirname(self.path) or "."
        if os.path.isdir(self.path):
            raise InvalidInputError(f"the output {self.path} is a directory; name a file")
        if not os.path.isdir(folder):
            raise InvalidInputError(f"there is no directory {folder} for the output; create it first")
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        self._take(descriptor)
        if os.fstat(descriptor).st_size and not self._overwrite:
            self.close()
            raise InvalidInputError(
                f"{self.path} exists already; name another output, overwrite it (--force), or go on with its checkpoint"
            )
        os.ftruncate(descriptor, 0)
        sync_folder(folder)
        return descriptor

    def _take(self, descriptor: int) -> None:
        self._descriptor = descriptor
        if not lock(descriptor):
            self.close()
            raise InvalidInputError(f"another process is writing to {self.path}; name another output")


class OutputFile(TextSink):
    """Coordinates, coverage and region of every record, as CSV or NDJSON.

    Parameters
    ----------
    path : path
        Ends in .csv, .tsv, .ndjson or .jsonl; "-" is stdout, as CSV.
    regions : sequence of str
        The tracker's ``names``; without them regions are told by number.
    form : {"csv", "tsv", "ndjson"}, optional
        By default what the name tells.
    overwrite : bool
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        regions: Sequence[str] = (),
        form: str | None = None,
        overwrite: bool = False,
    ) -> None:
        super().__init__(path, overwrite=overwrite)
        self._form = form or output_format(self.path, "stream").name.lower()
        self._delimiter = "\t" if self._form == "tsv" else ","
        if self._form == "ndjson":
            labels = [*(json.dumps(name) for name in regions), "null"]
        else:
            labels = [*(quoted(name, self._delimiter) for name in regions), ""]
        self._regions = np.array(labels, dtype=object)
        self._names: list[str] = []

    def _text(self, embedded: Embedded) -> bytes:
        n = len(embedded)
        as_json = self._form == "ndjson"
        if not self._names:
            psi = (f"psi{place}" for place in range(2, embedded.coordinates.shape[1] + 2))
            self._names = ["number", "time", *psi, "distance", "inside", "nearest", "region"]
        head = b"" if self._length or as_json else (self._delimiter.join(self._names) + "\n").encode()
        if n == 0:
            return head
        unknown = "null" if as_json else ""
        times = ("%s", [unknown] * n)
        if embedded.times is not None:
            times = _numbers(embedded.times, "%.10g", unknown)
        number = number_format(embedded.coordinates.dtype)
        distance, inside, nearest = embedded.coverage
        columns = [
            ("%d", embedded.numbers.tolist()),
            times,
            *(_numbers(column, number, unknown) for column in embedded.coordinates.T),
            _numbers(distance, "%.5g", unknown),
            ("%s", np.where(inside, "true", "false").tolist()) if as_json else ("%d", inside.tolist()),
            ("%d", nearest.tolist()),
            ("%s", self._labels(embedded.regions)),
        ]
        values = [column for _, column in columns]
        if as_json:
            pairs = (f'"{name}": {cell}' for name, (cell, _) in zip(self._names, columns, strict=True))
            return formatted_rows("{" + ", ".join(pairs) + "}\n", values)
        return head + formatted_rows(self._delimiter.join(cell for cell, _ in columns) + "\n", values)

    def _labels(self, regions: NDArray[np.intp]) -> list[str]:
        missing = int(regions.max()) + 2 - len(self._regions)
        if missing > 0:  # regions without a name are told by their number
            numbers = [str(place) for place in range(len(self._regions) - 1, int(regions.max()) + 1)]
            self._regions = np.array([*self._regions[:-1], *numbers, self._regions[-1]], dtype=object)
        labels: list[str] = self._regions[regions].tolist()
        return labels


class EventsFile(TextSink):
    """What happened to regions, one JSON object a line: kind, region, number, time, duration."""

    def _text(self, embedded: Embedded) -> bytes:
        return _lines(event.as_dict() for event in embedded.events)


class QuarantineFile(TextSink):
    """Records that could not be embedded, one JSON object a line: number, reason, raw."""

    takes_rejected = True

    def _text(self, embedded: Embedded) -> bytes:
        return _lines(vars(one) for one in embedded.rejected)


def _numbers(column: NDArray[Any], form: str, unknown: str) -> tuple[str, list[Any]]:
    """Return a column's format and values; NaN and infinity, which JSON does not have, are left out."""
    values = column.tolist()
    # For a single record the call of numpy would cost more than the rest.
    if all(map(math.isfinite, values)) if len(values) < 16 else np.isfinite(column).all():
        return form, values
    return "%s", [form % value if math.isfinite(value) else unknown for value in values]


def _lines(values: Any) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode(errors="replace")


def _to_stdout(data: bytes) -> None:
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # a notebook's, a test's
        sys.stdout.write(data.decode())
    else:
        buffer.write(data)
    sys.stdout.flush()
